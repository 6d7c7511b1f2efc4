/** `/{org}/deployments`: the deployments of an organization, which the charts of other pages count. */
import { listDeployments } from "../../../api/environments/deployments.ts";
import { DAY_S } from "../../../domain/time.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { deploymentRow, DEPLOYMENT_COLUMNS } from "../../components/deployments.ts";
import { linkButton } from "../../components/layout.ts";
import { listPage, pageFrom } from "../../components/list-page.ts";
import { dayBoundOf, PER_PAGE } from "../../components/lists.ts";
import { page } from "../../page/page.ts";
import type { Visit } from "../../page/page.ts";
import { environmentFilter, repositoryFilter } from "../artifacts/choices.ts";

/** Days that the list goes back without a filter. */
const DAYS = 28;

/**
 * The days in the address, or times, in epoch seconds; as of a moment, nothing after it. Other texts filter nothing.
 */
function windowOf({ query, now }: Pick<Visit, "query" | "now">): { start_ts: number; end_ts: number } {
  const tomorrow = (Math.floor(now / DAY_S) + 1) * DAY_S;
  return {
    start_ts: dayBoundOf(query, "from") ?? tomorrow - DAYS * DAY_S,
    end_ts: Math.min(now, dayBoundOf(query, "to") ?? now),
  };
}

export const deploymentsPage = page({
  path: "/{org}/deployments",
  past: "then",
  show: listPage({
    title: "Deployments",
    section: "environments",
    sub: `Starts of artifacts that were reported to a flow, of the last ${DAYS} days unless you choose others.`,
    what: ["deployment", "deployments"],
    read: pageFrom(listDeployments, (visit) => ({
      query: {
        ...windowOf(visit),
        env_name: visit.query.get("environment") || null,
        repo_name: visit.query.get("repo") || null,
        per_page: PER_PAGE,
        first_starts: true,
      },
    })),
    filters: async (visit) => [
      await environmentFilter(visit),
      await repositoryFilter(visit),
      { kind: "day", name: "from", label: "From (UTC)" },
      { kind: "day", name: "to", label: "To (UTC)" },
    ],
    caption: "Deployments, newest first",
    columns: DEPLOYMENT_COLUMNS,
    row: (visit, deployment: AnswerOf<typeof listDeployments>["deployments"][number]) =>
      deploymentRow(visit, deployment, {
        unnamed: ({ fingerprint }) => fingerprint,
        sub: ({ flow_name: flow }) => flow,
      }),
    empty: ({ to }) => ({
      icon: "rocket",
      title: `No deployments in the last ${DAYS} days`,
      text: "A deployment is recorded when an environment reports that an artifact of a flow began to run.",
      actions: linkButton(to.environments(), "Environments"),
    }),
    none: "Days are in UTC, and both are included. An environment or a repository that is typed needs its whole name.",
  }),
});
