// The worker thread that reads large JSON: scans, parses and validates it, and splits the value into pieces. It touches
// no database, no files and no network.
import type { TSchema } from "typebox";
import { AppError } from "../../errors.ts";
import type { ErrorCode, FieldErrors } from "../../errors.ts";
import { readJson } from "./read-json.ts";
import type { JsonShape } from "./read-json.ts";
import { splitJson } from "./json-pieces.ts";
import type { Pieces } from "./json-pieces.ts";
import { serveTasks } from "../../workers/task-protocol.ts";

/** `schema`: the schema as JSON text, null for none. */
export type JsonTask = {
  bytes: Uint8Array;
  shape: Omit<JsonShape, "schema"> & { schema: string | null };
  asText: readonly string[] | "whole";
};
/** `asSent`: null if it is the value. */
export type JsonResult =
  | { pieces: Pieces; asSent: Pieces | null; sentFields: readonly string[]; ignored: readonly string[] }
  | { refusal: { code: ErrorCode; message: string; fields: FieldErrors | null } };

/**
 * By text, so that each schema is compiled once. Bounded by the number of operations that take large bodies: schemas
 * never come from clients.
 */
const schemas = new Map<string, TSchema>();

function parseSchema(text: string): TSchema {
  let schema = schemas.get(text);
  if (schema === undefined) schemas.set(text, (schema = JSON.parse(text) as TSchema));
  return schema;
}

function readTask({ bytes, shape, asText }: JsonTask): JsonResult {
  try {
    const schema = shape.schema === null ? null : parseSchema(shape.schema);
    const { value, asSent, ...keys } = readJson(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), {
      ...shape,
      schema,
    });
    return {
      pieces: splitJson(value, asText),
      asSent: asSent === value ? null : splitJson(asSent, asText),
      ...keys,
    };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return { refusal: { code: error.code, message: error.message, fields: error.fields } };
  }
}

serveTasks(readTask);
