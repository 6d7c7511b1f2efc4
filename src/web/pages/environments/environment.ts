/** `/{org}/environments/{env}`: what runs there, or ran as of a moment, and the tabs with everything else about it. */
import { getEnvironment } from "../../../api/environments/environments.ts";
import { AppError } from "../../../errors.ts";
import { empty, linkButton } from "../../components/layout.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";
import { allowlistForms } from "./allowlist.ts";
import { environmentDeployments } from "./deployments.ts";
import { diffTab } from "./diff.ts";
import { environmentEvents } from "./events.ts";
import { crumbsOf, environmentHead, environmentTabs, shownTabs } from "./head.ts";
import type { Tab } from "./head.ts";
import { logTab } from "./log.ts";
import { memberForms } from "./members.ts";
import { environmentNotThen, noSnapshotThen, policiesThen, readPast } from "./past.ts";
import type { PastEnvironment } from "./past.ts";
import { policiesTab, policyForms } from "./policies.ts";
import { readSnapshot } from "./running.ts";
import { settingsForms, environmentSettings } from "./settings.ts";
import { snapshotPageOf } from "./snapshot-page.ts";
import { reportCommand } from "./types.ts";
import type { ShownEnvironment } from "./types.ts";

/** @param past the environment as of the moment that is shown; null for the present */
type TabBody = (visit: Visit, environment: ShownEnvironment, past: PastEnvironment | null) => Promise<Html> | Html;
const BODIES: Readonly<Record<Exclude<Tab, "running">, TabBody>> = {
  events: environmentEvents,
  log: logTab,
  policies: policiesTab,
  diff: diffTab,
  deployments: environmentDeployments,
  settings: environmentSettings,
};

/** Where a form that was refused is shown again, whatever the address says. */
const TAB_OF_FORM: Readonly<Record<string, Tab>> = { attach: "policies", detach: "policies" };

async function show(visit: Visit): Promise<Content> {
  const { call, params, query, refused } = visit;
  const environment = await call(getEnvironment, { params: { env_name: params["env"] ?? "" } });
  const asked = refused ? (TAB_OF_FORM[refused.form] ?? "settings") : (query.get("tab") ?? impliedTab(query));
  const tab = shownTabs(visit, environment).find((one) => one === asked) ?? "running";
  const past = visit.moment && (await readPast(visit, environment.name));
  if (visit.moment && !past) return environmentNotThen(visit, environment.name);
  if (tab === "running") return past ? showThen(visit, environment, past) : showRunning(visit, environment);
  const body = past ? await tabThen(visit, { environment, past, tab }) : await BODIES[tab](visit, environment, null);
  return {
    title: environment.name,
    section: "environments",
    crumbs: crumbsOf(visit),
    main: html`${environmentHead(visit, environment)}${environmentTabs(visit, environment, {
      current: tab,
    })}<div class="stack">${body}</div>`,
  };
}

/** What was stored until the moment. There is no tab with settings, whose history is not kept. */
const tabThen = (
  visit: Visit,
  { environment, past, tab }: { environment: ShownEnvironment; past: PastEnvironment; tab: Exclude<Tab, "running"> },
): Promise<Html> | Html => {
  if (tab === "policies") return policiesThen(visit, past);
  return past.snapshot_index === 0
    ? html`<section class="card">${noSnapshotThen(visit)}</section>`
    : BODIES[tab](visit, environment, past);
};

export const environmentPage = page({
  path: "/{org}/environments/{env}",
  show,
  past: "then",
  forms: { ...settingsForms, ...policyForms, ...allowlistForms(show), ...memberForms(show) },
});

/** `?allow=FINGERPRINT` alone opens the form for the allowlist. */
const impliedTab = (query: URLSearchParams): Tab => (query.has("allow") ? "settings" : "running");

async function showRunning(visit: Visit, environment: ShownEnvironment): Promise<Content> {
  try {
    const snapshot = await readSnapshot(visit, environment.name, LATEST);
    return await snapshotPageOf(visit, { environment, snapshot, live: { environment: environment.name }, past: null });
  } catch (error) {
    if (error instanceof AppError && error.code === "not_found") return showUnreported(visit, environment);
    throw error;
  }
}

const LATEST = "-1";

/** The snapshot in force then. */
async function showThen(visit: Visit, environment: ShownEnvironment, past: PastEnvironment): Promise<Content> {
  if (past.snapshot_index === 0) return showUnreported(visit, environment);
  const snapshot = await readSnapshot(visit, environment.name, String(past.snapshot_index));
  return snapshotPageOf(visit, { environment, snapshot, live: null, past });
}

function showUnreported(visit: Visit, environment: ShownEnvironment): Content {
  const isLogical = environment.type === "logical";
  const body = visit.moment
    ? noSnapshotThen(visit)
    : empty({
        icon: "server",
        title: isLogical ? "No member has a snapshot yet" : "Nothing was reported yet",
        text: isLogical
          ? "A logical environment shows what runs in its members, from their next snapshot on."
          : "A reporter sends what runs in this environment. Run it every few minutes where it can see the software.",
        command: reportCommand(environment),
        ...(shownTabs(visit, environment).includes("settings")
          ? {
              actions: linkButton(visit.to.environment(environment.name, { tab: "settings" }), "Settings", {
                icon: "gear",
              }),
            }
          : {}),
      });
  return {
    title: environment.name,
    section: "environments",
    crumbs: crumbsOf(visit),
    main: html`${environmentHead(visit, environment)}${environmentTabs(visit, environment, {
      current: "running",
    })}<section class="card">${body}</section>`,
    live: { environment: environment.name },
  };
}
