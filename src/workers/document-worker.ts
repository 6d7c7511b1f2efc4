// The worker thread that parses large template and policy files, and reads SBOMs. It has no access to database, files
// or network, and is stopped when it takes too long (documents.ts).
import { readPolicyFile, readTemplateFile } from "../domain/documents.ts";
import { locateExpectations } from "../domain/flow-template/lines.ts";
import type { TemplateLines } from "../domain/flow-template/lines.ts";
import { locateRules } from "../domain/policy/lines.ts";
import type { PolicyLines } from "../domain/policy/lines.ts";
import type { PolicyFile, DocumentRefusal, TemplateFile } from "../domain/documents.ts";
import type { ReadDocument } from "../domain/sbom/document.ts";
import { readBoundedSbom } from "./sbom-document.ts";
import { serveTasks } from "./task-protocol.ts";

export type DocumentTask = {
  kind: "template" | "policy" | "template_lines" | "policy_lines" | "sbom";
  bytes: Uint8Array;
};
/** Lines are wrapped, because a refusal is recognized by its property. */
export type DocumentResult =
  | TemplateFile
  | PolicyFile
  | DocumentRefusal
  | { lines: TemplateLines }
  | { lines: PolicyLines }
  | { sbom: ReadDocument };

function readDocument({ kind, bytes }: DocumentTask): DocumentResult {
  const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  switch (kind) {
    case "template":
      return readTemplateFile(file);
    case "policy":
      return readPolicyFile(file);
    case "template_lines":
      return { lines: locateExpectations(file.toString()) };
    case "policy_lines":
      return { lines: locateRules(file.toString()) };
    case "sbom":
      return { sbom: readBoundedSbom(file) };
  }
}

// Every file that comes here is large, and its parsed form a hundred times larger.
serveTasks(readDocument);
