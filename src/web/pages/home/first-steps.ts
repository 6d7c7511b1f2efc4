/**
 * The five steps from an empty organization to the first verdict on what runs: an organization in which nothing was
 * reported is shown them in place of the overview, and later ones for as long as one of them is left.
 */
import { listApiKeys } from "../../../api/accounts/api-keys.ts";
import { listOwnApiKeys } from "../../../api/accounts/own-api-keys.ts";
import { createServiceAccount, listServiceAccounts } from "../../../api/accounts/service-accounts.ts";
import { createEnv } from "../../../api/environments/environments.ts";
import { createFlowWithTemplate } from "../../../api/flows/flows.ts";
import { putPolicy } from "../../../api/policies/policies.ts";
import { icon } from "../../components/icon.ts";
import { card, linkButton, moreLink, padded, snippet, tabs } from "../../components/layout.ts";
import { tag } from "../../components/state.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { EXAMPLE_POLICY } from "../policies/policy-edit.ts";
import type { Overview } from "./overview-cards.ts";
import { FLOW, PIPELINES } from "./pipelines.ts";

/** Whether each step is done. */
export type Progress = { key: boolean; flow: boolean; pipeline: boolean; environment: boolean; policy: boolean };

/** What an organization with that overview has done, apart from a key, which everything that reports has. */
export function stepsDoneIn({ flows, environments }: Overview): Progress {
  const pipeline = flows.items.some(({ trail_count: trails }) => trails > 0);
  const environment = environments.items.some(({ snapshot_index: latest }) => latest > 0);
  return {
    key: pipeline || environment,
    flow: flows.total > 0,
    pipeline,
    environment,
    // The overview lists a few environments; a verdict of any other one comes from a policy too.
    policy:
      environments.compliant + environments.non_compliant > 0 ||
      environments.items.some(({ policy_count: policies }) => policies > 0),
  };
}

/** Service accounts that are asked for their keys, one call each. */
const MAX_ASKED_ACCOUNTS = 5;

/** Whether the person has a key, or has made one for a pipeline. */
export async function hasKey({ call, may, role, userId }: Visit): Promise<boolean> {
  if ((await call(listOwnApiKeys)).length > 0) return true;
  if (!may(listServiceAccounts)) return false;
  const own = (await call(listServiceAccounts)).filter((one) => role === "admin" || one.creating_user_id === userId);
  for (const { name } of own.slice(0, MAX_ASKED_ACCOUNTS))
    if ((await call(listApiKeys, { params: { name } })).length > 0) return true;
  return false;
}

const STEPS = {
  key: "Create an API key",
  flow: "Create a flow",
  pipeline: "Report from a pipeline",
  environment: "Report what runs",
  policy: "Attach a policy",
} as const satisfies Record<keyof Progress, string>;
const NAMES = Object.keys(STEPS) as (keyof Progress)[];

/** Steps that are taken again, for the next pipeline: they are shown as a whole when they are done. */
const REPEATED: ReadonlySet<keyof Progress> = new Set(["key", "pipeline"]);

const ENVIRONMENT = "production";
const POLICY = "prod-baseline";

/** The steps; those that the role does not permit are described without their buttons. */
export function firstSteps(visit: Visit, progress: Progress): Html {
  const bodies = {
    key: keyStep,
    flow: flowStep,
    pipeline: pipelineStep,
    environment: environmentStep,
    policy: policyStep,
  };
  return html`<div class="stack steps">${NAMES.map((name, index) => {
    const { text, body } = bodies[name](visit);
    const isDone = progress[name];
    const shown = isDone && !REPEATED.has(name) ? null : body;
    return card({
      id: `h-step-${index + 1}`,
      title: `${index + 1}. ${STEPS[name]}`,
      note: isDone && tag("done", "check"),
      body: padded(html`<div class="step"><p>${text}</p>${shown}</div>`),
    });
  })}</div>`;
}

/** What is left, for the side of an overview that shows something already. */
export function leftSteps({ here }: Visit, progress: Progress): Html {
  const done = NAMES.filter((name) => progress[name]).length;
  return card({
    id: "h-steps",
    title: "First steps",
    note: `${done} of ${NAMES.length} done`,
    more: moreLink(here({ view: "steps" }), "See how"),
    body: html`<ul class="rows">${NAMES.map(
      (name) =>
        html`<li>${icon(progress[name] ? "check" : "circle")}<div class="grow"><span class="name">${STEPS[name]}</span>
${progress[name] && html`<div class="sub">done</div>`}</div></li>`,
    )}</ul>`,
  });
}

type StepContent = { text: Value; body: Value };

const actions = (button: Html | false): Html | false => button && html`<div class="actions">${button}</div>`;

function keyStep({ to, may }: Visit): StepContent {
  const setting = may(createServiceAccount)
    ? linkButton(to.settings("service-accounts"), "Service accounts", { icon: "key" })
    : linkButton(to.account(), "Your account", { icon: "person" });
  return {
    text: html`Pipelines sign in with the key of a service account. Store it as a secret: it is shown once. The steps
below use the Kosli CLI, which works with this server unchanged. It comes from its vendor, Kosli: install it where
pipelines run, and wherever you want to paste these lines.`,
    body: actions(setting),
  };
}

function flowStep({ to, org, address, may }: Visit): StepContent {
  const create =
    may(createFlowWithTemplate) &&
    linkButton(to.flows({ ask: "create" }), "New flow", { icon: "plus", kind: "primary" });
  return {
    text: "A flow collects the evidence of one process: the builds of a service, for instance.",
    body: html`${snippet(`export KOSLI_HOST=${address} KOSLI_ORG=${org} KOSLI_API_TOKEN=KEY
kosli create flow ${FLOW} --use-empty-template`)}${actions(create)}`,
  };
}

function pipelineStep({ org, address, query, here }: Visit): StepContent {
  const chosen = PIPELINES.find(({ key }) => key === query.get("pipeline")) ?? PIPELINES[0];
  const choice = tabs(
    "Pipelines",
    PIPELINES.map(({ key, text }) => ({ text, href: here({ pipeline: key }), isCurrent: key === chosen.key })),
  );
  return {
    text: "The pipeline begins a trail for each commit, and reports what it built and how that was tested.",
    body: html`${choice}${chosen.file !== null && html`<p class="sub"><code>${chosen.file}</code></p>`}${snippet(
      chosen.snippet({ address, org }),
    )}`,
  };
}

function environmentStep({ to, may }: Visit): StepContent {
  const create = may(createEnv) && linkButton(to.environments({ ask: "create" }), "New environment", { icon: "plus" });
  return {
    text: html`An environment shows what runs in a cluster, on servers or in a service, and which build it comes from. A
job beside it reports again and again; each change is a snapshot.`,
    body: html`${snippet(`kosli create environment ${ENVIRONMENT} --type K8S
kosli snapshot k8s ${ENVIRONMENT}`)}${actions(create)}`,
  };
}

function policyStep({ to, may }: Visit): StepContent {
  const create = may(putPolicy) && linkButton(to.policies({ ask: "create" }), "New policy", { icon: "plus" });
  return {
    text: html`A policy says what an artifact must have before it runs in an environment. Each snapshot has the verdict
on every artifact, and the page Why says which rule and which report decided.`,
    body: html`<p class="sub"><code>policy.yml</code></p>${snippet(EXAMPLE_POLICY.trimEnd())}${snippet(
      `kosli create policy ${POLICY} policy.yml
kosli attach-policy ${POLICY} --environment ${ENVIRONMENT}`,
    )}${actions(create)}`,
  };
}
