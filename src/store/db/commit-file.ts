/**
 * The file `assay.commits` beside the database: the number of the latest commit that was acknowledged.
 *
 * It has eight slots of 64 bytes, together one sector. Commit n is written to slot n mod 8, so processes that commit at
 * the same time do not overwrite each other, and a torn slot does not take the earlier numbers with it. The highest
 * number counts. A slot names the database and has a checksum; one that was never written is zero.
 *
 * The file is written after the commit and never synced for it: after a power cut it may be older than the database.
 */
import { closeSync, constants, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { onPathSync } from "../../domain/text/system-errors.ts";
import { giveToOwner } from "./state-directory.ts";

/** A state of a database: its random id, 32 hex digits, and the number of its latest commit. */
export type CommitMark = { databaseId: string; number: number };

/** `isDamaged`: a slot holds something else than a mark, or the file does not end with a slot. */
type CommitFileContents = { marks: readonly CommitMark[]; isDamaged: boolean };

const SLOT_BYTES = 64;
const SLOTS = 8;

export const COMMIT_FILE = "assay.commits";

const fileOf = (directory: string): string => join(directory, COMMIT_FILE);

/** The marks in the file of a data directory; null without one. @throws the system's error */
export function readCommitFile(directory: string): CommitFileContents | null {
  let bytes: Buffer;
  try {
    bytes = onPathSync(fileOf(directory), () => readFileSync(fileOf(directory)));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
  const marks: CommitMark[] = [];
  let isDamaged = bytes.length > SLOTS * SLOT_BYTES || bytes.length % SLOT_BYTES !== 0;
  for (let at = 0; at + SLOT_BYTES <= Math.min(bytes.length, SLOTS * SLOT_BYTES); at += SLOT_BYTES) {
    const slot = bytes.subarray(at, at + SLOT_BYTES);
    const mark = parseSlot(slot.toString("latin1"));
    if (mark) marks.push(mark);
    else if (slot.some((byte) => byte !== 0)) isDamaged = true;
  }
  return { marks, isDamaged };
}

/** The highest number of that database in the file; 0 where it has none. */
export function acknowledgedNumber(contents: CommitFileContents | null, databaseId: string): number {
  let highest = 0;
  for (const mark of contents?.marks ?? [])
    if (mark.databaseId === databaseId && mark.number > highest) highest = mark.number;
  return highest;
}

export type CommitFile = {
  /** @throws the system's error */
  write(mark: CommitMark): void;
  close(): void;
};

/**
 * Opens the file for writing and creates it where it is missing, for the owner of the directory (`giveToOwner`).
 * `isReset`: keeps nothing but this mark, durably.
 * @throws the system's error
 */
export function openCommitFile(directory: string, mark: CommitMark, { isReset }: { isReset: boolean }): CommitFile {
  const file = fileOf(directory);
  const descriptor = openSync(file, constants.O_RDWR | constants.O_CREAT, 0o600);
  const slot = Buffer.alloc(SLOT_BYTES);
  const write = ({ databaseId, number }: CommitMark): void => {
    slot.write(formatSlot(databaseId, number), "latin1");
    onPathSync(file, () => writeSync(descriptor, slot, 0, SLOT_BYTES, (number % SLOTS) * SLOT_BYTES));
  };
  try {
    giveToOwner(file, directory);
    if (isReset) {
      onPathSync(file, () => writeSync(descriptor, Buffer.alloc(SLOTS * SLOT_BYTES), 0, SLOTS * SLOT_BYTES, 0));
      write(mark);
      onPathSync(file, () => fsyncSync(descriptor));
    }
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
  return { write, close: () => closeSync(descriptor) };
}

/** The id, the number in 16 digits, and the CRC-32 of both in hex: 59 characters, filled up to a line. */
function formatSlot(databaseId: string, number: number): string {
  const text = `${databaseId} ${String(number).padStart(16, "0")}`;
  return `${text} ${checksumOf(text)}`.padEnd(SLOT_BYTES - 1).concat("\n");
}

function parseSlot(text: string): CommitMark | null {
  const match = /^([0-9a-f]{32}) (\d{16}) ([0-9a-f]{8}) *\n$/.exec(text);
  if (!match) return null;
  const [, databaseId = "", digits = "", checksum] = match;
  return checksumOf(`${databaseId} ${digits}`) === checksum ? { databaseId, number: Number(digits) } : null;
}

const checksumOf = (text: string): string => crc32(text).toString(16).padStart(8, "0");
