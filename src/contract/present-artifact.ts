/**
 * An artifact record as answers show it. Existing clients fail on null where they expect a text or a list
 * (wire-contract 5), so those fields are never null here; times are epoch seconds as decimal text (wire-contract 1.7).
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import type { AttestationStatus } from "../domain/compliance/attestation.ts";
import { COMMIT_SHA, FINGERPRINT, FLOW_NAME } from "../domain/names.ts";
import { epochText, mergedByTime } from "../domain/time.ts";
import { Closed, Matching, Nullable, OneOf, named } from "../http/schema.ts";
import { selectorOf } from "../store/flows/artifact-selector.ts";
import type { PlacedArtifactRow } from "../store/flows/artifacts.ts";
import type { ArtifactLocations } from "../store/environments/artifact-locations.ts";
import { presentAttestation } from "./present-attestation.ts";
import { freeForm, listAllowance, singleAllowance, withLargeJson } from "./large-json.ts";
import type { Allowance } from "./large-json.ts";
import { GitCommitInfo, RepoInfoResponse, fromJson, presentCommit, presentRepoInfo } from "./shapes.ts";
import type { GitCommitInfoValue } from "./shapes.ts";
import type { PlacedAttestationRow } from "../store/attestations/attestation-rows.ts";
import { presentEach } from "./placeholders.ts";
import type { PresenterContext } from "./presenter-context.ts";

const TimeText = Type.String({ description: "Epoch seconds as decimal text" });

const ArtifactEvidence = named(
  "ArtifactEvidence",
  Closed({
    evidence_type: Type.String({ description: "Kind of the attestation; of an override: what it overrides" }),
    is_compliant: Type.Boolean(),
    created_at: TimeText,
    description: Nullable(Type.String()),
    build_url: Nullable(Type.String()),
    commit_sha: Nullable(Type.String()),
    user_data: Type.Unknown(),
    has_audit_package: Type.Boolean(),
    evidence_archive_fingerprint: Nullable(Type.String({ description: "SHA-256 of the evidence file" })),
    evidence_url: Nullable(Type.String({ description: "Where the evidence file can be downloaded" })),
    evidence_fingerprint: Nullable(Type.String()),
    snyk_results: Type.Optional(Type.Unknown()),
    junit_results: Type.Optional(Type.Unknown()),
    jira_results: Type.Optional(Type.Unknown()),
    git_provider: Type.Optional(Type.Unknown()),
    pull_requests: Type.Optional(Type.Unknown()),
  }),
);
type Evidence = Static<typeof ArtifactEvidence>;

const shared = {
  id: Type.String(),
  fingerprint: Matching(FINGERPRINT),
  filename: Type.String(),
  flow_name: Matching(FLOW_NAME),
  trail_name: Nullable(Type.String({ description: "null for an artifact that was reported without a trail" })),
  template_reference_name: Nullable(Type.String()),
  git_commit: Matching(COMMIT_SHA),
  git_commit_info: Nullable(GitCommitInfo),
  repo_info: Nullable(RepoInfoResponse),
  commit_url: Type.String(),
  build_url: Type.String(),
  repo_url: Nullable(Type.String()),
  html_url: Type.String(),
  api_url: Type.String(),
  created_at: TimeText,
  last_modified_at: TimeText,
  user_data: Type.Unknown(),
  external_urls: Nullable(
    Type.Record(
      Type.String(),
      Type.Object(
        { href: Type.String(), fingerprint: Type.Optional(Nullable(Type.String())) },
        { additionalProperties: false },
      ),
    ),
  ),
  annotations: Nullable(Type.Record(Type.String(), Type.String())),
  state: OneOf(["COMPLIANT", "NON-COMPLIANT", "INCOMPLETE"]),
  deployments: Type.Array(Type.Integer(), { description: "Always empty" }),
  evidence: Type.Record(Type.String(), ArtifactEvidence, { description: "The latest attestation of each name" }),
};

export const ArtifactListItemResponse = named(
  "ArtifactListItemResponse",
  Closed({ ...shared, releases: Type.Array(Type.Integer(), { description: "Always empty" }) }),
);

export const HistoryEntry = Type.Object(
  { event: Type.String(), timestamp: Type.Number() },
  { additionalProperties: false },
);
export type HistoryEntry = Static<typeof HistoryEntry>;

const Place = Type.Object({ environment_name: Type.String(), snapshot_index: Type.Integer() });

export const ArtifactResponse = named(
  "ArtifactResponse",
  Closed({
    ...shared,
    template: Nullable(
      Type.Array(Type.String(), {
        description: "Names of the attestations that were expected of it at its last report",
      }),
    ),
    state_info: Nullable(Type.String({ description: "Why the artifact is not compliant" })),
    approvals: Type.Array(Type.Integer(), { description: "Always empty" }),
    running: Type.Array(Place),
    exited: Type.Array(Place),
    history: Type.Array(HistoryEntry),
    commit_lead_times: Type.Record(Type.String(), Type.Number(), {
      description: "Seconds from commit to start, by environment",
    }),
    build_lead_times: Type.Record(Type.String(), Type.Number(), {
      description: "Seconds from build to start, by environment",
    }),
  }),
);

type Shared = Omit<Static<typeof ArtifactListItemResponse>, "releases">;

/**
 * Whether any attestation is bound: then, and only then, is an entry COMPLETE, so that the others need no query.
 * @throws SyntaxError where the entries are damaged: evidence that cannot be told is not "none".
 */
const hasEvidence = (row: Pick<PlacedArtifactRow, "attestations_json">): boolean =>
  (JSON.parse(row.attestations_json) as AttestationStatus[]).some(({ status }) => status === "COMPLETE");

function presentShared(context: PresenterContext, listed: PlacedArtifactRow, allowance: Allowance): Shared {
  const row = withLargeJson(context, "artifacts", listed, allowance);
  const { urls } = context;
  const org = context.organization.name;
  return {
    id: row.public_id,
    fingerprint: row.fingerprint,
    filename: row.filename,
    flow_name: row.flow_name,
    trail_name: row.trail_name,
    template_reference_name: row.reference_name,
    git_commit: row.git_commit,
    git_commit_info: presentCommit(row.git_commit_info_json),
    repo_info: presentRepoInfo(row.repo_info_json),
    commit_url: row.commit_url,
    build_url: row.build_url,
    repo_url: row.repo_url,
    html_url: urls.artifactPage(org, row.flow_name, row.fingerprint, row.public_id),
    api_url: urls.artifactApi(org, row.flow_name, row.fingerprint, selectorOf(row)),
    created_at: epochText(row.created_at),
    last_modified_at: epochText(row.last_modified_at),
    user_data: freeForm(row.user_data_json),
    external_urls: fromJson<Record<string, { href: string }>>(row.external_urls_json),
    annotations: fromJson<Record<string, string>>(row.annotations_json),
    state: row.state,
    deployments: [],
    evidence: evidenceOf(context, row, allowance),
  };
}

function evidenceOf(context: PresenterContext, row: PlacedArtifactRow, allowance: Allowance): Record<string, Evidence> {
  if (row.trail_id === null || !hasEvidence(row)) return {};
  const records = context.store.attestations.latestOfArtifact(row.trail_id, row.id);
  return Object.fromEntries(records.map((record) => [record.name, presentEvidence(context, record, allowance)]));
}

/** Facts of the older kinds under the names that readers of artifacts know. */
const FACTS = [
  ["snyk_results", "processed_snyk_results"],
  ["junit_results", "junit_results"],
  ["jira_results", "jira_results"],
  ["git_provider", "git_provider"],
  ["pull_requests", "pull_requests"],
] as const;

function presentEvidence(context: PresenterContext, record: PlacedAttestationRow, allowance: Allowance): Evidence {
  const shown = presentAttestation(context, record, allowance) as ReturnType<typeof presentAttestation> &
    Record<string, unknown>;
  const facts = FACTS.filter(([, source]) => shown[source] !== undefined).map(([name, source]) => [
    name,
    shown[source],
  ]);
  return {
    evidence_type: record.overridden_type ?? record.type,
    is_compliant: shown.is_compliant,
    created_at: epochText(record.created_at),
    description: shown.description,
    build_url: shown.origin_url,
    commit_sha: record.git_commit,
    user_data: shown.user_data,
    has_audit_package: shown.has_audit_package,
    evidence_archive_fingerprint: record.evidence_digest,
    evidence_url: shown._links.evidence?.href ?? null,
    evidence_fingerprint: record.evidence_digest,
    ...(Object.fromEntries(facts) as object),
  };
}

/** One record in full, each field whole unless the allowance is another. @throws SyntaxError for a damaged record. */
export function presentArtifact(
  context: PresenterContext,
  row: PlacedArtifactRow,
  allowance: Allowance = singleAllowance(),
): Static<typeof ArtifactResponse> {
  const reasons = fromJson<string[]>(row.reasons_json) ?? [];
  const presence = context.store.presence.ofArtifact(row.organization_id, row.fingerprint);
  const shared = presentShared(context, row, allowance);
  return {
    ...shared,
    template: fromJson<string[]>(row.template_json),
    state_info: reasons.length > 0 ? reasons.join("\n") : null,
    approvals: [],
    running: presence.running,
    exited: presence.exited,
    history: historyOf(context, row, presence),
    ...leadTimes(row, shared.git_commit_info, presence),
  };
}

/**
 * What happened to a record: its report, its evidence, and where it started and stopped. @throws SyntaxError for a
 * damaged record.
 */
export function historyOf(
  { store }: PresenterContext,
  row: Pick<PlacedArtifactRow, "id" | "reference_name" | "filename" | "created_at" | "attestations_json">,
  presence: Pick<ArtifactLocations, "moves">,
): HistoryEntry[] {
  const received = hasEvidence(row) ? store.attestations.receivedBy(row.id) : [];
  return [
    // First whatever the times say: an artifact may run before it is reported.
    { event: `${row.reference_name ?? row.filename} reported`, timestamp: row.created_at },
    ...mergedByTime(
      received.map(({ name, created_at }) => ({ event: `${name} evidence received`, timestamp: created_at })),
      movesOf(presence),
    ),
  ];
}

/** Where an artifact started and stopped, the oldest first. */
export const movesOf = ({ moves }: Pick<ArtifactLocations, "moves">): HistoryEntry[] =>
  moves.map(({ environment_name, snapshot_index, started, timestamp }) => ({
    event: `${started ? "started running" : "no longer running"} in ${environment_name}#${snapshot_index}`,
    timestamp,
  }));

/**
 * Seconds until the first start in each environment (semantics 6.10). From the commit they may be negative; from the
 * build they count to the first start after it was reported, as deployments do. What is not known is left out.
 */
function leadTimes(
  row: PlacedArtifactRow,
  commit: GitCommitInfoValue | null,
  { firstStarts, moves }: ArtifactLocations,
) {
  const deployed = new Map<string, number>();
  for (const { environment_name, timestamp, started } of moves)
    if (started && timestamp >= row.created_at && !deployed.has(environment_name))
      deployed.set(environment_name, timestamp - row.created_at);
  // 0: the report did not tell the time of the commit.
  const committed = commit?.timestamp || null;
  return {
    commit_lead_times: Object.fromEntries(
      firstStarts.flatMap(({ environment_name, created }) =>
        committed === null || created === null ? [] : [[environment_name, created - committed]],
      ),
    ) as Record<string, number>,
    build_lead_times: Object.fromEntries(deployed),
  };
}

/** Records in full; a damaged one becomes a placeholder and never fails the list (semantics 9). */
export function presentArtifacts(
  context: PresenterContext,
  rows: readonly PlacedArtifactRow[],
  allowance = listAllowance(),
): Static<typeof ArtifactResponse>[] {
  return presentEach(
    rows,
    (row) => presentArtifact(context, row, allowance),
    (row, mark) => presentArtifact(context, unreadable(row, mark)),
  );
}

/** Records as the lists show them; as presentArtifacts. */
export function presentArtifactItems(
  context: PresenterContext,
  rows: readonly PlacedArtifactRow[],
): Static<typeof ArtifactListItemResponse>[] {
  const allowance = listAllowance();
  return presentEach(
    rows,
    (row) => ({ ...presentShared(context, row, allowance), releases: [] }),
    (row, mark) => ({ ...presentShared(context, unreadable(row, mark), singleAllowance()), releases: [] }),
  );
}

/** The record without what is stored as JSON, its evidence included; marked by an annotation. */
const unreadable = (row: PlacedArtifactRow, mark: string): PlacedArtifactRow => ({
  ...row,
  git_commit_info_json: null,
  repo_info_json: null,
  user_data_json: null,
  external_urls_json: null,
  annotations_json: JSON.stringify({ unreadable: mark }),
  template_json: "[]",
  attestations_json: "[]",
  reasons_json: "[]",
});
