/**
 * Large JSON answers. One that is longer than MAX_INLINE_ANSWER_BYTES is not made on the main thread: the reader thread
 * runs the same handler on a connection of its own, in one read transaction, and writes piece after piece to a file
 * without a name. The transaction ends before the first byte is sent. So a large answer shows one moment, is never in
 * memory as a whole, holds up no other request, and a client that does not read keeps no page of the write-ahead log
 * from being used again. It costs a block of memory and its file, whose size is known: it is sent with a
 * Content-Length, and what fails before the first byte is answered as usual.
 *
 * Requests for the same answer share it as long as nothing changes.
 */
import type { Readable } from "node:stream";
import type { ErrorCode, FieldErrors } from "../../errors.ts";
import { jsonPieces } from "../../json/text.ts";
import type { Reply } from "../operation.ts";

/** Bytes of an answer that the main thread makes itself: some milliseconds of work. */
export const MAX_INLINE_ANSWER_BYTES = 1 << 20;

/** What bounds an answer: one for each attempt to make it, shared by everything that makes a part of it. */
export type AnswerBounds = {
  /** What may still be made in this thread; more: LargeAnswerError. */
  inlineBytes: number;
  /**
   * Whether one of our pages asked for it, which shows the beginning of long texts only: presenters leave out the rest,
   * and what no page shows.
   */
  readonly isForPage: boolean;
};

/** Of an answer that is made in this thread, whatever its size. */
export const unboundedAnswer = ({ isForPage = false } = {}): AnswerBounds => ({ inlineBytes: Infinity, isForPage });

/** Thrown while an answer is made on the main thread, and needs more than MAX_INLINE_ANSWER_BYTES. */
export class LargeAnswerError extends Error {
  override readonly name = "LargeAnswerError";
}

/** Bytes that are written to a file, or read from it and sent, at a time. */
export const SPOOL_BLOCK_BYTES = 128 * 1024;

/** The JSON text of an answer in pieces, made on demand. */
export function textsOf(reply: Reply): Iterable<string> {
  if ("texts" in reply) return reply.texts;
  if ("body" in reply) return jsonPieces(reply.body);
  throw new Error("an answer with a file has no text");
}

/**
 * Makes all pieces of an answer. Runs in the transaction that its handler reads in.
 * @returns null if they have more than `limit` characters: the rest was not made
 */
export function makeTexts(reply: Reply, limit: number): string[] | null {
  const texts: string[] = [];
  let characters = 0;
  for (const text of textsOf(reply)) {
    characters += text.length;
    if (characters > limit) return null;
    texts.push(text);
  }
  return texts;
}

/** What an answer is made from. Everything in it can be copied to a thread. */
export type AnswerTask = {
  /** The id of an operation. */
  operation: string;
  organizationId: number;
  baseUrl: string;
  input: { params: unknown; query: unknown };
  /** What the operation's `prepare` returned. */
  prepared: unknown;
  isForPage: boolean;
  gzip: boolean;
};

/** An order to the reader thread. */
export type SpoolTask = AnswerTask & {
  /** An empty file, which the thread opens and unlinks. */
  path: string;
  control: SpoolControl;
};

/**
 * What both sides know of a file: whether the answer is not wanted any more (1), and blocks on the disk that were taken
 * for it. The side that is done with the file last gives the blocks back.
 */
export type SpoolControl = Int32Array<SharedArrayBuffer>;
export const UNWANTED = 0;
export const BLOCKS = 1;

/** `bytes`: the size of the file. `full`: the files of all answers would take more of the disk than they may. */
export type SpoolResult =
  | { bytes: number }
  | { refusal: { code: ErrorCode; message: string; fields: FieldErrors | null; headers: Record<string, string> } }
  | { stopped: "unwanted" | "full" };

/** An answer in a file, ready to be sent. */
export type LargeAnswer = {
  readonly bytes: number;
  readonly gzipped: boolean;
  /** All bytes, at the pace of their reader. When the stream is closed, so is the answer. */
  open(): Readable;
  /** All bytes in memory. */
  read(): Promise<Buffer>;
  /** Gives the answer up. Further calls do nothing. */
  close(): void;
};

/** Blocks of the disk that the files of all answers may still take: one number that all threads count on. */
export type FreeBlocks = Int32Array<SharedArrayBuffer>;

/** @param bytes that the files of all answers may take together */
export function createFreeBlocks(bytes: number): FreeBlocks {
  const free = new Int32Array(new SharedArrayBuffer(4));
  free[0] = Math.floor(bytes / SPOOL_BLOCK_BYTES);
  return free;
}

/** Gives the blocks of a file back. Further calls do nothing. */
export const returnBlocks = (free: FreeBlocks, control: SpoolControl): void =>
  void Atomics.add(free, 0, Atomics.exchange(control, BLOCKS, 0));
