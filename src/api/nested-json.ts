/** JSON inside a body: as a text, or as a file. As for bodies, it is bounded, and parsed in a thread if it is large. */
import type { ScanBounds } from "../json/scan.ts";
import { LARGE_JSON_BYTES, readJson } from "../http/body/read-json.ts";
import type { JsonShape } from "../http/body/read-json.ts";
import type { OperationContext } from "./context.ts";

/**
 * Parses nested JSON. `field` names it in errors about the value as a whole, `what` is the subject of a 413's message.
 * With `asText`, a large object or list is returned as JsonText.
 * @throws AppError as readJson and LargeJsonReader do
 */
export async function readNestedJson(
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
