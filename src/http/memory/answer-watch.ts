/**
 * Notices clients that do not read their answers. Progress is bytes that left this process: what a client asks for
 * meanwhile does not count, nor does an answer that is still being made.
 */
import type { ServerResponse } from "node:http";
import type { Timer } from "../../domain/time.ts";

/**
 * Watches an answer. `onUnread` is called once when none of its bytes left for the time limit.
 * @returns a function that ends that, to be called when the answer has ended
 */
export type AnswerWatch = (response: ServerResponse, onUnread: () => void) => () => void;

type Watched = {
  onUnread(): void;
  /** Bytes of the connection that had left at the latest check. */
  sent: number;
  /** Seconds, in steps of checks. */
  idleS: number;
};

const CHECKS = 4;

/** @param options.limitS seconds without progress; noticed at most a quarter later */
export function createAnswerWatch({ limitS, timer }: { limitS: number; timer: Timer }): AnswerWatch {
  const watched = new Map<ServerResponse, Watched>();
  const intervalS = limitS / CHECKS;
  let isScheduled = false;

  function schedule(): void {
    if (isScheduled) return;
    isScheduled = true;
    timer(intervalS, () => {
      isScheduled = false;
      for (const [response, answer] of watched) check(response, answer);
      if (watched.size > 0) schedule();
    });
  }

  function check(response: ServerResponse, answer: Watched): void {
    const { socket } = response;
    if (!socket) return;
    const sent = socket.bytesWritten - socket.writableLength;
    const isWaiting = response.writableLength > 0 && sent === answer.sent;
    answer.sent = sent;
    answer.idleS = isWaiting ? answer.idleS + intervalS : 0;
    if (answer.idleS < limitS) return;
    watched.delete(response);
    answer.onUnread();
  }

  return (response, onUnread) => {
    watched.set(response, { onUnread, sent: -1, idleS: 0 });
    schedule();
    return () => void watched.delete(response);
  };
}
