/**
 * What a change would turn, before the button that makes it: the panel of every form that changes a rule. It is made by
 * the server, of an answer of `preview_change`; without one, the form still works and says why it is blind.
 */
import { SEPARATOR, causeSentence } from "./causes.ts";
import { previewChange } from "../../api/policies/change-preview.ts";
import { AppError } from "../../errors.ts";
import type { AnswerOf, CallInput } from "../../http/in-process.ts";
import { html } from "../html.ts";
import type { Html, Value } from "../html.ts";
import type { Fields } from "../page/fields.ts";
import { inWords } from "../page/field-words.ts";
import type { Visit } from "../page/page.ts";
import { hiddenField } from "./forms.ts";
import { icon } from "./icon.ts";
import { table } from "./layout.ts";
import { formatNumber, plainState, stateOf } from "./state.ts";

type Answer = AnswerOf<typeof previewChange>;
type Environment = Answer["environments"][number];
type Artifact = Environment["flips"][number];
type Cause = Artifact["causes"][number];

/** The answer, or in words why there is none; `isRefused` where the change itself would be refused, too. */
export type Preview = Answer | { failed: string; isRefused: boolean };

/** Environments that are shown, and artifacts of each. */
const MAX_ENVIRONMENTS = 20;
const MAX_ARTIFACTS = 20;
const MAX_CAUSES = 3;

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

/** How many artifacts would turn, in all environments; null where that could not be computed. */
function countsOf(preview: Preview): ImpactCounts | null {
  if ("failed" in preview) return null;
  const sum = (of: (environment: Environment) => number): number =>
    preview.environments.reduce((total, environment) => total + of(environment), 0);
  return {
    fail: sum(({ would_fail }) => would_fail),
    pass: sum(({ would_pass }) => would_pass),
    unknown: sum(({ would_be_unknown }) => would_be_unknown),
  };
}

/** Whether a change is known to turn nothing. */
export const turnsNothing = (preview: Preview): boolean =>
  !("failed" in preview) &&
  preview.stopped === null &&
  preview.environments.every(({ flips, unknown }) => flips.length === 0 && unknown === 0);

/** The text of the button, with the consequence: `Attach, 3 will fail`. */
export function submitText(verb: string, preview: Preview): string {
  const counts = countsOf(preview);
  if (counts === null) return `${verb} without a preview`;
  const { fail, pass, unknown } = counts;
  if (fail > 0) return `${verb}, ${formatNumber(fail)} will fail`;
  if (unknown > 0) return `${verb}, ${formatNumber(unknown)} will be unknown`;
  return pass > 0 ? `${verb}, ${formatNumber(pass)} will pass` : verb;
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
      : html`${figuresOf(preview)}${impactOf(visit, preview)}`
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
  const [first] = environments;
  if (environments.length > 1) return `evaluated against the latest snapshots of ${environments.length} environments`;
  return first === undefined || first.snapshot === 0 ? null : `evaluated against snapshot #${first.snapshot}`;
}

/** A verdict before and after. @param word in place of that of the latter */
export const flip = (before: string, after: string, word?: string): Html =>
  html`<div class="flip">${plainState(stateOf(before))}${icon("arrow-right")}${plainState(stateOf(after), word)}</div>`;

/** What would become of the one environment or the trail, and how many artifacts would turn. */
function figuresOf(preview: Answer): Html {
  const { environments, trail } = preview;
  const { fail, pass, unknown } = countsOf(preview) as ImpactCounts;
  const [first] = environments;
  const whole =
    trail !== null
      ? html`<div><dt>Trail</dt><dd>${turned(trail)}</dd></div>`
      : environments.length === 1 && first
        ? html`<div><dt>Environment</dt><dd>${turned(first)}</dd></div>`
        : html`<div><dt>Environments</dt><dd><span class="fig">${formatNumber(environments.length)}</span></dd></div>`;
  const figure = (label: string, value: number, look: string): Html =>
    html`<div><dt>${label}</dt><dd><span class="fig ${value > 0 && look}">${formatNumber(value)}</span></dd></div>`;
  return html`<dl class="figures figures-impact">${whole}${figure("Would fail", fail, "bad")}${figure(
    "Would pass",
    pass,
    "ok",
  )}${unknown > 0 && figure("Would be unknown", unknown, "")}</dl>`;
}

const turned = ({ before, after }: { before: string; after: string }): Html =>
  before === after ? html`<div class="flip">${plainState(stateOf(after))}</div>` : flip(before, after);

/** The artifacts that would turn, and what was not looked at. */
function impactOf(visit: Visit, { environments, stopped }: Answer): Html {
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
    stopped !== null && stopText(stopped),
  ].filter((note) => note !== false);
  return html`${
    rows.length > 0 && table({ caption: "Artifacts whose verdict would change", columns, rows, hasGroups: true })
  }${notes.length > 0 && html`<p class="impact-n">${notes.map((note) => html`${note} `)}</p>`}`;
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

function groupOf({ to }: Visit, environment: Environment, isNamed: boolean): Html {
  const { environment: name, snapshot, flips, would_fail, would_pass, would_be_unknown } = environment;
  const shown = flips.slice(0, MAX_ARTIFACTS);
  const rest = would_fail + would_pass + would_be_unknown - shown.length;
  const head =
    isNamed &&
    html`<tr class="group"><th colspan="3" scope="colgroup"><div class="row"><a class="name" href="${to.environment(
      name,
    )}"><bdi>${name}</bdi></a>${turned(environment)}</div></th></tr>`;
  const more =
    rest > 0 &&
    html`<tr><td class="full" colspan="3"><span class="muted">and ${formatNumber(rest)} more</span></td></tr>`;
  const rows = shown.map((artifact) =>
    artifactRow(artifact, artifact.fingerprint === "" ? null : to.whyArtifact(name, snapshot, artifact.fingerprint)),
  );
  return html`<tbody>${head}${rows}${more}</tbody>`;
}

function artifactRow(artifact: Artifact, href: string | null): Html {
  const { name, before, after, causes } = artifact;
  const word = { COMPLIANT: "Would pass", "NON-COMPLIANT": "Would fail", UNKNOWN: "Unknown" }[after];
  const [cause] = causes;
  const place = cause?.kind === "no_provenance" ? "no flow" : [cause?.flow, cause?.trail].filter(Boolean).join(" · ");
  const label = html`<bdi>${name}</bdi>`;
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
