/** Commands that take a while, and can be stopped. */
import { commandFailure } from "./framework.ts";
import type { Io } from "./framework.ts";

/**
 * Is aborted, with a command failure, when the operator, or the system, wants the command to stop. @param consequence
 * what then is, for the operator
 */
export function stopSignal(io: Io, consequence: string): AbortSignal {
  const stop = new AbortController();
  void io.stopRequested().then((signal) => stop.abort(commandFailure(`stopped by ${signal}; ${consequence}`)));
  return stop.signal;
}
