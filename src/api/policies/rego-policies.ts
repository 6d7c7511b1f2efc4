/** Rego policies: versioned bundles that evaluations run (newer-clients 5). policies.ts has those of environments. */
import { Type } from "typebox";
import { REGO_POLICY_IDENTIFIER } from "../../domain/names.ts";
import type { RegoFiles } from "../../domain/rego/bundle.ts";
import { notFound } from "../../errors.ts";
import { NO_BODY, json } from "../../http/operation.ts";
import { Closed, Matching, Maybe, Message, named } from "../../http/schema.ts";
import { JsonList } from "../../json/text.ts";
import { unpackBundle } from "../../rego/bundle-archive.ts";
import type { RegoPolicyRow, RegoPolicyVersionRow } from "../../store/policies/rego-policies.ts";
import { presentOneByOne } from "../../contract/placeholders.ts";
import { Text } from "../../contract/shapes.ts";
import { largeRead, operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { definePaging, pageCounts } from "../paging.ts";
import { NoQuery, OrgPath } from "../paths.ts";
import { SortDirection } from "./controls.ts";
import {
  MAX_IDENTIFIER_CHARS,
  PolicyName,
  RegoPolicyListItem,
  RegoPolicyListPage,
  RegoPolicyPostInput,
  RegoPolicyPublished,
  RegoPolicyPutInput,
  RegoPolicyResponse,
  RegoPolicyVersion,
  RegoPolicyVersionListPage,
  presentRegoPolicy,
  presentVersion,
  presentVersionPlaceholder,
  publicationBody,
} from "./rego-policy-shapes.ts";
import { preparePublication, publish, readPublication } from "./rego-publication.ts";
import { parseVersionText } from "./rego-spellings.ts";

/** They follow the rules of controls (newer-clients 4.6). */
const REGO_OPERATION = { tag: "Rego policies", origin: "assay", feature: "controls" } as const;
const NO_POLICY = { description: "No such Rego policy", schema: Message };
const NO_VERSION = { description: "No such Rego policy, or it has no such version", schema: Message };

const PolicyPath = Closed({
  ...OrgPath.properties,
  rego_identifier: Type.String({ description: "Identifier of the Rego policy" }),
});
const VersionPath = Closed({
  ...PolicyPath.properties,
  rego_version: Type.String({ description: "Number of the version: `2` or `v2`" }),
});

/** The sources of a version. @throws as reading evidence does */
const readSources = async ({ rego }: ReadingContext, { bundle_digest }: RegoPolicyVersionRow): Promise<RegoFiles> =>
  unpackBundle(await rego.documents.read(bundle_digest));

/** The version that a path or query names. @throws AppError not_found, also for what is not a number */
function requireVersion({ store }: ReadingContext, policy: RegoPolicyRow, text: string): RegoPolicyVersionRow {
  const number = parseVersionText(text);
  if (number === null) throw notFound(`Rego policy '${policy.identifier}' has no version ${text}`);
  return store.regoPolicies.requireVersion(policy, number);
}

const EXAMPLE_FILES = {
  "policy.rego":
    'package policy\n\ndefault allow := false\n\nallow if input.trail.compliance_status.status == "COMPLIANT"\n',
};
const PUBLISHED = {
  200: { description: "Nothing new, or another name or description alone", schema: RegoPolicyPublished },
  201: { description: "A new policy, or a new version", schema: RegoPolicyPublished },
};
const PUBLISHING =
  "The bundle is loaded by the engine, without running it: one that does not load is refused with the engine's text, " +
  "by the kind of the failure. Content that equals the latest version makes no version. An absent or null `name` or " +
  "`description` is unchanged.";

export const putRegoPolicy = operation({
  ...REGO_OPERATION,
  id: "put_rego_policy",
  method: "PUT",
  path: "/rego-policies/{org}/{rego_identifier}",
  summary: "Publish a Rego policy or its next version",
  description: `Sends the files as JSON, or as a gzipped tar in a form. ${PUBLISHING}`,
  permission: "rego_policy:write",
  audit: "rego_policy.published",
  params: Closed({
    ...OrgPath.properties,
    rego_identifier: Matching(REGO_POLICY_IDENTIFIER, {
      maxLength: MAX_IDENTIFIER_CHARS,
      description: "Identifier of the Rego policy",
    }),
  }),
  query: NoQuery,
  body: publicationBody("RegoPolicyPutForm", RegoPolicyPutInput),
  responses: PUBLISHED,
  example: {
    params: { org: "acme", rego_identifier: "four-eyes" },
    body: { name: "Four eyes", comment: "The first version", files: EXAMPLE_FILES },
  },
  prepare: (context, { body, file }) =>
    preparePublication(context, readPublication(context, RegoPolicyPutInput, body), file),
  stages: ({ bundle }) => bundle.staged,
  handle: (context, { params }, prepared) => publish(context, params.rego_identifier, prepared),
});

export const postRegoPolicy = operation({
  ...REGO_OPERATION,
  id: "post_rego_policy",
  method: "POST",
  path: "/rego-policies/{org}",
  summary: "Publish a Rego policy or its next version, with the identifier in the body",
  description: PUBLISHING,
  permission: "rego_policy:write",
  audit: "rego_policy.published",
  params: OrgPath,
  query: NoQuery,
  body: publicationBody("RegoPolicyPostForm", RegoPolicyPostInput),
  responses: PUBLISHED,
  example: { params: { org: "acme" }, body: { identifier: "four-eyes", files: EXAMPLE_FILES } },
  async prepare(context, { body, file }) {
    const { identifier, ...fields } = readPublication(context, RegoPolicyPostInput, body);
    return { identifier, ...(await preparePublication(context, fields, file)) };
  },
  stages: ({ bundle }) => bundle.staged,
  handle: (context, _input, { identifier, ...prepared }) => publish(context, identifier, prepared),
});

const PAGES = definePaging({ perPage: 15, maxPerPage: 100 });

export const listRegoPolicies = largeRead({
  ...REGO_OPERATION,
  id: "list_rego_policies",
  method: "GET",
  path: "/rego-policies/{org}",
  summary: "List the Rego policies of an organization",
  description: "In pages, by identifier. Active policies or, with `archived=true`, archived ones.",
  permission: "rego_policy:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    ...PAGES.query,
    sort_direction: SortDirection("asc", "identifier"),
    search: Type.Optional(Type.String({ description: "Part of the name or the identifier; case-insensitive" })),
    archived: Type.Boolean({ default: false, description: "Archived policies instead of active ones" }),
  }),
  body: NO_BODY,
  responses: { 200: { description: "One page", schema: RegoPolicyListPage } },
  example: { params: { org: "acme" }, query: { search: "eyes" } },
  handle({ store, organization }, { query }) {
    const filter = { search: query.search ?? "", archived: query.archived };
    const { page, perPage, ...slice } = PAGES.window(query);
    const rows = store.regoPolicies.list(organization.id, filter, { direction: query.sort_direction, ...slice });
    const counts = pageCounts(store.regoPolicies.count(organization.id, filter), page, perPage);
    return { status: 200, body: { ...counts, rego_policies: JsonList.from(rows, presentRegoPolicy) } };
  },
});

export const getRegoPolicy = operation({
  ...REGO_OPERATION,
  id: "get_rego_policy",
  method: "GET",
  path: "/rego-policies/{org}/{rego_identifier}",
  summary: "Read a Rego policy",
  description: "With its latest version or, with `version`, another one. Its files have their sources.",
  permission: "rego_policy:read",
  audit: null,
  params: PolicyPath,
  query: Closed({ version: Type.Optional(Type.String({ description: "Number of a version: `2` or `v2`" })) }),
  body: NO_BODY,
  responses: { 200: { description: "The policy", schema: RegoPolicyResponse }, 404: NO_VERSION },
  example: { params: { org: "acme", rego_identifier: "four-eyes" }, query: { version: "1" } },
  async prepare(context, { params, query }) {
    const policy = context.store.regoPolicies.require(context.organization, params.rego_identifier);
    const version = requireVersion(context, policy, query.version ?? String(policy.version));
    return { ...presentRegoPolicy(policy), version: presentVersion(version, await readSources(context, version)) };
  },
  handle: (_context, _input, body) => ({ status: 200, body }),
});

export const listRegoPolicyVersions = largeRead({
  ...REGO_OPERATION,
  id: "list_rego_policy_versions",
  method: "GET",
  path: "/rego-policies/{org}/{rego_identifier}/versions",
  summary: "List the versions of a Rego policy",
  description: "In pages, newest first, without sources.",
  permission: "rego_policy:read",
  audit: null,
  params: PolicyPath,
  query: Closed(PAGES.query),
  body: NO_BODY,
  responses: { 200: { description: "One page", schema: RegoPolicyVersionListPage }, 404: NO_POLICY },
  example: { params: { org: "acme", rego_identifier: "four-eyes" } },
  handle({ store, organization }, { params, query }) {
    const policy = store.regoPolicies.require(organization, params.rego_identifier);
    const { page, perPage, ...slice } = PAGES.window(query);
    const rows = store.regoPolicies.listVersions(policy, slice);
    const versions = new JsonList(presentOneByOne(rows, (row) => presentVersion(row), presentVersionPlaceholder));
    return { status: 200, body: { ...pageCounts(policy.version, page, perPage), versions } };
  },
});

export const getRegoPolicyVersion = operation({
  ...REGO_OPERATION,
  id: "get_rego_policy_version",
  method: "GET",
  path: "/rego-policies/{org}/{rego_identifier}/versions/{rego_version}",
  summary: "Read a version of a Rego policy",
  description: "Its files have their sources.",
  permission: "rego_policy:read",
  audit: null,
  params: VersionPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The version", schema: RegoPolicyVersion }, 404: NO_VERSION },
  example: { params: { org: "acme", rego_identifier: "four-eyes", rego_version: "1" } },
  async prepare(context, { params }) {
    const policy = context.store.regoPolicies.require(context.organization, params.rego_identifier);
    const version = requireVersion(context, policy, params.rego_version);
    return presentVersion(version, await readSources(context, version));
  },
  handle: (_context, _input, body) => ({ status: 200, body }),
});

export const downloadRegoPolicyBundle = operation({
  ...REGO_OPERATION,
  id: "download_rego_policy_bundle",
  method: "GET",
  path: "/rego-policies/{org}/{rego_identifier}/versions/{rego_version}/bundle",
  summary: "Download the bundle of a version of a Rego policy",
  description: "A gzipped tar of its files: the same bytes every time.",
  permission: "rego_policy:read",
  audit: null,
  params: VersionPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: {
      description: "The bundle",
      contentType: "application/gzip",
      schema: Type.String({ format: "binary" }),
      isDownload: true,
    },
    404: NO_VERSION,
  },
  example: { params: { org: "acme", rego_identifier: "four-eyes", rego_version: "1" } },
  handle(context, { params }) {
    const { store, organization, rego } = context;
    const policy = store.regoPolicies.require(organization, params.rego_identifier);
    const { bundle_digest: digest, version } = requireVersion(context, policy, params.rego_version);
    return {
      status: 200,
      download: {
        size: rego.documents.sizeOf(digest),
        contentType: "application/gzip",
        filename: `${policy.identifier}-v${version}.tar.gz`,
        etag: digest,
        open: (range) => rego.documents.open(digest, range),
      },
    };
  },
});

const RegoPolicyPatchInput = named(
  "RegoPolicyPatchInput",
  Closed({ name: Maybe(PolicyName), description: Maybe(Text) }),
);
const POLICY = { description: "The policy", schema: RegoPolicyListItem };

export const patchRegoPolicy = operation({
  ...REGO_OPERATION,
  id: "patch_rego_policy",
  method: "PATCH",
  path: "/rego-policies/{org}/{rego_identifier}",
  summary: "Change name or description of a Rego policy",
  description: "Absent and null fields are unchanged. Makes no version.",
  permission: "rego_policy:write",
  audit: "rego_policy.edited",
  params: PolicyPath,
  query: NoQuery,
  body: json(RegoPolicyPatchInput),
  responses: { 200: POLICY, 404: NO_POLICY },
  example: { params: { org: "acme", rego_identifier: "four-eyes" }, body: { name: "Two people" } },
  handle({ store, organization, note }, { params, body }) {
    const before = store.regoPolicies.require(organization, params.rego_identifier);
    const texts = { name: body.name ?? before.name, description: body.description ?? before.description };
    const isChanged = store.regoPolicies.rename(before, texts);
    note({ rego_policy: before.identifier });
    const reply = { status: 200 as const, body: presentRegoPolicy({ ...before, ...texts }) };
    return isChanged ? reply : { ...reply, unaudited: true };
  },
});

/** What archiving and unarchiving have in common. */
const archiveOperation = (action: "archive" | "unarchive", texts: { summary: string; description: string }) =>
  operation({
    ...REGO_OPERATION,
    ...texts,
    id: `${action}_rego_policy`,
    method: "PUT",
    path: `/rego-policies/{org}/{rego_identifier}/${action}`,
    permission: "rego_policy:write",
    audit: `rego_policy.${action}d`,
    params: PolicyPath,
    query: NoQuery,
    body: NO_BODY,
    responses: { 200: POLICY, 404: NO_POLICY },
    example: { params: { org: "acme", rego_identifier: "four-eyes" } },
    handle({ store, organization, note }, { params }) {
      const before = store.regoPolicies.require(organization, params.rego_identifier);
      const archived = action === "archive" ? 1 : 0;
      const isChanged = store.regoPolicies.setArchived(before, archived);
      note({ rego_policy: before.identifier });
      const reply = { status: 200 as const, body: presentRegoPolicy({ ...before, archived }) };
      return isChanged ? reply : { ...reply, unaudited: true };
    },
  });

export const archiveRegoPolicy = archiveOperation("archive", {
  summary: "Archive a Rego policy",
  description:
    "Removes the policy from the list of active ones. It keeps its identifier, versions and decisions, and " +
    "evaluations may still name it. Archiving an archived policy changes nothing.",
});
export const unarchiveRegoPolicy = archiveOperation("unarchive", {
  summary: "Unarchive a Rego policy",
  description: "Returns an archived policy to the list of active ones. Unarchiving an active one changes nothing.",
});
