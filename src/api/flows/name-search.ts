/** The search of the web pages: commits, fingerprints and names of everything that has a page, in groups. */
import { Type } from "typebox";
import type { Static } from "typebox";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Nullable, OneOf, named } from "../../http/schema.ts";
import { allows } from "../../domain/access.ts";
import { operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { OrgPath } from "../paths.ts";

/** Results of each kind, and of one that is asked for; with more, a longer text is quicker than a list. */
const MAX_RESULTS = 8;
const MAX_RESULTS_OF_A_KIND = 100;
const MAX_QUERY_CHARS = 256;
/** Fingerprints and commits are searched for texts that could be the beginning of one. */
const HEX_PREFIX = /^[0-9a-f]{5,64}$/;

const KINDS = [
  "fingerprint",
  "commit",
  "flow",
  "trail",
  "environment",
  "artifact",
  "policy",
  "control",
  "repository",
  "service_account",
] as const;

const SearchResult = named(
  "NameSearchResult",
  Closed({
    name: Type.String({ description: "What matched: a name, a fingerprint, a commit or an identifier" }),
    id: Nullable(Type.String({ description: "Of the latest record of an artifact, or of a repository" })),
    detail: Type.String({ description: "What it is about: a description, type, address or state; may be empty" }),
    flow_name: Nullable(Type.String({ description: "The flow of a trail, artifact or commit" })),
    trail_name: Nullable(Type.String({ description: "The trail of a commit" })),
    fingerprint: Nullable(Type.String({ description: "Of an artifact" })),
    environment_name: Nullable(Type.String({ description: "Where an artifact runs or ran that was never reported" })),
    snapshot_index: Nullable(Type.Integer({ description: "The snapshot there" })),
    html_url: Nullable(Type.String()),
  }),
);
const SearchGroup = named(
  "NameSearchGroup",
  Closed({
    kind: OneOf(KINDS),
    results: Type.Array(SearchResult, {
      description: `At most ${MAX_RESULTS}, or ${MAX_RESULTS_OF_A_KIND} of a kind that is asked for`,
    }),
    has_more: Type.Boolean({ description: "Whether there are more than these" }),
    total: Nullable(
      Type.Integer({
        description:
          `How many there are; null for more than ${MAX_RESULTS_OF_A_KIND}, and for trails and artifacts, of which ` +
          "not all are compared",
      }),
    ),
  }),
);
const NameSearchResponse = named(
  "NameSearchResponse",
  Closed({ groups: Type.Array(SearchGroup, { description: "Kinds with results only" }) }),
);

type Result = Static<typeof SearchResult>;
type Found = Pick<Result, "name"> & Partial<Result>;

const resultOf = (found: Found): Result => ({
  id: null,
  detail: "",
  flow_name: null,
  trail_name: null,
  fingerprint: null,
  environment_name: null,
  snapshot_index: null,
  html_url: null,
  ...found,
});

/** An artifact, by its latest record; one that was never reported, by where it runs or ran. */
function artifactResult(
  { store, urls, organization }: ReadingContext,
  name: string,
  found: { detail: string; fingerprint: string; flow_name: string | null; public_id: string | null },
): Result {
  const { detail, fingerprint, flow_name, public_id } = found;
  if (flow_name !== null && public_id !== null) {
    const html_url = urls.artifactPage(organization.name, flow_name, { fingerprint, id: public_id });
    return resultOf({ name, id: public_id, detail, flow_name, fingerprint, html_url });
  }
  const { running, exited } = store.artifactLocations.findRecentByFingerprint(organization.id, fingerprint);
  const place = running[0] ?? exited[0];
  if (!place) return resultOf({ name, detail, fingerprint });
  const html_url = urls.snapshotPage(organization.name, place.environment_name, place.snapshot_index);
  return resultOf({ name, detail, fingerprint, ...place, html_url });
}

function findFingerprints(context: ReadingContext, prefix: string, limit: number): Result[] {
  const { store, organization } = context;
  return store.search.listFingerprints(organization.id, prefix, limit).map((fingerprint) => {
    const record = store.nameSearch.findRecord(organization.id, fingerprint);
    const detail = record?.name ?? store.search.findRunningName(organization.id, fingerprint);
    return artifactResult(context, fingerprint, {
      detail,
      fingerprint,
      flow_name: record?.flow_name ?? null,
      public_id: record?.public_id ?? null,
    });
  });
}

/** The commits of artifacts; without one, those that attestations name. */
function findCommits({ store, organization, urls }: ReadingContext, prefix: string, limit: number): Result[] {
  const { nameSearch, search } = store;
  const reported = search
    .listCommits(organization.id, prefix, limit)
    .map((commit) => ({ git_commit: commit, place: nameSearch.findCommit(organization.id, commit) }));
  const attested = nameSearch
    .listAttestedCommits(organization.id, prefix, limit)
    .map(({ git_commit, ...place }) => ({ git_commit, place }));
  const found = new Map([...attested, ...reported].map(({ git_commit, place }) => [git_commit, place]));
  return [...found]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .slice(0, limit)
    .map(([name, place]) =>
      resultOf({
        name,
        flow_name: place?.flow_name ?? null,
        trail_name: place?.trail_name ?? null,
        html_url:
          place === null
            ? null
            : place.trail_name === null
              ? urls.flowPage(organization.name, place.flow_name)
              : urls.trailPage(organization.name, place.flow_name, place.trail_name),
      }),
    );
}

type Kind = (typeof KINDS)[number];

/** Of these only a part is compared with the text: what was found has no true total. */
export const COMPARED_IN_PART: ReadonlySet<Kind> = new Set(["trail", "artifact"]);

/** How to find what matches, by kind. @param limit of the results of a kind */
function findersOf(context: ReadingContext, text: string, limit: number): Record<Kind, () => Result[]> {
  const { store, organization, urls } = context;
  const { nameSearch } = store;
  const terms = nameSearch.terms(organization.id, text, limit);
  const prefix = terms.folded.replace(/^sha256:/, "");
  const isHex = HEX_PREFIX.test(prefix);
  const org = organization.name;
  return {
    fingerprint: () => (isHex ? findFingerprints(context, prefix, limit) : []),
    commit: () => (isHex && prefix.length <= 40 ? findCommits(context, prefix, limit) : []),
    flow: () => nameSearch.listFlows(terms).map((row) => resultOf({ ...row, html_url: urls.flowPage(org, row.name) })),
    trail: () =>
      nameSearch
        .listTrails(terms)
        .map(({ name, flow_name, state }) =>
          resultOf({ name, flow_name, detail: state, html_url: urls.trailPage(org, flow_name, name) }),
        ),
    environment: () =>
      nameSearch
        .listEnvironments(terms)
        .map((row) => resultOf({ ...row, html_url: urls.environmentPage(org, row.name) })),
    artifact: () =>
      nameSearch
        .listArtifacts(terms)
        .map((row) => artifactResult(context, row.name, { ...row, detail: row.flow_name ?? "" })),
    policy: () =>
      nameSearch.listPolicies(terms).map((row) => resultOf({ ...row, html_url: urls.policyPage(org, row.name) })),
    control: () =>
      organization.controls_enabled
        ? nameSearch.listControls(terms).map((row) => resultOf({ ...row, html_url: urls.controlPage(org, row.name) }))
        : [],
    repository: () =>
      nameSearch
        .listRepos(terms)
        .map(({ public_id, ...row }) => resultOf({ ...row, id: public_id, html_url: urls.repoPage(org, public_id) })),
    service_account: () =>
      allows("service_account:read", { role: context.role, isPublic: false })
        ? nameSearch
            .listServiceAccounts(terms)
            .map((row) => resultOf({ ...row, html_url: urls.serviceAccountPage(org, row.name) }))
        : [],
  };
}

export const searchNames = operation({
  id: "search_names",
  origin: "assay",
  method: "GET",
  path: "/search/{org}",
  tag: "Search",
  summary: "Find anything by its name, fingerprint or commit",
  description:
    "In groups by kind. Flows, environments, policies, controls, repositories and service accounts match by any part " +
    "of their name, case-insensitively; trails and artifacts by its beginning, and the latest trails and running " +
    "artifacts by any part. Trails come newest first, one with this very name before all others. A fingerprint or " +
    "commit matches by its first 5 characters or more. Archived flows, environments and controls are left out. " +
    "Service accounts are found by roles that may read them.",
  permission: "flow:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    q: Type.String({ maxLength: MAX_QUERY_CHARS, description: "The text; without any, nothing matches" }),
    kind: Type.Optional(OneOf(KINDS, { description: `Finds only this kind, up to ${MAX_RESULTS_OF_A_KIND} of it` })),
  }),
  body: NO_BODY,
  responses: { 200: { description: "The matches", schema: NameSearchResponse } },
  example: { params: { org: "acme" }, query: { q: "release-2" } },
  handle(context, { query }) {
    const text = query.q.trim();
    const limit = query.kind === undefined ? MAX_RESULTS : MAX_RESULTS_OF_A_KIND;
    const kinds = text === "" ? [] : query.kind === undefined ? KINDS : [query.kind];
    const finders = findersOf(context, text, limit + 1);
    const counters = findersOf(context, text, MAX_RESULTS_OF_A_KIND + 1);
    const groups = kinds.flatMap((kind) => {
      const all = finders[kind]();
      const results = all.slice(0, limit);
      const hasMore = all.length > results.length;
      const isPart = COMPARED_IN_PART.has(kind);
      const counted = hasMore && !isPart && limit < MAX_RESULTS_OF_A_KIND ? counters[kind]().length : all.length;
      const total = isPart || counted > MAX_RESULTS_OF_A_KIND ? null : counted;
      return results.length === 0 ? [] : [{ kind, results, has_more: hasMore, total }];
    });
    return { status: 200, body: { groups } };
  },
});
