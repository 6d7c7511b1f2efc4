/** Numbers of JSON as they were written. JavaScript holds a number in 64 bits, and rounds what does not fit. */

/** Far more than any tool writes; jq and JSON Schema take time that grows with the square of the length. */
export const MAX_NUMBER_CHARS = 1_000;
/** jq computes with exponents of nine digits. */
const MAX_EXPONENT_DIGITS = 9;

/** Whether a number of JSON is longer than the server computes with. */
export function isBeyondBounds(text: string): boolean {
  if (text.length > MAX_NUMBER_CHARS) return true;
  const exponent = /[eE][+-]?0*(\d+)$/.exec(text)?.[1];
  return exponent !== undefined && exponent.length > MAX_EXPONENT_DIGITS;
}

/**
 * A number without rounding: `digits * 10^exponent`. `digits` has no zeros at its ends, and is "" for zero.
 */
type Decimal = { isNegative: boolean; digits: string; exponent: number };

function decimalOf(text: string): Decimal {
  const [, sign, whole = "", fraction = "", exponent = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? [];
  const all = (whole + fraction).replace(/^0+/, "");
  const digits = all.replace(/0+$/, "");
  return {
    isNegative: sign === "-" && digits !== "",
    digits,
    exponent: digits === "" ? 0 : Number(exponent) - fraction.length + all.length - digits.length,
  };
}

const isEqual = (a: Decimal, b: Decimal): boolean =>
  a.isNegative === b.isNegative && a.digits === b.digits && a.exponent === b.exponent;

/** The largest argument of `toPrecision`. */
const MAX_PRECISION = 100;

/**
 * Whether 64 bits hold the number: it equals the shortest notation of the nearest double, or that double written with
 * as many digits (0.10000000000000001 is how C prints 0.1). 9007199254740993 and 1e400 are not held.
 */
export function isHeld(text: string): boolean {
  const value = Number(text);
  if (!Number.isFinite(value)) return false;
  const written = decimalOf(text);
  if (isEqual(written, decimalOf(String(value)))) return true;
  const precision = written.digits.length;
  return precision <= MAX_PRECISION && precision > 0 && isEqual(written, decimalOf(value.toPrecision(precision)));
}

/** Whether JavaScript computes with exactly this number. */
export const isExact = (text: string): boolean => {
  const value = Number(text);
  return Number.isFinite(value) && isEqual(decimalOf(text), decimalOf(String(value)));
};

/** Whether JavaScript would write the number with the same characters. */
export const isCanonical = (text: string): boolean => String(Number(text)) === text;

/** Whether the number has no fraction: 1.0 and 1e400 have none. */
export const isInteger = (text: string): boolean => decimalOf(text).exponent >= 0;

/** A text that two numbers share exactly if they are equal: 1e400 and 10e399 do. */
export function normalizeNumber(text: string): string {
  const { isNegative, digits, exponent } = decimalOf(text);
  return `${isNegative ? "-" : ""}${digits}e${exponent}`;
}

/** Negative, 0 or positive, as for a comparison function. */
export function compareNumbers(a: string, b: string): number {
  const [x, y] = [decimalOf(a), decimalOf(b)];
  if (x.digits === "" || y.digits === "" || x.isNegative !== y.isNegative) return signOf(x) - signOf(y);
  const magnitude = x.digits.length + x.exponent - (y.digits.length + y.exponent);
  const length = Math.max(x.digits.length, y.digits.length);
  const [left, right] = [x.digits.padEnd(length, "0"), y.digits.padEnd(length, "0")];
  const larger = magnitude || (left < right ? -1 : left > right ? 1 : 0);
  return x.isNegative ? -larger : larger;
}

const signOf = ({ isNegative, digits }: Decimal): number => (digits === "" ? 0 : isNegative ? -1 : 1);

/** Whether `a / b` has no rest, counted in decimals: 19.99 is a multiple of 0.01. False for a `b` of zero. */
export function isMultiple(a: string, b: string): boolean {
  const [x, y] = [decimalOf(a), decimalOf(b)];
  if (y.digits === "") return false;
  if (x.digits === "") return true;
  const shift = x.exponent - y.exponent;
  // The digits of x do not end in a zero, so no multiple of ten divides them.
  if (shift < 0) return false;
  const divisor = BigInt(y.digits);
  return (BigInt(x.digits) * powerOfTen(shift, divisor)) % divisor === 0n;
}

/** 10^exponent modulo `modulus`, which is as fast for 1e999999999 as for 1e10. */
function powerOfTen(exponent: number, modulus: bigint): bigint {
  let [result, base, left] = [1n, 10n % modulus, exponent];
  for (; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) result = (result * base) % modulus;
    base = (base * base) % modulus;
  }
  return result;
}
