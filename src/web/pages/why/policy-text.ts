/** The text of one policy, with the lines of the rules that fail. Several policies are tabs. */
import { sourceCode } from "../../components/code.ts";
import type { Mark } from "../../components/code.ts";
import { card, moreLink, padded } from "../../components/layout.ts";
import { stateIcon, tag } from "../../components/state.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { rulesOf } from "./explained.ts";
import type { Lines, ExplainedRule, ShownArtifact, Verdict } from "./explained.ts";

/** Policies that are tabs; others are reached by the lines of their rules. */
const MAX_TABS = 12;

/** The policy whose text is shown: the one in the address, or the first that refuses the artifact. */
export function shownPolicy(
  { query }: Pick<Visit, "query">,
  { artifact: { policies } }: ShownArtifact,
): Verdict | null {
  const chosen = policies.find(({ policy }) => policy === query.get("policy"));
  return chosen ?? policies.find(({ status }) => status === "NON-COMPLIANT") ?? policies[0] ?? null;
}

/** The address of a line: in the text that is shown, or on this page with the text of the other policy. */
export function lineAddress({ here }: Pick<Visit, "here">, shown: Verdict | null) {
  return ({ policy, version_id }: Verdict, line: number): string =>
    version_id === shown?.version_id ? `#L${line}` : `${here({ policy })}#L${line}`;
}

export function policyText(visit: Visit, subject: ShownArtifact, shown: Verdict): Html {
  const { to } = visit;
  const { artifact, at } = subject;
  const version = at.policies.find(({ version_id }) => version_id === shown.version_id);
  const text = version?.policy_yaml ?? null;
  const source =
    text === null
      ? padded(html`<p class="muted">This page has no room for the text of the policy, or cannot read it. The page of
the policy has all versions.</p>`)
      : sourceCode({ text, label: `Policy ${shown.policy}`, marks: marksOf(rulesOf(shown) ?? [], text) });
  const open = moreLink(to.policy(shown.policy, { version: shown.version }), "Open");
  return html`<div class="why-source">${card({
    id: "h-policy",
    title: html`<bdi>${shown.policy}</bdi>`,
    note: tag(`v${shown.version}`),
    more: open,
    body: html`${artifact.policies.length > 1 && policyTabs(visit, artifact.policies, shown)}${source}`,
  })}</div>`;
}

function policyTabs({ here }: Visit, policies: readonly Verdict[], shown: Verdict): Html {
  const failing = policies.filter(({ status }) => status === "NON-COMPLIANT");
  const sorted = [...failing, ...policies.filter(({ status }) => status !== "NON-COMPLIANT")];
  const items = sorted.slice(0, MAX_TABS).map((verdict) => {
    const isCurrent = verdict.version_id === shown.version_id;
    const state = verdict.status === "NON-COMPLIANT" ? "non_compliant" : "compliant";
    return html`<a href="${here({ policy: verdict.policy })}"${isCurrent && html` aria-current="page"`}>${stateIcon(
      state,
    )}<bdi>${verdict.policy}</bdi></a>`;
  });
  return html`<nav class="tabs why-tabs" aria-label="Policies">${items}</nav>`;
}

/**
 * The lines of the rules that fail. Those of a rule include its exceptions, which are a cause
 * only if they fail.
 */
function marksOf(rules: readonly ExplainedRule[], text: string): Mark[] {
  const lines = text.split("\n");
  return rules
    .filter(({ satisfied }) => satisfied === false)
    .flatMap((rule) => (rule.lines === null ? [] : withoutExceptions(rule, rule.lines, lines)));
}

function withoutExceptions({ conditions }: ExplainedRule, { from, to }: Lines, text: readonly string[]): Mark[] {
  const innocent = conditions.filter(
    ({ type, results }) => type === "exception" && results.every(({ error }) => error === null),
  );
  const isMarked = (line: number): boolean =>
    !innocent.some(({ lines }) => lines !== null && line >= lines.from && line <= lines.to) &&
    !(innocent.length > 0 && /^\s*exceptions\s*:\s*(?:#.*)?$/.test(text[line - 1] ?? ""));
  const marks: Mark[] = [];
  for (let line = from; line <= Math.min(to, text.length); line++) {
    const last = marks.at(-1);
    if (!isMarked(line)) continue;
    if (last?.to === line - 1) last.to = line;
    else marks.push({ from: line, to: line, kind: "cause" });
  }
  return marks;
}
