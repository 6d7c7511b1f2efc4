/** `/{org}/changes`: what happened in a period, by environment or by time. */
import { listServiceAccounts } from "../../../api/accounts/service-accounts.ts";
import { listChanges } from "../../../api/environments/period-changes.ts";
import { parseTimeExpression } from "../../../domain/snapshot/expression.ts";
import { AppError } from "../../../errors.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { typeIcon, typeName } from "../../components/environment-type.ts";
import { icon } from "../../components/icon.ts";
import { card, empty, inSentence, linkButton, padded, pageHead, snippet } from "../../components/layout.ts";
import { pageOf, pager } from "../../components/lists.ts";
import { count, formatNumber, plainState, stateIcon, stateOfVerdict } from "../../components/state.ts";
import { formatMoment, formatUtc } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import { queryText } from "../../page/links.ts";
import { momentText } from "../../page/moment.ts";
import { page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";
import { changeFilters, kindsOfGroup } from "./change-filters.ts";
import type { Problems } from "./change-filters.ts";
import { changeRows } from "./change-rows.ts";
import type { ListedChange } from "./change-rows.ts";

type Listed = AnswerOf<typeof listChanges>;
type Place = Listed["environments"][number];

const PER_PAGE = 100;

export const changesPage = page({
  path: "/{org}/changes",
  past: "then",
  async show(visit) {
    const answer = await read(visit);
    const content: Omit<Content, "main"> = { title: "What changed", crumb: "Changes", section: "changes", crumbs: [] };
    if ("problems" in answer) {
      const form = await changeFilters(visit, { problems: answer.problems, counts: null });
      const words = empty({
        icon: "search",
        title: "These changes cannot be shown",
        text: "Correct the fields above, or clear them.",
        actions: linkButton(visit.to.changes(), "Clear filters"),
      });
      const main = html`${pageHead({ title: "What changed" })}${form}<section class="card">${words}</section>`;
      return { ...content, main };
    }
    return { ...content, main: await shown(visit, answer.changes) };
  },
});

/** What is wrong with the address stands at its fields. */
async function read(visit: Visit): Promise<{ changes: Listed } | { problems: Problems }> {
  const { call, query } = visit;
  const text = (name: string): string => (query.get(name) ?? "").trim();
  const group = text("kind");
  const kinds = kindsOfGroup(group);
  if (kinds === null) return { problems: { kind: `There is no kind '${group}'` } };
  try {
    const changes = await call(listChanges, {
      query: {
        ...periodOf(visit),
        environment: text("environment") || null,
        ...(kinds.length > 0 ? { kinds: [...kinds] } : {}),
        page: pageOf(query),
        per_page: PER_PAGE,
      },
    });
    return { changes };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    if (error.code === "not_found")
      return { problems: { environment: `There is no environment '${text("environment")}', or it is archived` } };
    if (error.code !== "invalid" || error.fields === null) throw error;
    const { from, to } = error.fields;
    if (!from && !to) throw error;
    return { problems: { ...(from ? { from: words(from) } : {}), ...(to ? { to: words(to) } : {}) } };
  }
}

/** As the address has it. As of a moment, the period ends with it at the latest, and durations count from it. */
function periodOf({ query, moment }: Visit): { from: string | null; to: string | null } {
  const text = (name: string): string => (query.get(name) ?? "").trim();
  const [from, to] = [text("from"), text("to")];
  if (moment === null) return { from: from || null, to: to || null };
  const timeOf = (expression: string, endOfDay: { endOfDay?: boolean } = {}): string | null => {
    const at = expression === "" ? null : parseTimeExpression(expression, moment.at, endOfDay);
    // Any other text is refused at its field.
    return at === null ? expression || null : momentText(Math.min(at, moment.at));
  };
  return { from: timeOf(from), to: timeOf(to, { endOfDay: true }) ?? moment.text };
}

/** The words of the operation for people. */
const words = (problem: string): string =>
  problem.startsWith("Input should not be after")
    ? "The period starts after its end"
    : "Write it as 2026-01-31, 2026-01-31T18:00 or 12hours";

async function shown(visit: Visit, changes: Listed): Promise<Html> {
  const { query, to, org } = visit;
  const { data, pagination, from, since } = changes;
  const form = await changeFilters(visit, { problems: {}, counts: changes.counts });
  const asked = {
    ...periodOf(visit),
    environment: query.get("environment"),
  };
  const head = pageHead({
    title: "What changed",
    meta: [html`<b>${findingOf(changes)}</b>`, html`${period(changes)}`],
    actions: [
      visit.moment === null && linkButton("#h-feed", "Feed", { icon: "rss" }),
      linkButton(`${to.api("changes", org)}${queryText(asked)}`, "JSON", { icon: "code" }),
    ],
  });
  const late =
    since > from &&
    html`<p class="problem" role="status">${icon("alert")}<span>There is more than one page can search: changes before
${formatMoment(since, visit.now)} UTC are left out. <a
href="${visit.here({ to: new Date(since * 1000).toISOString(), page: null })}">Show those before it</a>, or choose one
environment.</span></p>`;
  const list =
    data.length === 0
      ? html`<section class="card">${nothing(visit, changes)}</section>`
      : query.get("view") === "time"
        ? byTime(visit, changes)
        : byEnvironment(visit, changes);
  const body = html`${late}${list}${quiet(visit, changes)}${pager(visit, pagination)}`;
  return html`${head}${form}<div class="cols cols-changes"><div class="stack">${body}</div>
<div class="stack">${placesCard(visit, changes)}${visit.moment === null && subscribeCard(visit)}</div></div>`;
}

/** The most important fact of the period, in one sentence: of all kinds, as the figures are. */
function findingOf({ turned, counts }: Listed): string {
  const parts = [
    turned.non_compliant > 0 &&
      `${formatNumber(turned.non_compliant)} ${
        turned.non_compliant === 1 ? "environment" : "environments"
      } turned non-compliant`,
    turned.compliant > 0 && `${formatNumber(turned.compliant)} recovered`,
    turned.non_compliant === 0 && (counts.stale ?? 0) > 0 && `${formatNumber(counts.stale ?? 0)} not reporting`,
  ].filter((part) => part !== false);
  if (parts.length > 0) return `${parts.join(", ")}.`;
  if (Object.values(counts).every((number) => (number ?? 0) === 0)) return "Nothing changed.";
  return (counts.verdict ?? 0) === 0 ? "No verdict changed." : "No environment has another verdict than before.";
}

const period = ({ from, to }: Listed): string => `${formatUtc(from).slice(0, 16)} to ${formatUtc(to).slice(0, 16)} UTC`;

function nothing({ to, query }: Visit, { pagination }: Listed): Html {
  if (pagination.total > 0)
    return empty({ icon: "search", title: "This page is beyond the end", text: "The list has fewer pages." });
  const isFiltered = ["environment", "kind"].some((name) => (query.get(name) ?? "") !== "");
  return empty({
    icon: "history",
    title: isFiltered ? "No change matches" : "Nothing changed",
    text: isFiltered
      ? "In this period nothing of that kind happened there."
      : "Upgrades, verdicts, rules, and, for administrators, people and keys appear here.",
    actions: html`${query.get("from") !== "7days" && linkButton(to.changes({ from: "7days" }), "Last 7 days")}${
      isFiltered && linkButton(to.changes(), "Clear filters")
    }`,
  });
}

function byTime(visit: Visit, { data }: Listed): Html {
  return card({
    id: "h-all",
    title: "By time",
    note: "newest first",
    body: changeRows(visit, data, { isMixed: true }),
  });
}

/** A card for each environment, those that fail first; what concerns all of them comes last. */
function byEnvironment(visit: Visit, { data, environments }: Listed): Html {
  const groups = Map.groupBy(data, ({ environment_name: name }) => name ?? "");
  const places = new Map(environments.map((place) => [place.name, place]));
  const order = [...places.keys(), ...[...groups.keys()].filter((name) => name !== "" && !places.has(name))];
  const cards = order.flatMap((name, index) => {
    const own = groups.get(name);
    return own ? [environmentCard(visit, { name, index, changes: own, place: places.get(name) ?? null })] : [];
  });
  const whole = groups.get("");
  return html`${cards}${
    whole &&
    card({
      id: "h-organization",
      title: html`<span class="row">${icon("organization")}Organization</span>`,
      note: (visit.query.get("kind") ?? "") === "" ? "rules, people, keys and records" : null,
      body: changeRows(visit, whole),
    })
  }`;
}

function environmentCard(
  visit: Visit,
  {
    name,
    index,
    changes,
    place,
  }: { name: string; index: number; changes: readonly ListedChange[]; place: Place | null },
): Html {
  const { to } = visit;
  const stale = changes.find(({ kind }) => kind === "stale");
  const isTurned = place !== null && place.first_snapshot !== null && place.compliant_before !== place.compliant_after;
  const flip = isTurned && flipOf(place.compliant_before, place.compliant_after);
  const silent = stale && html`<span class="st wait">${icon("alert")}Not reporting</span>`;
  const link = html`<a class="name" href="${to.environment(name)}"><bdi>${name}</bdi></a>`;
  return card({
    id: `h-env-${index}`,
    title: html`<span class="row">${typeIcon(place?.type ?? "")}${link}</span>`,
    note: html`<span class="row">${place && typeName(place.type)}${flip}${silent}</span>`,
    more: place && diffLink(visit, place),
    body: changeRows(visit, changes),
  });
}

const flipOf = (before: boolean | null, after: boolean | null): Html =>
  html`<span class="flip">${plainState(stateOfVerdict(before))}${icon("arrow-right", "12")}${plainState(
    stateOfVerdict(after),
  )}</span>`;

function diffLink({ to }: Visit, { name, first_snapshot: first, last_snapshot: last }: Place): Html | null {
  if (first === null || last === null) return null;
  if (first === 1 && last === 1) return html`<a class="more" href="${to.snapshot(name, 1)}">#1</a>`;
  const before = Math.max(1, first - 1);
  return html`<a class="more" href="${to.environmentDiff(`${name}#${before}`, `${name}#${last}`)}">Diff #${before} to
#${last}</a>`;
}

/** Environments in which nothing changed, in one line. */
function quiet({ to, query }: Visit, { unchanged, unchanged_total: total }: Listed): Html | null {
  if (unchanged.length === 0 || (query.get("environment") ?? "") !== "") return null;
  const names: Value[] = unchanged.map((name) => html`<a href="${to.environment(name)}"><bdi>${name}</bdi></a>`);
  if (total > unchanged.length) names.push(`${formatNumber(total - unchanged.length)} more`);
  return html`<p class="muted">Nothing changed in ${inSentence(names)}.</p>`;
}

function placesCard(
  visit: Visit,
  { data, environments, environments_total: total, counts, pagination }: Listed,
): Html | null {
  if (pagination.total === 0) return null;
  const silent = new Set(data.flatMap((one) => (one.kind === "stale" ? [one.environment_name] : [])));
  const rows = environments.slice(0, 12).map(({ name, total: own, compliant_after: verdict }) => {
    const late =
      silent.has(name) && html`<span class="st wait">${icon("alert")}<span class="vh">Not reporting</span></span>`;
    const link = html`<a class="grow name cut" href="${visit.here({ environment: name })}"><bdi>${name}</bdi></a>`;
    return html`<li>${stateIcon(stateOfVerdict(verdict))}${link}${late}${count(own)}</li>`;
  });
  const others = total - rows.length;
  const whole = html`<a class="grow name" href="${visit.here({ kind: "people" })}">People and records</a>`;
  const people = (counts.member ?? 0) + (counts.key ?? 0) + (counts.record ?? 0);
  return card({
    id: "h-places",
    title: "Environments",
    note: count(total),
    body: html`<ul class="rows rows-dense">${rows}${
      people > 0 && html`<li>${icon("people")}${whole}${count(people)}</li>`
    }</ul>`,
    foot: others > 0 && html`<span>${formatNumber(others)} more</span>`,
  });
}

/** How to subscribe: the address with the filters of the page, and what a feed reader sends. */
function subscribeCard({ to, org, query, address, may }: Visit): Html {
  const group = (query.get("kind") ?? "").trim();
  const filter = { environment: query.get("environment"), kinds: (kindsOfGroup(group) ?? []).join(",") };
  const path = to.api("changes", org, "atom").slice(to.root.length);
  return card({
    id: "h-feed",
    title: "Subscribe",
    more: may(listServiceAccounts) && html`<a class="more" href="${to.settings("service-accounts")}">Keys</a>`,
    body: padded(html`<p class="sub">An Atom feed of these changes. Your feed reader signs in with HTTP basic
authentication: a key as the user name, best that of a service account that may only read, and any password.</p>
${snippet(`${address}/${path}${queryText(filter)}`)}`),
  });
}
