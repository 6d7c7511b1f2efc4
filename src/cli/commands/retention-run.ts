/**
 * `assay retention plan|run|deleted`: plans deletions, carries out exactly that plan, and lists past deletions. A run
 * works beside a server: it writes in short transactions and pauses as long after each, so that the server can write.
 */
import type { FlowPlan, RetentionPlan } from "../../store/retention/retention-plan.ts";
import { retentionRuleText } from "../../store/retention/retention-plan.ts";
import { RetentionChangedError } from "../../store/retention/retention.ts";
import { isListOf, isText, readStoredJson } from "../../domain/stored-json.ts";
import { messageOf } from "../../domain/text/system-errors.ts";
import type { RetentionStep, TombstoneRow } from "../../store/retention/retention.ts";
import type { Args } from "../args.ts";
import { DATA_OPTIONS, NAMED_DATA_OPTION, resolveDataDirectory } from "../command-config.ts";
import { openData, runOneOfMany, runTransaction, withData } from "../data-directory.ts";
import type { Data } from "../data-directory.ts";
import { CommandError, EXIT, escapeLine } from "../framework.ts";
import type { Command } from "../framework.ts";
import { createOperatorChanges } from "../operator-changes.ts";
import { BY, byOption, openRetentionOf, resolveScope } from "./retention.ts";
import { renderTable } from "../table.ts";
import { findOrgProblems, requireOrganization, formatTimestamp } from "../lookup.ts";
import { systemSources } from "../../clock.ts";

/**
 * Bounds a write transaction, because the server waits for it. A single trail with thousands of records may take
 * longer.
 */
const MAX_WRITE_MS = 5;
/** Trails between two progress messages. */
const PROGRESS_INTERVAL_TRAILS = 1000;

const PLAN_ID = /^(\d{1,12})-[0-9a-f]{24}$/;
const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 1000;

export const retentionPlan: Command = {
  name: "retention plan",
  summary: "Show what the rules would delete now, and what stays and why",
  usage: "[--org NAME] [--data DIRECTORY]",
  details: ["Deletes nothing. Its last line is the assay retention run command that deletes exactly this."],
  options: {
    org: { kind: "text", placeholder: "NAME", description: "Only data of this organization" },
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  async run(args, io) {
    const directory = await resolveDataDirectory(args, io);
    const plan = withData(directory, (data) =>
      readConsistently(data, () =>
        openRetentionOf(data).plans.make(findOrganizationId(data, args), Math.floor(systemSources.now())),
      ),
    );
    if (args.switches.has("json")) io.stdout(`${JSON.stringify(presentPlan(plan))}\n`);
    else io.stdout(renderPlan(plan, args.texts.get("org")?.[0] ?? null));
    return EXIT.done;
  },
};

export const retentionRun: Command = {
  name: "retention run",
  summary: "Delete exactly what a plan shows",
  usage: "--plan PLAN [--org NAME] [--limit NUMBER] --data DIRECTORY",
  details: [
    "PLAN is printed by assay retention plan; give the same --org. If rules, holds or trails have changed since, " +
      "nothing is deleted. Works beside a running server in small steps. After an interruption, run the same plan " +
      "again to continue. Evidence files are deleted a day later, when the server sweeps unreferenced files.",
  ],
  options: {
    plan: { kind: "text", placeholder: "PLAN", description: "The plan, as printed by assay retention plan" },
    org: { kind: "text", placeholder: "NAME", description: "Only data of this organization, as with the plan" },
    limit: {
      kind: "text",
      placeholder: "NUMBER",
      description: "Stop after this many trails; the same plan continues later",
    },
    by: BY,
    ...DATA_OPTIONS,
    ...NAMED_DATA_OPTION,
  },
  takesConfig: false,
  namesData: true,
  check(args) {
    const { at, limit } = parseRunArguments(args);
    const problems: string[] = [];
    if (Number.isNaN(at)) problems.push("--plan: give a plan printed by assay retention plan");
    if (limit === 0) problems.push("--limit: give a number of at least 1");
    return problems;
  },
  async run(args, io) {
    const { id, at, limit } = parseRunArguments(args);
    const directory = await resolveDataDirectory(args, io, retentionRun);
    const data = openData(directory);
    try {
      const order = { id, at, limit, organizationId: findOrganizationId(data, args), by: byOption(args) };
      const result = await executePlan(data, order, (text) => io.stderr(`${text}\n`));
      if (args.switches.has("json")) {
        const { trails, stripped, kept, finished } = result;
        io.stdout(`${JSON.stringify({ plan: id, trails, stripped, kept, finished })}\n`);
      } else io.stdout(renderResult(result));
      return EXIT.done;
    } finally {
      data.db.close();
    }
  },
};

/** `at` is NaN for an invalid plan, `limit` is 0 for an invalid number. */
function parseRunArguments({ texts }: Args): { id: string; at: number; limit: number } {
  const id = texts.get("plan")?.[0] ?? "";
  const limit = texts.get("limit")?.[0];
  return {
    id,
    at: Number(PLAN_ID.exec(id)?.[1] ?? Number.NaN),
    limit: limit === undefined ? Number.POSITIVE_INFINITY : /^[1-9]\d{0,9}$/.test(limit) ? Number(limit) : 0,
  };
}

type RunOrder = { id: string; at: number; limit: number; organizationId: number | null; by: string };
type RunResult = RetentionStep & { finished: boolean };
type DeletionStep = () => RetentionStep;

/** @throws CommandError; if something was deleted before the error, the message says what */
async function executePlan(
  data: Data,
  { id, at, limit, organizationId, by }: RunOrder,
  reportProgress: (text: string) => void,
): Promise<RunResult> {
  const { plans, runs } = openRetentionOf(data);
  const earlier = runs.find(id);
  const plan = readConsistently(data, () =>
    plans.make(organizationId, at, earlier ? runs.listDeletedBy(earlier.id) : []),
  );
  if (plan.id !== id)
    throw new CommandError([
      "the plan is no longer valid: rules, holds or trails have changed since, or --org differs",
      "nothing was deleted; see assay retention plan",
    ]);
  const operator = createOperatorChanges(data.store, "retention run");
  const run = runTransaction(data, () => runs.begin(id, by));
  const steps = runs.planPieces(plan, run.id, operator.audit);
  const result: RunResult = { trails: 0, stripped: 0, kept: 0, finished: false };
  try {
    await runs.withDeferredForeignKeys(() => runSteps(data, steps, { limit, result, reportProgress }));
  } catch (error) {
    if (countDone(result) === 0 && !(error instanceof RetentionChangedError)) throw error;
    const next = error instanceof RetentionChangedError ? "make a new plan" : "run the same plan again to continue";
    throw new CommandError([messageOf(error), `${renderResult(result).trimEnd()} before that; ${next}`]);
  }
  if (result.finished) runTransaction(data, () => runs.finish(run.id));
  return result;
}

const countDone = ({ trails, stripped }: RetentionStep): number => trails + stripped;

/** Runs the steps until all are done or `limit` trails are reached, and adds them up in `result` after each commit. */
async function runSteps(
  data: Data,
  steps: readonly DeletionStep[],
  { limit, result, reportProgress }: { limit: number; result: RunResult; reportProgress: (text: string) => void },
): Promise<void> {
  for (let next = 0; next < steps.length && countDone(result) < limit; ) {
    const from = { next, limit: limit - countDone(result) };
    const batch = await runOneOfMany(data, () => runBatch(steps, from));
    const before = Math.floor(countDone(result) / PROGRESS_INTERVAL_TRAILS);
    result.trails += batch.trails;
    result.stripped += batch.stripped;
    result.kept += batch.kept;
    next = batch.next;
    result.finished = next === steps.length;
    if (Math.floor(countDone(result) / PROGRESS_INTERVAL_TRAILS) > before)
      reportProgress(`${countDone(result)} of ${steps.length} trails`);
  }
  result.finished ||= steps.length === 0;
}

/** Runs steps from `next` on until MAX_WRITE_MS have passed or `limit` trails are done. Call it in a transaction. */
function runBatch(
  steps: readonly DeletionStep[],
  { next, limit }: { next: number; limit: number },
): RetentionStep & { next: number } {
  const batch = { trails: 0, stripped: 0, kept: 0, next };
  const startedAt = performance.now();
  do {
    const { trails, stripped, kept } = (steps[batch.next] as DeletionStep)();
    batch.trails += trails;
    batch.stripped += stripped;
    batch.kept += kept;
    batch.next += 1;
  } while (batch.next < steps.length && countDone(batch) < limit && performance.now() - startedAt < MAX_WRITE_MS);
  return batch;
}

export const retentionDeleted: Command = {
  name: "retention deleted",
  summary: "List deleted trails and files with their digests",
  usage: "--org NAME [--flow NAME] [OPTIONS] [--data DIRECTORY]",
  details: [
    "Newest first. An audit package exported before the deletion yields the digest of a trail again: see assay " +
      "help retention.",
  ],
  options: {
    org: { kind: "text", placeholder: "NAME", description: "The organization" },
    flow: { kind: "text", placeholder: "NAME", description: "Only entries of this flow" },
    limit: {
      kind: "text",
      placeholder: "NUMBER",
      description: `Maximum number of entries, up to ${MAX_LIMIT} (default ${DEFAULT_LIMIT})`,
    },
    before: {
      kind: "text",
      placeholder: "NUMBER",
      description: "Only entries older than this one, to continue a long list",
    },
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  check(args) {
    const { limit, before } = parseDeletedArguments(args);
    const problems = findOrgProblems(args);
    if (limit < 1 || limit > MAX_LIMIT) problems.push(`--limit: give a number from 1 to ${MAX_LIMIT}`);
    if (Number.isNaN(before)) problems.push("--before: give the number of an entry");
    return problems;
  },
  async run(args, io) {
    const { limit, before } = parseDeletedArguments(args);
    const directory = await resolveDataDirectory(args, io);
    const rows = withData(directory, (data) => {
      const { organizationId, flowId } = resolveScope(data.store, args);
      return openRetentionOf(data).runs.listTombstones(organizationId, flowId, { limit, before });
    });
    if (args.switches.has("json")) io.stdout(`${JSON.stringify({ deleted: rows.map(presentTombstone) })}\n`);
    else {
      const headers = ["NUMBER", "DELETED", "FLOW", "WHAT", "LAST EVENT", "DIGEST"];
      io.stdout(renderTable(headers, rows.map(tombstoneCells), "nothing was deleted"));
    }
    return EXIT.done;
  },
};

/** For invalid numbers, `limit` is 0 and `before` is NaN. */
function parseDeletedArguments({ texts }: Args): { limit: number; before: number | null } {
  const limit = texts.get("limit")?.[0] ?? String(DEFAULT_LIMIT);
  const before = texts.get("before")?.[0];
  return {
    limit: /^\d{1,4}$/.test(limit) ? Number(limit) : 0,
    before: before === undefined ? null : /^\d{1,15}$/.test(before) ? Number(before) : Number.NaN,
  };
}

/** Returns the id of the organization that --org names; null without --org. @throws CommandError */
function findOrganizationId({ store }: Data, args: Args): number | null {
  const name = args.texts.get("org")?.[0];
  return name === undefined ? null : requireOrganization(store, name).id;
}

/** Runs `work` in a read transaction. */
const readConsistently = <T>({ db }: Data, work: () => T): T => db.transaction(work).deferred();

const KEPT_REASONS: readonly (readonly [keyof FlowPlan["kept"], string])[] = [
  ["held", "under a legal hold"],
  ["ran", "with an artifact that ran in an environment"],
  ["referenced", "that other records refer to"],
  ["shared", "that share an artifact with trails that stay"],
];

const countOf = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`;
const formatSize = (bytes: number): string =>
  bytes < 1_048_576 ? `${Math.ceil(bytes / 1024)} KB` : `${(bytes / 1_048_576).toFixed(1)} MB`;

function renderPlan({ id, flows }: RetentionPlan, org: string | null): string {
  const sum = (of: (flow: FlowPlan) => number): number => flows.reduce((total, flow) => total + of(flow), 0);
  const [trails, stripped] = [sum((flow) => flow.trails), sum((flow) => flow.stripped)];
  const files = `${countOf(
    sum((flow) => flow.files),
    "file",
  )}, ${formatSize(sum((flow) => flow.bytes))}`;
  const total = `total: ${countOf(trails, "trail")} to delete, ${countOf(stripped, "trail")} to lose files, ${files}`;
  const next =
    trails + stripped === 0
      ? "nothing to delete"
      : `to delete exactly this: assay retention run --plan ${id}${org === null ? "" : ` --org ${org}`}`;
  return [...flows.flatMap(renderFlowPlan).map(escapeLine), total, next, ""].join("\n");
}

function renderFlowPlan(flow: FlowPlan): string[] {
  const { trails, artifacts, attestations, stripped, files, bytes, oldest, newest, kept } = flow;
  const records = `${countOf(artifacts, "artifact")} and ${countOf(attestations, "attestation")}`;
  const deletions = [
    ...(trails === 0 ? [] : [`${countOf(trails, "trail")} with ${records}`]),
    ...(stripped === 0 ? [] : [`the files of ${countOf(stripped, "trail")}`]),
  ];
  const size = files === 0 ? "" : `, ${countOf(files, "file")}, ${formatSize(bytes)}`;
  const period =
    oldest === null || newest === null
      ? ""
      : `; last events from ${formatTimestamp(oldest)} to ${formatTimestamp(newest)}`;
  return [
    `${flow.organization}/${flow.flow}  (rule of ${retentionRuleText(flow.rule)})`,
    `  deleted: ${deletions.length === 0 ? "nothing" : `${deletions.join(" and ")}${size}${period}`}`,
    ...KEPT_REASONS.flatMap(([reason, text]) =>
      kept[reason] === 0 ? [] : [`  kept: ${countOf(kept[reason], "trail")} ${text}`],
    ),
    ...flow.examples.map(({ trail, by }) => `    ${trail}: ${by}`),
  ];
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

function renderResult({ trails, stripped, kept, finished }: RunResult): string {
  const stayed = kept === 0 ? "" : `; ${countOf(kept, "trail")} stayed because of events since the plan`;
  const rest = finished ? "" : "; the plan is not finished, run it again to continue";
  return `deleted ${countOf(trails, "trail")} and the files of ${countOf(stripped, "trail")}${stayed}${rest}\n`;
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
  fingerprints: readStoredJson(row.fingerprints_json, isListOf(isText)),
  rule: row.rule,
  run: row.run_public_id,
  created_at: row.created_at,
  last_event_at: row.last_event_at,
  deleted_at: row.deleted_at,
});

function tombstoneCells(row: TombstoneRow): string[] {
  const records = `${countOf(row.artifact_count, "artifact")} and ${countOf(row.attestation_count, "attestation")}`;
  const what =
    row.kind === "trail"
      ? `trail ${row.name} (${row.public_id}) with ${records}`
      : `file ${row.filename ?? "without a name"} of attestation ${row.name} (${row.public_id})`;
  const flow = `${row.organization_name}/${row.flow_name}`;
  return [String(row.id), formatTimestamp(row.deleted_at), flow, what, formatTimestamp(row.last_event_at), row.digest];
}
