/** What an attestation says, in a few words, by its kind. */
import { typeWordOf } from "../../domain/attestation/kinds.ts";
import { describeFormat, describeSubject, readSbomSummary } from "../../domain/sbom/summary.ts";
import type { SbomSummary } from "../../domain/sbom/summary.ts";
import { stringifyJson } from "../../json/text.ts";
import { unreadableText } from "./json.ts";
import { inlineText, listOf, numberOf, objectOf, textOf } from "./loose-json.ts";
import { formatNumber } from "./state.ts";

/** An attestation as the API shows it; the fields of its kind are checked one by one. */
type ShownAttestation = {
  attestation_type: string;
  is_compliant: boolean;
  description?: string | null;
  [field: string]: unknown;
};

const MAX_CHARS = 160;

/** One line about the result: `1,214 passed, 6 skipped`. Empty where nothing but the verdict was reported. */
export function resultOf(attestation: ShownAttestation): string {
  const kind = kindWordOf(attestation.attestation_type);
  const left = leftOutOf(attestation);
  if (left !== null) return left.isDamaged ? "" : "Too long to be shown here";
  const text = (Object.hasOwn(RESULTS, kind) ? RESULTS[kind]?.(attestation) : null) || (attestation.description ?? "");
  const [line = "", ...more] = text.trim().split("\n");
  if (line.length > MAX_CHARS) return `${line.slice(0, MAX_CHARS - 1)}…`;
  return more.length > 0 ? `${line.trimEnd()}…` : line;
}

/** The word of a type, `custom` for every custom one. */
export const kindWordOf = (label: string): string => (label.startsWith("custom:") ? "custom" : typeWordOf(label));

/** The field with what a kind found. */
const FINDINGS: Readonly<Record<string, string>> = {
  junit: "junit_results",
  snyk: "processed_snyk_results",
  sonar: "sonar_results",
  pull_request: "pull_requests",
  jira: "jira_results",
  sbom: "attestation_data",
  custom: "rules",
};

/**
 * What the API gives in place of what an attestation found, where that is damaged or too long for a page; null where it
 * is there. Counting it would find nothing, which means something else.
 */
export function leftOutOf(attestation: ShownAttestation): { isDamaged: boolean; value: unknown } | null {
  if (attestation["unreadable"] === true) return { isDamaged: true, value: null };
  const kind = kindWordOf(attestation.attestation_type);
  const found = Object.hasOwn(FINDINGS, kind) ? attestation[FINDINGS[kind] as string] : null;
  const value = [attestation, found].find((one) => unreadableText(one) !== "");
  return value === undefined ? null : { isDamaged: false, value };
}

/** `3 high`; null for none. */
const counted = (count: number, word: string): string | null => (count > 0 ? `${formatNumber(count)} ${word}` : null);
const joined = (parts: readonly (string | null)[]): string => parts.filter((part) => part !== null).join(", ");

const RESULTS: Readonly<Record<string, (attestation: ShownAttestation) => string>> = {
  junit(attestation) {
    const { total, failed, skipped } = junitTotals(attestation);
    return joined([
      counted(failed, "failed"),
      `${formatNumber(total - failed - skipped)} passed`,
      counted(skipped, "skipped"),
    ]);
  },
  snyk(attestation) {
    const { high, medium, low } = snykTotals(attestation);
    return joined([counted(high, "high"), counted(medium, "medium"), counted(low, "low")]) || "No findings";
  },
  sonar({ sonar_results: results }) {
    const { qualityGate, status } = objectOf(results);
    const gate = textOf(objectOf(qualityGate)["status"]);
    return gate === "" ? `No quality gate${status ? `, task ${textOf(status)}` : ""}` : `Quality gate ${gate}`;
  },
  pull_request({ pull_requests: found }) {
    const [first, ...rest] = listOf(found);
    if (first === undefined) return "No pull request";
    if (rest.length > 0) return `${rest.length + 1} pull requests`;
    const approvers = listOf(first["approvers"]).length;
    return `${pullRequestName(textOf(first["url"]))}, ${approvers === 0 ? "no approval" : `approved by ${approvers}`}`;
  },
  jira({ jira_results: results }) {
    const issues = listOf(results);
    const unknown = issues.filter(({ issue_exists: exists }) => exists !== true);
    const name = ({ issue_id: id }: Readonly<Record<string, unknown>>): string => textOf(id);
    if (issues.length === 0) return "No issue";
    return unknown.length > 0
      ? `${unknown.slice(0, 3).map(name).join(", ")} not found`
      : joined([issues.slice(0, 3).map(name).join(", "), issues.length > 3 ? `${issues.length - 3} more` : null]);
  },
  custom({ rules, summary, is_compliant: isCompliant }) {
    const all = listOf(rules);
    const failing = all.filter((rule) => rule["is_compliant"] === false).length;
    if (!isCompliant && failing > 0) return `${failing} of ${all.length} rules ${failing === 1 ? "fails" : "fail"}`;
    const [group] = (objectOf(summary)["groups"] as unknown[] | undefined) ?? [];
    return listOf(group)
      .filter(({ value }) => inlineText(value) !== "" && value !== null)
      .slice(0, 3)
      .map(({ name, value }) => `${textOf(name)} ${inlineText(value)}`)
      .join(", ");
  },
  sbom(attestation) {
    const { format, packages, subject } = sbomSummaryOf(attestation);
    const count = packages === null ? null : `${formatNumber(packages)} ${packages === 1 ? "package" : "packages"}`;
    return joined([describeFormat(format), count, describeSubject(subject) || null]);
  },
  decision: ({ control, is_compliant: isCompliant }) => `${textOf(control)}: ${isCompliant ? "approved" : "declined"}`,
  override: ({ reason }) => `Overridden: ${textOf(reason)}`,
};

/** What the client read from an SBOM. */
export const sbomSummaryOf = ({ attestation_data: data }: ShownAttestation): SbomSummary =>
  readSbomSummary(JSON.parse(stringifyJson(data ?? null)));

/** The sums over all suites. `failed` has failures and errors. */
export function junitTotals({ junit_results: results }: ShownAttestation) {
  const totals = { total: 0, failed: 0, skipped: 0 };
  for (const suite of listOf(results)) {
    totals.total += numberOf(suite["total"]);
    totals.failed += numberOf(suite["failures"]) + numberOf(suite["errors"]);
    totals.skipped += numberOf(suite["skipped"]);
  }
  return totals;
}

/** The sums over all projects. */
export function snykTotals({ processed_snyk_results: results }: ShownAttestation) {
  const totals = { high: 0, medium: 0, low: 0 };
  for (const project of listOf(objectOf(results)["results"])) {
    totals.high += numberOf(project["high_count"]);
    totals.medium += numberOf(project["medium_count"]);
    totals.low += numberOf(project["low_count"]);
  }
  return totals;
}

/** `#1482` for `https://git.example.com/acme/pull/1482`; the end of the address where it has no number. */
export function pullRequestName(url: string): string {
  const [, last = url] = /([^/]+)\/?$/.exec(url) ?? [];
  return /^\d+$/.test(last) ? `#${last}` : last;
}
