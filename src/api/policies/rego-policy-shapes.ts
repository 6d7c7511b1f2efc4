/** The shapes of Rego policies and their versions, and how rows become answers (newer-clients 5.1 and 5.2). */
import { Type } from "typebox";
import type { Static } from "typebox";
import { MAX_NAME_CHARS, REGO_POLICY_IDENTIFIER } from "../../domain/names.ts";
import type { RegoFiles } from "../../domain/rego/bundle.ts";
import { isListOf, isObject, isText, readNullableStoredJson, readStoredJson } from "../../domain/stored-json.ts";
import type { FormBody } from "../../http/operation.ts";
import { Closed, Matching, Maybe, Nullable, PublishedAs, named } from "../../http/schema.ts";
import type { BundleFile } from "../../rego/bundle-archive.ts";
import type { RegoPolicyRow, RegoPolicyVersionRow } from "../../store/policies/rego-policies.ts";
import { MAX_TEXT_CHARS } from "../../contract/shapes.ts";
import { PageCounts } from "../paging.ts";
import { BUNDLE_BOUNDS, Files } from "./rego-bundles.ts";

/** Characters of an identifier (newer-clients 5.1). */
export const MAX_IDENTIFIER_CHARS = 128;

export const PolicyName = Type.String({ minLength: 1, maxLength: MAX_NAME_CHARS, description: "Name of the policy" });
const publicationFields = {
  name: Maybe(PolicyName),
  description: Maybe(Type.String({ maxLength: MAX_TEXT_CHARS })),
  comment: Maybe(Type.String({ maxLength: MAX_TEXT_CHARS, description: "What changed in this version" })),
  files: Type.Optional(Files),
};
export const RegoPolicyPutInput = named("RegoPolicyPutInput", Closed(publicationFields));
export const RegoPolicyPostInput = named(
  "RegoPolicyPostInput",
  Closed({
    identifier: Matching(REGO_POLICY_IDENTIFIER, {
      maxLength: MAX_IDENTIFIER_CHARS,
      description: "Permanent identifier of the policy, also after archiving",
    }),
    ...publicationFields,
  }),
);
export type Publication = Static<typeof RegoPolicyPutInput>;

const AnyObject = Type.Unsafe<Record<string, unknown>>({
  type: "object",
  additionalProperties: true,
  "x-max-bytes": BUNDLE_BOUNDS.bytes,
});
export const publicationBody = <T extends typeof RegoPolicyPutInput | typeof RegoPolicyPostInput>(
  component: string,
  schema: T,
) =>
  ({
    kind: "form",
    component,
    part: "data_json",
    schema: PublishedAs(schema, AnyObject),
    bounds: BUNDLE_BOUNDS,
    file: {
      part: "bundle",
      description: "The files as a gzipped tar, in place of `files`",
      kind: "memory",
      isAnyName: true,
    },
    acceptsJson: true,
  }) satisfies FormBody<typeof AnyObject>;

const versionFields = {
  version: Type.Integer({ description: "1 for the first version" }),
  sha256: Type.String({ description: "SHA-256 of paths and sources" }),
  package: Type.String({ description: "The package that declares `allow`" }),
  outputs: Type.Array(Type.String(), { description: "Rules that are annotated as entry points" }),
  params: Nullable(
    Type.Array(Type.String(), { description: "Names that are read from `data.params`; null if some are computed" }),
  ),
  warnings: Type.Array(Type.String()),
  comment: Type.String(),
  engine: Type.String({ description: "The engine that checked the version" }),
  created_at: Type.Number({ description: "Epoch seconds" }),
  created_by: Type.String(),
};
const RegoPolicyFile = Closed({
  path: Type.String(),
  size: Type.Integer({ description: "Bytes" }),
  sha256: Type.String(),
  source: Type.Optional(Type.String({ description: "In answers about one version" })),
});
export const RegoPolicyVersion = named(
  "RegoPolicyVersion",
  Closed({ ...versionFields, files: Type.Array(RegoPolicyFile) }),
);
const policyFields = {
  identifier: Type.String(),
  name: Type.String(),
  description: Type.String(),
  archived: Type.Boolean(),
  created_at: Type.Number({ description: "Epoch seconds" }),
  created_by: Type.String(),
  current_version: Type.Integer({ description: "Number of the latest version" }),
};
export const RegoPolicyListItem = named("RegoPolicyListItem", Closed(policyFields));
export const RegoPolicyResponse = named("RegoPolicyResponse", Closed({ ...policyFields, version: RegoPolicyVersion }));
export const RegoPolicyPublished = named(
  "RegoPolicyPublished",
  Closed({
    ...policyFields,
    version: RegoPolicyVersion,
    changed: Type.Boolean({ description: "Whether a policy or a version was added, or name or description changed" }),
    warnings: Type.Array(Type.String(), { description: "What the engine finds worth a look, but does not refuse" }),
  }),
);
export const RegoPolicyListPage = named(
  "RegoPolicyListPage",
  Closed({ ...PageCounts, rego_policies: Type.Array(RegoPolicyListItem) }),
);
export const RegoPolicyVersionListPage = named(
  "RegoPolicyVersionListPage",
  Closed({ ...PageCounts, versions: Type.Array(RegoPolicyVersion) }),
);

const isTextList = isListOf(isText);
const isFileList = isListOf((value: unknown): value is BundleFile => isObject(value) && isText(value["path"]));

export const presentRegoPolicy = (row: RegoPolicyRow): Static<typeof RegoPolicyListItem> => ({
  identifier: row.identifier,
  name: row.name,
  description: row.description,
  archived: row.archived === 1,
  created_at: row.created_at,
  created_by: row.created_by,
  current_version: row.version,
});

/** @param sources of the files; null in lists and in answers to changes */
export const presentVersion = (
  row: RegoPolicyVersionRow,
  sources: RegoFiles | null = null,
): Static<typeof RegoPolicyVersion> => ({
  version: row.version,
  sha256: row.sha256,
  package: row.package,
  outputs: readStoredJson(row.outputs_json, isTextList),
  params: readNullableStoredJson(row.params_json, isTextList),
  warnings: readStoredJson(row.warnings_json, isTextList),
  comment: row.comment,
  engine: row.engine,
  created_at: row.created_at,
  created_by: row.created_by,
  files: readStoredJson(row.files_json, isFileList).map(({ path, size, sha256 }) => ({
    path,
    size,
    sha256,
    ...(sources?.[path] === undefined ? {} : { source: sources[path] }),
  })),
});

/** A version whose record cannot be shown: its number, and the reason in the place of its comment. */
export const presentVersionPlaceholder = (
  row: RegoPolicyVersionRow,
  reason: string,
): Static<typeof RegoPolicyVersion> =>
  presentVersion({
    ...row,
    outputs_json: "[]",
    params_json: null,
    warnings_json: "[]",
    files_json: "[]",
    comment: reason,
  });
