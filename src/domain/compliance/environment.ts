/**
 * Evaluates an artifact in an environment: it must satisfy every attached policy unless it is on the allowlist
 * (semantics 5.4 to 5.7). Facts in, verdict and reasons out, both in their stored form: a stored evaluation can be
 * replayed from its own facts with the same result (replay.ts).
 */
import type { PolicyDocument } from "../policy/ast.ts";
import { LATEST_RULES, artifactStatusOf, evaluatePolicy, ruleDefinitionsOf } from "../policy/evaluate.ts";
import type {
  AttestationCandidate,
  PolicyVerdict,
  Resolution,
  ResolutionType,
  RulesVersion,
  Subject,
} from "../policy/evaluate.ts";
import { explainVerdict } from "../policy/reasons.ts";
import type { State } from "./artifact.ts";

/**
 * The effective record of an artifact in a flow, as evaluations store it. Ids are row keys; names are those at the time
 * of the evaluation.
 */
export type FlowRecord = {
  flow_id: number;
  flow: string;
  tags: Readonly<Record<string, string>>;
  /** null for a record reported without a trail. */
  trail_id: number | null;
  trail: string | null;
  artifact_id: number;
  reference_name: string | null;
  filename: string;
  /** null: reported without one. */
  git_commit: string | null;
  commit_url: string;
  /** Author time of the commit in epoch seconds, null when not reported. */
  committed_at: number | null;
  state: State;
  /** Why the artifact is not compliant in this flow. */
  reasons: readonly string[];
  candidates: readonly AttestationCandidate[];
  /** The deployment with which the artifact started here; null when it had no provenance in this flow at that time. */
  deployment_id: number | null;
  /** Set by withFlowNames, never stored: the flow's name at the time of the evaluation, if `flow` is another one. */
  evaluated_as?: string;
};

/** `flows` in the order of the first reports, so the build flow comes first; empty without provenance. */
export type Facts = { flows: readonly FlowRecord[] };

/** A policy version in force. `rules` is the version of the evaluation rules; the latest by default. */
export type AppliedPolicy = {
  policyName: string;
  versionId: number;
  version: number;
  document: PolicyDocument;
  rules?: RulesVersion;
};

/** A resolution without anything that the facts contain: `flow` is an index into them, null without provenance. */
type StoredResolution = { type: ResolutionType; flow: number | null; attestations?: readonly string[]; error?: string };
type StoredRule = { satisfied: boolean | null; resolutions: readonly StoredResolution[] };
/** The stored verdict of one policy version; rules in the order of the policy. */
export type StoredVerdict = {
  policy: string;
  version_id: number;
  version: number;
  status: "COMPLIANT" | "NON-COMPLIANT";
  rules: readonly StoredRule[];
  /** Version of the evaluation rules; absent in verdicts under version 1, which were stored without it. */
  rules_version?: RulesVersion;
};

/**
 * The version of the evaluation rules of a stored verdict.
 * @throws Error for a version that this program does not implement: a replay under other rules would prove nothing
 */
export function rulesVersionOf({ policy, version, rules_version = 1 }: StoredVerdict): RulesVersion {
  if (rules_version === 1 || rules_version === LATEST_RULES) return rules_version;
  throw new Error(
    `the verdict of policy '${policy}' version ${version} names version ${String(rules_version)} of the evaluation ` +
      `rules; this program has versions 1 to ${LATEST_RULES}`,
  );
}

export type Evaluation = {
  /** null without policies: unknown (semantics 5.7). */
  compliant: boolean | null;
  verdicts: StoredVerdict[];
  /** Why the policies are not satisfied, even if the allowlist makes the artifact compliant. */
  reasons: string[];
};

/**
 * Evaluates an artifact. Without policies the verdict is unknown, allowlisted or not.
 * @param input.artifact its fingerprint, and the name under which it runs
 */
export function evaluateInEnvironment({
  policies,
  artifact,
  facts,
  isAllowlisted,
}: {
  policies: readonly AppliedPolicy[];
  artifact: { fingerprint: string; name: string };
  facts: Facts;
  isAllowlisted: boolean;
}): Evaluation {
  const subject = buildSubject(artifact, facts);
  const verdicts: StoredVerdict[] = [];
  const reasons: string[] = [];
  for (const { policyName, versionId, version, document, rules = LATEST_RULES } of policies) {
    const verdict = evaluatePolicy(document, subject, rules);
    verdicts.push({
      policy: policyName,
      version_id: versionId,
      version,
      status: verdict.status,
      rules: verdict.rules.map(toStoredRule),
      ...(rules === 1 ? {} : { rules_version: rules }),
    });
    for (const reason of explainVerdict(verdict, policyName)) reasons.push(reason);
  }
  const satisfied = verdicts.every(({ status }) => status === "COMPLIANT");
  return { compliant: verdicts.length === 0 ? null : satisfied || isAllowlisted, verdicts, reasons };
}

/** The subject on which policies are evaluated. */
export const buildSubject = ({ fingerprint, name }: { fingerprint: string; name: string }, facts: Facts): Subject => ({
  fingerprint,
  artifactName: name,
  flows: facts.flows.map((flow) => ({
    flowName: flow.flow,
    flowTags: flow.tags,
    artifactName: flow.filename,
    artifactState: flow.state,
    trail: flow.trail === null ? null : { name: flow.trail, candidates: flow.candidates },
  })),
});

function toStoredRule({ satisfied, resolutions }: PolicyVerdict["rules"][number]): StoredRule {
  return {
    satisfied,
    resolutions: resolutions.map(
      ({ type, context, attestationIds }, index): StoredResolution => ({
        type,
        flow: context.flow_name === null ? null : index,
        ...(attestationIds.length === 0 ? {} : { attestations: attestationIds }),
        ...(context.evaluation_error === undefined ? {} : { error: context.evaluation_error }),
      }),
    ),
  };
}

/** Completes a stored verdict from its facts and its policy version. */
export function expandStoredVerdict(verdict: StoredVerdict, document: PolicyDocument, facts: Facts): PolicyVerdict {
  const definitions = ruleDefinitionsOf(document);
  const rulesVersion = rulesVersionOf(verdict);
  return {
    status: verdict.status,
    rules: verdict.rules.map(({ satisfied, resolutions }, index) => {
      const rule = definitions[index];
      if (!rule) throw new Error(`version ${verdict.version} of policy '${verdict.policy}' has no rule ${index + 1}`);
      const control = rule.type === "attestation" ? rule.definition.for_control : null;
      return {
        rule,
        satisfied,
        ignored: satisfied === null,
        resolutions: resolutions.map(({ type, flow: flowIndex, attestations = [], error }): Resolution => {
          const flow = flowIndex === null ? null : (facts.flows[flowIndex] ?? null);
          return {
            type,
            context: {
              flow_name: flow?.flow ?? null,
              trail_name: flow?.trail ?? null,
              artifact_status:
                flow && artifactStatusOf(rule.type, { state: flow.state, hasTrail: flow.trail !== null }, rulesVersion),
              ...(control === null ? {} : { for_control: control }),
              ...(error === undefined ? {} : { evaluation_error: error }),
            },
            attestationIds: attestations,
          };
        }),
      };
    }),
  };
}

/**
 * Facts for display, with the current names of their flows: a flow may have been renamed or archived since, and another
 * flow may have its old name. Evaluations are replayed from the stored facts, never from these.
 * @param nameOf the current name of a flow by its key; undefined keeps the stored name
 * @returns the same object if no name differs
 */
export function withFlowNames(facts: Facts, nameOf: (flowId: number) => string | undefined): Facts {
  const names = facts.flows.map(({ flow_id, flow }) => nameOf(flow_id) ?? flow);
  if (facts.flows.every(({ flow }, index) => flow === names[index])) return facts;
  return {
    flows: facts.flows.map((record, index) => {
      const name = names[index] as string;
      return name === record.flow ? record : { ...record, flow: name, evaluated_as: record.flow };
    }),
  };
}

/** A verdict with the flow names of these facts, which must have the same flows in the same order as its own facts. */
export const verdictWithFlowNames = (verdict: PolicyVerdict, { flows }: Facts): PolicyVerdict => ({
  ...verdict,
  rules: verdict.rules.map((rule) => ({
    ...rule,
    resolutions: rule.resolutions.map((resolution, index) => {
      const { context } = resolution;
      if (context.flow_name === null) return resolution;
      return { ...resolution, context: { ...context, flow_name: flows[index]?.flow ?? context.flow_name } };
    }),
  })),
});

/**
 * Writes the reasons of stored verdicts again, on facts with other flow names; null when a policy document is missing.
 * @param documentOf the document of a policy version by its key, null when this program cannot read it
 */
export function rewordReasons(
  facts: Facts,
  verdicts: readonly StoredVerdict[],
  documentOf: (versionId: number) => PolicyDocument | null,
): string[] | null {
  const texts: string[] = [];
  for (const verdict of verdicts) {
    const document = documentOf(verdict.version_id);
    if (!document) return null;
    for (const reason of explainVerdict(expandStoredVerdict(verdict, document, facts), verdict.policy))
      texts.push(reason);
  }
  return texts;
}

/**
 * An artifact's provenance as a text to compare: its records, their trails and the attestations there that a policy may
 * use. If it changes and the verdict does not, the event is `updated-provenance` (semantics 6.4).
 */
export const provenanceOf = ({ flows }: Facts): string =>
  JSON.stringify(
    flows.map(({ flow_id, trail_id, artifact_id, candidates }) => [
      flow_id,
      trail_id,
      artifact_id,
      candidates.map(({ attestationId }) => attestationId),
    ]),
  );

/**
 * The verdict on an environment: true when every artifact that runs there is compliant, null (unknown) without policies
 * (semantics 6.5).
 */
export const computeEnvironmentVerdict = (running: readonly (boolean | null)[], policies: number): boolean | null =>
  policies === 0 ? null : running.every((compliant) => compliant === true);

/** The verdict on a logical environment: false before null before true, null without members (semantics 6.3). */
export function computeLogicalVerdict(members: readonly (boolean | null)[]): boolean | null {
  if (members.includes(false)) return false;
  return members.length === 0 || members.includes(null) ? null : true;
}
