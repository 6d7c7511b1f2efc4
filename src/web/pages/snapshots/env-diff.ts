/** `/{org}/env-diff?left=&right=`: the difference between any two snapshots of the organization. */
import { pageHead } from "../../components/layout.ts";
import { html } from "../../html.ts";
import { page } from "../../page/page.ts";
import { diffView } from "../environments/diff.ts";

export const environmentDiffPage = page({
  path: "/{org}/env-diff",
  past: "present",
  async show(visit) {
    const { query, to } = visit;
    const sides = { left: query.get("left") ?? "", right: query.get("right") ?? "" };
    const view = await diffView(visit, sides, { action: to.path(visit.path.slice(1)) });
    return {
      title: "Compare snapshots",
      section: "environments",
      crumbs: [{ text: "Environments", href: to.environments() }],
      main: html`${pageHead({
        title: "Compare snapshots",
        sub: "Which verdicts differ and why, which policies, versions and numbers of instances.",
      })}${view}`,
    };
  },
});
