/** Bodies of the operations on environments, and how an environment is shown. */
import { Type } from "typebox";
import { computeLogicalVerdict } from "../../domain/compliance/environment.ts";
import { ENVIRONMENT_NAME } from "../../domain/names.ts";
import { isListOf, isObject, isText, readStoredJson } from "../../domain/stored-json.ts";
import { Closed, Deprecated, Maybe, Nullable, OneOf, named } from "../../http/schema.ts";
import { fromSqlBoolean } from "../../store/db/database.ts";
import type { EnvironmentView } from "../../store/environments/environment-lists.ts";
import type { RunningCounts } from "../../store/environments/snapshot-pages.ts";
import { ENVIRONMENT_TYPES } from "../../store/environments/environments.ts";
import { PageCounts } from "../paging.ts";
import { OptionalCauses } from "../../contract/causes.ts";
import { CONTRACT_DEPRECATION_DATE, MAX_LIST_ITEMS, Name, MAX_TEXT_CHARS } from "../../contract/shapes.ts";
import { MAX_NAME_CHARS } from "../../domain/names.ts";
import { Tags } from "../../contract/tags.ts";

export const EnvironmentKind = named("EnvironmentType", OneOf(ENVIRONMENT_TYPES));
const Names = (description: string) =>
  Maybe(Type.Array(Type.String({ maxLength: MAX_NAME_CHARS }), { maxItems: MAX_LIST_ITEMS, description }));
const NO_EFFECT = { description: "Returned as sent; has no effect" };
/** Semantics 11 gives the day from which the flag has no effect. */
const IncludeScaling = Deprecated("2026-08-19", Maybe(Type.Boolean(NO_EFFECT)));
const RequireProvenance = Deprecated(CONTRACT_DEPRECATION_DATE, Maybe(Type.Boolean(NO_EFFECT)));

const lists = {
  included_environments: Names(
    "Names of the physical environments in a logical environment, in this order; null or omitted: unchanged",
  ),
  policies: Names("Names of all policies attached to a physical environment; null or omitted: unchanged"),
};

export const CreateEnvironmentPutInput = named(
  "CreateEnvironmentPutInput",
  Closed({
    name: Name(ENVIRONMENT_NAME, { description: "Name of the environment, unique in the organization" }),
    type: EnvironmentKind,
    description: Type.String({ maxLength: MAX_TEXT_CHARS, description: "Empty: the description is unchanged" }),
    include_scaling: IncludeScaling,
    require_provenance: RequireProvenance,
    ...lists,
  }),
);

export const UpdateEnvironmentPatchInput = named(
  "UpdateEnvironmentPatchInput",
  Closed({
    description: Maybe(Type.String({ maxLength: MAX_TEXT_CHARS, description: "Empty: the description is cleared" })),
    include_scaling: IncludeScaling,
    ...lists,
  }),
);

export const RenameEnvironmentPutInput = named(
  "RenameEnvironmentPutInput",
  Closed({ new_name: Name(ENVIRONMENT_NAME, { description: "The new name, not in use by another environment" }) }),
);

export const JoinPhysicalToLogicalPutInput = named(
  "JoinPhysicalToLogicalPutInput",
  Closed({ physical_env_name: Type.String({ maxLength: MAX_NAME_CHARS }) }),
);

export const EnvironmentResponse = named(
  "EnvironmentResponse",
  Closed({
    org: Type.String(),
    name: Type.String(),
    type: EnvironmentKind,
    description: Type.String(),
    last_modified_at: Type.Number({
      description: "Epoch seconds; for a logical environment, the latest time among its members",
    }),
    last_reported_at: Nullable(
      Type.Number({ description: "Epoch seconds; null without a report, and for a logical environment" }),
    ),
    last_changed_at: Nullable(
      Type.Number({
        description:
          "Epoch seconds of the latest snapshot; for a logical environment, the latest time among its members",
      }),
    ),
    state: Nullable(
      Type.Boolean({
        description:
          "Verdict of the latest snapshot; null when unknown, because no policy is attached or nothing was reported",
      }),
    ),
    include_scaling: Type.Boolean({ deprecated: true, ...NO_EFFECT }),
    require_provenance: Type.Boolean({ deprecated: true, ...NO_EFFECT }),
    tags: Tags,
    policies: Type.Array(Type.String(), { description: "Names of the attached policies" }),
    included_environments: Nullable(
      Type.Array(Type.String(), {
        description: "Names of the members of a logical environment; null for a physical one",
      }),
    ),
    artifact_compliance_count: Type.Optional(
      Nullable(
        Closed(
          { true: Type.Integer(), false: Type.Integer(), null: Type.Integer() },
          { description: "Running artifacts by verdict; null without a snapshot. Present with `counts` in a list" },
        ),
      ),
    ),
    ...OptionalCauses,
  }),
);
export const EnvironmentListPage = named(
  "EnvironmentListPage",
  Closed({
    ...PageCounts,
    states: Type.Optional(
      Closed(
        { COMPLIANT: Type.Integer(), "NON-COMPLIANT": Type.Integer(), UNKNOWN: Type.Integer() },
        { description: "With `counts`: how many match in each state, whatever `state` asks for" },
      ),
    ),
    environments: Type.Array(EnvironmentResponse),
  }),
);

type Member = [name: string, state: 0 | 1 | null];
const isMember = (value: unknown): value is Member => Array.isArray(value) && isText(value[0]);
const isMemberList = isListOf(isMember);
const isTextList = isListOf(isText);
const isTags = (value: unknown): value is Record<string, string> => isObject(value);

export function presentEnvironment(row: EnvironmentView, org: string) {
  const members = row.members_json === null ? null : readStoredJson(row.members_json, isMemberList);
  return {
    org,
    name: row.name,
    type: row.type,
    description: row.description,
    last_modified_at: row.last_modified_at,
    last_reported_at: row.last_reported_at,
    last_changed_at: row.last_changed_at,
    state:
      members === null
        ? fromSqlBoolean(row.state)
        : computeLogicalVerdict(members.map(([, state]) => fromSqlBoolean(state))),
    include_scaling: row.include_scaling === 1,
    require_provenance: row.require_provenance === 1,
    tags: readStoredJson(row.tags_json, isTags),
    policies: readStoredJson(row.policies_json, isTextList),
    included_environments: members === null ? null : members.map(([name]) => name),
  };
}

/** The running artifacts of an environment in a list; null without a snapshot. */
export const presentCounts = (counts: RunningCounts | undefined) => ({
  artifact_compliance_count: counts ? { true: counts.compliant, false: counts.failing, null: counts.unknown } : null,
});
