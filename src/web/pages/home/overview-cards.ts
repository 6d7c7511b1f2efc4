/** The cards of the overview. */
import type { listExpiringApiKeys } from "../../../api/accounts/api-keys.ts";
import { hasMoreTrails } from "../../../api/environments/overview.ts";
import type { getOverview } from "../../../api/environments/overview.ts";
import { listEnvs } from "../../../api/environments/environments.ts";
import { STALE_AFTER_S } from "../../../domain/snapshot/period-changes.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { causesLine } from "../../components/causes.ts";
import { barChart, barList, countedIn, legend, segments } from "../../components/charts.ts";
import { artifactName, commit } from "../../components/identifier.ts";
import { typeIcon, typeName } from "../../components/environment-type.ts";
import { icon } from "../../components/icon.ts";
import { card, empty, linkButton, moreLink, nameCell, padded, table } from "../../components/layout.ts";
import {
  badge,
  count,
  formatNumber,
  plural,
  stateIcon,
  stateOf,
  stateOfVerdict,
  stateWord,
} from "../../components/state.ts";
import { formatDate, time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import type { Content, Visit } from "../../page/page.ts";

export type Overview = AnswerOf<typeof getOverview>;
export type KeyThatExpires = AnswerOf<typeof listExpiringApiKeys>[number];
type Failing = Overview["failing"][number];
type Environment = Overview["environments"]["items"][number];
type Trail = Overview["trails"]["items"][number];

/** A sentence in place of rows. */
export const nothing = (text: Value): Html => html`<p class="card-b muted">${text}</p>`;

/** The moment before the latest artifact began to fail, for the menu with the time. */
export const momentsOf = ({ failing }: { failing: readonly Failing[] }): NonNullable<Content["moments"]> =>
  failing.slice(0, 1).map(({ name, environment_name: environment, since }) => ({
    text: `Before ${name} failed in ${environment}`,
    at: Math.max(0, since - 1),
  }));

/** What the lead times are of, where that is not all deployments: false if it is. */
export const measuredOf = ({ total, measured = total }: { total: number; measured?: number | undefined }) =>
  measured < total && `of the latest ${formatNumber(measured)}`;

/** `2 non-compliant, 1 unknown`; null if there are none. @param listOf where those in a state are listed */
export function othersOf(
  { non_compliant: failing, unknown }: { non_compliant: number; unknown: number },
  listOf: (state: string) => string,
): Html | null {
  const counted = [
    { number: failing, word: "non-compliant", state: "NON-COMPLIANT" },
    { number: unknown, word: "unknown", state: "UNKNOWN" },
  ].filter(({ number }) => number > 0);
  const parts = counted.map(
    ({ number, word, state }, at) =>
      html`${at > 0 && ", "}<a class="nowrap" href="${listOf(state)}">${formatNumber(number)} ${word}</a>`,
  );
  return parts.length === 0 ? null : html`<span>${parts}</span>`;
}

const FAILING = { state: "NON-COMPLIANT" } as const;

/** How many fail, which leads to the environments in which they do. */
export const failingCount = ({ to }: Visit, { non_compliant: failing }: { non_compliant: number }): Html | null =>
  failing === 0
    ? null
    : html`<a href="${to.environments(FAILING)}" aria-label="${formatNumber(failing)} failing, by environment">${count(
        failing,
        {
          isBad: true,
        },
      )}</a>`;

export function failingCard(visit: Visit, { failing, running, environments }: Overview): Html {
  const rows = failing.map((artifact) => failingRow(visit, artifact));
  const rest = running.non_compliant - failing.length;
  return card({
    id: "h-fail",
    title: "Failing now",
    note: failingCount(visit, running),
    body:
      rows.length > 0
        ? html`<ul class="rows failing">${rows}</ul>`
        : nothing(
            environments.total === 0
              ? "Artifacts that run and do not comply with a policy are listed here."
              : "Nothing that runs is refused by a policy.",
          ),
    foot:
      rest > 0 &&
      html`${formatNumber(rest)} more fail. <a href="${visit.to.environments(FAILING)}">See them by environment</a>`,
  });
}

/** An artifact that fails, or failed as of the moment that is shown. */
export function failingRow({ to, now, moment }: Visit, artifact: Failing): Html {
  const { environment_name: environment, snapshot_index: index, fingerprint, flow_name: flow } = artifact;
  const snapshot = to.snapshot(environment, index);
  const href = flow !== null && fingerprint !== "" ? to.artifact(flow, fingerprint) : snapshot;
  const policies = artifact.policies.map(({ name, version }) => `${name} v${version}`).join(", ");
  const why =
    fingerprint !== "" &&
    linkButton(to.whyArtifact(environment, index, fingerprint), moment ? "Why then?" : "Why?", {
      icon: "question",
      kind: "small",
    });
  return html`<li>${stateIcon("non_compliant")}<div class="grow"><div class="row"><a class="name cut" href="${href}"
data-prefetch>${artifactName(artifact.name)}</a><span class="muted">in <a href="${snapshot}"
data-prefetch>${environment}</a> #${index}</span></div>${causesLine(
    artifact,
    policies === "" ? null : policies,
  )}</div><span class="muted nowrap">${time(artifact.since, now)}</span>${why}</li>`;
}

export function environmentsCard(visit: Visit, { environments }: Overview): Html {
  const { items, total } = environments;
  const create = visit.may(listEnvs) && linkButton(visit.to.environments(), "Environments", { icon: "server" });
  return card({
    id: "h-env",
    title: "Environments",
    more: total > 0 && moreLink(visit.to.environments(), `All ${formatNumber(total)}`),
    body:
      items.length === 0
        ? empty({
            icon: "server",
            title: "No environments yet",
            text: "An environment shows what runs in a cluster, on a server or in a service, and what complies.",
            command: "kosli create environment production --type K8S",
            actions: create,
          })
        : table({
            caption: "Environments",
            columns: [
              { text: "Name" },
              { text: "State", className: "w-st" },
              { text: "Running", className: "w-seg" },
              { text: "Changed", className: "w-time" },
              { text: "Reported", className: "w-time" },
            ],
            rows: items.map((environment) => environmentRow(visit, environment)),
            isOneLine: true,
          }),
  });
}

function environmentRow({ to, now }: Visit, environment: Environment): Html {
  const { name, type, policy_count: policies, last_reported_at: reported } = environment;
  const isStale = reported !== null && now - reported > STALE_AFTER_S;
  const exception = type === "logical" ? "logical" : policies === 0 && "no policy";
  return html`<tr>${nameCell({
    href: to.environment(name),
    name,
    sub: exception,
    after: html`<span class="vh"> ${typeName(type)}</span>`,
    mark: typeIcon(type),
  })}<td>${badge(stateOfVerdict(environment.state))}</td><td class="seg-td">${running(to, environment)}</td>
<td data-l="Changed">${time(environment.last_changed_at, now)}</td><td data-l="Reported">${
    isStale
      ? html`<span class="st wait">${icon("alert")}<span class="vh">Late: </span>${time(reported, now)}</span>`
      : time(reported, now)
  }</td></tr>`;
}

function running(to: Visit["to"], environment: Environment): Html {
  const {
    name,
    compliant_count,
    allowlisted_count: allowlisted,
    non_compliant_count: failing,
    unknown_count: unknown,
  } = environment;
  const total = compliant_count + failing + unknown;
  const compliant = Math.max(0, compliant_count - allowlisted);
  const list = (show: string): string => to.environment(name, { show });
  // The list of compliant artifacts has those that the allowlist accepts.
  const ofAll = allowlisted > 0 ? `of ${formatNumber(compliant_count)} compliant` : "compliant";
  const parts = [
    { colour: "ok", value: compliant, words: ofAll, href: list("compliant") },
    { colour: "allow", value: allowlisted, words: "allowlisted", href: list("compliant") },
    { colour: "bad", value: failing, words: "non-compliant", href: list("failing") },
    { colour: "none", value: unknown, words: "of unknown state", href: list("unknown") },
  ] as const;
  const sentence =
    parts
      .filter(({ value }) => value > 0)
      .map(({ value, words: of }) => `${value} ${of}`)
      .join(", ") || "Nothing is running";
  const number = html`${formatNumber(total)}<span class="t-word"> running</span>`;
  const words =
    total === 0
      ? html`<span>nothing<span class="t-word"> running</span></span>`
      : html`<a href="${to.environment(name)}"><span>${number}</span></a>${failing > 0 && ","}`;
  const fails = failing > 0 && html` <a href="${list("failing")}">${formatNumber(failing)} failing</a>`;
  const bar = segments(parts, sentence);
  return html`<div class="seg-cell"><span class="sub num"><span>${words}${fails}</span></span>${bar}</div>`;
}

export function trailsCard(visit: Visit, { trails, flows }: Overview): Html {
  const { items, total, days } = trails;
  return card({
    id: "h-trails",
    title: "Needs attention",
    note: html`${total > 0 && count(total)}${hasMoreTrails(trails) && " or more"} ${
      total === 1 ? "trail" : "trails"
    } of the last ${days} days`,
    body:
      items.length === 0
        ? nothing(
            flows.total === 0
              ? "Trails that are incomplete or not compliant are listed here."
              : `No trail that changed in the last ${days} days is incomplete or non-compliant.`,
          )
        : table({
            caption: "Trails that need attention",
            columns: [
              { text: "Trail" },
              { text: "State", className: "w-st" },
              { text: "Cause" },
              { text: "Commit", className: "hide-m" },
              { text: "Last event", isRight: true },
            ],
            rows: items.map((trail) => trailRow(visit, trail)),
          }),
  });
}

const trailRow = ({ to, now }: Visit, trail: Trail): Html =>
  html`<tr>${nameCell({
    href: to.trail(trail.flow_name, trail.name),
    name: html`<bdi>${trail.name}</bdi>`,
    sub: trail.flow_name,
  })}<td>${badge(stateOf(trail.state))}</td><td class="fill">${causesLine(trail)}</td>
<td class="hide-m hide-s">${commit(trail.git_commit, trail.commit_url)}</td>
<td class="r">${time(trail.last_event_at, now)}</td></tr>`;

export function deploymentsCard({ now, to }: Visit, { deployments }: Overview): Html {
  const { daily, total, days } = deployments;
  const failing = daily.reduce((sum, { non_compliant: value }) => sum + value, 0);
  const unknown = daily.reduce((sum, { unknown: value }) => sum + value, 0);
  const dayOf = (date: string | undefined): string => formatDate(Date.parse(`${date}T00:00:00Z`) / 1000, now);
  const sentence =
    `Deployments a day from ${dayOf(daily[0]?.date)} to ${dayOf(daily.at(-1)?.date)}: ${formatNumber(total)} in all, ` +
    `${formatNumber(failing)} of them non-compliant`;
  const bars = daily.map(({ date, compliant, non_compliant, unknown: other }, index) => ({
    counted: countedIn(compliant + non_compliant + other, {
      day: dayOf(date),
      href: to.deployments({ from: date, to: date }),
    }),
    // Every other day, the last one included.
    label: (daily.length - 1 - index) % 2 === 0 ? String(Number(date.slice(8))) : "",
    parts: [
      { colour: "bad", value: non_compliant },
      { colour: "none", value: other },
      { colour: "ok", value: compliant },
    ] as const,
    isCurrent: index === daily.length - 1,
  }));
  const colours = [
    { colour: "ok", text: "compliant" },
    { colour: "bad", text: "non-compliant" },
    ...(unknown > 0 ? ([{ colour: "none", text: "unknown" }] as const) : []),
  ] as const;
  return card({
    id: "h-dep",
    title: "Deployments",
    note: `${formatNumber(total)} in ${days} days`,
    more: total > 0 && moreLink(to.deployments({ from: daily[0]?.date }), `All ${formatNumber(total)}`),
    body:
      total === 0
        ? nothing("Nothing was deployed. A deployment is the start of an artifact that was reported to a flow.")
        : padded(
            html`${barChart(bars, sentence)}${legend(colours)}${barList(
              "By day",
              bars.map(({ counted }) => counted),
            )}`,
          ),
  });
}

export function flowsCard({ to, now }: Visit, { flows }: Overview): Html {
  const rows = flows.items.map(({ name, latest_state: latest, latest_activity_at: at, trail_count: trails }) => {
    const state = stateOf(latest);
    const word = latest === null ? "no trails" : stateWord(state).toLowerCase();
    const number = latest !== null && `${plural(trails, "trail")} · changed last: `;
    const mark = latest === null ? icon("workflow") : stateIcon(state, `Trail that changed last: ${word}`);
    return html`<li>${mark}<div class="grow"><a class="name cut" href="${to.flow(name)}" data-prefetch>${name}</a>
<div class="sub">${number}<span class="nowrap">${word}</span></div></div>${time(at, now)}</li>`;
  });
  return card({
    id: "h-flows",
    title: "Flows",
    more: flows.total > 0 && moreLink(to.flows(), `All ${formatNumber(flows.total)}`),
    body:
      rows.length === 0
        ? nothing(html`No flows yet. <a href="${to.flows()}">Create one</a> to collect evidence of builds.`)
        : html`<ul class="rows">${rows}</ul>`,
  });
}

const MAX_KEYS = 5;

export function keysCard({ to, now }: Visit, keys: readonly KeyThatExpires[]): Html {
  const href = to.settings("service-accounts");
  const rows = keys.slice(0, MAX_KEYS).map(
    ({ service_account: account, description, expires_at: at }) =>
      html`<li>${icon("key")}<div class="grow"><a class="name" href="${href}">${account}</a>
<div class="sub cut-block">${description}</div></div>
<span class="st wait">${icon("clock")}${time(at, now)}</span></li>`,
  );
  const rest = keys.length - rows.length;
  return card({
    id: "h-keys",
    title: "Keys expiring soon",
    more: moreLink(href, "Keys"),
    body: html`<ul class="rows">${rows}</ul>`,
    foot: rest > 0 && `${formatNumber(rest)} more`,
  });
}
