/**
 * An artifact in an environment: it must satisfy every attached policy, unless it is on the allowlist (semantics 5.4 to
 * 5.7). Facts in, verdict and reasons out, both in the form in which an evaluation is kept: a kept evaluation can be
 * judged again from its own facts, and gives the same (`replay`).
 */
import type { PolicyDocument } from "../policy/ast.ts";
import { LATEST_RULES, evaluatePolicy, ruleDefinitionsOf, statusInContext } from "../policy/evaluate.ts";
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
 * What is kept of the record of an artifact that counts in a flow. Ids are row keys; names are those of the evaluation.
 */
export type FlowRecord = {
  flow_id: number;
  flow: string;
  tags: Readonly<Record<string, string>>;
  /** null for a record made without a trail. */
  trail_id: number | null;
  trail: string | null;
  artifact_id: number;
  reference_name: string | null;
  filename: string;
  git_commit: string;
  commit_url: string;
  /** Author time of the commit in epoch seconds, null when it was not told. */
  committed_at: number | null;
  state: State;
  /** Why the artifact is not compliant in this flow. */
  reasons: readonly string[];
  candidates: readonly AttestationCandidate[];
  /** The deployment with which the artifact started here; null when it had no provenance in this flow then. */
  deployment_id: number | null;
  /** Only in what withFlowNames gives, never stored: the name at the evaluation, where `flow` is another one. */
  evaluated_as?: string;
};

/** `flows` in the order of the first reports: the build flow comes first. None: no provenance. */
export type Facts = { flows: readonly FlowRecord[] };

/** A policy version in force. `rules`: the evaluation rules of a verdict that is replayed; the latest if absent. */
export type AppliedPolicy = {
  policyName: string;
  versionId: number;
  version: number;
  document: PolicyDocument;
  rules?: RulesVersion;
};

/** A resolution without what the facts tell: `flow` is its place in them, null for no provenance. */
type StoredResolution = { type: ResolutionType; flow: number | null; attestations?: readonly string[]; error?: string };
type StoredRule = { satisfied: boolean | null; resolutions: readonly StoredResolution[] };
/** The verdict of one policy version as it is kept; rules in the order of the policy. */
export type StoredVerdict = {
  policy: string;
  version_id: number;
  version: number;
  status: "COMPLIANT" | "NON-COMPLIANT";
  rules: readonly StoredRule[];
  /** The evaluation rules that produced it; absent in verdicts under version 1, which were stored without one. */
  rules_version?: RulesVersion;
};

/**
 * The evaluation rules of a stored verdict.
 * @throws Error for a version that this program does not have: replaying it under other rules would prove nothing.
 */
export function rulesVersionOf({ policy, version, rules_version = 1 }: StoredVerdict): RulesVersion {
  if (rules_version === 1 || rules_version === LATEST_RULES) return rules_version;
  throw new Error(
    `the verdict of policy '${policy}' version ${version} names version ${String(rules_version)} of the evaluation ` +
      `rules; this program has versions 1 to ${LATEST_RULES}`,
  );
}

export type Evaluation = {
  /** null: no policy was applied, which is unknown (semantics 5.7). */
  compliant: boolean | null;
  verdicts: StoredVerdict[];
  /** Why the policies are not satisfied, also when the allowlist makes up for it. */
  reasons: string[];
};

/** Judges an artifact that runs as `name`. Without policies the verdict is unknown, allowlisted or not. */
export function evaluateInEnvironment(
  policies: readonly AppliedPolicy[],
  artifact: { fingerprint: string; name: string },
  facts: Facts,
  allowlisted: boolean,
): Evaluation {
  const subject = buildSubject(artifact, facts);
  const verdicts: StoredVerdict[] = [];
  const why: string[] = [];
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
    for (const reason of explainVerdict(verdict, policyName)) why.push(reason);
  }
  const satisfied = verdicts.every(({ status }) => status === "COMPLIANT");
  return { compliant: verdicts.length === 0 ? null : satisfied || allowlisted, verdicts, reasons: why };
}

/** What a policy is evaluated on. */
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
      ({ type, context, attestationIds }, place): StoredResolution => ({
        type,
        flow: context.flow_name === null ? null : place,
        ...(attestationIds.length === 0 ? {} : { attestations: attestationIds }),
        ...(context.evaluation_error === undefined ? {} : { error: context.evaluation_error }),
      }),
    ),
  };
}

/** A kept verdict with everything that the facts and the policy version tell about it. */
export function expandStoredVerdict(verdict: StoredVerdict, document: PolicyDocument, facts: Facts): PolicyVerdict {
  const definitions = ruleDefinitionsOf(document);
  const rulesVersion = rulesVersionOf(verdict);
  return {
    status: verdict.status,
    rules: verdict.rules.map(({ satisfied, resolutions }, place) => {
      const rule = definitions[place];
      if (!rule) throw new Error(`version ${verdict.version} of policy '${verdict.policy}' has no rule ${place + 1}`);
      const control = rule.type === "attestation" ? rule.definition.for_control : null;
      return {
        rule,
        satisfied,
        ignored: satisfied === null,
        resolutions: resolutions.map(({ type, flow: at, attestations = [], error }): Resolution => {
          const flow = at === null ? null : (facts.flows[at] ?? null);
          return {
            type,
            context: {
              flow_name: flow?.flow ?? null,
              trail_name: flow?.trail ?? null,
              artifact_status: flow && statusInContext(rule.type, flow.state, flow.trail !== null, rulesVersion),
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
 * Facts as they are shown: with the present names of their flows, which may have been renamed or archived since,
 * while another flow took the name. Evaluations are replayed from the stored facts, never from these.
 * @param nameOf the present name of a flow by its key; undefined keeps the stored one
 * @returns the same object where no name differs
 */
export function withFlowNames(facts: Facts, nameOf: (flowId: number) => string | undefined): Facts {
  const names = facts.flows.map(({ flow_id, flow }) => nameOf(flow_id) ?? flow);
  if (facts.flows.every(({ flow }, place) => flow === names[place])) return facts;
  return {
    flows: facts.flows.map((record, place) => {
      const name = names[place] as string;
      return name === record.flow ? record : { ...record, flow: name, evaluated_as: record.flow };
    }),
  };
}

/** A verdict with the names that the flows have in these facts; it was found on the same flows in the same order. */
export const verdictWithFlowNames = (verdict: PolicyVerdict, { flows }: Facts): PolicyVerdict => ({
  ...verdict,
  rules: verdict.rules.map((rule) => ({
    ...rule,
    resolutions: rule.resolutions.map((resolution, place) => {
      const { context } = resolution;
      if (context.flow_name === null) return resolution;
      return { ...resolution, context: { ...context, flow_name: flows[place]?.flow ?? context.flow_name } };
    }),
  })),
});

/**
 * The reasons of stored verdicts, worded anew on facts with other flow names; null where the text of a policy is
 * missing.
 * @param documentOf the rules of a policy version by its key, null when this program cannot read them
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
 * What an artifact's provenance consists of, as a text to compare: its records, their trails and the attestations there
 * that a policy may look at. A change of it without a change of the verdict is `updated-provenance` (semantics 6.4).
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
 * The verdict on everything that runs: false when one artifact is not compliant, unknown without policies (semantics
 * 6.5).
 */
export const computeEnvironmentVerdict = (running: readonly (boolean | null)[], policies: number): boolean | null =>
  policies === 0 ? null : running.every((compliant) => compliant === true);

/** The state of a logical environment: false before unknown before true, unknown without members (semantics 6.3). */
export function computeLogicalVerdict(members: readonly (boolean | null)[]): boolean | null {
  if (members.includes(false)) return false;
  return members.length === 0 || members.includes(null) ? null : true;
}
