/** Shapes that several resources share, and what turns them into stored values. Component names are those that clients know. */
import { Type } from "typebox";
import type { Static } from "typebox";
import { ANNOTATION_KEY, FINGERPRINT, URL_LABEL } from "../domain/names.ts";
import { repoUrlProblem } from "../domain/urls.ts";
import { invalid } from "../errors.ts";
import { Closed, Maybe, Matching, Nullable, OneOf, named } from "../http/schema.ts";
import type { RepoFacts } from "../store/repos.ts";

/**
 * Bounds where the contract names none. They are far above what any client sends and keep one field from filling the
 * database: names are read by people, texts may hold a commit message with its body, addresses stay below what proxies take.
 */
export const NAME_LENGTH = 256;
export const TEXT_LENGTH = 65_536;
export const URL_LENGTH = 8_192;
export const PATH_LENGTH = 4_096;
export const LIST_LENGTH = 10_000;

export const Text = Type.String({ maxLength: TEXT_LENGTH });
export const Url = Type.String({ maxLength: URL_LENGTH });
/** A name that matches a grammar of domain/names.ts. */
export const Name = (pattern: string, options: Record<string, unknown> = {}) => Matching(pattern, { maxLength: NAME_LENGTH, ...options });
export const Fingerprint = Matching(FINGERPRINT, { description: "SHA-256 fingerprint, 64 lower-case hex characters" });

export const GitCommit = named(
  "GitCommit",
  Type.Object({
    sha1: Type.String({ minLength: 1, maxLength: NAME_LENGTH, description: "Full commit id" }),
    message: Maybe(Text),
    author: Maybe(Text),
    author_username: Maybe(Text),
    branch: Maybe(Text),
    timestamp: Maybe(Type.Number({ description: "Author time, epoch seconds" })),
    url: Maybe(Url),
    parents: Maybe(Type.Array(Type.String({ maxLength: NAME_LENGTH }), { maxItems: LIST_LENGTH })),
    verified: Maybe(Type.Boolean()),
    signature_state: Maybe(Text),
  }),
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
    author_username: Nullable(Type.String()),
    url: Nullable(Type.String()),
    parents: Nullable(Type.Array(Type.String())),
    verified: Nullable(Type.Boolean()),
    signature_state: Nullable(Type.String()),
  }),
);
export type GitCommitInfoValue = Static<typeof GitCommitInfo>;

export const REPO_PROVIDERS = [
  "github", "gitlab", "bitbucket", "bitbucket_cloud", "bitbucket_dc", "azure-devops", "azure_devops_services", "azure_devops_server",
  "circleci", "git", "subversion",
] as const;
export const RepoProvider = named("RepoProvider", OneOf(REPO_PROVIDERS));

export const RepoInfoPostInput = named(
  "RepoInfoPostInput",
  Type.Object({
    name: Type.String({ maxLength: PATH_LENGTH }),
    id: Maybe(Type.String({ maxLength: PATH_LENGTH, description: "The forge's own id" })),
    url: Url,
    description: Maybe(Text),
    provider: Maybe(RepoProvider),
    namespace_path: Maybe(Type.Array(Type.String({ maxLength: PATH_LENGTH }), { maxItems: 100 })),
    additional_info: Maybe(Type.Record(Type.String(), Type.Unknown())),
  }),
);
export type RepoInfoInput = Static<typeof RepoInfoPostInput>;

export const RepoInfoResponse = named(
  "RepoInfoResponse",
  Type.Object({ name: Type.String(), url: Type.String(), id: Type.String(), description: Type.String() }, { additionalProperties: false }),
);

const ExternalAttachmentUrl = named(
  "ExternalAttachmentUrl",
  Type.Object({ href: Url, fingerprint: Maybe(Matching(FINGERPRINT)) }, { additionalProperties: false }),
);
export const ExternalUrls = Type.Unsafe<Record<string, { href: string; fingerprint?: string | null }>>({
  type: "object",
  description: "Label to address; labels hold no `.` and no `=`",
  patternProperties: { [URL_LABEL]: ExternalAttachmentUrl },
  additionalProperties: false,
  maxProperties: LIST_LENGTH,
});

export const Annotations = Type.Unsafe<Record<string, string>>({
  type: "object",
  description: "Labelled texts; keys are letters, digits, `_` and `-`",
  patternProperties: { [ANNOTATION_KEY]: Text },
  additionalProperties: false,
  maxProperties: LIST_LENGTH,
});

export const UserData = Type.Unsafe<Record<string, unknown> | unknown[]>({
  type: ["object", "array"],
  description: "Anything of the reporter's own, as an object or a list",
});

/** A commit as it is stored and shown: what was not told becomes empty, never missing (wire-contract 4). */
export function storedCommit(commit: GitCommitInput): GitCommitInfoValue {
  return {
    sha1: commit.sha1,
    message: commit.message ?? "",
    author: commit.author ?? "",
    branch: commit.branch ?? "",
    timestamp: commit.timestamp ?? 0,
    author_username: commit.author_username ?? null,
    url: commit.url ?? null,
    parents: commit.parents ?? null,
    verified: commit.verified ?? null,
    signature_state: commit.signature_state ?? null,
  };
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
  const info = JSON.parse(json) as RepoInfoInput;
  return { name: info.name, url: info.url, id: info.id ?? "", description: info.description ?? "" };
}

/** repo_info as the events of a trail show it: with the provider, null when the report did not tell it. */
export function presentEventRepoInfo(
  json: string | null,
): (Static<typeof RepoInfoResponse> & { provider: string | null }) | null {
  const shown = presentRepoInfo(json);
  return shown && { ...shown, provider: (JSON.parse(json as string) as RepoInfoInput).provider ?? null };
}

export const Href = Closed({ href: Type.String() });
/** Links to an object: in the API, and its page for people. */
export const Place = Closed({ self: Href, html: Href });
export const place = (self: string, html: string): Static<typeof Place> => ({ self: { href: self }, html: { href: html } });

/** JSON text of a value for a `..._json` column; null for null and undefined. */
export const toJson = (value: unknown): string | null => (value === null || value === undefined ? null : JSON.stringify(value));

/** The value of a `..._json` column; null for null. */
export const fromJson = <T>(text: string | null): T | null => (text === null ? null : (JSON.parse(text) as T));
