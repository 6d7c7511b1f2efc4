/**
 * The connection limit. The system counts every connection as an open file, and the database and the evidence need open
 * files as well.
 */
import { readFileSync } from "node:fs";

/** Open files reserved for everything but connections: database, evidence, threads, mail and webhooks. */
const RESERVED_FILES = 256;

/**
 * How many connections this process may hold; Infinity where the limit of open files is unknown.
 * @param limits the text of /proc/self/limits
 */
export function maxConnections(limits: string = readLimits()): number {
  // "Max open files            1024                 524288               files": the soft and the hard limit. Node
  // raises the soft limit to the hard one when it starts.
  const softLimit = /^Max open files\s+(\d+)\s/m.exec(limits)?.[1];
  if (softLimit === undefined) return Infinity;
  return Math.max(Number(softLimit) - RESERVED_FILES, Math.floor(Number(softLimit) / 2));
}

/** Empty on systems other than Linux. */
function readLimits(): string {
  try {
    return readFileSync("/proc/self/limits", "latin1");
  } catch {
    return "";
  }
}
