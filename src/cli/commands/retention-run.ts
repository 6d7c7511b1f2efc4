/**
 * `assay retention plan|run|deleted`: what would be deleted, deleting exactly that, and what was deleted. A run works
 * beside a serving process: in short writes, and with a pause as long as each, so that the server writes in between.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { systemSources } from "../../server/app.ts";
import type { FlowPlan, RetentionPlan } from "../../store/retention/retention-plan.ts";
import { retentionRuleText } from "../../store/retention/retention-plan.ts";
import { RetentionChangedError } from "../../store/retention/retention.ts";
import type { RetentionStep, TombstoneRow } from "../../store/retention/retention.ts";
import type { Args } from "../args.ts";
import { DATA_OPTIONS, dataDirectory } from "../command-config.ts";
import { change, openData, withData } from "../data-directory.ts";
import type { Data } from "../data-directory.ts";
import { commandFailure, EXIT, oneLine } from "../framework.ts";
import type { Command } from "../framework.ts";
import { operatorOf } from "../operator-changes.ts";
import { orgProblems, retentionOf, scopeOf } from "./retention.ts";
import { tableText } from "../table.ts";
import { requireOrganization, shownTime } from "../lookup.ts";

/**
 * A write ends after so many milliseconds: who serves waits for it. One trail may take longer, when it has thousands of
 * records.
 */
const WRITE_MS = 5;
/** Trails after which the operator is told. */
const TOLD_EVERY = 1000;

const PLAN = /^(\d{1,12})-[0-9a-f]{24}$/;
const DEFAULT_LIMIT = 100;
const MOST = 1000;

export const retentionPlan: Command = {
  name: "retention plan",
  summary: "Show what the rules would delete now, and what stays and why",
  usage: "[--org NAME] --data DIRECTORY",
  details: ["Deletes nothing. Its last line is what assay retention run needs to delete exactly that."],
  options: { org: { kind: "text", placeholder: "NAME", description: "Only of this organization" }, ...DATA_OPTIONS },
  takesConfig: false,
  async run(args, io) {
    const directory = await dataDirectory(args, io);
    const plan = withData(directory, (data) =>
      reading(data, () => retentionOf(data).plans.make(organizationOf(data, args), Math.floor(systemSources.now()))),
    );
    if (args.switches.has("json")) io.stdout(`${JSON.stringify(presentPlan(plan))}\n`);
    else io.stdout(planText(plan, args.texts.get("org")?.[0] ?? null));
    return EXIT.done;
  },
};

export const retentionRun: Command = {
  name: "retention run",
  summary: "Delete what a plan showed",
  usage: "--plan PLAN [--org NAME] [--limit NUMBER] --data DIRECTORY",
  details: [
    "PLAN is what assay retention plan printed, with the same --org. When rules, holds or trails changed since, nothing is",
    "deleted. Beside a running server it writes in small steps; one that was stopped goes on when it is started again.",
    "Files of evidence follow after a day, when the server sweeps what no record names.",
  ],
  options: {
    plan: { kind: "text", placeholder: "PLAN", description: "The plan, as assay retention plan printed it" },
    org: { kind: "text", placeholder: "NAME", description: "Only of this organization, as with the plan" },
    limit: {
      kind: "text",
      placeholder: "NUMBER",
      description: "Stop after so many trails; the same plan goes on later",
    },
    by: { kind: "text", placeholder: "NAME", description: "Who wants it so, for the history (default operator)" },
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  check(args) {
    const { at, limit } = runWish(args);
    const problems: string[] = [];
    if (Number.isNaN(at)) problems.push("--plan: give the plan that assay retention plan printed");
    if (limit === 0) problems.push("--limit: give a number from 1");
    return problems;
  },
  async run(args, io) {
    const { id, at, limit } = runWish(args);
    const directory = await dataDirectory(args, io);
    const data = openData(directory);
    try {
      const done = await runPlan(
        data,
        { id, at, limit, organizationId: organizationOf(data, args), by: args.texts.get("by")?.[0] ?? "operator" },
        (text) => io.stderr(`${text}\n`),
      );
      if (args.switches.has("json"))
        io.stdout(
          `${JSON.stringify({ plan: id, trails: done.trails, stripped: done.stripped, kept: done.kept, finished: done.finished })}\n`,
        );
      else io.stdout(doneText(done));
      return EXIT.done;
    } finally {
      data.db.close();
    }
  },
};

/** `at` is NaN for what is no plan, `limit` 0 for what is no number. */
function runWish({ texts }: Args): { id: string; at: number; limit: number } {
  const id = texts.get("plan")?.[0] ?? "";
  const limit = texts.get("limit")?.[0];
  return {
    id,
    at: Number(PLAN.exec(id)?.[1] ?? Number.NaN),
    limit: limit === undefined ? Number.POSITIVE_INFINITY : /^[1-9]\d{0,9}$/.test(limit) ? Number(limit) : 0,
  };
}

type Order = { id: string; at: number; limit: number; organizationId: number | null; by: string };
type Done = RetentionStep & { finished: boolean };

/** @throws a command failure; it tells what was deleted before, if anything was. */
async function runPlan(
  data: Data,
  { id, at, limit, organizationId, by }: Order,
  tell: (text: string) => void,
): Promise<Done> {
  const { plans, runs } = retentionOf(data);
  const earlier = runs.find(id);
  const plan = reading(data, () => plans.make(organizationId, at, earlier ? runs.listDeletedBy(earlier.id) : []));
  if (plan.id !== id)
    throw commandFailure([
      "that plan does not hold any more: rules, holds or trails changed since, or --org is another one",
      "nothing was deleted; see assay retention plan",
    ]);
  const operator = operatorOf(data.store, "retention run");
  const run = change(data, () => runs.begin(id, by));
  const pieces = runs.planPieces(plan, run.id, operator.note);
  const done: Done = { trails: 0, stripped: 0, kept: 0, finished: false };
  try {
    await runs.withDeferredForeignKeys(async () => {
      for (let next = 0; next < pieces.length && done.trails + done.stripped < limit; ) {
        const step = { trails: 0, stripped: 0, kept: 0 };
        let started = 0;
        change(data, () => {
          // Not before: waiting for the right to write holds up nobody.
          started = performance.now();
          do {
            const { trails, stripped, kept } = (pieces[next] as () => RetentionStep)();
            step.trails += trails;
            step.stripped += stripped;
            step.kept += kept;
            next += 1;
          } while (
            next < pieces.length &&
            done.trails + done.stripped + step.trails + step.stripped < limit &&
            performance.now() - started < WRITE_MS
          );
        });
        const before = Math.floor((done.trails + done.stripped) / TOLD_EVERY);
        done.trails += step.trails;
        done.stripped += step.stripped;
        done.kept += step.kept;
        done.finished = next === pieces.length;
        if (Math.floor((done.trails + done.stripped) / TOLD_EVERY) > before)
          tell(`${done.trails + done.stripped} of ${pieces.length} trails`);
        if (!done.finished) await sleep(performance.now() - started);
      }
      done.finished ||= pieces.length === 0;
    });
  } catch (error) {
    if (done.trails + done.stripped === 0 && !(error instanceof RetentionChangedError)) throw error;
    const next =
      error instanceof RetentionChangedError ? "make a new plan" : "the same plan goes on when it is run again";
    throw commandFailure([
      error instanceof Error ? error.message : String(error),
      `${doneText(done).trimEnd()} before that; ${next}`,
    ]);
  }
  if (done.finished) change(data, () => runs.finish(run.id));
  return done;
}

export const retentionDeleted: Command = {
  name: "retention deleted",
  summary: "List what was deleted, with its digests",
  usage: "--org NAME [--flow NAME] [OPTIONS] --data DIRECTORY",
  details: [
    "Newest first. The digest of a trail can be found again from an audit package that was exported before; see assay help retention.",
  ],
  options: {
    org: { kind: "text", placeholder: "NAME", description: "The organization" },
    flow: { kind: "text", placeholder: "NAME", description: "Only of this flow" },
    limit: {
      kind: "text",
      placeholder: "NUMBER",
      description: `At most so many, up to ${MOST} (default ${DEFAULT_LIMIT})`,
    },
    before: {
      kind: "text",
      placeholder: "NUMBER",
      description: "Only what was deleted before this one, for the next part of a long list",
    },
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  check(args) {
    const { limit, before } = deletedWish(args);
    const problems = orgProblems(args);
    if (limit < 1 || limit > MOST) problems.push(`--limit: give a number from 1 to ${MOST}`);
    if (Number.isNaN(before)) problems.push("--before: give the number of an entry");
    return problems;
  },
  async run(args, io) {
    const { limit, before } = deletedWish(args);
    const directory = await dataDirectory(args, io);
    const rows = withData(directory, (data) => {
      const { organizationId, flowId } = scopeOf(data.store, args);
      return retentionOf(data).runs.listTombstones(organizationId, flowId, { limit, before });
    });
    if (args.switches.has("json")) io.stdout(`${JSON.stringify({ deleted: rows.map(presentTombstone) })}\n`);
    else {
      const headers = ["NUMBER", "DELETED", "FLOW", "WHAT", "LAST EVENT", "DIGEST"];
      io.stdout(tableText(headers, rows.map(tombstoneCells), "nothing was deleted"));
    }
    return EXIT.done;
  },
};

/** `limit` is 0 and `before` NaN for what is no number. */
function deletedWish({ texts }: Args): { limit: number; before: number | null } {
  const limit = texts.get("limit")?.[0] ?? String(DEFAULT_LIMIT);
  const before = texts.get("before")?.[0];
  return {
    limit: /^\d{1,4}$/.test(limit) ? Number(limit) : 0,
    before: before === undefined ? null : /^\d{1,15}$/.test(before) ? Number(before) : Number.NaN,
  };
}

/** What --org names; null without. @throws a command failure. */
function organizationOf({ store }: Data, args: Args): number | null {
  const name = args.texts.get("org")?.[0];
  return name === undefined ? null : requireOrganization(store, name).id;
}

/** One moment for everything that is read. */
const reading = <T>({ db }: Data, work: () => T): T => db.transaction(work).deferred();

const WHY: readonly (readonly [keyof FlowPlan["kept"], string])[] = [
  ["held", "under a legal hold"],
  ["ran", "with an artifact that ran"],
  ["referenced", "that something else refers to"],
  ["shared", "that share an artifact with trails that stay"],
];

const counted = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`;
const size = (bytes: number): string =>
  bytes < 1_048_576 ? `${Math.ceil(bytes / 1024)} KB` : `${(bytes / 1_048_576).toFixed(1)} MB`;

function planText({ id, flows }: RetentionPlan, org: string | null): string {
  const sum = (of: (flow: FlowPlan) => number): number => flows.reduce((total, flow) => total + of(flow), 0);
  const lines = flows.flatMap((flow) => {
    const goes = [
      flow.trails === 0
        ? null
        : `${counted(flow.trails, "trail")} with ${counted(flow.artifacts, "artifact")} and ${counted(flow.attestations, "attestation")}`,
      flow.stripped === 0 ? null : `the files of ${counted(flow.stripped, "trail")}`,
    ].filter((text) => text !== null);
    const files = flow.files === 0 ? "" : `, ${counted(flow.files, "file")} of ${size(flow.bytes)}`;
    const when =
      flow.oldest === null || flow.newest === null
        ? ""
        : `; last events from ${shownTime(flow.oldest)} to ${shownTime(flow.newest)}`;
    return [
      `${flow.organization}/${flow.flow}  (rule of ${retentionRuleText(flow.rule)})`,
      `  goes: ${goes.length === 0 ? "nothing" : `${goes.join(" and ")}${files}${when}`}`,
      ...WHY.flatMap(([why, text]) =>
        flow.kept[why] === 0 ? [] : [`  stays: ${counted(flow.kept[why], "trail")} ${text}`],
      ),
      ...flow.examples.map(({ trail, by }) => `    ${trail}: ${by}`),
    ];
  });
  const all = `together: ${counted(
    sum(({ trails }) => trails),
    "trail",
  )} to delete, ${counted(
    sum(({ stripped }) => stripped),
    "trail",
  )} to lose files, ${counted(
    sum(({ files }) => files),
    "file",
  )} of ${size(sum(({ bytes }) => bytes))}`;
  const nothing = sum(({ trails, stripped }) => trails + stripped) === 0;
  const run = nothing
    ? "nothing to delete"
    : `to delete exactly that: assay retention run --plan ${id}${org === null ? "" : ` --org ${org}`}`;
  return [...lines.map(oneLine), all, run, ""].join("\n");
}

const presentPlan = ({ id, at, flows }: RetentionPlan) => ({
  plan: id,
  at,
  flows: flows.map(({ organization, flow, rule, oldest, newest, ...counts }) => ({
    organization,
    flow,
    ...counts,
    oldest_last_event: oldest,
    newest_last_event: newest,
    rule: {
      of_flow: rule.flow_id !== null,
      trails_after_days: rule.trails_after_days,
      evidence_after_days: rule.evidence_after_days,
    },
  })),
});

function doneText({ trails, stripped, kept, finished }: Done): string {
  const stayed = kept === 0 ? "" : `; ${counted(kept, "trail")} stayed because of what happened since the plan`;
  const rest = finished ? "" : "; something is left, and the same plan goes on when it is run again";
  return `deleted ${counted(trails, "trail")}, and the files of ${counted(stripped, "trail")}${stayed}${rest}\n`;
}

const presentTombstone = (row: TombstoneRow) => ({
  number: row.id,
  kind: row.kind,
  id: row.public_id,
  name: row.name,
  organization: row.organization_name,
  flow: row.flow_name,
  trail_id: row.trail_public_id,
  digest: row.digest,
  size: row.size,
  filename: row.filename,
  artifacts: row.artifact_count,
  attestations: row.attestation_count,
  events: row.event_count,
  files: row.file_count,
  fingerprints: JSON.parse(row.fingerprints_json) as string[],
  rule: row.rule,
  run: row.run_public_id,
  created_at: row.created_at,
  last_event_at: row.last_event_at,
  deleted_at: row.deleted_at,
});

function tombstoneCells(row: TombstoneRow): string[] {
  const what =
    row.kind === "trail"
      ? `trail ${row.name} (${row.public_id}) with ${counted(row.artifact_count, "artifact")} and ${counted(row.attestation_count, "attestation")}`
      : `file ${row.filename ?? "without a name"} of attestation ${row.name} (${row.public_id})`;
  const flow = `${row.organization_name}/${row.flow_name}`;
  return [String(row.id), shownTime(row.deleted_at), flow, what, shownTime(row.last_event_at), row.digest];
}
