/** Excerpts of user texts in messages: short, and harmless to terminals and to the format of the message. */

/** At most `maxChars` characters, then dots if more follow. Surrogate pairs count as one and are never split. */
export function truncate(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  const characters = Array.from(text.slice(0, 2 * maxChars + 1));
  return characters.length <= maxChars ? text : `${characters.slice(0, maxChars).join("")}...`;
}

/**
 * A text truncated to `maxChars` characters for use in a line. Characters that would break the line, the terminal or
 * the encoding (control characters, line separators, byte order marks, lone surrogates) become \uXXXX.
 */
export function excerpt(text: string, maxChars = 80): string {
  const unsafe = /[\p{Cc}\u2028\u2029\ufeff\ufffe\uffff]|\p{Surrogate}/gu;
  return truncate(text, maxChars).replace(
    unsafe,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** The code point of a character that is not printable, for instance U+0000. */
export function formatCodePoint(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}
