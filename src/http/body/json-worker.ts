// A thread that reads large JSON: scans, parses and checks it, and takes the value apart. It knows no database, no
// files and no network.
import type { TSchema } from "typebox";
import { AppError } from "../../errors.ts";
import type { ErrorCode, FieldErrors } from "../../errors.ts";
import { readJson } from "./read-json.ts";
import type { JsonShape } from "./read-json.ts";
import { splitJson } from "./json-pieces.ts";
import type { Pieces } from "./json-pieces.ts";
import { collectGarbage } from "../../workers/memory-reclaim.ts";
import { serveTasks } from "../../workers/task-protocol.ts";

/** `schema`: JSON text of the schema, null for none. */
export type JsonTask = {
  bytes: Uint8Array;
  shape: Omit<JsonShape, "schema"> & { schema: string | null };
  asText: readonly string[] | "whole";
};
export type JsonResult =
  | { pieces: Pieces; sentFields: readonly string[] }
  | { refusal: { code: ErrorCode; message: string; fields: FieldErrors | null } };

/** Schemas by their text: what checks them is compiled once. There are as many as operations that take large bodies. */
const schemas = new Map<string, TSchema>();

function schemaOf(text: string): TSchema {
  let schema = schemas.get(text);
  if (schema === undefined) schemas.set(text, (schema = JSON.parse(text) as TSchema));
  return schema;
}

/** Bytes of a body whose garbage is not left to the next one. */
const MUCH_BYTES = 1 << 20;

serveTasks<JsonTask, JsonResult>(({ bytes, shape, asText }) => {
  if (bytes.length > MUCH_BYTES) setImmediate(collectGarbage);
  try {
    const schema = shape.schema === null ? null : schemaOf(shape.schema);
    const { value, sentFields } = readJson(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), {
      ...shape,
      schema,
    });
    return { pieces: splitJson(value, asText), sentFields };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return { refusal: { code: error.code, message: error.message, fields: error.fields } };
  }
});
