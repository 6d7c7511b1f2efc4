/**
 * What policies are evaluated on: an artifact with its most recent record in every flow it was reported to (semantics
 * 5.4).
 */
import type { FlowFacts, Subject } from "../../domain/policy/evaluate.ts";
import { pickLatestPerFlow } from "./artifacts.ts";
import type { artifactStore, PlacedArtifactRow } from "./artifacts.ts";
import type { attestationStore } from "../attestations/attestations.ts";
import type { flowStore } from "./flows.ts";

export type SubjectParts = {
  artifacts: ReturnType<typeof artifactStore>;
  attestations: ReturnType<typeof attestationStore>;
  flows: ReturnType<typeof flowStore>;
};

export function policySubjectStore({ artifacts, attestations, flows }: SubjectParts) {
  /** The most recently reported record of each flow; flows in the order of their first record, the build flow first. */
  function records(organizationId: number, fingerprint: string, flowId: number | null): PlacedArtifactRow[] {
    const rows = artifacts.listByFingerprint(organizationId, fingerprint);
    return pickLatestPerFlow(flowId === null ? rows : rows.filter(({ flow_id }) => flow_id === flowId));
  }

  function flowFacts(row: PlacedArtifactRow): FlowFacts {
    return {
      flowName: row.flow_name,
      flowTags: flows.getTags(row.flow_id),
      artifactName: row.filename,
      artifactState: row.state,
      trail:
        row.trail_id === null
          ? null
          : { name: row.trail_name ?? "", candidates: attestations.listPolicyCandidates(row.trail_id, row.id) },
    };
  }

  return {
    listRecords: records,
    /**
     * The subject of these records; archived flows count like any other (decision 65). `artifactName` is the name under
     * which the artifact runs; without it each flow's own name of the artifact stands in.
     */
    buildSubject: (fingerprint: string, rows: readonly PlacedArtifactRow[], artifactName = ""): Subject => ({
      fingerprint,
      artifactName,
      flows: rows.map(flowFacts),
    }),
  };
}
