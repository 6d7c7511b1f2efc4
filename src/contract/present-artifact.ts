/**
 * An artifact as responses show it. Existing clients fail on null where they expect a text or a list (wire-contract 5),
 * so those fields are never null here; times are epoch seconds as decimal text (wire-contract 1.7).
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import type { AttestationStatus } from "../domain/compliance/attestation.ts";
import { COMMIT_SHA, FINGERPRINT, FLOW_NAME, REFERENCE_NAME, TRAIL_NAME } from "../domain/names.ts";
import { shownCommit } from "../domain/commit.ts";
import {
  hasMembers,
  isListOf,
  isObject,
  isRecordOf,
  isText,
  readNullableStoredJson,
  readStoredJson,
} from "../domain/stored-json.ts";
import { formatEpoch, mergeByTime } from "../domain/time.ts";
import { Closed, Matching, Nullable, OneOf, named } from "../http/schema.ts";
import { readSelector } from "../store/flows/artifact-selector.ts";
import type { PlacedArtifactRow } from "../store/flows/artifacts.ts";
import type { ArtifactLocations } from "../store/environments/artifact-locations.ts";
import { OptionalCauses } from "./causes.ts";
import { presentAttestation } from "./present-attestation.ts";
import { listAllowance, singleAllowance, withLargeJson } from "./large-json.ts";
import { readFreeForm, readNullableReported } from "./reported-json.ts";
import type { Allowance } from "./large-json.ts";
import { GitCommitInfo, RepoInfoResponse, presentCommit, presentRepoInfo } from "./shapes.ts";
import type { GitCommitInfoValue } from "./shapes.ts";
import type { PlacedAttestationRow } from "../store/attestations/attestation-rows.ts";
import { presentOneByOne } from "./placeholders.ts";
import type { PresenterContext } from "./presenter-context.ts";

const TimeText = Type.String({ description: "Epoch seconds as decimal text" });

const ArtifactEvidence = named(
  "ArtifactEvidence",
  Closed({
    evidence_type: Type.String({ description: "Kind of the attestation; for an override, the overridden kind" }),
    is_compliant: Type.Boolean(),
    created_at: TimeText,
    description: Nullable(Type.String()),
    build_url: Nullable(Type.String()),
    commit_sha: Nullable(Type.String()),
    user_data: Type.Unknown(),
    has_audit_package: Type.Boolean(),
    evidence_archive_fingerprint: Nullable(Type.String({ description: "SHA-256 of the evidence file" })),
    evidence_url: Nullable(Type.String({ description: "Download URL of the evidence file" })),
    evidence_fingerprint: Nullable(Type.String()),
    snyk_results: Type.Optional(Type.Unknown()),
    junit_results: Type.Optional(Type.Unknown()),
    jira_results: Type.Optional(Type.Unknown()),
    git_provider: Type.Optional(Type.String()),
    pull_requests: Type.Optional(Type.Array(Type.Unknown())),
  }),
);
type Evidence = Static<typeof ArtifactEvidence>;

/** @param text of the pattern */
const sharedFields = (text: typeof Matching) => ({
  id: Type.String(),
  fingerprint: text(FINGERPRINT),
  filename: Type.String(),
  flow_name: text(FLOW_NAME),
  trail_name: Nullable(text(TRAIL_NAME, { description: "null for an artifact reported without a trail" })),
  template_reference_name: Nullable(text(REFERENCE_NAME)),
  git_commit: text(COMMIT_SHA, { description: "40 zeros for an artifact that was reported without a commit" }),
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
  annotations: Nullable(Type.Record(Type.String(), Type.Unknown())),
  state: OneOf(["COMPLIANT", "NON-COMPLIANT", "INCOMPLETE"]),
  deployments: Type.Array(Type.Integer(), { description: "Always empty" }),
  evidence: Type.Record(Type.String(), ArtifactEvidence, { description: "Latest attestation of each name" }),
});

/**
 * Without the pattern: clients that are generated for Go check the patterns of alternatives, and understand them
 * differently.
 */
const unchecked: typeof Matching = (_pattern, options) => Type.String(options);

export const ArtifactListItemResponse = named(
  "ArtifactListItemResponse",
  Closed({
    ...sharedFields(unchecked),
    releases: Type.Array(Type.Integer(), { description: "Always empty" }),
    ...OptionalCauses,
  }),
);

export const HistoryEntry = Type.Object(
  { event: Type.String(), timestamp: Type.Number() },
  { additionalProperties: false },
);
export type HistoryEntry = Static<typeof HistoryEntry>;

const SnapshotLocation = Type.Object({ environment_name: Type.String(), snapshot_index: Type.Integer() });

export const ArtifactResponse = named(
  "ArtifactResponse",
  Closed({
    ...sharedFields(Matching),
    template: Nullable(
      Type.Array(Type.String(), {
        description: "Names of the attestations that were expected at the last report",
      }),
    ),
    state_info: Nullable(Type.String({ description: "Why the artifact is not compliant" })),
    approvals: Type.Array(Type.Integer(), { maxItems: 0, description: "Always empty" }),
    running: Type.Array(SnapshotLocation),
    exited: Type.Array(SnapshotLocation),
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

const isTextList = isListOf(isText);
const isStatusList = isListOf(hasMembers<AttestationStatus>("status"));
const isUrlRecord = isRecordOf(hasMembers<{ href: string }>("href"));

/**
 * Whether any attestation is bound. Exactly then an entry is COMPLETE, so that artifacts without need no query.
 * @throws StoredJsonError for damaged entries: unreadable evidence must not look like no evidence
 */
const hasEvidence = (row: Pick<PlacedArtifactRow, "attestations_json">): boolean =>
  readStoredJson(row.attestations_json, isStatusList).some(({ status }) => status === "COMPLETE");

function presentShared(context: PresenterContext, listed: PlacedArtifactRow, allowance: Allowance): Shared {
  const row = withLargeJson(context, listed, { table: "artifacts", allowance });
  const { urls } = context;
  const org = context.organization.name;
  return {
    id: row.public_id,
    fingerprint: row.fingerprint,
    filename: row.filename,
    flow_name: row.flow_name,
    trail_name: row.trail_name,
    template_reference_name: row.reference_name,
    git_commit: shownCommit(row.git_commit),
    git_commit_info: presentCommit(row.git_commit_info_json),
    repo_info: presentRepoInfo(row.repo_info_json),
    commit_url: row.commit_url,
    build_url: row.build_url,
    repo_url: row.repo_url,
    html_url: urls.artifactPage(org, row.flow_name, { fingerprint: row.fingerprint, id: row.public_id }),
    api_url: urls.artifactApi(org, row.flow_name, { fingerprint: row.fingerprint, selector: readSelector(row) }),
    created_at: formatEpoch(row.created_at),
    last_modified_at: formatEpoch(row.last_modified_at),
    user_data: readFreeForm(row.user_data_json),
    external_urls: readNullableReported(row.external_urls_json, isUrlRecord),
    annotations: readNullableReported(row.annotations_json, isObject),
    state: row.state,
    deployments: [],
    evidence: presentEvidence(context, row, allowance),
  };
}

function presentEvidence(
  context: PresenterContext,
  row: Pick<PlacedArtifactRow, "id" | "trail_id" | "attestations_json">,
  allowance: Allowance,
): Record<string, Evidence> {
  // The page of an artifact reads the records of its trail.
  if (row.trail_id === null || context.answerBounds?.isForPage || !hasEvidence(row)) return {};
  const records = context.store.attestations.listLatestByArtifact(row.trail_id, row.id);
  return Object.fromEntries(records.map((record) => [record.name, presentEvidenceItem(context, record, allowance)]));
}

/** Fields of the older kinds: the name that readers of artifacts know, and the name in the attestation. */
const KIND_FIELDS = [
  ["snyk_results", "processed_snyk_results"],
  ["junit_results", "junit_results"],
  ["jira_results", "jira_results"],
  ["git_provider", "git_provider"],
  ["pull_requests", "pull_requests"],
] as const;

function presentEvidenceItem(context: PresenterContext, record: PlacedAttestationRow, allowance: Allowance): Evidence {
  const item: ReturnType<typeof presentAttestation> & Record<string, unknown> = presentAttestation(context, record, {
    allowance,
  });
  const fields = KIND_FIELDS.flatMap(([name, source]) =>
    item[source] === undefined ? [] : [[name, item[source]] as const],
  );
  return {
    evidence_type: record.overridden_type ?? record.type,
    is_compliant: item.is_compliant,
    created_at: formatEpoch(record.created_at),
    description: item.description,
    build_url: item.origin_url,
    commit_sha: record.git_commit,
    user_data: item.user_data,
    has_audit_package: item.has_audit_package,
    evidence_archive_fingerprint: record.evidence_digest,
    evidence_url: item._links.evidence?.href ?? null,
    evidence_fingerprint: record.evidence_digest,
    ...Object.fromEntries(fields),
  };
}

/**
 * Presents one record in full.
 * @param allowance unless given, each field is shown whole where possible
 * @throws StoredJsonError for a damaged record; ResponseFullError
 */
export function presentArtifact(
  context: PresenterContext,
  row: PlacedArtifactRow,
  allowance: Allowance = singleAllowance(context),
): Static<typeof ArtifactResponse> {
  const reasons = readNullableStoredJson(row.reasons_json, isTextList) ?? [];
  const locations = context.store.artifactLocations.findByFingerprint(row.organization_id, row.fingerprint);
  const shared = presentShared(context, row, allowance);
  return {
    ...shared,
    template: readNullableStoredJson(row.template_json, isTextList),
    state_info: reasons.length > 0 ? reasons.join("\n") : null,
    approvals: [],
    running: locations.running,
    exited: locations.exited,
    history: presentHistory(context, row, locations),
    ...presentLeadTimes(row, shared.git_commit_info, locations),
  };
}

/**
 * The history of a record: its report, its evidence, its starts and its stops.
 * @throws StoredJsonError for a damaged record
 */
export function presentHistory(
  { store }: PresenterContext,
  row: Pick<PlacedArtifactRow, "id" | "reference_name" | "filename" | "created_at" | "attestations_json">,
  locations: Pick<ArtifactLocations, "transitions">,
): HistoryEntry[] {
  const received = hasEvidence(row) ? store.attestations.listReceivedBy(row.id) : [];
  return [
    // First even if a start is earlier: an artifact may run before it is reported.
    { event: `${row.reference_name ?? row.filename} reported`, timestamp: row.created_at },
    ...mergeByTime(
      received.map(({ name, created_at }) => ({ event: `${name} evidence received`, timestamp: created_at })),
      presentMoves(locations),
    ),
  ];
}

/** The starts and stops of an artifact, oldest first. */
export const presentMoves = ({ transitions }: Pick<ArtifactLocations, "transitions">): HistoryEntry[] =>
  transitions.map(({ environment_name, snapshot_index, started, timestamp }) => ({
    event: `${started ? "started running" : "no longer running"} in ${environment_name}#${snapshot_index}`,
    timestamp,
  }));

/**
 * Seconds until the first start in each environment (semantics 6.10). Lead times from the commit may be negative; those
 * from the build count to the first start after its report, as deployments do. Unknown ones are omitted.
 */
function presentLeadTimes(
  row: PlacedArtifactRow,
  commit: GitCommitInfoValue | null,
  { firstStarts, transitions }: ArtifactLocations,
) {
  const deployed = new Map<string, number>();
  for (const { environment_name, timestamp, started } of transitions)
    if (started && timestamp >= row.created_at && !deployed.has(environment_name))
      deployed.set(environment_name, timestamp - row.created_at);
  // 0: the report had no commit time.
  const committed = commit?.timestamp || null;
  return {
    commit_lead_times: Object.fromEntries(
      firstStarts.flatMap(({ environment_name, created }) =>
        committed === null || created === null ? [] : [[environment_name, created - committed] as const],
      ),
    ),
    build_lead_times: Object.fromEntries(deployed),
  };
}

/** Presents records in full, one by one; a damaged one becomes a placeholder and never fails the list (semantics 9). */
export function presentArtifacts(
  context: PresenterContext,
  rows: Iterable<PlacedArtifactRow>,
  allowance = listAllowance(context),
): Generator<Static<typeof ArtifactResponse>> {
  return presentOneByOne(
    rows,
    (row) => presentArtifact(context, row, allowance),
    (row, reason) => presentArtifact(context, withoutJson(row, reason)),
  );
}

/** As presentArtifacts, in the shorter form of the lists; on request with the causes of their states. */
export function presentArtifactItems(
  context: PresenterContext,
  rows: Iterable<PlacedArtifactRow>,
  { withCauses = false }: { withCauses?: boolean } = {},
): Generator<Static<typeof ArtifactListItemResponse>> {
  const allowance = listAllowance(context);
  return presentOneByOne(
    rows,
    (row) => ({
      ...presentShared(context, row, allowance),
      releases: [],
      ...(withCauses ? context.store.verdictCauses.explainArtifact(row) : {}),
    }),
    (row, reason) => ({ ...presentShared(context, withoutJson(row, reason), singleAllowance(context)), releases: [] }),
  );
}

/** The record without its JSON columns (evidence included), marked by an annotation. */
const withoutJson = (row: PlacedArtifactRow, reason: string): PlacedArtifactRow => ({
  ...row,
  git_commit_info_json: null,
  repo_info_json: null,
  user_data_json: null,
  external_urls_json: null,
  annotations_json: JSON.stringify({ unreadable: reason }),
  template_json: "[]",
  attestations_json: "[]",
  reasons_json: "[]",
});
