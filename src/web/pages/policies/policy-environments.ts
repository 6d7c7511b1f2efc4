/** The tab with the environments that use a policy. */
import { attachPolicyToEnv, detachPolicyFromEnv } from "../../../api/environments/environment-policies.ts";
import { getEnvironment, listEnvs } from "../../../api/environments/environments.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { formOf, hiddenField, selectField, textField } from "../../components/forms.ts";
import { card, empty, nameCell, padded, table } from "../../components/layout.ts";
import { pageOf, pager } from "../../components/lists.ts";
import { badge, stateOfVerdict } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import type { Policy } from "./policy-data.ts";

const PER_PAGE = 25;
/** Environments among which a person chooses; of more, the name is typed. */
const MAX_CHOICES = 50;
type EnvironmentPage = Exclude<AnswerOf<typeof listEnvs>, readonly unknown[]>;

export async function environmentsTab(visit: Visit, policy: Policy): Promise<Html> {
  const { query, call, may } = visit;
  const asked = query.get("ask") === "detach" ? (query.get("environment") ?? "") : null;
  if (asked !== null && may(detachPolicyFromEnv) && policy.consuming_envs.includes(asked))
    return askDetach(visit, policy, asked);
  const page = pageOf(query);
  const total = policy.consuming_envs.length;
  const names = policy.consuming_envs.slice((page - 1) * PER_PAGE, page * PER_PAGE);
  const environments = await Promise.all(names.map((env_name) => call(getEnvironment, { params: { env_name } })));
  const list =
    total === 0
      ? empty({
          icon: "server",
          title: "No environment uses this policy",
          text: "Attach it to an environment, and what runs there is evaluated under its latest version.",
          command: `kosli attach-policy ${policy.name} --environment production`,
        })
      : environmentTable(visit, environments);
  return html`<section class="card" aria-label="Environments">${list}</section>${pager(visit, {
    total,
    page,
    per_page: PER_PAGE,
    page_count: Math.ceil(total / PER_PAGE),
  })}${may(attachPolicyToEnv) && (await attachCard(visit, policy))}`;
}

function environmentTable(visit: Visit, environments: readonly AnswerOf<typeof getEnvironment>[]): Html {
  const { to, here, now, may } = visit;
  const rows = environments.map(({ name, description, state, last_changed_at, policies }) => {
    const others = policies.length - 1;
    const cell = nameCell({
      href: to.environment(name),
      name: html`<bdi>${name}</bdi>`,
      sub: description === "" ? null : html`<span class="cut-block">${description}</span>`,
    });
    const detach =
      may(detachPolicyFromEnv) &&
      html`<a href="${here({ ask: "detach", environment: name })}">Detach<span class="vh"> from ${name}</span></a>`;
    return html`<tr>${cell}<td>${badge(stateOfVerdict(state))}</td><td class="fill">${
      others === 0 ? "this policy alone" : `and ${others} other ${others === 1 ? "policy" : "policies"}`
    }</td><td class="r" data-l="Changed">${time(last_changed_at, now)}</td><td class="r">${detach}</td></tr>`;
  });
  const columns = [
    { text: "Environment" },
    { text: "State", className: "w-st" },
    { text: "Policies" },
    { text: "Changed", isRight: true },
    { text: "Detach", isHidden: true, isRight: true },
  ];
  return table({ caption: "Environments that use the policy", columns, rows });
}

async function attachCard(visit: Visit, policy: Policy): Promise<Html> {
  const { environments, total_count } = (await visit.call(listEnvs, {
    query: { page: 1, per_page: MAX_CHOICES },
  })) as EnvironmentPage;
  const free = environments.filter(({ name, type }) => type !== "logical" && !policy.consuming_envs.includes(name));
  const options = { form: "attach", name: "env_name", label: "Environment", isRequired: true };
  // A refusal must have a form to stand in, also where nothing is left to choose.
  const isTyped = total_count > MAX_CHOICES || visit.refused?.form === "attach";
  const field = isTyped
    ? textField(visit, { ...options, hint: "Name of an environment" })
    : selectField(visit, { ...options, choices: free.map(({ name }) => ({ value: name, text: name })) });
  const form = formOf(visit, { name: "attach", submit: "Attach", fields: field });
  const nothing = html`<p class="muted">Every environment that can use the policy uses it. Logical environments have no
policies of their own.</p>`;
  return card({
    id: "h-attach",
    title: "Attach to an environment",
    note: "what runs there is re-evaluated at once",
    body: padded(free.length === 0 && !isTyped ? nothing : form),
  });
}

function askDetach(visit: Visit, policy: Policy, environment: string): Html {
  const text = html`<p><b><bdi>${environment}</bdi></b> no longer requires what <b>${policy.name}</b> says. What runs
there is re-evaluated at once; without any policy, its state is unknown.</p>${hiddenField("env_name", environment)}`;
  const form = formOf(visit, {
    name: "detach",
    submit: "Detach this policy",
    isDanger: true,
    cancel: visit.here({ ask: null, environment: null }),
    fields: text,
  });
  return card({ id: "h-detach", title: `Detach from ${environment}?`, body: padded(form) });
}
