/** `/{org}/environments/{env}`: what runs there now, and the tabs with everything else about it. */
import { getEnvironment } from "../../../api/environments/environments.ts";
import { parsePosition, parseTimeExpression } from "../../../domain/snapshot/expression.ts";
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
  const asked = askedMoment(visit, environment.name);
  const found = await findSnapshot(visit, environment, asked);
  if (!found) return showUnreported(visit, environment);
  const live = asked === null ? { environment: environment.name } : null;
  return snapshotPageOf(visit, { environment, ...found, live });
}

/** A moment that the address asks for. `expression`: as snapshot reads take it; null for a text that is none. */
type AskedMoment = { text: string; expression: string | null; isTime: boolean };

/** The snapshot that the address asks for, else the latest one; null before the first one. */
async function findSnapshot(
  visit: Visit,
  { name }: ShownEnvironment,
  asked: AskedMoment | null,
): Promise<{ snapshot: ShownSnapshot; moment: Moment | null } | null> {
  const read = async (expression: string): Promise<ShownSnapshot | null> => {
    try {
      return await readSnapshot(visit, name, expression);
    } catch (error) {
      if (error instanceof AppError && error.code === "not_found") return null;
      throw error;
    }
  };
  const meant = asked !== null && asked.expression !== null ? await read(asked.expression) : null;
  const snapshot = meant ?? (await read(LATEST));
  return snapshot && { snapshot, moment: asked && { text: asked.text, problem: meant ? null : problemOf(asked) } };
}

const LATEST = "-1";

const problemOf = ({ expression, isTime }: AskedMoment): string =>
  expression === null
    ? "Write a time as 2026-11-20 09:14, or as in Diff: #12, ~1, @{2.days.ago}. This is the latest snapshot."
    : `${isTime ? "There was no snapshot yet" : "There is no such snapshot"}. This is the latest one.`;

/**
 * What the form or the slider above the strip asks for: an expression as in Diff, with the name of the environment or
 * without it, or a time as in What changed; null without any.
 */
function askedMoment({ query, now }: Visit, environment: string): AskedMoment | null {
  const slid = query.get("moment") ?? "";
  if (/^\d{1,11}$/.test(slid)) {
    const expression = inBraces(Number(slid));
    return { text: expression.slice(2, 18).replace("T", " "), expression, isTime: true };
  }
  const text = query.get("at")?.trim() ?? "";
  if (text === "") return null;
  const position = positionIn(text, environment);
  if (parsePosition(position, now) !== null) return { text, expression: position, isTime: position.startsWith("@") };
  const at = parseTimeExpression(text, now);
  return { text, expression: at === null ? null : inBraces(at), isTime: true };
}

const inBraces = (seconds: number): string => `@{${new Date(seconds * 1000).toISOString().slice(0, 19)}}`;

/** The position in `production~1`, `production`, or `~1`; a moment may stand without its braces. */
function positionIn(text: string, environment: string): string {
  const own = text.startsWith(environment) ? text.slice(environment.length) : text;
  if (own === "") return LATEST;
  return /^(?:now|\d+\.\w+\.ago)$/.test(own) ? `@{${own}}` : own;
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
