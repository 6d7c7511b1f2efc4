/** Sonar attestations: the result of a code quality gate. */
import { Type } from "typebox";
import { evaluateSonar } from "../../domain/attestation/verdicts.ts";
import { Maybe, WithinBytes, named } from "../../http/schema.ts";
import { MAX_LIST_ITEMS, MAX_RESULTS_BYTES, Text, WebUrl } from "../../contract/shapes.ts";
import { defineKind } from "./kind.ts";
import { attestationOperation } from "./report.ts";

const open = { additionalProperties: true };
const QualityGateCondition = named(
  "QualityGateCondition",
  Type.Object(
    {
      metric: Text,
      errorThreshold: Maybe(Text),
      operator: Maybe(Text),
      status: Text,
      value: Maybe(Text),
      onLeakPeriod: Maybe(Type.Boolean()),
    },
    open,
  ),
);
const QualityGate = named(
  "QualityGate",
  Type.Object(
    {
      name: Maybe(Text),
      status: Text,
      conditions: Maybe(Type.Array(QualityGateCondition, { maxItems: MAX_LIST_ITEMS })),
    },
    open,
  ),
);
const SonarProject = named("SonarProject", Type.Object({ key: Text, name: Maybe(Text), url: Maybe(WebUrl) }, open));
export const SonarResults = named(
  "SonarResults",
  Type.Object(
    {
      serverUrl: Maybe(WebUrl),
      taskId: Maybe(Text),
      status: Maybe(Text),
      analysedAt: Text,
      revision: Text,
      changedAt: Maybe(Text),
      project: SonarProject,
      qualityGate: Maybe(QualityGate),
    },
    open,
  ),
);

export const SONAR = defineKind({
  segment: "sonar",
  input: "SonarAttestationPostInput",
  form: "SonarAttestationForm",
  summary: "Report the result of a code quality gate",
  description:
    "The scan result as Sonar reports it. Compliant if the status of the quality gate is OK or PASSED; not compliant " +
    "without a quality gate.",
  payload: { sonar_results: WithinBytes(MAX_RESULTS_BYTES, SonarResults) },
  evaluate: evaluateSonar,
  facts: ({ sonar_results }) => ({ sonar_results }),
  example: {
    sonar_results: {
      analysedAt: "2026-01-31T12:00:00+0000",
      revision: "0f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112",
      project: { key: "backend", name: "Backend", url: "https://sonar.example.com/dashboard?id=backend" },
      qualityGate: { name: "Sonar way", status: "OK", conditions: [] },
    },
  },
});

export const postSonar = attestationOperation(SONAR);
