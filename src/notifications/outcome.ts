/** The result of an attempt to send a message. */

/**
 * Only `accepted` counts as delivered. `failed` may succeed later. `refused` was answered, and the same message will
 * hardly be answered differently. `hopeless` can succeed only after a change on this server. `stopped` was cut short by
 * the end of this process and says nothing about the message.
 */
type Result = "accepted" | "failed" | "refused" | "hopeless" | "stopped";

export type Outcome = {
  result: Result;
  /** The address that was connected; null when none was. */
  address: string | null;
  /** The HTTP or SMTP status; null without a response. */
  status: number | null;
  /** What went wrong, as a sentence for the organization that owns the message; null when nothing did. */
  publicError: string | null;
  /**
   * Further facts for the operator: addresses, system errors, the beginning of the response. The organization does not
   * get them, because messages must not become a way to explore the operator's network.
   */
  detail: string | null;
  /** Seconds for which the receiver asked for no further requests; null when it did not. */
  retryAfter: number | null;
  /** The recipients of an e-mail that have not accepted it and still may; null: all of them, or it is not an e-mail. */
  pendingRecipients: readonly string[] | null;
};

export const outcome = (result: Result, publicError: string | null, more: Partial<Outcome> = {}): Outcome => ({
  result,
  publicError,
  address: null,
  status: null,
  detail: null,
  retryAfter: null,
  pendingRecipients: null,
  ...more,
});

/** Reasons to abort an attempt. */
export const TIMED_OUT = Symbol("timed out");
export const STOPPED = Symbol("stopped");

/** Whom an attempt contacts, as people call it, such as "mail server"; and what is known of the attempt so far. */
type AttemptPeer = { name: string; address: string | null };

/** The outcome of an attempt that was aborted for `reason`. */
export const abortedOutcome = (reason: unknown, { name, address }: AttemptPeer, timeoutS: number): Outcome =>
  reason === STOPPED
    ? outcome("stopped", null)
    : outcome("failed", `The ${name} did not answer within ${timeoutS} seconds`, { address });

/** The whole text of an error: that of each connection when several were tried, and its cause. */
export function errorText(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return error.errors.map(errorText).join("; ");
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error ? ` (${errorText(error.cause)})` : "";
  return `${error.message || String((error as { code?: unknown }).code ?? error.name)}${cause}`;
}

const TLS_CODES = /^(?:CERT_|ERR_TLS_|ERR_SSL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|HOSTNAME_MISMATCH|EPROTO)/;
/** Whether an error code is about a certificate or the TLS protocol. */
export const isTlsError = (code: unknown): boolean => typeof code === "string" && TLS_CODES.test(code);

const UNKNOWN_NAME_CODES = /^(?:ENOTFOUND|ENODATA|ENONAME)$/;

/** The outcome of an attempt that ended with a network error. */
export function connectionOutcome(error: unknown, { name, address }: AttemptPeer): Outcome {
  const code = String((error as { code?: unknown }).code ?? "");
  const syscall = String((error as { syscall?: unknown }).syscall ?? "");
  return outcome("failed", publicErrorOf(), { address, detail: errorText(error) });

  function publicErrorOf(): string {
    if (syscall.startsWith("query")) {
      const problem = UNKNOWN_NAME_CODES.test(code) ? "was not found" : "could not be looked up";
      return `The host name of the ${name} ${problem}`;
    }
    if (isTlsError(code)) return `No secure connection to the ${name}: its certificate or its TLS is not accepted`;
    return `The ${name} could not be reached`;
  }
}
