/**
 * The one-time token for creating the first administrator. It exists as long as there is no user: in a file that only
 * the owner of the data directory can read, and on the terminal of the very first start. Creating a user in any other
 * way invalidates the token and removes the file.
 */
import { timingSafeEqual, createHash } from "node:crypto";
import { closeSync, fsyncSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { onPathSync } from "../domain/text/system-errors.ts";
import { syncToDisk } from "../store/db/directories.ts";

const FILE_NAME = "setup-token";

export type SetupToken = {
  /** The file with the token, an absolute path. */
  readonly file: string;
  /** The token if this start created it, which is the only chance to print it; null for one of an earlier start. */
  readonly newToken: string | null;
  isToken(text: string): boolean;
  /** Removes the file. Call it after the first administrator was committed. */
  remove(): void;
};

/** Opens the token of a directory without users: that of an earlier start, or a new one. */
export function openSetupToken(directory: string, newSecret: () => string): SetupToken {
  const file = join(directory, FILE_NAME);
  const existing = readTokenFile(file);
  const token = existing ?? writeTokenFile(directory, file, newSecret());
  const digest = sha256(token);
  return {
    file,
    newToken: existing === null ? token : null,
    isToken: (text) => timingSafeEqual(sha256(text.trim()), digest),
    remove: () => removeSetupToken(directory),
  };
}

/** Invalidates the token, because there is a user. */
export function removeSetupToken(directory: string): void {
  rmSync(join(directory, FILE_NAME), { force: true });
}

const sha256 = (text: string): Buffer => createHash("sha256").update(text).digest();

/** The 256-bit secret in a file of an earlier start; null when the file is missing or incomplete. */
export function readTokenFile(file: string): string | null {
  let text: string;
  try {
    text = onPathSync(file, () => readFileSync(file, "utf8")).trim();
  } catch (error) {
    if ((error as { code?: unknown }).code === "ENOENT") return null;
    throw error;
  }
  return /^[\w-]{43}$/.test(text) ? text : null;
}

function writeTokenFile(directory: string, file: string, token: string): string {
  rmSync(file, { force: true });
  // "wx": never writes through a file or link that another user put there.
  const descriptor = openSync(file, "wx", 0o600);
  try {
    onPathSync(file, () => {
      writeSync(descriptor, `${token}\n`);
      fsyncSync(descriptor);
    });
  } finally {
    closeSync(descriptor);
  }
  syncToDisk(directory);
  return token;
}
