/** The search for artifacts by fingerprint or commit (semantics 8.2). */
import { shownCommit } from "../../domain/commit.ts";
import { Type } from "typebox";
import type { Static } from "typebox";
import { notFound } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Matching, Message, OneOf, named } from "../../http/schema.ts";
import { readSelector } from "../../store/flows/artifact-selector.ts";
import type { RecentArtifactLocations } from "../../store/environments/artifact-locations.ts";
import type { FoundRow } from "../../store/flows/search.ts";
import { largeRead } from "../context.ts";
import type { LargeReadContext } from "../context.ts";
import { HistoryEntry, presentHistory, presentMoves } from "../../contract/present-artifact.ts";
import { UNREADABLE } from "../../contract/placeholders.ts";
import { OrgPath, NoQuery } from "../paths.ts";

/** Fingerprints and commits with the same prefix; with more, a longer prefix is quicker than choosing from a list. */
const MAX_MATCHES = 10;
/** Reported artifacts in a response: as many as a large repository builds from one commit. */
const MAX_ARTIFACTS = 50;
/** Case-insensitive; ids are stored in lowercase. */
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
        full_match: Type.String({ description: "The whole commit or fingerprint; empty if there are several" }),
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
            description: "Whether it was ever reported to a flow; if not, all fields of a report are empty",
          }),
          git_commit: Type.String(),
          flow: Type.String(),
          pipeline: Type.String({ description: "The same as `flow`" }),
          trail: Type.String({ description: "Empty for an artifact reported without a trail" }),
          template_reference_name: Type.String(),
          build_url: Type.String(),
          commit_url: Type.String(),
          compliance_state: Type.String({
            description: "COMPLIANT, NON-COMPLIANT or INCOMPLETE; empty without provenance",
          }),
          running_in: Type.Array(Type.String(), { description: "Environment and latest snapshot, as `production#42`" }),
          exited_from: Type.Array(Type.String(), { description: "Environment and snapshot of the exit" }),
          html_url: Type.String(),
          api_url: Type.String(),
          history: Type.Array(HistoryEntry, {
            description: "Includes only the latest starts and stops in each environment",
          }),
        }),
      ),
      {
        description:
          `The latest record in each flow, newest first, at most ${MAX_ARTIFACTS}; then artifacts that ran without ` +
          "being reported",
      },
    ),
  }),
);
type FoundArtifact = Static<typeof SearchResponse>["artifacts"][number];

const presentLocations = ({
  running,
  exited,
}: RecentArtifactLocations): Pick<FoundArtifact, "running_in" | "exited_from"> => {
  const text = ({ environment_name, snapshot_index }: RecentArtifactLocations["running"][number]): string =>
    `${environment_name}#${snapshot_index}`;
  return { running_in: running.map(text), exited_from: exited.map(text) };
};

function presentReported(context: LargeReadContext, row: FoundRow, presence: RecentArtifactLocations): FoundArtifact {
  const { urls, organization } = context;
  return {
    fingerprint: row.fingerprint,
    name: row.filename,
    has_provenance: true,
    git_commit: shownCommit(row.git_commit),
    flow: row.flow_name,
    pipeline: row.flow_name,
    trail: row.trail_name ?? "",
    template_reference_name: row.reference_name ?? "",
    build_url: row.build_url,
    commit_url: row.commit_url,
    compliance_state: row.state,
    ...presentLocations(presence),
    html_url: urls.artifactPage(organization.name, row.flow_name, { fingerprint: row.fingerprint, id: row.public_id }),
    api_url: urls.artifactApi(organization.name, row.flow_name, {
      fingerprint: row.fingerprint,
      selector: readSelector(row),
    }),
    history: presentHistoryOrMark(context, row, presence),
  };
}

/** The history; for a damaged record, a mark followed by its starts and stops (semantics 9). */
function presentHistoryOrMark(
  context: LargeReadContext,
  row: FoundRow,
  presence: RecentArtifactLocations,
): HistoryEntry[] {
  try {
    return presentHistory(context, row, presence);
  } catch {
    return [{ event: UNREADABLE, timestamp: row.created_at }, ...presentMoves(presence)];
  }
}

/** An artifact that ran without being reported (semantics 13.85). */
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
  ...presentLocations(presence),
  html_url: "",
  api_url: "",
  history: presentMoves(presence),
});

function findArtifacts(
  context: LargeReadContext,
  fingerprints: readonly string[],
  commits: readonly string[],
): FoundArtifact[] {
  const { store, organization } = context;
  const presences = new Map<string, RecentArtifactLocations>();
  const presenceOf = (fingerprint: string): RecentArtifactLocations => {
    const presence =
      presences.get(fingerprint) ?? store.artifactLocations.findRecentByFingerprint(organization.id, fingerprint);
    presences.set(fingerprint, presence);
    return presence;
  };
  const byFingerprint = fingerprints.map((fingerprint) => ({
    fingerprint,
    rows: store.search.listByFingerprint(organization.id, fingerprint),
  }));
  const rows = [
    ...byFingerprint.flatMap(({ rows }) => rows),
    ...commits.flatMap((commit) => store.search.listByCommit(organization.id, commit)),
  ];
  const reported = [...new Map(rows.map((row) => [row.id, row])).values()]
    .sort((a, b) => b.id - a.id)
    .slice(0, MAX_ARTIFACTS);
  const unreported = byFingerprint.filter(({ rows }) => rows.length === 0).map(({ fingerprint }) => fingerprint);
  return [
    ...reported.map((row) => presentReported(context, row, presenceOf(row.fingerprint))),
    ...unreported.map((fingerprint) =>
      presentUnreported(
        fingerprint,
        store.search.findRunningName(organization.id, fingerprint),
        presenceOf(fingerprint),
      ),
    ),
  ];
}

export const getSearch = largeRead({
  id: "get_search",
  method: "GET",
  path: "/search/{org}/sha/{search_value}",
  tag: "Search",
  summary: "Find artifacts by fingerprint or commit",
  description:
    "Searches by a whole id or its first characters. Includes artifacts that ran without ever being reported. A " +
    `prefix that more than ${MAX_MATCHES} fingerprints and commits share is too ambiguous.`,
  permission: "artifact:read",
  audit: null,
  params: Closed({
    ...OrgPath.properties,
    search_value: Matching(SEARCH_VALUE, {
      description: "A fingerprint or commit, or at least its first 5 characters",
    }),
  }),
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "The matches", schema: SearchResponse },
    404: { description: "No matches, or too many", schema: Message },
  },
  example: { params: { org: "acme", search_value: "7b1f5c9" } },
  handle(context, { params }) {
    const { store, organization } = context;
    const prefix = params.search_value.toLowerCase();
    // One more than is shown, to detect too many matches.
    const fingerprints = store.search.listFingerprints(organization.id, prefix, MAX_MATCHES + 1);
    const commits = store.search.listCommits(organization.id, prefix, MAX_MATCHES + 1);
    const all = [...fingerprints, ...commits];
    if (all.length === 0 || all.length > MAX_MATCHES) throw notFound(`No matches for '${params.search_value}'.`);
    return {
      status: 200,
      body: {
        resolved_to: {
          type: all.length > 1 ? "multiple" : fingerprints.length === 1 ? "fingerprint" : "commit",
          full_match: all.length > 1 ? "" : (all[0] as string),
          fingerprints: { type: "fingerprint", count: fingerprints.length, matches: fingerprints },
          commits: { type: "commit", count: commits.length, matches: commits },
        },
        artifacts: findArtifacts(context, fingerprints, commits),
      },
    };
  },
});
