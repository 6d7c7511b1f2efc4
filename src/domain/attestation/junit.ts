import { formatCount, verdictFromReasons } from "./verdict.ts";
import type { AttestationVerdict } from "./verdict.ts";

/** A suite of a JUnit report; `duration` in seconds, `timestamp` in epoch seconds (wire-contract 28). */
type JunitSuite = {
  name: string;
  failures: number;
  errors: number;
  skipped: number;
  total: number;
  duration: number;
  timestamp?: number | null;
};

/** The part of a JUnit report that its verdict depends on (wire-contract 6.1). */
type JunitPayload = { junit_results: readonly JunitSuite[] };

/**
 * Compliant without failures and errors; skipped tests do not matter (semantics 3.3). Every suite is checked instead of
 * the sums: for the counts that test runners write both are equal, and a negative count cannot hide a failure. An empty
 * list of suites proves nothing and is never compliant; validation already refuses it (semantics 13.23).
 */
export function evaluateJunit({ junit_results: suites }: JunitPayload): AttestationVerdict {
  if (suites.length === 0) return verdictFromReasons(["No test suites were reported"]);
  const failing = suites.filter(({ failures, errors }) => failures !== 0 || errors !== 0);
  return verdictFromReasons(
    failing.map(
      ({ name, failures, errors }) =>
        `Suite '${name}' has ${formatCount(failures, "failure")} and ${formatCount(errors, "error")}`,
    ),
  );
}
