/**
 * What a change would turn, before the button that makes it: the panel of every form that changes a rule. It is made by
 * the server, of an answer of `preview_change`; without one, the form still works and says why it is blind.
 */
import { SEPARATOR, causeSentence, causesLine } from "./causes.ts";
import { previewChange } from "../../api/policies/change-preview.ts";
import { AppError } from "../../errors.ts";
import type { AnswerOf, CallInput } from "../../http/in-process.ts";
import { html } from "../html.ts";
import type { Html, Value } from "../html.ts";
import type { Fields } from "../page/fields.ts";
import { inWords } from "../page/field-words.ts";
import type { Visit } from "../page/page.ts";
import { hiddenField } from "./forms.ts";
import { artifactName } from "./identifier.ts";
import { icon } from "./icon.ts";
import { groupNotes, groupTable } from "./impact/groups.ts";
import { table } from "./layout.ts";
import { flip, formatNumber, plainState, plural, stateOf, turned } from "./state.ts";

type Answer = AnswerOf<typeof previewChange>;
type Environment = Answer["environments"][number];
type Artifact = Environment["flips"][number];
type LogicalEnvironment = Answer["logical_environments"][number];
type Member = LogicalEnvironment["deciding"][number];
type Cause = Artifact["causes"][number];

/** The answer, or in words why there is none; `isRefused` where the change itself would be refused, too. */
export type Preview = Answer | { failed: string; isRefused: boolean };

/** Environments that are shown, and artifacts of each. */
const MAX_ENVIRONMENTS = 20;
const MAX_ARTIFACTS = 20;
const MAX_CAUSES = 3;
const LOGICAL = "logical environment";

/** Asks what a change would turn. A refusal is part of the panel: the form below it will say the same. */
export async function askPreview(
  { call }: Visit,
  body: NonNullable<CallInput<typeof previewChange>["body"]>,
): Promise<Preview> {
  try {
    return await call(previewChange, { body });
  } catch (error) {
    if (!(error instanceof AppError) || error.code === "internal") throw error;
    const failed =
      Object.values(error.fields ?? {})
        .map(inWords)
        .join(" ") || error.message;
    return { failed, isRefused: error.code !== "unavailable" && error.code !== "too_large" };
  }
}

/** The name under which an artifact runs whose verdict would change; null where none would. */
export const runningName = (preview: Preview | null, fingerprint: string): string | null =>
  preview === null || "failed" in preview
    ? null
    : (preview.environments.flatMap(({ flips }) => flips).find((flip) => flip.fingerprint === fingerprint)?.name ??
      null);

type ImpactCounts = { fail: number; pass: number; unknown: number };

/** Whether a change is about members: nothing is evaluated then, and logical environments are all that turns. */
const isAboutMembers = ({ environments, logical_environments: groups }: Answer): boolean =>
  environments.length === 0 && groups.length > 0;

/** How many artifacts would turn, in all environments, or how many logical ones; null where that is not known. */
function countsOf(preview: Preview): ImpactCounts | null {
  if ("failed" in preview) return null;
  const { environments } = preview;
  const groups = isAboutMembers(preview) ? preview.logical_environments : [];
  const sum = (of: (environment: Environment) => number, verdict: LogicalEnvironment["after"]): number =>
    environments.reduce((total, environment) => total + of(environment), 0) +
    groups.filter(({ before, after }) => before !== after && after === verdict).length;
  return {
    fail: sum(({ would_fail }) => would_fail, "NON-COMPLIANT"),
    pass: sum(({ would_pass }) => would_pass, "COMPLIANT"),
    unknown: sum(({ would_be_unknown }) => would_be_unknown, "UNKNOWN"),
  };
}

/** Whether a change is known to turn nothing. */
export const turnsNothing = (preview: Preview): boolean =>
  !("failed" in preview) &&
  preview.stopped === null &&
  preview.environments.every(({ flips, unknown }) => flips.length === 0 && unknown === 0) &&
  preview.logical_environments.every(({ before, after }) => before === after);

/** The text of the button, with the consequence: `Attach, 3 will fail`. */
export function submitText(verb: string, preview: Preview): string {
  const counts = countsOf(preview);
  if (counts === null || "failed" in preview) return `${verb} without a preview`;
  const isLogical = isAboutMembers(preview);
  const count = (number: number): string => (isLogical ? plural(number, LOGICAL) : formatNumber(number));
  const { fail, pass, unknown } = counts;
  if (fail > 0) return `${verb}, ${count(fail)} will fail`;
  if (unknown > 0) return `${verb}, ${count(unknown)} will be unknown`;
  return pass > 0 ? `${verb}, ${count(pass)} will pass` : verb;
}

type PanelOptions = {
  /** Id of its heading, unique in the page. */
  id: string;
  /** `If you attach prod-baseline to edge-eu`. */
  title: Value;
  preview: Preview;
  /** The buttons of the form. */
  buttons: Html;
  /** What else follows from the change, beside the buttons. */
  note?: Value;
};

export function impactPanel(visit: Visit, { id, title, preview, buttons, note }: PanelOptions): Html {
  const basis = basisOf(preview);
  return html`<div class="impact" role="group" aria-labelledby="${id}"><div class="impact-h"><h3
id="${id}">${title}</h3><span class="sub">${basis !== null && html`${basis}, `}nothing saved yet</span></div>${
    "failed" in preview
      ? html`<p class="impact-n">${icon("alert")} What would change is not known. ${preview.failed}</p>`
      : html`${figuresOf(visit, preview)}${impactOf(visit, preview)}`
  }<div class="impact-f">${buttons}${note && html`<span class="right">${note}</span>`}</div></div>`;
}

/**
 * What the panel above a button was about. A form that was changed after it shows the panel again, in place of making
 * a change that it did not show (`isUnseen`).
 */
export const seenField = (about: string): Html => hiddenField("seen", about);

/** Whether a form was submitted from a page whose panel was about something else, or that had none yet. */
export const isUnseen = (fields: Fields, about: string): boolean =>
  fields.entries().some(([name]) => name === "seen") && fields.text("seen") !== about;

/** `evaluated against snapshot #31`. */
function basisOf(preview: Preview): string | null {
  if ("failed" in preview) return null;
  const { environments } = preview;
  if (isAboutMembers(preview)) return "by the verdicts that members have now";
  const [first] = environments;
  if (environments.length > 1) return `evaluated against the latest snapshots of ${environments.length} environments`;
  return first === undefined || first.snapshot === 0 ? null : `evaluated against snapshot #${first.snapshot}`;
}

/** What would become of the one environment or the trail, and how many artifacts would turn. */
function figuresOf({ to }: Visit, preview: Answer): Html {
  const { environments, logical_environments: groups, trail } = preview;
  const { fail, pass, unknown } = countsOf(preview) as ImpactCounts;
  const figure = (label: string, value: number, look: string): Html =>
    html`<div><dt>${label}</dt><dd><span class="fig ${value > 0 && look}">${formatNumber(value)}</span></dd></div>`;
  const [group] = groups;
  const isLogical = isAboutMembers(preview);
  if (isLogical && groups.length === 1 && group)
    return html`<dl class="figures figures-impact"><div><dt>Logical environment <a href="${to.environment(
      group.environment,
    )}"><bdi>${group.environment}</bdi></a></dt><dd>${turned(
      group,
    )}</dd></div>${figure("Members then", group.members, "")}</dl>`;
  const [first] = environments;
  const whole =
    trail !== null
      ? html`<div><dt>Trail</dt><dd>${turned(trail)}</dd></div>`
      : environments.length === 1 && first
        ? html`<div><dt>Environment</dt><dd>${turned(first)}</dd></div>`
        : isLogical
          ? figure("Logical environments", groups.length, "")
          : figure("Environments", environments.length, "");
  return html`<dl class="figures figures-impact">${whole}${figure("Would fail", fail, "bad")}${figure(
    "Would pass",
    pass,
    "ok",
  )}${unknown > 0 && figure("Would be unknown", unknown, "")}</dl>`;
}

/** The artifacts that would turn, and what was not looked at. */
function impactOf(visit: Visit, preview: Answer): Html {
  const { environments, logical_environments: groups, stopped } = preview;
  if (isAboutMembers(preview)) return logicalImpactOf(visit, groups, stopped);
  const turning = environments.filter(({ flips }) => flips.length > 0);
  const shown = turning.slice(0, MAX_ENVIRONMENTS);
  const left = turning.length - shown.length;
  const quiet = environments.length - turning.length;
  const columns = [{ text: "Artifact" }, { text: "Verdict", className: "w-flip" }, { text: "Why" }];
  const rows = shown.map((environment) => groupOf(visit, environment, environments.length > 1));
  const notes = [
    shown.length === 0 && nothingTurns(environments),
    left > 0 && `${formatNumber(left)} more environments would change.`,
    shown.length > 0 && quiet > 0 && quietText(quiet),
    ...environments.flatMap((environment) => environmentNotes(environment)),
    ...groupNotes(groups),
    stopped !== null && stopText(stopped),
  ].filter((note) => note !== false);
  return html`${
    rows.length > 0 && table({ caption: "Artifacts whose verdict would change", columns, rows, hasGroups: true })
  }${groupTable(visit, groups)}${
    notes.length > 0 && html`<p class="impact-n">${notes.map((note) => html`${note} `)}</p>`
  }`;
}

const quietText = (quiet: number): string =>
  quiet === 1 ? "1 other environment stays as it is." : `${formatNumber(quiet)} other environments stay as they are.`;

function nothingTurns(environments: readonly Environment[]): Value {
  const [first] = environments;
  if (first === undefined) return "No running artifact is concerned, so no verdict changes.";
  if (environments.length > 1) return "All running artifacts keep their verdicts.";
  if (first.snapshot === 0)
    return html`Nothing was reported to <b><bdi>${first.environment}</bdi></b> yet, so no verdict changes.`;
  if (first.artifacts === 0) return "Nothing runs there, so no verdict of an artifact changes.";
  return first.artifacts === 1
    ? "The artifact that runs there keeps its verdict."
    : `All ${formatNumber(first.artifacts)} artifacts that run there keep their verdicts.`;
}

/** What the counts of an environment do not say. */
export function environmentNotes({
  kept_by_allowlist: kept,
  unknown,
  stale,
}: Pick<Environment, "kept_by_allowlist" | "unknown" | "stale">): string[] {
  const count = (number: number): string => (number === 1 ? "1 artifact" : `${formatNumber(number)} artifacts`);
  return [
    kept > 0 && `The allowlist keeps ${count(kept)} compliant.`,
    unknown > 0 && `${count(unknown)} cannot be evaluated.`,
    stale > 0 &&
      `${count(stale)} ${stale === 1 ? "has" : "have"} new evidence since the last snapshot. The next snapshot ` +
        "counts it with or without this change.",
  ].filter((note) => note !== false);
}

/** What a preview did not look at. */
export function stopText({ reason, environments_left, artifacts_left }: NonNullable<Answer["stopped"]>): string {
  const why = {
    environments: "There are more environments than one preview evaluates.",
    artifacts: "There are more artifacts than one preview evaluates.",
    time: "The preview took too long and stopped.",
  }[reason];
  return `${why} Left out: ${formatNumber(environments_left)} environments, ${formatNumber(artifacts_left)} artifacts.`;
}

function groupOf(visit: Visit, environment: Environment, isNamed: boolean): Html {
  const { environment: name, snapshot, flips, would_fail, would_pass, would_be_unknown } = environment;
  const shown = flips.slice(0, MAX_ARTIFACTS);
  const rest = would_fail + would_pass + would_be_unknown - shown.length;
  const rows = shown.map((artifact) =>
    artifactRow(
      artifact,
      artifact.fingerprint === "" ? null : visit.to.whyArtifact(name, snapshot, artifact.fingerprint),
    ),
  );
  return html`<tbody>${isNamed && headRow(visit, environment)}${rows}${moreRow(rest)}</tbody>`;
}

const headRow = ({ to }: Visit, environment: Pick<Environment, "environment" | "before" | "after">): Html =>
  html`<tr class="group"><th colspan="3" scope="colgroup"><div class="row"><a class="name" href="${to.environment(
    environment.environment,
  )}"><bdi>${environment.environment}</bdi></a>${turned(environment)}</div></th></tr>`;

const moreRow = (rest: number): Value =>
  rest > 0 &&
  html`<tr><td class="full" colspan="3"><span class="muted">and ${formatNumber(rest)} more</span></td></tr>`;

/** The logical environments that would turn, or the only one, with the members that decide. */
function logicalImpactOf(visit: Visit, groups: readonly LogicalEnvironment[], stopped: Answer["stopped"]): Html {
  const isOne = groups.length === 1;
  const turning = groups.filter(({ before, after }) => isOne || before !== after);
  const shown = turning.slice(0, MAX_ENVIRONMENTS);
  const left = turning.length - shown.length;
  const quiet = groups.length - turning.length;
  const rows = shown.map((group) => decidingRows(visit, group, !isOne)).filter((row) => row !== null);
  const notes = [
    ...(isOne ? groups.map((group) => agreeText(group)) : []),
    left > 0 && `${plural(left, `more ${LOGICAL}`)} would change.`,
    quiet > 0 && `${plural(quiet, LOGICAL)} ${quiet === 1 ? "keeps its verdict" : "keep their verdicts"}.`,
    stopped !== null && stopText(stopped),
  ].filter((note) => note !== false);
  const columns = [{ text: "Member" }, { text: "Verdict", className: "w-flip" }, { text: "Why" }];
  return html`${rows.length > 0 && table({ caption: "Members that decide", columns, rows, hasGroups: true })}${
    notes.length > 0 && html`<p class="impact-n">${notes.map((note) => html`${note} `)}</p>`
  }`;
}

/** What no row says: that no member decides against the others. */
function agreeText({ after, members }: LogicalEnvironment): string | false {
  if (members === 0) return "Without members nothing is known, which is never compliant.";
  if (after !== "COMPLIANT") return false;
  return members === 1 ? "Its only member is compliant." : `All ${formatNumber(members)} members are compliant.`;
}

/** The members that kept a logical environment from a better verdict and leave it, and those that decide then. */
function decidingRows(visit: Visit, group: LogicalEnvironment, isNamed: boolean): Html | null {
  const { before, after } = group;
  const isBetter = before !== after && (before === "NON-COMPLIANT" || after === "COMPLIANT");
  const leaving = isBetter ? group.deciding_before : [];
  const deciding = after === "COMPLIANT" ? [] : group.deciding;
  if (leaving.length + deciding.length === 0 && !isNamed) return null;
  const text = isNamed && agreeText(group);
  return html`<tbody>${isNamed && headRow(visit, group)}${
    text && html`<tr><td class="full" colspan="3"><span class="muted">${text}</span></td></tr>`
  }${leaving.map((member) =>
    memberRow(visit, member, html`<span class="muted">no longer a member</span>`),
  )}${isBetter && moreRow(group.further_deciding_before)}${deciding.map((member) =>
    memberRow(visit, member, whyMember(member)),
  )}${after !== "COMPLIANT" && moreRow(group.further_deciding)}</tbody>`;
}

const memberRow = ({ to }: Visit, { environment, verdict }: Member, why: Value): Html =>
  html`<tr><td class="lead"><div class="name-cell">${icon("server")}<div><a class="t-name" href="${to.environment(
    environment,
  )}"><bdi>${environment}</bdi></a></div></div></td><td>${plainState(stateOf(verdict))}</td><td
class="fill">${why}</td></tr>`;

function whyMember(member: Member): Value {
  if (member.verdict === "UNKNOWN")
    return html`<span class="muted">${
      member.snapshot === 0 ? "nothing was reported to it yet" : "no policy decides about it"
    }</span>`;
  return causesLine(member);
}

function artifactRow(artifact: Artifact, href: string | null): Html {
  const { name, before, after, causes, flow, trail } = artifact;
  const word = { COMPLIANT: "Would pass", "NON-COMPLIANT": "Would fail", UNKNOWN: "Unknown" }[after];
  const [cause] = causes;
  // Of an artifact of several flows, a cause says which fails.
  const of = cause?.flow ? cause : { flow, trail };
  const place = of.flow === null ? "no flow" : [of.flow, of.trail].filter(Boolean).join(" · ");
  const label = artifactName(name);
  const title =
    href === null ? html`<span class="t-name">${label}</span>` : html`<a class="t-name" href="${href}">${label}</a>`;
  return html`<tr><td class="lead"><div class="name-cell">${icon("package")}<div>${title}${
    place !== "" && html`<div class="sub"><bdi class="cut">${place}</bdi></div>`
  }</div></div></td><td>${flip(before, after, word)}</td><td class="fill">${whyOf(artifact)}</td></tr>`;
}

function whyOf({ after, allowed, causes, reasons, reasons_before: before }: Artifact): Value {
  if (after === "UNKNOWN") return html`<span class="muted">no policy is left to decide</span>`;
  if (after === "COMPLIANT") {
    if (!allowed)
      return html`<span class="muted">${before.length > 0 ? "nothing fails any more" : "all rules hold"}</span>`;
    return html`<div class="muted">accepted by the allowlist</div>${causeLines(causes)}`;
  }
  const [reason] = reasons;
  return causes.length > 0 ? causeLines(causes) : reason?.text;
}

/** What decides, a line each, the name first. */
function causeLines(causes: readonly Cause[]): Html {
  const rest = causes.length - MAX_CAUSES;
  return html`${causes.slice(0, MAX_CAUSES).map((cause) => causeLine(cause))}${
    rest > 0 && html`<div class="muted">and ${formatNumber(rest)} more</div>`
  }`;
}

/** `snyk-container is missing · prod-baseline v7`; for a rule of the text in the editor `· line 13`. */
export const causeLine = (cause: Cause): Html => {
  const place = placeOf(cause);
  const after = place && html`${SEPARATOR}<span class="muted whole">${place}</span>`;
  return html`<div>${causeSentence(cause)}${after}</div>`;
};

/** Only the previewed text has columns: lines of other texts are not on the page. */
function placeOf({ policy, version, line, column }: Cause): Html | null {
  if (column !== null) return html`<span data-line="${line}">line ${line}</span>`;
  return policy === "" ? null : html`<bdi>${policy}</bdi>${version !== null && ` v${version}`}`;
}

/** What follows for pipelines; nothing where all pass. */
export const assertNote = (preview: Preview, environment: string): Value =>
  (countsOf(preview)?.fail ?? 0) > 0 &&
  html`Pipelines that <code>assert</code> them against <bdi>${environment}</bdi> would be refused.`;
