/**
 * How many connections this process may have: each is an open file to the system, and the database needs some of those
 * as well.
 */
import { readFileSync } from "node:fs";

/**
 * Files that connections leave to everything else: database, evidence that is read and written, threads, mail and
 * webhooks.
 */
const RESERVED = 256;

/** Where the limit cannot be read: no cap, as everywhere else. */
export function maxConnections(limits: string = readLimits()): number {
  // "Max open files            1024                 524288               files"; Node raises the first figure to the
  // second at its start.
  const soft = /^Max open files\s+(\d+)\s/m.exec(limits)?.[1];
  return soft === undefined ? Infinity : Math.max(Number(soft) - RESERVED, Math.floor(Number(soft) / 2));
}

function readLimits(): string {
  try {
    return readFileSync("/proc/self/limits", "latin1");
  } catch {
    return "";
  }
}
