// A thread that compiles and runs what users wrote for their attestation types: schemas and jq expressions. It knows no
// database, no files and no network, and it is stopped when it takes too long (custom-types.ts).
import type { ExpressionRun } from "../../domain/attestation/custom.ts";
import { runJq } from "./jq.ts";
import type { JqOrder } from "./jq.ts";
import { serveTasks } from "../task-protocol.ts";
import { compileTypeSchema } from "./json-schema.ts";
import type { SchemaCheck } from "./json-schema.ts";

/** `schema` is JSON text; `data`, JSON text in UTF-8, is checked with it. Null: the schema is only compiled. */
export type SchemaTask = { kind: "schema"; schema: string; data: Uint8Array | null };
export type JqTask = { kind: "jq" } & JqOrder;

/** What is wrong with the schema, and what does not fit; one line each, null where nothing is. */
export type SchemaResult = { problem: string | null; mismatch: string | null };
/** `took`: milliseconds. */
export type SandboxResult = { output: SchemaResult | ExpressionRun; tookMs: number };

/** The schemas used last, by their text. */
const kept = new Map<string, SchemaCheck>();
const KEPT_SCHEMAS = 32;
/** A schema of this length compiles in some fifty milliseconds; larger ones are rare, and memory is bounded. */
const KEPT_CHARACTERS = 65_536;

function compiledSchema(text: string): SchemaCheck {
  const known = kept.get(text);
  if (known) {
    kept.delete(text);
    kept.set(text, known);
    return known;
  }
  const check = compileTypeSchema(JSON.parse(text) as Record<string, unknown>);
  if (text.length <= KEPT_CHARACTERS) kept.set(text, check);
  for (const oldest of kept.keys()) {
    if (kept.size <= KEPT_SCHEMAS) break;
    kept.delete(oldest);
  }
  return check;
}

function checkSchema({ schema, data }: SchemaTask): SchemaResult {
  const compiled = compiledSchema(schema);
  if ("problem" in compiled) return { problem: compiled.problem, mismatch: null };
  return { problem: null, mismatch: data === null ? null : compiled.check(JSON.parse(new TextDecoder().decode(data))) };
}

serveTasks<SchemaTask | JqTask, SandboxResult>(async (task) => {
  const began = performance.now();
  const output = task.kind === "schema" ? checkSchema(task) : await runJq(task);
  return { output, tookMs: performance.now() - began };
});
