/** "What would make it compliant": the steps, each with the action or the command that takes it. */
import { allowArtifact } from "../../../api/environments/allowlists.ts";
import { putPolicy } from "../../../api/policies/policies.ts";
import { icon } from "../../components/icon.ts";
import { fingerprint as shownFingerprint } from "../../components/identifier.ts";
import { card, snippet } from "../../components/layout.ts";
import { count } from "../../components/state.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { overrideLink } from "./causes.ts";
import { commandFor } from "../../../domain/compliance/remedy-commands.ts";
import type { Remedy } from "./explained.ts";

/** Steps that are shown. */
const MAX_STEPS = 20;

/** One thing to do, or to override instead. */
type Step = { remedy: Remedy; override: Remedy | null };

/** Where a remedy can be taken. */
type Target = {
  /** Name of the artifact; null for a trail. */
  image: string | null;
  /** The snapshot whose page has the form of the allowlist; null where there is none. */
  allow: { environment: string; index: number; fingerprint: string } | null;
};

/** null without anything to do. @param title the heading of the card */
export function remediesCard(
  visit: Visit,
  remedies: readonly Remedy[],
  { title = "What would make it compliant", image, allow }: Target & { title?: string },
): Html | null {
  const steps = stepsOf(remedies);
  const mayAllow = allow !== null && remedies.some(({ kind }) => kind === "allowlist");
  if (steps.length === 0 && !mayAllow) return null;
  const rest = steps.length - MAX_STEPS;
  const items = steps.slice(0, MAX_STEPS).map((step, index) => stepItem(visit, step, { number: index + 1, image }));
  const more = rest > 0 && html`<li><div class="grow muted">${rest} more steps are in the JSON.</div></li>`;
  return card({
    id: "h-remedies",
    title,
    body: html`<ol class="rows">${items}${more}${mayAllow && allowItem(visit, allow, steps.length > 0)}</ol>`,
  });
}

/** Each remedy once. What is said in parts is not said as a whole, and an override belongs to what it overrides. */
function stepsOf(remedies: readonly Remedy[]): Step[] {
  const unique = [...new Map(remedies.map((remedy) => [`${remedy.kind} ${remedy.words}`, remedy])).values()];
  const isPart = ({ kind, flow, trail }: Remedy, whole: Remedy): boolean =>
    kind !== "make_trail_compliant" && kind !== "allowlist" && flow === whole.flow && trail === whole.trail;
  const steps: Step[] = [];
  for (const remedy of unique) {
    const { kind, attestation_id: id } = remedy;
    if (kind === "allowlist") continue;
    if (kind === "make_trail_compliant" && unique.some((other) => isPart(other, remedy))) continue;
    const overridden = kind === "override_attestation" && steps.find((step) => step.remedy.attestation_id === id);
    if (overridden) overridden.override = remedy;
    else steps.push({ remedy, override: null });
  }
  return steps;
}

function stepItem(
  visit: Visit,
  { remedy, override }: Step,
  { number, image }: { number: number; image: string | null },
): Html {
  const command = commandFor(remedy, image);
  const link = override && overrideLink(visit, override, override.attestation_id);
  return html`<li>${count(number)}<div class="grow">${sentence(visit, remedy)}${placeOf(visit, remedy)}${
    link && html`<div class="sub">Or ${link} with a reason.</div>`
  }${command !== null && snippet(command)}</div></li>`;
}

function sentence({ to, may }: Visit, { kind, name, type, control, words }: Remedy): Value {
  const of = control === null ? null : html` for control <bdi>${control}</bdi>`;
  const typed = type === null || type === "*" ? "" : type === "decision" ? "decision " : `${type} `;
  const noun = type === "decision" ? "" : "attestation ";
  const what = html`${typed}${noun}${name !== null && html`<b><bdi>${name}</bdi></b>`}${of}`;
  if (kind === "report_attestation") return html`Report a compliant ${what}`;
  if (kind === "fix_attestation") return html`Fix what the ${what} found, and report it again`;
  if (kind === "correct_policy" && may(putPolicy)) return html`${words}. <a href="${to.policies()}">Policies</a>`;
  return html`${words}`;
}

/** The trail and the artifact that a step is about; its words have them where it is not about an attestation. */
function placeOf({ to }: Visit, { kind, flow, trail, fingerprint }: Remedy): Html | null {
  if (flow === null || trail === null) return null;
  const href = to.trail(flow, trail);
  if (kind === "make_trail_compliant")
    return html`<div class="sub"><a href="${to.whyTrail(flow, trail)}">Why</a></div>`;
  if (kind !== "report_attestation" && kind !== "fix_attestation") return null;
  const about = fingerprint !== null && fingerprint !== "" && html`for ${shownFingerprint(fingerprint)} `;
  return html`<div class="sub">${about}in trail <a href="${href}"><bdi>${trail}</bdi></a> of flow
<bdi>${flow}</bdi></div>`;
}

function allowItem({ to, may }: Visit, allow: NonNullable<Target["allow"]>, isLast: boolean): Html {
  const { environment, index, fingerprint } = allow;
  const address = to.snapshot(environment, index, { allow: fingerprint });
  const verb = isLast ? "allowlist it" : "Allowlist it";
  const link = may(allowArtifact) ? html`<a href="${address}">${verb}</a>` : html`${verb}`;
  return html`<li>${icon("shield-check")}<div class="grow">${isLast && "Or "}${link} in <bdi>${environment}</bdi>, with
a reason and an end</div></li>`;
}
