/** `/{org}/repos`: the repositories that reports have named. */
import { listRepos } from "../../../api/flows/repos.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { reportedLink } from "../../components/identifier.ts";
import { nameCell } from "../../components/layout.ts";
import { listPage, pageFrom } from "../../components/list-page.ts";
import { tagsOf } from "../../components/lists.ts";
import { tagList } from "../../components/tags.ts";
import { time } from "../../components/time.ts";
import { icon } from "../../components/icon.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { page } from "../../page/page.ts";
import type { Visit } from "../../page/page.ts";

type Repo = AnswerOf<typeof listRepos>["repos"][number];

const PROVIDERS = [
  { value: "", text: "Any provider" },
  { value: "github", text: "GitHub" },
  { value: "gitlab", text: "GitLab" },
  { value: "bitbucket", text: "Bitbucket" },
  { value: "azure-devops", text: "Azure DevOps" },
] as const;

/** `GitLab` for the `gitlab` of the API; one without a name of its own as it is. */
export const providerWord = (provider: string): string =>
  PROVIDERS.find(({ value }) => value === provider)?.text ?? provider;

/** What names the repository of an artifact; in most pipelines the client finds it by itself. */
const COMMAND = `kosli attest artifact IMAGE --artifact-type oci \\
  --flow FLOW --trail TRAIL --name NAME \\
  --repository acme/backend-api --repo-provider github \\
  --repo-url https://github.com/acme/backend-api`;

export const reposPage = page({
  path: "/{org}/repos",
  show: listPage({
    title: "Repositories",
    section: "repos",
    sub: "Where the artifacts come from, as their reports say.",
    what: ["repository", "repositories"],
    read: pageFrom(listRepos, ({ query }) => {
      const provider = PROVIDERS.find(({ value }) => value !== "" && value === query.get("provider"))?.value;
      return {
        query: { search: query.get("search")?.trim() || null, ...(provider ? { provider } : {}), ...tagsOf(query) },
      };
    }),
    filters: [
      { kind: "search", name: "search", label: "Search by name" },
      { kind: "choice", name: "provider", label: "Provider", choices: PROVIDERS },
      { kind: "text", name: "tag", label: "Tag: key or key:value" },
    ],
    columns: [
      { text: "Name" },
      { text: "Provider", className: "w-st" },
      { text: "Tags", className: "hide-m" },
      { text: "Active", isRight: true },
    ],
    row: (visit: Visit, repo: Repo) => repoRow(visit, repo),
    empty: {
      icon: "repo",
      title: "No repositories yet",
      text: "A repository appears with the first trail or artifact whose report names it.",
      command: COMMAND,
    },
    none: "Names are searched for the text in any place.",
  }),
});

const repoRow = ({ to, now }: Visit, repo: Repo): Html =>
  html`<tr>${nameCell({
    href: to.repository(repo.id),
    name: html`<bdi>${repo.name}</bdi>`,
    mark: icon("repo"),
    sub: html`<span class="cut-block">${reportedLink(repo.url, repo.url)}</span>`,
  })}
<td class="fill">${repo.provider ? providerWord(repo.provider) : html`<span class="muted">–</span>`}</td>
<td class="hide-m">${tagList(repo.tags)}</td>
<td class="r">${time(repo.latest_activity, now)}</td></tr>`;
