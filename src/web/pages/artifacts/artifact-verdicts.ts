/** The card with the verdicts on an artifact: of each flow that it was reported to, and of each environment. */
import type { AnswerOf } from "../../../http/in-process.ts";
import type { listArtifactRuns } from "../../../api/environments/artifact-runs.ts";
import type { assertArtifact } from "../../../api/policies/asserts.ts";
import { causesLine } from "../../components/causes.ts";
import { typeIconName, typeName } from "../../components/environment-type.ts";
import { icon } from "../../components/icon.ts";
import type { IconName } from "../../components/icon.ts";
import { card, linkButton, nameCell } from "../../components/layout.ts";
import { countRules, isInForce } from "../../components/rule-counts.ts";
import { badge, formatNumber, stateOf, stateOfVerdict } from "../../components/state.ts";
import type { ShownState } from "../../components/state.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import type { Visit } from "../../page/page.ts";

export type Assertion = AnswerOf<typeof assertArtifact>;
export type Runs = AnswerOf<typeof listArtifactRuns>;
type Flow = Assertion["flows"][number];
type Environment = Runs["environments"][number];

/** Flows and environments that are shown: an artifact in more of them is a base image. */
const MAX_FLOWS = 10;
export const MAX_ENVIRONMENTS = 25;

type Facts = {
  fingerprint: string;
  flows: readonly Flow[];
  runs: Runs;
  /** By the name of the environment; of others, only the stored verdict is known. */
  assertions: ReadonlyMap<string, Assertion>;
};

export function verdictsCard(visit: Visit, { fingerprint, flows, runs, assertions }: Facts): Html {
  const environments = runs.environments.filter(({ is_archived: isArchived }) => !isArchived);
  const rows = environments
    .slice(0, MAX_ENVIRONMENTS)
    .map((environment) =>
      environmentRow(visit, environment, { fingerprint, assertion: assertions.get(environment.environment_name) }),
    );
  const body = html`<table class="t t-stack"><caption class="vh">Verdicts on this artifact</caption><thead
class="hide-s"><tr><th scope="col">Where</th><th scope="col" class="w-st">Verdict</th><th scope="col"
class="w-cause">Because</th><th scope="col"><span class="vh">Why</span></th></tr></thead>${group(
    "Flows",
    flows.slice(0, MAX_FLOWS).map((flow) => flowRow(visit, flow)),
  )}${group("Environments", rows)}</table>`;
  const left = Math.max(0, flows.length - MAX_FLOWS);
  return card({
    id: "h-verdicts",
    title: "Verdicts",
    body,
    foot:
      left > 0 || runs.has_more || environments.length > MAX_ENVIRONMENTS
        ? html`${left > 0 && `${formatNumber(left)} more flows. `}${
            (runs.has_more || environments.length > MAX_ENVIRONMENTS) && "It ran in further environments."
          }`
        : null,
  });
}

const group = (title: string, rows: readonly Value[]): Html | null =>
  rows.length === 0
    ? null
    : html`<tbody><tr class="group"><th colspan="4" scope="colgroup">${title}</th></tr>${rows}</tbody>`;

type Row = {
  mark: IconName;
  name: string;
  href: string;
  sub: Value;
  state: Html;
  because: Value;
  why: string | null;
};

function verdictRow({ mark, name, href, sub, state, because, why }: Row): Html {
  const link = why !== null && linkButton(why, "Why?", { icon: "question", kind: "small" });
  return html`<tr>${nameCell({ href, name: html`<bdi>${name}</bdi>`, mark: icon(mark), sub })}<td>${state}</td><td
class="fill">${because}</td><td class="r">${link}</td></tr>`;
}

function flowRow({ to }: Visit, asserted: Flow): Html {
  const { flow, trail, compliance_status: status } = asserted;
  return verdictRow({
    mark: "workflow",
    name: flow,
    href: trail === null ? to.flow(flow) : to.trail(flow, trail),
    sub: trail === null ? "reported without a trail" : html`<bdi>${trail}</bdi>`,
    state: badge(stateOf(status?.status)),
    because: flowReasons(asserted),
    why: trail === null ? null : to.whyTrail(flow, trail),
  });
}

/** Why it is not compliant in a flow; the number of attestations where it is. */
function flowReasons({ compliance_status: status, causes, further_causes }: Flow): Value {
  const line = causesLine({ causes, further_causes });
  if (line !== null) return line;
  if (status === null) return html`<span class="muted">no attestations without a trail</span>`;
  const { length } = status.attestations_statuses;
  return `${formatNumber(length)} ${length === 1 ? "attestation" : "attestations"}, all compliant`;
}

function environmentRow(
  { to }: Visit,
  environment: Environment,
  { fingerprint, assertion }: { fingerprint: string; assertion: Assertion | undefined },
): Html {
  const { environment_name: name, environment_type: type, snapshot_index: index } = environment;
  const { is_running: isRunning, is_compliant: isCompliant } = environment;
  // Where it no longer runs, what counts is whether it might return. Without policies, nothing decides that.
  const hasPolicies = (assertion?.policy_evaluations ?? []).length > 0;
  const shown: { state: ShownState; word?: string } =
    !isRunning && assertion && !hasPolicies
      ? { state: "unknown" }
      : isRunning || !assertion
        ? { state: stateOfVerdict(isCompliant) }
        : { state: stateOfVerdict(assertion.compliant), word: assertion.compliant ? "Would comply" : "Would fail" };
  const isAllowed = Boolean(assertion?.allow_listing);
  return verdictRow({
    mark: typeIconName(type),
    name,
    href: to.snapshot(name, index),
    sub: html`<span>${typeName(type)}, ${isRunning ? "running" : "ran until"}\u00a0#${index}</span>`,
    state: isAllowed ? badge("allowlisted") : badge(shown.state, shown.word === undefined ? {} : { word: shown.word }),
    because: environmentReasons(assertion),
    why: to.whyArtifact(name, index, fingerprint),
  });
}

function environmentReasons(assertion: Assertion | undefined): Value {
  if (!assertion) return null;
  if (assertion.allow_listing)
    return html`Allowlisted: ${assertion.allow_listing.description || "no reason was given"}`;
  const policies = assertion.policy_evaluations ?? [];
  if (policies.length === 0) return html`<span class="muted">no policy attached</span>`;
  const failing = policies.filter(({ status }) => status === "NON-COMPLIANT");
  if (failing.length > 0) {
    const names = failing.map(({ policy_name: name, policy_version: version }) => `${name} v${version}`).join(", ");
    return causesLine(assertion, html`<bdi>${names}</bdi>`) ?? html`Fails <bdi>${names}</bdi>`;
  }
  return policies.map(
    ({ policy_name: policy, policy_version: version, rule_evaluations: rules }) =>
      html`<div><bdi>${policy}</bdi> v${version}: ${countRules(rules.filter(isInForce))}</div>`,
  );
}
