/** The explanation of the verdict on a trail, as responses show it (explanation-shapes.ts). */
import type { Static } from "typebox";
import { isFailing, readCause } from "../domain/compliance/attestation.ts";
import type { AttestationStatus } from "../domain/compliance/attestation.ts";
import { typeWordOf } from "../domain/attestation/kinds.ts";
import { causesOfReasons, checklistsOf } from "../domain/compliance/causes.ts";
import { shortenCause } from "../domain/compliance/cause-words.ts";
import { remediesFor } from "../domain/compliance/remedies.ts";
import type { TemplateLines } from "../domain/flow-template/lines.ts";
import type { LineRange } from "../domain/text/source-position.ts";
import type { ExplainedAttestation } from "../store/attestations/explained-attestations.ts";
import type { ExplainedTrail } from "../store/flows/trail-explanations.ts";
import type { TrailRow } from "../store/flows/trails.ts";
import type { TrailExplanation } from "./explanation-shapes.ts";
import type { PresenterContext } from "./presenter-context.ts";
import { findingsOf } from "./causes.ts";
import { presentRecord } from "./present-explanation.ts";
import { presentCommit } from "./shapes.ts";

type TrailExplanationValue = Static<typeof TrailExplanation>;
type Expectation = TrailExplanationValue["attestations"][number];

/** A longer template would fill the response: 2 MB. */
const MAX_SHOWN_CHARS = 2 * 1_048_576;

/** The level of a checklist: the trail, or the artifact with this fingerprint, null for one that is missing. */
type Level = { level: "trail" } | { level: "artifact"; fingerprint: string | null };
type TrailNames = { flow: string; trail: string };

/**
 * Presents an explanation.
 * @param flow the present name of the flow
 * @param lines where the expectations stand in the template; null where that is unknown
 */
export function presentTrailExplanation(
  { store, organization, urls }: PresenterContext,
  explained: ExplainedTrail,
  { trail, flow, lines }: { trail: TrailRow; flow: string; lines: TemplateLines | null },
): TrailExplanationValue {
  const { checklists, attestations, reasons } = explained;
  const names = { flow, trail: trail.name };
  const template = store.templates.get(trail.template_id);
  const commit = readCommit(trail);
  const problems = [...explained.problems, ...commit.problems];
  const present = (entry: AttestationStatus, level: Level, range: LineRange | undefined): Expectation =>
    presentEntry(entry, { names, level, lines: entry.unexpected ? null : (range ?? null), attestations });
  return {
    organization: organization.name,
    flow,
    trail: trail.name,
    html_url: urls.trailPage(organization.name, flow, trail.name),
    git_commit: commit.sha1,
    state: trail.state,
    is_compliant: trail.state === "COMPLIANT",
    reasons,
    evaluated_at: explained.evaluatedAt,
    template: {
      id: template.public_id,
      own: trail.template_inherited === 0,
      content: template.content.length > MAX_SHOWN_CHARS ? null : template.content,
    },
    attestations: checklists.attestations_statuses.map((entry) =>
      present(entry, { level: "trail" }, lines?.attestations.get(entry.attestation_name)),
    ),
    artifacts: Object.entries(checklists.artifacts_statuses).map(([name, artifact]) => {
      const expected = artifact.unexpected ? undefined : lines?.artifacts.get(name);
      const level: Level = { level: "artifact", fingerprint: artifact.artifact_fingerprint };
      return {
        reference_name: name,
        fingerprint: artifact.artifact_fingerprint,
        artifact_id: artifact.artifact_id,
        state: artifact.status,
        unexpected: artifact.unexpected,
        lines: expected?.lines ?? null,
        attestations: artifact.attestations_statuses.map((entry) =>
          present(entry, level, expected?.attestations.get(entry.attestation_name)),
        ),
      };
    }),
    ...presentCauses(explained, names),
    same: problems.length === 0,
    problems,
  };
}

function readCommit({ git_commit_info_json }: TrailRow): { sha1: string | null; problems: string[] } {
  try {
    return { sha1: presentCommit(git_commit_info_json)?.sha1 ?? null, problems: [] };
  } catch {
    return { sha1: null, problems: ["the stored commit cannot be read"] };
  }
}

const stateOf = (entry: AttestationStatus): Expectation["state"] =>
  entry.status === "MISSING" ? "MISSING" : isFailing(entry) ? "NON-COMPLIANT" : "COMPLIANT";

function presentEntry(
  entry: AttestationStatus,
  {
    names,
    level,
    lines,
    attestations,
  }: {
    names: TrailNames;
    level: Level;
    lines: LineRange | null;
    attestations: ReadonlyMap<string, ExplainedAttestation>;
  },
): Expectation {
  const state = stateOf(entry);
  const record = (id: string | null): Expectation["attestation"] => {
    const found = id === null ? null : (attestations.get(id) ?? null);
    const record = presentRecord(found);
    return found && record && { id: found.publicId, name: found.name, is_compliant: found.isCompliant, ...record };
  };
  const cause = {
    kind: state === "MISSING" ? ("missing_attestation" as const) : ("non_compliant_attestation" as const),
    words: "",
    ...names,
    name: entry.attestation_name,
    type: typeWordOf(entry.attestation_type),
    control: null,
    attestation_id: entry.overridden_attestation_id ?? entry.attestation_id,
    level: level.level,
  };
  return {
    name: entry.attestation_name,
    type: entry.attestation_type,
    state,
    unexpected: entry.unexpected,
    overridden: entry.overridden_attestation_id !== null,
    attestation: record(entry.attestation_id),
    override: record(entry.overridden_attestation_id),
    lines,
    satisfied_by:
      state === "COMPLIANT" ? [] : remediesFor(cause, level.level === "artifact" ? level.fingerprint : null),
  };
}

/** The reasons of the verdict, each with what it is about, and what would remove them. */
function presentCauses(
  { checklists, reasons, attestations }: ExplainedTrail,
  names: TrailNames,
): Pick<TrailExplanationValue, "causes" | "satisfied_by"> {
  const causes = causesOfReasons(reasons, { ...names, checklists: checklistsOf(checklists) });
  const fingerprintOf = (artifact: string | null): string | null =>
    artifact !== null && Object.hasOwn(checklists.artifacts_statuses, artifact)
      ? (checklists.artifacts_statuses[artifact]?.artifact_fingerprint ?? null)
      : null;
  return {
    causes: causes.map((cause) => ({ ...cause, ...shortenCause(cause, findingsOf(cause, attestations)) })),
    satisfied_by: causes.flatMap((cause, index) =>
      remediesFor(cause, fingerprintOf(readCause(reasons[index] ?? "")?.artifact ?? null)),
    ),
  };
}
