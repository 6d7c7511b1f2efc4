/** The tab with the policies of an environment: attached by a form, detached after a question. */
import { attachPolicyToEnv, detachPolicyFromEnv } from "../../../api/environments/environment-policies.ts";
import { formOf, hiddenField, textField } from "../../components/forms.ts";
import { card, empty, linkButton, nameCell, padded, table } from "../../components/layout.ts";
import { tag } from "../../components/state.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { form } from "../../page/page.ts";
import type { Form, Visit } from "../../page/page.ts";
import type { ShownEnvironment } from "./types.ts";
import { isArchived } from "./types.ts";

const policiesOf = ({ to, params }: Visit): string => to.environment(params["env"] ?? "", { tab: "policies" });

export const policyForms: Readonly<Record<string, Form>> = {
  attach: form(attachPolicyToEnv, async (visit, fields) => {
    await visit.call(attachPolicyToEnv, {
      params: { env_name: visit.params["env"] ?? "" },
      body: { policy_names: fields.lines("policy_names") },
    });
    return { go: policiesOf(visit), done: "attached" };
  }),
  detach: form(detachPolicyFromEnv, async (visit, fields) => {
    await visit.call(detachPolicyFromEnv, {
      params: { env_name: visit.params["env"] ?? "" },
      body: { policy_names: [fields.text("policy_names")] },
    });
    return { go: policiesOf(visit), done: "detached" };
  }),
};

export function policiesTab(visit: Visit, environment: ShownEnvironment): Html {
  const { query, may, refused } = visit;
  const asked = refused?.form === "detach" ? refused.fields.text("policy_names") : query.get("detach");
  const mayChange = may(attachPolicyToEnv) && !isArchived(environment.name);
  if (mayChange && asked !== null && environment.policies.includes(asked)) return askDetach(visit, environment, asked);
  return html`${attachedPolicies(visit, environment, mayChange)}${mayChange && attachForm(visit)}`;
}

function attachedPolicies({ to, here }: Visit, { policies, name }: ShownEnvironment, mayChange: boolean): Html {
  if (policies.length === 0)
    return html`<section class="card">${empty({
      icon: "law",
      title: "No policy is attached",
      text: "Without a policy the state is unknown. A policy says what must be true of all that runs.",
      command: `kosli attach-policy POLICY --environment ${name}`,
    })}</section>`;
  const rows = policies.map(
    (policy, at) =>
      html`<tr>${nameCell({ href: to.policy(policy), name: html`<bdi>${policy}</bdi>` })}
<td>${tag("latest version")}</td>
<td class="r num" data-l="Position">${at + 1}</td><td class="r">${
        mayChange && linkButton(here({ detach: policy }), "Detach", { kind: "small" })
      }</td></tr>`,
  );
  const columns = [
    { text: "Policy" },
    { text: "Applies" },
    { text: "Position", isRight: true },
    { text: "Change", isRight: true, isHidden: true },
  ];
  const list = table({ caption: "Attached policies", columns, rows });
  return html`<section class="card" aria-label="Attached policies">${list}</section>`;
}

function attachForm(visit: Visit): Html {
  const fields = textField(visit, {
    form: "attach",
    name: "policy_names",
    label: "Policy",
    isRequired: true,
    isMono: true,
    hint: html`Its name, or several separated by commas. The environment is re-evaluated at once. <a
href="${visit.to.policies()}">All policies</a>`,
  });
  return card({
    id: "h-attach",
    title: "Attach a policy",
    body: padded(formOf(visit, { name: "attach", submit: "Attach", fields })),
  });
}

function askDetach(visit: Visit, { name }: ShownEnvironment, policy: string): Html {
  const fields = html`${hiddenField("policy_names", policy)}<p>The environment <b><bdi>${name}</bdi></b> is re-evaluated
without <b><bdi>${policy}</bdi></b>. What fails only this policy becomes compliant; without any policy the state is
unknown. The result is a new snapshot.</p>`;
  return card({
    id: "h-detach",
    title: "Detach this policy?",
    body: padded(
      formOf(visit, {
        name: "detach",
        submit: "Detach the policy",
        isDanger: true,
        fields,
        cancel: visit.here({ detach: null }),
      }),
    ),
  });
}
