/** Why a trail has its verdict. */
import { typeWordOf } from "../../../domain/attestation/kinds.ts";
import { sourceCode } from "../../components/code.ts";
import type { Mark } from "../../components/code.ts";
import { icon } from "../../components/icon.ts";
import { commit } from "../../components/identifier.ts";
import { card, moreLink, padded, pageHead, reasonsBox } from "../../components/layout.ts";
import { badge, stateOf, tag } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { tree } from "../../components/tree.ts";
import type { TreeNode } from "../../components/tree.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import type { Content, Visit } from "../../page/page.ts";
import { causeItem, failingRecord, passingRecord } from "./causes.ts";
import { counted } from "./explained.ts";
import type { Expectation, Lines, TrailAnswer, TrailArtifact } from "./explained.ts";
import { headActions, isAllOpen, openSwitch, problemsBox, replayResult } from "./parts.ts";
import { remediesCard } from "./remedies.ts";

const MAX_CAUSES = 8;
/** Expectations and artifacts in the tree: a template may have thousands. */
const MAX_NODES = 200;

/** @param isAsked whether a person asked for a re-evaluation just now */
export function trailContent(visit: Visit, answer: TrailAnswer, { isAsked }: { isAsked: boolean }): Content {
  const { to, org } = visit;
  const { flow, trail, problems, same } = answer;
  const json = to.api("explanations", org, "trails", flow, trail);
  const decided = card({
    id: "h-tree",
    title: "How it was decided",
    more: openSwitch(visit, { hasFailed: hasFailed(answer) }),
    body: trailTree(visit, answer),
    foot: replayResult(same, { isAsked, from: "from the stored records and the template" }),
  });
  const main = html`${head(visit, answer, json)}<div class="cols-why"><div class="stack">${problemsBox(
    problems,
  )}${verdictBox(visit, answer)}${decided}</div><div class="stack sticky">${templateText(visit, answer)}${remediesCard(
    visit,
    answer.satisfied_by,
    { image: null, allow: null },
  )}</div></div>`;
  return {
    title: `Why: ${trail}`,
    section: "flows",
    crumbs: [
      { text: "Flows", href: to.flows() },
      { text: flow, href: to.flow(flow) },
      { text: trail, href: to.trail(flow, trail) },
    ],
    crumb: "Why?",
    main,
  };
}

const hasFailed = ({ state }: TrailAnswer): boolean => state !== "COMPLIANT";

function head(visit: Visit, answer: TrailAnswer, json: string): Html {
  const { to, now } = visit;
  const { flow, trail, state, git_commit: sha, evaluated_at: evaluated } = answer;
  return pageHead({
    above: "Why is",
    title: html`<bdi>${trail}</bdi>`,
    state: badge(stateOf(state), { isLarge: true }),
    meta: [
      html`<a href="${to.trail(flow, trail)}">Trail</a> of flow <a href="${to.flow(flow)}"><bdi>${flow}</bdi></a>`,
      sha !== null && html`${icon("git-commit")}${commit(sha)}`,
      evaluated !== null && html`${icon("clock")}evaluated ${time(evaluated, now)}`,
    ],
    actions: headActions(visit, { form: "replay_trail", json }),
  });
}

function verdictBox(visit: Visit, answer: TrailAnswer): Html {
  const { state, causes, reasons, attestations, artifacts } = answer;
  if (state === "COMPLIANT") {
    const expected = [attestations, ...artifacts.map((artifact) => artifact.attestations)]
      .flat()
      .filter(({ unexpected }) => !unexpected).length;
    const title =
      expected === 0
        ? "The template expects no attestation, and nothing that was reported fails"
        : `Everything that the template expects is there and compliant: ${counted(expected, "attestation")}`;
    return reasonsBox({ state: "ok", title, reasons: [] });
  }
  const shown: Value[] =
    causes.length === 0
      ? reasons.slice(0, MAX_CAUSES)
      : causes.slice(0, MAX_CAUSES).map((cause) => causeItem(visit, cause));
  const rest = Math.max(causes.length, reasons.length) - shown.length;
  const many = counted(Math.max(causes.length, reasons.length), "cause");
  return reasonsBox({
    state: state === "INCOMPLETE" ? "wait" : "bad",
    title:
      state === "INCOMPLETE" ? `Not everything that the template expects is there: ${many}` : `Not compliant: ${many}`,
    reasons: rest > 0 ? [...shown, `${rest} more below`] : shown,
  });
}

const asFact = (record: NonNullable<Expectation["attestation"]>) => ({
  id: record.id,
  name: record.name,
  is_compliant: record.is_compliant,
  record,
});

function trailTree(visit: Visit, answer: TrailAnswer): Html {
  const { attestations, artifacts, trail } = answer;
  const room = { left: MAX_NODES };
  const own: TreeNode[] =
    attestations.length === 0
      ? []
      : [
          {
            state: worst(attestations),
            kind: "Trail",
            text: nodeName(trail),
            right: summary(attestations),
            isOpen: isAllOpen(visit, { hasFailed: hasFailed(answer) }) || worst(attestations) !== "compliant",
            children: expectationNodes(visit, answer, { all: attestations, room }),
          },
        ];
  const nodes = [
    ...own,
    ...artifacts.slice(0, MAX_NODES).map((artifact) => artifactNode(visit, answer, { artifact, room })),
  ];
  const rest = artifacts.length - MAX_NODES;
  if (rest > 0) nodes.push({ note: `${rest} more artifacts are in the JSON.` });
  if (nodes.length === 0)
    return padded(html`<p class="muted">The template expects nothing, and nothing was reported.</p>`);
  return tree(nodes, "tree-wide");
}

/** A name in the tree, cut to two lines. */
const nodeName = (name: string): Html => html`<bdi class="t-name" title="${name}">${name}</bdi>`;

/** The state of the expectations together. */
function worst(all: readonly Expectation[]): "compliant" | "incomplete" | "non_compliant" {
  if (all.some(({ state }) => state === "NON-COMPLIANT")) return "non_compliant";
  return all.some(({ state }) => state === "MISSING") ? "incomplete" : "compliant";
}

function summary(all: readonly Expectation[]): string {
  const good = all.filter(({ state }) => state === "COMPLIANT").length;
  return `${good} of ${all.length} compliant`;
}

type Budget = { left: number };

function artifactNode(
  visit: Visit,
  answer: TrailAnswer,
  { artifact, room }: { artifact: TrailArtifact; room: Budget },
): TreeNode {
  const { reference_name: name, fingerprint, state, unexpected, attestations, lines } = artifact;
  const isMissing = state === "MISSING";
  const { to } = visit;
  const page =
    fingerprint !== null && html`<a href="${to.artifact(answer.flow, fingerprint, artifact.artifact_id)}">artifact</a>`;
  const line = lineLink(answer, lines);
  return {
    state: stateOf(state),
    kind: "Artifact",
    text: isMissing ? html`${nodeName(name)} was never reported` : nodeName(name),
    sub: unexpected && "The template does not expect it",
    right: html`${page || line}`,
    isCause: isMissing && attestations.length === 0,
    isOpen: isAllOpen(visit, { hasFailed: hasFailed(answer) }) || state !== "COMPLIANT",
    children: expectationNodes(visit, answer, { all: attestations, room }),
  };
}

function expectationNodes(
  visit: Visit,
  answer: TrailAnswer,
  { all, room }: { all: readonly Expectation[]; room: Budget },
): TreeNode[] {
  const failing = new Set(all.filter(({ state }) => state !== "COMPLIANT").slice(0, room.left));
  const chosen = new Set([...failing, ...all].slice(0, room.left));
  const shown = all.filter((expectation) => chosen.has(expectation));
  room.left -= shown.length;
  const rest = all.length - shown.length;
  const nodes = shown.map((expectation) => expectationNode(visit, answer, expectation));
  return rest > 0 ? [...nodes, { note: `${rest} more attestations are in the JSON.` }] : nodes;
}

const STATES = {
  COMPLIANT: { state: "compliant", word: "Satisfied" },
  "NON-COMPLIANT": { state: "non_compliant", word: "Failed" },
  MISSING: { state: "missing", word: "Missing" },
} as const;

function expectationNode(visit: Visit, answer: TrailAnswer, expectation: Expectation): TreeNode {
  const { name, state, unexpected, overridden, lines } = expectation;
  const type = typeWordOf(expectation.type);
  const typed = type === "*" ? "any attestation" : type === "decision" ? "decision" : `${type} attestation`;
  const isMissing = state === "MISSING";
  const subs = [unexpected && "The template does not expect it", isMissing && "It was never reported"].filter(Boolean);
  return {
    ...STATES[state],
    kind: unexpected ? "Extra" : "Rule",
    text: html`${typed} <bdi>${name}</bdi>${overridden && html` <span class="muted">overridden</span>`}`,
    sub: subs.length > 0 && subs.join(". "),
    right: lineLink(answer, lines),
    isCause: isMissing,
    isOpen: isAllOpen(visit, { hasFailed: hasFailed(answer) }) || state === "NON-COMPLIANT",
    children: isMissing ? [] : factNodes(visit, answer, expectation),
  };
}

/** The record that decided; of an overridden one, the override before the record. */
function factNodes(visit: Visit, place: TrailAnswer, { attestation, override, state }: Expectation): TreeNode[] {
  const node = (record: NonNullable<Expectation["attestation"]>): TreeNode =>
    record.is_compliant
      ? passingRecord(visit, asFact(record), place)
      : {
          ...failingRecord(visit, asFact(record), place),
          isCause: record === (override ?? attestation) && state === "NON-COMPLIANT",
        };
  const nodes = [override && node(override), attestation && node(attestation)];
  const found = nodes.filter((one) => one !== null);
  return found.length > 0 ? found : [{ note: "The record that decided no longer exists." }];
}

const lineLink = ({ template }: TrailAnswer, lines: Lines | null): Value =>
  lines && (template.content === null ? `line ${lines.from}` : html`<a href="#L${lines.from}">line ${lines.from}</a>`);

function templateText({ to }: Visit, answer: TrailAnswer): Html {
  const { template, flow, trail } = answer;
  const text = template.content;
  const source =
    text === null
      ? padded(html`<p class="muted">The template is larger than 2 MB. The API answers it in full.</p>`)
      : sourceCode({ text, label: `Template of ${trail}`, marks: marksOf(answer) });
  return html`<div class="why-source">${card({
    id: "h-template",
    title: "Template",
    note: tag(template.own ? "of this trail" : "of the flow"),
    more: !template.own && moreLink(to.flow(flow, { tab: "template" }), "Open"),
    body: source,
  })}</div>`;
}

/** The lines of what is missing or fails. */
function marksOf({ attestations, artifacts }: TrailAnswer): Mark[] {
  const mark = (lines: Lines | null): Mark[] => (lines ? [{ ...lines, kind: "cause" }] : []);
  const ofAll = (all: readonly Expectation[]): Mark[] =>
    all.flatMap(({ state, lines }) => (state === "COMPLIANT" ? [] : mark(lines)));
  return [
    ...ofAll(attestations),
    ...artifacts.flatMap((artifact) =>
      artifact.state === "MISSING" ? mark(artifact.lines) : ofAll(artifact.attestations),
    ),
  ];
}
