/** The commits between two builds of one thing, as far as their reports named them. */
import { Type } from "typebox";
import type { Static } from "typebox";
import { buildCompareUrl } from "../../domain/network/urls.ts";
import { isListOf, isObject, isText, readStoredJsonOrNull, textOrNull } from "../../domain/stored-json.ts";
import { Closed, Nullable, named } from "../../http/schema.ts";
import { MAX_SEARCHED } from "../../store/flows/built-commits.ts";
import type { ComparedBuildRow, BuiltCommitsRow } from "../../store/flows/built-commits.ts";
import { stubBytes } from "../../store/db/large-json.ts";
import type { StoreReader } from "../../store/reader.ts";
import { UNREADABLE } from "../placeholders.ts";

/** Builds between two records whose commits are listed. */
const MAX_BUILDS = 50;
/** Commits that an answer lists; their number is whole. */
const MAX_LISTED = 10;

export const CommitsBetween = named(
  "CommitsBetween",
  Closed({
    total: Type.Integer({ minimum: 0 }),
    is_complete: Type.Boolean({
      description: `false: there were more than ${MAX_BUILDS} builds, a damaged one, or commits of more than 256 kB`,
    }),
    is_behind: Type.Boolean({ description: "Whether the second build is older than the first" }),
    items: Type.Array(
      Closed({
        sha1: Type.String(),
        message: Nullable(Type.String({ description: "Its first line" })),
        author: Nullable(Type.String()),
        url: Nullable(Type.String()),
      }),
      { description: `The newest ${MAX_LISTED}` },
    ),
    authors: Type.Integer({ minimum: 0, description: "Different authors among all of them" }),
    compare_url: Nullable(Type.String({ description: "Page of the code host that compares both commits" })),
  }),
);
export type CommitsBetweenValue = Static<typeof CommitsBetween>;
type Commit = CommitsBetweenValue["items"][number];

const isCommit = (value: unknown): value is Record<string, unknown> & { sha1: string } =>
  isObject(value) && isText(value["sha1"]);
const isCommitList = isListOf(isCommit);

const MAX_MESSAGE_CHARS = 200;

function toCommit(commit: Record<string, unknown> & { sha1: string }): Commit {
  const [line = ""] = (textOrNull(commit["message"]) ?? "").split("\n");
  return {
    sha1: commit.sha1,
    message: line === "" ? null : line.slice(0, MAX_MESSAGE_CHARS),
    author: textOrNull(commit["author"]),
    url: textOrNull(commit["url"]),
  };
}

/** What the answer may still read: bytes of lists of commits, and records of flows that are searched for builds. */
type CommitBudget = { bytes: number; records: number };
/** Of these, one comparison takes no more than a part, so that it leaves some to the others. */
const MAX_COMPARISON_BYTES = 256 * 1024;
/** A megabyte of JSON takes some 10 ms, and so do so many records. */
export const createCommitBudget = (): CommitBudget => ({ bytes: 1024 * 1024, records: 10_000 });

/**
 * The commits that builds of the same name in the same flow brought after the older record up to the younger one: what
 * each report listed, and its own commit. Null where the records are of different flows or names, and where earlier
 * comparisons used up the budget.
 */
export function presentCommitsBetween(
  { builtCommits }: Pick<StoreReader, "builtCommits">,
  { before, after }: { before: ComparedBuildRow; after: ComparedBuildRow },
  budget: CommitBudget,
): CommitsBetweenValue | null {
  if (before.flow_id !== after.flow_id || before.reference_name !== after.reference_name) return null;
  if (budget.records <= 0) return null;
  const isBehind = after.id < before.id;
  const [older, younger] = isBehind ? [after, before] : [before, after];
  const found = new Map<string, Commit>();
  const searched = builtCommits.countBetween(younger.flow_id, older.id, younger.id);
  budget.records -= searched;
  let isComplete = searched <= MAX_SEARCHED;
  let [count, left] = [0, MAX_COMPARISON_BYTES];
  for (const build of builtCommits.iterateBetween(younger, older.id, younger.id)) {
    const bytes = (build.git_commit_info_json?.length ?? 0) + (build.commits_list_json?.length ?? 0);
    budget.bytes -= bytes;
    left -= bytes;
    if (++count > MAX_BUILDS || left < 0 || budget.bytes < 0) {
      isComplete = false;
      break;
    }
    const { commits, isWhole } = listCommits(build);
    if (!isWhole) isComplete = false;
    // A list may reach back to the commit of the older build, and beyond it.
    for (const commit of commits) {
      if (commit.sha1 === older.git_commit) break;
      if (!found.has(commit.sha1)) found.set(commit.sha1, commit);
    }
  }
  const all = [...found.values()];
  return {
    total: all.length,
    is_complete: isComplete,
    is_behind: isBehind,
    items: all.slice(0, MAX_LISTED),
    authors: new Set(all.flatMap(({ author }) => author ?? [])).size,
    compare_url: buildCompareUrl(locationOf(before), locationOf(after)),
  };
}

const locationOf = ({ git_commit: sha, commit_url: commitUrl, repo_url: repoUrl }: ComparedBuildRow) => ({
  sha,
  commitUrl,
  repoUrl,
});

/** The commits of a build, its own first. What is damaged is one that says so; too long a list is left out. */
function listCommits({
  git_commit: sha,
  commit_url: url,
  git_commit_info_json: infoJson,
  commits_list_json: listJson,
}: BuiltCommitsRow): { commits: Commit[]; isWhole: boolean } {
  const plain = { sha1: sha ?? "", message: null, author: null, url: textOrNull(url) };
  const unreadable = { ...plain, message: UNREADABLE };
  const isLong = [infoJson, listJson].some((text) => text !== null && stubBytes(text) !== null);
  if (isLong) return { commits: sha === null ? [] : [plain], isWhole: false };
  const info = infoJson === null ? null : readStoredJsonOrNull(infoJson, isCommit);
  const listed = listJson === null ? [] : readStoredJsonOrNull(listJson, isCommitList);
  if (listed === null || (infoJson !== null && info === null)) return { commits: [unreadable], isWhole: false };
  const own = info ? [toCommit(info)] : sha === null ? [] : [plain];
  return { commits: [...own, ...listed.map(toCommit)], isWhole: true };
}
