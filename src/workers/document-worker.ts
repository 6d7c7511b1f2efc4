// The worker thread that parses large template and policy files. It has no access to database, files or network, and is
// stopped when it takes too long (documents.ts).
import { readPolicyFile, readTemplateFile } from "../domain/documents.ts";
import type { PolicyFile, DocumentRefusal, TemplateFile } from "../domain/documents.ts";
import { serveTasks } from "./task-protocol.ts";

export type DocumentTask = { kind: "template" | "policy"; bytes: Uint8Array };
export type DocumentResult = TemplateFile | PolicyFile | DocumentRefusal;

serveTasks<DocumentTask, DocumentResult>(({ kind, bytes }) => {
  const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return kind === "template" ? readTemplateFile(file) : readPolicyFile(file);
});
