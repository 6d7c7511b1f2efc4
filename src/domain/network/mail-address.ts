/** Mail addresses, senders and servers in options and requests. */

/** A mail server. `secure` means TLS from the first byte; without a user there is no authentication. */
export type MailServer = { host: string; port: number; secure: boolean; user: string | null; password: string | null };

/** TLS of the connection to a mail server: required, used if the server offers it, or not used. */
export type MailTls = "required" | "optional" | "off";

export type Mailbox = { name: string; address: string };

const LOCAL_PART = /^[^\s\x00-\x1f\x7f<>()[\]\\,;:"@]{1,64}$/u;
const LABEL = String.raw`[\p{L}\p{N}](?:[\p{L}\p{N}\p{M}-]*[\p{L}\p{N}\p{M}])?`;
const DOMAIN = new RegExp(String.raw`^(?=.{1,253}$)${LABEL}(?:\.${LABEL})*$`, "u");

/** What the API document publishes of isMailAddress: the form of the local part, and that a domain follows. */
export const MAIL_ADDRESS_PATTERN = String.raw`^[^\s\x00-\x1f\x7f<>()\[\]\\,;:"@]{1,64}@[^\s\x00-\x1f\x7f@]{1,253}$`;

/**
 * Whether a text is the address of a mailbox. Quoted local parts and comments are refused: they are legal, but unused,
 * and programs interpret them differently.
 */
export function isMailAddress(text: string): boolean {
  const at = text.lastIndexOf("@");
  return LOCAL_PART.test(text.slice(0, Math.max(at, 0))) && DOMAIN.test(text.slice(at + 1));
}

/** `ADDRESS` or `Name <ADDRESS>`; null for anything else. */
export function parseMailbox(text: string): Mailbox | null {
  const match = /^(?:([^<>"\x00-\x1f\x7f]*?) *<([^<>]*)>|([^<>]*))$/.exec(text.trim());
  const address = match?.[2] ?? match?.[3] ?? "";
  return isMailAddress(address) ? { name: (match?.[1] ?? "").trim(), address } : null;
}

/**
 * Parses `smtp://` or `smtps://` with a host and optionally a port, user and password; null for anything else. User and
 * password may be percent-encoded. smtps uses TLS from the first byte.
 */
export function parseMailServer(text: string): MailServer | null {
  const match =
    /^(smtps?):\/\/(?:([^\s@:/]+):([^\s@/]*)@)?(\[[0-9a-fA-F:.]+\]|[a-zA-Z0-9._-]+)(?::(\d{1,5}))?\/?$/.exec(text);
  if (!match) return null;
  const [, scheme, user, password, host = "", digits] = match;
  const secure = scheme === "smtps";
  const port = digits === undefined ? (secure ? 465 : 587) : Number(digits);
  if (port < 1 || port > 65_535) return null;
  try {
    return {
      host: host.replace(/^\[|\]$/g, ""),
      port,
      secure,
      user: user === undefined ? null : decodeURIComponent(user),
      password: password === undefined ? null : decodeURIComponent(password),
    };
  } catch {
    return null; // an invalid percent-encoding
  }
}
