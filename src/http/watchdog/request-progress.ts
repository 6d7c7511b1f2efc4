/**
 * What a request is doing. The stages of a request record it, so that the watchdog (watchdog.ts) can tell which
 * requests make no progress, and say where they hang.
 */
import type Koa from "koa";

/** By phase: how a message says what the request was doing. */
export const PHASES = {
  starting: "before its body was read",
  reading: "while its body was read",
  parsing: "while its JSON was parsed",
  preparing: "while it was prepared",
  publishing: "while its evidence was stored",
  writing: "while it waited to be written",
  finishing: "after its change was stored",
  sending: "while its answer was sent",
} as const;
export type Phase = keyof typeof PHASES;

export type RequestProgress = {
  /**
   * Records what the request does next, which is progress.
   * @param options.patienceS seconds that this phase may take beyond those that any phase may
   */
  enter(phase: Phase, options?: { patienceS: number }): void;
  /** @throws the error that the request was ended with, once the watchdog has: it must not write any more */
  requireRunning(): void;
  /** Calls back once, when the request is over, or at once if it is. */
  onOver(callback: () => void): void;
};

/** The progress of a request, which the boundary put into its state. */
export const progressOf = (ctx: Koa.Context): RequestProgress => ctx.state["progress"] as RequestProgress;
