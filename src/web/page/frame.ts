/** The document around every page: navigation, breadcrumb, search, and the files that the page loads. */
import { listAuditLogEntries } from "../../api/accounts/audit-log.ts";
import { listViews } from "../../api/accounts/views.ts";
import { MAX_ATTENTION } from "../../api/environments/overview.ts";
import type { getAttention } from "../../api/environments/overview.ts";
import { readBuildInfo } from "../../assets.ts";
import type { AnswerOf } from "../../http/in-process.ts";
import { hiddenField } from "../components/forms.ts";
import { icon, iconSymbols } from "../components/icon.ts";
import type { IconName } from "../components/icon.ts";
import { reasonsBox } from "../components/layout.ts";
import { count } from "../components/state.ts";
import { formatPastLong, formatUtc } from "../components/time.ts";
import { viewsNavigation } from "../components/views.ts";
import type { View } from "../components/views.ts";
import { html } from "../html.ts";
import type { Html } from "../html.ts";
import type { FileName } from "./files.ts";
import type { Links } from "./links.ts";
import { asOf, asOfBand, timeMenu } from "./past-frame.ts";
import { DONE } from "./page.ts";
import type { Content, Crumb, Section, Visit } from "./page.ts";
import { PREFERENCES } from "./preferences.ts";
import type { PreferenceName, Preferences } from "./preferences.ts";

/** What the frame knows besides the content. */
export type Surroundings = {
  preferences: Preferences;
  /** The organizations of the person, by name. */
  organizations: { names: readonly string[]; hasMore: boolean };
  /** Why the server is in read-only mode, as the end of a sentence; null when it is not. */
  readOnlyReason: string | null;
  /** The path of a file below the root of the server. */
  fileOf(name: FileName): string;
  /** The query by which a stream follows the subject, and the version that this answer shows (live.ts). */
  liveOf(org: string, subject: NonNullable<Content["live"]>): { query: string; version: string | null };
  /** The saved views of the person, then those of the organization. */
  views: readonly View[];
  /** What needs a person now; null in the past, and where it cannot be read. */
  attention: Attention | null;
  /** Whether the sections that depend on it are shown. */
  shows(section: Section): boolean;
};

type Attention = AnswerOf<typeof getAttention>;

/** @property key the letter after `g` that leads there */
type Entry = { section: Section; text: string; icon: IconName; key?: string; href(to: Links): string };

/** The entries of the side bar but for the settings. */
export const ENTRIES: readonly Entry[] = [
  { section: "overview", text: "Overview", icon: "home", key: "o", href: (to) => to.organization() },
  { section: "changes", text: "Changes", icon: "pulse", key: "c", href: (to) => to.changes() },
  { section: "flows", text: "Flows", icon: "workflow", key: "f", href: (to) => to.flows() },
  { section: "environments", text: "Environments", icon: "server", key: "e", href: (to) => to.environments() },
  { section: "artifacts", text: "Artifacts", icon: "package", key: "a", href: (to) => to.artifacts() },
  { section: "attestations", text: "Attestations", icon: "verified", key: "t", href: (to) => to.attestations() },
  { section: "policies", text: "Policies", icon: "law", key: "p", href: (to) => to.policies() },
  { section: "controls", text: "Controls", icon: "checklist", key: "k", href: (to) => to.controls() },
  { section: "repos", text: "Repositories", icon: "repo", key: "r", href: (to) => to.repositories() },
  { section: "actions", text: "Actions", icon: "zap", key: "n", href: (to) => to.actions() },
];
export const SETTINGS: Entry = {
  section: "settings",
  text: "Settings",
  icon: "gear",
  key: "s",
  href: (to) => to.settingsHome(),
};
/** Of the bar at the bottom of a phone; the last one opens the rest. */
const ON_PHONES: readonly Section[] = ["overview", "changes", "flows", "environments"];

const MARK = html`<svg class="mark" viewBox="0 0 16 16" aria-hidden="true"><path fill-rule="evenodd" d="M8 0l7 4v8l-7
4-7-4V4l7-4zm0 1.75L2.5 4.9v6.2L8 14.25l5.5-3.15V4.9L8 1.75zM8 4l3.3 7H9.6L9 9.6H7L6.4 11H4.7L8 4zm0 3.2L7.5
8.4h1L8 7.2z"/></svg>`;

/** The document of a page for a person who is signed in. */
export function framed(visit: Visit, content: Content, surroundings: Surroundings): string {
  const { to, org } = visit;
  // Places that only keys lead to from here.
  const auditLog =
    visit.may(listAuditLogEntries) && html`<a hidden data-go="l" href="${to.settings("audit-log")}"></a>`;
  const views = org !== "" && visit.may(listViews) && html`<a hidden data-go="v" href="${to.views()}"></a>`;
  const places = html`${auditLog}${views}<a hidden data-go="?" href="${to.keys()}"></a>`;
  const { moment } = visit;
  const shown = (part: Html): Html => (moment === null ? part : asOf(part, moment.text));
  const main = html`<main class="page" id="main" tabindex="-1">${
    moment === null && readOnlyNotice(visit, surroundings)
  }${doneMessage(visit)}${shown(content.main)}</main>`;
  const of = org !== "" && moment === null && placeAttributes(visit, content);
  const body = content.drawer ? html`<div class="with-drawer">${main}${shown(content.drawer)}</div>` : main;
  // The past does not change.
  const live = moment === null && content.live && liveAttributes(visit, content.live, surroundings);
  const side = org === "" ? outsideNavigation(to, surroundings) : sideNavigation(visit, content.section, surroundings);
  const top = html`<header class="top">${crumbs(visit, content)}${
    org !== "" && html`${timeMenu(visit, content)}${shown(searchForm(visit))}`
  }
${themeButton(visit, surroundings.preferences)}${accountLink(visit)}</header>`;
  const bottom = org !== "" && bottomBar(visit, content.section);
  const band = asOfBand(visit, content);
  const symbols = iconSymbols(html`${side}${top}${band}${AWAY}${body}${bottom}`.text);
  return documentOf({
    title: [content.title, moment !== null && formatPastLong(moment.at), org].filter(Boolean).join(" - "),
    to,
    surroundings,
    isSignedIn: true,
    hasEditor: content.hasEditor ?? false,
    // Scripts replace the frame as a whole: its icons and whatever names the object come along.
    body: html`<a class="skip" href="#main">Skip to content</a>
<div class="${appClass(surroundings.preferences)}" id="frame"${
      surroundings.preferences.keys === "off" && html` data-keys="off"`
    } data-hx-boost:inherited="target:#frame select:#frame swap:outerHTML">
${symbols}${side}
<div class="app-main">
${top}${band}${AWAY}
<div id="page"${of}${live}>${org !== "" && paperHead(visit, content)}${body}</div>
</div>
${bottom}${places}
</div>`,
  });
}

/** What scripts show when the server does not answer (client/away.ts). */
const AWAY = html`<div class="away" role="status" data-away hidden>${icon("alert")}<span class="grow"><b>The server has
not answered since <span data-away-since></span>.</b> What you see is <span data-away-age></span> old and may have
changed.</span><span class="num" data-away-left></span><button class="btn btn-s" type="button">Retry
now</button></div>`;

/** The head of a printed page: what it shows, as of when, who printed it, and where it is. Not shown on screens. */
function paperHead({ org, path, query, address, user, now }: Visit, content: Content): Html {
  const object = [...content.crumbs.map(({ text }) => text), content.crumb ?? content.title].join(" / ");
  const by = `by ${user.displayName}`;
  const place = `${address.replace(/^https?:\/\//, "")}${path}${query.size === 0 ? "" : `?${query}`}`;
  const printed = html`<span data-printed="${by}">Printed ${by}</span>`;
  return html`<aside class="paper" aria-label="Printed page"><b>${org} / ${object}</b>${printed}<span>${place}</span>
<span>State of <time>${formatUtc(now)}</time></span>${
    content.identity && html`<code>${content.identity}</code>`
  }</aside>`;
}

/** What a person chose about the look of all pages, below the theme. */
const appClass = ({ navigation, density }: Preferences): string =>
  ["app", navigation === "rail" && "app-rail", density === "dense" && "dense"].filter(Boolean).join(" ");

/** The icons of pages that are about one record, by the path behind the organization. */
export const PLACES: readonly (readonly [path: RegExp, icon: IconName])[] = [
  [/^flows\/[^/]+$/, "workflow"],
  [/^flows\/[^/]+\/trails\/[^/]+$/, "history"],
  [/^flows\/[^/]+\/artifacts\/[^/]+$/, "package"],
  [/^environments\/[^/]+(?:\/[^/]+)?$/, "server"],
  [/^policies\/[^/]+$/, "law"],
  [/^controls\/[^/]+$/, "checklist"],
  [/^repos\/[^/]+$/, "repo"],
  [/^attestation-types\/[^/]+$/, "code"],
];

/** Whose page it is and, of a page about one record, what client/recent.ts keeps of it. */
function placeAttributes({ org, user, path }: Visit, { title, crumb, crumbs: way, status }: Content): Html {
  const rest = path.split("/").slice(2).join("/");
  const mark = (status ?? 200) === 200 ? PLACES.find(([pattern]) => pattern.test(rest))?.[1] : undefined;
  const detail = way.length > 1 ? way.at(-1)?.text : undefined;
  return html` data-of="${org}/${user.name}"${
    mark !== undefined &&
    html` data-place="${mark}" data-name="${crumb ?? title}"${detail !== undefined && html` data-detail="${detail}"`}`
  }`;
}

/** What client/live.ts needs to follow the subject of a page. */
function liveAttributes({ to, org }: Visit, subject: NonNullable<Content["live"]>, surroundings: Surroundings): Html {
  const { query, version } = surroundings.liveOf(org, subject);
  return html` data-live="${to.path("live")}${query}" data-live-version="${version}"
data-live-worker="${to.path(surroundings.fileOf("live-worker.js"))}"`;
}

const accountLink = ({ to, user }: Visit): Html =>
  html`<a class="avatar" href="${to.account()}"><span aria-hidden="true">${initials(user.displayName)}</span><span
class="vh">Account of ${user.displayName}</span></a>`;

/** The document of a page for anybody: signing in, setting up, errors without a session. */
export function plain(
  to: Links,
  { title, main, links = [] }: { title: string; main: Html; links?: readonly Html[] },
  surroundings: Surroundings,
): string {
  return documentOf({
    title,
    to,
    surroundings,
    isSignedIn: false,
    hasEditor: false,
    body: html`${iconSymbols(main.text)}<header class="plain-top">
<a class="plain-mark" href="${to.path("login")}">${MARK}Assay</a><span class="sub">${readBuildInfo().version}</span>
<nav aria-label="Pages">${links}<a href="${to.guide()}">API reference</a></nav></header>
<main class="plain" id="main"><h1>${title}</h1>
${main}
</main>`,
  });
}

function documentOf(page: {
  title: string;
  to: Links;
  surroundings: Surroundings;
  isSignedIn: boolean;
  hasEditor: boolean;
  body: Html;
}): string {
  const { title, to, surroundings, isSignedIn, hasEditor, body } = page;
  const file = (name: FileName): string => to.path(surroundings.fileOf(name));
  const { theme: chosen } = surroundings.preferences;
  const theme = chosen === "system" ? null : html` data-theme="${chosen}"`;
  const scripts = [isSignedIn && "app.js", hasEditor && "editor.js"].filter((name) => name !== false) as FileName[];
  return html`<!doctype html>
<html lang="en"${theme}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<meta name="htmx-config" content='{"includeIndicatorCSS":false,"history":"reload","defaultTimeout":30000}'>
<title>${title} - Assay</title>
<link rel="icon" type="image/svg+xml" href="${file("icon.svg")}">
<link rel="preload" as="font" type="font/woff2" crossorigin href="${file("inter-latin.woff2")}">
<link rel="stylesheet" href="${file("assay.css")}">
${scripts.map((name) => html`<script defer src="${file(name)}"></script>`)}
</head>
<body${isSignedIn && html` data-editor-script="${file("editor.js")}"`}>${body}
</body>
</html>
`.text;
}

const doneMessage = ({ query, refused }: Visit): Html | null => {
  const text = refused === null ? DONE[query.get("done") as keyof typeof DONE] : undefined;
  return text === undefined ? null : html`<p class="done" role="status">${icon("check-circle-fill")}${text}</p>`;
};

/** What administrators see on every page: others learn it when they change something. */
const readOnlyNotice = ({ role }: Visit, { readOnlyReason }: Surroundings): Html | null =>
  role === "admin" && readOnlyReason !== null
    ? reasonsBox({ title: "The server is in read-only mode", reasons: [html`Changes are refused: ${readOnlyReason}.`] })
    : null;

function sideNavigation(visit: Visit, current: Section | null, surroundings: Surroundings): Html {
  const { to, org } = visit;
  const { shows, organizations, preferences, attention } = surroundings;
  const link = ({ section, text, icon: name, key, href }: Entry): Html | null =>
    shows(section)
      ? html`<a href="${href(to)}"${section === current && html` aria-current="page"`}${
          key !== undefined && html` data-go="${key}"`
        }>${icon(name)}${text} ${attention && attentionIn(section, attention)}</a>`
      : null;
  return html`<nav class="side" aria-label="Main" id="nav">
${organizationMenu(to, { org, organizations })}
<div class="side-main"><div class="nav">${ENTRIES.map(link)}</div>
${viewsNavigation(visit, surroundings.views)}</div><div class="nav-sep"></div>
<div class="nav">${link(SETTINGS)}<a href="${to.guide()}">${icon("book")}API reference</a></div>
<div class="side-foot">${MARK}<span>Assay ${readBuildInfo().version}</span>${navigationButton(visit, preferences)}</div>
</nav>`;
}

/** How much of a section needs a person: never a total. */
function attentionIn(
  section: Section,
  { non_compliant_environments: environments, open_trails: trails, days }: Attention,
): Html | null {
  // Who stops counting at a number knows only that there are as many.
  const most = MAX_ATTENTION - 1;
  if (section === "environments" && environments > 0)
    return count(environments, { most, title: "Not compliant", isBad: true });
  if (section === "flows" && trails > 0)
    return count(trails, { most, title: `Trails of the last ${days} days that are not compliant` });
  return null;
}

const outsideNavigation = (
  to: Links,
  { organizations }: Surroundings,
): Html => html`<nav class="side" aria-label="Main" id="nav">
${organizationMenu(to, { org: "", organizations })}
<div class="nav"><a href="${to.account()}" aria-current="page">${icon("person")}Account</a>
<a href="${to.guide()}">${icon("book")}API reference</a></div>
<div class="side-foot">${MARK}<span>Assay ${readBuildInfo().version}</span></div>
</nav>`;

/** The head of the side bar: the organization, and a menu of the others. It opens without scripts, too. */
function organizationMenu(
  to: Links,
  { org, organizations }: { org: string } & Pick<Surroundings, "organizations">,
): Html {
  const { names, hasMore } = organizations;
  const entries = names.map(
    (name) =>
      html`<li><a href="${to.organization(name)}"${name === org && html` aria-current="true"`}>${organizationMark(
        name,
      )}<span class="org-name">${name}</span>${name === org && icon("check")}</a></li>`,
  );
  const all = hasMore ? "All organizations and your account" : "Your account";
  return html`<details class="org-menu" data-menu><summary class="org">${organizationMark(org)}<span
class="org-name">${org || "Assay"}</span>${icon("chevron-down")}<span class="vh">Switch organization</span></summary>
<ul class="org-list">${entries}<li><a href="${to.account()}">${icon("person")}${all}</a></li></ul></details>`;
}

const organizationMark = (name: string): Html =>
  html`<span class="org-mark" aria-hidden="true">${initial(name)}</span>`;

/** A crumb as short as the number of a snapshot is never cut. */
const MAX_SHORT_CHARS = 6;

function crumbs({ to, org }: Visit, { crumbs: way, crumb: last, title }: Content): Html {
  const items = [...(org === "" ? [] : [{ text: org, href: to.organization() }]), ...way];
  const crumb = ({ text, href }: Crumb, index: number): Html =>
    html`<li${text.length <= MAX_SHORT_CHARS && html` class="short"`}>${
      index > 0 && icon("chevron-right", "12")
    }<a href="${href}">${text}</a></li>`;
  return html`<nav aria-label="Breadcrumb" class="crumbs-nav"><ol class="crumbs">${items.map(crumb)}<li>${
    items.length > 0 && icon("chevron-right", "12")
  }<b aria-current="page">${last ?? title}</b></li></ol></nav>`;
}

const searchForm = ({ to, query, path }: Visit): Html => {
  const value = path.endsWith("/search") ? (query.get("q") ?? "") : "";
  return html`<form class="search" role="search" method="get" action="${to.search()}"
data-hx-boost="false">${icon("search")}<input
type="search" name="q" aria-label="Search" placeholder="Search or jump to…" value="${value}"
maxlength="256" autocomplete="off" data-search><span class="keys"
aria-hidden="true"><kbd>Ctrl</kbd><kbd>K</kbd></span></form>
<a class="btn btn-quiet btn-icon m-search" href="${to.search()}" aria-label="Search" data-search>${icon("search")}</a>`;
};

/** Switches between the themes of the system, of day and of night; the account page has all of them. */
function themeButton(visit: Visit, { theme }: Preferences): Html {
  const next = theme === "system" ? "light" : theme.startsWith("light") ? "dark" : "system";
  const { [theme]: present, [next]: other } = PREFERENCES.theme;
  const label = `Theme: ${present.toLowerCase()}. Switch to: ${other.toLowerCase()}`;
  const mark =
    theme === "system"
      ? html`<span class="by-system">${icon("sun")}${icon("moon")}</span>`
      : icon(theme.startsWith("dark") ? "moon" : "sun");
  const button = choiceButton(visit, { preference: "theme", choice: next, label, mark });
  return html`<div class="hide-s">${button}</div>`;
}

/** Switches between words beside the icons and words below them; on tablets they always stand below. */
function navigationButton(visit: Visit, { navigation }: Preferences): Html {
  const isRail = navigation === "rail";
  return html`<div class="nav-switch" data-in-place>${choiceButton(visit, {
    preference: "navigation",
    choice: isRail ? "wide" : "rail",
    label: isRail ? "Expand the navigation" : "Collapse the navigation",
    mark: icon(isRail ? "sidebar-collapse" : "sidebar-expand"),
  })}</div>`;
}

/** A button that chooses for this browser, and shows the same page again. */
function choiceButton(
  { to, csrf, path, query }: Visit,
  { preference, choice, label, mark }: { preference: PreferenceName; choice: string; label: string; mark: Html },
): Html {
  const back = query.size === 0 ? path : `${path}?${query}`;
  return html`<form method="post" action="${to.path("preferences")}" data-hx-boost="false">${hiddenField(
    "csrf",
    csrf,
  )}${hiddenField(preference, choice)}${hiddenField("next", back)}<button class="btn btn-quiet btn-icon"
type="submit" aria-label="${label}" title="${label}">${mark}</button></form>`;
}

function bottomBar({ to, path }: Visit, current: Section | null): Html {
  const links = ENTRIES.filter(({ section }) => ON_PHONES.includes(section)).map(
    ({ section, text, icon: name, href }) =>
      html`<a href="${href(to)}"${section === current && html` aria-current="page"`}>${icon(name, "20")}${text}</a>`,
  );
  // The other sections are reached by that page.
  const isBelow = current !== null && !ON_PHONES.includes(current);
  const mark = path.endsWith("/more") ? "page" : isBelow && "true";
  return html`<nav class="bottom" aria-label="Main, bottom">${links}<a href="${to.more()}"${
    mark && html` aria-current="${mark}"`
  }>${icon("three-bars", "20")}More</a></nav>`;
}

const initial = (name: string): string => ([...name][0] ?? "A").toUpperCase();

/** Two letters for a person: of the first two words of the name. */
const initials = (name: string): string =>
  name
    .split(/[\s._-]+/)
    .filter((word) => word !== "")
    .slice(0, 2)
    .map(initial)
    .join("");
