/**
 * Policies: uploaded rules for environments, kept as versions (semantics 5.1, 5.5). The latest version of an attached
 * policy is in force.
 */
import { Type } from "typebox";
import { POLICY_NAME } from "../../domain/names.ts";
import type { ControlReference } from "../../domain/policy/ast.ts";
import { SCHEMA_URL } from "../../domain/policy/schema.ts";
import { listDiagnostics, renderDiagnostics } from "../../domain/policy/diagnostics.ts";
import { findMissingControls } from "../../domain/policy/missing-controls.ts";
import { isObject, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import { invalidText } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, ExactlyOne, Matching, Message, OneOf, Repeated, named } from "../../http/schema.ts";
import type { StoreReader } from "../../store/reader.ts";
import type { PolicyEventRow, PolicyRow } from "../../store/policies/policies.ts";
import type { StoredPolicyFile } from "../../workers/documents.ts";
import { documentLane } from "../flows/flows.ts";
import { JsonList } from "../../json/text.ts";
import { largeRead, operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { MAX_TEXT_CHARS } from "../../contract/shapes.ts";
import { MAX_NAME_CHARS } from "../../domain/names.ts";
import { PageCounts, definePaging, pageCounts } from "../paging.ts";
import { OrgPath, NoQuery } from "../paths.ts";
import { configurationForm, versionFields } from "../uploads.ts";

const PolicyPath = Closed({
  org: Type.String({ description: "Name of the organization" }),
  policy_name: Type.String({ description: "Name of the policy" }),
});

/** The `payload` part has these four properties and no others (http-api-v2 2.1). */
const PolicyPutInput = named(
  "PolicyPutInput",
  Closed({
    name: Matching(POLICY_NAME, {
      maxLength: MAX_NAME_CHARS,
      description: "Name of the policy; an existing policy with this name is updated",
    }),
    description: Type.Optional(
      Type.String({
        default: "",
        maxLength: MAX_TEXT_CHARS,
        description: "Purpose of the policy; empty when omitted",
      }),
    ),
    type: Type.Optional(
      OneOf(["env"], { default: "env", description: "Type of policy; policies apply to environments only" }),
    ),
    comment: Type.Optional(
      Type.String({
        default: "",
        maxLength: MAX_TEXT_CHARS,
        description: "What changed in this version; stored only with a new version",
      }),
    ),
  }),
);

const policyForm = configurationForm({
  component: "PolicyForm",
  part: "payload",
  schema: PolicyPutInput,
  file: { part: "policy_file", description: "The policy as YAML in UTF-8, at most 10 MB" },
});

const VersionedPolicy = named(
  "VersionedPolicy",
  Closed({
    version: versionFields.version,
    comment: Type.String({ default: "" }),
    timestamp: versionFields.timestamp,
    created_by: versionFields.created_by,
    policy_yaml: Type.String({
      description:
        "The file as uploaded, byte for byte; a YAML comment in its place when the response has no room for it",
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
      Type.Record(Type.String(), Type.Unknown(), { description: "For `new_version`: the number of the `version`" }),
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
    last_modified_at: Type.Number({ description: "Epoch seconds of the last change to description or content" }),
    archived: Type.Boolean({ default: false, description: "Always false: policies cannot be archived" }),
    versions: Type.Array(VersionedPolicy, { default: [], description: "Oldest first; empty until a file is uploaded" }),
    events: Type.Array(PolicyEvent, { default: [], description: "Oldest first" }),
    consuming_envs: Type.Array(Type.String(), {
      default: [],
      description: "Names of the environments that use the policy",
    }),
  }),
);

const PolicyListPage = named("PolicyListPage", Closed({ ...PageCounts, policies: Type.Array(PolicyResponse) }));

/** Bytes of files in one response; writing more would block other requests. */
const MAX_SHOWN_BYTES = 8 * 1_048_576;

/**
 * `bytes`: what the response may still show. A single policy shows the newest requested file in any case. `files`: the
 * numbers of the versions whose files were requested, and `latest`; null for all.
 */
type Allowance = { bytes: number; readonly isSingle: boolean; readonly files: readonly string[] | null };

/**
 * The versions of a policy, oldest first. When there is no room for all files, the newest are shown, and a comment,
 * which is YAML too, takes the place of the others.
 */
function presentVersions({ policies }: StoreReader, policyId: number, allowance: Allowance) {
  let isFirst = allowance.isSingle;
  const versions = policies
    .listVersions(policyId)
    .map(({ id, version, comment, timestamp, created_by, bytes }, index) => {
      const head = { version, comment, timestamp, created_by };
      if (!isRequested(allowance, version, index === 0))
        return { ...head, policy_yaml: `# This file of ${bytes} bytes was not requested\n` };
      const hasRoom = bytes <= allowance.bytes || isFirst;
      isFirst = false;
      if (hasRoom) allowance.bytes = Math.max(0, allowance.bytes - bytes);
      return { ...head, policy_yaml: hasRoom ? policies.getText(id) : describeOmitted(bytes, allowance) };
    });
  return versions.reverse();
}

function isRequested({ files }: Allowance, version: number, isLatest: boolean): boolean {
  return files === null || files.includes(String(version)) || (isLatest && files.includes("latest"));
}

const describeOmitted = (bytes: number, { isSingle }: Allowance): string =>
  `# This file of ${bytes} bytes is not shown: a response has at most ${MAX_SHOWN_BYTES} bytes of files` +
  `${isSingle ? ", the newest first" : ". Read the policy on its own"}\n`;

const presentEvent = ({ type, timestamp, user_name, data_json }: PolicyEventRow) => ({
  type,
  timestamp,
  user: user_name,
  ...(data_json === null ? {} : { data: readEventData(data_json) }),
});

/** Damaged details are marked, so that they fail neither the policy nor a list (semantics 9). */
const readEventData = (json: string): Record<string, unknown> =>
  readStoredJsonOrNull(json, isObject) ?? { unreadable: true };

const presentSinglePolicy = (store: StoreReader, row: PolicyRow, files: readonly string[] | null = null) =>
  presentPolicy(store, row, { bytes: MAX_SHOWN_BYTES, isSingle: true, files });

const presentPolicy = (store: StoreReader, row: PolicyRow, allowance: Allowance) => ({
  name: row.name,
  description: row.description,
  created_by: row.created_by,
  created_at: row.created_at,
  last_modified_at: row.last_modified_at,
  archived: false,
  versions: presentVersions(store, row.id, allowance),
  events: store.policies.listEvents(row.id).map(presentEvent),
  consuming_envs: store.policies.listConsumingEnvironments(row.id),
});

/**
 * Checks that all controls a policy refers to exist.
 * @throws AppError invalid on `policy_file`, with all controls that do not exist as its `problems`
 */
export function requireControls(
  { store, organization }: ReadingContext,
  references: readonly ControlReference[],
): void {
  const missing = findMissingControls(
    references,
    organization.name,
    (control) => store.controls.find(organization.id, control) !== null,
  );
  if (missing.length > 0) throw invalidText("policy_file", renderDiagnostics(missing), listDiagnostics(missing));
}

export const putPolicy = operation({
  id: "put_policy",
  method: "PUT",
  path: "/policies/{org}",
  tag: "Policies",
  summary: "Create a policy or add a version to it",
  description:
    "A file that differs from the latest version becomes the next version; without a file, only the description " +
    "changes. An omitted description becomes empty. Sending the same file and description again changes nothing, " +
    "even with a new comment. An invalid file is refused with all its problems, each with line and column; the " +
    "controls it refers to must exist. A policy is not evaluated until it has a file.",
  permission: "policy:write",
  audit: "policy.put",
  params: OrgPath,
  query: NoQuery,
  body: policyForm,
  responses: {
    200: { description: "The current state of a policy that existed before", schema: PolicyResponse },
    201: { description: "Created", schema: PolicyResponse },
  },
  example: {
    params: { org: "acme" },
    body: { name: "production", description: "What may run in production", comment: "Require a test report" },
    file: [
      `_schema: ${SCHEMA_URL}`,
      "artifacts:",
      "  provenance:",
      "    required: true",
      "  attestations:",
      "    - type: junit",
      "      name: unit-tests",
      "",
    ].join("\n"),
  },
  // Parsing a large file takes time, and other writes should not wait for it.
  prepare: async (context, { file }) => (file ? context.documents.readPolicy(documentLane(context), file.bytes) : null),
  handle(context, { body }, file: StoredPolicyFile | null) {
    const { store, organization, principal, note } = context;
    const { name, description = "", comment = "" } = body;
    if (file) requireControls(context, file.controls);
    const { policy, created, described, version } = store.policies.put(organization.id, {
      name,
      description,
      user: principal.displayName,
      file: file && { ...file, controls: file.controls.map(({ control }) => control), comment },
    });
    if (version) store.reevaluationQueue.enqueueForPolicy(policy.id, principal);
    note({ policy: name, created, described, version: version?.version ?? null });
    return { status: created ? 201 : 200, body: presentSinglePolicy(store, policy) };
  },
});

const PAGES = definePaging({ perPage: 25, maxPerPage: 100, optional: true });

export const listPolicies = largeRead({
  id: "list_policies",
  method: "GET",
  path: "/policies/{org}",
  tag: "Policies",
  summary: "List the policies of an organization",
  description:
    "The policies by name, each with its versions and history: all of them as a plain list or, with `page` or " +
    "`per_page`, one page in an envelope.",
  permission: "policy:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    ...PAGES.query,
    name: Type.Optional(Type.String({ description: "Part of the name; case-insensitive" })),
    files: Type.Optional(
      OneOf(["all", "latest", "none"], {
        default: "all",
        description: "Versions whose files to show; a YAML comment takes the place of the others",
      }),
    ),
  }),
  body: NO_BODY,
  responses: {
    200: {
      description: "All policies, or one page of them",
      schema: ExactlyOne([PolicyListPage, Type.Array(PolicyResponse)]),
    },
  },
  example: { params: { org: "acme" } },
  handle({ store, organization }, { query }) {
    const files = query.files === "none" ? [] : query.files === "latest" ? ["latest"] : null;
    const allowance: Allowance = { bytes: MAX_SHOWN_BYTES, isSingle: false, files };
    const window = PAGES.optionalWindow(query);
    const search = query.name ?? "";
    const rows = store.policies.list(organization.id, { search, window });
    const policies = JsonList.from(rows, (row) => presentPolicy(store, row, allowance));
    if (!window) return { status: 200, body: policies };
    const total = store.policies.count(organization.id, search);
    return { status: 200, body: { ...pageCounts(total, window.page, window.perPage), policies } };
  },
});

export const getPolicy = largeRead({
  id: "get_policy",
  method: "GET",
  path: "/policies/{org}/{policy_name}",
  tag: "Policies",
  summary: "Read a policy with its versions and history",
  description: "`versions` are oldest first; the last one is in force.",
  permission: "policy:read",
  audit: null,
  params: PolicyPath,
  query: Closed({
    files: Repeated(Matching("^(latest|none|[1-9][0-9]{0,8})$"), {
      description:
        "Versions whose files to show: their numbers, `latest` or `none`; by default all. A YAML comment takes the " +
        "place of the others",
    }),
  }),
  body: NO_BODY,
  responses: {
    200: { description: "The policy", schema: PolicyResponse },
    404: { description: "No such policy", schema: Message },
  },
  example: { params: { org: "acme", policy_name: "production" } },
  handle: ({ store, organization }, { params, query }) => ({
    status: 200,
    body: presentSinglePolicy(store, store.policies.require(organization, params.policy_name), query.files ?? null),
  }),
});
