/** A trail as answers show it: its facts, the template in force, the stored verdict and the whole history. */
import { Type } from "typebox";
import type { Static } from "typebox";
import type { TrailStatus } from "../domain/compliance/trail.ts";
import { EMPTY_TEMPLATE_TEXT } from "../domain/flow-template/template.ts";
import type { Template } from "../domain/flow-template/template.ts";
import { mergeByTime, mergedByTime } from "../domain/time.ts";
import { Closed, Nullable, OneOf, named } from "../http/schema.ts";
import type { FlowRow } from "../store/flows/flows.ts";
import type { TrailMoveRow } from "../store/environments/artifact-locations.ts";
import type { TrailEventRow, TrailEventText, TrailRow } from "../store/flows/trails.ts";
import { jsonPieces } from "../json/text.ts";
import { freeForm, listAllowance, singleAllowance, take, takeText, withLargeJson } from "./large-json.ts";
import type { Allowance } from "./large-json.ts";
import { GitCommitInfo, UserData, fromJson, presentCommit, presentEventRepoInfo, presentEventText } from "./shapes.ts";
import { UNREADABLE, presentEach } from "./placeholders.ts";
import { Tags } from "./tags.ts";
import type { PresenterContext } from "./presenter-context.ts";

const STATES = ["INCOMPLETE", "COMPLIANT", "NON-COMPLIANT"] as const;

const AttestationComplianceStatus = named(
  "AttestationComplianceStatus",
  Closed({
    attestation_name: Type.String(),
    attestation_type: Type.String({ description: "What the template expects, or what was reported unexpectedly" }),
    attestation_id: Nullable(Type.String({ description: "Of an overridden record: the original's" })),
    overridden_attestation_id: Nullable(Type.String({ description: "The override in force" })),
    status: OneOf(["MISSING", "COMPLETE"]),
    is_compliant: Nullable(Type.Boolean()),
    unexpected: Type.Boolean(),
  }),
);

const evaluation = {
  evaluated_at: Type.Number({ description: "Epoch seconds of the event that caused the evaluation" }),
  flow_template_id: Type.String(),
};

const ArtifactComplianceStatus = named(
  "ArtifactComplianceStatus",
  Closed({
    artifact_fingerprint: Nullable(Type.String()),
    artifact_id: Nullable(Type.String()),
    status: OneOf(["MISSING", ...STATES]),
    is_compliant: Nullable(Type.Boolean()),
    unexpected: Type.Boolean(),
    attestations_statuses: Type.Array(AttestationComplianceStatus),
    ...evaluation,
  }),
);

const TrailComplianceStatus = named(
  "TrailComplianceStatus",
  Closed({
    status: OneOf(STATES),
    is_compliant: Type.Boolean(),
    attestations_statuses: Type.Array(AttestationComplianceStatus),
    artifacts_statuses: Type.Record(Type.String(), ArtifactComplianceStatus, {
      description: "By name in the template, the latest artifact of each name",
    }),
    ...evaluation,
  }),
);

const TemplateAttestation = named("TemplateAttestation", Closed({ name: Type.String(), type: Type.String() }));
const TemplateArtifact = named(
  "TemplateArtifact",
  Closed({ name: Type.String(), attestations: Type.Array(TemplateAttestation) }),
);
const TemplateTrailDefinition = named(
  "TemplateTrailDefinition",
  Closed({ attestations: Type.Array(TemplateAttestation), artifacts: Type.Array(TemplateArtifact) }),
);
const TemplateShape = named(
  "Template",
  Closed({
    version: Type.Literal(1),
    trail: TemplateTrailDefinition,
    content: Type.String({ description: "YAML text as uploaded" }),
  }),
);

const EVENT_TYPES = [
  "trail_reported",
  "trail_updated",
  "trail_attestation_reported",
  "trail_attestation_for_artifact_reported",
  "artifact_creation_reported",
  "artifact_attestation_reported",
  "artifact_started_running",
  "artifact_stopped_running",
  "artifact_approval_reported",
] as const;

/** Open, because what an event has beside the common fields depends on its type. */
const TrailEvent = named(
  "TrailEvent",
  Type.Object({
    type: OneOf(EVENT_TYPES),
    timestamp: Type.Number({ description: "Epoch seconds" }),
    org_id: Type.String(),
    flow_id: Type.String(),
    trail_id: Type.String(),
    git_commit_info: Type.Optional(Nullable(GitCommitInfo)),
    repo_info: Type.Optional(
      Nullable(
        Type.Record(Type.String(), Type.Unknown(), {
          description: "`name`, `url`, `id`, `description` and `provider`",
        }),
      ),
    ),
    setting_user_id: Type.Optional(Type.String()),
    template_id: Type.Optional(Type.String({ description: "The template in force from then on" })),
    changes: Type.Optional(Type.Array(Type.String(), { description: "Fields that an update changed" })),
    attestation_type: Type.Optional(Type.String()),
    attestation_id: Type.Optional(Type.String()),
    is_compliant: Type.Optional(Type.Boolean()),
    is_reattestation: Type.Optional(
      Nullable(Type.Boolean({ description: "true on a repeat, null on the first report of a name" })),
    ),
    template_reference_name: Type.Optional(Nullable(Type.String())),
    target_artifact: Type.Optional(Type.String()),
    artifact_id: Type.Optional(Type.String()),
    artifact_name: Type.Optional(Type.String()),
    artifact_fingerprint: Type.Optional(Type.String()),
    git_commit: Type.Optional(Type.String()),
    environment_id: Type.Optional(Type.String()),
    environment_name: Type.Optional(Type.String()),
    snapshot_index: Type.Optional(Type.Integer()),
    replica_number: Type.Optional(Type.Integer()),
  }),
);

const ExternalUrl = named(
  "ExternalUrl",
  Closed({ href: Type.String(), fingerprint: Type.Optional(Nullable(Type.String())) }),
);
const FlowInfo = named("FlowInfo", Closed({ name: Type.String(), tags: Tags }));

export const TrailResponse = named(
  "TrailResponse",
  Closed({
    name: Type.String(),
    description: Type.String({ description: "Empty when none was given" }),
    git_commit_info: Nullable(GitCommitInfo),
    origin_url: Nullable(Type.String()),
    user_data: Nullable(UserData),
    repo_ids: Type.Array(Type.String(), { description: "Repositories that reports to the trail named" }),
    created_at: Type.Number({ description: "Epoch seconds" }),
    last_modified_at: Type.Number({ description: "Epoch seconds" }),
    created_by: Type.String(),
    flow: FlowInfo,
    external_urls: Nullable(Type.Record(Type.String(), ExternalUrl)),
    html_url: Type.String(),
    template: TemplateShape,
    compliance_status: TrailComplianceStatus,
    compliance_state: OneOf(STATES),
    is_compliant: Type.Boolean(),
    events: Type.Array(TrailEvent, { description: "The history, oldest first" }),
  }),
);
type TrailValue = Static<typeof TrailResponse>;
export type TrailEventValue = Static<typeof TrailEvent>;

type ShownFlow = { flow: FlowRow; tags: Record<string, string> };

/** A trail with its whole history. @param row as lists have it (store.trails.listed) */
export function presentTrail(context: PresenterContext, row: TrailRow): TrailValue {
  const parts = trailParts(context, [row]);
  return {
    ...parts.outline(row, singleAllowance()),
    events: [...parts.events(row, context.store.trails.events(row.id))],
  };
}

/**
 * The trails in two parts: all but the history, and the history event by event, because it may be longer than memory.
 */
export function trailParts({ store, organization, urls }: PresenterContext, rows: readonly TrailRow[]) {
  const moves = store.presence.ofTrails(rows.map(({ id }) => id));
  const flows = new Map<number, ShownFlow>();
  const templates = new Map<number, Template & { content: string }>();

  function flowOf(id: number): ShownFlow {
    const shown = flows.get(id) ?? { flow: store.flows.get(id), tags: store.flows.tags(id) };
    flows.set(id, shown);
    return shown;
  }
  function templateOf(id: number): Template & { content: string } {
    const template = templates.get(id) ?? { ...store.templates.parsed(id), content: store.templates.get(id).content };
    templates.set(id, template);
    return template;
  }
  function* reported(rows: Iterable<TrailEventRow>, place: object): Generator<TrailEventValue> {
    for (const { type, timestamp, event_json } of rows) {
      const told = JSON.parse(presentEventText(event_json)) as object;
      yield { type: type as TrailEventValue["type"], timestamp, ...place, ...told } as TrailEventValue;
    }
  }

  const placeOf = (row: TrailRow) => ({
    org_id: organization.public_id,
    flow_id: flowOf(row.flow_id).flow.public_id,
    trail_id: row.public_id,
  });
  const movesOf = (row: TrailRow) => moves.get(row.id) ?? [];

  return {
    /**
     * @param listed a whole row, or one of a list. @throws AnswerFullError when the answer holds enough without the
     * trail.
     */
    outline(listed: TrailRow, allowance: Allowance): Omit<TrailValue, "events"> {
      const row = withLargeJson({ store }, "trails", listed, allowance);
      const { flow, tags } = flowOf(row.flow_id);
      return {
        name: row.name,
        description: row.description ?? "",
        git_commit_info: presentCommit(row.git_commit_info_json),
        origin_url: row.origin_url,
        user_data: freeForm(row.user_data_json) as Record<string, unknown> | unknown[] | null,
        repo_ids: store.trails.repoIds(row.id),
        created_at: row.created_at,
        last_modified_at: row.last_modified_at,
        created_by: row.created_by,
        flow: { name: flow.name, tags },
        external_urls: fromJson<Record<string, Static<typeof ExternalUrl>>>(row.external_urls_json),
        html_url: urls.trailPage(organization.name, flow.name, row.name),
        template: templateOf(row.template_id),
        compliance_status: JSON.parse(row.compliance_json) as TrailStatus,
        compliance_state: row.state,
        is_compliant: row.state === "COMPLIANT",
      };
    },
    /** Oldest first. @param rows the history of the trail as it is stored */
    events(row: TrailRow, rows: Iterable<TrailEventRow>): Generator<TrailEventValue> {
      const place = placeOf(row);
      return mergeByTime(
        reported(rows, place),
        movesOf(row).map((move) => ({ ...presentMove(move), ...place })),
      );
    },
    /**
     * The same events as a JSON text each, put together from what is stored as text: most of a page of trails is
     * history, which would be read only to be written again. @throws Error for a damaged record.
     */
    eventTexts(row: TrailRow, rows: Iterable<TrailEventText>): string[] {
      const place = placeOf(row);
      const told = Array.from(rows, ({ type, timestamp, event_json }) => {
        if (!event_json?.startsWith("{")) throw new Error(`an event of trail ${row.id} is damaged`);
        const head = JSON.stringify({ type, timestamp, ...place });
        const rest = presentEventText(event_json).slice(1);
        return { timestamp, text: event_json === "{}" ? head : `${head.slice(0, -1)},${rest}` };
      });
      const moved = movesOf(row).map((move) => ({
        timestamp: move.timestamp,
        text: JSON.stringify({ ...presentMove(move), ...place }),
      }));
      return mergedByTime(told, moved).map(({ text }) => text);
    },
  };
}

/** Nobody reports these events: they follow from what environments report (semantics 2.5). */
function presentMove(move: TrailMoveRow) {
  const stopped = move.annotation === "exited";
  return {
    type: stopped ? ("artifact_stopped_running" as const) : ("artifact_started_running" as const),
    timestamp: move.timestamp,
    artifact_id: move.artifact_id,
    artifact_name: move.filename,
    artifact_fingerprint: move.fingerprint,
    template_reference_name: move.reference_name,
    environment_id: move.environment_id,
    environment_name: move.environment_name,
    snapshot_index: move.snapshot_index,
    replica_number: stopped ? move.was : move.now,
    repo_info: presentEventRepoInfo(fromJson(move.repo_info_json)),
    git_commit_info: presentCommit(move.git_commit_info_json),
  };
}

/** Trails of which the moves are looked up at once. */
const AT_ONCE = 100;

/**
 * The rows of a list as the JSON text of one, in pieces. A damaged trail becomes a placeholder that says so in its
 * description, and so does one that the answer has no room for.
 */
export function presentTrails(context: PresenterContext, rows: Iterable<TrailRow>): string[] {
  const pieces: string[] = [];
  const allowance = listAllowance();
  for (const some of inGroups(rows, AT_ONCE)) {
    const parts = trailParts(context, some);
    const shown = presentEach(
      some,
      (row) => listedTrail(context, parts, row, allowance),
      (row, mark) => [JSON.stringify(trailPlaceholder(context, row, mark))],
    );
    for (const own of shown) {
      pieces.push(pieces.length === 0 ? "[" : ",");
      for (const piece of own) pieces.push(piece);
    }
  }
  if (pieces.length === 0) return ["[]"];
  pieces.push("]");
  return pieces;
}

/** The JSON text of one trail in pieces. */
function listedTrail(
  { store }: PresenterContext,
  parts: ReturnType<typeof trailParts>,
  row: TrailRow,
  allowance: Allowance,
): string[] {
  const facts = parts.outline(row, allowance);
  takeText(allowance, facts.template.content);
  take(allowance, store.trails.eventBytes(row.id));
  const outline = jsonPieces(facts);
  const events = parts.eventTexts(row, store.trails.eventTexts(row.id));
  const last = outline.pop() as string;
  return [...outline, `${last.slice(0, -1)},"events":[${events.join(",")}]}`];
}

function* inGroups<T>(items: Iterable<T>, size: number): Generator<T[]> {
  let group: T[] = [];
  for (const item of items) {
    if (group.push(item) < size) continue;
    yield group;
    group = [];
  }
  if (group.length > 0) yield group;
}

/** What stands for a trail that is damaged. */
export function trailPlaceholder(
  { store, organization, urls }: PresenterContext,
  row: TrailRow,
  mark = UNREADABLE,
): TrailValue {
  const flow = store.flows.get(row.flow_id).name;
  return {
    name: row.name,
    description: mark,
    git_commit_info: null,
    origin_url: null,
    user_data: null,
    repo_ids: [],
    created_at: row.created_at,
    last_modified_at: row.last_modified_at,
    created_by: row.created_by,
    flow: { name: flow, tags: {} },
    external_urls: null,
    html_url: urls.trailPage(organization.name, flow, row.name),
    template: { version: 1, trail: { attestations: [], artifacts: [] }, content: EMPTY_TEMPLATE_TEXT },
    compliance_status: {
      status: row.state,
      is_compliant: row.state === "COMPLIANT",
      attestations_statuses: [],
      artifacts_statuses: {},
      evaluated_at: row.last_modified_at,
      flow_template_id: "",
    },
    compliance_state: row.state,
    is_compliant: row.state === "COMPLIANT",
    events: [],
  };
}
