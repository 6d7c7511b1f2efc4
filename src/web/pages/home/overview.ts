/** `/{org}`: what fails now, and what happened lately; the first steps of an organization that has nothing yet. */
import { listExpiringApiKeys } from "../../../api/accounts/api-keys.ts";
import { getOverview } from "../../../api/environments/overview.ts";
import { putPolicy } from "../../../api/policies/policies.ts";
import { LEAD_TIME } from "../../components/deployments.ts";
import { figures, linkButton, pageHead } from "../../components/layout.ts";
import { formatNumber } from "../../components/state.ts";
import { shortSpan } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";
import { lastNight } from "./change-filters.ts";
import { firstSteps, hasKey, leftSteps, stepsDoneIn } from "./first-steps.ts";
import type { Progress } from "./first-steps.ts";
import {
  deploymentsCard,
  environmentsCard,
  failingCard,
  flowsCard,
  keysCard,
  measuredOf,
  momentsOf,
  othersOf,
  trailsCard,
} from "./overview-cards.ts";
import type { KeyThatExpires, Overview } from "./overview-cards.ts";
import { showPastOverview } from "./past-overview.ts";

const KEY_DAYS = 14;

export const overviewPage = page({
  path: "/{org}",
  past: "then",
  async show(visit) {
    if (visit.moment) return showPastOverview(visit, visit.moment);
    const overview = await visit.call(getOverview, { query: { first_starts: true } });
    const progress = stepsDoneIn(overview);
    const isEmpty = !progress.pipeline && !progress.environment;
    if (isEmpty || visit.query.get("view") === "steps")
      return showFirstSteps(visit, { ...progress, key: progress.key || (await hasKey(visit)) }, { isEmpty });
    const keys =
      visit.role === "admin" ? await visit.call(listExpiringApiKeys, { query: { within_days: KEY_DAYS } }) : [];
    return showOverview(visit, overview, { keys, progress });
  },
});

const showFirstSteps = (visit: Visit, progress: Progress, { isEmpty }: { isEmpty: boolean }): Content => ({
  title: isEmpty ? "Overview" : "First steps",
  section: "overview",
  crumbs: [],
  main: html`${pageHead({
    title: isEmpty ? "Overview" : "First steps",
    sub: isEmpty
      ? "Nothing has been reported yet. Five steps lead to the first verdict on what runs."
      : "Five steps from nothing to the first verdict on what runs.",
  })}${firstSteps(visit, progress)}`,
});

type Shown = { keys: readonly KeyThatExpires[]; progress: Progress };

const showOverview = (visit: Visit, overview: Overview, { keys, progress }: Shown): Content => ({
  title: "Overview",
  section: "overview",
  crumbs: [],
  moments: momentsOf(overview),
  main: html`${pageHead({
    title: "Overview",
    sub: findingOf(overview),
    actions:
      overview.environments.total === 0
        ? []
        : [
            linkButton(visit.to.changes({ from: lastNight(visit.now) }), "Last night", { icon: "pulse" }),
            linkButton(visit.to.environmentDiff("", ""), "Compare", { icon: "git-compare" }),
          ],
  })}<div class="stack">${summary(visit, overview)}<div class="cols"><div class="stack">${failingCard(
    visit,
    overview,
  )}${environmentsCard(visit, overview)}${trailsCard(visit, overview)}</div>
<div class="stack">${deploymentsCard(visit, overview)}${flowsCard(visit, overview)}${
    keys.length > 0 && keysCard(visit, keys)
  }${visit.may(putPolicy) && Object.values(progress).includes(false) && leftSteps(visit, progress)}</div></div></div>`,
});

/** The most important fact, in one sentence. */
function findingOf({ running, environments }: Overview): string {
  const { total, non_compliant: failing, unknown } = running;
  if (environments.total === 0) return "No environment reports what runs yet.";
  if (failing > 0)
    return failing === 1
      ? "One artifact is running that a policy refuses."
      : `${formatNumber(failing)} artifacts are running that a policy refuses.`;
  if (total === 0) return "Nothing is running.";
  if (unknown === total) return "No policy applies to what is running.";
  return "Everything that is running complies with its policies.";
}

function summary({ to }: Visit, { environments, running, deployments }: Overview): Html {
  const { days, total, previous_total: before, lead_time: build, unknown_commit_times: unknown = 0 } = deployments;
  const { commit_lead_time: lead = null, previous_commit_lead_time: leadBefore = null, measured } = deployments;
  const notes = [
    measuredOf({ total, measured }),
    leadBefore !== null && `was ${shortSpan(leadBefore)}`,
    unknown > 0 && `${formatNumber(unknown)} unknown`,
    build !== null && `from build ${shortSpan(build)}`,
  ]
    .filter((note) => note !== false)
    .map((note, at, { length }) => html`<span class="whole">${note}${at < length - 1 && ","}</span> `);
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
      // What is unknown may run beside what fails, in an environment that is not unknown itself.
      note: othersOf(running, (state) => to.environments(state === "UNKNOWN" ? {} : { state })),
      href: to.environments(),
    },
    {
      label: `Deployments, ${days} days`,
      value: formatNumber(total),
      note: differenceTo(total, before),
      href: to.deployments({ from: deployments.daily[0]?.date }),
    },
    {
      label: `${LEAD_TIME}, median`,
      value: lead === null ? html`<span class="muted">–</span>` : shortSpan(lead),
      note: notes.length > 0 && html`<span>${notes}</span>`,
    },
  ]);
}

function differenceTo(total: number, before: number): string {
  if (total === before) return "as many as before";
  const difference = formatNumber(Math.abs(total - before));
  return total > before ? `${difference} more than before` : `${difference} fewer than before`;
}
