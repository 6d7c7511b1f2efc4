/** The overview as of a moment: what was stored then. */
import { getPastOverview } from "../../../api/environments/past.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { LEAD_TIME } from "../../components/deployments.ts";
import { icon } from "../../components/icon.ts";
import { card, figures, moreLink, nameList, padded, pageHead, table } from "../../components/layout.ts";
import { formatNumber } from "../../components/state.ts";
import { shortSpan } from "../../components/time.ts";
import { DAY_S } from "../../../domain/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { momentText } from "../../page/moment.ts";
import type { Content, Moment, Visit } from "../../page/page.ts";
import { PAST_COLUMNS, pastEnvironmentRow } from "../environments/past.ts";
import { failingCount, failingRow, measuredOf, momentsOf, nothing, othersOf } from "./overview-cards.ts";

type PastOverview = AnswerOf<typeof getPastOverview>;

export async function showPastOverview(visit: Visit, { text }: Moment): Promise<Content> {
  const overview = await visit.call(getPastOverview, { query: { at: text } });
  return {
    title: "Overview",
    section: "overview",
    crumbs: [],
    moments: momentsOf(overview),
    main: html`${pageHead({ title: "Overview", sub: findingOf(overview) })}<div class="stack">${summary(
      visit,
      overview,
    )}<div class="cols"><div class="stack">${failingThen(visit, overview)}${environmentsThen(visit, overview)}</div>
<div class="stack">${policiesThen(visit, overview)}${thenAndNow(overview)}${leftOut()}</div></div></div>`,
  };
}

/** The most important fact, in one sentence. */
function findingOf({ running, environments }: PastOverview): string {
  const { total, non_compliant: failing, unknown } = running;
  if (environments.total === 0) return "No environment existed at that moment.";
  if (failing > 0)
    return failing === 1
      ? "One artifact was running that a policy refused."
      : `${formatNumber(failing)} artifacts were running that a policy refused.`;
  if (total === 0) return "Nothing was running.";
  if (unknown === total) return "No policy applied to what was running.";
  return "Everything that was running complied with its policies.";
}

function summary({ to, now }: Visit, { environments, running, deployments }: PastOverview): Html {
  const { days, total, commit_lead_time: lead, measured } = deployments;
  return figures([
    {
      label: "Environments compliant",
      value: html`${formatNumber(environments.compliant)} <small>of ${formatNumber(environments.total)}</small>`,
      note: othersOf(environments, (state) => to.environments({ state })),
      href: to.environments({ state: "COMPLIANT" }),
    },
    {
      label: "Running artifacts",
      value: formatNumber(running.total),
      note: othersOf(running, (state) => to.environments(state === "UNKNOWN" ? {} : { state })),
      href: to.environments(),
    },
    {
      label: `Deployments, previous ${days} days`,
      value: formatNumber(total),
      href: to.deployments({ from: momentText(now - days * DAY_S) }),
    },
    {
      label: `${LEAD_TIME}, median`,
      value: lead === null ? html`<span class="muted">–</span>` : shortSpan(lead),
      note: measuredOf({ total, measured }),
    },
  ]);
}

function failingThen(visit: Visit, { failing, running, environments }: PastOverview): Html {
  const rest = running.non_compliant - failing.length;
  return card({
    id: "h-fail",
    title: "Failing then",
    note: failingCount(visit, running),
    body:
      failing.length > 0
        ? html`<ul class="rows failing">${failing.map((artifact) => failingRow(visit, artifact))}</ul>`
        : nothing(
            environments.total === 0
              ? "No environment existed, so nothing was evaluated."
              : "Nothing that ran was refused by a policy.",
          ),
    foot:
      rest > 0 &&
      html`${formatNumber(rest)} more failed. <a href="${visit.to.environments({
        state: "NON-COMPLIANT",
      })}">See them by environment</a>`,
  });
}

function environmentsThen(visit: Visit, { environments }: PastOverview): Html {
  const { items, total } = environments;
  return card({
    id: "h-env",
    title: "Environments",
    more: total > 0 && moreLink(visit.to.environments(), `All ${formatNumber(total)}`),
    body:
      items.length === 0
        ? nothing("No environment existed yet, or all of them had been archived.")
        : table({
            caption: "Environments as of then",
            columns: PAST_COLUMNS,
            rows: items.map((environment) => pastEnvironmentRow(visit, environment, { isShort: true })),
          }),
  });
}

function policiesThen({ to }: Visit, { policies, environments: { items: shown } }: PastOverview): Html {
  const versionIn = (place: string, policy: string): number | null =>
    shown.find(({ name }) => name === place)?.policies.find(({ name }) => name === policy)?.version ?? null;
  const rows = policies.items.map(({ name, version, environments, environment_count: places }) => {
    const rest = places - environments.length;
    // An environment keeps the version with which it was evaluated until its next evaluation.
    const named = environments.map((place) => {
      const own = versionIn(place, name);
      return own === null || own === version ? place : `${place} (v${own})`;
    });
    const users = html`<div class="sub">${nameList(named.map((place) => html`<bdi>${place}</bdi>`))}${
      rest > 0 && ` and ${formatNumber(rest)} more`
    }</div>`;
    if (version === null) return html`<li>${icon("alert")}<div class="grow">${name}${users}</div></li>`;
    return html`<li>${icon("law")}<div class="grow"><a class="name" href="${to.policy(name)}"><bdi>${name}</bdi></a>${
      users
    }</div><span class="tag">v${version}</span></li>`;
  });
  const rest = policies.total - policies.items.length;
  return card({
    id: "h-rules",
    title: "Rules in force",
    body: rows.length > 0 ? html`<ul class="rows">${rows}</ul>` : nothing("No policy was attached."),
    foot: rest > 0 && `${formatNumber(rest)} more`,
  });
}

function thenAndNow({ environments, running, now }: PastOverview): Html {
  const rows = [
    ["Environments", environments.total, now.environments],
    ["Artifacts", running.total, now.running],
    ["Failing", running.non_compliant, now.non_compliant],
  ] as const;
  return card({
    id: "h-then-now",
    title: "Then and now",
    body: padded(
      html`<dl class="then-now">${rows.map(
        ([label, then, present]) => html`<dt>${label}</dt><dd>${formatNumber(then)}, now ${formatNumber(present)}</dd>`,
      )}</dl>`,
    ),
  });
}

/** What the overview has of the present, and cannot have of a moment. */
const leftOut = (): Html =>
  html`<p class="sub">States of trails and of flows are kept as they are now, so they are not listed here.</p>`;
