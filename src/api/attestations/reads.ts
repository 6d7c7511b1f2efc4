/** Reads of attestations: by id, by filters, by flow, by name and by commit. */
import { Type } from "typebox";
import { FILTER_WORD, KINDS, isFilterWord, storedLabelOf } from "../../domain/attestation/kinds.ts";
import { COMMIT_SHA, FINGERPRINT_PREFIX } from "../../domain/names.ts";
import { compileRegex } from "../../domain/text/regex.ts";
import { badRequest, invalid } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import {
  CheckedByHandler,
  Closed,
  Matching,
  Message,
  Nullable,
  Pagination,
  Repeated,
  named,
} from "../../http/schema.ts";
import { JsonList } from "../../json/text.ts";
import { largeRead } from "../context.ts";
import type { LargeReadContext } from "../context.ts";
import { listAllowance } from "../../contract/large-json.ts";
import { definePaging, formatQuery, parseCursor, toCursor } from "../paging.ts";
import { presentPagination } from "../../http/pagination.ts";
import { requireFingerprint } from "../flows/artifacts.ts";
import { requireTrail } from "../flows/trails.ts";
import {
  AttestationItem,
  AttestationResponse,
  presentAttestations,
  presentAttestationsOf,
} from "../../contract/present-attestation.ts";
import type { PlacedAttestationRow } from "../../store/attestations/attestation-rows.ts";
import { OrgPath, NoQuery } from "../paths.ts";

const Timestamp = (description: string) =>
  Type.Optional(Type.Integer({ description: `${description}, epoch seconds, inclusive` }));

const TypeWord = CheckedByHandler({ pattern: FILTER_WORD }, Type.String());

const Next = Type.Object({ href: Type.String(), after: Type.String() }, { additionalProperties: false });
const AttestationListPage = named(
  "AttestationListPage",
  Closed({
    data: AttestationResponse,
    _links: Closed({ self: Closed({ href: Type.String() }), next: Nullable(Next) }),
  }),
);

/** Parses a `type` filter: the types of templates, and `override`. @throws AppError invalid on the parameter */
function parseTypeFilter(words: readonly string[], parameter: string): string[] {
  for (const word of words)
    if (!isFilterWord(word) && word !== "override")
      throw invalid({ [parameter]: `Input should be ${TYPE_WORDS} [input: ${word}]` });
  return words.map(storedLabelOf);
}
const WORDS = [...KINDS.flatMap(({ word }) => (word === null || word === "custom" ? [] : [`'${word}'`])), "'override'"];
const TYPE_WORDS = `${WORDS.join(", ")} or 'custom:<name>'`;

export const getAttestations = largeRead({
  id: "get_attestations",
  method: "GET",
  path: "/attestations/{org}",
  tag: "Attestation",
  summary: "Search the attestations of an organization",
  description:
    "Newest first, in pages: `_links.next` is the next page, null on the last one. All filters must match; an " +
    "unknown id gives an empty list.",
  permission: "attestation:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    attestation_id: Type.Optional(Type.String({ description: "Only the record with this id" })),
    commit: Type.Optional(Matching(COMMIT_SHA, { description: "The full id of the commit" })),
    name: Type.Optional(Type.String({ description: "Exact name; not together with `name_regex`" })),
    name_regex: Type.Optional(
      Type.String({ description: "RE2 expression that matches part of the name; not together with `name`" }),
    ),
    flow: Repeated(Type.String(), { description: "Names of flows; any may match" }),
    type: Repeated(TypeWord, {
      description: "Built-in kinds, `decision`, `sbom`, `override` or `custom:NAME`; any may match",
    }),
    is_compliant: Type.Optional(Type.Boolean()),
    from_timestamp: Timestamp("Reported at or after"),
    to_timestamp: Timestamp("Reported at or before"),
    after: Type.Optional(Type.String({ description: "Token from the previous page" })),
    per_page: Type.Integer({ minimum: 1, maximum: 100, default: 20 }),
  }),
  body: NO_BODY,
  responses: { 200: { description: "One page", schema: AttestationListPage } },
  example: { params: { org: "acme" }, query: { type: "junit", per_page: "20" } },
  handle(context, { params, query }) {
    const { store, organization, urls } = context;
    if (query.name !== undefined && query.name_regex !== undefined)
      throw badRequest("Only one of 'name' and 'name_regex' can be given");
    const names = query.name_regex === undefined ? null : findNames(context, query.name_regex);
    const rows = store.attestationSearch.search(
      {
        organizationId: organization.id,
        before: query.after === undefined ? null : parseCursor("after", query.after),
        publicId: query.attestation_id ?? null,
        commit: query.commit ?? null,
        names: query.name === undefined ? names : [query.name],
        flowIds:
          query.flow === undefined
            ? null
            : query.flow.flatMap((name) => store.flows.find(organization.id, name)?.id ?? []),
        types: query.type === undefined ? null : parseTypeFilter(query.type, "type"),
        isCompliant: query.is_compliant ?? null,
        from: query.from_timestamp ?? null,
        to: query.to_timestamp ?? null,
      },
      query.per_page + 1,
    );
    const page = rows.slice(0, query.per_page);
    const last = page.at(-1);
    const after = rows.length > query.per_page && last ? toCursor(last.id) : null;
    const base = `${urls.apiRoot}/attestations/${encodeURIComponent(params.org)}`;
    return {
      status: 200,
      body: {
        data: new JsonList(
          query.attestation_id === undefined
            ? presentAttestations(context, page)
            : presentAttestationsOf(context, page),
        ),
        _links: {
          self: { href: `${base}?${formatQuery(query, { after: query.after ?? null })}` },
          next: after === null ? null : { href: `${base}?${formatQuery(query, { after })}`, after },
        },
      },
    };
  },
});

/**
 * Steps of a search: instructions of the expression times characters of all names. The maximum takes a second at worst;
 * a typical expression on ten thousand names needs a tenth of it.
 */
const MAX_REGEX_STEPS = 40_000_000;

/**
 * The attestation names that match an expression.
 * @throws AppError 400 on `name_regex` for an invalid expression, or one that would block the server
 */
function findNames({ store, organization }: LargeReadContext, pattern: string): string[] {
  const refuse = (problem: string) =>
    invalid({ name_regex: `Input should be a valid RE2 expression: ${problem} [input: ${pattern}]` });
  const regex = compileRegex(pattern);
  if ("problem" in regex) throw refuse(regex.problem);
  const names = store.attestationSearch.listNames(organization.id);
  const characters = names.reduce((sum, name) => sum + name.length, 0);
  if (characters * regex.size > MAX_REGEX_STEPS)
    throw refuse(`the regular expression is too large to match against ${names.length} names`);
  return names.filter((name) => regex.find(name));
}

export const listForCriteria = largeRead({
  id: "list_attestations_for_criteria",
  method: "GET",
  path: "/attestations/{org}/list_attestations_for_criteria",
  tag: "Attestation",
  summary: "List attestations by commit",
  description:
    "Every requested commit with its attestations, newest first; an override precedes the overridden attestation. " +
    "The other filters narrow the lists.",
  permission: "attestation:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    flow_name: Type.Optional(Type.String()),
    commit_list: Type.Array(Matching(COMMIT_SHA), {
      "x-repeated": true,
      minItems: 1,
      description: "Full commit ids; at least one is required",
    }),
    attestation_name: Type.Optional(Type.String()),
    attestation_id: Type.Optional(Type.String({ description: "Accepted for older clients and ignored" })),
    attestation_type: Type.Optional(TypeWord),
  }),
  body: NO_BODY,
  responses: {
    200: {
      description: "Attestations by commit",
      schema: named(
        "AttestationsByCommit",
        Type.Record(Type.String({ pattern: COMMIT_SHA }), Type.Array(AttestationItem), { additionalProperties: false }),
      ),
    },
  },
  example: {
    params: { org: "acme" },
    query: { commit_list: "0f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112", attestation_type: "pull_request" },
  },
  handle(context, { query }) {
    const { store, organization } = context;
    const types =
      query.attestation_type === undefined ? null : parseTypeFilter([query.attestation_type], "attestation_type");
    const flowId =
      query.flow_name === undefined ? null : (store.flows.find(organization.id, query.flow_name)?.id ?? -1);
    const body: Record<string, unknown> = {};
    const allowance = listAllowance(context);
    for (const sha of new Set(query.commit_list)) {
      const rows = filterByCriteria(store.attestationLists.listByCommit(organization.id, sha), {
        flowId,
        name: query.attestation_name ?? null,
        types,
      });
      body[sha] = new JsonList(presentAttestations(context, rows, { allowance }));
    }
    return { status: 200, body };
  },
});

type Criteria = { flowId: number | null; name: string | null; types: readonly string[] | null };

/** The rows that match all given criteria. */
function* filterByCriteria(
  rows: Iterable<PlacedAttestationRow>,
  { flowId, name, types }: Criteria,
): Generator<PlacedAttestationRow> {
  for (const row of rows) {
    if ((flowId !== null && row.flow_id !== flowId) || (name !== null && row.name !== name)) continue;
    if (
      types === null ||
      types.includes(row.type) ||
      (row.overridden_type !== null && types.includes(row.overridden_type))
    )
      yield row;
  }
}

const FlowAttestationListPage = named(
  "FlowAttestationListPage",
  Closed({ data: AttestationResponse, pagination: Pagination }),
);
const PAGING = definePaging({ perPage: 20, maxPerPage: null });

const FlowPath = Closed({ org: Type.String(), flow_name: Type.String() });

export const getFlowAttestations = largeRead({
  id: "get_flow_attestations",
  method: "GET",
  path: "/attestations/{org}/{flow_name}",
  tag: "Attestation",
  summary: "List the attestations of a flow",
  description: "Newest first, in numbered pages, optionally within a time window.",
  permission: "attestation:read",
  audit: null,
  params: FlowPath,
  query: Closed({
    ...PAGING.query,
    from_timestamp: Timestamp("Reported at or after"),
    to_timestamp: Timestamp("Reported at or before"),
  }),
  body: NO_BODY,
  responses: {
    200: { description: "One page", schema: FlowAttestationListPage },
    404: { description: "No such flow", schema: Message },
  },
  example: { params: { org: "acme", flow_name: "backend" }, query: { page: "1", per_page: "20" } },
  handle(context, { params, query }) {
    const { store, organization } = context;
    const flow = store.flows.require(organization, params.flow_name);
    const span = { from: query.from_timestamp ?? null, to: query.to_timestamp ?? null };
    const { limit, offset, page, perPage } = PAGING.window(query);
    const rows = store.attestationLists.listByFlow(flow.id, span, { limit, offset });
    const total = store.attestationLists.countByFlow(flow.id, span);
    return {
      status: 200,
      body: {
        data: new JsonList(presentAttestations(context, rows, { missingCommit: "branch" })),
        pagination: presentPagination(total, page, perPage),
      },
    };
  },
});

export const getTrailAttestation = largeRead({
  id: "get_trail_attestation",
  method: "GET",
  path: "/attestations/{org}/{flow_name}/trail/{trail_name}/{attestation_name}",
  tag: "Attestation",
  summary: "Read the attestations under one name on a trail",
  description: "The whole history of the name, newest first; a name that was never reported gives an empty list.",
  permission: "attestation:read",
  audit: null,
  params: Closed({
    org: Type.String(),
    flow_name: Type.String(),
    trail_name: Type.String(),
    attestation_name: Type.String(),
  }),
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "The records", schema: AttestationResponse },
    404: { description: "No such flow or trail", schema: Message },
  },
  example: { params: { org: "acme", flow_name: "backend", trail_name: "release-1", attestation_name: "unit-tests" } },
  handle(context, { params }) {
    const { store, organization } = context;
    const flow = store.flows.require(organization, params.flow_name);
    const trail = requireTrail(context, { id: flow.id, name: params.flow_name }, params.trail_name);
    return {
      status: 200,
      body: new JsonList(
        presentAttestationsOf(context, store.attestationLists.listByTrail(trail.id, params.attestation_name)),
      ),
    };
  },
});

export const getArtifactAttestation = largeRead({
  id: "get_artifact_attestation",
  method: "GET",
  path: "/attestations/{org}/{flow_name}/artifact/{fingerprint}/{attestation_name}",
  tag: "Attestation",
  summary: "Read the attestations under one name on an artifact",
  description:
    "The whole history of the name on that artifact of the flow, newest first; a name that was never reported gives " +
    "an empty list.",
  permission: "attestation:read",
  audit: null,
  params: Closed({
    org: Type.String(),
    flow_name: Type.String(),
    fingerprint: Matching(FINGERPRINT_PREFIX, { description: "The fingerprint, or at least its first 5 characters" }),
    attestation_name: Type.String(),
  }),
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "The records", schema: AttestationResponse },
    404: { description: "No such flow, or no such artifact in it", schema: Message },
  },
  example: { params: { org: "acme", flow_name: "backend", fingerprint: "0f5c9", attestation_name: "unit-tests" } },
  handle(context, { params }) {
    const { store, organization } = context;
    const flow = store.flows.require(organization, params.flow_name);
    const fingerprint = requireFingerprint(context, { id: flow.id, name: params.flow_name }, params.fingerprint);
    return {
      status: 200,
      body: new JsonList(
        presentAttestationsOf(
          context,
          store.attestationLists.listByArtifact(flow.id, fingerprint, params.attestation_name),
        ),
      ),
    };
  },
});
