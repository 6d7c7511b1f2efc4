/** Builds what policies are evaluated on: an artifact with its latest record in each of its flows (semantics 5.4). */
import type { FlowFacts, Subject } from "../../domain/policy/evaluate.ts";
import { pickLatestPerFlow } from "./artifacts.ts";
import type { artifactStore, PlacedArtifactRow } from "./artifacts.ts";
import type { attestationStore } from "../attestations/attestations.ts";
import type { flowStore } from "./flows.ts";

type SubjectParts = {
  artifacts: ReturnType<typeof artifactStore>;
  attestations: ReturnType<typeof attestationStore>;
  flows: ReturnType<typeof flowStore>;
};

export function policySubjectStore({ artifacts, attestations, flows }: SubjectParts) {
  /** The latest record of each flow; flows in the order of their first record, so the build flow comes first. */
  function listRecords(organizationId: number, fingerprint: string, flowId: number | null): PlacedArtifactRow[] {
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
    listRecords,
    /**
     * The subject of these records; archived flows count like active ones (semantics 13.65). `artifactName` is the name
     * under which the artifact runs; without one, the name that each flow has for it is used.
     */
    readSubject: (fingerprint: string, rows: readonly PlacedArtifactRow[], artifactName = ""): Subject => ({
      fingerprint,
      artifactName,
      flows: rows.map(flowFacts),
    }),
  };
}
