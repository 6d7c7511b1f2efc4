/**
 * The room that the answer to a request takes from the memory budget: from the moment its size is known until it is
 * sent, or until its connection ends. So what waits in a socket counts, too.
 */
import { Readable } from "node:stream";
import type Koa from "koa";
import { SMALL_ANSWER_BYTES } from "./memory-budget.ts";
import type { AnswerBudget, MemoryLease } from "./memory-budget.ts";
import type { RequestLogFields } from "../request-log.ts";

/** Takes room for an answer of so many bytes, once for each request; small answers need none. */
export type AnswerRoom = {
  /**
   * @param options.isRead whether nothing was changed, so that the answer may be refused
   * @throws AppError 429 if there is no room.
   */
  take(bytes: number, options: { isRead: boolean }): void;
  /** The answer was sent, or its connection ended. */
  release(): void;
};

export function createAnswerRoom({ res, state }: Koa.Context, budget: AnswerBudget): AnswerRoom {
  let lease: MemoryLease | null = null;
  return {
    take(bytes, { isRead }) {
      if (lease || bytes <= SMALL_ANSWER_BYTES || res.destroyed) return;
      const { principal } = state["log"] as RequestLogFields;
      const claim = { bytes, owner: principal?.publicId ?? (state["client"] as string) };
      lease = isRead ? budget.take(claim) : budget.hold(claim);
    },
    release: () => lease?.release(),
  };
}

/** The room of the request's answer (request-boundary.ts). */
export const answerRoomOf = (ctx: Koa.Context): AnswerRoom => ctx.state["answerRoom"] as AnswerRoom;

/** The bytes of a body in memory; null for none, and for a stream. */
export function bodyBytes(body: unknown): number | null {
  if (typeof body === "string") return Buffer.byteLength(body);
  return Buffer.isBuffer(body) ? body.length : null;
}

/** Bytes handed to the socket at a time. */
const PIECE_BYTES = 65_536;

/**
 * Sends a large body in pieces: written at once, TLS would hold it a second time, encrypted, and a slow client would
 * make no progress that can be seen until it has read all of it.
 */
export function sendInPieces(ctx: Koa.Context): void {
  const { body } = ctx;
  if (ctx.respond === false || ctx.method === "HEAD" || (bodyBytes(body) ?? 0) <= PIECE_BYTES) return;
  const bytes = typeof body === "string" ? Buffer.from(body) : (body as Buffer);
  ctx.body = readPieces(bytes);
  ctx.length = bytes.length;
}

function readPieces(bytes: Buffer): Readable {
  let start = 0;
  return new Readable({
    highWaterMark: PIECE_BYTES,
    read() {
      const piece = bytes.subarray(start, start + PIECE_BYTES);
      start += piece.length;
      this.push(piece.length > 0 ? piece : null);
    },
  });
}
