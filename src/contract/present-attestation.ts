/** A stored record as answers show it. */
import { Type } from "typebox";
import type { Static } from "typebox";
import { Nullable, named } from "../http/schema.ts";
import { freeForm, listAllowance, singleAllowance, withLargeJson } from "./large-json.ts";
import type { Allowance } from "./large-json.ts";
import { GitCommitInfo, fromJson, presentCommit } from "./shapes.ts";
import type { PlacedAttestationRow } from "../store/attestations/attestation-rows.ts";
import { presentEach } from "./placeholders.ts";
import type { PresenterContext } from "./presenter-context.ts";

const NoCommit = Type.Object(
  { branch: Type.Literal("") },
  { additionalProperties: false, description: "The list of one flow shows this where there is no commit" },
);

const Link = Type.Object({ href: Type.String() }, { additionalProperties: false });

export const AttestationItem = named(
  "AttestationItem",
  Type.Object(
    {
      attestation_id: Type.String(),
      attestation_name: Type.String(),
      attestation_type: Type.String({ description: "A built-in kind, `custom:NAME`, `system:decision` or `override`" }),
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
        "The common fields; beside them stand the facts of the kind, such as `junit_results` or `pull_requests`. Of a type of the organization's own these are " +
        "`type_name`, `type_version`, `attestation_data`, `rules` (each with `rule`, `is_compliant` and `reason`, null where it holds) and `summary` (null, or " +
        "`groups` of rows with `name`, `value` and `error`, one group for each element of an array, and the number `left_out` of elements without one)",
    },
  ),
);

export const AttestationResponse = named("AttestationResponse", Type.Array(AttestationItem));

/**
 * A record in full. `placeCommit` says what stands for a missing commit: null, or `{branch: ""}` in the list of a flow.
 */
export function presentAttestation(
  context: PresenterContext,
  listed: PlacedAttestationRow,
  allowance: Allowance,
  placeCommit: "null" | "branch" = "null",
): Static<typeof AttestationItem> {
  const row = withLargeJson(context, "attestations", listed, allowance);
  const org = context.organization;
  const { urls } = context;
  const commit = presentCommit(row.git_commit_info_json);
  return {
    ...presentFacts(row.type, fromJson<Record<string, unknown>>(row.payload_json) ?? {}),
    ...(row.control === null ? {} : { control: row.control, control_version: row.control_version }),
    schema_version: 2,
    attestation_type: row.type,
    attestation_name: row.name,
    attestation_id: row.public_id,
    is_compliant: row.is_compliant === 1,
    origin_url: row.origin_url,
    description: row.description,
    artifact_fingerprint: row.artifact_fingerprint,
    target_artifacts: fromJson<string[]>(row.target_artifacts_json),
    git_commit_info: commit ?? (placeCommit === "branch" ? { branch: "" } : null),
    external_urls: fromJson<Record<string, unknown>>(row.external_urls_json),
    annotations: fromJson<Record<string, string>>(row.annotations_json) ?? {},
    user_data: freeForm(row.user_data_json),
    // A name in the terms of the API; where the bytes lie is the vault's own business.
    evidence_archive_path:
      row.evidence_digest === null
        ? null
        : `${org.public_id}/attestations/${row.public_id}/${row.evidence_filename ?? "file"}`,
    evidence_archive_fingerprint: row.evidence_digest,
    created_at: row.created_at,
    html_url: urls.attestationPage(org.name, row.flow_name, row.trail_name, row.public_id),
    flow_name: row.flow_name,
    trail_name: row.trail_name,
    reported_by: row.reported_by,
    // A record belongs to a trail, and every trail can be had as a package.
    has_audit_package: true,
    _links: {
      self: { href: urls.attestationApi(org.name, row.public_id) },
      ...(row.evidence_digest === null
        ? {}
        : { evidence: { href: urls.evidenceApi(org.name, row.flow_name, row.trail_name, row.public_id) } }),
    },
  };
}

type PullRequest = { approvers?: readonly (string | object)[] | null; commits?: readonly object[]; author?: string };

/**
 * Pull requests of the older item shape are shown in the newer one, because readers look for `approvers[].username`
 * (wire-contract 6.2).
 */
function presentFacts(type: string, facts: Record<string, unknown>): Record<string, unknown> {
  if (type !== "pull_request" || !Array.isArray(facts["pull_requests"])) return facts;
  const pullRequests = (facts["pull_requests"] as PullRequest[]).map((found) => ({
    ...found,
    author: found.author ?? "",
    approvers: (found.approvers ?? []).map((approver) =>
      typeof approver === "string" ? { username: approver } : approver,
    ),
    commits: (found.commits ?? []).map((commit) => ({ author_username: null, ...commit })),
  }));
  return { ...facts, pull_requests: pullRequests };
}

type Manner = { placeCommit?: "null" | "branch"; allowance?: Allowance };

/**
 * Records one by one: a record that cannot be shown is replaced by a marked placeholder and never fails the list
 * (semantics 9).
 * @param manner `allowance`: what the answer may still show, when these are not all of its records
 */
export function presentAttestations(
  context: PresenterContext,
  rows: Iterable<PlacedAttestationRow>,
  { placeCommit = "null", allowance = listAllowance() }: Manner = {},
): Static<typeof AttestationItem>[] {
  return presentEach(
    rows,
    (row) => presentAttestation(context, row, allowance, placeCommit),
    (row, mark) => presentAttestation(context, unreadable(row, mark), singleAllowance(), placeCommit),
  );
}

/** The record without its JSON columns, marked in its description. */
const unreadable = (row: PlacedAttestationRow, mark: string): PlacedAttestationRow => ({
  ...row,
  description: mark,
  payload_json: '{"unreadable":true}',
  target_artifacts_json: null,
  git_commit_info_json: null,
  external_urls_json: null,
  annotations_json: "{}",
  user_data_json: null,
});
