/**
 * The digests of earlier reports, by the SHA-256 of their bodies. Reporters send the same bytes again and again while
 * nothing changes, and parsing them takes most of the time of such a report.
 *
 * An entry follows from the type and the bytes of a report alone, so that no write makes it wrong. Whether the report
 * changes anything is decided anew each time, by its digest and the state of the environment.
 */
import { createHash, hash } from "node:crypto";
import { createLru } from "../../domain/lru.ts";
import { nextTurn } from "../../http/next-turn.ts";
import type { PhysicalType } from "../../store/environments/environments.ts";

/** One for each of so many reporters; an entry takes about 300 bytes. */
const MAX_KNOWN_REPORTS = 4_096;

/** Bytes that are hashed without a break: a millisecond on a slow machine. */
const HASHED_AT_ONCE = 524_288;

/** `digest` of its artifacts (`digestOf`); `ignored`: its top-level keys that the shape does not know. */
type KnownReport = { digest: string; ignored: readonly string[] };

const reports = createLru<string, KnownReport>({ maxEntries: MAX_KNOWN_REPORTS });

/** The key of a report. The same bytes are another report under another type. */
export async function keyOfReport(type: PhysicalType, bytes: Buffer): Promise<string> {
  return `${type} ${bytes.length <= HASHED_AT_ONCE ? hash("sha256", bytes, "base64") : await hashInTurns(bytes)}`;
}

async function hashInTurns(bytes: Buffer): Promise<string> {
  const sum = createHash("sha256");
  for (let start = 0; start < bytes.length; start += HASHED_AT_ONCE) {
    if (start > 0) await nextTurn();
    sum.update(bytes.subarray(start, start + HASHED_AT_ONCE));
  }
  return sum.digest("base64");
}

/** What is known of the report with that key; null when no valid report with it was kept. */
export const findReport = (key: string): KnownReport | null => reports.get(key) ?? null;

/** Keeps what is known of a valid report. */
export const keepReport = (key: string, known: KnownReport): void => reports.set(key, known);
