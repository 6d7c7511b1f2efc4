/** The card that answers "can this go to production?": the environments where the artifact does not run yet. */
import { previewStart } from "../../../api/policies/start-preview.ts";
import { commandFor } from "../../../domain/compliance/remedy-commands.ts";
import { remediesFor } from "../../../domain/compliance/remedies.ts";
import { typeIcon } from "../../components/environment-type.ts";
import { causeLine } from "../../components/impact.ts";
import { card, inSentence, snippet } from "../../components/layout.ts";
import { formatNumber, plainState } from "../../components/state.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import type { AnswerOf } from "../../../http/in-process.ts";

type Start = AnswerOf<typeof previewStart>["environments"][number];

const MAX_ENVIRONMENTS = 10;
const MAX_CAUSES = 3;

const RANKS = { "NON-COMPLIANT": 0, COMPLIANT: 1, UNKNOWN: 2 } as const;

/** null where there is no other environment. */
export async function wouldCard(visit: Visit, fingerprint: string): Promise<Html | null> {
  const { environments, left } = await visit.call(previewStart, { params: { fingerprint } });
  const elsewhere = environments
    .filter(({ running }) => !running)
    .sort((one, other) => RANKS[one.verdict] - RANKS[other.verdict]);
  if (elsewhere.length === 0) return null;
  const rest = elsewhere.length - MAX_ENVIRONMENTS;
  const notes = [
    rest > 0 && `and ${formatNumber(rest)} more environments.`,
    left > 0 && `${formatNumber(left)} environments were not looked at.`,
  ].filter((note) => note !== false);
  return card({
    id: "h-would",
    title: elsewhere[0]?.verdict === "NON-COMPLIANT" ? "Where it would fail" : "Where else it could run",
    note: "if it started there now, under the policies in force",
    body: html`<ul class="gate">${elsewhere
      .slice(0, MAX_ENVIRONMENTS)
      .map((one) => startRow(visit, one))}</ul>${oneAway(elsewhere, fingerprint)}`,
    foot: notes.length > 0 ? notes.join(" ") : null,
  });
}

/** Environments of which a sentence names the first. */
const MAX_NAMED = 3;

/** The attestation that alone is missing in environments, with the command that reports it: where most need it. */
function oneAway(environments: readonly Start[], fingerprint: string): Html | null {
  const commands = new Map<string, string[]>();
  for (const { environment, verdict, causes, further_causes: further } of environments) {
    const [cause, ...others] = causes;
    if (verdict !== "NON-COMPLIANT" || cause?.kind !== "missing_attestation" || others.length + further > 0) continue;
    const [remedy] = remediesFor(cause, fingerprint);
    const command = remedy ? commandFor(remedy, null) : null;
    if (command !== null) commands.set(command, [...(commands.get(command) ?? []), environment]);
  }
  const [most] = [...commands].sort(([, some], [, others]) => others.length - some.length);
  if (!most) return null;
  const [command, names] = most;
  const rest = names.length - MAX_NAMED;
  const places = names.slice(0, MAX_NAMED).map((name) => html`<bdi>${name}</bdi>`);
  return html`<div class="card-f gate-next"><p><b>One attestation away.</b> ${inSentence(
    rest > 0 ? [...places, html`${formatNumber(rest)} more`] : places,
  )} would accept it after:</p>${snippet(command)}</div>`;
}

const startRow = ({ to }: Visit, start: Start): Html =>
  html`<li><a class="env" href="${to.environment(start.environment)}">${typeIcon(start.type)}<bdi>${
    start.environment
  }</bdi></a><span>${wouldState(start)}</span><div>${whyOf(start)}</div></li>`;

function wouldState({ verdict, allowed }: Start): Html {
  if (verdict === "UNKNOWN") return plainState("unknown", "No policy");
  if (verdict === "NON-COMPLIANT") return plainState("non_compliant", "Would fail");
  return allowed ? plainState("allowlisted", "Would pass, allowlisted") : plainState("compliant", "Would pass");
}

function whyOf({ verdict, allowed, policies, causes, further_causes: further }: Start): Value {
  if (verdict === "UNKNOWN") return html`<span class="muted">nothing is required there</span>`;
  if (verdict === "COMPLIANT" && !allowed)
    return html`<span class="muted">${policies.map(
      ({ policy, version }, index) => html`${index > 0 && ", "}<bdi>${policy}</bdi> v${version}`,
    )}: all rules hold</span>`;
  const rest = causes.length - MAX_CAUSES + further;
  return html`${causes.slice(0, MAX_CAUSES).map((cause) => causeLine(cause))}${
    rest > 0 && html`<div class="muted">and ${formatNumber(rest)} more</div>`
  }`;
}
