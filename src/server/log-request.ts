import type { RequestEntry } from "../http/request-entry.ts";
import { logFlat } from "../log.ts";
import type { Logger } from "../log.ts";

/**
 * Writes the log line of a request, at level error for a status of 500 and above, warn for a slow request and for one
 * whose client did not read, debug for a successful probe or scrape, which repeats every few seconds, and else info.
 * Slow means longer than one second plus one second for each MB transferred, so that a large upload over a slow link
 * causes no warning.
 *
 * The query is omitted, because keys end up there by mistake; so is the id in the path of an inbound webhook, which is
 * part of its credential (operations 1.1). Pass a logger that is not bound to a request: the
 * entry has its own request_id.
 */
export function logRequest(logger: Logger, entry: RequestEntry): void {
  const bare = entry.path?.replace(/[?#].*$/s, "") ?? null;
  const path = bare?.replace(/(\/api\/+[^/]+\/+webhooks\/).*$/is, "$1[hidden]") ?? null;
  const isOpenEnded = OPEN_ENDED_ROUTES.includes(entry.route ?? "");
  const slow = !isOpenEnded && entry.duration_ms > 1000 * (1 + (entry.bytes_in + entry.bytes_out) / 1_048_576);
  const fields = { ...entry, path, duration_ms: Math.round(entry.duration_ms * 10) / 10 };
  if (entry.unread)
    logFlat(logger, "warn", { fields, message: "the client does not read the response; its connection was closed" });
  else if (entry.status >= 500) logFlat(logger, "error", { fields, message: "request failed" });
  else if (slow) logFlat(logger, "warn", { fields, message: "slow request" });
  else if (entry.status < 400 && PROBE_ROUTES.includes(entry.route ?? ""))
    logFlat(logger, "debug", { fields, message: "request" });
  else logFlat(logger, "info", { fields, message: "request" });
}

/** Routes of streams that last as long as a page is open. */
const OPEN_ENDED_ROUTES = ["live"];

/** Routes of health probes and of the metrics collector. */
const PROBE_ROUTES = ["get_ready", "get_readyz", "get_healthz", "get_metrics"];
