/**
 * The checklist of a trail as one list: what the template expects of the trail and of each artifact, and what else was
 * reported.
 */
import type { AnswerOf } from "../../../http/in-process.ts";
import type { listTrailAttestations } from "../../../api/attestations/trail-attestations.ts";
import type { getTrail } from "../../../api/flows/trails.ts";
import type { ShownState } from "../../components/state.ts";

export type Trail = AnswerOf<typeof getTrail>;
/** A record with the fields of its kind, which are checked one by one. */
export type TrailAttestation = AnswerOf<typeof listTrailAttestations>["data"][number] & Record<string, unknown>;
type Status = Trail["compliance_status"]["attestations_statuses"][number];
type ArtifactStatus = Trail["compliance_status"]["artifacts_statuses"][string];

/** What a group of entries is about: the trail itself, or an artifact by its name in the template. */
type Group = { name: string; artifact: ArtifactStatus } | null;

export type Entry = {
  group: Group;
  status: Status;
  state: ShownState;
  /** The record that counts: the override in force, or the latest report; null for a missing one. */
  id: string | null;
};

/**
 * In the order of the template; what is not in it follows in its group. Missing artifacts without entries are left out.
 */
export function entriesOf({ compliance_status: status }: Pick<Trail, "compliance_status">): Entry[] {
  const groups: [Group, readonly Status[]][] = [
    [null, status.attestations_statuses],
    ...Object.entries(status.artifacts_statuses).map(([name, artifact]): [Group, readonly Status[]] => [
      { name, artifact },
      artifact.attestations_statuses,
    ]),
  ];
  return groups.flatMap(([group, statuses]) =>
    statuses.map((entry) => ({ group, status: entry, state: stateOfStatus(entry), id: idOf(entry) })),
  );
}

const idOf = ({ overridden_attestation_id: override, attestation_id: id }: Status): string | null => override ?? id;

function stateOfStatus({ status, is_compliant: isCompliant }: Status): ShownState {
  if (status === "MISSING") return "missing";
  return isCompliant === true ? "compliant" : "non_compliant";
}

/** Whether the entry is about the record: the one that counts, or the one that an override replaced. */
export const isAbout = ({ status }: Entry, id: string): boolean =>
  status.attestation_id === id || status.overridden_attestation_id === id;

/** Artifacts that the template expects and that were not reported. */
export const missingArtifacts = ({ compliance_status: status }: Pick<Trail, "compliance_status">): string[] =>
  Object.entries(status.artifacts_statuses).flatMap(([name, artifact]) =>
    artifact.status === "MISSING" ? [name] : [],
  );
