/**
 * `/{org}/flows/{flow}/trails/{trail}/evidence?attestation_id=`: the preview of an evidence file, for a sandboxed frame
 * in the drawer. It is an answer without the frame, also when it is refused.
 */
import { getEvidence } from "../../../api/attestations/evidence.ts";
import { AppError } from "../../../errors.ts";
import { STATUS_BY_ERROR } from "../../../http/response.ts";
import { html } from "../../html.ts";
import { page } from "../../page/page.ts";
import { previewOf, previewPage } from "./evidence-preview.ts";

export const evidencePage = page({
  path: "/{org}/flows/{flow}/trails/{trail}/evidence",
  async show({ open, params, query, preferences: { theme } }) {
    try {
      const found = await open(getEvidence, {
        params: {
          flow_name: params["flow"] ?? "",
          trail_name: params["trail"] ?? "",
          attestation_id: query.get("attestation_id") ?? "",
        },
      });
      if (!("download" in found)) throw new Error("evidence is a file of known size");
      return await previewOf(found, theme);
    } catch (error) {
      if (!(error instanceof AppError) || error.code === "internal") throw error;
      return previewPage("Evidence", html`<p>${error.message}.</p>`, { theme, status: STATUS_BY_ERROR[error.code] });
    }
  },
});
