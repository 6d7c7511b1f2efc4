/**
 * The CSRF token of a session as forms carry it. Pages are compressed and repeat what a person typed, so a token that
 * is the same in every answer could be guessed from their sizes (BREACH): each answer masks it with other random bytes.
 */
import { randomBytes } from "node:crypto";
import { equalsInConstantTime } from "../../http/authenticate.ts";

/** A form of the token that is different each time. */
export function maskToken(token: string): string {
  const bytes = Buffer.from(token);
  const mask = randomBytes(bytes.length);
  return Buffer.concat([mask, xor(bytes, mask)]).toString("base64url");
}

/** Whether a form carries the token of the session. */
export function isMaskedToken(masked: string, token: string): boolean {
  const bytes = Buffer.from(masked, "base64url");
  const half = bytes.length / 2;
  if (half !== Buffer.byteLength(token)) return false;
  return equalsInConstantTime(xor(bytes.subarray(half), bytes.subarray(0, half)).toString(), token);
}

const xor = (bytes: Buffer, mask: Buffer): Buffer => Buffer.from(bytes.map((byte, at) => byte ^ (mask[at] as number)));
