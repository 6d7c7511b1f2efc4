/** How a receiver knows that a message is ours and is not an old one. */
import { createHmac } from "node:crypto";

/**
 * The value of X-Assay-Signature: `t=EPOCH_SECONDS,v1=HEX`, where HEX is the HMAC-SHA256, with the secret of the target
 * as its key, of the text EPOCH_SECONDS, a dot, and the body as it was sent. A receiver computes the same over the
 * bytes that it got, compares in constant time, and refuses what is older than a few minutes.
 */
export function signatureOf(secret: string, at: number, body: string): string {
  const seconds = Math.floor(at);
  return `t=${seconds},v1=${createHmac("sha256", secret).update(`${seconds}.${body}`).digest("hex")}`;
}
