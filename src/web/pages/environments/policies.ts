/** The tab with the policies of an environment: attached and detached after a look at what that would turn. */
import { attachPolicyToEnv, detachPolicyFromEnv } from "../../../api/environments/environment-policies.ts";
import { listPolicies } from "../../../api/policies/policies.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { formOf, hiddenField, selectField, textField } from "../../components/forms.ts";
import { askPreview, assertNote, impactPanel, submitText } from "../../components/impact.ts";
import { card, empty, inSentence, linkButton, nameCell, padded, table } from "../../components/layout.ts";
import { tag } from "../../components/state.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { fieldsOf } from "../../page/fields.ts";
import { form } from "../../page/page.ts";
import type { Form, Visit } from "../../page/page.ts";
import type { ShownEnvironment } from "./types.ts";
import { isArchived } from "./types.ts";

type PolicyPage = Exclude<AnswerOf<typeof listPolicies>, readonly unknown[]>;

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

export async function policiesTab(visit: Visit, environment: ShownEnvironment): Promise<Html> {
  const { query, may, refused } = visit;
  const asked = refused?.form === "detach" ? refused.fields.text("policy_names") : query.get("detach");
  const mayChange = may(attachPolicyToEnv) && !isArchived(environment.name);
  if (mayChange && asked !== null && environment.policies.includes(asked))
    return await askDetach(visit, environment, asked);
  return html`${attachedPolicies(visit, environment, mayChange)}${mayChange && (await attachCard(visit, environment))}`;
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
        mayChange && linkButton(here({ detach: policy }), "Detach…", { kind: "small" })
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

/** Policies among which a person chooses; of more, the names are typed. */
const MAX_CHOICES = 50;

/** Chooses the policies; then shows what attaching them would turn, with the button that does it. */
async function attachCard(visit: Visit, environment: ShownEnvironment): Promise<Html> {
  const { refused, query, call, to } = visit;
  const fields = refused?.form === "attach" ? refused.fields : null;
  const chosen = fieldsOf([["names", fields?.text("policy_names") ?? query.get("policy_names") ?? ""]]).lines("names");
  const { policies, total_count: total } = (await call(listPolicies, {
    query: { page: 1, per_page: MAX_CHOICES, files: "none" },
  })) as PolicyPage;
  const free = policies.map(({ name }) => name).filter((name) => !environment.policies.includes(name));
  const isTyped = total > MAX_CHOICES || fields !== null || chosen.some((name) => !free.includes(name));
  if (free.length === 0 && !isTyped) return nothingToAttach(visit, total);
  const options = { form: "attach", name: "policy_names", label: "Policy", isRequired: true };
  const field = isTyped
    ? textField(visit, {
        ...options,
        isMono: true,
        value: chosen.join(", "),
        hint: html`Its name, or several separated by commas. <a href="${to.policies()}">All policies</a>`,
      })
    : selectField(visit, {
        ...options,
        value: chosen[0] ?? null,
        choices: free.map((name) => ({ value: name, text: name })),
      });
  const action = to.environment(environment.name);
  const choice = html`<form class="form choose" method="get" action="${action}">${hiddenField(
    "tab",
    "policies",
  )}${field}<div class="form-do"><button class="btn" type="submit">Show what would change</button></div></form>`;
  return card({
    id: "h-attach",
    title: "Attach a policy",
    note: "nothing is attached before you have seen what it changes",
    body: padded(
      html`<div class="stack">${choice}${chosen.length > 0 && (await attachPanel(visit, environment, chosen))}</div>`,
    ),
  });
}

const nothingToAttach = ({ to }: Visit, total: number): Html =>
  card({
    id: "h-attach",
    title: "Attach a policy",
    body: padded(
      total === 0
        ? html`<p class="muted">There is no policy yet. <a href="${to.policies({ ask: "create" })}">Create one</a></p>`
        : html`<p class="muted">All policies of the organization are attached.</p>`,
    ),
  });

/** The names of several policies, as people read them. */
const namesOf = (names: readonly string[]): Html => inSentence(names.map((name) => html`<bdi>${name}</bdi>`));

async function attachPanel(visit: Visit, { name }: ShownEnvironment, chosen: readonly string[]): Promise<Html> {
  const preview = await askPreview(visit, { attach_policies: { environment: name, policy_names: [...chosen] } });
  return formOf(visit, {
    name: "attach",
    submit: submitText("Attach", preview),
    fields: hiddenField("policy_names", chosen.join(", ")),
    cancel: visit.here({ policy_names: null }),
    within: (buttons) =>
      impactPanel(visit, {
        id: "h-impact",
        title: html`If you attach ${namesOf(chosen)} to <bdi>${name}</bdi>`,
        preview,
        buttons,
        note: assertNote(preview, name),
      }),
  });
}

async function askDetach(visit: Visit, { name }: ShownEnvironment, policy: string): Promise<Html> {
  const preview = await askPreview(visit, { detach_policies: { environment: name, policy_names: [policy] } });
  return card({
    id: "h-detach",
    title: "Detach this policy?",
    body: padded(
      formOf(visit, {
        name: "detach",
        submit: submitText("Detach", preview),
        isDanger: true,
        fields: hiddenField("policy_names", policy),
        cancel: visit.here({ detach: null }),
        within: (buttons) =>
          impactPanel(visit, {
            id: "h-impact",
            title: html`If you detach <bdi>${policy}</bdi> from <bdi>${name}</bdi>`,
            preview,
            buttons,
          }),
      }),
    ),
  });
}
