/**
 * What a password may be. Length is what makes one hard to guess; rules about its characters only make it hard to
 * remember, so there are none. How a text is written on the way to its hash follows the profile OpaqueString (RFC 8265,
 * 4.2): the same password typed on two keyboards is the same, and yet `ﬁ` and `fi` are not, as they would be under
 * NFKC.
 */

/** Characters. */
export const SHORTEST_PASSWORD = 12;
/** Bytes in UTF-8. Longer ones only cost work before anybody is known. */
export const LONGEST_PASSWORD = 1024;

/**
 * The one form of a password that is hashed; null for a text that cannot be one, because nobody could type it again.
 */
export function passwordForm(text: string): string | null {
  if (!text.isWellFormed() || /\p{Cc}/u.test(text)) return null;
  const form = text.replace(/\p{Zs}/gu, " ").normalize("NFC");
  return form === "" || new TextEncoder().encode(form).length > LONGEST_PASSWORD ? null : form;
}

/**
 * What is wrong with a new password of the user with that login name, as the end of a sentence; null when nothing is.
 */
export function passwordProblem(text: string, loginName: string): string | null {
  const form = passwordForm(text);
  if ([...text].length < SHORTEST_PASSWORD || (form !== null && [...form].length < SHORTEST_PASSWORD))
    return `a password has at least ${SHORTEST_PASSWORD} characters`;
  if (form === null) return `a password has at most ${LONGEST_PASSWORD} bytes and no control characters`;
  return form.toLowerCase() === loginName.toLowerCase() ? "the login name is no password" : null;
}
