/** `/{org}/repos`: the repositories that reports have named. */
import { listRepos } from "../../../api/flows/repos.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { reportedLink } from "../../components/identifier.ts";
import { empty, linkButton, nameCell, pageHead, table } from "../../components/layout.ts";
import { filters, pageOf, pager } from "../../components/lists.ts";
import { tagList } from "../../components/tags.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { page } from "../../page/page.ts";
import type { Visit } from "../../page/page.ts";

type Repo = AnswerOf<typeof listRepos>["repos"][number];

const PER_PAGE = 25;
const PROVIDERS = [
  { value: "", text: "Any provider" },
  { value: "github", text: "GitHub" },
  { value: "gitlab", text: "GitLab" },
  { value: "bitbucket", text: "Bitbucket" },
  { value: "azure-devops", text: "Azure DevOps" },
] as const;

/** What names the repository of an artifact; in most pipelines the client finds it by itself. */
const COMMAND = `kosli attest artifact IMAGE --artifact-type oci --name NAME --flow FLOW --trail TRAIL \\
  --repository acme/backend-api --repo-provider github --repo-url https://github.com/acme/backend-api`;

export const reposPage = page({
  path: "/{org}/repos",
  async show(visit) {
    const { call, query } = visit;
    const provider = PROVIDERS.find(({ value }) => value !== "" && value === query.get("provider"))?.value;
    const search = query.get("search")?.trim() || null;
    const tags = (query.get("tag") ?? "").split(",").filter((text) => text.trim() !== "");
    const current = pageOf(query);
    const answer = await call(listRepos, {
      query: {
        page: current,
        per_page: PER_PAGE,
        search,
        ...(provider === undefined ? {} : { provider }),
        ...(tags.length === 0 ? {} : { tag: tags }),
      },
    });
    const isFiltered = search !== null || provider !== undefined || tags.length > 0;
    return {
      title: "Repositories",
      section: "repos",
      crumbs: [],
      main: html`${pageHead({ title: "Repositories", sub: "Where the artifacts come from, as their reports say." })}${
        answer.total_count === 0 && !isFiltered ? noRepos() : list(visit, answer)
      }`,
    };
  },
});

const noRepos = (): Html =>
  html`<section class="card">${empty({
    icon: "repo",
    title: "No repositories yet",
    text: "A repository appears with the first trail or artifact whose report names it.",
    command: COMMAND,
  })}</section>`;

function list(visit: Visit, answer: AnswerOf<typeof listRepos>): Html {
  const { total_count: total, total_pages, page: current, repos } = answer;
  const rows = repos.map((repo) => repoRow(visit, repo));
  const body =
    rows.length > 0
      ? table({
          caption: "Repositories",
          columns: [
            { text: "Name" },
            { text: "Provider", className: "w-st" },
            { text: "Tags", className: "hide-m" },
            { text: "Active", isRight: true },
          ],
          rows,
        })
      : empty({
          icon: "repo",
          title: total > 0 ? "This page is beyond the end" : "No repository matches",
          text: total > 0 ? "The list has fewer pages." : "Names are searched for the text in any place.",
          actions: linkButton(visit.to.repositories(), "Clear filters"),
        });
  return html`${filters(visit, {
    items: [
      { kind: "search", name: "search", label: "Search by name" },
      { kind: "choice", name: "provider", label: "Provider", choices: PROVIDERS },
      { kind: "text", name: "tag", label: "Tag, such as team:payments" },
    ],
    total,
    what: total === 1 ? "repository" : "repositories",
  })}<section class="card" aria-label="Repositories">${body}</section>${pager(visit, {
    total,
    page: current,
    per_page: PER_PAGE,
    page_count: total_pages,
  })}`;
}

const repoRow = ({ to, now }: Visit, repo: Repo): Html =>
  html`<tr>${nameCell({
    href: to.repository(repo.id),
    name: html`<bdi>${repo.name}</bdi>`,
    sub: html`<span class="cut-block">${reportedLink(repo.url, repo.url)}</span>`,
  })}<td>${repo.provider ?? html`<span class="muted">–</span>`}</td><td class="hide-m">${tagList(repo.tags)}</td>
<td class="r">${time(repo.latest_activity, now)}</td></tr>`;
