/** Cancellation of long-running commands. */
import { CommandError } from "./framework.ts";
import type { Io } from "./framework.ts";

/**
 * Returns a signal that aborts with a CommandError on SIGINT or SIGTERM. `consequence` completes the message: the state
 * that the stopped command leaves.
 */
export function createStopSignal(io: Io, consequence: string): AbortSignal {
  const stop = new AbortController();
  void io.stopRequested().then((signal) => stop.abort(new CommandError(`stopped by ${signal}; ${consequence}`)));
  return stop.signal;
}
