/** Jira attestations: the issues that a change refers to. */
import { Type } from "typebox";
import { evaluateJira } from "../../domain/attestation/verdicts.ts";
import { RESULT_BOUNDS } from "../../http/body/read-json.ts";
import { Closed, Maybe, WithinBytes, named } from "../../http/schema.ts";
import { MAX_FINDINGS, MAX_RESULTS_BYTES, Text, WebUrl } from "../../contract/shapes.ts";
import { attestationOperation } from "./report.ts";

const JiraItem = named(
  "JiraItem",
  Closed({
    issue_id: Text,
    issue_url: WebUrl,
    issue_exists: Type.Boolean(),
    issue_fields: Maybe(Type.Record(Type.String(), Type.Unknown())),
  }),
);

export const postJira = attestationOperation({
  segment: "jira",
  input: "JiraAttestationPostInput",
  form: "JiraAttestationForm",
  summary: "Report the issues that a change refers to",
  description: "Compliant if there is at least one reference and all of them exist in the issue tracker.",
  payload: { jira_results: WithinBytes(MAX_RESULTS_BYTES, Type.Array(JiraItem, { maxItems: MAX_FINDINGS })) },
  bounds: RESULT_BOUNDS,
  evaluate: evaluateJira,
  facts: ({ jira_results }) => ({ jira_results }),
  example: {
    jira_results: [{ issue_id: "PAY-17", issue_url: "https://jira.example.com/browse/PAY-17", issue_exists: true }],
  },
});
