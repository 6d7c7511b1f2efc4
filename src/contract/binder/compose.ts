/**
 * An audit binder: everything that an auditor asks about a control, an environment or a flow in a period. Figures and
 * the keys of lists are read first; the entries of each list are read while they are written, so that a binder of years
 * is never in memory as a whole. Compose and write one within one read transaction.
 */
import { JsonList } from "../../json/text.ts";
import { unlimitedAllowance, listAllowance } from "../large-json.ts";
import { presentOneByOne } from "../placeholders.ts";
import { presentEntries } from "../changes/present.ts";
import { gatherRuleChanges } from "../changes/gather.ts";
import type { DecisionRow } from "../../store/environments/history/binder-records.ts";
import { presentRunGap, presentTrailGap, runGaps } from "./gaps.ts";
import { presentAllowance, presentDecision, presentFile, presentTrail } from "./records.ts";
import { withoutOthers } from "./own-records.ts";
import { gatherReleases, presentRequirements } from "./releases.ts";
import type { Releases } from "./releases.ts";
import { gatherRules, presentRules } from "./rules.ts";
import type { InForce } from "./rules.ts";
import { openBinder } from "./scope.ts";
import type { Binder, BinderContext, BinderScope } from "./scope.ts";
import { FIGURES } from "./shapes.ts";
import type { AuditBinderValue, DecisionValue, Figure, FiguresValue, GapValue } from "./shapes.ts";
import { gatherVerdicts, presentVerdict } from "./verdicts.ts";
import type { Verdicts } from "./verdicts.ts";
import { summarize } from "./words.ts";

/** Changes that are presented at a time, because each kind of their details is one statement. */
const CHANGES_AT_A_TIME = 100;

/** A binder whose lists are JsonLists. */
type BinderDocument = Pick<AuditBinderValue, "subject" | "summary"> & { [Name in keyof AuditBinderValue]: unknown };

/** @param limit entries of each list; null for all */
export function composeBinder(
  context: BinderContext,
  scope: BinderScope,
  limit: number | null,
): { document: BinderDocument; policyVersions: number[] } {
  const binder = openBinder(context, scope);
  const { key } = binder;
  const { binderRecords } = context.store;
  const about = describeBinder(context, scope);
  const releases = gatherReleases(binder);
  const inForce = gatherRules(binder, releases.startedIn);
  const verdicts = scope.subject.kind === "environment" ? gatherVerdicts(binder, scope.subject.id) : null;
  const trails: Trails =
    scope.subject.kind === "flow"
      ? { all: binderRecords.listTrailIds(key), unfinished: binderRecords.listUnfinishedTrailIds(key) }
      : null;
  const allowances = binderRecords.listAllowanceIds(
    scope.subject.kind === "control" ? { ...key, environmentIds: [...inForce.environments] } : key,
  );
  const figures = countFigures(binder, { releases, verdicts, trails });
  const parts = { binder, limit };
  const document = {
    organization: context.organization.name,
    subject: about,
    from: scope.from,
    to: scope.to,
    summary: summarize({
      kind: about.kind,
      name: about.name,
      from: scope.from,
      to: scope.to,
      figures,
      allowances: allowances.length,
    }),
    figures,
    missing: missingPart(parts, { releases, trails, flow: about.name }),
    decisions: decisionPart(parts),
    verdicts: verdicts && listPart(verdicts.intervals, limit, (one) => presentVerdict(binder, about.name, one)),
    trails:
      trails && listPart(trails.all, limit, (id) => presentTrail(context, binderRecords.getTrail(id), about.name)),
    required: listPart(presentRequirements(binder, releases), limit, (row) => row),
    coverage: scope.subject.kind === "control" ? coverageOf(binder, inForce) : null,
    allowlist: listPart(allowances, limit, (id) => presentAllowance(context, binderRecords.getAllowance(id))),
    rules: {
      total: inForce.policies.length + inForce.control.length,
      items: new JsonList(take(presentRules(binder, inForce), limit)),
    },
    changes: changePart(parts, inForce),
    evidence: listPart(binderRecords.listFileKeys(key), limit, (file) =>
      presentFile(context, binderRecords.getFile(file)),
    ),
  };
  return { document, policyVersions: inForce.policies.map(({ id }) => id) };
}

type Parts = { binder: Binder; limit: number | null };
/** Ids of the trails, and of those that are not compliant. */
type Trails = { all: number[]; unfinished: number[] } | null;

export function describeBinder({ store, urls, organization }: BinderContext, { subject }: BinderScope) {
  const { name: org } = organization;
  switch (subject.kind) {
    case "control": {
      const { name: title, description, version } = store.controls.require(organization, subject.identifier);
      const html_url = urls.controlPage(org, subject.identifier);
      return { kind: subject.kind, name: subject.identifier, title, description, version, html_url };
    }
    case "environment": {
      const { name, description } = store.environments.get(subject.id);
      const html_url = urls.environmentPage(org, name);
      return { kind: subject.kind, name, title: name, description: description || null, version: null, html_url };
    }
    case "flow": {
      const { name, description } = store.flows.get(subject.id);
      const html_url = urls.flowPage(org, name);
      return { kind: subject.kind, name, title: name, description: description || null, version: null, html_url };
    }
  }
}

function countFigures(
  { context, key, scope }: Binder,
  { releases: found, verdicts, trails }: { releases: Releases; verdicts: Verdicts | null; trails: Trails },
): FiguresValue {
  const { binderRecords } = context.store;
  const decisions = binderRecords.countDecisions(key);
  const files = binderRecords.countFiles(key);
  const { releases, starts } = found;
  const counted: Partial<Record<Figure, number>> = {
    ...(scope.subject.kind === "control"
      ? {
          releases: releases.total,
          releases_with_decision: releases.satisfied,
          releases_allowed: releases.allowed,
          releases_without_decision: releases.total - releases.satisfied - releases.allowed,
        }
      : {
          starts: starts.total,
          starts_compliant: starts.compliant,
          starts_allowed: starts.allowed,
          starts_not_compliant: starts.total - starts.compliant - starts.allowed,
        }),
    decisions: decisions.total,
    approved: decisions.compliant,
    refused: decisions.total - decisions.compliant,
    ...(verdicts && {
      snapshots: verdicts.snapshots,
      seconds_compliant: verdicts.seconds.compliant,
      seconds_non_compliant: verdicts.seconds.nonCompliant,
      seconds_unknown: verdicts.seconds.unknown,
    }),
    ...(trails && {
      trails: trails.all.length,
      trails_compliant: trails.all.length - trails.unfinished.length,
      trails_not_compliant: trails.unfinished.length,
    }),
    evidence_files: files.total,
    evidence_bytes: files.bytes,
  };
  return Object.fromEntries(FIGURES.map((name) => [name, counted[name] ?? null])) as FiguresValue;
}

function missingPart(
  { binder, limit }: Parts,
  { releases, trails, flow }: { releases: Releases; trails: Trails; flow: string },
) {
  const { binders, binderRecords } = binder.context.store;
  if (trails === null) {
    if (binder.scope.subject.kind === "environment")
      return listPart(runGaps(binder), limit, (gap): GapValue => presentRunGap(binder, gap));
    // Ids rise with time, in all environments.
    const latestFirst = releases.gaps.sort((a, b) => b - a);
    return listPart(
      latestFirst,
      limit,
      (id): GapValue => presentRunGap(binder, { id, last: binders.getLastIndex(id) }),
    );
  }
  const present = (id: number): GapValue => presentTrailGap(binder, binderRecords.getTrail(id), flow);
  return listPart(trails.unfinished, limit, present);
}

function decisionPart({ binder: { context, key }, limit }: Parts) {
  const { binderRecords } = context.store;
  const ids = binderRecords.listDecisionIds(key);
  const allowance = context.answerBounds?.isForPage ? listAllowance(context) : unlimitedAllowance(context);
  function* rows(): Generator<DecisionRow> {
    for (const id of take(ids, limit)) yield binderRecords.getDecision(id);
  }
  const items = presentOneByOne(
    rows(),
    (row) => presentDecision(context, row, allowance),
    (row, reason): DecisionValue => ({
      ...presentDecision(context, { ...row, description: null }, unlimitedAllowance(context)),
      reason,
    }),
  );
  return { total: ids.length, items: new JsonList(items) };
}

function coverageOf({ places, scope }: Binder, { environments }: InForce) {
  const shown = places.filter(({ id, archived_at: at }) => environments.has(id) || at === null || at >= scope.from);
  return {
    required_in: shown.filter(({ id }) => environments.has(id)).map(({ name }) => name),
    not_required_in: shown.filter(({ id }) => !environments.has(id)).map(({ name }) => name),
  };
}

function changePart({ binder, limit }: Parts, { environments, policies }: InForce) {
  const { context, scope } = binder;
  const { from, to, now, seesPeople } = scope;
  const gathered = gatherRuleChanges(context, {
    from,
    to,
    now,
    seesPeople,
    environmentIds: environments,
    policies: new Set(policies.map(({ name }) => name)),
  });
  const { since, peopleSince } = gathered;
  const changes = withoutOthers(binder, gathered.changes);
  function* items() {
    const shown = limit === null ? changes : changes.slice(0, limit);
    for (let at = 0; at < shown.length; at += CHANGES_AT_A_TIME)
      yield* presentEntries(context, shown.slice(at, at + CHANGES_AT_A_TIME), []);
  }
  return { since, people_since: peopleSince, total: changes.length, items: new JsonList(items()) };
}

/** A list of which each entry is presented when it is written. */
const listPart = <Row, Item>(rows: readonly Row[], limit: number | null, present: (row: Row) => Item) => ({
  total: rows.length,
  items: JsonList.from(take(rows, limit), present),
});

function* take<Row>(rows: Iterable<Row>, limit: number | null): Generator<Row> {
  let left = limit ?? Infinity;
  if (left <= 0) return;
  for (const row of rows) {
    yield row;
    left -= 1;
    if (left <= 0) return;
  }
}
