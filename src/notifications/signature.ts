/** Signatures of webhook messages: they show that a message comes from this server, and when it was sent. */
import { createHmac } from "node:crypto";

/**
 * The value of X-Assay-Signature: `t=EPOCH_SECONDS,v1=HEX`, where HEX is the HMAC-SHA256, keyed with the target's
 * secret, of EPOCH_SECONDS, a dot, and the body as sent. A receiver computes it over the bytes it received, compares in
 * constant time, and rejects messages older than a few minutes.
 */
export function signatureOf(secret: string, at: number, body: string): string {
  const seconds = Math.floor(at);
  return `t=${seconds},v1=${createHmac("sha256", secret).update(`${seconds}.${body}`).digest("hex")}`;
}
