/**
 * What a password may be. Length is what makes one hard to guess; rules about its characters only make it hard to
 * remember, so there are none. How a text is written on the way to its hash follows the profile OpaqueString (RFC 8265,
 * 4.2): the same password typed on two keyboards is the same, and yet `ﬁ` and `fi` are not, as they would be under
 * NFKC.
 */

/** Characters. */
export const MIN_PASSWORD_CHARS = 12;
/** Bytes in UTF-8. Longer ones only cost work before anybody is known. */
export const MAX_PASSWORD_BYTES = 1024;

/**
 * The one form of a password that is hashed; null for a text that cannot be one, because nobody could type it again.
 */
export function normalizePassword(text: string): string | null {
  if (!text.isWellFormed() || /\p{Cc}/u.test(text)) return null;
  const form = text.replace(/\p{Zs}/gu, " ").normalize("NFC");
  return form === "" || new TextEncoder().encode(form).length > MAX_PASSWORD_BYTES ? null : form;
}

/**
 * What is wrong with a new password of the user with that login name, as the end of a sentence; null when nothing is.
 */
export function findPasswordProblem(text: string, loginName: string): string | null {
  const form = normalizePassword(text);
  if ([...text].length < MIN_PASSWORD_CHARS || (form !== null && [...form].length < MIN_PASSWORD_CHARS))
    return `a password has at least ${MIN_PASSWORD_CHARS} characters`;
  if (form === null) return `a password has at most ${MAX_PASSWORD_BYTES} bytes and no control characters`;
  return form.toLowerCase() === loginName.toLowerCase() ? "the login name is no password" : null;
}
