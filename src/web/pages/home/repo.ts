/** `/{org}/repos/{id}`: one repository in four tabs: what was built, released, what runs, and its tags. */
import { getRepo } from "../../../api/flows/repos.ts";
import { patchTags } from "../../../api/tags.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { reportedLink } from "../../components/identifier.ts";
import { card, padded, pageHead, tabs } from "../../components/layout.ts";
import { tag } from "../../components/state.ts";
import { tagEditor, tagForms, tagList } from "../../components/tags.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { page } from "../../page/page.ts";
import type { Visit } from "../../page/page.ts";
import { buildTab } from "./repo-build.ts";
import { releaseTab } from "./repo-release.ts";
import { runTab } from "./repo-run.ts";
import { providerWord } from "./repos.ts";

type Repo = AnswerOf<typeof getRepo>;

const TABS = { build: "Build", release: "Release", run: "Run", tags: "Tags" } as const;
type Tab = keyof typeof TABS;

export const repoPage = page({
  path: "/{org}/repos/{id}",
  async show(visit) {
    const { call, params, to, query, now, refused, may } = visit;
    const id = params["id"] as string;
    const repo = await call(getRepo, { params: { repo_name: id }, query: { id } });
    const asked = query.get("tab") ?? "";
    const tab: Tab = refused ? "tags" : Object.hasOwn(TABS, asked) ? (asked as Tab) : "build";
    const shown = (Object.keys(TABS) as Tab[]).filter(
      (key) => key !== "tags" || may(patchTags) || Object.keys(repo.tags).length > 0,
    );
    return {
      title: repo.name,
      section: "repos",
      crumbs: [{ text: "Repositories", href: to.repositories() }],
      main: html`${pageHead({
        title: html`<bdi>${repo.name}</bdi>`,
        state: repo.provider && tag(providerWord(repo.provider)),
        sub: repo.description,
        meta: [
          reportedLink(repo.url, repo.url),
          repo.latest_activity !== null && html`Active ${time(repo.latest_activity, now)}`,
          tagList(repo.tags),
        ],
      })}${tabs(
        "Repository",
        shown.map((key) => ({
          text: TABS[key],
          href: to.repository(id, key === "build" ? {} : { tab: key }),
          isCurrent: key === tab,
        })),
      )}${await tabOf(visit, repo, tab)}`,
    };
  },
  forms: tagForms("repo", ({ params, to }) => {
    const id = params["id"] as string;
    return { id, back: to.repository(id, { tab: "tags" }) };
  }),
});

function tabOf(visit: Visit, repo: Repo, tab: Tab): Html | Promise<Html> {
  if (tab === "build") return buildTab(visit, repo);
  if (tab === "release") return releaseTab(visit, repo);
  if (tab === "run") return runTab(visit, repo);
  return tagsTab(visit, repo);
}

const tagsTab = (visit: Visit, { tags }: Repo): Html =>
  visit.may(patchTags)
    ? card({ id: "h-tags", title: "Tags", note: "for filters and ownership", body: tagEditor(visit, tags) })
    : card({ id: "h-tags", title: "Tags", body: padded(tagList(tags)) });
