/** JSON inside a body: as a text, or as a file. As for bodies, it is bounded, and parsed in a thread if it is large. */
import type { ScanBounds } from "../json/scan.ts";
import { LARGE_JSON_BYTES, readJson } from "../http/body/read-json.ts";
import type { JsonShape } from "../http/body/read-json.ts";
import type { ReadingContext } from "./context.ts";

/**
 * Parses nested JSON. `field` names it in errors about the value as a whole, `what` is the subject of a 413's message.
 * @returns `value`, whose numbers are rounded, unless `asText` asks for a large object or list as JsonText; and the
 * same as it was sent
 * @throws AppError as readJson and LargeJsonReader do
 */
export async function readNestedJson(
  { largeJson }: Pick<ReadingContext, "largeJson">,
  content: string | Buffer,
  { field, what, bounds, asText }: { field: string; what: string; bounds: ScanBounds; asText: boolean },
): Promise<{ value: unknown; asSent: unknown }> {
  const bytes = Buffer.from(content as string);
  const shape: JsonShape = { root: field, what, bounds, schema: null, acceptsNull: true, keeps: "whole" };
  return bytes.length > LARGE_JSON_BYTES ? largeJson.read(bytes, shape, asText ? "whole" : []) : readJson(bytes, shape);
}
