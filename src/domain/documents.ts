/**
 * Uploaded template and policy files: bytes in, what is stored of them or the text of the refusal out. Pure, so that
 * small files are read in the main thread and large ones in another one (workers/documents.ts).
 */
import type { ControlReference } from "./policy/ast.ts";
import { renderDiagnostics } from "./policy/diagnostics.ts";
import { controlReferencesOf, parsePolicy } from "./policy/document.ts";
import { serializePolicy } from "./policy/stored.ts";
import { parseTemplate, renderTemplateProblems } from "./flow-template/template.ts";
import { decodeUtf8 } from "./text/utf8.ts";

/**
 * Largest file, in bytes, that is read in the main thread: the worst that was found takes 25 ms. What is stored of a
 * larger one has its parsed form beside the text, so that nothing larger is ever read there again.
 */
export const MAX_INLINE_DOCUMENT_BYTES = 8_192;

/** Text of the refusal, as the field error of the file. */
export type DocumentRefusal = { refusal: string };

/** `text` is the file, character for character, a byte order mark included; `parsedJson` its template as JSON text. */
export type TemplateFile = { text: string; parsedJson: string };

/** `yaml` is the file as above, `parsedJson` what `serializePolicy` makes of it, `controls` what its rules refer to. */
export type PolicyFile = { yaml: string; parsedJson: string; controls: readonly ControlReference[] };

/** Reads a template file; the refusal is the text of messages 12. */
export function readTemplateFile(bytes: Buffer): TemplateFile | DocumentRefusal {
  const { text, broken } = decodeUtf8(bytes);
  if (broken) {
    const problem = "Not UTF-8: save the file with this encoding";
    return { refusal: renderTemplateProblems([{ location: "template_file", problem, ...broken }]) };
  }
  const { template, problems } = parseTemplate(text);
  return template ? { text, parsedJson: JSON.stringify(template) } : { refusal: renderTemplateProblems(problems) };
}

/** Reads a policy file; the refusal is one line that has every problem with its place (messages 13). */
export function readPolicyFile(bytes: Buffer): PolicyFile | DocumentRefusal {
  const { text: yaml, broken } = decodeUtf8(bytes);
  if (broken)
    return {
      refusal: `line ${broken.line}, column ${broken.column}: the file is not UTF-8 text. Save it in that encoding`,
    };
  const { policy, problems } = parsePolicy(yaml);
  if (!policy) return { refusal: renderDiagnostics(problems) };
  return { yaml, parsedJson: serializePolicy(policy), controls: controlReferencesOf(policy) };
}
