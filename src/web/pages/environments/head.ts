/** The head of an environment, with its tabs: the same above each of its pages. */
import { patchTags } from "../../../api/tags.ts";
import { updateEnv } from "../../../api/environments/environments.ts";
import { binderButton } from "../binder/binder-link.ts";
import { typeIcon, typeName } from "../../components/environment-type.ts";
import { icon } from "../../components/icon.ts";
import { pageHead, tabs } from "../../components/layout.ts";
import { badge, stateOfVerdict, tag } from "../../components/state.ts";
import { tagList } from "../../components/tags.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import type { Crumb, Visit } from "../../page/page.ts";
import { formerName, isArchived, isSilent } from "./types.ts";
import type { ShownEnvironment } from "./types.ts";

const TABS = ["running", "events", "log", "policies", "diff", "deployments", "settings"] as const;
export type Tab = (typeof TABS)[number];

const TAB_NAMES: Readonly<Record<Tab, string>> = {
  running: "Running",
  events: "Events",
  log: "Log",
  policies: "Policies",
  diff: "Diff",
  deployments: "Deployments",
  settings: "Settings",
};

/** Policies belong to physical environments; only who may change something has settings. */
export const shownTabs = ({ may }: Visit, { type, name }: ShownEnvironment): Tab[] =>
  TABS.filter((tab) => {
    if (tab === "policies") return type !== "logical";
    if (tab === "settings") return (may(updateEnv) || may(patchTags)) && !isArchived(name);
    return true;
  });

export const environmentTabs = (
  visit: Visit,
  environment: ShownEnvironment,
  { current, running }: { current: Tab; running?: number | null },
): Html =>
  tabs(
    "Environment",
    shownTabs(visit, environment).map((tab) => ({
      text: tab === "running" && visit.moment ? "Ran" : TAB_NAMES[tab],
      href: visit.to.environment(environment.name, { tab: tab === "running" ? null : tab }),
      isCurrent: tab === current,
      count:
        tab === "policies"
          ? visit.moment
            ? null
            : environment.policies.length
          : tab === "running"
            ? (running ?? null)
            : null,
    })),
  );

/** The head of the environment itself. */
export function environmentHead(visit: Visit, environment: ShownEnvironment, actions: readonly Value[] = []): Html {
  const { now, to, moment } = visit;
  const { name, included_environments: members } = environment;
  return html`${pageHead({
    title: html`<bdi>${name}</bdi>`,
    // As of a moment, the state is that of the snapshot in force, which the first tab shows.
    state: html`${moment === null && badge(stateOfVerdict(environment.state), { isLarge: true })}${
      isArchived(name) && tag("archived", "archive")
    }`,
    sub: environment.description,
    meta: [
      html`${typeIcon(environment.type)}${typeName(environment.type)}`,
      members && html`${members.length} ${members.length === 1 ? "member" : "members"}`,
      moment === null && reported(environment, now),
      tagList(environment.tags),
    ],
    actions: [binderButton(visit, { environment: name }), ...actions],
  })}${isArchived(name) && archivedNote(to.environment(formerName(name)))}`;
}

/** When the reporter was last heard of; null for a logical environment, and before the first report. */
export const reported = (environment: ShownEnvironment, now: number): Html | null =>
  environment.last_reported_at === null
    ? null
    : html`${icon("sync")}reported ${time(environment.last_reported_at, now)}${
        isSilent(environment, now) && html` ${tag("not reporting", "alert")}`
      }`;

const archivedNote = (href: string): Html =>
  html`<p class="done" role="status">This environment is archived. Its snapshots stay readable, and nothing can be
reported to it. <a href="${href}">The environment that has its name now</a>, if there is one.</p>`;

export const crumbsOf = ({ to }: Visit, environment?: Pick<ShownEnvironment, "name">): Crumb[] => [
  { text: "Environments", href: to.environments() },
  ...(environment ? [{ text: environment.name, href: to.environment(environment.name) }] : []),
];
