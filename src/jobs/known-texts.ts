/**
 * What the thread found in the texts of large reports, by the SHA-256 of their bytes: reporters send the same bytes
 * again and again while nothing changes, and reading 5,000 pods takes 28 times as long as recognizing them. An entry
 * follows from the type and the bytes alone, so that no write makes it wrong.
 */
import { createHash } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { createLru } from "../domain/lru.ts";
import type { PhysicalType } from "../store/environments/environments.ts";
import type { FoundText } from "./recording-orders.ts";

/** One for each of so many reporters; an entry takes about 300 bytes. */
const MAX_KNOWN_TEXTS = 4_096;

/** Bytes that are hashed without a break: a millisecond on a slow machine. */
const HASHED_AT_ONCE = 524_288;

export const createKnownTexts = () => createLru<string, FoundText>({ maxEntries: MAX_KNOWN_TEXTS });

/** The key of a text. The same bytes are another report under another type. */
export async function keyOfText(type: PhysicalType, bytes: Buffer): Promise<string> {
  const sum = createHash("sha256");
  for (let start = 0; start < bytes.length; start += HASHED_AT_ONCE) {
    if (start > 0) await setImmediate();
    sum.update(bytes.subarray(start, start + HASHED_AT_ONCE));
  }
  return `${type} ${sum.digest("base64")}`;
}
