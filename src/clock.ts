/**
 * The sources of time, identifiers and randomness of a real process. Everything below takes them as arguments, so that
 * tests decide what time it is and what an id looks like.
 */
import { randomBytes, randomUUID } from "node:crypto";
import { userInfo } from "node:os";

/**
 * A new public id: 8-4-4-4-8 hex digits, a UUID without its last four (semantics 1.9). Version 7, so it starts with the
 * time in milliseconds and new rows share the last page of an index instead of dirtying one page each. An id names a
 * record and is not a secret.
 */
export function newPublicId(): string {
  const now = Date.now();
  if (now !== latestTime) {
    const time = now.toString(16).padStart(12, "0");
    timePart = `${time.slice(0, 8)}-${time.slice(8)}-7`;
    latestTime = now;
  }
  return timePart + randomUUID().slice(15, 32);
}
// A busy server makes many ids in a millisecond.
let [latestTime, timePart] = [-1, ""];

/**
 * A new credential, such as an API key: 256 random bits as 43 characters that need no escaping anywhere. None begins
 * with a hyphen, because the client refuses such a value of `--api-token`, and any command line takes it for a flag.
 */
export function newSecret(): string {
  for (;;) {
    const secret = randomBytes(32).toString("base64url");
    if (!secret.startsWith("-")) return secret;
  }
}

/**
 * The user of the operating system that runs this process. It comes from the system's user database, because anyone can
 * set the environment. A user without an entry there, as in many containers, is shown by number.
 * @param lookUp returns the entry of the effective user and throws when there is none
 */
export function osUserName(
  lookUp: () => { username: string } = userInfo,
  uid: number = process.geteuid?.() ?? -1,
): string {
  try {
    return lookUp().username || `uid ${uid}`;
  } catch {
    return `uid ${uid}`;
  }
}

/** `now` is in epoch seconds, with a fraction. */
export const systemSources = { now: () => Date.now() / 1000, newId: newPublicId, osUser: osUserName };

/**
 * Calls `ring` once after so many seconds, unless the returned function is called first. Does not keep the process
 * alive.
 */
export const systemTimer = (seconds: number, ring: () => void): (() => void) => {
  const timeout = setTimeout(ring, seconds * 1000).unref();
  return () => clearTimeout(timeout);
};
