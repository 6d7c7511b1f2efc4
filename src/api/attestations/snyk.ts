/** Snyk attestations: the results of a vulnerability scan. */
import { Type } from "typebox";
import { evaluateSnyk } from "../../domain/attestation/verdicts.ts";
import { RESULT_BOUNDS } from "../../http/body/read-json.ts";
import { Closed, Maybe, WithinBytes, named } from "../../http/schema.ts";
import { MAX_FINDINGS, MAX_LIST_ITEMS, MAX_RESULTS_BYTES, Text, Url } from "../../contract/shapes.ts";
import { attestationOperation } from "./report.ts";

const Count = Type.Integer({ minimum: 0 });
const IssueLocation = named("IssueLocation", Type.Object({ uri: Url, lines: Maybe(Type.String({ maxLength: 100 })) }));
const FoundIssue = named(
  "FoundIssue",
  Type.Object({
    id: Text,
    message: Text,
    locations: Maybe(Type.Array(IssueLocation, { maxItems: MAX_LIST_ITEMS })),
    priority_score: Maybe(Type.Number()),
  }),
);
const Findings = Maybe(Type.Array(FoundIssue, { maxItems: MAX_FINDINGS }));
const ProjectScanResult = named(
  "ProjectScanResult",
  Closed({ low_count: Count, medium_count: Count, high_count: Count, low: Findings, medium: Findings, high: Findings }),
);
const SnykResultsSummary = named(
  "SnykResultsSummary",
  Closed({
    schema_version: Type.Optional(Type.Integer({ default: 1 })),
    tool: named("SnykTool", Closed({ name: Text, version: Text })),
    results: Type.Array(ProjectScanResult, { maxItems: MAX_FINDINGS }),
  }),
);

export const postSnyk = attestationOperation({
  segment: "snyk",
  input: "SnykAttestationPostInput",
  form: "SnykAttestationForm",
  summary: "Report the results of a vulnerability scan",
  description: "Counts of findings for each scanned project. Compliant if there are no findings of any severity.",
  payload: { snyk_results: WithinBytes(MAX_RESULTS_BYTES, SnykResultsSummary) },
  bounds: RESULT_BOUNDS,
  evaluate: evaluateSnyk,
  facts: ({ snyk_results: { schema_version = 1, ...results } }) => ({
    processed_snyk_results: { ...results, schema_version },
  }),
  example: {
    snyk_results: {
      schema_version: 1,
      tool: { name: "Snyk Open Source", version: "1.1290" },
      results: [{ low_count: 0, medium_count: 0, high_count: 0 }],
    },
  },
});
