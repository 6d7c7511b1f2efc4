/** `assay retention set|unset|list|hold|release`: how long what is kept, and what nobody may delete meanwhile. */
import { systemSources } from "../../server/app.ts";
import { parseDuration } from "../../domain/text/units.ts";
import { AppError } from "../../errors.ts";
import type { FlowRow } from "../../store/flows/flows.ts";
import type { Store } from "../../store/index.ts";
import type { OrganizationRow } from "../../store/accounts/organizations.ts";
import { retentionRuleText } from "../../store/retention/retention-plan.ts";
import type { LegalHoldRow, RetentionRuleRow, RetentionScope } from "../../store/retention/retention-rules.ts";
import { openRetention } from "../../store/retention/retention.ts";
import type { Retention } from "../../store/retention/retention.ts";
import type { Args, CommandOption } from "../args.ts";
import { DATA_OPTIONS, dataDirectory } from "../command-config.ts";
import { change, withData } from "../data-directory.ts";
import type { Data } from "../data-directory.ts";
import { commandFailure, EXIT, oneLine } from "../framework.ts";
import type { Command } from "../framework.ts";
import { operatorOf } from "../operator-changes.ts";
import { tableText } from "../table.ts";
import { requireOrganization, shownTime } from "../lookup.ts";

const ORG: CommandOption = { kind: "text", placeholder: "NAME", description: "The organization" };
const FLOW: CommandOption = {
  kind: "text",
  placeholder: "NAME",
  description: "A flow of it; without one all its flows",
};
const BY: CommandOption = {
  kind: "text",
  placeholder: "NAME",
  description: "Who wants it so, for the history (default operator)",
};

/** A century: whoever means "for ever" says --keep. */
const MAX_RETENTION_DAYS = 36_500;
const DAY_S = 86_400;
const LONGEST_REASON = 1000;

/** The retention of opened data. */
export const retentionOf = ({ db, store }: Data): Retention => openRetention(db, systemSources, store.builds);

/** What --org and --flow name. @throws a command failure. */
export function scopeOf(
  store: Store,
  args: Args,
): RetentionScope & { organization: OrganizationRow; flow: FlowRow | null } {
  const organization = requireOrganization(store, args.texts.get("org")?.[0] ?? "");
  const name = args.texts.get("flow")?.[0];
  const flow = name === undefined ? null : flowOf(store, organization, name);
  return { organizationId: organization.id, flowId: flow?.id ?? null, organization, flow };
}

function flowOf(store: Store, organization: OrganizationRow, name: string): FlowRow {
  try {
    return store.flows.require(organization, name);
  } catch (error) {
    throw error instanceof AppError ? commandFailure(error.message) : error;
  }
}

/** What a scope is called. */
const placeOf = ({ organization, flow }: { organization: OrganizationRow; flow: FlowRow | null }): string =>
  flow ? `${organization.name}/${flow.name}` : organization.name;

/** Whole days of a duration such as 90d or 52w; a number alone counts days too. Null where the option is not given. */
function daysOption(args: Args, name: string, problems: string[]): number | null {
  const text = args.texts.get(name)?.[0];
  if (text === undefined) return null;
  const seconds = parseDuration(/^\d+$/.test(text) ? `${text}d` : text, DAY_S, MAX_RETENTION_DAYS * DAY_S) ?? 0;
  if (seconds === 0 || seconds % DAY_S !== 0) {
    problems.push(`--${name}: give whole days from 1d to ${MAX_RETENTION_DAYS}d, such as 90d or 52w`);
  }
  return seconds / DAY_S;
}

const daysOf = (args: Args, problems: string[] = []): { trails: number | null; evidence: number | null } => ({
  trails: daysOption(args, "trails-after", problems),
  evidence: daysOption(args, "evidence-after", problems),
});

const reasonOf = ({ texts }: Args): string => (texts.get("reason")?.[0] ?? "").trim();

export const orgProblems = ({ texts }: Args): string[] => (texts.has("org") ? [] : ["--org: say which organization"]);

export const retentionSet: Command = {
  name: "retention set",
  summary: "Set how long trails and the files of their records are kept",
  usage: "--org NAME [--flow NAME] (--trails-after DURATION | --evidence-after DURATION | --keep) --data DIRECTORY",
  details: [
    "The rule of a flow stands in place of the one of its organization, as a whole. The time counts from the last thing that",
    "happened to a trail. A rule deletes nothing: see assay help retention.",
  ],
  options: {
    org: ORG,
    flow: FLOW,
    "trails-after": {
      kind: "text",
      placeholder: "DURATION",
      description: "Trails with everything on them may be deleted then; whole days, like 90d",
    },
    "evidence-after": {
      kind: "text",
      placeholder: "DURATION",
      description: "Files attached to records may be deleted then, like 30d; the records stay",
    },
    keep: { kind: "switch", description: "Keep everything, whatever the rule of the organization says" },
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  check(args) {
    const problems = orgProblems(args);
    const { trails, evidence } = daysOf(args, problems);
    const given = trails !== null || evidence !== null;
    if (given === args.switches.has("keep"))
      problems.push("give --trails-after, --evidence-after or both, or --keep alone");
    if (trails !== null && evidence !== null && trails > 0 && evidence >= trails) {
      problems.push("--evidence-after: files go before their trails, so give a shorter time than with --trails-after");
    }
    return problems;
  },
  async run(args, io) {
    const days = daysOf(args);
    const directory = await dataDirectory(args, io);
    const rule = withData(directory, (data) =>
      change(data, () => {
        const [scope, { rules }] = [scopeOf(data.store, args), retentionOf(data)];
        rules.set(scope, days);
        const found = rules
          .list()
          .find(
            (row) => row.organization_id === scope.organizationId && row.flow_id === scope.flowId,
          ) as RetentionRuleRow;
        operatorOf(data.store, "retention set").note(scope.organizationId, "retention.rule_set", placeOf(scope), {
          trails_after_days: days.trails,
          evidence_after_days: days.evidence,
        });
        return found;
      }),
    );
    if (args.switches.has("json")) io.stdout(`${JSON.stringify(presentRule(rule))}\n`);
    else io.stdout(`${oneLine(retentionRuleText(rule))}\nnothing is deleted before assay retention run\n`);
    return EXIT.done;
  },
};

export const retentionUnset: Command = {
  name: "retention unset",
  summary: "Remove a rule, so that nothing is deleted under it any more",
  usage: "--org NAME [--flow NAME] --data DIRECTORY",
  details: ["A flow without a rule of its own is under the rule of its organization."],
  options: { org: ORG, flow: FLOW, ...DATA_OPTIONS },
  takesConfig: false,
  check: (args) => orgProblems(args),
  async run(args, io) {
    const directory = await dataDirectory(args, io);
    const place = withData(directory, (data) =>
      change(data, () => {
        const scope = scopeOf(data.store, args);
        if (!retentionOf(data).rules.delete(scope))
          throw commandFailure(`there is no rule of ${placeOf(scope)}; assay retention list shows all`);
        operatorOf(data.store, "retention unset").note(
          scope.organizationId,
          "retention.rule_removed",
          placeOf(scope),
          {},
        );
        return placeOf(scope);
      }),
    );
    if (args.switches.has("json")) io.stdout(`${JSON.stringify({ removed: place })}\n`);
    else io.stdout(`removed the rule of ${oneLine(place)}\n`);
    return EXIT.done;
  },
};

export const retentionList: Command = {
  name: "retention list",
  summary: "List rules and legal holds",
  usage: "[--org NAME] [--all] --data DIRECTORY",
  options: {
    org: { kind: "text", placeholder: "NAME", description: "Only those of this organization" },
    all: { kind: "switch", description: "Holds that were released too" },
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  async run(args, io) {
    const directory = await dataDirectory(args, io);
    const { rules, holds } = withData(directory, (data) => {
      const only = args.texts.has("org") ? requireOrganization(data.store, args.texts.get("org")?.[0] ?? "").id : null;
      const within = ({ organization_id }: { organization_id: number }): boolean =>
        only === null || organization_id === only;
      const { rules: stored } = retentionOf(data);
      return {
        rules: stored.list().filter(within),
        holds: (args.switches.has("all") ? stored.listHolds() : stored.listActiveHolds()).filter(within),
      };
    });
    if (args.switches.has("json"))
      io.stdout(`${JSON.stringify({ rules: rules.map(presentRule), holds: holds.map(presentHold) })}\n`);
    else {
      io.stdout(
        tableText(["ORGANIZATION", "FLOW", "TRAILS", "FILES"], rules.map(ruleCells), "no rules: everything is kept"),
      );
      io.stdout("\n");
      const released = args.switches.has("all");
      const headers = ["HOLD", "ON", "SINCE", "BY", ...(released ? ["RELEASED", "RELEASED BY"] : []), "REASON"];
      io.stdout(
        tableText(
          headers,
          holds.map((hold) => holdCells(hold, released)),
          "no legal holds",
        ),
      );
    }
    return EXIT.done;
  },
};

export const retentionHold: Command = {
  name: "retention hold",
  summary: "Keep an organization, a flow or a trail from being deleted, whatever the rules say",
  usage: "--org NAME [--flow NAME [--trail NAME]] --reason TEXT [--by NAME] --data DIRECTORY",
  details: [
    "The hold is in force until assay retention release ends it. A run that is under way stops when a hold is placed.",
  ],
  options: {
    org: ORG,
    flow: FLOW,
    trail: { kind: "text", placeholder: "NAME", description: "A trail of the flow; needs --flow" },
    reason: { kind: "text", placeholder: "TEXT", description: "Why, for the history" },
    by: BY,
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  check(args) {
    const problems = orgProblems(args);
    const reason = reasonOf(args);
    if (reason === "" || reason.length > LONGEST_REASON)
      problems.push(`--reason: say why, in at most ${LONGEST_REASON} characters`);
    if (args.texts.has("trail") && !args.texts.has("flow"))
      problems.push("--trail: give --flow too, names of trails are those of a flow");
    return problems;
  },
  async run(args, io) {
    const reason = reasonOf(args);
    const directory = await dataDirectory(args, io);
    const hold = withData(directory, (data) =>
      change(data, () => {
        const [scope, { rules }] = [scopeOf(data.store, args), retentionOf(data)];
        const name = args.texts.get("trail")?.[0];
        const trail = name === undefined || scope.flow === null ? null : data.store.trails.find(scope.flow.id, name);
        if (name !== undefined && !trail)
          throw commandFailure(`${placeOf(scope)} has no trail ${JSON.stringify(name.slice(0, 100))}`);
        const publicId = rules.createHold(scope, trail, { reason, by: byOption(args) });
        operatorOf(data.store, "retention hold").note(scope.organizationId, "retention.hold_placed", publicId, {
          on: trail ? `${placeOf(scope)}/${trail.name}` : placeOf(scope),
          reason,
          by: byOption(args),
        });
        return rules.findHold(publicId) as LegalHoldRow;
      }),
    );
    if (args.switches.has("json")) io.stdout(`${JSON.stringify(presentHold(hold))}\n`);
    else io.stdout(`${oneLine(holdLine(hold))}\n`);
    return EXIT.done;
  },
};

export const retentionRelease: Command = {
  name: "retention release",
  summary: "End a legal hold",
  usage: "ID [--by NAME] --data DIRECTORY",
  details: ["ID is what assay retention list shows. The hold stays in the history (assay retention list --all)."],
  options: { by: BY, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: { least: 1, most: 1, names: ["ID"] },
  async run(args, io) {
    const id = args.positionals[0] ?? "";
    const directory = await dataDirectory(args, io);
    const hold = withData(directory, (data) =>
      change(data, () => {
        const { rules } = retentionOf(data);
        const found = rules.findHold(id);
        if (!found)
          throw commandFailure(`there is no hold ${JSON.stringify(id.slice(0, 100))}; assay retention list shows all`);
        if (!rules.releaseHold(found.id, byOption(args)))
          throw commandFailure(`the hold ${id} was released before, at ${shownTime(found.released_at ?? 0)}`);
        operatorOf(data.store, "retention release").note(found.organization_id, "retention.hold_released", id, {
          on: heldPlace(found),
          reason: found.reason,
          by: byOption(args),
        });
        return rules.findHold(id) as LegalHoldRow;
      }),
    );
    if (args.switches.has("json")) io.stdout(`${JSON.stringify(presentHold(hold))}\n`);
    else io.stdout(`${oneLine(holdLine(hold))}\n`);
    return EXIT.done;
  },
};

const byOption = (args: Args): string => args.texts.get("by")?.[0] ?? "operator";

const heldPlace = ({ organization_name, flow_name, trail_name }: LegalHoldRow): string =>
  [organization_name, flow_name, trail_name].filter((part) => part !== null).join("/");

function ruleCells({
  organization_name,
  flow_name,
  trails_after_days: trails,
  evidence_after_days: files,
}: RetentionRuleRow): string[] {
  const kept = (days: number | null): string => (days === null ? "for ever" : `${days}d`);
  // Files go with their trail.
  return [organization_name, flow_name ?? "-", kept(trails), kept(files ?? trails)];
}

function holdCells(hold: LegalHoldRow, released: boolean): string[] {
  const end = hold.released_at === null ? ["-", "-"] : [shownTime(hold.released_at), hold.released_by ?? "-"];
  return [
    hold.public_id,
    heldPlace(hold),
    shownTime(hold.placed_at),
    hold.placed_by,
    ...(released ? end : []),
    hold.reason,
  ];
}

function holdLine(hold: LegalHoldRow): string {
  const released = hold.released_at === null ? "" : `, released ${shownTime(hold.released_at)} by ${hold.released_by}`;
  return `hold ${hold.public_id} on ${heldPlace(hold)} since ${shownTime(hold.placed_at)} by ${hold.placed_by}${released}: ${hold.reason}`;
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
