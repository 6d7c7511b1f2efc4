/**
 * `/{org}/search`: what a text matches, in groups, with the places and commands of the person. The palette
 * (client/palette.ts) shows the same list. `>` at the beginning asks for places and commands only, `kind=` for all
 * results of a kind, `choose=` for the environment that a command needs, `time=` for a time.
 */
import { listViews } from "../../../api/accounts/views.ts";
import { listAuditLogEntries } from "../../../api/accounts/audit-log.ts";
import { listEnvs } from "../../../api/environments/environments.ts";
import { COMPARED_IN_PART, searchNames } from "../../../api/flows/name-search.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { TYPES, typeIconName, typeName } from "../../components/environment-type.ts";
import { icon } from "../../components/icon.ts";
import type { IconName } from "../../components/icon.ts";
import { card, empty, padded, pageHead } from "../../components/layout.ts";
import { searchField } from "../../components/search-field.ts";
import { formatNumber, plainState, stateOf } from "../../components/state.ts";
import { viewHref } from "../../components/views.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import { PLACES } from "../../page/frame.ts";
import { momentForm } from "../../page/past-frame.ts";
import { page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";
import { ASK_TIME, choiceOf, chosenAddress, listCommands } from "./commands.ts";
import type { Choice, Offer } from "./commands.ts";

type Group = AnswerOf<typeof searchNames>["groups"][number];
type Kind = Group["kind"];
type Result = Group["results"][number];

const MAX_CHARS = 256;
/** Among which one chooses; a part of the name finds others. */
const MAX_ENVIRONMENTS = 50;
/** Flows whose lists of trails are offered below the trails that were found. */
const MAX_FLOW_LISTS = 3;

const KINDS: Readonly<Record<Kind, { text: string; icon: IconName }>> = {
  fingerprint: { text: "Fingerprints", icon: "package" },
  commit: { text: "Commits", icon: "git-commit" },
  flow: { text: "Flows", icon: "workflow" },
  trail: { text: "Trails", icon: "history" },
  environment: { text: "Environments", icon: "server" },
  artifact: { text: "Artifacts", icon: "package" },
  policy: { text: "Policies", icon: "law" },
  control: { text: "Controls", icon: "checklist" },
  repository: { text: "Repositories", icon: "repo" },
  service_account: { text: "Service accounts", icon: "key" },
};

export const searchPage = page({
  path: "/{org}/search",
  past: "present",
  async show(visit) {
    const { query, to } = visit;
    const text = (query.get("q") ?? "").trim().slice(0, MAX_CHARS);
    if (query.has(ASK_TIME) && visit.may(listEnvs)) return askForTime(visit);
    const choice = choiceOf(visit);
    const { list, redirect = null } = await (choice ? environmentsFor(visit, choice, text) : listFor(visit, text));
    const title = choice ? `${choice.text}: in which environment?` : "Search";
    return {
      title: text === "" ? title : `Search for ${text}`,
      section: null,
      crumbs: [],
      crumb: "Search",
      ...(redirect === null ? {} : { redirect }),
      main: html`${pageHead({ title })}${searchField(to, text, {
        hasFocus: text === "",
        choose: choice?.key ?? null,
      })}${list}`,
    };
  },
});

/** Without the menu of the page that a person came from, the overview is shown as of the time. */
const askForTime = (visit: Visit): Content => ({
  title: "Go to a time",
  section: null,
  crumbs: [],
  main: html`${pageHead({ title: "Go to a time" })}${card({
    id: "h-time",
    title: "Which moment?",
    body: padded(momentForm(visit, { id: "moment", value: "", problem: null, timePath: `/${visit.org}` })),
  })}`,
});

type Found = { list: Html; redirect?: string | null };

/** What a text finds: records, then commands and places. */
async function listFor(visit: Visit, text: string): Promise<Found> {
  const isCommand = text.startsWith(">");
  const wanted = text.replace(/^>\s*/, "");
  const kind = kindOf(visit);
  const { groups } = isCommand ? { groups: [] } : await findNames(visit, wanted, kind);
  const { commands, places } = kind === null ? listCommands(visit, wanted) : { commands: [], places: [] };
  const views = kind === null && !isCommand ? await viewsNamed(visit, wanted) : [];
  const hasCommands = commands.length + places.length + views.length > 0;
  if (groups.length === 0 && !hasCommands) return { list: nothingFor(visit, wanted) };
  // Suggestions are shown even if there is one only.
  const only = visit.query.has("suggest") ? null : onlyResult(groups, wanted);
  const count = groups.reduce(
    (sum, { results }) => sum + results.length,
    views.length + commands.length + places.length,
  );
  const sections = [
    text === "" && (visit.query.has("suggest") ? recentSection() : recentIcons()),
    ...groups.map((group) => groupSection(visit, group, { text: wanted, kind })),
    offerSection("Views", views, wanted),
    offerSection("Commands", commands, wanted),
    offerSection("Go to", places, wanted),
  ];
  return { list: results(count, sections), redirect: only && hrefOf(visit, only) };
}

/** Views in a list that has room for other things, too. */
const MAX_VIEWS_FOUND = 5;

async function viewsNamed({ call, may, to }: Visit, text: string): Promise<Offer[]> {
  if (text === "" || !may(listViews)) return [];
  const found = (await call(listViews)).filter(({ name }) => name.toLowerCase().includes(text.toLowerCase()));
  return found
    .slice(0, MAX_VIEWS_FOUND)
    .map((view) => ({ text: view.name, icon: "bookmark", href: viewHref(to, view) }));
}

const findNames = ({ call }: Visit, text: string, kind: Kind | null): Promise<AnswerOf<typeof searchNames>> =>
  call(searchNames, { query: { q: text, ...(kind === null ? {} : { kind }) } });

function kindOf({ query }: Visit): Kind | null {
  const text = query.get("kind") ?? "";
  return Object.hasOwn(KINDS, text) ? (text as Kind) : null;
}

/** The environments in which a command can be given. A logical one has neither an allowlist nor policies of its own. */
async function environmentsFor(visit: Visit, { key }: { key: Choice }, text: string): Promise<Found> {
  const type = TYPES.map(({ value }) => value).filter((value) => value !== "logical");
  const query = { page: 1, per_page: MAX_ENVIRONMENTS, type, ...(text === "" ? {} : { name: text }) };
  const { environments } = (await visit.call(listEnvs, { query })) as Exclude<
    AnswerOf<typeof listEnvs>,
    readonly unknown[]
  >;
  const rows = environments.map(({ name, type }) => ({
    href: chosenAddress(visit.to, key, name),
    icon: typeIconName(type),
    name: marked(name, text),
    detail: typeName(type),
  }));
  if (rows.length === 0) return { list: nothingFor(visit, text) };
  return { list: results(rows.length, [section("environments", "Environments", { rows: rows.map(row) })]) };
}

/** Characters of a fingerprint or commit that pages show: enough to mean one. */
const SHOWN_HASH = /^[0-9a-f]{7,}$/;

/** The only result, if the text is its name, or a fingerprint or commit as pages show it. */
function onlyResult([group, ...others]: readonly Group[], text: string): { kind: Kind; result: Result } | null {
  const result = group?.results[0];
  if (!group || !result || others.length > 0 || group.results.length > 1) return null;
  const wanted = text.toLowerCase().replace(/^sha256:/, "");
  const isHash = group.kind === "fingerprint" || group.kind === "commit";
  const isMeant = result.name.toLowerCase() === wanted || (isHash && SHOWN_HASH.test(wanted));
  return isMeant ? { kind: group.kind, result } : null;
}

/** @param count what a person with a screen reader hears of the list */
const results = (count: number, sections: readonly Value[]): Html =>
  html`<div class="results" data-results="${count === 1 ? "1 result" : `${count} results`}">${sections}</div>`;

const section = (id: string, title: string, { rows, more }: { rows: readonly Html[]; more?: Value }): Html =>
  html`<section class="card" aria-labelledby="found-${id}"><div class="card-h"><h2
id="found-${id}">${title}</h2>${more}</div><ul class="rows">${rows}</ul></section>`;

/** The icons of what may be recent: the palette brings none along that this page does not have. */
const recentIcons = (): Html => html`<div hidden>${PLACES.map(([, name]) => icon(name))}</div>`;

/** What was opened last: the browser fills it in (client/recent.ts), with the icons of all that it may be. */
const recentSection = (): Html =>
  html`<section class="card" aria-labelledby="found-recent" data-recent hidden><div class="card-h"><h2
id="found-recent">Recent</h2></div><ul class="rows">${row({
    href: ".",
    icon: "history",
    name: "",
    detail: html``,
  })}</ul>${recentIcons()}</section>`;

function groupSection(
  visit: Visit,
  { kind, results: items, has_more: hasMore, total }: Group,
  { text, kind: asked }: { text: string; kind: Kind | null },
): Html {
  const all = visit.to.search({ q: text, kind });
  const count = total === null ? (COMPARED_IN_PART.has(kind) ? "more" : "the first 100") : formatNumber(total);
  return section(kind, KINDS[kind].text, {
    rows: [
      ...items.map((result) => resultRow(visit, { kind, result }, text)),
      ...listRows(visit, items, { kind, text }),
    ],
    more:
      hasMore &&
      (asked === null
        ? html`<a class="more" href="${all}">Show ${count}<span
class="vh"> ${KINDS[kind].text.toLowerCase()}</span></a>`
        : html`<span class="sub">the first ${items.length}; type more to find others</span>`),
  });
}

/** The lists that find every trail and artifact by any part of its name, however old it is. */
function listRows({ to }: Visit, items: readonly Result[], { kind, text }: { kind: Kind; text: string }): Html[] {
  if (kind === "artifact" && items.some(({ id }) => id !== null)) return [row(allArtifacts(to, text))];
  if (kind !== "trail") return [];
  const flows = new Set(items.flatMap(({ flow_name: flow }) => flow ?? []));
  return [...flows].slice(0, MAX_FLOW_LISTS).map((flow) =>
    row({
      href: to.flow(flow, { search: text }),
      icon: "search",
      name: html`All trails of <b><bdi>${flow}</bdi></b> with <b><bdi class="any">${text}</bdi></b>`,
    }),
  );
}

const allArtifacts = (to: Visit["to"], text: string): Row => ({
  href: to.artifacts({ search: text }),
  icon: "search",
  name: html`All artifacts with <b><bdi class="any">${text}</bdi></b>`,
});

function offerSection(title: string, offers: readonly Offer[], text: string): Html | null {
  if (offers.length === 0) return null;
  const rows = offers.map(({ icon: name, href, text: label, keys }) =>
    row({ icon: name, href, name: marked(label, text), end: keys && keyMarks(keys) }),
  );
  return section(title.toLowerCase().replace(" ", "-"), title, { rows });
}

/** Keys, for those who see them: the list of keys (`/account/keyboard`) says the same in words. */
const keyMarks = (keys: readonly string[]): Html =>
  html`<span aria-hidden="true">${keys.map((key) => html`<kbd>${key.toUpperCase()}</kbd>`)}</span>`;

type Row = { href: string | null; icon: IconName; name: Value; detail?: Value; end?: Value };

function row({ href, icon: name, name: label, detail, end }: Row): Html {
  const inner = html`${icon(name)}<span class="found-t"><span class="name">${label}</span>${
    detail && html` <span class="sub">${detail}</span>`
  }</span><span class="found-r">${end}</span>`;
  return html`<li>${
    href === null ? html`<div class="found">${inner}</div>` : html`<a class="found" href="${href}">${inner}</a>`
  }</li>`;
}

function resultRow(visit: Visit, { kind, result }: { kind: Kind; result: Result }, text: string): Html {
  const isHash = kind === "fingerprint" || kind === "commit";
  const label = marked(result.name, text);
  return row({
    href: hrefOf(visit, { kind, result }),
    icon: KINDS[kind].icon,
    name: isHash ? html`<code>${label}</code>` : label,
    detail: detailOf(kind, result),
    end: kind === "trail" && plainState(stateOf(result.detail)),
  });
}

/** A name with the part that matches marked. */
function marked(name: string, text: string): Html {
  const wanted = text.toLowerCase().replace(/^sha256:/, "");
  const at = wanted === "" ? -1 : name.toLowerCase().indexOf(wanted);
  if (at === -1) return html`<bdi>${name}</bdi>`;
  const end = at + wanted.length;
  return html`<bdi>${name.slice(0, at)}<mark>${name.slice(at, end)}</mark>${name.slice(end)}</bdi>`;
}

/** What stands beside the name. */
function detailOf(kind: Kind, { detail, flow_name: flow, trail_name: trail, ...place }: Result): string {
  if (kind === "trail") return flow ?? "";
  if (kind === "commit") return [flow, trail].filter(Boolean).join(" · ");
  if (kind === "environment") return typeName(detail);
  if (place.environment_name !== null) return [detail, `in ${place.environment_name}`].filter(Boolean).join(" · ");
  return detail;
}

/** The page of a result; null if it has none. */
function hrefOf({ to }: Visit, { kind, result }: { kind: Kind; result: Result }): string | null {
  const { name, flow_name: flow, trail_name: trail, fingerprint, environment_name: environment } = result;
  switch (kind) {
    case "flow":
      return to.flow(name);
    case "trail":
      return flow === null ? null : to.trail(flow, name);
    case "environment":
      return to.environment(name);
    case "policy":
      return to.policy(name);
    case "control":
      return to.control(name);
    case "service_account":
      return to.serviceAccount(name);
    case "repository":
      return result.id === null ? null : to.repository(result.id);
    case "commit":
      return flow === null ? null : trail === null ? to.flow(flow) : to.trail(flow, trail);
    default:
      if (flow !== null && fingerprint !== null) return to.artifact(flow, fingerprint, result.id);
      return environment === null ? null : to.snapshot(environment, result.snapshot_index ?? 1);
  }
}

/** What was looked for, and where else to look. */
function nothingFor({ to, org, may }: Visit, text: string): Html {
  const quoted = html`<bdi class="any">${text}</bdi>`;
  const rows: Row[] = [
    {
      href: to.attestations({ name: text }),
      icon: "verified",
      name: html`Attestations named <b>${quoted}</b>`,
    },
    allArtifacts(to, text),
  ];
  if (may(listAuditLogEntries))
    rows.push({
      href: to.settings("audit-log", { actor: text }),
      icon: "log",
      name: html`Entries of the audit log by <b>${quoted}</b>`,
    });
  return html`<div class="results" data-results="No results"><section class="card">${empty({
    icon: "search",
    title: html`No results for “${quoted}”`,
    text: html`Nothing in ${org} has it in its name. Trails and artifacts are found by the beginning of their names,
fingerprints and commits by at least 5 characters. Archived flows and environments are left out.`,
  })}</section>${section("else", "Try", { rows: rows.map(row) })}</div>`;
}
