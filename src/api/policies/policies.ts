import { Type } from "typebox";
import { excerpt } from "../../domain/text/excerpt.ts";
import { POLICY_NAME } from "../../domain/names.ts";
import type { ControlReference } from "../../domain/policy/ast.ts";
import { renderDiagnostics, sortDiagnostics } from "../../domain/policy/diagnostics.ts";
import { invalid } from "../../errors.ts";
import type { AppError } from "../../errors.ts";
import { CONFIGURATION_BOUNDS, NO_BODY } from "../../http/operation.ts";
import type { FormBody } from "../../http/operation.ts";
import { Closed, Matching, Message, OneOf, named } from "../../http/schema.ts";
import type { Store } from "../../store/index.ts";
import type { PolicyEventRow, PolicyRow } from "../../store/policies/policies.ts";
import type { StoredPolicyFile } from "../../workers/documents.ts";
import { documentLane } from "../flows/flows.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { NAME_LENGTH, TEXT_LENGTH } from "../../contract/shapes.ts";
import { OrgPath, NoQuery } from "../paths.ts";

const PolicyPath = Closed({
  org: Type.String({ description: "Name of the organization" }),
  policy_name: Type.String({ description: "Name of the policy" }),
});

/** The `payload` part: these four properties and no others (http-api-v2, policy input). */
const PolicyPutInput = named(
  "PolicyPutInput",
  Closed({
    name: Matching(POLICY_NAME, {
      maxLength: NAME_LENGTH,
      description: "Name of the policy; a policy that has it is updated",
    }),
    description: Type.Optional(
      Type.String({
        default: "",
        maxLength: TEXT_LENGTH,
        description: "What the policy is for; left out, it becomes empty",
      }),
    ),
    type: Type.Optional(
      OneOf(["env"], { default: "env", description: "Kind of policy: the only one is for environments" }),
    ),
    comment: Type.Optional(
      Type.String({
        default: "",
        maxLength: TEXT_LENGTH,
        description: "What changed in this version; kept with a new version only",
      }),
    ),
  }),
);

const policyForm = {
  kind: "form",
  component: "PolicyForm",
  part: "payload",
  schema: PolicyPutInput,
  bounds: CONFIGURATION_BOUNDS,
  file: { part: "policy_file", description: "The policy as YAML in UTF-8, at most 10 MB", kind: "memory" },
} satisfies FormBody<typeof PolicyPutInput>;

const VersionedPolicy = named(
  "VersionedPolicy",
  Closed({
    version: Type.Integer({ description: "1 for the first" }),
    comment: Type.String(),
    timestamp: Type.Number(),
    created_by: Type.String(),
    policy_yaml: Type.String({
      description:
        "The file as it was uploaded, byte for byte; a comment that says so where it is too long to be shown beside the others",
    }),
  }),
);

const PolicyEvent = named(
  "PolicyEvent",
  Closed({
    type: OneOf(["creation", "metadata_update", "new_version", "renaming", "archiving"]),
    timestamp: Type.Number(),
    user: Type.String(),
    data: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), { description: "Of a new_version: the number of the `version`" }),
    ),
  }),
);

const PolicyResponse = named(
  "PolicyResponse",
  Closed({
    name: Type.String(),
    description: Type.String(),
    created_by: Type.String(),
    created_at: Type.Number(),
    last_modified_at: Type.Number({ description: "When description or content changed last" }),
    archived: Type.Boolean({ description: "Always false: policies are not archived" }),
    versions: Type.Array(VersionedPolicy, { description: "Oldest first; empty until a file was uploaded" }),
    events: Type.Array(PolicyEvent, { description: "Oldest first" }),
    consuming_envs: Type.Array(Type.String(), { description: "Names of the environments that use the policy" }),
  }),
);

/** Bytes of files that one answer shows; more would hold up everybody else while it is written. */
const MAX_SHOWN_BYTES = 8 * 1_048_576;

/** What an answer may still show; all of its policies share it. */
type Allowance = { bytes: number };

/**
 * The versions of a policy, oldest first. When there is not room for the texts of all, the newest are shown, and a
 * comment, which is YAML too, says so in place of the others.
 * @param whole whether the text of the newest is shown in any case
 */
function presentVersions({ policies }: Store, policyId: number, allowance: Allowance, whole: boolean) {
  const shown = policies.versionSizes(policyId).map(({ id, version, comment, timestamp, created_by, bytes }, place) => {
    const isShown = bytes <= allowance.bytes || (whole && place === 0);
    if (isShown) allowance.bytes = Math.max(0, allowance.bytes - bytes);
    const text = isShown ? policies.text(id) : `# ${notShown(bytes, whole)}\n`;
    return { version, comment, timestamp, created_by, policy_yaml: text };
  });
  return shown.reverse();
}

const notShown = (bytes: number, whole: boolean): string =>
  `This file of ${bytes} bytes is not shown: an answer shows ${MAX_SHOWN_BYTES} bytes of files, ` +
  (whole ? "the newest first" : "read the policy alone");

const presentEvent = ({ type, timestamp, user_name, data_json }: PolicyEventRow) => ({
  type,
  timestamp,
  user: user_name,
  ...(data_json === null ? {} : { data: eventData(data_json) }),
});

/**
 * Details that cannot be read are marked as such instead of failing the policy, or a list, that they are part of
 * (semantics 9).
 */
function eventData(json: string): Record<string, unknown> {
  const unreadable = { unreadable: true };
  try {
    const data: unknown = JSON.parse(json);
    return typeof data === "object" && data !== null && !Array.isArray(data) ? { ...data } : unreadable;
  } catch {
    return unreadable;
  }
}

const presentPolicy = (store: Store, row: PolicyRow) => presentWithin(store, row, { bytes: MAX_SHOWN_BYTES }, true);

const presentWithin = (store: Store, row: PolicyRow, allowance: Allowance, whole: boolean) => ({
  name: row.name,
  description: row.description,
  created_by: row.created_by,
  created_at: row.created_at,
  last_modified_at: row.last_modified_at,
  archived: false,
  versions: presentVersions(store, row.id, allowance, whole),
  events: store.policies.events(row.id).map(presentEvent),
  consuming_envs: store.policies.consumingEnvironments(row.id),
});
const refused = (line: string): AppError => invalid({ policy_file: line });

/**
 * Every control that a policy names must exist (semantics 5.1, decision 106). One that is archived does: its identifier
 * is taken for ever, and an unchanged file must not become invalid. @throws AppError invalid with all that do not.
 */
function requireControls({ store, organization }: OperationContext, references: readonly ControlReference[]): void {
  const existing = new Set(
    [...new Set(references.map(({ control }) => control))].filter((control) =>
      store.controls.find(organization.id, control),
    ),
  );
  const unknown = references.filter(({ control }) => !existing.has(control));
  if (unknown.length === 0) return;
  const problems = unknown.map(({ control, line, column, path }) => ({
    line,
    column,
    path,
    problem: `Control '${excerpt(control)}' does not exist in organization '${organization.name}'`,
  }));
  throw refused(renderDiagnostics(sortDiagnostics(problems)));
}

export const putPolicy = operation({
  id: "put_policy",
  method: "PUT",
  path: "/policies/{org}",
  tag: "Policies",
  summary: "Create a policy or add a version to it",
  description:
    "A file whose content differs from the latest version becomes the next version; without a file only the description changes. " +
    "The description is taken as sent: left out, it becomes empty. Sending the same content and description again changes nothing, " +
    "a comment of its own included. A file that is no valid policy is refused with all its problems, each with line and column; " +
    "controls that it names must exist. A policy without a file takes part in no evaluation until it has one.",
  permission: "policy:write",
  audit: "policy.put",
  params: OrgPath,
  query: NoQuery,
  body: policyForm,
  responses: {
    200: { description: "The policy existed; this is how it is now", schema: PolicyResponse },
    201: { description: "Created", schema: PolicyResponse },
  },
  example: {
    params: { org: "acme" },
    body: { name: "production", description: "What may run in production", comment: "Ask for a test report" },
    file: [
      "_schema: https://assay.example.com/schemas/policy/environment/v1",
      "artifacts:",
      "  provenance:",
      "    required: true",
      "  attestations:",
      "    - type: junit",
      "      name: unit-tests",
      "",
    ].join("\n"),
  },
  // Reading a large file takes time that the writes of others should not wait for.
  prepare: async (context, { file }) => (file ? context.documents.readPolicy(documentLane(context), file.bytes) : null),
  handle(context, { body }, read: StoredPolicyFile | null) {
    const { store, organization, principal, note } = context;
    const { name, description = "", comment = "" } = body;
    if (read) requireControls(context, read.controls);
    const { policy, created, described, version } = store.policies.put(organization.id, {
      name,
      description,
      user: principal.displayName,
      file: read && { ...read, controls: read.controls.map(({ control }) => control), comment },
    });
    if (version) store.reevaluation.policyVersion(policy.id, principal);
    note({ policy: name, created, described, version: version?.version ?? null });
    return { status: created ? 201 : 200, body: presentPolicy(store, policy) };
  },
});

export const listPolicies = operation({
  id: "list_policies",
  method: "GET",
  path: "/policies/{org}",
  tag: "Policies",
  summary: "List the policies of an organization",
  description: "All policies by name, each with its versions and its history.",
  permission: "policy:read",
  audit: null,
  params: OrgPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The policies", schema: Type.Array(PolicyResponse) } },
  example: { params: { org: "acme" } },
  handle({ store, organization }) {
    const allowance = { bytes: MAX_SHOWN_BYTES };
    const rows = store.policies.list(organization.id);
    return { status: 200, body: rows.map((row) => presentWithin(store, row, allowance, false)) };
  },
});

export const getPolicy = operation({
  id: "get_policy",
  method: "GET",
  path: "/policies/{org}/{policy_name}",
  tag: "Policies",
  summary: "Read a policy with its versions and history",
  description: "`versions` are oldest first: the last one is in force.",
  permission: "policy:read",
  audit: null,
  params: PolicyPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "The policy", schema: PolicyResponse },
    404: { description: "No such policy", schema: Message },
  },
  example: { params: { org: "acme", policy_name: "production" } },
  handle: ({ store, organization }, { params }) => ({
    status: 200,
    body: presentPolicy(store, store.policies.require(organization, params.policy_name)),
  }),
});
