/** `/{org}/search`: what a text matches, in groups. The field at the top of every page suggests the same list. */
import { searchNames } from "../../../api/flows/name-search.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { icon } from "../../components/icon.ts";
import type { IconName } from "../../components/icon.ts";
import { empty, linkButton, pageHead } from "../../components/layout.ts";
import { searchField } from "../../components/search-field.ts";
import { stateOf, stateWord } from "../../components/state.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { page } from "../../page/page.ts";
import type { Visit } from "../../page/page.ts";

type Group = AnswerOf<typeof searchNames>["groups"][number];
type Result = Group["results"][number];

const MAX_CHARS = 256;

const KINDS: Readonly<Record<Group["kind"], { text: string; icon: IconName }>> = {
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
  async show(visit) {
    const { call, query, to } = visit;
    const text = (query.get("q") ?? "").trim().slice(0, MAX_CHARS);
    const { groups } = await call(searchNames, { query: { q: text } });
    const only = onlyResult(groups, text);
    // Suggestions are shown even if there is one only.
    const redirect = only !== null && !query.has("suggest") ? hrefOf(visit, only) : null;
    return {
      title: text === "" ? "Search" : `Search for ${text}`,
      section: null,
      crumbs: [],
      crumb: "Search",
      ...(redirect === null ? {} : { redirect }),
      main: html`${pageHead({ title: "Search" })}${searchField(to, text, { hasFocus: text === "" })}${
        groups.length > 0 ? results(visit, groups) : noResults(visit, text)
      }`,
    };
  },
});

/** Characters of a fingerprint or commit that pages show: enough to mean one. */
const SHOWN_HASH = /^[0-9a-f]{7,}$/;

/** The only result, if the text is its name, or a fingerprint or commit as pages show it. */
function onlyResult(
  [group, ...others]: readonly Group[],
  text: string,
): { kind: Group["kind"]; result: Result } | null {
  const result = group?.results[0];
  if (!group || !result || others.length > 0 || group.results.length > 1) return null;
  const wanted = text.toLowerCase().replace(/^sha256:/, "");
  const isHash = group.kind === "fingerprint" || group.kind === "commit";
  const isMeant = result.name.toLowerCase() === wanted || (isHash && SHOWN_HASH.test(wanted));
  return isMeant ? { kind: group.kind, result } : null;
}

const results = (visit: Visit, groups: readonly Group[]): Html =>
  html`<div class="results" data-results>${groups.map(
    ({ kind, results: items, has_more: hasMore }) => html`<section class="card" aria-labelledby="found-${kind}"><div
class="card-h"><h2 id="found-${kind}">${KINDS[kind].text}</h2>${
      hasMore && html`<span class="sub">the first ${items.length}; type more to find others</span>`
    }</div><ul class="rows">${items.map((result) => resultRow(visit, { kind, result }))}</ul></section>`,
  )}</div>`;

function resultRow(visit: Visit, { kind, result }: { kind: Group["kind"]; result: Result }): Html {
  const { icon: name } = KINDS[kind];
  const isHash = kind === "fingerprint" || kind === "commit";
  const label = isHash ? html`<code>${result.name}</code>` : html`<bdi>${result.name}</bdi>`;
  const href = hrefOf(visit, { kind, result });
  const detail = detailOf(kind, result);
  const below = detail !== "" && html`<span class="sub cut-block">${detail}</span>`;
  const inner = html`<span class="name">${label}</span>${below}`;
  return html`<li>${icon(name)}${
    href === null
      ? html`<div class="grow found">${inner}</div>`
      : html`<a class="grow found" href="${href}">${inner}</a>`
  }</li>`;
}

/** What stands below the name. */
function detailOf(kind: Group["kind"], { detail, flow_name: flow, trail_name: trail, ...place }: Result): string {
  if (kind === "trail") return `${flow} · ${stateWord(stateOf(detail)).toLowerCase()}`;
  if (kind === "commit") return [flow, trail].filter(Boolean).join(" · ");
  if (place.environment_name !== null) return [detail, `in ${place.environment_name}`].filter(Boolean).join(" · ");
  return detail;
}

/** The page of a result; null if it has none. */
function hrefOf({ to }: Visit, { kind, result }: { kind: Group["kind"]; result: Result }): string | null {
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

const noResults = ({ to, org }: Visit, text: string): Html =>
  html`<section class="card">${
    text === ""
      ? empty({
          icon: "search",
          title: "What are you looking for?",
          text: `Paste a commit or fingerprint, at least 5 characters of it, or type a part of a name in ${org}.`,
        })
      : empty({
          icon: "search",
          title: "Nothing matches",
          text: html`Nothing in ${org} has “<bdi class="any">${text}</bdi>” in its name. Trails and artifacts are
found by the beginning of their names, fingerprints and commits by at least 5 characters. Archived flows and
environments are left out.`,
          actions: [
            linkButton(to.search(), "Clear the search"),
            linkButton(to.artifacts(), "All artifacts", { icon: "package" }),
          ],
        })
  }</section>`;
