/** The shapes of the difference between two snapshots for people: what turned, and why. */
import { Type } from "typebox";
import { DIFF_KINDS } from "../../domain/snapshot/comparison.ts";
import { Closed, Nullable, OneOf, Pagination, named } from "../../http/schema.ts";
import { ENVIRONMENT_TYPES } from "../../store/environments/environments.ts";
import { Causes } from "../causes.ts";
import { CommitsBetween } from "./commits-between.ts";

const Time = Type.Number({ description: "Epoch seconds" });
const Count = Type.Integer({ minimum: 0 });
const Verdict = Nullable(Type.Boolean({ description: "null: unknown" }));

const DiffSide = named(
  "SnapshotDiffSide",
  Closed({
    environment: Type.String(),
    type: OneOf(ENVIRONMENT_TYPES),
    index: Type.Integer(),
    timestamp: Time,
    compliant: Verdict,
    html_url: Type.String(),
  }),
);

export const DiffArtifact = named(
  "SnapshotDiffArtifact",
  Closed({
    name: Type.String(),
    service: Type.String({ description: "The name without its version" }),
    version: Type.String({ description: "The tag, or the first seven characters of the fingerprint" }),
    fingerprint: Type.String({ description: "Empty if the reporter could not resolve the image" }),
    instances: Count,
    compliant: Verdict,
    environment_name: Nullable(Type.String({ description: "The member in which it runs; null otherwise" })),
    flow: Nullable(Type.String({ description: "The first flow; null without provenance" })),
    trail: Nullable(Type.String()),
    policies: Type.Array(Closed({ name: Type.String(), version: Type.Integer() }), {
      description: "The versions of policies that it fails",
    }),
    allowed: Nullable(
      Closed({
        user_name: Type.String(),
        description: Type.String({ description: "Reason" }),
        expires_at: Nullable(Type.Number({ description: "Epoch seconds; null if the entry does not end" })),
      }),
    ),
    ...Causes,
  }),
);

export const DiffPolicy = Closed({
  name: Type.String(),
  change: OneOf(["attached", "detached", "changed"]),
  before: Nullable(Type.Integer({ description: "Version; null if it was not attached, and for a damaged record" })),
  after: Nullable(Type.Integer()),
});

export const DiffWould = Closed(
  {
    environment: Type.String({ description: "Where it would start" }),
    artifact: OneOf(["before", "after"], { description: "Which of the two" }),
    compliant: Nullable(Type.Boolean({ description: "null: no policy is attached there" })),
    allowed: Type.Boolean({ description: "Whether the allowlist would accept it, whatever the policies say" }),
    ...Causes,
  },
  {
    description:
      "Between two environments: the verdict that the newer version, or what runs in the first one only, would get " +
      "in the other one if it started there now. null where that is not known: for a logical environment, for a " +
      "snapshot that is not the latest, and for changes after the time for this is over",
  },
);

export const DiffEntry = named(
  "SnapshotDiffEntry",
  Closed({
    kind: OneOf(DIFF_KINDS),
    before: Nullable(DiffArtifact),
    after: Nullable(DiffArtifact),
    policy: Nullable(DiffPolicy),
    at: Nullable(
      Closed(
        { index: Type.Integer(), timestamp: Time, user_name: Nullable(Type.String()) },
        { description: "The snapshot of the environment that made the change; null where it is not known" },
      ),
    ),
    commits: Nullable(CommitsBetween),
    build: Nullable(Closed({ url: Type.String(), reported_by: Type.String() }, { description: "Of an upgrade" })),
    would: Nullable(DiffWould),
  }),
);

export const DiffSet = named(
  "SnapshotDiffSet",
  Closed({
    id: Type.String({ description: "For the parameter `set`" }),
    before: Type.String({ description: "Version" }),
    after: Type.String(),
    total: Count,
    compliant: Count,
    non_compliant: Count,
    example: Type.String({ description: "One of the services" }),
    commits: Nullable(CommitsBetween),
    build: Nullable(Closed({ url: Type.String(), reported_by: Type.String() })),
  }),
);

/** What one snapshot changed, in short. */
export const SnapshotTurn = named(
  "SnapshotTurn",
  Closed({
    index: Type.Integer(),
    timestamp: Time,
    cause: Type.String({ description: "As in the list of snapshots" }),
    user_name: Type.String({ description: "Who sent the report or made the change" }),
    environment_name: Nullable(
      Type.String({ description: "Of a logical environment: the member that changed; null for one that came or went" }),
    ),
    before: Verdict,
    after: Verdict,
    policies: Type.Array(DiffPolicy, { description: "What the snapshot changed about policies" }),
    upgrades: Type.Array(Closed({ service: Type.String(), before: Type.String(), after: Type.String() }), {
      description: "The first upgrades that speak for the verdict: to what fails, or, if it is compliant, from that",
    }),
    started: Type.Array(Type.String(), { description: "The first artifacts that started in it and fail" }),
    exited: Type.Array(Type.String(), { description: "If it is compliant: the first that failed and exited in it" }),
    reevaluated: Type.Array(Type.String(), {
      description: "The first that ran before, too, and have got the verdict of the snapshot in it",
    }),
  }),
);

export const SnapshotDiff = named(
  "SnapshotDiff",
  Closed({
    from: DiffSide,
    to: DiffSide,
    snapshots_between: Nullable(Count),
    turned: Nullable(SnapshotTurn),
    last_compliant: Nullable(
      Closed(
        { index: Type.Integer(), timestamp: Time },
        {
          description: "The latest compliant snapshot of one environment before `snappish2`, if that is not compliant",
        },
      ),
    ),
    counts: Closed(
      Object.fromEntries(DIFF_KINDS.map((kind) => [kind, Count])) as Record<(typeof DIFF_KINDS)[number], typeof Count>,
      {
        description: "Of all changes that match `search`, whatever `kind` and `set` are",
      },
    ),
    unchanged: Type.Array(Type.String(), { description: "The first names of what did not change" }),
    failing: Type.Array(DiffArtifact, {
      description: "The first artifacts that fail in `to` and did not in `from`",
    }),
    failing_total: Count,
    sets: Type.Array(DiffSet, {
      description: "Upgrades between the same versions and commits, the largest set first; empty for few upgrades",
    }),
    sets_total: Count,
    data: Type.Array(DiffEntry),
    pagination: Pagination,
  }),
);
