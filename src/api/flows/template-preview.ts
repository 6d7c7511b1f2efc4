/** The preview of a flow template: the mistakes of a text that is not stored. */
import { Type } from "typebox";
import { json } from "../../http/operation.ts";
import { Closed, named } from "../../http/schema.ts";
import { operation } from "../context.ts";
import { OrgPath, NoQuery } from "../paths.ts";
import { MAX_PREVIEWED_CHARS, TextProblem, TextWarnings, checkText, previewLane } from "../uploads.ts";
import { documentLane } from "./flows.ts";

const TemplatePreviewInput = named(
  "TemplatePreviewInput",
  Closed({
    template_yaml: Type.String({ maxLength: MAX_PREVIEWED_CHARS, description: "The text of the template" }),
  }),
);

const TemplatePreviewResponse = named(
  "TemplatePreview",
  Closed({
    valid: Type.Boolean({ description: "Whether the template would be accepted" }),
    problems: Type.Array(TextProblem, { description: "By position; empty for a valid text" }),
    warnings: TextWarnings,
  }),
);

export const previewTemplate = operation({
  id: "preview_template",
  method: "POST",
  path: "/flows/{org}/template_preview",
  tag: "Flows",
  summary: "Check a template without storing it",
  description:
    "Checks the text of a flow template as an upload would, and lists its mistakes by line and column. `warnings` " +
    "are about attestation types that do not exist or are archived, so that no report can meet the template. Nothing " +
    "is stored.",
  permission: "flow:read",
  audit: null,
  origin: "assay",
  onlyReads: true,
  params: OrgPath,
  query: NoQuery,
  body: json(TemplatePreviewInput),
  responses: { 200: { description: "The mistakes of the text, or its warnings", schema: TemplatePreviewResponse } },
  example: {
    params: { org: "acme" },
    body: { template_yaml: "version: 1\ntrail:\n  attestations:\n    - name: review\n      type: generic\n" },
  },
  async prepare(context, { body }) {
    const { organization, documents, policyPreviews } = context;
    const { problems } = await checkText(() =>
      documents.readTemplate(documentLane(context), Buffer.from(body.template_yaml)),
    );
    if (problems) return { valid: false, problems: [...problems], warnings: [] };
    const task = { organization, template: body.template_yaml };
    return { valid: true, problems: [], warnings: await policyPreviews.compareTemplate(previewLane(context), task) };
  },
  handle: (_context, _input, checked) => ({ status: 200, body: checked }),
});
