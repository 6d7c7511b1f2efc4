/** The part of the drawer about the minimum elements that an SBOM lacks. */
import { getSbomElements } from "../../../api/attestations/sbom-elements.ts";
import { SBOM_LABEL } from "../../../domain/attestation/kinds.ts";
import { describeBasis } from "../../../domain/sbom/elements.ts";
import { AppError } from "../../../errors.ts";
import { icon } from "../../components/icon.ts";
import { formatNumber } from "../../components/state.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import type { Visit } from "../../page/page.ts";
import type { TrailAttestation } from "./trail-entries.ts";

type Elements = AnswerOf<typeof getSbomElements>;

/** null for a record of another type. */
export async function sbomSection(visit: Visit, record: TrailAttestation): Promise<Html | null> {
  if (record.attestation_type !== SBOM_LABEL || record["unreadable"] === true) return null;
  const { flow_name, trail_name, attestation_id } = record;
  let elements: Elements;
  try {
    elements = await visit.call(getSbomElements, { params: { flow_name, trail_name, attestation_id } });
  } catch (error) {
    if (!(error instanceof AppError) || error.code === "internal") throw error;
    return html`<section><h3>Minimum elements</h3><p>The file cannot be read at the moment.</p></section>`;
  }
  const { missing, not_read: unread, unknown } = elements;
  const basis = `${describeBasis(unread)} ${missing.length === 0 ? "" : "This is a warning, not a verdict."}`.trim();
  return html`<section><h3>Minimum elements</h3>${headline(elements)}${
    missing.length > 0 && table(elements)
  }<p class="sub gap-t2">${basis}</p>${
    unknown.length > 0 && html`<p class="sub gap-t2">Not known: ${unknown.join(", ")}.</p>`
  }</section>`;
}

const headline = ({ missing, looked_at: basis }: Elements): Html => {
  if (missing.length > 0)
    return html`<p><span class="st wait">${icon("alert")}${formatNumber(missing.length)} missing</span></p>`;
  return html`<p>${basis === "document" ? "None is missing." : "None is missing of those that are known."}</p>`;
};

/** What is missing: who asks for it, and in how many components. */
function table({ components, missing }: Elements): Html {
  const rows = missing.map(({ words, asked_by: askers, components: lacking }) => {
    const extent =
      lacking === null || components === null ? "" : `${formatNumber(lacking)} of ${formatNumber(components)}`;
    return html`<tr><td><span class="t-name">${words.charAt(0).toUpperCase()}${words.slice(1)}</span><div
class="sub">${askers.join(", ")}</div></td><td class="r num">${extent}</td></tr>`;
  });
  const head = html`<th scope="col">Missing</th><th scope="col" class="r">Packages</th>`;
  return html`<table class="t"><thead><tr>${head}</tr></thead>
<tbody>${rows}</tbody></table>`;
}
