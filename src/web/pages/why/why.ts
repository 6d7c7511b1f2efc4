/** `/{org}/why`: why an artifact, a snapshot or a trail has its verdict, and what would make it compliant. */
import { explainSnapshot } from "../../../api/environments/explanations.ts";
import { explainTrail } from "../../../api/flows/trail-explanations.ts";
import { empty, linkButton } from "../../components/layout.ts";
import { pageOf } from "../../components/lists.ts";
import { notKept, notThen } from "../../page/past-notes.ts";
import { html } from "../../html.ts";
import { inForceAt } from "../../page/moment.ts";
import { form, page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";
import { artifactContent } from "./why-artifact.ts";
import { snapshotContent } from "./why-snapshot.ts";
import { trailContent } from "./why-trail.ts";

/** Explaining an artifact takes up to some milliseconds. */
const PER_PAGE = 20;

export const whyPage = page({
  path: "/{org}/why",
  past: "then",
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
    if (visit.moment) return trailThen(visit);
    const answer = await call(explainTrail, { params: { flow_name: flow, trail_name: trail } });
    return trailContent(visit, answer, options);
  }
  if (!environment) return chooser(visit);
  const fingerprint = query.get("fingerprint") || null;
  const expression = query.get("snapshot") || "-1";
  const asked = visit.moment && expression === "-1" ? inForceAt(visit.moment) : expression;
  const explanation = await call(explainSnapshot, {
    params: { env_name: environment, snapshot_expression: asked },
    query: { fingerprint, page: String(pageOf(query)), per_page: String(PER_PAGE) },
  });
  if (visit.moment && explanation.snapshot.timestamp > visit.moment.at)
    return notThen(visit, {
      title: "Why?",
      text: `Snapshot #${explanation.snapshot.index} was taken after that moment.`,
      section: "environments",
      crumbs: [{ text: environment, href: visit.to.environment(environment) }],
    });
  const hasArtifacts = [explanation.snapshot, ...explanation.snapshot.members].some(
    ({ artifacts }) => artifacts.length > 0,
  );
  return fingerprint !== null && hasArtifacts
    ? artifactContent(visit, explanation, options)
    : snapshotContent(visit, explanation, options);
}

/** Of a trail only the present verdict is stored. */
const trailThen = (visit: Visit): Content => ({
  title: "Why?",
  section: "flows",
  crumbs: [],
  main: html`<h1 class="vh">Why?</h1>${notKept(visit, "The verdict of a trail")}`,
});

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
