/** What clients sent that the server does not know, as a metric: a series for each row of a table with a bound. */
import { Gauge } from "prom-client";
import type { Registry } from "prom-client";
import type { metricsStore } from "../store/db/metrics-queries.ts";

type Sources = { figures: Pick<ReturnType<typeof metricsStore>, "summarizeUnknownInputs"> };

/** Defines the gauge. The returned function reads its values, on each collection. */
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
