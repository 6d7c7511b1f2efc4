/** Metrics of requests, of the streams of live updates, and of what clients sent that the server does not know. */
import { Counter, Gauge, Histogram } from "prom-client";
import type { Registry } from "prom-client";
import type { RequestEntry } from "../http/request-entry.ts";
import { PHASES } from "../http/watchdog/request-progress.ts";
import type { Phase } from "../http/watchdog/request-progress.ts";
import type { metricsStore } from "../store/notifications/metrics-queries.ts";

/** Seconds. Reads take a few milliseconds, uploads of gigabytes take minutes. */
const REQUEST_BUCKETS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60, 300];

/** Operation of requests that belong to none: unknown paths, requests refused before routing, malformed requests. */
const NO_OPERATION = "none";

export type FinishedRequest = Pick<
  RequestEntry,
  "route" | "status" | "duration_ms" | "bytes_in" | "bytes_out" | "unread"
>;

/** Defines the metrics, and returns what feeds them. `setInFlight` is called on each collection. */
export function requestMetrics(registry: Registry) {
  const registers = [registry];
  const requests = new Counter({
    name: "assay_http_requests_total",
    help: "Requests answered, by operation and status; 499: the client disconnected first",
    labelNames: ["operation", "status"],
    registers,
  });
  const durations = new Histogram({
    name: "assay_http_request_duration_seconds",
    help: "Time from a request's headers to the last byte of its response",
    labelNames: ["operation"],
    buckets: REQUEST_BUCKETS_S,
    registers,
  });
  const bytesIn = new Counter({
    name: "assay_http_request_bytes_total",
    help: "Bytes of request bodies, as declared",
    registers,
  });
  const bytesOut = new Counter({
    name: "assay_http_response_bytes_total",
    help: "Bytes of response bodies",
    registers,
  });
  const unreadAnswers = new Counter({
    name: "assay_http_unread_responses_total",
    help: "Connections closed because the client did not read its response",
    registers,
  });
  const hung = new Counter({
    name: "assay_http_requests_hung_total",
    help: "Requests that were ended because they made no progress, by what they were doing",
    labelNames: ["phase"],
    registers,
  });
  // So that an alert sees the first one as an increase.
  for (const phase of Object.keys(PHASES)) hung.inc({ phase }, 0);
  const inFlight = new Gauge({ name: "assay_http_requests_in_flight", help: "Requests not answered yet", registers });
  const liveStreams = new Gauge({
    name: "assay_live_streams",
    help: "Open streams of live updates: one for each browser that shows a trail or an environment",
    registers,
  });

  let inFlightCount = 0;
  // Looking up a series by its labels is what labels cost, so each operation and each of its statuses is looked up
  // once.
  const series = new Map<string, { observe(seconds: number): void; statuses: Map<number, { inc(): void }> }>();
  function count(operation: string, status: number): { observe(seconds: number): void } {
    let found = series.get(operation);
    if (!found)
      series.set(operation, (found = { observe: durations.labels({ operation }).observe, statuses: new Map() }));
    let counter = found.statuses.get(status);
    if (!counter) found.statuses.set(status, (counter = requests.labels({ operation, status: String(status) })));
    counter.inc();
    return found;
  }

  return {
    setInFlight: () => inFlight.set(inFlightCount),
    requestStarted: () => void (inFlightCount += 1),
    requestFinished(entry: FinishedRequest) {
      const { route, status, duration_ms, bytes_in, bytes_out, unread } = entry;
      inFlightCount -= 1;
      if (unread) unreadAnswers.inc();
      count(route ?? NO_OPERATION, status).observe(duration_ms / 1000);
      bytesIn.inc(bytes_in);
      bytesOut.inc(bytes_out);
    },
    requestHung: (phase: Phase) => hung.inc({ phase }),
    liveStreams: (count: number) => liveStreams.set(count),
    malformedRequest: (status: number) => void count(NO_OPERATION, status),
  };
}

type Sources = { figures: Pick<ReturnType<typeof metricsStore>, "summarizeUnknownInputs"> };

/**
 * Defines the gauge of what the server does not know, a series for each row of a table with a bound. The returned
 * function reads its values, on each collection.
 */
export function unknownReadings(registry: Registry, { figures }: Sources): () => void {
  const inputs = new Gauge({
    name: "assay_unknown_inputs",
    help: "What clients sent that this server does not know: ignored keys, routes, kinds of attestations",
    labelNames: ["client", "kind", "operation", "name"],
    registers: [registry],
  });
  return () => {
    inputs.reset();
    for (const { client, kind, operation, name, count } of figures.summarizeUnknownInputs())
      inputs.set({ client, kind, operation, name }, count);
  };
}
