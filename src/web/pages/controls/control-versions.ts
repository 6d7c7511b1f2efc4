/** The tab with the versions of a control, newest first: what each changed. */
import { listControlVersions } from "../../../api/policies/control-versions.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { facts, nameCell, table } from "../../components/layout.ts";
import { pageOf, pager } from "../../components/lists.ts";
import { reportedLink } from "../../components/identifier.ts";
import { tag } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import type { Control } from "./control-data.ts";

type Version = AnswerOf<typeof listControlVersions>["versions"][number];

const PER_PAGE = 25;
const DID = { created: "Created", edited: "Edited", archived: "Archived", unarchived: "Unarchived" } as const;

export async function controlVersionsTab(visit: Visit, control: Control): Promise<Html> {
  const { call, query, now } = visit;
  const { versions, total_count, total_pages, page } = await call(listControlVersions, {
    params: { identifier: control.identifier },
    query: { page: pageOf(query), per_page: PER_PAGE },
  });
  const rows = versions.map((version, at) => {
    const name = nameCell({
      href: null,
      name: `Version ${version.version}`,
      after: version.version === control.version && tag("current"),
      sub: `${DID[version.status]} by ${version.created_by}`,
    });
    return html`<tr>${name}<td class="full">${changes(version, versions[at + 1])}</td>
<td class="r" data-l="At">${time(version.created_at, now)}</td></tr>`;
  });
  const columns = [{ text: "Version" }, { text: "What it has" }, { text: "Changed", isRight: true }];
  const list = table({ caption: "Versions", columns, rows });
  const pages = { total: total_count, page, per_page: PER_PAGE, page_count: total_pages };
  return html`<section class="card" aria-label="Versions">${list}</section>${pager(visit, pages)}`;
}

/** The fields that differ from the version before; all of them where that is not on the page. */
function changes(version: Version, before: Version | undefined): Value {
  const linksOf = ({ links }: Version): string => JSON.stringify(links);
  const links = Object.entries(version.links).map(([name, url]) => html`<div>${reportedLink(url, name)}</div>`);
  const shown = [
    before?.name !== version.name && (["Name", html`<bdi>${version.name}</bdi>`] as const),
    before?.description !== version.description &&
      (["Description", html`<span class="prose">${version.description ?? "removed"}</span>`] as const),
    (before ? linksOf(before) !== linksOf(version) : links.length > 0) &&
      (["Links", links.length === 0 ? "removed" : links] as const),
  ].filter((entry) => entry !== false);
  return shown.length === 0 ? html`<span class="muted">The same name, description and links</span>` : facts(shown);
}
