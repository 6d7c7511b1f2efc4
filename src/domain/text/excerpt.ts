/**
 * Pieces of a user's text in the middle of a message: short, and harmless to terminals and to the form of the message.
 */

/**
 * At most `limit` characters (a character beyond 16 bits counts once and is never torn), and dots where more follow.
 */
export function truncate(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const characters = Array.from(text.slice(0, 2 * limit + 1));
  return characters.length <= limit ? text : `${characters.slice(0, limit).join("")}...`;
}

/**
 * A text as part of one line: cut to `limit` characters, and what would break the line, the terminal or the encoding
 * (control characters, line separators, byte order marks, lone surrogates) written as \uXXXX.
 */
export function excerpt(text: string, limit = 80): string {
  const unsafe = /[\p{Cc}\u2028\u2029\ufeff\ufffe\uffff]|\p{Surrogate}/gu;
  return truncate(text, limit).replace(
    unsafe,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** The name of a character that cannot be shown as it is, for instance U+0000. */
export function formatCodePoint(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}
