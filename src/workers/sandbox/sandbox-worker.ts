// The worker thread that compiles and runs users' code for custom attestation types: schemas and jq expressions. It has
// no access to database, files or network, and is stopped when it takes too long (attestation-types.ts).
import type { ExpressionRun } from "../../domain/attestation/custom.ts";
import { createLru } from "../../domain/lru.ts";
import { runJq } from "./jq.ts";
import type { JqOrder } from "./jq.ts";
import { serveTasks } from "../task-protocol.ts";
import { compileTypeSchema } from "./json-schema.ts";
import type { SchemaCheck } from "./json-schema.ts";

/** `schema` is JSON text; `data` is JSON text in UTF-8 to check with it, or null to only compile the schema. */
export type SchemaTask = { kind: "schema"; schema: string; data: Uint8Array | null };
export type JqTask = { kind: "jq" } & JqOrder;
type SandboxTask = SchemaTask | JqTask;

/** The problem of the schema, and of the data; one line each, null without one. */
export type SchemaResult = { problem: string | null; mismatch: string | null };
/** `tookMs`: processor time of the thread, in milliseconds. */
export type SandboxResult = { output: SchemaResult | ExpressionRun; tookMs: number };

/** Compiled schemas by their text. */
const compiledSchemas = createLru<string, SchemaCheck>({ maxEntries: 32 });
/** A schema of this length compiles in about fifty milliseconds; larger ones are rare and would take much memory. */
const MAX_CACHED_SCHEMA_CHARS = 65_536;

function compileCached(text: string): SchemaCheck {
  const cached = compiledSchemas.get(text);
  if (cached) return cached;
  const check = compileTypeSchema(text);
  if (text.length <= MAX_CACHED_SCHEMA_CHARS) compiledSchemas.set(text, check);
  return check;
}

function checkSchema({ schema, data }: SchemaTask): SchemaResult {
  const compiled = compileCached(schema);
  if ("problem" in compiled) return { problem: compiled.problem, mismatch: null };
  return { problem: null, mismatch: data === null ? null : compiled.check(new TextDecoder().decode(data)) };
}

async function runTask(task: SandboxTask): Promise<SandboxResult> {
  const before = process.threadCpuUsage();
  const output = task.kind === "schema" ? checkSchema(task) : await runJq(task);
  const { user, system } = process.threadCpuUsage(before);
  return { output, tookMs: (user + system) / 1_000 };
}

serveTasks(runTask);
