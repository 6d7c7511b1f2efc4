/** How an attempt to send ended. */

/**
 * `accepted` is all that counts as delivered. `failed` may go well later. `refused` was answered, and the same message
 * will hardly be answered in another way. `hopeless` can only go well after somebody changed something here. `stopped`
 * was cut short by the end of this process and says nothing.
 */
export type Result = "accepted" | "failed" | "refused" | "hopeless" | "stopped";

export type Outcome = {
  result: Result;
  /** The address that was called; null when none was. */
  address: string | null;
  /** The HTTP or SMTP status; null without an answer. */
  status: number | null;
  /** What went wrong, a sentence for the organization whose message it is; null when nothing did. */
  told: string | null;
  /**
   * The rest of it, for the operator: addresses, system errors, the beginning of the answer. None of it is for the
   * organization: what a receiver within the operator's network looks like is not to be found out through messages.
   */
  detail: string | null;
  /** Seconds for which the receiver asked to be left alone; null when it did not. */
  retryAfter: number | null;
  /** The recipients of an e-mail who have not accepted it and may yet; null: all, or it was no e-mail. */
  left: readonly string[] | null;
};

export const outcome = (result: Result, told: string | null, more: Partial<Outcome> = {}): Outcome => ({
  result,
  told,
  address: null,
  status: null,
  detail: null,
  retryAfter: null,
  left: null,
  ...more,
});

/** What an attempt is aborted with. */
export const LATE = Symbol("late");
export const STOPPED = Symbol("stopped");

/** The outcome of an attempt that was aborted. `whom` is who was called, for people. */
export const aborted = (reason: unknown, whom: string, seconds: number, more: Partial<Outcome> = {}): Outcome =>
  reason === STOPPED
    ? outcome("stopped", null)
    : outcome("failed", `The ${whom} did not answer within ${seconds} seconds`, more);

/** All that an error of the system says: of several connections that were tried each one. */
export function errorText(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return error.errors.map(errorText).join("; ");
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error ? ` (${errorText(error.cause)})` : "";
  return `${error.message || String((error as { code?: unknown }).code ?? error.name)}${cause}`;
}

const TLS_CODES = /^(?:CERT_|ERR_TLS_|ERR_SSL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|HOSTNAME_MISMATCH|EPROTO)/;
/** Whether an error with that code is one of certificates or of the protocol. */
export const isTlsError = (code: unknown): boolean => typeof code === "string" && TLS_CODES.test(code);

const NO_NAME = /^(?:ENOTFOUND|ENODATA|ENONAME)$/;

/** The outcome of an attempt that an error of the network ended. `whom` is who was called, for people. */
export function unreached(error: unknown, whom: string, more: Partial<Outcome> = {}): Outcome {
  const code = String((error as { code?: unknown }).code ?? "");
  const syscall = String((error as { syscall?: unknown }).syscall ?? "");
  const detail = errorText(error);
  if (syscall.startsWith("query")) {
    return outcome(
      "failed",
      `The host name of the ${whom} ${NO_NAME.test(code) ? "was not found" : "could not be looked up"}`,
      { ...more, detail },
    );
  }
  if (isTlsError(code))
    return outcome("failed", `No secure connection to the ${whom}: its certificate or its TLS is not accepted`, {
      ...more,
      detail,
    });
  return outcome("failed", `The ${whom} could not be reached`, { ...more, detail });
}
