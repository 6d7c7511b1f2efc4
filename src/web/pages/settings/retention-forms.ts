/** The forms about retention: rules and legal holds. */
import type { AnswerOf } from "../../../http/in-process.ts";
import { type listRetentionRules, placeLegalHold, putRetentionRule } from "../../../api/accounts/retention.ts";
import { formOf, hiddenField, textField } from "../../components/forms.ts";
import { card, padded } from "../../components/layout.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";

export type RetentionRuleItem = AnswerOf<typeof listRetentionRules>[number];

/** @param rule the rule to change; null for a new one */
export function ruleForm(visit: Visit, rule: RetentionRuleItem | null): Html {
  const days = (name: "trails_after_days" | "evidence_after_days", label: string): Html =>
    textField(visit, {
      form: "rule",
      name,
      label,
      value: rule?.[name] ?? null,
      isRequired: false,
      type: "number",
      hint: "Days after the last event on a trail; empty: never",
    });
  const isKnown = rule !== null && visit.refused === null;
  const flow = isKnown
    ? html`<p>For ${rule.flow === null ? html`<b>${visit.org}</b>` : html`the flow <b><bdi>${rule.flow}</bdi></b>`}.</p>
${hiddenField("flow", rule.flow ?? "")}`
    : textField(visit, {
        form: "rule",
        name: "flow",
        label: "Flow",
        of: putRetentionRule,
        isRequired: false,
        value: visit.query.get("flow"),
        hint: "Empty: the rule of the organization, for every flow without a rule of its own",
      });
  const fields = html`${flow}<div class="form-pair form-even">${days(
    "evidence_after_days",
    "Files may be deleted after",
  )}${days("trails_after_days", "Trails may be deleted after")}</div>`;
  const cancel = visit.to.settings("retention");
  return card({
    id: "h-rule",
    title: rule === null ? "New retention rule" : "Change the retention rule",
    body: padded(formOf(visit, { name: "rule", submit: "Save rule", fields, cancel })),
    foot: "The rule of a flow replaces that of the organization: two empty fields keep everything in the flow.",
  });
}

export function askRemoveRule(visit: Visit, flow: string | null): Html {
  const text =
    flow === null
      ? html`<p>Flows of <b>${visit.org}</b> without a rule of their own keep everything from then on.</p>`
      : html`<p>The flow <b><bdi>${flow}</bdi></b> falls under the rule of the organization then, if there is one.</p>`;
  const cancel = visit.to.settings("retention");
  const fields = html`${text}${hiddenField("flow", flow ?? "")}`;
  const form = formOf(visit, { name: "remove_rule", submit: "Remove rule", isDanger: true, fields, cancel });
  return card({ id: "h-remove", title: "Remove this retention rule?", body: padded(form) });
}

export function holdForm(visit: Visit): Html {
  const text = (name: "flow" | "trail", label: string, hint: string): Html =>
    textField(visit, { form: "hold", name, label, of: placeLegalHold, isRequired: false, hint });
  const fields = html`<div class="form-pair form-even">${text("flow", "Flow", "Empty: the whole organization")}${text(
    "trail",
    "Trail",
    "Empty: the whole flow",
  )}</div>${textField(visit, {
    form: "hold",
    name: "reason",
    label: "Reason",
    of: placeLegalHold,
    isRequired: true,
    hint: "For the history, such as the number of the case",
  })}`;
  const cancel = visit.to.settings("retention");
  return card({
    id: "h-hold",
    title: "Place a legal hold",
    body: padded(formOf(visit, { name: "hold", submit: "Place hold", fields, cancel })),
    foot: "Nothing under the hold is deleted, whatever the rules say, until it is released.",
  });
}

export function askRelease(visit: Visit, hold: string): Html {
  const fields = html`<p>What is under this hold may be deleted again, as the rules say. The hold stays in the
history.</p>${hiddenField("hold", hold)}`;
  const cancel = visit.to.settings("retention");
  const form = formOf(visit, { name: "release", submit: "Release hold", isDanger: true, fields, cancel });
  return card({ id: "h-release", title: "Release this legal hold?", body: padded(form) });
}
