/** The tree of policies, rules, facts and causes that an artifact's verdict rests on. */
import { countRules } from "../../components/rule-counts.ts";
import { stateOf, stateWord } from "../../components/state.ts";
import type { ShownState } from "../../components/state.ts";
import { tree } from "../../components/tree.ts";
import type { TreeNode } from "../../components/tree.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { causeNode, failingRecord, passingRecord, trailLink } from "./causes.ts";
import { article, capitalized, rulesOf } from "./explained.ts";
import type { Artifact, Condition, ShownFlow, Lines, ShownResolution, ExplainedRule, Verdict } from "./explained.ts";

/** Nodes of a tree, and nodes below one of them: a policy may have a thousand rules, an artifact many flows. */
const MAX_NODES = 400;
const MAX_RULES = 100;
const MAX_FACTS = 20;
const MAX_CONDITIONS = 10;
const MAX_VALUES = 5;

type TreeOptions = {
  isAllOpen: boolean;
  /** The address of a line of a policy; null where its text is not shown. */
  lineHref(verdict: Verdict, line: number): string | null;
};
/** What the nodes of one tree share. `room`: nodes that may still be added. */
type Context = TreeOptions & { visit: Visit; artifact: Artifact; room: { left: number } };

export function policyTree(visit: Visit, artifact: Artifact, options: TreeOptions): Html {
  const context = { ...options, visit, artifact, room: { left: MAX_NODES } };
  const failing = artifact.policies.filter(({ status }) => status === "NON-COMPLIANT");
  const others = artifact.policies.filter(({ status }) => status !== "NON-COMPLIANT");
  const shown = [...failing, ...others].slice(0, MAX_RULES);
  const nodes = shown.map((verdict) => policyNode(context, verdict));
  return tree(withRest(nodes, artifact.policies.length, "policies"));
}

function withRest(nodes: readonly TreeNode[], total: number, what: string): TreeNode[] {
  const rest = total - nodes.length;
  return rest > 0 ? [...nodes, { note: `${rest} more ${what} are in the JSON.` }] : [...nodes];
}

/** What fails comes into the list before what does not, in the order of the list. */
function failingFirst<T>(items: readonly T[], max: number, isFailing: (item: T) => boolean): T[] {
  if (items.length <= max) return [...items];
  const chosen = new Set([...items.filter(isFailing), ...items.filter((item) => !isFailing(item))].slice(0, max));
  return items.filter((item) => chosen.has(item));
}

function policyNode(context: Context, verdict: Verdict): TreeNode {
  const isRefusing = verdict.status === "NON-COMPLIANT";
  const rules = rulesOf(verdict);
  const shown = failingFirst(rules ?? [], MAX_RULES, ({ satisfied }) => satisfied === false);
  return {
    state: isRefusing ? "non_compliant" : "compliant",
    kind: "Policy",
    text: html`<bdi>${verdict.policy}</bdi> <span class="muted">v${verdict.version}</span>`,
    right: rules === null ? "its rules are in the JSON" : countRules(rules),
    isOpen: isRefusing || context.isAllOpen,
    children: withRest(
      shown.map((rule) => ruleNode(context, verdict, rule)),
      rules?.length ?? 0,
      "rules",
    ),
  };
}

const sizeOf = (nodes: readonly TreeNode[]): number =>
  nodes.reduce((sum, node) => sum + 1 + ("note" in node ? 0 : sizeOf(node.children ?? [])), 0);

const RULE_STATES = {
  true: { state: "compliant", word: "Satisfied" },
  false: { state: "non_compliant", word: "Failed" },
  null: { state: "not_applicable", word: "Does not apply" },
} as const;

function ruleNode(context: Context, verdict: Verdict, rule: ExplainedRule): TreeNode {
  const isFailing = rule.satisfied === false;
  const facts = [...factsOf(context, rule), ...conditionsOf(context, verdict, rule)];
  const size = sizeOf(facts);
  const hasRoom = context.room.left >= size;
  context.room.left -= hasRoom ? size : 0;
  const note = { note: "The facts of this rule are in the JSON: this page has no room for more." };
  return {
    ...RULE_STATES[`${rule.satisfied}`],
    kind: "Rule",
    text: ruleWords(rule),
    right: lineLink(context, verdict, rule.lines),
    isOpen: isFailing || context.isAllOpen,
    children: hasRoom ? facts : [note],
  };
}

function lineLink({ lineHref }: Context, verdict: Verdict, lines: Lines | null): Value {
  const href = lines && lineHref(verdict, lines.from);
  return lines && (href === null ? `line ${lines.from}` : html`<a href="${href}">line ${lines.from}</a>`);
}

/** What a rule demands of an artifact; its conditions are nodes of their own. */
function ruleWords({ rule: { type, definition } }: ExplainedRule): Value {
  if ("required" in definition) return type === "provenance" ? "has provenance" : "is compliant in its trail";
  const { name, type: word, must_be_compliant: isStrict, for_control: control } = definition;
  const noun = word === "*" ? "attestation" : word === "decision" ? "decision" : `${word} attestation`;
  const which = name !== "*" && html` named <bdi>${name}</bdi>`;
  const purpose = control !== null && html` for control <bdi>${control}</bdi>`;
  const kind = html`${isStrict ? "a compliant" : article(noun)} ${noun}`;
  return html`has ${kind}${which}${purpose}${!isStrict && ", compliant or not"}`;
}

/** The facts of a rule: its outcome in each flow. */
function factsOf(context: Context, rule: ExplainedRule): TreeNode[] {
  const pairs = rule.resolutions.map((resolution, index) => ({ resolution, flow: context.artifact.flows[index] }));
  const shown = failingFirst(pairs, MAX_FACTS, ({ resolution }) => isFailing(resolution));
  const nodes = shown.flatMap(({ resolution, flow }) => factNodes(context, rule, { resolution, flow }));
  const rest = pairs.length - shown.length;
  return rest > 0 ? [...nodes, { note: `The outcome in ${rest} more flows is in the JSON.` }] : nodes;
}

const isFailing = ({ type }: ShownResolution): boolean => type !== "rule_satisfied" && type !== "rule_not_applicable";

type Outcome = { resolution: ShownResolution; flow: ShownFlow | undefined };

function factNodes(context: Context, rule: ExplainedRule, { resolution, flow }: Outcome): TreeNode[] {
  const { visit } = context;
  const { type, context: about, in_words: words, attestation_ids: ids } = resolution;
  const place = { flow: flow?.flow ?? null, trail: flow?.trail ?? null };
  const plain = { kind: "Fact", text: capitalized(words), right: trailLink(visit, place) };
  if (type === "rule_not_applicable") return [{ ...plain, state: "not_applicable" }];
  if (about.evaluation_error !== undefined)
    return [{ ...plain, state: "non_compliant", word: "Failed", isCause: true }];
  const status = about.artifact_status;
  if (flow && (type === "non_compliant_in_trail" || (type === "rule_satisfied" && status !== null)))
    return [inTrail(context, flow, stateOf(status ?? "NON-COMPLIANT"))];
  const records = flow?.attestations.filter(({ id }) => ids.includes(id)) ?? [];
  if (records.length > 0)
    return records
      .slice(0, MAX_FACTS)
      .map((record) =>
        type === "non_compliant_attestation"
          ? failingRecord(visit, record, place)
          : record.is_compliant
            ? passingRecord(visit, record, place)
            : { ...failingRecord(visit, record, place), isCause: false },
      );
  if (type === "rule_satisfied") return [{ ...plain, state: "compliant" }];
  if (type === "missing_attestation")
    return [{ ...plain, state: "missing", text: missingWords(rule), sub: placeWords(flow), isCause: true }];
  const isMissing = type === "no_provenance" || type === "missing_provenance" || type === "legacy_flow";
  return [{ ...plain, state: isMissing ? "missing" : "non_compliant", isCause: true }];
}

function missingWords({ rule: { definition } }: ExplainedRule): Value {
  if ("required" in definition) return "It was never reported";
  const { name, type, for_control: control } = definition;
  if (name !== "*") return html`<bdi>${name}</bdi> was never reported`;
  if (control !== null) return html`No decision for control <bdi>${control}</bdi> was reported`;
  return type === "*" ? "No attestation was reported" : `No ${type} attestation was reported`;
}

const placeWords = (flow: ShownFlow | undefined): Value =>
  flow && html`Trail <bdi>${flow.trail}</bdi> of flow <bdi>${flow.flow}</bdi>`;

/** The state of the artifact in a trail, and below it what the trail says about it. */
function inTrail({ visit, artifact }: Context, flow: ShownFlow, state: ShownState): TreeNode {
  const find = (id: string) => flow.attestations.find((attestation) => attestation.id === id);
  const nodes = flow.reasons.slice(0, MAX_FACTS).map((reason): TreeNode => {
    const cause = artifact.causes.find(
      ({ words, flow: name, trail }) => words === reason && name === flow.flow && trail === flow.trail,
    );
    return cause
      ? causeNode(visit, cause, find)
      : { state: "non_compliant", kind: "Fact", text: reason, isCause: true };
  });
  const rest = flow.reasons.length - nodes.length;
  const former = flow.evaluated_as !== flow.flow && html`, named <bdi>${flow.evaluated_as}</bdi> at the evaluation`;
  return {
    state,
    kind: "Fact",
    text: html`${stateWord(state)} in <bdi>${flow.trail ?? flow.flow}</bdi>`,
    sub: html`Flow <bdi>${flow.flow}</bdi>${former}`,
    right: trailLink(visit, flow),
    isOpen: true,
    children: rest > 0 ? [...nodes, { note: `${rest} more reasons are in the JSON.` }] : nodes,
  };
}

/** The exceptions of a rule, or its condition, with the values that decided. */
function conditionsOf(context: Context, verdict: Verdict, { conditions }: ExplainedRule): TreeNode[] {
  const shown = failingFirst(conditions, MAX_CONDITIONS, ({ results }) => results.some(({ error }) => error !== null));
  const nodes = shown.map((condition) => conditionNode(context, verdict, condition));
  const rest = conditions.length - shown.length;
  return rest > 0 ? [...nodes, { note: `${rest} more exceptions are in the JSON.` }] : nodes;
}

function conditionNode(context: Context, verdict: Verdict, { type, text, lines, results }: Condition): TreeNode {
  const hasFailed = results.some(({ error }) => error !== null);
  const holds = results.some(({ result }) => result === true);
  const isException = type === "exception";
  const word = holds ? (isException ? "Applies: the rule is switched off" : "Applies") : "Does not apply";
  const outcomes = failingFirst(results, MAX_VALUES, ({ error }) => error !== null);
  const words = outcomes.map((outcome, index) => {
    const separator = index > 0 && "; ";
    return html`${separator}${outcomeWords(outcome, { hasSeveral: results.length > 1 })}`;
  });
  const rest = results.length - outcomes.length;
  return {
    state: hasFailed ? "non_compliant" : holds ? "compliant" : "not_applicable",
    word: hasFailed ? "Failed" : word,
    kind: isException ? "Except" : "If",
    text: text === null ? "An exception that never applies" : html`<code>${text}</code>`,
    sub: html`${words}${rest > 0 && `; and in ${rest} more flows`}`,
    right: lineLink(context, verdict, lines),
  };
}

/** A text in quotes, a number; of a flow or an artifact, whether there is one. */
const valueWords = (value: unknown): string => {
  if (typeof value === "boolean") return value ? "exists" : "does not exist";
  return value === null ? "is not set" : `is ${JSON.stringify(value)}`;
};

/** `flow.tags.tier is "core", so false`. */
function outcomeWords(
  { flow, result, error, values }: Condition["results"][number],
  { hasSeveral }: { hasSeveral: boolean },
): Html {
  const shown = Object.entries(values)
    .slice(0, MAX_VALUES)
    .map(([name, value]) => `${name} ${valueWords(value)}`);
  const reasons = shown.length === 0 ? "" : `${shown.join(", ")}, so `;
  const outcome = error ?? (result === null ? "not evaluated, an earlier exception applies" : `${reasons}${result}`);
  const place = flow === null ? "without provenance: " : hasSeveral && html`in flow <bdi>${flow}</bdi>: `;
  return html`${place}${error !== null && "failed: "}${outcome}`;
}
