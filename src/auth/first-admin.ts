/**
 * The one-time token with which the first administrator is claimed. It exists as long as there is no user: in a file
 * that only the owner of the data directory can read, and on the terminal of the very first start. Whoever makes a user
 * in another way makes it void, and the file goes.
 */
import { randomBytes, timingSafeEqual, createHash } from "node:crypto";
import { closeSync, fsyncSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";

const FILE = "setup-token";

export type Setup = {
  /** The file with the token, an absolute path. */
  readonly file: string;
  /** The token, where this start made it: the one chance to print it. */
  readonly fresh: string | null;
  isToken(text: string): boolean;
  /** Removes the file, after the claim was committed. */
  claimed(): void;
};

/** The token of a directory in which nobody is known yet: that of an earlier start, or a new one. */
export function openSetup(directory: string): Setup {
  const file = join(directory, FILE);
  const kept = readToken(file);
  const token = kept ?? writeToken(directory, file);
  const digest = sha256(token);
  return {
    file,
    fresh: kept === null ? token : null,
    isToken: (text) => timingSafeEqual(sha256(text.trim()), digest),
    claimed: () => voidSetup(directory),
  };
}

/** Removes the token: there is a user. */
export function voidSetup(directory: string): void {
  rmSync(join(directory, FILE), { force: true });
}

const sha256 = (text: string): Buffer => createHash("sha256").update(text).digest();

/** The secret of 256 bits that an earlier start left in a file; null where there is no file, or a half written one. */
export function readToken(file: string): string | null {
  let text: string;
  try {
    text = readFileSync(file, "utf8").trim();
  } catch (error) {
    if ((error as { code?: unknown }).code === "ENOENT") return null;
    throw error;
  }
  return /^[\w-]{43}$/.test(text) ? text : null;
}

function writeToken(directory: string, file: string): string {
  const token = randomBytes(32).toString("base64url");
  rmSync(file, { force: true });
  // Never through a file or link that somebody else put there.
  const descriptor = openSync(file, "wx", 0o600);
  try {
    writeSync(descriptor, `${token}\n`);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  const parent = openSync(directory, "r");
  try {
    fsyncSync(parent);
  } finally {
    closeSync(parent);
  }
  return token;
}
