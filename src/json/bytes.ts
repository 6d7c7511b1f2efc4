/** How long the JSON text of a value is, without writing it. */

/** The most bytes that one UTF-16 code unit takes in JSON: `\u0001`. */
const MAX_BYTES_OF_CHARACTER = 6;
/** No number is longer in JSON, such as -1.2345678901234567e-300. */
const MAX_BYTES_OF_NUMBER = 25;

/**
 * Whether the JSON text of `value` has at most `maxBytes` bytes in UTF-8. Stops at the bound, so its cost follows from
 * the bound and not from the value. @param value what JSON.parse gives, nested as deeply as bodies may be
 */
export const isWithinBytes = (value: unknown, maxBytes: number): boolean =>
  countedBytes(
    value,
    maxBytes,
    (text) => text.length * MAX_BYTES_OF_CHARACTER + 2,
    () => MAX_BYTES_OF_NUMBER,
  ) <= maxBytes ||
  // The cheap upper bound decides for nearly all values; only the others are measured exactly.
  countedBytes(
    value,
    maxBytes,
    (text, left) => (text.length > left ? Infinity : Buffer.byteLength(JSON.stringify(text))),
    (number) => String(number).length,
  ) <= maxBytes;

function countedBytes(
  value: unknown,
  maxBytes: number,
  ofText: (text: string, left: number) => number,
  ofNumber: (number: number) => number,
): number {
  let bytes = 0;
  const add = (item: unknown): void => {
    if (bytes > maxBytes) return;
    if (typeof item === "string") bytes += ofText(item, maxBytes - bytes);
    else if (typeof item === "number") bytes += ofNumber(item);
    else if (typeof item !== "object" || item === null) bytes += item === false ? 5 : 4;
    else if (Array.isArray(item)) {
      bytes += 2 + Math.max(0, item.length - 1);
      for (let i = 0; i < item.length && bytes <= maxBytes; i += 1) add(item[i]);
    } else {
      let members = 0;
      for (const key in item) {
        if (bytes > maxBytes) return;
        members += 1;
        bytes += 1 + ofText(key, maxBytes - bytes);
        add((item as Record<string, unknown>)[key]);
      }
      bytes += 2 + Math.max(0, members - 1);
    }
  };
  add(value);
  return bytes;
}
