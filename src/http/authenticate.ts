/**
 * The two ways a key arrives (http-api-v2, Authentication): `Bearer KEY`, or `Basic base64(KEY:anything)` with the key as
 * user name. Only the text of the key is taken out here; whether it is valid is the store's business.
 */

/** A key longer than this is nobody's: ours have 43 characters, the apply file takes up to 1024. */
const LONGEST_KEY = 1024;

/** The key of an Authorization header, null when there is none or it is malformed. */
export function credentialOf(header: string | undefined): string | null {
  if (header === undefined) return null;
  const [, scheme = "", rest = ""] = /^(\S+) +(\S+) *$/.exec(header) ?? [];
  const key = scheme.toLowerCase() === "bearer" ? rest : scheme.toLowerCase() === "basic" ? userName(rest) : null;
  return key === null || key === "" || key.length > LONGEST_KEY ? null : key;
}

function userName(base64: string): string | null {
  const text = Buffer.from(base64, "base64").toString("utf8");
  const colon = text.indexOf(":");
  return colon === -1 ? text : text.slice(0, colon);
}
