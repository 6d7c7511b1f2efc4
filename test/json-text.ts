/** Generated JSON text with what JavaScript's values do not hold: numbers of every form, keys in any order, escapes. */
import fc from "fast-check";

/** A text as clients may write it, and the same without blanks and with strings in their shortest form. */
export type GeneratedJson = { text: string; compact: string };

const digits = (max: number): fc.Arbitrary<string> =>
  fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 1, maxLength: max }).map((list) => list.join(""));
const whole = digits(25).map((text) => text.replace(/^0+(?=\d)/, ""));
const exponent = fc
  .tuple(fc.constantFrom("e", "E"), fc.constantFrom("", "+", "-"), fc.integer({ min: 0, max: 999 }))
  .map((parts) => parts.join(""));
/** A number in any form that JSON has. */
export const numberText: fc.Arbitrary<string> = fc.oneof(
  fc.integer().map(String),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => JSON.stringify(value)),
  fc.constantFrom("-0", "1.0", "9007199254740993", "18446744073709551615", "1e400", "1e-400", "0.10", "1E5"),
  fc
    .tuple(fc.constantFrom("", "-"), whole, fc.option(digits(25), { nil: null }), fc.option(exponent, { nil: "" }))
    .map(([sign, integer, fraction, power]) => `${sign}${integer}${fraction === null ? "" : `.${fraction}`}${power}`),
);

const characters = fc
  .string({ unit: "binary", maxLength: 8 })
  .map((text) => text.replaceAll("\u0000", "0").toWellFormed());
/** A string in its shortest form, or with each of its code units escaped. */
const stringText = (text: fc.Arbitrary<string>): fc.Arbitrary<GeneratedJson & { value: string }> =>
  fc.tuple(text, fc.boolean()).map(([value, isEscaped]) => ({
    value,
    compact: JSON.stringify(value),
    text: isEscaped
      ? `"${value.replace(/[^]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)}"`
      : JSON.stringify(value),
  }));

const key = stringText(fc.oneof(characters, fc.nat(30).map(String), fc.constantFrom("__proto__", "01", "-1", "1.0")));
const word = fc.constantFrom("true", "false", "null").map((text) => ({ text, compact: text }));
const number = numberText.map((text) => ({ text, compact: text }));
const blank = fc.constantFrom("", "", "", " ", "\n  ", "\t");

const join = (parts: readonly GeneratedJson[], [open, close]: string, space: string): GeneratedJson => ({
  text: `${open}${space}${parts.map(({ text }) => `${text}${space}`).join(`,${space}`)}${close}`,
  compact: `${open}${parts.map(({ compact }) => compact).join(",")}${close}`,
});

const { value } = fc.letrec<{ value: GeneratedJson; list: GeneratedJson; object: GeneratedJson }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    number,
    stringText(characters),
    word,
    tie("list"),
    tie("object"),
  ),
  list: fc.tuple(fc.array(tie("value"), { maxLength: 5 }), blank).map(([items, space]) => join(items, "[]", space)),
  object: fc
    .tuple(fc.uniqueArray(fc.tuple(key, tie("value")), { maxLength: 6, selector: ([{ value: name }]) => name }), blank)
    .map(([members, space]) =>
      join(
        members.map(([name, item]) => ({
          text: `${name.text}${space}:${space}${item.text}`,
          compact: `${name.compact}:${item.compact}`,
        })),
        "{}",
        space,
      ),
    ),
}));

export const jsonText = (): fc.Arbitrary<GeneratedJson> => value;
/** An object or a list. */
export const jsonContainer = (): fc.Arbitrary<GeneratedJson> => value.filter(({ compact }) => /^[[{]/.test(compact));
