/** An attestation as responses show it. */
import { Type } from "typebox";
import type { Static } from "typebox";
import { Closed, Nullable, named } from "../http/schema.ts";
import { listAllowance, singleAllowance, withLargeJson } from "./large-json.ts";
import { readFreeForm, readNullableReported, readReported, readReportedMembers } from "./reported-json.ts";
import type { Allowance } from "./large-json.ts";
import { isListOf, isObject, isRecordOf, isText } from "../domain/stored-json.ts";
import { GitCommitInfo, presentCommit } from "./shapes.ts";
import type { PlacedAttestationRow } from "../store/attestations/attestation-rows.ts";
import { JsonList, JsonText, itemsOf, outlineOf, toMembers } from "../json/text.ts";
import { MAX_INLINE_JSON_BYTES } from "../store/db/large-json.ts";
import { presentOneByOne } from "./placeholders.ts";
import type { PresenterContext } from "./presenter-context.ts";

const NoCommit = named(
  "NoCommit",
  Closed({ branch: Type.Literal("") }, { description: "Placeholder for a missing commit, in the list of a flow only" }),
);

const Link = Type.Object({ href: Type.String() }, { additionalProperties: false });

export const AttestationItem = named(
  "AttestationItem",
  Type.Object(
    {
      attestation_id: Type.String(),
      attestation_name: Type.String(),
      attestation_type: Type.String({ description: "A built-in kind, `custom:NAME`, `system:NAME` or `override`" }),
      schema_version: Type.Integer(),
      is_compliant: Type.Boolean(),
      created_at: Type.Number({ description: "Epoch seconds" }),
      reported_by: Type.String(),
      description: Nullable(Type.String()),
      origin_url: Nullable(Type.String()),
      html_url: Type.String(),
      artifact_fingerprint: Nullable(Type.String()),
      target_artifacts: Nullable(Type.Array(Type.String())),
      git_commit_info: Nullable(Type.Union([GitCommitInfo, NoCommit])),
      external_urls: Nullable(Type.Record(Type.String(), Type.Unknown())),
      annotations: Type.Record(Type.String(), Type.String()),
      user_data: Type.Unknown(),
      has_audit_package: Type.Boolean(),
      evidence_archive_fingerprint: Nullable(Type.String({ description: "SHA-256 of the evidence file" })),
      evidence_archive_path: Nullable(Type.String()),
      flow_name: Type.String(),
      trail_name: Type.String(),
      _links: Type.Object({ self: Link, evidence: Type.Optional(Link) }, { additionalProperties: false }),
    },
    {
      description:
        "The common fields, plus the fields of the kind, such as `junit_results` or `pull_requests`. The fields of a " +
        "custom type are `type_name`, `type_version`, `attestation_data`, `rules` (each with `rule`, `is_compliant` " +
        "and `reason`, which is null for a satisfied rule) and `summary` (null, or `groups` of rows with `name`, " +
        "`value` and `error`, one group for each element of an array, and `left_out`, the number of elements without " +
        "a group)",
    },
  ),
);

export const AttestationResponse = named("AttestationResponse", Type.Array(AttestationItem));

type PresentOptions = {
  /** What the response may still show. */
  allowance: Allowance;
  /** The placeholder for a missing commit: null, or `{branch: ""}` in the list of a flow. */
  missingCommit?: "null" | "branch";
};

const isTextList = isListOf(isText);
const isTextRecord = isRecordOf(isText);

/** Presents a record in full. @throws StoredJsonError for a damaged record; ResponseFullError */
export function presentAttestation(
  context: PresenterContext,
  listed: PlacedAttestationRow,
  { allowance, missingCommit = "null" }: PresentOptions,
): Static<typeof AttestationItem> {
  const row = withLargeJson(context, listed, { table: "attestations", allowance });
  const org = context.organization;
  const { urls } = context;
  const address = { flow: row.flow_name, trail: row.trail_name, id: row.public_id };
  const commit = presentCommit(row.git_commit_info_json);
  return {
    ...presentPayload(row.type, readReportedMembers(row.payload_json)),
    ...(row.control === null ? {} : { control: row.control, control_version: row.control_version }),
    schema_version: 2,
    attestation_type: row.type,
    attestation_name: row.name,
    attestation_id: row.public_id,
    is_compliant: row.is_compliant === 1,
    origin_url: row.origin_url,
    description: row.description,
    artifact_fingerprint: row.artifact_fingerprint,
    target_artifacts: readNullableReported(row.target_artifacts_json, isTextList),
    git_commit_info: commit ?? (missingCommit === "branch" ? { branch: "" } : null),
    external_urls: readNullableReported(row.external_urls_json, isObject),
    annotations: readReported(row.annotations_json, isTextRecord),
    user_data: readFreeForm(row.user_data_json),
    // A name in the terms of the API; only the evidence store knows where the bytes are.
    evidence_archive_path:
      row.evidence_digest === null
        ? null
        : `${org.public_id}/attestations/${row.public_id}/${row.evidence_filename ?? "file"}`,
    evidence_archive_fingerprint: row.evidence_digest,
    created_at: row.created_at,
    html_url: urls.attestationPage(org.name, address),
    flow_name: row.flow_name,
    trail_name: row.trail_name,
    reported_by: row.reported_by,
    // Every record belongs to a trail, and every trail can be downloaded as a package.
    has_audit_package: true,
    _links: {
      self: { href: urls.attestationApi(org.name, row.public_id) },
      ...(row.evidence_digest === null ? {} : { evidence: { href: urls.evidenceApi(org.name, address) } }),
    },
  };
}

/**
 * Presents older pull requests in the newer shape, because readers expect `approvers[].username` (wire-contract 6.2).
 * Lists that are too long to be parsed are presented item by item, while they are written.
 */
function presentPayload(type: string, facts: Record<string, unknown>): Record<string, unknown> {
  const { pull_requests: found } = facts;
  if (type !== "pull_request" || !isList(found)) return facts;
  return { ...facts, pull_requests: mapItems(found, presentPullRequest) };
}

const isList = (value: unknown): boolean =>
  Array.isArray(value) || (value instanceof JsonText && value.text.startsWith("["));

function presentPullRequest(reported: unknown): Record<string, unknown> {
  const found = membersIn(reported);
  const { author, approvers, commits } = found;
  return {
    ...found,
    author: author ?? "",
    approvers: mapItems(approvers, (approver) => (typeof approver === "string" ? { username: approver } : approver)),
    commits: mapItems(commits, (commit) => ({ author_username: null, ...membersIn(commit) })),
  };
}

/** The members of an object; the long ones of a long text are texts. */
const membersIn = (value: unknown): Record<string, unknown> =>
  value instanceof JsonText && value.text.length > MAX_INLINE_JSON_BYTES ? outlineOf(value) : toMembers(value);

/** The list of what `present` makes of each item: of a long text one by one, while it is written. */
const mapItems = (list: unknown, present: (item: unknown) => unknown): unknown[] | JsonList =>
  list instanceof JsonText ? JsonList.from(itemsOf(list), present) : [...itemsOf(list)].map(present);

/**
 * Presents the records of a list one by one; a damaged one becomes a placeholder (semantics 9).
 * @param options `allowance`: given when the response holds further records
 */
export function presentAttestations(
  context: PresenterContext,
  rows: Iterable<PlacedAttestationRow>,
  { missingCommit = "null", allowance = listAllowance(context) }: Partial<PresentOptions> = {},
): Generator<Static<typeof AttestationItem>> {
  return presentOneByOne(
    rows,
    (row) => presentAttestation(context, row, { allowance, missingCommit }),
    (row, reason) =>
      presentAttestation(context, withoutJson(row, reason), { allowance: singleAllowance(context), missingCommit }),
  );
}

/** As presentAttestations, for the records with one id or name: one that is alone is shown whole. */
export function* presentAttestationsOf(
  context: PresenterContext,
  rows: Iterable<PlacedAttestationRow>,
): ReturnType<typeof presentAttestations> {
  const first: PlacedAttestationRow[] = [];
  let allowance: Allowance | null = null;
  for (const row of rows) {
    if (allowance !== null) yield* presentAttestations(context, [row], { allowance });
    else if (first.push(row) === 2)
      yield* presentAttestations(context, first, { allowance: (allowance = listAllowance(context)) });
  }
  if (allowance === null) yield* presentAttestations(context, first, { allowance: singleAllowance(context) });
}

/** The record without its JSON columns, marked in its description. */
const withoutJson = (row: PlacedAttestationRow, reason: string): PlacedAttestationRow => ({
  ...row,
  description: reason,
  payload_json: '{"unreadable":true}',
  target_artifacts_json: null,
  git_commit_info_json: null,
  external_urls_json: null,
  annotations_json: "{}",
  user_data_json: null,
});
