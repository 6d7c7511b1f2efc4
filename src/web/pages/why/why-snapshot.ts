/** Why a snapshot has its verdict: its artifacts with their reasons, a page of them at a time. */
import { icon } from "../../components/icon.ts";
import { artifactName, fingerprint as shownFingerprint, snapshotLink } from "../../components/identifier.ts";
import { card, empty, linkButton, nameCell, pageHead, reasonsBox, table } from "../../components/layout.ts";
import { pager } from "../../components/lists.ts";
import { badge, formatNumber, plural, stateOfVerdict, tag } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import type { Content, Visit } from "../../page/page.ts";
import { crumbsOf } from "../environments/head.ts";
import { causeItem, sameNameSentences } from "./causes.ts";
import { subjectsOf } from "./explained.ts";
import type { Artifact, SnapshotAnswer, ShownArtifact } from "./explained.ts";
import { attachButton, headActions, problemsBox, replayResult } from "./parts.ts";
import { refusal } from "./why-artifact.ts";

/** Causes of one artifact; its own page has the rest. */
const MAX_CAUSES = 3;

/** @param isAsked whether a person asked for a re-evaluation just now */
export function snapshotContent(visit: Visit, explanation: SnapshotAnswer, { isAsked }: { isAsked: boolean }): Content {
  const { to, org, now } = visit;
  const { snapshot, selection, same, problems } = explanation;
  const { name } = snapshot.environment;
  const { index } = snapshot;
  const json = to.api("explanations", org, "environments", name, String(index));
  const head = pageHead({
    above: "Why is",
    title: html`<bdi>${name}</bdi> #${index}`,
    state: badge(stateOfVerdict(snapshot.compliant), { isLarge: true }),
    meta: [
      html`<a href="${to.snapshot(name, index)}">Snapshot #${index}</a>`,
      html`${icon("clock")}taken ${time(snapshot.timestamp, now)}`,
    ],
    actions: headActions(visit, { form: "replay_artifact", json }),
  });
  const replay = replayResult(same, { isAsked, from: "of these artifacts from the stored facts and policy versions" });
  const main = html`${head}<div class="stack">${problemsBox(problems)}${verdictBox(visit, explanation)}${card({
    id: "h-artifacts",
    title: "Artifacts",
    note:
      selection && `${formatNumber(selection.total)}${snapshot.non_compliant_count > 0 ? ", what fails first" : ""}`,
    body: artifactTable(visit, subjectsOf(explanation), snapshot.members.length > 0),
    foot: replay,
  })}${selection && pager(visit, selection)}</div>`;
  return {
    title: `Why: ${name} #${index}`,
    section: "environments",
    crumbs: [...crumbsOf(visit, { name }), { text: `#${index}`, href: to.snapshot(name, index) }],
    crumb: "Why?",
    main,
  };
}

function verdictBox(visit: Visit, { snapshot }: SnapshotAnswer): Html {
  const { compliant, compliant_count: good, non_compliant_count: bad, unknown_count: unknown } = snapshot;
  const total = good + bad + unknown;
  const hasPolicies = [snapshot, ...snapshot.members].some(({ policies }) => policies.length > 0);
  if (compliant === null)
    return reasonsBox({
      state: "none",
      title: hasPolicies
        ? "Unknown: nothing that runs here was evaluated"
        : html`Unknown: no policy is attached to <bdi>${snapshot.environment.name}</bdi>`,
      reasons: ["An unknown verdict is never counted as compliant"],
      actions: !hasPolicies && attachButton(visit, snapshot.environment.name),
    });
  if (compliant) {
    const all = total === 1 ? "the only running artifact" : `all ${formatNumber(total)} running artifacts`;
    const title = total === 0 ? "Compliant: nothing ran" : `Compliant: policies or the allowlist accept ${all}`;
    return reasonsBox({ state: "ok", title, reasons: [] });
  }
  const verb = bad === 1 ? "is" : "are";
  return reasonsBox({
    title: `${formatNumber(bad)} of ${formatNumber(total)} running artifacts ${verb} not compliant`,
    reasons: unknown > 0 ? [`${formatNumber(unknown)} are unknown`] : [],
  });
}

function artifactTable(visit: Visit, subjects: readonly ShownArtifact[], isLogical: boolean): Html {
  if (subjects.length === 0)
    return empty({
      icon: "package",
      title: "Nothing to explain",
      text: "No artifact ran or stopped in this snapshot, or this page is beyond the last one.",
      actions: linkButton(visit.here({ page: null }), "First page"),
    });
  const columns = [
    { text: "Artifact" },
    { text: "State", className: "w-st" },
    ...(isLogical ? [{ text: "Environment", className: "w-place" }] : []),
    { text: "Flow and trail" },
  ];
  const rows = subjects.map((subject) => artifactRows(visit, subject, isLogical));
  return table({ caption: "Artifacts with their reasons", columns, rows });
}

function artifactRows(visit: Visit, { artifact, at }: ShownArtifact, isLogical: boolean): Html {
  const { to } = visit;
  const { name, fingerprint, allowlist, compliant, exited, flows } = artifact;
  const environment = at.environment.name;
  const state = allowlist && compliant === true ? "allowlisted" : stateOfVerdict(compliant);
  const reasons = reasonsOf(visit, artifact);
  const [flow] = flows;
  const cut = (text: string): Html => html`<bdi class="cut">${text}</bdi>`;
  const trail =
    flow &&
    html`<a href="${to.flow(flow.flow)}">${cut(flow.flow)}</a><div class="sub">${
      flow.trail === null ? "of the flow" : html`<a href="${to.trail(flow.flow, flow.trail)}">${cut(flow.trail)}</a>`
    }${flows.length > 1 && html`<span>and ${plural(flows.length - 1, "more flow")}</span>`}</div>`;
  const first = nameCell({
    href: fingerprint === "" ? null : to.whyArtifact(environment, at.index, fingerprint),
    name: artifactName(name),
    sub: html`${fingerprint === "" ? "no fingerprint" : shownFingerprint(fingerprint)}${exited && tag("exited")}`,
    mark: icon("package"),
  });
  const colspan = isLogical ? 4 : 3;
  return html`<tr${reasons.length > 0 && html` class="has-detail"`}>${first}<td>${badge(state)}</td>${
    isLogical && html`<td>${snapshotLink(to, environment, at.index)}</td>`
  }<td class="flow">${trail}</td></tr>${
    reasons.length > 0 &&
    html`<tr class="detail"><td colspan="${colspan}" class="full"><ul class="reasons${
      state === "allowlisted" && " allowed"
    }">${reasons.map((reason) => html`<li>${reason}</li>`)}</ul></td></tr>`
  }`;
}

function reasonsOf(visit: Visit, artifact: Artifact): Value[] {
  const { allowlist, compliant, causes, policies } = artifact;
  if (compliant === true && allowlist) {
    const { user_name: name, description, expires_at: end } = allowlist;
    const until = end !== undefined && html`, until ${time(end, visit.now)}`;
    return [
      html`Accepted by <bdi>${name}</bdi>${until}${description !== "" && html`: <q class="prose">${description}</q>`}`,
    ];
  }
  if (compliant !== false) return [];
  const shown = causes.slice(0, MAX_CAUSES).map((cause) => causeItem(visit, cause));
  const rest = causes.length - shown.length;
  const title = policies.length === 0 ? [] : [refusal(artifact)];
  return [...title, ...shown, ...(rest > 0 ? [`${rest} more`] : []), ...sameNameSentences(visit, artifact)];
}
