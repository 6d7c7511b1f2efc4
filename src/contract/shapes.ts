/**
 * Shapes that several resources share, and what turns them into stored values. Component names are those that clients
 * know.
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import { ANNOTATION_KEY, FINGERPRINT, MAX_NAME_CHARACTERS, URL_LABEL } from "../domain/names.ts";
import { repoUrlProblem } from "../domain/network/urls.ts";
import { invalid, tooLarge } from "../errors.ts";
import { isWithinBytes } from "../json/bytes.ts";
import { JsonText, stringifyJson } from "../json/text.ts";
import { Closed, Maybe, Matching, OneOf, WithinBytes, named } from "../http/schema.ts";
import type { RepoFacts } from "../store/flows/repos.ts";

/**
 * Bounds where the contract names none. They are far above what any client sends and keep one field from filling the
 * database: names are read by people, texts may hold a commit message with its body, addresses stay below what proxies
 * take.
 */
export const NAME_LENGTH = MAX_NAME_CHARACTERS;
export const TEXT_LENGTH = 65_536;
export const URL_LENGTH = 8_192;
export const PATH_LENGTH = 4_096;
export const LIST_LENGTH = 10_000;
/** Short texts that tools write and people rarely see: names of branches, states, versions. */
const LABEL_LENGTH = 4_096;

const MB = 1_048_576;
/**
 * `user_data` and `attestation_data` as JSON: pretty-printed reports of hundreds of KB occur, so this leaves room for
 * ten of them.
 */
export const MAX_FREE_FORM_BYTES = 4 * MB;
/** The results of one tool (pull requests, scans, tests): ten thousand findings with their texts. */
export const MAX_RESULTS_BYTES = 8 * MB;
/** A commit with a message of the full length, and what else a client tells of it. */
const MAX_COMMIT_BYTES = MB / 2;
/** Free-form parts that describe something: a repository, a target of messages. */
export const MAX_DETAIL_BYTES = MB / 4;
/** All annotations, and all external URLs, of one record. */
const MAX_LABELS_BYTES = MB;
export const MAX_ANNOTATIONS = 200;
export const MAX_EXTERNAL_URLS = 100;

/**
 * The contract gives no date to what was deprecated before this server: it was at the latest on the day of the
 * contract's newest state (semantics 11).
 */
export const FIRST_DEPRECATIONS = "2026-08-20";

export const Text = Type.String({ maxLength: TEXT_LENGTH });
const Label = Type.String({ maxLength: LABEL_LENGTH });
/** A URL that no page shows as a link. */
export const Url = Type.String({ maxLength: URL_LENGTH });
/** A URL that may become a link. The checks of both formats are in http/validate.ts. */
export const WebUrl = Type.String({
  maxLength: URL_LENGTH,
  format: "web-url",
  description: "An http or https URL; a text without a scheme is kept, and shown as text",
});
/** The URL of a repository, or of a commit in one. */
export const RemoteUrl = Type.String({
  maxLength: URL_LENGTH,
  format: "remote-url",
  description: "An http, https or ssh URL, or as git writes remotes (user@host:path); never a script",
});
/** A name that matches a grammar of domain/names.ts. */
export const Name = (pattern: string, options: Record<string, unknown> = {}) =>
  Matching(pattern, { maxLength: NAME_LENGTH, ...options });
export const Fingerprint = Matching(FINGERPRINT, { description: "SHA-256 fingerprint, 64 lower-case hex characters" });

export const GitCommit = named(
  "GitCommit",
  WithinBytes(
    MAX_COMMIT_BYTES,
    Type.Object({
      sha1: Type.String({ minLength: 1, maxLength: NAME_LENGTH, description: "Full commit id" }),
      message: Maybe(Text),
      author: Maybe(Label),
      author_username: Maybe(Label),
      branch: Maybe(Label),
      timestamp: Maybe(Type.Number({ description: "Author time, epoch seconds" })),
      url: Maybe(RemoteUrl),
      parents: Maybe(Type.Array(Type.String({ maxLength: NAME_LENGTH }), { maxItems: LIST_LENGTH })),
      verified: Maybe(Type.Boolean()),
      signature_state: Maybe(Label),
    }),
  ),
);
export type GitCommitInput = Static<typeof GitCommit>;

export const GitCommitInfo = named(
  "GitCommitInfo",
  Type.Object({
    sha1: Type.String(),
    message: Type.String(),
    author: Type.String(),
    branch: Type.String(),
    timestamp: Type.Number({ description: "Author time, epoch seconds; 0 when it was not told" }),
    author_username: Type.Optional(Type.String()),
    url: Type.Optional(Type.String()),
    parents: Type.Optional(Type.Array(Type.String())),
    verified: Type.Optional(Type.Boolean()),
    signature_state: Type.Optional(Type.String()),
  }),
);
export type GitCommitInfoValue = Static<typeof GitCommitInfo>;

export const REPO_PROVIDERS = [
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
      name: Type.String({ maxLength: PATH_LENGTH }),
      id: Maybe(Type.String({ maxLength: PATH_LENGTH, description: "The forge's own id" })),
      url: Url,
      description: Maybe(Text),
      provider: Maybe(RepoProvider),
      namespace_path: Maybe(Type.Array(Type.String({ maxLength: PATH_LENGTH }), { maxItems: 100 })),
      additional_info: Maybe(Type.Record(Type.String(), Type.Unknown())),
    }),
  ),
);
export type RepoInfoInput = Static<typeof RepoInfoPostInput>;

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
  description: "Label to address; labels hold no `.` and no `=`",
  patternProperties: { [URL_LABEL]: ExternalAttachmentUrl },
  additionalProperties: false,
  maxProperties: MAX_EXTERNAL_URLS,
  "x-max-bytes": MAX_LABELS_BYTES,
});

export const Annotations = Type.Unsafe<Record<string, string>>({
  type: "object",
  description: "Labelled texts; keys are letters, digits, `_` and `-`",
  patternProperties: { [ANNOTATION_KEY]: Text },
  additionalProperties: false,
  maxProperties: MAX_ANNOTATIONS,
  "x-max-bytes": MAX_LABELS_BYTES,
});

export const UserData = Type.Unsafe<Record<string, unknown> | unknown[]>({
  anyOf: [
    { type: "object", additionalProperties: true },
    { type: "array", items: {} },
  ],
  "x-max-bytes": MAX_FREE_FORM_BYTES,
  description: "Anything of the reporter's own, as an object or a list; at most 4 MB of JSON",
});

/** Keys of a commit that answers leave out unless the report sent a value: clients print null as if it were one. */
const OPTIONAL_COMMIT_KEYS = ["author_username", "url", "parents", "verified", "signature_state"] as const;

/**
 * A commit as it is stored and shown (wire-contract 4 and 28). Clients rely on sha1, message, author, branch and
 * timestamp, so these are never missing; an optional key that was not sent, or was sent as null, is left out.
 */
export function storedCommit(commit: GitCommitInput): GitCommitInfoValue {
  return withoutNullKeys({
    sha1: commit.sha1,
    message: commit.message ?? "",
    author: commit.author ?? "",
    branch: commit.branch ?? "",
    timestamp: commit.timestamp ?? 0,
    ...Object.fromEntries(OPTIONAL_COMMIT_KEYS.map((key) => [key, commit[key] ?? null])),
  });
}

/** The commit without optional keys that are null. Older records hold null for every key that was not sent. */
const withoutNullKeys = (commit: GitCommitInfoValue): GitCommitInfoValue =>
  Object.fromEntries(
    Object.entries(commit).filter(([key, value]) => value !== null || !OPTIONAL_COMMIT_KEYS.some((one) => one === key)),
  ) as GitCommitInfoValue;

/**
 * The commit of a `git_commit_info_json` column as answers show it; null for null.
 * @throws SyntaxError for a damaged record.
 */
export function presentCommit(json: string | null): GitCommitInfoValue | null {
  const commit = fromJson<GitCommitInfoValue>(json);
  return commit === null ? null : withoutNullKeys(commit);
}

/** As presentCommit, of a list of commits. */
export const presentCommits = (json: string | null): GitCommitInfoValue[] | null =>
  fromJson<GitCommitInfoValue[]>(json)?.map(withoutNullKeys) ?? null;

const NULL_COMMIT_KEY = new RegExp(`"(?:${OPTIONAL_COMMIT_KEYS.join("|")})":null`);

/**
 * The JSON text of a trail event with its commit as answers show it. Only older events hold null keys and need parsing;
 * all others are passed on as they are, because most of a page of trails is history.
 */
export function presentEventText(json: string): string {
  if (!NULL_COMMIT_KEY.test(json)) return json;
  const event = JSON.parse(json) as { git_commit_info?: GitCommitInfoValue | null };
  const commit = event.git_commit_info;
  return JSON.stringify(commit ? { ...event, git_commit_info: withoutNullKeys(commit) } : event);
}

/**
 * The repository that a report names, null unless id, name and url are all there (semantics 3.1).
 * @throws AppError 400 when the URL has no scheme or no host.
 */
export function repoFacts(info: RepoInfoInput | null | undefined): RepoFacts | null {
  if (!info?.id || !info.name || !info.url) return null;
  const problem = repoUrlProblem(info.url);
  if (problem) throw invalid({ "repo_info.url": problem });
  return {
    externalId: info.id,
    provider: info.provider ?? "",
    name: info.name,
    url: info.url,
    description: info.description ?? "",
    namespacePath: info.namespace_path ?? null,
    additionalInfo: info.additional_info ?? null,
  };
}

/** repo_info as answers show it: the four texts of the contract (wire-contract 30, 3). */
export function presentRepoInfo(json: string | null): Static<typeof RepoInfoResponse> | null {
  if (json === null) return null;
  return presentGivenRepo(JSON.parse(json) as RepoInfoInput);
}

/** repo_info as the events of a trail show it: with the provider, null when the report did not tell it. */
export function presentEventRepoInfo(
  info: RepoInfoInput | null | undefined,
): (Static<typeof RepoInfoResponse> & { provider: string | null }) | null {
  return info ? { ...presentGivenRepo(info), provider: info.provider ?? null } : null;
}

/** The four texts, of what was just reported. */
const presentGivenRepo = ({ name, url, id, description }: RepoInfoInput): Static<typeof RepoInfoResponse> => ({
  name,
  url,
  id: id ?? "",
  description: description ?? "",
});

export const Href = Closed({ href: Type.String() });
/** Links to an object: in the API, and its page for people. */
export const Place = Closed({ self: Href, html: Href });
export const place = (self: string, html: string): Static<typeof Place> => ({
  self: { href: self },
  html: { href: html },
});

/**
 * Bounds a value that came as text within JSON, which a shape cannot measure: its JSON may be longer than the text that
 * was sent.
 * @throws AppError 413 that names the field.
 */
export function requireWithinBytes(field: string, value: unknown, maxBytes: number): void {
  const isWithin =
    value instanceof JsonText ? Buffer.byteLength(value.text) <= maxBytes : isWithinBytes(value, maxBytes);
  if (!isWithin) throw tooLarge(`Field '${field}'`, maxBytes);
}

/** JSON text of a value, or a JsonText, for a `..._json` column; null for null and undefined. */
export const toJson = (value: unknown): string | null =>
  value === null || value === undefined ? null : stringifyJson(value);

/** The value of a `..._json` column; null for null. */
export const fromJson = <T>(text: string | null): T | null => (text === null ? null : (JSON.parse(text) as T));
