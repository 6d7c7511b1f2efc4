/** What a draft of a policy would change, as a preview of it says: counts, and each verdict before and after. */
import type { previewPolicy } from "../../../api/policies/policy-preview.ts";
import type { SourceProblem } from "../../../errors.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { draftDiff } from "../../components/diff.ts";
import type { Draft } from "../../components/diff.ts";
import { editorResult, previewButton, warningList } from "../../components/editor.ts";
import { icon } from "../../components/icon.ts";
import { causeLine, environmentNotes, stopText } from "../../components/impact.ts";
import { card, figures, padded } from "../../components/layout.ts";
import { formatNumber, plainState, stateOf } from "../../components/state.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import type { Visit } from "../../page/page.ts";

export type PreviewAnswer = AnswerOf<typeof previewPolicy>;
type Environment = PreviewAnswer["environments"][number];
type Flip = Environment["flips"][number];

/** Environments that are shown one by one, and artifacts of each. */
const MAX_ENVIRONMENTS = 20;
const MAX_FLIPS = 20;
const MAX_REASONS = 3;

/** Before a draft was checked. @param users how many environments use the policy; null for a new one */
export function noImpact(users: number | null): Html {
  const where =
    users === null
      ? "A preview shows which running artifacts would fail in the environments that you name."
      : users === 0
        ? "No environment uses the policy, so a new version changes no verdict."
        : `A preview shows which running artifacts would get another verdict in the ${
            users === 1 ? "environment that uses" : `${formatNumber(users)} environments that use`
          } the policy.`;
  return editorResult(impactCard("Preview", padded(html`<p class="muted">${where} Nothing is stored.</p>`)));
}

/** After a draft was checked. @param draft null for a new policy, which replaces nothing */
export function impact(visit: Visit, preview: PreviewAnswer, draft: Draft | null): Html {
  const body = preview.valid ? validDraft(visit, preview) : padded(invalidDraft(preview.problems));
  return editorResult(html`${impactCard("Run again", body)}${draft && draftDiff(draft)}`, preview);
}

const impactCard = (button: string, body: Value): Html =>
  card({
    id: "h-impact",
    title: "What would change",
    more: html`<span class="right">${previewButton(button, "small")}</span>`,
    body,
  });

const notice = (look: "why-wait" | "why-none", text: Value): Html =>
  html`<div class="why ${look}">${icon(look === "why-wait" ? "alert" : "info")}
<div data-draft-note>${text}</div></div>`;

const invalidDraft = (problems: readonly SourceProblem[]): Html =>
  notice(
    "why-wait",
    `The draft has ${problems.length === 1 ? "an error" : `${problems.length} errors`}, so nothing was computed. ` +
      "Nothing is stored.",
  );

function validDraft(visit: Visit, { environments, stopped, warnings }: PreviewAnswer): Html {
  const sum = (of: (environment: Environment) => number): number =>
    environments.reduce((total, environment) => total + of(environment), 0);
  const [fails, passes] = [sum(({ would_fail }) => would_fail), sum(({ would_pass }) => would_pass)];
  const shown = environments.slice(0, MAX_ENVIRONMENTS);
  const rest = environments.length - shown.length;
  const counts = figures([
    { label: "Would fail", value: formatNumber(fails), state: fails > 0 ? "bad" : "" },
    { label: "Would pass", value: formatNumber(passes), state: passes > 0 ? "ok" : "" },
    { label: "Unchanged", value: formatNumber(sum(({ unchanged }) => unchanged)) },
  ]);
  const none =
    environments.length === 0 &&
    html`<p class="gap-t muted">The text is valid. It was evaluated in no environment, because none uses the
policy.</p>`;
  return html`${padded(
    html`${notice("why-none", "Computed from this draft. Nothing is stored.")}${warningList(warnings)}${
      stopped && html`<p class="gap-t2 sub">${stopText(stopped)}</p>`
    }<div class="gap-t">${counts}</div>${none}`,
  )}${shown.map((environment) => environmentImpact(visit, environment))}${
    rest > 0 && html`<div class="card-f">${formatNumber(rest)} more environments are not shown.</div>`
  }`;
}

function environmentImpact({ to }: Visit, environment: Environment): Html {
  const { environment: name, artifacts, would_fail, would_pass, flips, snapshot } = environment;
  const parts = [
    would_fail > 0 && `${formatNumber(would_fail)} would fail`,
    would_pass > 0 && `${formatNumber(would_pass)} would pass`,
  ].filter((part) => part !== false);
  const shown = flips.slice(0, MAX_FLIPS);
  const rest = would_fail + would_pass - shown.length;
  const rows = shown.map((flip) => flipRow(to.whyArtifact(name, snapshot, flip.fingerprint), flip));
  const notes = [...(rest > 0 ? [`${formatNumber(rest)} more.`] : []), ...environmentNotes(environment)];
  return html`<div class="card-h"><h3><a class="name" href="${to.environment(name)}"><bdi>${name}</bdi></a></h3>
<span class="sub">${formatNumber(artifacts)} running</span>
<span class="right sub">${parts.length === 0 ? "no change" : parts.join(", ")}</span></div>${
    rows.length > 0 && html`<ul class="rows">${rows}</ul>`
  }${notes.length > 0 && html`<div class="card-f">${notes.join(" ")}</div>`}`;
}

function flipRow(href: string, { name, before, after, causes, reasons_before }: Flip): Html {
  const was =
    after === "COMPLIANT" ? reasons_before.map((text) => html`<div class="sub">until now: ${text}</div>`) : [];
  const all = [...causes.map((cause) => html`<div class="sub">${causeLine(cause)}</div>`), ...was];
  const more = all.length - MAX_REASONS;
  return html`<li><div class="grow"><a class="name" href="${href}"><bdi>${name}</bdi></a>
<div class="flip">${plainState(stateOf(before))}${icon("arrow-right")}${plainState(stateOf(after))}</div>
${all.slice(0, MAX_REASONS)}${more > 0 && html`<div class="sub">and ${more} more</div>`}</div></li>`;
}
