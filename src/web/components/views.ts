/**
 * Saved views: which list an address shows, the address of a list, the form that saves one, and the views in the
 * navigation. A view has the name of a list and its parameters (api/list-pages.ts); addresses are made here.
 */
import { createView } from "../../api/accounts/views.ts";
import type { listViews } from "../../api/accounts/views.ts";
import { LIST_PAGES } from "../../api/list-pages.ts";
import type { ListName, ListParameters } from "../../api/list-pages.ts";
import type { AnswerOf } from "../../http/in-process.ts";
import { compileSchema } from "../../http/validate.ts";
import { html } from "../html.ts";
import type { Html } from "../html.ts";
import type { Links } from "../page/links.ts";
import type { Visit } from "../page/page.ts";
import { typeName } from "./environment-type.ts";
import { hiddenField, textField } from "./forms.ts";
import { icon } from "./icon.ts";
import type { IconName } from "./icon.ts";
import { stateOf, stateWord } from "./state.ts";

export type View = AnswerOf<typeof listViews>[number];
export type List = { page: ListName; parameters: ListParameters };

type Place = {
  /** What the list has. */
  text: string;
  icon: IconName;
  /** The path behind the organization, with the parameters that stand in it. */
  path: readonly string[];
  /** Of a page with tabs: the values of `tab` that show the list; the first one is in its address. */
  tabs?: readonly (string | null)[];
  href(to: Links, parameters: ListParameters): string;
};

/** The address of an object's page without the parameter that is in its path. */
const of =
  (key: "flow" | "environment" | "control", tab?: string) =>
  (to: Links, { [key]: name = "", ...rest }: ListParameters): string =>
    to[key](name, { ...(tab === undefined ? {} : { tab }), ...rest });

const PLACES: Readonly<Record<ListName, Place>> = {
  changes: { text: "Changes", icon: "pulse", path: ["changes"], href: (to, rest) => to.changes(rest) },
  deployments: { text: "Deployments", icon: "rocket", path: ["deployments"], href: (to, rest) => to.deployments(rest) },
  flows: { text: "Flows", icon: "workflow", path: ["flows"], href: (to, rest) => to.flows(rest) },
  trails: { text: "Trails", icon: "history", path: ["flows", "{flow}"], tabs: [null, "trails"], href: of("flow") },
  "flow-artifacts": {
    text: "Artifacts of a flow",
    icon: "package",
    path: ["flows", "{flow}"],
    tabs: ["artifacts"],
    href: of("flow", "artifacts"),
  },
  environments: {
    text: "Environments",
    icon: "server",
    path: ["environments"],
    href: (to, rest) => to.environments(rest),
  },
  running: {
    text: "What runs in an environment",
    icon: "server",
    path: ["environments", "{env}"],
    tabs: [null, "running"],
    href: of("environment"),
  },
  events: {
    text: "Events of an environment",
    icon: "log",
    path: ["environments", "{env}"],
    tabs: ["events"],
    href: of("environment", "events"),
  },
  artifacts: { text: "Artifacts", icon: "package", path: ["artifacts"], href: (to, rest) => to.artifacts(rest) },
  attestations: {
    text: "Attestations",
    icon: "verified",
    path: ["attestations"],
    href: (to, rest) => to.attestations(rest),
  },
  "attestation-types": {
    text: "Attestation types",
    icon: "code",
    path: ["attestation-types"],
    href: (to, rest) => to.attestationTypes(rest),
  },
  policies: { text: "Policies", icon: "law", path: ["policies"], href: (to, rest) => to.policies(rest) },
  controls: { text: "Controls", icon: "checklist", path: ["controls"], href: (to, rest) => to.controls(rest) },
  decisions: {
    text: "Decisions on a control",
    icon: "checklist",
    path: ["controls", "{control}"],
    tabs: [null, "decisions"],
    href: of("control"),
  },
  repos: { text: "Repositories", icon: "repo", path: ["repos"], href: (to, rest) => to.repositories(rest) },
  actions: { text: "Actions", icon: "zap", path: ["actions"], href: (to, rest) => to.actions(rest) },
  "audit-log": {
    text: "Audit log",
    icon: "log",
    path: ["settings", "audit-log"],
    tabs: [null],
    href: (to, rest) => to.settings("audit-log", rest),
  },
};

export const listHref = (to: Links, { page, parameters }: List): string => PLACES[page].href(to, parameters);

/** The parameters of pages that name an object, and those of lists. */
const IN_PATH = { "{flow}": "flow", "{env}": "environment", "{control}": "control" } as const;
const objectOf = ({ path }: Place): (typeof IN_PATH)[keyof typeof IN_PATH] | undefined =>
  IN_PATH[path.at(-1) as keyof typeof IN_PATH];

/** Whether an address is that of a place. */
function isAt({ path, params, query }: Pick<Visit, "path" | "params" | "query">, place: Place): boolean {
  const [, , ...parts] = path.replace(/\/$/, "").split("/");
  const isPath =
    parts.length === place.path.length && place.path.every((part, at) => part in IN_PATH || part === parts[at]);
  const hasObject = place.path.every((part) => !(part in IN_PATH) || part.slice(1, -1) in params);
  return isPath && hasObject && (!place.tabs || place.tabs.includes(query.get("tab") || null));
}

/**
 * The list that an address shows, with the parameters that filter or sort it; values that no parameter takes, which
 * filter nothing, are left out. null for a page that is none of the lists, and for a text that is too long to be kept.
 */
function listAt(visit: Pick<Visit, "path" | "params" | "query">): List | null {
  const found = (Object.entries(PLACES) as [ListName, Place][]).find(([, place]) => isAt(visit, place));
  if (!found) return null;
  const [page, place] = found;
  const object = objectOf(place);
  const parameters: Record<string, string> = {};
  if (object !== undefined) parameters[object] = visit.params[(place.path.at(-1) as string).slice(1, -1)] as string;
  for (const [name, shape] of Object.entries(LIST_PAGES[page].properties)) {
    const value = visit.query.get(name)?.trim() ?? "";
    if (value === "" || name === object) continue;
    if (compileSchema(shape, "plain")(value)) parameters[name] = value;
    else if (!("enum" in shape) && !("pattern" in shape)) return null;
  }
  return { page, parameters };
}

const keyOf = ({ page, parameters }: { page: string; parameters: ListParameters }): string =>
  JSON.stringify([page, Object.entries(parameters).sort(([a], [b]) => (a < b ? -1 : 1))]);

/** Parameters and values whose names are not what people say. */
const WORDS: Readonly<Record<string, string>> = {
  is_compliant: "compliant",
  attestation_id: "id",
  repo: "repository",
  show: "state",
  sort: "order",
  match: "name matches",
  view: "by",
};

function valueWord(name: string, value: string): string {
  if (name === "state") return stateWord(stateOf(value));
  if (name === "type") return typeName(value);
  if (name === "is_compliant") return value === "true" ? "yes" : "no";
  return name === "sort" ? value.replaceAll("_", " ") : value;
}

/** A list in words: `Artifacts, state: Non-compliant, flow: backend-api`. */
export const describeList = ({ page, parameters }: List): string =>
  [
    PLACES[page].text,
    ...Object.entries(parameters).map(([name, value]) => `${WORDS[name] ?? name}: ${valueWord(name, value)}`),
  ].join(", ");

export const listIcon = ({ page }: List): IconName => PLACES[page].icon;

/** Whether a view can be shown: its list is one, and what it names is there. */
const isWhole = ({ list, missing }: View): boolean =>
  missing.length === 0 && Object.keys(list.parameters).every((name) => name in LIST_PAGES[list.page].properties);

/** Why a view shows nothing; null if it is whole. */
export function problemOf(view: View): string | null {
  if (isWhole(view)) return null;
  const [name] = view.missing;
  return name === undefined
    ? "What was saved cannot be read."
    : `The ${name} ${view.list.parameters[name]} does not exist any more.`;
}

/** Where a view leads: to its list, or to what is wrong with it. */
export const viewHref = (to: Links, view: View): string =>
  isWhole(view) ? listHref(to, view.list) : to.views({ view: view.view_id });

/** The fields that say what is saved. Their names are those of the operation. */
export const listFields = ({ page, parameters }: List): Html =>
  html`${hiddenField("list.page", page)}${Object.entries(parameters).map(([name, value]) =>
    hiddenField(`list.parameters.${name}`, value),
  )}`;

/** The fields with the name, and, for those who may choose, whom the view is for. */
export function nameFields(visit: Visit): Html {
  const isForAll = visit.refused?.form === "save" && visit.refused.fields.text("for_everyone") === "yes";
  const choice = (value: string, text: string): Html =>
    html`<label class="row"><input type="radio" name="for_everyone" value="${value}"${
      (value === "yes") === isForAll && html` checked`
    }>${text}</label>`;
  return html`${textField(visit, {
    form: "save",
    name: "name",
    label: "Name",
    of: createView,
    isRequired: true,
    hint: "",
    autocomplete: "off",
  })}${
    visit.role === "admin" &&
    html`<fieldset class="view-for"><legend>For</legend>${choice("", "Me")}${choice(
      "yes",
      `Everybody in ${visit.org}`,
    )}</fieldset>`
  }`;
}

/** The form that saves the list as it is filtered now, folded; null for a list that is not filtered, or not one. */
export function saveView(visit: Visit): Html | null {
  const list = visit.may(createView) ? listAt(visit) : null;
  if (list === null || !isNarrowed(list)) return null;
  return html`<details class="save-view" data-menu><summary class="btn btn-s">${icon("bookmark")}Save view${icon(
    "chevron-down",
    "12",
  )}</summary><form class="form" method="post" action="${visit.to.views()}">${hiddenField(
    "csrf",
    visit.csrf,
  )}${hiddenField("form", "save")}${listFields(list)}${nameFields(visit)}<p class="hint">Keeps the filters and the
order. The navigation shows it.</p><div class="form-do"><button class="btn btn-primary"
type="submit">Save</button></div></form></details>`;
}

/** Whether it has more than the object whose page it is on. */
const isNarrowed = ({ page, parameters }: List): boolean =>
  Object.keys(parameters).some((name) => name !== objectOf(PLACES[page]));

/** Views that the navigation names; the page of all views has the others. */
const MAX_SHOWN = 20;

/** The views in the navigation; null where there is none. */
export function viewsNavigation(visit: Visit, views: readonly View[]): Html | null {
  if (views.length === 0) return null;
  const { to } = visit;
  const shown = listAt(visit);
  const key = shown && keyOf(shown);
  const current = views.find(({ list }) => keyOf(list) === key);
  const links = views.slice(0, MAX_SHOWN).map((view) => {
    const problem = problemOf(view);
    const mark = problem ? icon("alert") : icon(view.for_everyone ? "people" : "bookmark");
    return html`<a class="${problem && "wait"}" href="${viewHref(to, view)}"${
      view === current && html` aria-current="true"`
    } title="${problem ? `${view.name}. ${problem}` : view.name}">${mark}<bdi>${view.name}</bdi>${
      problem && html`<span class="vh">. ${problem}</span>`
    }</a>`;
  });
  const more =
    views.length > MAX_SHOWN && html`<a href="${to.views()}">${icon("three-bars")}All ${views.length} views</a>`;
  return html`<div class="nav-sep"></div><h2 class="nav-h" id="nav-views"><a href="${to.views()}">Views</a></h2>
<div class="nav nav-views" role="group" aria-labelledby="nav-views">${links}${more}</div>`;
}
