/** What the explanations of artifacts, snapshots and trails have in common. */
import { attachPolicyToEnv } from "../../../api/environments/environment-policies.ts";
import { hiddenField } from "../../components/forms.ts";
import { icon } from "../../components/icon.ts";
import { linkButton, reasonsBox } from "../../components/layout.ts";
import { plainState } from "../../components/state.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";

/** Problems that are shown. */
const MAX_PROBLEMS = 10;

/** The buttons of the head. @param form the form that evaluates again @param json address of the explanation as JSON */
export const headActions = (visit: Visit, { form, json }: { form: string; json: string }): Html[] => [
  linkButton(json, "JSON", { icon: "code" }),
  html`<form method="post" action="${visit.here({})}">${hiddenField("csrf", visit.csrf)}${hiddenField(
    "form",
    form,
  )}<button class="btn" type="submit">${icon("sync")}Re-evaluate</button></form>`,
];

/** The way out of an environment without a policy; false for a person who may not go it. */
export const attachButton = ({ to, may }: Pick<Visit, "to" | "may">, environment: string): Html | false =>
  may(attachPolicyToEnv) &&
  linkButton(to.environment(environment, { tab: "policies" }), "Attach a policy", { icon: "law", kind: "small" });

/** Whether anything in a tree fails. */
type Tried = { hasFailed: boolean };

/** The switch of a tree, which at first shows what fails; where nothing does, all of it. */
export function openSwitch(visit: Pick<Visit, "here" | "query">, { hasFailed }: Tried): Html {
  const isAll = isAllOpen(visit, { hasFailed });
  const button = (text: string, { open, isCurrent }: { open: string | null; isCurrent: boolean }): Html =>
    html`<a class="btn btn-s" href="${visit.here({ open })}"${isCurrent && html` aria-current="true"`}>${text}</a>`;
  const few = hasFailed
    ? button("Failed open", { open: null, isCurrent: !isAll })
    : button("Folded", { open: "failed", isCurrent: !isAll });
  const all = button("All open", { open: hasFailed ? "all" : null, isCurrent: isAll });
  return html`<span class="right btn-group">${few}${all}</span>`;
}

export const isAllOpen = ({ query }: Pick<Visit, "query">, { hasFailed }: Tried): boolean =>
  query.get("open") === "all" || (!hasFailed && query.get("open") === null);

/** What a re-evaluation gave. @param isAsked whether a person asked for it just now */
export function replayResult(isSame: boolean, { isAsked, from }: { isAsked: boolean; from: string }): Html {
  const verdict = isSame ? "the same verdict" : "not the stored verdict: see above";
  if (!isAsked) return html`<span>A re-evaluation ${from} gives ${verdict}.</span>`;
  const state = plainState(isSame ? "compliant" : "non_compliant", "Re-evaluated just now");
  return html`<span role="status">${state}</span><span>${from}: ${verdict}</span>`;
}

/** Damaged records, and re-evaluations that give something else than what is stored; null without any. */
export function problemsBox(problems: readonly string[]): Html | null {
  if (problems.length === 0) return null;
  const rest = problems.length - MAX_PROBLEMS;
  return reasonsBox({
    state: "wait",
    title: "What is stored cannot be confirmed",
    reasons: [...problems.slice(0, MAX_PROBLEMS), ...(rest > 0 ? [`${rest} more are in the JSON`] : [])],
  });
}
