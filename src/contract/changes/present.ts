/** What happened in a period as responses show it: of the shown changes, with causes, builds and pull requests. */
import type { FlowRecord } from "../../domain/compliance/environment.ts";
import { versionOf } from "../../domain/snapshot/comparison.ts";
import { CHANGE_KINDS } from "../../domain/snapshot/period-changes.ts";
import type { ChangeKind } from "../../domain/snapshot/period-changes.ts";
import { fromSqlBoolean } from "../../store/db/database.ts";
import { NO_CAUSES, mergeCauses } from "../../store/environments/verdict-causes.ts";
import { presentPagination } from "../../http/pagination.ts";
import { UNREADABLE } from "../placeholders.ts";
import { replacementUrl } from "../present-deployment.ts";
import type { PresenterContext } from "../presenter-context.ts";
import { sizeOfChanges, sizeOfChange, readChanges, readFailing } from "./artifacts.ts";
import { kindsOf } from "./gather.ts";
import type { Gathered } from "./gather.ts";
import type { ChangeScope, GatheredChange, FoundChange } from "./scope.ts";
import type { ChangeListValue, ChangeValue, POLICY_CHANGES } from "./shapes.ts";
import { createChangeReader } from "./read-details.ts";
import type { ChangeReader } from "./read-details.ts";
import { describeChange, keyChangeOf } from "./words.ts";

const MAX_ENVIRONMENTS = 100;
const MAX_UNCHANGED = 20;
/** Artifacts whose causes stand at the verdict on their environment. */
const MAX_CAUSING = 3;

type Context = Pick<PresenterContext, "store" | "urls" | "organization">;
type ShownPage = { page: number; perPage: number; offset: number };

/** @param kinds those that are asked for; null for all */
export function presentChanges(
  context: Context,
  { gathered, scope }: { gathered: Gathered; scope: ChangeScope },
  { kinds, page }: { kinds: readonly ChangeKind[] | null; page: ShownPage },
): ChangeListValue {
  const { since, changes: all, environments, places } = gathered;
  const changes = kinds === null ? all : all.filter(({ kind }) => kinds.includes(kind));
  const turned = [...places.values()].filter(({ before, after }) => before !== after);
  const perEnvironment = new Map<number, number>();
  for (const change of changes) {
    const id = change.environment?.id;
    if (id !== undefined) perEnvironment.set(id, (perEnvironment.get(id) ?? 0) + sizeOfChange(change));
  }
  const busy = new Set(all.flatMap(({ environment }) => environment?.id ?? []));
  const own = environments.filter(({ id }) => perEnvironment.has(id));
  // Without a snapshot in the period, an environment has the verdict that it had before.
  const verdicts = new Map(
    own.map(({ id }) => {
      const place = places.get(id);
      return [id, place ? place.after : fromSqlBoolean(context.store.periodChanges.findVerdictAt(id, scope.to))];
    }),
  );
  const rankOf = ({ id }: { id: number }): number => Number(verdicts.get(id) !== false);
  const changed = own.sort((one, other) => rankOf(one) - rankOf(other));
  // What was created in the period did not stay the same.
  const unchanged = environments.filter(({ id, created_at: created }) => !busy.has(id) && created < scope.from);
  return {
    from: scope.from,
    to: scope.to,
    since,
    counts: countKinds(all, scope),
    turned: {
      non_compliant: turned.filter(({ after }) => after === false).length,
      compliant: turned.filter(({ after, before }) => after === true && before === false).length,
    },
    environments: changed.slice(0, MAX_ENVIRONMENTS).map(({ id, name, type }) => {
      const place = places.get(id);
      return {
        name,
        type,
        total: perEnvironment.get(id) ?? 0,
        first_snapshot: place?.first ?? null,
        last_snapshot: place?.last ?? null,
        compliant_before: place ? place.before : (verdicts.get(id) ?? null),
        compliant_after: verdicts.get(id) ?? null,
      };
    }),
    environments_total: changed.length,
    unchanged: unchanged.slice(0, MAX_UNCHANGED).map(({ name }) => name),
    unchanged_total: unchanged.length,
    data: presentEntries(context, readChanges(context, changes, { offset: page.offset, limit: page.perPage }), all),
    pagination: presentPagination(sizeOfChanges(changes), page.page, page.perPage),
  };
}

/** Changes of each kind; null for those that the scope leaves out. */
export function countKinds(all: readonly FoundChange[], scope: ChangeScope): ChangeListValue["counts"] {
  const readable = kindsOf(scope);
  const counts = Object.fromEntries(CHANGE_KINDS.map((kind) => [kind, readable.includes(kind) ? 0 : null]));
  for (const change of all) counts[change.kind] = (counts[change.kind] ?? 0) + sizeOfChange(change);
  return counts as ChangeListValue["counts"];
}

/** @param all of the period, among which are those that made the verdict on an environment */
export function presentEntries(
  context: Context,
  shown: readonly GatheredChange[],
  all: readonly FoundChange[],
): ChangeValue[] {
  const causing = new Map(shown.map((change) => [change, causingOf(context, change, all)]));
  const reader = createChangeReader(context, [...shown, ...[...causing.values()].flat()]);
  return shown.map((change) => presentEntry(context, reader, { change, causing: causing.get(change) ?? [] }));
}

/** Of the verdict on an environment that turned non-compliant: the artifacts of that snapshot that fail. */
function causingOf(context: Context, change: GatheredChange, all: readonly FoundChange[]): GatheredChange[] {
  if (change.of !== "snapshot" || change.change.event !== null || change.change.after !== false) return [];
  const { environmentId, index } = change.change;
  return readFailing(context, all, { environmentId, index, limit: MAX_CAUSING });
}

const NOTHING = {
  environment_name: null,
  snapshot_index: null,
  by: null,
  compliant: null,
  ...NO_CAUSES,
  artifact: null,
  replaced: null,
  build: null,
  commits: null,
  policy: null,
  allowlist: null,
  member: null,
  key: null,
  record: null,
  last_reported_at: null,
} as const;

function presentEntry(
  context: Context,
  reader: ChangeReader,
  { change, causing }: { change: GatheredChange; causing: readonly GatheredChange[] },
): ChangeValue {
  const { key: id, kind, at: timestamp, environment } = change;
  const common = {
    ...NOTHING,
    id,
    kind,
    timestamp,
    text: describeChange(change),
    environment_name: environment?.name ?? null,
  };
  return { ...common, ...detailsOf(context, reader, { change, causing }) };
}

type Details = Partial<ChangeValue> & Pick<ChangeValue, "html_url">;

function detailsOf(
  context: Context,
  reader: ChangeReader,
  { change, causing }: { change: GatheredChange; causing: readonly GatheredChange[] },
): Details {
  const { urls, organization } = context;
  const org = organization.name;
  switch (change.of) {
    case "snapshot":
      return { by: change.by, ...presentSnapshotChange(context, reader, { change, causing }) };
    case "attachment":
      return presentAttachment(context, change);
    case "policy":
      return {
        by: change.row.user_name,
        policy: presentPolicy(change.row),
        html_url: urls.policyPage(org, change.row.policy),
      };
    case "allowed": {
      const { row, environment } = change;
      const { fingerprint, artifact_name: name } = row;
      return {
        by: row.user_name,
        artifact: {
          name,
          fingerprint,
          version: versionOf({ name, fingerprint }),
          instances_before: 0,
          instances_after: 0,
          html_url: null,
        },
        allowlist: { reason: row.description, expires_at: row.expires_at },
        html_url: `${urls.environmentPage(org, environment.name)}?tab=settings`,
      };
    }
    case "member":
      return presentMember(context, change.row);
    case "key":
      return presentKey(context, change.row);
    case "record":
      return presentRecord(context, change.row);
    case "reporter":
      return {
        last_reported_at: change.reportedAt,
        html_url: urls.environmentPage(org, change.environment.name),
      };
  }
}

function presentAttachment(
  { urls, organization }: Context,
  { by, index, shift: { name, before, after }, environment }: Extract<GatheredChange, { of: "attachment" }>,
): Details {
  const change = before === null ? "attached" : after === null ? "detached" : "in_force";
  return {
    by,
    snapshot_index: index,
    policy: { name, change, before, after, comment: null },
    html_url: urls.snapshotPage(organization.name, environment.name, index),
  };
}

type RowOf<Of> = Extract<GatheredChange, { of: Of; row: unknown }>["row"];

function presentMember(
  { urls, organization: { name: org } }: Context,
  { user_shown: name, user_name, role, previous_role, changed_by: by }: RowOf<"member">,
): Details {
  const isAccount = user_name.startsWith(`${org}/`);
  return {
    by,
    member: { name, user_name, role, previous_role },
    html_url: isAccount ? urls.serviceAccountPage(org, name) : urls.membersPage(org),
  };
}

const presentKey = ({ urls, organization }: Context, { account, keyId, event, by }: RowOf<"key">): Details => ({
  by,
  key: { id: keyId, account, change: keyChangeOf(event) },
  html_url: urls.serviceAccountPage(organization.name, account),
});

function presentRecord(
  { urls, organization: { name: org } }: Context,
  { kind, name, before, after, by }: RowOf<"record">,
): Details {
  const pages = {
    flow: urls.flowPage(org, name),
    environment: urls.environmentPage(org, name),
    control: urls.controlPage(org, name),
    attestation: urls.changesPage(org),
  };
  return {
    by,
    record: { kind, name, before, after },
    html_url: name === UNREADABLE ? urls.changesPage(org) : pages[kind],
  };
}

const POLICY_CHANGE_OF: Readonly<Record<string, (typeof POLICY_CHANGES)[number]>> = {
  creation: "created",
  new_version: "version",
  metadata_update: "described",
  renaming: "renamed",
  archiving: "archived",
};

const presentPolicy = ({ policy: name, type, version, comment }: RowOf<"policy">): ChangeValue["policy"] => ({
  name,
  change: version === 1 ? "created" : (POLICY_CHANGE_OF[type] ?? "described"),
  before: version === null || version === 1 ? null : version - 1,
  after: version,
  comment: type === "new_version" && version === null ? UNREADABLE : comment || null,
});

function presentSnapshotChange(
  { urls, organization }: Context,
  reader: ChangeReader,
  {
    change: { change, environment },
    causing,
  }: { change: Extract<GatheredChange, { of: "snapshot" }>; causing: readonly GatheredChange[] },
): Details {
  const { name: org } = organization;
  const { index, before, after, event, replaced } = change;
  const common = {
    snapshot_index: index,
    compliant: { before, after },
    html_url: urls.snapshotPage(org, environment.name, index),
  };
  if (event === null) {
    const all = causing.map((one) => (one.of === "snapshot" ? reader.causesOf(one.change) : NO_CAUSES));
    return { ...common, ...mergeCauses(all) };
  }
  const { name, fingerprint } = event;
  const flow = reader.flowOf(event.id);
  const build = flow && reader.buildOf(flow);
  return {
    ...common,
    ...reader.causesOf(change),
    artifact: {
      name,
      fingerprint,
      version: versionOf(event),
      instances_before: event.was,
      instances_after: event.now,
      html_url: flow && build ? urls.artifactPage(org, flow.flow, { fingerprint, id: build.public_id }) : null,
    },
    replaced: replaced && { name: replaced.name, fingerprint: replaced.fingerprint, version: versionOf(replaced) },
    build: flow && build ? presentBuild(reader, flow, build) : null,
    commits: flow && replaced ? reader.commitsOf(flow) : null,
  };
}

function presentBuild(
  reader: ChangeReader,
  flow: FlowRecord,
  build: NonNullable<ReturnType<ChangeReader["buildOf"]>>,
): NonNullable<ChangeValue["build"]> {
  const before = reader.replacedOf(flow);
  return {
    flow_name: flow.flow,
    trail_name: flow.trail,
    reported_by: build.created_by,
    build_url: build.build_url,
    git_commit: flow.git_commit,
    commit_url: flow.commit_url || null,
    compare_url: before ? replacementUrl(before, flow, build.repo_url) : null,
    pull_requests: [...reader.pullRequestsOf(flow)],
  };
}
