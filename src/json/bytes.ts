/** Measures the JSON text of a value without writing it. */
import { JsonText } from "./text.ts";

/** Of one UTF-16 code unit in JSON: `\u0001`. */
const MAX_CHARACTER_BYTES = 6;
/** Of one number in JSON, such as -1.2345678901234567e-300. */
const MAX_NUMBER_BYTES = 25;

/**
 * Whether the JSON text of `value` has at most `maxBytes` bytes in UTF-8. Stops at the bound, so its cost depends on
 * the bound and not on the value.
 * @param value a result of JSON.parse or parseExact, nested at most as deeply as bodies may be
 */
export const isWithinBytes = (value: unknown, maxBytes: number): boolean =>
  // The cheap upper bound decides for nearly all values; only the others are measured exactly.
  countBytes(value, maxBytes, UPPER_BOUND) <= maxBytes || countBytes(value, maxBytes, EXACT) <= maxBytes;

type Measure = { ofText(text: string, left: number): number; ofNumber(number: number): number };
const UPPER_BOUND: Measure = {
  ofText: (text) => text.length * MAX_CHARACTER_BYTES + 2,
  ofNumber: () => MAX_NUMBER_BYTES,
};
const EXACT: Measure = {
  ofText: (text, left) => (text.length > left ? Infinity : Buffer.byteLength(JSON.stringify(text))),
  ofNumber: (number) => String(number).length,
};

function countBytes(value: unknown, maxBytes: number, { ofText, ofNumber }: Measure): number {
  let bytes = 0;
  const add = (item: unknown): void => {
    if (bytes > maxBytes) return;
    if (typeof item === "string") bytes += ofText(item, maxBytes - bytes);
    else if (typeof item === "number") bytes += ofNumber(item);
    else if (typeof item !== "object" || item === null) bytes += item === false ? 5 : 4;
    else if (item instanceof JsonText) bytes += Buffer.byteLength(item.text);
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
