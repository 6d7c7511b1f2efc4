/** The tab with the environments that use a policy. */
import { presentPagination } from "../../../http/pagination.ts";
import { attachPolicyToEnv, detachPolicyFromEnv } from "../../../api/environments/environment-policies.ts";
import { getEnvironment, listEnvs } from "../../../api/environments/environments.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { formOf, hiddenField, selectField, textField } from "../../components/forms.ts";
import { askPreview, assertNote, impactPanel, submitText } from "../../components/impact.ts";
import { card, empty, linkButton, nameCell, padded, table } from "../../components/layout.ts";
import { pageOf, pager } from "../../components/lists.ts";
import { badge, formatNumber, stateOfVerdict } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { typeIcon } from "../../components/environment-type.ts";
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
    return await askDetach(visit, policy, asked);
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
  return html`<section class="card" aria-label="Environments">${list}</section>${pager(
    visit,
    presentPagination(total, page, PER_PAGE),
  )}${may(attachPolicyToEnv) && (await attachCard(visit, policy))}`;
}

function environmentTable(visit: Visit, environments: readonly AnswerOf<typeof getEnvironment>[]): Html {
  const { to, here, now, may } = visit;
  const rows = environments.map(({ name, type, description, state, last_changed_at, policies }) => {
    const others = policies.length - 1;
    const cell = nameCell({
      href: to.environment(name),
      name: html`<bdi>${name}</bdi>`,
      mark: typeIcon(type),
      sub: description === "" ? null : html`<span class="cut-block">${description}</span>`,
    });
    const detach =
      may(detachPolicyFromEnv) &&
      linkButton(here({ ask: "detach", environment: name }), html`Detach…<span class="vh"> from ${name}</span>`, {
        kind: "small",
      });
    return html`<tr>${cell}<td>${badge(stateOfVerdict(state))}</td><td class="full" data-l="Other policies">${
      others === 0 ? "none" : formatNumber(others)
    }</td><td class="r" data-l="Changed">${time(last_changed_at, now)}</td><td class="r">${detach}</td></tr>`;
  });
  const columns = [
    { text: "Environment" },
    { text: "State", className: "w-st" },
    { text: "Other policies" },
    { text: "Changed", isRight: true },
    { text: "Detach", isHidden: true, isRight: true },
  ];
  return table({ caption: "Environments that use the policy", columns, rows });
}

/** Chooses the environment; then shows what attaching the policy would turn, with the button that does it. */
async function attachCard(visit: Visit, policy: Policy): Promise<Html> {
  const { query, refused, call, to } = visit;
  const { environments, total_count } = (await call(listEnvs, {
    query: { page: 1, per_page: MAX_CHOICES },
  })) as EnvironmentPage;
  const free = environments
    .filter(({ name, type }) => type !== "logical" && !policy.consuming_envs.includes(name))
    .map(({ name }) => name);
  const fields = refused?.form === "attach" ? refused.fields : null;
  const chosen = (fields?.text("env_name") ?? query.get("env_name") ?? "").trim();
  // A refusal must have a form to stand in, also where nothing is left to choose.
  const isTyped = total_count > MAX_CHOICES || fields !== null || (chosen !== "" && !free.includes(chosen));
  const options = { form: "attach", name: "env_name", label: "Environment", isRequired: true, value: chosen };
  const field = isTyped
    ? textField(visit, { ...options, hint: "Name of an environment" })
    : selectField(visit, { ...options, choices: free.map((name) => ({ value: name, text: name })) });
  const choice = html`<form class="form choose" method="get" action="${to.policy(policy.name)}">${hiddenField(
    "tab",
    "environments",
  )}${field}<div class="form-do"><button class="btn" type="submit">Show what would change</button></div></form>`;
  const nothing = html`<p class="muted">Every environment that can use the policy uses it. Logical environments have no
policies of their own.</p>`;
  const panel = chosen !== "" && (await attachPanel(visit, policy, chosen));
  return card({
    id: "h-attach",
    title: "Attach to an environment",
    note: "nothing is attached before you have seen what it changes",
    body: padded(free.length === 0 && !isTyped ? nothing : html`<div class="stack">${choice}${panel}</div>`),
  });
}

async function attachPanel(visit: Visit, policy: Policy, environment: string): Promise<Html> {
  const preview = await askPreview(visit, { attach_policies: { environment, policy_names: [policy.name] } });
  const shown = policy.versions.length > 0 && ` v${policy.versions.length}`;
  return formOf(visit, {
    name: "attach",
    submit: submitText("Attach", preview),
    fields: hiddenField("env_name", environment),
    cancel: visit.here({ env_name: null }),
    within: (buttons) =>
      impactPanel(visit, {
        id: "h-impact",
        title: html`If you attach <bdi>${policy.name}</bdi>${shown} to <bdi>${environment}</bdi>`,
        preview,
        buttons,
        note: assertNote(preview, environment),
      }),
  });
}

async function askDetach(visit: Visit, policy: Policy, environment: string): Promise<Html> {
  const preview = await askPreview(visit, { detach_policies: { environment, policy_names: [policy.name] } });
  const form = formOf(visit, {
    name: "detach",
    submit: submitText("Detach", preview),
    isDanger: true,
    cancel: visit.here({ ask: null, environment: null }),
    fields: hiddenField("env_name", environment),
    within: (buttons) =>
      impactPanel(visit, {
        id: "h-impact",
        title: html`If you detach <bdi>${policy.name}</bdi> from <bdi>${environment}</bdi>`,
        preview,
        buttons,
      }),
  });
  return card({ id: "h-detach", title: `Detach from ${environment}?`, body: padded(form) });
}
