/** Search for artifacts by fingerprint or commit (semantics 8.2). */
import { Type } from "typebox";
import type { Static } from "typebox";
import { notFound } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Matching, Message, OneOf, named } from "../../http/schema.ts";
import { selectorOf } from "../../store/flows/artifact-selector.ts";
import type { RecentArtifactLocations } from "../../store/environments/artifact-locations.ts";
import type { FoundRow } from "../../store/flows/search.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { HistoryEntry, historyOf, movesOf } from "../../contract/present-artifact.ts";
import { UNREADABLE } from "../../contract/placeholders.ts";
import { OrgPath, NoQuery } from "../paths.ts";

/** Fingerprints and commits with one beginning: more than these nobody chooses from, a longer beginning is quicker. */
const MOST_MATCHES = 10;
/** Reported artifacts in an answer: as many as a large repository builds from a commit. */
const MOST_ARTIFACTS = 50;
/** Ids are stored in lower case, and looked for in any. */
const SEARCH_VALUE = "^[a-fA-F0-9]{5,}$";

const Matches = <T extends string>(type: T) =>
  Closed({ type: Type.Literal(type), count: Type.Integer(), matches: Type.Array(Type.String()) });

const SearchResponse = named(
  "SearchResponse",
  Closed({
    resolved_to: named(
      "SearchResolved",
      Closed({
        type: OneOf(["commit", "fingerprint", "multiple"]),
        full_match: Type.String({ description: "The whole commit or fingerprint; empty when there are several" }),
        fingerprints: Matches("fingerprint"),
        commits: Matches("commit"),
      }),
    ),
    artifacts: Type.Array(
      named(
        "SearchArtifact",
        Closed({
          fingerprint: Type.String(),
          name: Type.String({ description: "As reported, or the name under which it ran" }),
          has_provenance: Type.Boolean({
            description: "Whether it was ever reported to a flow. If not, all texts about a report are empty",
          }),
          git_commit: Type.String(),
          flow: Type.String(),
          pipeline: Type.String({ description: "The same as flow" }),
          trail: Type.String({ description: "Empty for an artifact that was reported without a trail" }),
          template_reference_name: Type.String(),
          build_url: Type.String(),
          commit_url: Type.String(),
          compliance_state: Type.String({
            description: "COMPLIANT, NON-COMPLIANT or INCOMPLETE; empty without provenance",
          }),
          running_in: Type.Array(Type.String(), { description: "Environment and latest snapshot, as `production#42`" }),
          exited_from: Type.Array(Type.String(), { description: "Environment and the snapshot that showed the exit" }),
          html_url: Type.String(),
          api_url: Type.String(),
          history: Type.Array(HistoryEntry, {
            description: "Of the starts and stops in an environment the latest ones",
          }),
        }),
      ),
      { description: `The latest record in each flow, newest first, at most ${MOST_ARTIFACTS}; then what only ran` },
    ),
  }),
);
type FoundArtifact = Static<typeof SearchResponse>["artifacts"][number];

const placesIn = ({ running, exited }: RecentArtifactLocations): Pick<FoundArtifact, "running_in" | "exited_from"> => {
  const text = ({ environment_name, snapshot_index }: RecentArtifactLocations["running"][number]): string =>
    `${environment_name}#${snapshot_index}`;
  return { running_in: running.map(text), exited_from: exited.map(text) };
};

function presentReported(context: OperationContext, row: FoundRow, presence: RecentArtifactLocations): FoundArtifact {
  const { urls, organization } = context;
  return {
    fingerprint: row.fingerprint,
    name: row.filename,
    has_provenance: true,
    git_commit: row.git_commit,
    flow: row.flow_name,
    pipeline: row.flow_name,
    trail: row.trail_name ?? "",
    template_reference_name: row.reference_name ?? "",
    build_url: row.build_url,
    commit_url: row.commit_url,
    compliance_state: row.state,
    ...placesIn(presence),
    html_url: urls.artifactPage(organization.name, row.flow_name, row.fingerprint, row.public_id),
    api_url: urls.artifactApi(organization.name, row.flow_name, row.fingerprint, selectorOf(row)),
    history: toldHistory(context, row, presence),
  };
}

/** The history; of a damaged record its mark, and where it ran all the same (semantics 9). */
function toldHistory(context: OperationContext, row: FoundRow, presence: RecentArtifactLocations): HistoryEntry[] {
  try {
    return historyOf(context, row, presence);
  } catch {
    return [{ event: UNREADABLE, timestamp: row.created_at }, ...movesOf(presence)];
  }
}

/** An artifact that only ran (decision 85). */
const presentUnreported = (fingerprint: string, name: string, presence: RecentArtifactLocations): FoundArtifact => ({
  fingerprint,
  name,
  has_provenance: false,
  git_commit: "",
  flow: "",
  pipeline: "",
  trail: "",
  template_reference_name: "",
  build_url: "",
  commit_url: "",
  compliance_state: "",
  ...placesIn(presence),
  html_url: "",
  api_url: "",
  history: movesOf(presence),
});

function artifactsOf(
  context: OperationContext,
  fingerprints: readonly string[],
  commits: readonly string[],
): FoundArtifact[] {
  const { store, organization } = context;
  const presences = new Map<string, RecentArtifactLocations>();
  const presenceOf = (fingerprint: string): RecentArtifactLocations => {
    const presence = presences.get(fingerprint) ?? store.presence.recent(organization.id, fingerprint);
    presences.set(fingerprint, presence);
    return presence;
  };
  const byFingerprint = fingerprints.map((fingerprint) => ({
    fingerprint,
    rows: store.search.ofFingerprint(organization.id, fingerprint),
  }));
  const rows = [
    ...byFingerprint.flatMap(({ rows }) => rows),
    ...commits.flatMap((commit) => store.search.ofCommit(organization.id, commit)),
  ];
  const reported = [...new Map(rows.map((row) => [row.id, row])).values()]
    .sort((a, b) => b.id - a.id)
    .slice(0, MOST_ARTIFACTS);
  const unreported = byFingerprint.filter(({ rows }) => rows.length === 0).map(({ fingerprint }) => fingerprint);
  return [
    ...reported.map((row) => presentReported(context, row, presenceOf(row.fingerprint))),
    ...unreported.map((fingerprint) =>
      presentUnreported(fingerprint, store.search.nameOf(organization.id, fingerprint), presenceOf(fingerprint)),
    ),
  ];
}

export const getSearch = operation({
  id: "get_search",
  method: "GET",
  path: "/search/{org}/sha/{search_value}",
  tag: "Search",
  summary: "Find artifacts by fingerprint or commit",
  description: `By the whole id or its first characters, artifacts that were never reported and only ran included. A beginning that more than ${MOST_MATCHES} fingerprints and commits share is too ambiguous.`,
  permission: "artifact:read",
  audit: null,
  params: Closed({
    ...OrgPath.properties,
    search_value: Matching(SEARCH_VALUE, { description: "Fingerprint or commit, or at least its first 5 characters" }),
  }),
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "What was found", schema: SearchResponse },
    404: { description: "Nothing was found, or too much", schema: Message },
  },
  example: { params: { org: "acme", search_value: "7b1f5c9" } },
  handle(context, { params }) {
    const { store, organization } = context;
    const prefix = params.search_value.toLowerCase();
    // One more than is shown, which tells that there are too many.
    const fingerprints = store.search.fingerprints(organization.id, prefix, MOST_MATCHES + 1);
    const commits = store.search.commits(organization.id, prefix, MOST_MATCHES + 1);
    const all = [...fingerprints, ...commits];
    if (all.length === 0 || all.length > MOST_MATCHES) throw notFound(`No matches for '${params.search_value}'.`);
    return {
      status: 200,
      body: {
        resolved_to: {
          type: all.length > 1 ? "multiple" : fingerprints.length === 1 ? "fingerprint" : "commit",
          full_match: all.length > 1 ? "" : (all[0] as string),
          fingerprints: { type: "fingerprint", count: fingerprints.length, matches: fingerprints },
          commits: { type: "commit", count: commits.length, matches: commits },
        },
        artifacts: artifactsOf(context, fingerprints, commits),
      },
    };
  },
});
