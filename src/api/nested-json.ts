/**
 * JSON that came inside of a body: as a text, or as a file. It is bounded, and where it is large read in a thread, as a
 * body is.
 */
import type { ScanBounds } from "../json/scan.ts";
import { LARGE_JSON_BYTES, readJson } from "../http/body/read-json.ts";
import type { JsonShape } from "../http/body/read-json.ts";
import type { OperationContext } from "./context.ts";

/**
 * Reads it. `field` is blamed for what is wrong with it as a whole, `what` begins the sentence of a 413. `asText`: a
 * large object or list comes back as JsonText.
 * @throws AppError as readJson and LargeJsonReader do.
 */
export async function readNested(
  { largeJson }: Pick<OperationContext, "largeJson">,
  content: string | Buffer,
  { field, what, bounds, asText }: { field: string; what: string; bounds: ScanBounds; asText: boolean },
): Promise<unknown> {
  const bytes = Buffer.from(content as string);
  const shape: JsonShape = { root: field, what, bounds, schema: null, acceptsNull: true };
  const { value } =
    bytes.length > LARGE_JSON_BYTES
      ? await largeJson.read(bytes, shape, asText ? "whole" : [])
      : readJson(bytes, shape);
  return value;
}
