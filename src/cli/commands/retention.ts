/** `assay retention set|unset|list|hold|release`: manages retention rules and legal holds. */
import {
  deleteRetentionRule,
  placeLegalHold,
  putRetentionRule,
  releaseLegalHold,
} from "../../api/accounts/retention.ts";
import { parseDuration } from "../../domain/text/units.ts";
import type { FlowRow } from "../../store/flows/flows.ts";
import type { Store } from "../../store/index.ts";
import type { OrganizationRow } from "../../store/accounts/organizations.ts";
import { retentionRuleText } from "../../store/retention/retention-plan.ts";
import { MAX_HOLD_REASON_CHARS, MAX_RETENTION_DAYS, isEvidenceFirst } from "../../store/retention/retention-rules.ts";
import type { LegalHoldRow, RetentionRuleRow, RetentionScope } from "../../store/retention/retention-rules.ts";
import { heldScopeNameOf } from "../../api/changes.ts";
import { openRetention } from "../../store/retention/retention.ts";
import type { Retention } from "../../store/retention/retention.ts";
import type { Args, CommandOption } from "../args.ts";
import { DATA_OPTIONS, resolveDataDirectory } from "../command-config.ts";
import { withData } from "../data-directory.ts";
import type { Data } from "../data-directory.ts";
import { CommandError, escapeLine } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { changeAsOperator } from "../operator.ts";
import { printResult, optionOf } from "../output.ts";
import { renderTable } from "../table.ts";
import { findOrgProblems, requireOrganization, formatTimestamp } from "../lookup.ts";
import { systemSources } from "../../clock.ts";

const ORG: CommandOption = { kind: "text", placeholder: "NAME", description: "The organization" };
const FLOW: CommandOption = {
  kind: "text",
  placeholder: "NAME",
  description: "A flow of the organization (default all its flows)",
};
export const BY: CommandOption = {
  kind: "text",
  placeholder: "NAME",
  description: "Name of the person responsible, for the history (default operator)",
};

const DAY_S = 86_400;

export const openRetentionOf = ({ db, store }: Data): Retention => openRetention(db, systemSources, store.builds);

/** Looks up the organization and flow that --org and --flow name. @throws CommandError, AppError */
export function resolveScope(
  store: Store,
  args: Args,
): RetentionScope & { organization: OrganizationRow; flow: FlowRow | null } {
  const organization = requireOrganization(store, args.texts.get("org")?.[0] ?? "");
  const name = args.texts.get("flow")?.[0];
  const flow = name === undefined ? null : store.flows.require(organization, name);
  return { organizationId: organization.id, flowId: flow?.id ?? null, organization, flow };
}

/** As resolveScope, with what operations and people call it. */
function namedScopeOf(store: Store, args: Args) {
  const { organization, flow, ...ids } = resolveScope(store, args);
  const name = flow ? `${organization.name}/${flow.name}` : organization.name;
  return { ...ids, name, params: { org: organization.name }, flow: flow?.name ?? null };
}

/** Parses a duration such as 90d or 52w to whole days; a bare number means days. Null if the option is not set. */
function parseDays(args: Args, name: string, problems: string[]): number | null {
  const text = args.texts.get(name)?.[0];
  if (text === undefined) return null;
  const seconds = parseDuration(/^\d+$/.test(text) ? `${text}d` : text, DAY_S, MAX_RETENTION_DAYS * DAY_S) ?? 0;
  if (seconds === 0 || seconds % DAY_S !== 0) {
    problems.push(`--${name}: give whole days from 1d to ${MAX_RETENTION_DAYS}d, such as 90d or 52w`);
  }
  return seconds / DAY_S;
}

const parseRuleDays = (args: Args, problems: string[] = []): { trails: number | null; evidence: number | null } => ({
  trails: parseDays(args, "trails-after", problems),
  evidence: parseDays(args, "evidence-after", problems),
});

const causeOf = (args: Args): string => (optionOf(args, "reason") ?? "").trim();

export const retentionSet: Command = {
  name: "retention set",
  summary: "Set how long trails and evidence files are kept",
  usage: "--org NAME [--flow NAME] (--trails-after DURATION | --evidence-after DURATION | --keep) [--data DIRECTORY]",
  details: [
    "The rule of a flow replaces that of its organization entirely. Time counts from the last event on a trail. A " +
      "rule by itself deletes nothing: see assay help retention.",
  ],
  options: {
    org: ORG,
    flow: FLOW,
    "trails-after": {
      kind: "text",
      placeholder: "DURATION",
      description: "When trails with all their records may be deleted, in whole days, like 90d",
    },
    "evidence-after": {
      kind: "text",
      placeholder: "DURATION",
      description: "When files attached to records may be deleted, like 30d; the records stay",
    },
    keep: { kind: "switch", description: "Keep everything, regardless of the rule of the organization" },
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  check(args) {
    const problems = findOrgProblems(args);
    const { trails, evidence } = parseRuleDays(args, problems);
    const given = trails !== null || evidence !== null;
    if (given === args.switches.has("keep"))
      problems.push("give --trails-after, --evidence-after or both, or --keep alone");
    if (!isEvidenceFirst({ trails, evidence }) && (trails ?? 0) > 0) {
      problems.push("--evidence-after: files are deleted before their trails, give a shorter time than --trails-after");
    }
    return problems;
  },
  async run(args, io) {
    const { trails, evidence } = parseRuleDays(args);
    const directory = await resolveDataDirectory(args, io);
    const rule = await changeAsOperator(directory, { command: "retention set" }, async ({ call, store }) => {
      const { organizationId, flowId, params, flow } = namedScopeOf(store, args);
      await call(putRetentionRule, {
        params,
        body: { flow, trails_after_days: trails, evidence_after_days: evidence },
      });
      return store.retentionRules.listOf(organizationId).find(({ flow_id }) => flow_id === flowId) as RetentionRuleRow;
    });
    return printResult(io, args, {
      json: presentRule(rule),
      text: `${escapeLine(retentionRuleText(rule))}\nnothing is deleted until you run assay retention run\n`,
    });
  },
};

export const retentionUnset: Command = {
  name: "retention unset",
  summary: "Remove a retention rule",
  usage: "--org NAME [--flow NAME] [--data DIRECTORY]",
  details: [
    "Nothing more is deleted under the rule. A flow without a rule of its own falls under that of its " +
      "organization.",
  ],
  options: { org: ORG, flow: FLOW, ...DATA_OPTIONS },
  takesConfig: false,
  check: (args) => findOrgProblems(args),
  async run(args, io) {
    const directory = await resolveDataDirectory(args, io);
    const place = await changeAsOperator(directory, { command: "retention unset" }, async ({ call, store }) => {
      const { params, flow, name } = namedScopeOf(store, args);
      await call(deleteRetentionRule, { params, query: { flow } });
      return name;
    });
    return printResult(io, args, { json: { removed: place }, text: `removed the rule for ${escapeLine(place)}\n` });
  },
};

export const retentionList: Command = {
  name: "retention list",
  summary: "List retention rules and legal holds",
  usage: "[--org NAME] [--all] [--data DIRECTORY]",
  options: {
    org: { kind: "text", placeholder: "NAME", description: "Only rules and holds of this organization" },
    all: { kind: "switch", description: "Include released holds" },
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  async run(args, io) {
    const directory = await resolveDataDirectory(args, io);
    const { rules, holds } = withData(directory, (data) => {
      const only = args.texts.has("org") ? requireOrganization(data.store, args.texts.get("org")?.[0] ?? "").id : null;
      const within = ({ organization_id }: { organization_id: number }): boolean =>
        only === null || organization_id === only;
      const { rules: stored } = openRetentionOf(data);
      return {
        rules: stored.list().filter(within),
        holds: (args.switches.has("all") ? stored.listHolds() : stored.listActiveHolds()).filter(within),
      };
    });
    const all = args.switches.has("all");
    const headers = ["HOLD", "ON", "SINCE", "BY", ...(all ? ["RELEASED", "RELEASED BY"] : []), "REASON"];
    const rows = holds.map((hold) => [
      hold.public_id,
      heldScopeNameOf(hold),
      formatTimestamp(hold.placed_at),
      hold.placed_by,
      ...(all ? releaseCells(hold) : []),
      hold.reason,
    ]);
    const ruleHeaders = ["ORGANIZATION", "FLOW", "TRAILS", "FILES"];
    const text = [
      renderTable(ruleHeaders, rules.map(ruleCells), "no rules: everything is kept"),
      renderTable(headers, rows, "no legal holds"),
    ].join("\n");
    return printResult(io, args, { json: { rules: rules.map(presentRule), holds: holds.map(presentHold) }, text });
  },
};

export const retentionHold: Command = {
  name: "retention hold",
  summary: "Place a legal hold on an organization, a flow or a trail",
  usage: "--org NAME [--flow NAME [--trail NAME]] --reason TEXT [--by NAME] [--data DIRECTORY]",
  details: [
    "Nothing under the hold is deleted, regardless of the rules, until assay retention release ends it. A running " +
      "deletion stops when a hold is placed.",
  ],
  options: {
    org: ORG,
    flow: FLOW,
    trail: { kind: "text", placeholder: "NAME", description: "A trail of the flow; needs --flow" },
    reason: { kind: "text", placeholder: "TEXT", description: "Reason of the hold, for the history" },
    by: BY,
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  check(args) {
    const problems = findOrgProblems(args);
    const reason = causeOf(args);
    if (reason === "" || reason.length > MAX_HOLD_REASON_CHARS)
      problems.push(`--reason: give a reason of at most ${MAX_HOLD_REASON_CHARS} characters`);
    if (args.texts.has("trail") && !args.texts.has("flow"))
      problems.push("--trail: give --flow too, because a trail belongs to a flow");
    return problems;
  },
  async run(args, io) {
    const body = { reason: causeOf(args), trail: optionOf(args, "trail") };
    const directory = await resolveDataDirectory(args, io);
    const options = { command: "retention hold", by: byOption(args) };
    const hold = await changeAsOperator(directory, options, async ({ call, store }) => {
      const { params, flow } = namedScopeOf(store, args);
      const { id } = await call(placeLegalHold, { params, body: { ...body, flow } });
      return store.retentionRules.findHold(id) as LegalHoldRow;
    });
    return printHold(io, args, hold);
  },
};

export const retentionRelease: Command = {
  name: "retention release",
  summary: "End a legal hold",
  usage: "ID [--by NAME] [--data DIRECTORY]",
  details: ["assay retention list shows the ID. The hold stays in the history: assay retention list --all."],
  options: { by: BY, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: { min: 1, max: 1, names: ["ID"] },
  async run(args, io) {
    const id = args.positionals[0] ?? "";
    const directory = await resolveDataDirectory(args, io);
    const options = { command: "retention release", by: byOption(args) };
    const hold = await changeAsOperator(directory, options, async ({ call, store }) => {
      const found = store.retentionRules.findHold(id);
      if (!found)
        throw new CommandError(`there is no hold ${JSON.stringify(id.slice(0, 100))}; assay retention list shows all`);
      await call(releaseLegalHold, { params: { org: found.organization_name, hold_id: id } });
      return store.retentionRules.findHold(id) as LegalHoldRow;
    });
    return printHold(io, args, hold);
  },
};

const printHold = (io: Io, args: Args, hold: LegalHoldRow): number =>
  printResult(io, args, { json: presentHold(hold), text: `${escapeLine(holdLine(hold))}\n` });

export const byOption = (args: Args): string => optionOf(args, "by") ?? "operator";

function ruleCells({
  organization_name,
  flow_name,
  trails_after_days: trails,
  evidence_after_days: files,
}: RetentionRuleRow): string[] {
  const format = (days: number | null): string => (days === null ? "forever" : `${days}d`);
  // Files are deleted with their trail.
  return [organization_name, flow_name ?? "-", format(trails), format(files ?? trails)];
}

const releaseCells = ({ released_at, released_by }: LegalHoldRow): string[] =>
  released_at === null ? ["-", "-"] : [formatTimestamp(released_at), released_by ?? "-"];

function holdLine(hold: LegalHoldRow): string {
  const placed = `since ${formatTimestamp(hold.placed_at)} by ${hold.placed_by}`;
  const released =
    hold.released_at === null ? "" : `, released ${formatTimestamp(hold.released_at)} by ${hold.released_by}`;
  return `hold ${hold.public_id} on ${heldScopeNameOf(hold)} ${placed}${released}: ${hold.reason}`;
}

const presentRule = (rule: RetentionRuleRow) => ({
  organization: rule.organization_name,
  flow: rule.flow_name,
  trails_after_days: rule.trails_after_days,
  evidence_after_days: rule.evidence_after_days,
});

const presentHold = (hold: LegalHoldRow) => ({
  id: hold.public_id,
  organization: hold.organization_name,
  flow: hold.flow_name,
  trail: hold.trail_name,
  trail_id: hold.trail_public_id,
  reason: hold.reason,
  placed_by: hold.placed_by,
  placed_at: hold.placed_at,
  released_by: hold.released_by,
  released_at: hold.released_at,
});
