/** The commits between two builds: how many, by how many people, and the newest of them. */
import type { compareSnapshots } from "../../api/environments/snapshot-diff.ts";
import type { AnswerOf } from "../../http/in-process.ts";
import { html } from "../html.ts";
import type { Html } from "../html.ts";
import { icon } from "./icon.ts";
import { authorName, commit, reportedLink } from "./identifier.ts";
import { formatNumber, plural } from "./state.ts";

type Commits = NonNullable<AnswerOf<typeof compareSnapshots>["data"][number]["commits"]>;

/** `7 commits by 3 people`. */
export function commitsWords({ total, is_complete: isComplete, is_behind: isBehind, authors }: Commits): string {
  if (total === 0) return isComplete ? "the same commit" : "commits not known";
  const people = authors === 0 ? "" : ` by ${authors === 1 ? "1 person" : `${formatNumber(authors)} people`}`;
  const count = `${isComplete ? "" : "more than "}${plural(total, "commit")}`;
  return isBehind ? `${count} behind${people && `,${people}`}` : `${count}${people}`;
}

/** The words, which open the list. */
export function commitList(commits: Commits): Html {
  const { items, total, compare_url: url } = commits;
  const words = commitsWords(commits);
  if (items.length === 0) return html`<div class="sub">${words}</div>`;
  const rest = total - items.length;
  return html`<details class="diff-commits"><summary>${words}${icon("chevron-down", "12")}</summary><ol>${items.map(
    ({ sha1, message, author, url: page }) =>
      html`<li>${commit(sha1, page)} <span>${message}</span> <bdi
class="muted" title="${author}">${author && authorName(author)}</bdi></li>`,
  )}${rest > 0 && html`<li class="muted">${plural(rest, "more commit")}</li>`}</ol>${
    url !== null && html`<p class="off-paper">${reportedLink(url, "Compare the commits", "link")}</p>`
  }</details>`;
}
