/** `/{org}/environments/{env}`: what runs there now, and the tabs with everything else about it. */
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
import type { Moment } from "./history.ts";
import { logTab } from "./log.ts";
import { policiesTab, policyForms } from "./policies.ts";
import { readSnapshot } from "./running.ts";
import type { ShownSnapshot } from "./artifact-rows.ts";
import { settingsForms, environmentSettings } from "./settings.ts";
import { snapshotPageOf } from "./snapshot-page.ts";
import { reportCommand } from "./types.ts";
import type { ShownEnvironment } from "./types.ts";

type TabBody = (visit: Visit, environment: ShownEnvironment) => Promise<Html> | Html;
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
  if (tab === "running") return showRunning(visit, environment);
  return {
    title: environment.name,
    section: "environments",
    crumbs: crumbsOf(visit),
    main: html`${environmentHead(visit, environment)}${environmentTabs(visit, environment, {
      current: tab,
    })}<div class="stack">${await BODIES[tab](visit, environment)}</div>`,
  };
}

export const environmentPage = page({
  path: "/{org}/environments/{env}",
  show,
  forms: { ...settingsForms, ...policyForms, ...allowlistForms(show) },
});

/** `?allow=FINGERPRINT` alone opens the form for the allowlist. */
const impliedTab = (query: URLSearchParams): Tab => (query.has("allow") ? "settings" : "running");

async function showRunning(visit: Visit, environment: ShownEnvironment): Promise<Content> {
  const moment = momentOf(visit.query);
  const found = await findSnapshot(visit, environment, moment);
  if (!found) return showUnreported(visit, environment);
  const live = moment === null ? { environment: environment.name } : null;
  return snapshotPageOf(visit, { environment, ...found, live });
}

/** The snapshot in force at the time in the address, else the latest one; null before the first one. */
async function findSnapshot(
  visit: Visit,
  { name }: ShownEnvironment,
  moment: Moment | null,
): Promise<{ snapshot: ShownSnapshot; moment: Moment | null } | null> {
  const latest = async (): Promise<ShownSnapshot | null> => {
    try {
      return await readSnapshot(visit, name, "-1");
    } catch (error) {
      if (error instanceof AppError && error.code === "not_found") return null;
      throw error;
    }
  };
  if (moment?.problem === null) {
    try {
      const snapshot = await readSnapshot(visit, name, `@{${moment.text.replace(" ", "T")}}`);
      return { snapshot, moment: { ...moment, text: moment.text.slice(0, 16) } };
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== "not_found") throw error;
      moment = { ...moment, problem: "There was no snapshot yet. This is the latest one." };
    }
  }
  const snapshot = await latest();
  return snapshot && { snapshot, moment };
}

const TIME = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d)?Z?)?$/;

/** The time that the form or the slider above the strip asks for, as `2026-11-20 09:14:00`; null without one. */
function momentOf(query: URLSearchParams): Moment | null {
  const seconds = query.get("moment");
  if (seconds !== null && /^\d{1,11}$/.test(seconds))
    return { text: new Date(Number(seconds) * 1000).toISOString().slice(0, 19).replace("T", " "), problem: null };
  const typed = query.get("at")?.trim() ?? "";
  if (typed === "") return null;
  const [, day, time = "00:00", rest = ":00"] = TIME.exec(typed) ?? [];
  const text = `${day} ${time}${rest}`;
  return day === undefined || Number.isNaN(Date.parse(`${text}Z`))
    ? { text: typed, problem: "Write the time as 2026-11-20 09:14. This is the latest snapshot." }
    : { text, problem: null };
}

function showUnreported(visit: Visit, environment: ShownEnvironment): Content {
  const isLogical = environment.type === "logical";
  const body = empty({
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
