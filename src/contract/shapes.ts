/**
 * Shapes that several resources share, and their conversion to and from stored values. Component names are the ones
 * that clients already know.
 */
import { describeEventRepo } from "../domain/attestation/event.ts";
import { Type } from "typebox";
import type { Static } from "typebox";
import { MAX_NAME_CHARS, ANNOTATION_KEY, FINGERPRINT, URL_LABEL } from "../domain/names.ts";
import { findRepoUrlProblem } from "../domain/network/urls.ts";
import { hasMembers, isListOf, readNullableStoredJson } from "../domain/stored-json.ts";
import { invalid, tooLarge } from "../errors.ts";
import { isWithinBytes } from "../json/bytes.ts";
import { stringifyJson, toMembers } from "../json/text.ts";
import { memberTexts } from "../json/walk.ts";
import { CheckedByHandler, Closed, Maybe, Matching, OneOf, WithinBytes, named } from "../http/schema.ts";
import type { RepoFacts } from "../store/flows/repos.ts";
import { readStoredMembers } from "./reported-json.ts";
import type { Stored } from "./reported-json.ts";

/**
 * Bounds for fields that the contract leaves unbounded. They are far above what any client sends and keep one field
 * from filling the database: names are read by people, texts may hold a whole commit message, URLs stay below what
 * proxies accept.
 */
export const MAX_TEXT_CHARS = 65_536;
export const MAX_URL_CHARS = 8_192;
export const MAX_PATH_CHARS = 4_096;
export const MAX_LIST_ITEMS = 10_000;
/** Short texts that tools write and people rarely see: branch names, states, versions. */
const MAX_LABEL_CHARS = 4_096;

const MB = 1_048_576;
/** `user_data` and `attestation_data` as JSON: ten times the pretty-printed reports of hundreds of KB that occur. */
export const MAX_FREE_FORM_BYTES = 4 * MB;
/** The results of one tool (pull requests, scans, tests): forty thousand findings with their texts. */
export const MAX_RESULTS_BYTES = 8 * MB;
/** Findings of one tool: more than fit into the bound on bytes, with their texts. */
export const MAX_FINDINGS = 100_000;
/** A commit with a message of the maximum length and all other fields. */
const MAX_COMMIT_BYTES = MB / 2;
/** Free-form parts that describe something: a repository, a notification target. */
export const MAX_DETAIL_BYTES = MB / 4;
/** All annotations, and all external URLs, of one record. */
const MAX_LABELS_BYTES = MB;
export const MAX_ANNOTATIONS = 200;
export const MAX_EXTERNAL_URLS = 100;

/**
 * Deprecation date of everything that was deprecated before this server existed. The contract gives no date, so this is
 * the latest possible one: the day of the contract's newest state (semantics 11).
 */
export const CONTRACT_DEPRECATION_DATE = "2026-08-20";

export const Text = Type.String({ maxLength: MAX_TEXT_CHARS });
const Label = Type.String({ maxLength: MAX_LABEL_CHARS });
/** A URL that no page renders as a link. */
export const Url = Type.String({ maxLength: MAX_URL_CHARS });
/** A URL that pages may render as a link. http/validate.ts checks this format and `remote-url`. */
export const WebUrl = Type.String({
  maxLength: MAX_URL_CHARS,
  format: "web-url",
  description: "An http or https URL; text without a scheme is accepted and shown as plain text",
});
/** The URL of a repository, or of a commit in one. */
export const RemoteUrl = Type.String({
  maxLength: MAX_URL_CHARS,
  format: "remote-url",
  description: "An http, https or ssh URL, or git's short form of a remote (user@host:path); never a script",
});
export const Day = CheckedByHandler({ format: "date" }, Type.String({ description: "A day in UTC, `YYYY-MM-DD`" }));
/** A name that matches one of the grammars of domain/names.ts. */
export const Name = (pattern: string, options: Record<string, unknown> = {}) =>
  Matching(pattern, { maxLength: MAX_NAME_CHARS, ...options });
export const Fingerprint = Matching(FINGERPRINT, { description: "SHA-256 fingerprint, 64 lowercase hex characters" });

export const GitCommit = named(
  "GitCommit",
  WithinBytes(
    MAX_COMMIT_BYTES,
    Type.Object({
      sha1: Type.String({ minLength: 1, maxLength: MAX_NAME_CHARS, description: "Full commit id" }),
      message: Maybe(Text),
      author: Maybe(Label),
      author_username: Maybe(Label),
      branch: Maybe(Label),
      timestamp: Maybe(Type.Number({ description: "Author time, epoch seconds" })),
      url: Maybe(RemoteUrl),
      parents: Maybe(Type.Array(Type.String({ maxLength: MAX_NAME_CHARS }), { maxItems: MAX_LIST_ITEMS })),
      verified: Maybe(Type.Boolean()),
      signature_state: Maybe(Label),
    }),
  ),
);
type GitCommitInput = Static<typeof GitCommit>;

export const GitCommitInfo = named(
  "GitCommitInfo",
  Type.Object({
    sha1: Type.String(),
    message: Type.String(),
    author: Type.String(),
    branch: Type.String(),
    timestamp: Type.Number({ description: "Author time, epoch seconds; 0 when not reported" }),
    author_username: Type.Optional(Type.String()),
    url: Type.Optional(Type.String()),
    parents: Type.Optional(Type.Array(Type.String())),
    verified: Type.Optional(Type.Boolean()),
    signature_state: Type.Optional(Type.String()),
  }),
);
export type GitCommitInfoValue = Static<typeof GitCommitInfo>;

const REPO_PROVIDERS = [
  "github",
  "gitlab",
  "bitbucket",
  "bitbucket_cloud",
  "bitbucket_dc",
  "azure-devops",
  "azure_devops_services",
  "azure_devops_server",
  "circleci",
  "git",
  "subversion",
] as const;
export const RepoProvider = named("RepoProvider", OneOf(REPO_PROVIDERS));

export const RepoInfoPostInput = named(
  "RepoInfoPostInput",
  WithinBytes(
    MAX_DETAIL_BYTES,
    Type.Object({
      name: Type.String({ maxLength: MAX_PATH_CHARS }),
      id: Maybe(Type.String({ maxLength: MAX_PATH_CHARS, description: "Id at the code host" })),
      url: Url,
      description: Maybe(Text),
      provider: Maybe(RepoProvider),
      namespace_path: Maybe(Type.Array(Type.String({ maxLength: MAX_PATH_CHARS }), { maxItems: 100 })),
      additional_info: Maybe(Type.Record(Type.String(), Type.Unknown())),
    }),
  ),
);
type RepoInfoInput = Static<typeof RepoInfoPostInput>;

export const RepoInfoResponse = named(
  "RepoInfoResponse",
  Type.Object(
    { name: Type.String(), url: Type.String(), id: Type.String(), description: Type.String() },
    { additionalProperties: false },
  ),
);

const ExternalAttachmentUrl = named(
  "ExternalAttachmentUrl",
  Type.Object({ href: WebUrl, fingerprint: Maybe(Matching(FINGERPRINT)) }, { additionalProperties: false }),
);
export const ExternalUrls = Type.Unsafe<Record<string, { href: string; fingerprint?: string | null }>>({
  type: "object",
  description: "URLs by label; labels cannot contain `.` or `=`",
  patternProperties: { [URL_LABEL]: ExternalAttachmentUrl },
  additionalProperties: false,
  maxProperties: MAX_EXTERNAL_URLS,
  "x-max-bytes": MAX_LABELS_BYTES,
});

export const Annotations = Type.Unsafe<Record<string, string>>({
  type: "object",
  description: "Texts by key; keys consist of letters, digits, `_` and `-`",
  patternProperties: { [ANNOTATION_KEY]: Text },
  additionalProperties: false,
  maxProperties: MAX_ANNOTATIONS,
  "x-max-bytes": MAX_LABELS_BYTES,
});

/** The annotations of an artifact: unlike those of an attestation, with any keys and values (wire-contract 5). */
export const FreeAnnotations = Type.Unsafe<Record<string, unknown>>({
  type: "object",
  description: "Values by key; at most 1 MB of JSON",
  additionalProperties: true,
  "x-max-bytes": MAX_LABELS_BYTES,
});

export const UserData = Type.Unsafe<Record<string, unknown> | unknown[]>({
  anyOf: [
    { type: "object", additionalProperties: true },
    { type: "array", items: {} },
  ],
  "x-max-bytes": MAX_FREE_FORM_BYTES,
  description: "Custom data of the reporter, as an object or a list; at most 4 MB of JSON",
});

/** Keys of a commit that responses omit unless the report had a value: clients print null as if it were a value. */
const OPTIONAL_COMMIT_KEYS = ["author_username", "url", "parents", "verified", "signature_state"] as const;

const isCommit = hasMembers<GitCommitInfoValue>("sha1", "message", "author", "branch", "timestamp");

/**
 * A commit as it is stored and presented (wire-contract 4 and 28). Clients rely on sha1, message, author, branch and
 * timestamp, so these are always present; optional keys that were absent or null are omitted.
 */
export function toStoredCommit(commit: GitCommitInput): GitCommitInfoValue {
  return withoutNullKeys({
    sha1: commit.sha1,
    message: commit.message ?? "",
    author: commit.author ?? "",
    branch: commit.branch ?? "",
    timestamp: commit.timestamp ?? 0,
    ...Object.fromEntries(OPTIONAL_COMMIT_KEYS.map((key) => [key, commit[key] ?? null])),
  });
}

/** The commit without optional keys that are null. Older records hold null for every key that was absent. */
const withoutNullKeys = (commit: GitCommitInfoValue): GitCommitInfoValue =>
  Object.fromEntries(
    Object.entries(commit).filter(([key, value]) => value !== null || !OPTIONAL_COMMIT_KEYS.some((one) => one === key)),
  ) as GitCommitInfoValue;

/**
 * Presents a `git_commit_info_json` column; null for null.
 * @throws StoredJsonError for a damaged record
 */
export function presentCommit(stored: Stored | null): GitCommitInfoValue | null {
  if (stored === null) return null;
  const commit = readStoredMembers(stored, isCommit);
  return typeof stored !== "string" || NULL_COMMIT_KEY.test(stored) ? withoutNullKeys(commit) : commit;
}

/** As presentCommit, for a column with a list of commits. */
export const presentCommits = (json: string | null): GitCommitInfoValue[] | null =>
  readNullableStoredJson(json, isListOf(isCommit))?.map(withoutNullKeys) ?? null;

const NULL_COMMIT_KEY = new RegExp(`"(?:${OPTIONAL_COMMIT_KEYS.join("|")})":null`);

/** A trail event with its commit as responses show it. */
export function presentEvent(event: Record<string, unknown>): Record<string, unknown> {
  const { git_commit_info: commit } = event;
  return isCommit(commit) ? { ...event, git_commit_info: withoutNullKeys(commit) } : event;
}

/**
 * As presentEvent, for the JSON text of an event. Only older events hold null keys and need parsing; the text of all
 * others is returned unchanged, because most of a page of trails is history.
 * @param json valid
 */
export function presentEventText(json: string): string {
  if (!NULL_COMMIT_KEY.test(json)) return json;
  return objectText(
    memberTexts(json).map(([key, text]) => [
      key,
      key === "git_commit_info" && text !== "null" ? objectText(memberTexts(text).filter(isShownOfCommit)) : text,
    ]),
  );
}

const isShownOfCommit = ([key, text]: readonly [string, string]): boolean =>
  text !== "null" || !OPTIONAL_COMMIT_KEYS.some((one) => one === key);

const objectText = (members: readonly (readonly [string, string])[]): string =>
  `{${members.map(([key, text]) => `${JSON.stringify(key)}:${text}`).join(",")}}`;

/**
 * The repository that a report names; null unless id, name and url are all present (semantics 3.1).
 * @throws AppError 400 when the URL has no scheme or no host
 */
export function parseRepoInfo(reported: RepoInfoInput | null | undefined): RepoFacts | null {
  const info = reported && repoMembers(reported);
  if (!info?.id || !info.name || !info.url) return null;
  const problem = findRepoUrlProblem(info.url);
  if (problem) throw invalid({ "repo_info.url": problem });
  return {
    externalId: info.id,
    provider: info.provider ?? "",
    name: info.name,
    url: info.url,
    description: info.description ?? "",
    namespacePath: info.namespace_path ?? null,
    additionalInfoJson: toStoredJson(info.additional_info),
  };
}

/** Unknown keys of a report may have any order. */
const repoMembers = (info: RepoInfoInput): RepoInfoInput => toMembers(info) as RepoInfoInput;

const isRepoInfo = hasMembers<RepoInfoInput>("name", "url");

/** The value of a `repo_info_json` column, as it was reported. @throws StoredJsonError for a damaged record */
export const readRepoInfo = (stored: Stored | null): RepoInfoInput | null =>
  stored === null ? null : readStoredMembers(stored, isRepoInfo);

/**
 * Presents a `repo_info_json` column: the four texts of the contract (wire-contract 30.3).
 * @throws StoredJsonError for a damaged record
 */
export function presentRepoInfo(stored: Stored | null): Static<typeof RepoInfoResponse> | null {
  const info = readRepoInfo(stored);
  return info && presentReportedRepo(info);
}

/** repo_info as the events of a trail show it: with the provider, null when none was reported. */
export function presentEventRepoInfo(
  info: RepoInfoInput | null | undefined,
): (Static<typeof RepoInfoResponse> & { provider: string | null }) | null {
  return info ? describeEventRepo(repoMembers(info)) : null;
}

const presentReportedRepo = ({ name, url, id, description }: RepoInfoInput): Static<typeof RepoInfoResponse> => ({
  name,
  url,
  id: id ?? "",
  description: description ?? "",
});

export const Href = Closed({ href: Type.String() });
/** Links to an object: in the API, and to its web page. */
export const PageLinks = Closed({ self: Href, html: Href });
export const linksTo = (self: string, html: string): Static<typeof PageLinks> => ({
  self: { href: self },
  html: { href: html },
});

/**
 * Bounds a value that arrived as text inside JSON. A shape cannot measure it: its JSON may be longer than that text.
 * @throws AppError 413 that names the field
 */
export function requireWithinBytes(field: string, value: unknown, maxBytes: number): void {
  if (!isWithinBytes(value, maxBytes)) throw tooLarge(`Field '${field}'`, maxBytes);
}

/** The JSON text of a value (or of a JsonText) for a `..._json` column; null for null and undefined. */
export const toStoredJson = (value: unknown): string | null =>
  value === null || value === undefined ? null : stringifyJson(value);
