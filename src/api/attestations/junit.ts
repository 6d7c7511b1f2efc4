/** JUnit attestations: the results of unit tests. */
import { Type } from "typebox";
import { evaluateJunit } from "../../domain/attestation/verdicts.ts";
import { DATA_BOUNDS } from "../../http/operation.ts";
import { Closed, Maybe, WithinBytes, named } from "../../http/schema.ts";
import { MAX_RESULTS_BYTES, Text } from "../../contract/shapes.ts";
import { attestationOperation } from "./report.ts";

/** More than fit into the bound on bytes: a suite takes 71 at least. */
const MAX_SUITES = 120_000;

const Count = Type.Integer({ minimum: 0 });
const JUnitResult = named(
  "JUnitResult",
  Closed({
    name: Text,
    failures: Count,
    errors: Count,
    skipped: Count,
    total: Count,
    duration: Type.Number({ description: "Seconds" }),
    timestamp: Maybe(Type.Number({ description: "Start of the suite, epoch seconds" })),
  }),
);

export const postJunit = attestationOperation({
  segment: "junit",
  input: "JUnitAttestationPostInput",
  form: "JUnitAttestationForm",
  summary: "Report the results of unit tests",
  description:
    "Counts for each suite of a JUnit report. Compliant if no suite has a failure or an error; skipped tests " +
    "do not count.",
  payload: {
    junit_results: WithinBytes(MAX_RESULTS_BYTES, Type.Array(JUnitResult, { minItems: 1, maxItems: MAX_SUITES })),
  },
  bounds: DATA_BOUNDS,
  evaluate: evaluateJunit,
  facts: ({ junit_results }) => ({ junit_results }),
  example: { junit_results: [{ name: "unit", failures: 0, errors: 0, skipped: 1, total: 42, duration: 3.5 }] },
});
