/** `/{org}/why`: why an artifact, a snapshot or a trail has its verdict, and what would make it compliant. */
import { explainSnapshot } from "../../../api/environments/explanations.ts";
import { explainTrail } from "../../../api/flows/trail-explanations.ts";
import { empty, linkButton } from "../../components/layout.ts";
import { pageOf } from "../../components/lists.ts";
import { html } from "../../html.ts";
import { form, page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";
import { artifactContent } from "./why-artifact.ts";
import { snapshotContent } from "./why-snapshot.ts";
import { trailContent } from "./why-trail.ts";

/** Explaining an artifact takes up to some milliseconds. */
const PER_PAGE = 20;

export const whyPage = page({
  path: "/{org}/why",
  show: (visit) => explain(visit, { isAsked: false }),
  // What is shown is always a re-evaluation; the form only says so. It changes nothing.
  forms: {
    replay_artifact: form(explainSnapshot, async (visit) => ({ show: await explain(visit, { isAsked: true }) })),
    replay_trail: form(explainTrail, async (visit) => ({ show: await explain(visit, { isAsked: true }) })),
  },
});

async function explain(visit: Visit, options: { isAsked: boolean }): Promise<Content> {
  const { call, query } = visit;
  const [environment, flow, trail] = [query.get("environment"), query.get("flow"), query.get("trail")];
  if (flow && trail) {
    const answer = await call(explainTrail, { params: { flow_name: flow, trail_name: trail } });
    return trailContent(visit, answer, options);
  }
  if (!environment) return chooser(visit);
  const fingerprint = query.get("fingerprint") || null;
  const explanation = await call(explainSnapshot, {
    params: { env_name: environment, snapshot_expression: query.get("snapshot") || "-1" },
    query: { fingerprint, page: String(pageOf(query)), per_page: String(PER_PAGE) },
  });
  const hasArtifacts = [explanation.snapshot, ...explanation.snapshot.members].some(
    ({ artifacts }) => artifacts.length > 0,
  );
  return fingerprint !== null && hasArtifacts
    ? artifactContent(visit, explanation, options)
    : snapshotContent(visit, explanation, options);
}

/** What an address that names nothing shows. */
function chooser({ to }: Visit): Content {
  return {
    title: "Why?",
    section: null,
    crumbs: [],
    main: html`<section class="card"><h1 class="vh">Why?</h1>${empty({
      icon: "question",
      title: "Which verdict?",
      text: "Every badge of an artifact, a snapshot or a trail leads to the explanation of its verdict.",
      actions: html`${linkButton(to.environments(), "Environments", { icon: "server" })}${linkButton(
        to.flows(),
        "Flows",
        { icon: "workflow" },
      )}`,
    })}</section>`,
  };
}
