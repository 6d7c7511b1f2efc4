/**
 * What would make an artifact or a trail compliant, for people and pages: remedies for the causes of its verdict
 * (causes.ts). Pure: everything follows from stored facts and verdicts.
 */
import type { RuleVerdict } from "../policy/evaluate.ts";
import { NOTHING, causesOfRule, describeKind, uniqueCauses } from "./causes.ts";
import type { CauseSubject, VerdictCause } from "./causes.ts";
import type { FlowRecord } from "./environment.ts";

/**
 * - `report_artifact`: report it to the flow and trail.
 * - `report_attestation`: report a missing attestation; `fix_attestation`: report it again after mending what it found;
 *   `override_attestation`: override the record with a reason.
 * - `make_trail_compliant`: everything that its template expects; remedies for each part of it follow.
 * - `correct_policy`: upload a version whose condition can be evaluated.
 * - `allowlist`: allow the artifact in the environment, with a reason.
 */
export const REMEDY_KINDS = [
  "report_artifact",
  "report_attestation",
  "fix_attestation",
  "override_attestation",
  "make_trail_compliant",
  "correct_policy",
  "allowlist",
] as const;

/** `words` is a sentence in the imperative without a full stop. `fingerprint`: the artifact to report or to attest. */
type Remedy = CauseSubject & { kind: (typeof REMEDY_KINDS)[number]; words: string; fingerprint: string | null };

/** What would satisfy a rule that is not satisfied: all of these, where one attestation has alternatives. */
export function listRemedies(
  rule: RuleVerdict,
  { flows, fingerprint }: { flows: readonly FlowRecord[]; fingerprint: string },
): Remedy[] {
  if (rule.satisfied !== false) return [];
  const trails = rule.resolutions.flatMap((resolution, index): Remedy[] => {
    const flow = flows[index];
    return resolution.type === "non_compliant_in_trail" && flow && resolution.context.evaluation_error === undefined
      ? [
          {
            ...NOTHING,
            kind: "make_trail_compliant",
            words: `Make the artifact COMPLIANT in trail '${flow.trail ?? ""}' of flow '${flow.flow}'`,
            flow: flow.flow,
            trail: flow.trail,
            fingerprint,
          },
        ]
      : [];
  });
  const causes = uniqueCauses(causesOfRule(rule, flows));
  return [...trails, ...causes.flatMap((cause) => remediesFor(cause, fingerprint)), allowlisting(fingerprint)];
}

/** The remedy that works for an artifact whatever its policies are. */
const allowlisting = (fingerprint: string): Remedy => ({
  ...NOTHING,
  kind: "allowlist",
  words: "Or add the artifact to the allowlist of the environment, with a reason",
  fingerprint,
});

/** What would remove a cause. @param fingerprint the artifact that is to be compliant, null for a trail as a whole */
export function remediesFor(cause: VerdictCause, fingerprint: string | null): Remedy[] {
  const { kind, flow, trail, name } = cause;
  const about = { ...NOTHING, flow, trail, name, type: cause.type, control: cause.control };
  const of = cause.level === "trail" ? null : fingerprint;
  const target = of === null ? "" : " for the artifact";
  const place = flow === null ? "" : ` ${trail === null ? "in" : `in trail '${trail}' of`} flow '${flow}'`;
  const one = (remedy: Remedy["kind"], words: string): Remedy => ({ ...about, kind: remedy, words, fingerprint: of });
  switch (kind) {
    case "no_provenance":
      return [one("report_artifact", "Report the artifact to a trail of the flow that builds it")];
    case "no_trail":
      return [one("report_artifact", `Report the artifact to a trail of flow '${flow ?? ""}'`)];
    case "reported_non_compliant":
      return [one("report_artifact", `Report the artifact to a trail of flow '${flow ?? ""}' as compliant`)];
    case "missing_artifact":
      return [{ ...one("report_artifact", `Report artifact '${name ?? ""}'${place}`), fingerprint: null }];
    case "failed_condition":
      return [one("correct_policy", `Correct the condition of the policy: ${cause.words}`)];
    case "missing_attestation":
      return [one("report_attestation", `Report a compliant ${describeKind(cause)}${target}${place}`)];
    case "non_compliant_attestation": {
      const { attestation_id } = cause;
      const what = describeKind(cause);
      return [
        {
          ...one("fix_attestation", `Fix what the ${what} found, and report it again${target}${place}`),
          attestation_id,
        },
        { ...one("override_attestation", `Or override the ${what}${place}, with a reason`), attestation_id },
      ];
    }
  }
}
