/** The shapes of what happened in an organization during a period. */
import { Type } from "typebox";
import type { Static } from "typebox";
import { CHANGE_KINDS } from "../../domain/snapshot/period-changes.ts";
import type { ChangeKind } from "../../domain/snapshot/period-changes.ts";
import { Closed, Nullable, OneOf, Pagination, named } from "../../http/schema.ts";
import { ENVIRONMENT_TYPES } from "../../store/environments/environments.ts";
import { Causes } from "../causes.ts";
import { CommitsBetween } from "../comparison/commits-between.ts";

const Time = Type.Number({ description: "Epoch seconds" });
const Count = Type.Integer({ minimum: 0 });
const Verdict = Nullable(Type.Boolean());

/** What a policy underwent: in the organization, or in an environment. */
export const POLICY_CHANGES = [
  "created",
  "version",
  "described",
  "renamed",
  "archived",
  "attached",
  "detached",
  "in_force",
] as const;

const Build = Closed(
  {
    flow_name: Type.String(),
    trail_name: Nullable(Type.String()),
    reported_by: Type.String(),
    build_url: Type.String(),
    git_commit: Nullable(Type.String()),
    commit_url: Nullable(Type.String()),
    compare_url: Nullable(
      Type.String({ description: "Page of the code host that compares the commit with that of what was replaced" }),
    ),
    pull_requests: Type.Array(
      Closed({ url: Type.String(), title: Nullable(Type.String()), author: Nullable(Type.String()) }),
      { description: "As the pull request attestations of the trail name them, at most 10" },
    ),
  },
  { description: "The record of the artifact in its first flow; null without provenance" },
);

const ChangedArtifact = Closed(
  {
    name: Type.String(),
    fingerprint: Type.String({ description: "Empty if the reporter could not resolve the image" }),
    version: Type.String({ description: "The tag of an image, or the first characters of the fingerprint" }),
    instances_before: Count,
    instances_after: Count,
    html_url: Nullable(Type.String({ description: "null without provenance" })),
  },
  { description: "null where no artifact changed, such as of the verdict on a whole environment" },
);

export const ChangeEntry = named(
  "Change",
  Closed({
    id: Type.String({ description: "Stays the same, also in the Atom feed" }),
    kind: OneOf(CHANGE_KINDS),
    timestamp: Time,
    text: Type.String({ description: "A sentence without a full stop" }),
    environment_name: Nullable(Type.String({ description: "null: the whole organization" })),
    snapshot_index: Nullable(Type.Integer({ description: "The snapshot that made the change" })),
    by: Nullable(
      Type.String({
        description: "Who made the change, by full name where there is one; of a snapshot, who reported it",
      }),
    ),
    compliant: Nullable(
      Closed({ before: Verdict, after: Verdict }, { description: "The verdict; null where there is none" }),
    ),
    ...Causes,
    artifact: Nullable(ChangedArtifact),
    replaced: Nullable(
      Closed(
        { name: Type.String(), fingerprint: Type.String(), version: Type.String() },
        { description: "What the artifact took the place of" },
      ),
    ),
    build: Nullable(Build),
    commits: Nullable(CommitsBetween),
    policy: Nullable(
      Closed({
        name: Type.String(),
        change: OneOf(POLICY_CHANGES, {
          description:
            "`attached`, `detached` and `in_force`, a version that turned verdicts, are of an environment; the " +
            "others are of the organization",
        }),
        before: Nullable(Type.Integer({ description: "Version" })),
        after: Nullable(Type.Integer()),
        comment: Nullable(Type.String()),
      }),
    ),
    allowlist: Nullable(Closed({ reason: Type.String(), expires_at: Nullable(Time) })),
    member: Nullable(
      Closed({
        name: Type.String({ description: "Display name, or name of the service account" }),
        user_name: Type.String(),
        role: Nullable(Type.String({ description: "null: removed" })),
        previous_role: Nullable(Type.String({ description: "null: added" })),
      }),
    ),
    key: Nullable(
      Closed({
        id: Type.String({ description: "Not its secret" }),
        account: Type.String({ description: "Its service account" }),
        change: Type.String({ description: "`created`, `rotated`, `revoked` or `lapsed`" }),
      }),
    ),
    record: Nullable(
      Closed({
        kind: OneOf(["flow", "environment", "control", "attestation"]),
        name: Type.String({ description: "Its name then; the name of the attestation that was overridden" }),
        before: Nullable(
          Type.String({
            description: "What was there, where the audit log has it: a name, or the SHA-256 of a template",
          }),
        ),
        after: Nullable(Type.String()),
      }),
    ),
    last_reported_at: Nullable(Type.Number({ description: "Epoch seconds of the last report before it stopped" })),
    html_url: Type.String({ description: "The page about it" }),
  }),
);
export type ChangeValue = Static<typeof ChangeEntry>;

const ChangedEnvironment = Closed({
  name: Type.String(),
  type: OneOf(ENVIRONMENT_TYPES),
  total: Type.Integer({ minimum: 1, description: "Its changes of the kinds that were asked for" }),
  first_snapshot: Nullable(Type.Integer({ description: "The first one in the period" })),
  last_snapshot: Nullable(Type.Integer()),
  compliant_before: Nullable(
    Type.Boolean({
      description: "The verdict of the snapshot before the first one; without any in the period, as `compliant_after`",
    }),
  ),
  compliant_after: Nullable(Type.Boolean({ description: "The verdict at the end of the period" })),
});

export const ChangeList = named(
  "ChangeList",
  Closed({
    from: Time,
    to: Time,
    since: Type.Number({
      description:
        "All changes from this time on are here. Later than `from` where there were too many: ask for the earlier " +
        "ones with this time as `to`",
    }),
    counts: Closed(
      Object.fromEntries(
        CHANGE_KINDS.map((kind) => [
          kind,
          Nullable(Type.Integer({ minimum: 0, description: "null: you may not read these changes" })),
        ]),
      ) as Record<ChangeKind, ReturnType<typeof Nullable<typeof Count>>>,
      { description: "Changes of each kind, whatever `kinds` is" },
    ),
    turned: Closed(
      { non_compliant: Count, compliant: Count },
      { description: "Environments whose verdict after the period is another one than before it" },
    ),
    environments: Type.Array(ChangedEnvironment, {
      description: "Environments with changes: at most 100, those that fail first, then by name",
    }),
    environments_total: Count,
    unchanged: Type.Array(Type.String(), {
      description: "Environments that existed then, without any change, at most 20, by name",
    }),
    unchanged_total: Count,
    data: Type.Array(ChangeEntry),
    pagination: Pagination,
  }),
);
export type ChangeListValue = Static<typeof ChangeList>;
