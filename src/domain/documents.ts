/**
 * Parses uploaded template and policy files: bytes in, the stored form or the text of the refusal out. Pure, so that
 * the main thread can parse small files and a worker thread large ones (workers/documents.ts).
 */
import type { ControlReference } from "./policy/ast.ts";
import { listDiagnostics, renderDiagnostics } from "./policy/diagnostics.ts";
import type { FileProblem } from "./policy/diagnostics.ts";
import { controlReferencesOf, parsePolicy } from "./policy/document.ts";
import { serializePolicy } from "./policy/stored.ts";
import { listTemplateProblems, parseTemplate, renderTemplateProblems } from "./flow-template/template.ts";
import { decodeUtf8 } from "./text/utf8.ts";

/**
 * Largest file that the main thread parses: the worst case found takes 25 ms. A larger file is stored with its parsed
 * form beside the text, so that the main thread never parses it again either.
 */
export const MAX_INLINE_DOCUMENT_BYTES = 8_192;

/** `refusal` is used as the field error of the file; `problems` are the same mistakes one by one. */
export type DocumentRefusal = { refusal: string; problems: FileProblem[] };

/** `text` is the file, character for character, including a byte order mark; `parsedJson` is its template as JSON. */
export type TemplateFile = { text: string; parsedJson: string };

/** `yaml` is the file as above, `parsedJson` the result of `serializePolicy`, `controls` the controls it refers to. */
export type PolicyFile = { yaml: string; parsedJson: string; controls: readonly ControlReference[] };

/** Parses a template file; the refusal is the text of messages 12. */
export function readTemplateFile(bytes: Buffer): TemplateFile | DocumentRefusal {
  const { text, broken } = decodeUtf8(bytes);
  if (broken) {
    const problem = "Not UTF-8: save the file with this encoding";
    return refuseTemplate([{ location: "template_file", problem, ...broken }]);
  }
  const { template, problems } = parseTemplate(text);
  return template ? { text, parsedJson: JSON.stringify(template) } : refuseTemplate(problems);
}

/** Where the shape of a file is published, for problems of its shape. */
const schemaHint = (problems: readonly { problem: string }[], hint: string): string =>
  problems.some(({ problem }) => /^(?:Extra inputs|Field required)/.test(problem)) ? hint : "";

const refuseTemplate = (problems: Parameters<typeof renderTemplateProblems>[0]): DocumentRefusal => ({
  refusal: renderTemplateProblems(problems) + schemaHint(problems, "\nJSON Schema: /api/v2/schemas/flow-template/v1"),
  problems: listTemplateProblems(problems),
});

/** Parses a policy file; the refusal is one line that lists every problem with its position (messages 13). */
export function readPolicyFile(bytes: Buffer): PolicyFile | DocumentRefusal {
  const { text: yaml, broken } = decodeUtf8(bytes);
  if (broken) {
    return refusePolicy([{ ...broken, path: "", problem: "the file is not UTF-8 text. Save it in that encoding" }]);
  }
  const { policy, problems } = parsePolicy(yaml);
  if (!policy) return refusePolicy(problems);
  return { yaml, parsedJson: serializePolicy(policy), controls: controlReferencesOf(policy) };
}

const refusePolicy = (problems: Parameters<typeof renderDiagnostics>[0]): DocumentRefusal => ({
  refusal: renderDiagnostics(problems) + schemaHint(problems, "; JSON Schema: /api/v2/schemas/environment-policy/v1"),
  problems: listDiagnostics(problems),
});
