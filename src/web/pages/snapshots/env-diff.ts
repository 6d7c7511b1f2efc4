/** `/{org}/env-diff?left=&right=`: the difference between any two snapshots of the organization. */
import { pageHead } from "../../components/layout.ts";
import { plural } from "../../components/state.ts";
import { html } from "../../html.ts";
import { page } from "../../page/page.ts";
import { diffView } from "../environments/diff.ts";
import type { Diff } from "../environments/diff.ts";
import { readSide } from "../environments/diff-form.ts";

const titleOf = ({ from, to }: Diff): string =>
  from.environment === to.environment ? from.environment : `${from.environment} and ${to.environment}`;

/** The most important difference, in a sentence. */
function summaryOf({ from, to, counts, failing_total: failing }: Diff): string {
  if (from.environment === to.environment) return `Snapshots #${from.index} and #${to.index}.`;
  const versions =
    counts.upgraded === 0
      ? "No service has another version."
      : `${plural(counts.upgraded, "service")} ${counts.upgraded === 1 ? "has" : "have"} another version.`;
  return failing === 0
    ? versions
    : `${versions} ${plural(failing, "artifact")} ${failing === 1 ? "fails" : "fail"} in ${to.environment} only.`;
}

export const environmentDiffPage = page({
  path: "/{org}/env-diff",
  past: "then",
  async show(visit) {
    const { to } = visit;
    const sides = { left: readSide(visit, "left", ""), right: readSide(visit, "right", "") };
    const { view, diff } = await diffView(visit, sides, { action: to.path(visit.path.slice(1)) });
    const title = diff ? titleOf(diff) : "Compare snapshots";
    return {
      title,
      crumb: "Compare",
      section: "environments",
      crumbs: [{ text: "Environments", href: to.environments() }],
      main: html`${pageHead({
        title,
        sub: diff
          ? summaryOf(diff)
          : "Which verdicts differ and why, which policies, versions and numbers of instances.",
      })}${view}`,
    };
  },
});
