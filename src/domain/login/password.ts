/**
 * The password rules. Length makes a password hard to guess; rules about its characters only make it hard to remember,
 * so there are none. Passwords are normalized before hashing by the OpaqueString profile (RFC 8265, 4.2): the same
 * password typed on two keyboards is equal, and yet `ﬁ` and `fi` differ, which they would not under NFKC.
 */

export const MIN_PASSWORD_CHARS = 12;
/** Bytes of UTF-8. Longer passwords only cost work before the user is authenticated. */
const MAX_PASSWORD_BYTES = 1024;

/** The normalized form of a password, which is hashed; null for a text that cannot be typed and so cannot be one. */
export function normalizePassword(text: string): string | null {
  if (!text.isWellFormed() || /\p{Cc}/u.test(text)) return null;
  const form = text.replace(/\p{Zs}/gu, " ").normalize("NFC");
  return form === "" || new TextEncoder().encode(form).length > MAX_PASSWORD_BYTES ? null : form;
}

/** What is wrong with a new password for the user with that login name, as a clause; null if it is valid. */
export function findPasswordProblem(text: string, loginName: string): string | null {
  const form = normalizePassword(text);
  if ([...text].length < MIN_PASSWORD_CHARS || (form !== null && [...form].length < MIN_PASSWORD_CHARS))
    return `a password must have at least ${MIN_PASSWORD_CHARS} characters`;
  if (form === null) return `a password must have at most ${MAX_PASSWORD_BYTES} bytes and no control characters`;
  return form.toLowerCase() === loginName.toLowerCase() ? "a password must differ from the login name" : null;
}
