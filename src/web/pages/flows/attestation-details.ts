/** What an attestation says in full, by its kind: the rule of its verdict, figures and findings. */
import {
  junitTotals,
  kindWordOf,
  leftOutOf,
  pullRequestName,
  sbomSummaryOf,
  snykTotals,
} from "../../components/attestation-result.ts";
import { icon } from "../../components/icon.ts";
import { commit, reportedLink } from "../../components/identifier.ts";
import { facts } from "../../components/layout.ts";
import { inlineText, listOf, numberOf, objectOf, textOf } from "../../components/loose-json.ts";
import { formatNumber, plainState } from "../../components/state.ts";
import { formatSpan, time } from "../../components/time.ts";
import { describeFormat, describeSubject, describeTools } from "../../../domain/sbom/summary.ts";
import { membersOf } from "../../../json/text.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import { jsonText } from "../../components/json.ts";
import type { TrailAttestation } from "./trail-entries.ts";

/** Rows of a list that are shown; the raw JSON has the rest. */
const MAX_ROWS = 50;

type Details = {
  /** When an attestation of the kind is compliant, in one sentence. */
  rule: string;
  /** Below the rule. */
  figures?: Html | null;
  /** Sections with a heading of their own. */
  sections?: readonly Value[];
};
/** `whole`: the address of the record as JSON. */
type Context = { now: number; whole: string };

/** The details of a record of any kind; of an unknown one, the rule alone. */
export function detailsOf(record: TrailAttestation, context: Context): Details {
  const kind = kindWordOf(record.attestation_type);
  const details = (Object.hasOwn(KINDS, kind) ? KINDS[kind] : undefined)?.(record, context) ?? {
    rule: "The reporter stated the verdict.",
  };
  const left = leftOutOf(record);
  if (left === null) return details;
  const { unreadable, bytes, beginning } = objectOf(left.value);
  const text = left.isDamaged
    ? html`<p>${record.description}</p>`
    : jsonText({ unreadable, bytes, beginning }, "Results", context.whole);
  return { rule: details.rule, sections: [html`<section><h3>Results</h3>${text}</section>`] };
}

const KINDS: Readonly<Record<string, (record: TrailAttestation, context: Context) => Details>> = {
  generic: () => ({ rule: "The reporter of a generic attestation states its verdict." }),
  junit: junitDetails,
  snyk: snykDetails,
  sonar: sonarDetails,
  pull_request: pullRequestDetails,
  jira: jiraDetails,
  decision: decisionDetails,
  sbom: sbomDetails,
  custom: customDetails,
  override: () => ({ rule: "An override replaces the verdict until the attestation is reported again." }),
};

type Figure = { label: string; value: number; isBad?: boolean };

const figureStrip = (items: readonly Figure[]): Html =>
  html`<dl class="figures${items.length === 3 && " figures-3"}">${items.map(
    ({ label, value, isBad }) =>
      html`<div><dt>${label}</dt><dd><span class="fig${value === 0 ? " muted" : isBad ? " bad" : ""}">${formatNumber(
        value,
      )}</span></dd></div>`,
  )}</dl>`;

/** Columns at the right. */
const NUMBERS: ReadonlySet<string> = new Set(["Tests", "Failed", "Skipped", "Value"]);

/** A section with a table. @param total how many rows there are; those that are not shown are counted */
function tableSection(
  title: string,
  columns: readonly string[],
  { rows, total }: { rows: readonly Value[]; total: number },
): Html | null {
  if (rows.length === 0) return null;
  const head = columns.map((text) => html`<th scope="col"${NUMBERS.has(text) && html` class="r"`}>${text}</th>`);
  const rest = total - rows.length;
  return html`<section><h3>${title}</h3><table class="t"><thead><tr>${head}</tr></thead><tbody>${rows}</tbody></table>${
    rest > 0 && html`<p class="sub gap-t2">${formatNumber(rest)} more in the raw JSON.</p>`
  }</section>`;
}

function junitDetails(record: TrailAttestation): Details {
  const { total, failed, skipped } = junitTotals(record);
  const suites = listOf(record["junit_results"]);
  const failures = (suite: Readonly<Record<string, unknown>>): number =>
    numberOf(suite["failures"]) + numberOf(suite["errors"]);
  const ordered = [...suites].sort((a, b) => failures(b) - failures(a)).slice(0, MAX_ROWS);
  const rows = ordered.map((suite) => {
    const failing = failures(suite);
    return html`<tr><td><span class="t-name">${textOf(suite["name"])}</span><div class="sub">${formatSpan(
      numberOf(suite["duration"]),
    )}</div></td><td class="r num">${formatNumber(numberOf(suite["total"]))}</td><td class="r num">${
      failing > 0 ? html`<span class="strong bad">${formatNumber(failing)}</span>` : "0"
    }</td><td class="r num">${formatNumber(numberOf(suite["skipped"]))}</td></tr>`;
  });
  return {
    rule: "A JUnit attestation is compliant if no suite has a failure or an error.",
    figures: figureStrip([
      { label: "Failed", value: failed, isBad: true },
      { label: "Passed", value: Math.max(0, total - failed - skipped) },
      { label: "Skipped", value: skipped },
    ]),
    sections: [tableSection("Suites", ["Suite", "Tests", "Failed", "Skipped"], { rows, total: suites.length })],
  };
}

const SEVERITIES = [
  { key: "high", text: "High", colour: "bad", icon: "alert-fill" },
  { key: "medium", text: "Medium", colour: "wait", icon: "alert" },
  { key: "low", text: "Low", colour: "none", icon: "alert" },
] as const;

function snykDetails(record: TrailAttestation): Details {
  const { high, medium, low } = snykTotals(record);
  const results = objectOf(record["processed_snyk_results"]);
  const found = SEVERITIES.flatMap((severity) =>
    listOf(results["results"])
      .flatMap((project) => listOf(project[severity.key]))
      .map((issue) => ({ issue, severity })),
  );
  const rows = found.slice(0, MAX_ROWS).map(({ issue, severity }) => {
    const places = listOf(issue["locations"])
      .slice(0, 3)
      .map(({ uri }) => textOf(uri))
      .join(", ");
    return html`<tr><td><span class="t-name">${textOf(issue["message"])}</span><div class="sub"><span
class="mono">${textOf(
      issue["id"],
    )}</span>${places !== "" && html`<span>${places}</span>`}</div></td><td><span class="st ${severity.colour}">${icon(
      severity.icon,
    )}${severity.text}</span></td></tr>`;
  });
  const tool = objectOf(results["tool"]);
  return {
    rule: "A Snyk attestation is compliant only when every count is zero.",
    figures: html`${figureStrip([
      { label: "High", value: high, isBad: true },
      { label: "Medium", value: medium },
      { label: "Low", value: low },
    ])}<p class="sub gap-t2">${textOf(tool["name"])} ${textOf(tool["version"])}</p>`,
    sections: [tableSection("Findings", ["Finding", "Severity"], { rows, total: found.length })],
  };
}

function sonarDetails(record: TrailAttestation): Details {
  const results = objectOf(record["sonar_results"]);
  const [gate, project] = [objectOf(results["qualityGate"]), objectOf(results["project"])];
  const status = textOf(gate["status"]);
  const conditions = listOf(gate["conditions"]);
  const rows = conditions.slice(0, MAX_ROWS).map((condition) => {
    const isMet = ["OK", "PASSED", "NO_VALUE"].includes(textOf(condition["status"]));
    const threshold = `${OPERATORS[textOf(condition["operator"])] ?? textOf(condition["operator"])} ${textOf(
      condition["errorThreshold"],
    )}`;
    return html`<tr><td><span class="t-name">${textOf(condition["metric"])}</span><div
class="sub">fails if ${threshold}</div></td>
<td class="r num">${textOf(condition["value"])}</td><td>${plainState(
      isMet ? "compliant" : "non_compliant",
      isMet ? "Met" : "Failed",
    )}</td></tr>`;
  });
  const analysed = Date.parse(textOf(results["analysedAt"])) / 1000;
  return {
    rule: "A Sonar attestation is compliant if the quality gate has passed.",
    figures: facts([
      ["Quality gate", status === "" ? "None" : html`${status} <span class="sub">${textOf(gate["name"])}</span>`],
      ["Project", reportedLink(textOf(project["url"]), textOf(project["name"]) || textOf(project["key"]))],
      ["Task", textOf(results["status"])],
      ["Revision", textOf(results["revision"]) && commit(textOf(results["revision"]))],
      ["Analysed", Number.isFinite(analysed) && time(analysed, record.created_at)],
    ]),
    sections: [tableSection("Conditions", ["Metric", "Value", "Result"], { rows, total: conditions.length })],
  };
}

const OPERATORS: Readonly<Record<string, string>> = { LESS_THAN: "below", GREATER_THAN: "above", EQUALS: "equal to" };

function pullRequestDetails(record: TrailAttestation, { now }: Context): Details {
  const all = listOf(record["pull_requests"]);
  return {
    rule: "A pull request attestation is compliant if there is at least one pull request.",
    sections: [
      ...all.slice(0, MAX_ROWS).map((found) => pullRequestSection(found, now)),
      all.length > MAX_ROWS && html`<section><p>${all.length - MAX_ROWS} more in the raw JSON.</p></section>`,
    ],
  };
}

function pullRequestSection(found: Readonly<Record<string, unknown>>, now: number): Html {
  const url = textOf(found["url"]);
  const people = listOf(found["approvers"]).slice(0, MAX_ROWS);
  const approvers = people.map((person) => {
    const at = numberOf(person["timestamp"]);
    return html`<li>${icon("check")}<span class="grow">${textOf(person["username"])}</span>${
      at > 0 && time(at, now)
    }</li>`;
  });
  const branches = [textOf(found["head_ref"]), textOf(found["base_ref"])].filter((name) => name !== "");
  const commits = listOf(found["commits"]).length;
  return html`<section><h3>${reportedLink(url, pullRequestName(url))} <bdi>${textOf(found["title"])}</bdi></h3>${facts([
    ["State", textOf(found["state"]).toLowerCase()],
    ["Author", textOf(found["author"])],
    ["Branches", branches.length > 0 && html`<span class="mono">${branches.join(" → ")}</span>`],
    ["Merged", numberOf(found["merged_at"]) > 0 && time(numberOf(found["merged_at"]), now)],
    ["Merge commit", textOf(found["merge_commit"]) && commit(textOf(found["merge_commit"]))],
    ["Commits", commits > 0 && formatNumber(commits)],
    [
      "Approved by",
      approvers.length > 0
        ? html`<ul class="rows rows-flat">${approvers}</ul>`
        : html`<span class="muted">no approval</span>`,
    ],
  ])}</section>`;
}

function jiraDetails(record: TrailAttestation): Details {
  const issues = listOf(record["jira_results"]);
  const rows = issues.slice(0, MAX_ROWS).map((issue) => {
    const fields = objectOf(issue["issue_fields"]);
    const exists = issue["issue_exists"] === true;
    const status = textOf(objectOf(fields["status"])["name"]);
    const link = reportedLink(textOf(issue["issue_url"]), textOf(issue["issue_id"]));
    return html`<tr><td><span class="t-name">${link}</span><div class="sub">${textOf(fields["summary"])}</div></td>
<td>${plainState(exists ? "compliant" : "non_compliant", exists ? status || "Exists" : "Not found")}</td></tr>`;
  });
  return {
    rule: "A Jira attestation is compliant if it refers to at least one issue, and all of them exist.",
    sections: [tableSection("Issues", ["Issue", "Status"], { rows, total: issues.length })],
  };
}

function decisionDetails(record: TrailAttestation): Details {
  const data = membersOf(record["attestation_data"]).filter(([name]) => name !== "is_compliant");
  const entries = data.slice(0, MAX_ROWS);
  return {
    rule: "The reporter of a decision states whether the control is satisfied.",
    figures: facts([
      ["Control", html`<b>${textOf(record["control"])}</b>`],
      ["Version", record["control_version"] ? `v${textOf(record["control_version"])}` : "the control did not exist"],
      ["Decision", record.is_compliant ? "Approved" : "Refused"],
      ...entries.map(([name, value]) => [name, inlineText(value)] as const),
    ]),
  };
}

function sbomDetails(record: TrailAttestation, { now }: Context): Details {
  const { format, createdAt, tools, subject, packages } = sbomSummaryOf(record);
  const made = createdAt === null ? Number.NaN : Date.parse(createdAt) / 1000;
  return {
    rule:
      "An SBOM attestation is always compliant: it was recorded as reported, and nothing was checked against the " +
      "artifact.",
    figures: facts([
      ["Format", describeFormat(format)],
      ["About", describeSubject(subject)],
      ["Package URL", subject?.purl && html`<span class="mono">${subject.purl}</span>`],
      ["Packages", packages === null ? html`<span class="muted">not stated</span>` : formatNumber(packages)],
      ["Tools", describeTools(tools) || html`<span class="muted">not stated</span>`],
      ["Created", Number.isFinite(made) ? time(made, now) : (createdAt ?? html`<span class="muted">not stated</span>`)],
    ]),
  };
}

function customDetails(record: TrailAttestation, { whole }: Context): Details {
  const rules = listOf(record["rules"]);
  const rows = rules.slice(0, MAX_ROWS).map((rule) => {
    const isMet = rule["is_compliant"] === true;
    const reason = textOf(rule["reason"]);
    return html`<tr><td><code class="wrap">${textOf(rule["rule"])}</code>${
      reason !== "" && html`<div class="sub bad">${reason}</div>`
    }</td><td>${plainState(isMet ? "compliant" : "non_compliant", isMet ? "Holds" : "Fails")}</td></tr>`;
  });
  const groups = (objectOf(record["summary"])["groups"] as unknown[] | undefined) ?? [];
  const version = record["type_version"] ? ` version ${textOf(record["type_version"])}` : "";
  return {
    rule: `A custom attestation is compliant if every rule of its type holds. Evaluated with${version || " the type"}.`,
    figures: groups.length > 0 ? html`${groups.slice(0, MAX_ROWS).map((group) => summaryGroup(listOf(group)))}` : null,
    sections: [
      tableSection("Rules", ["Rule", "Result"], { rows, total: rules.length }),
      record["attestation_data"] !== undefined &&
        html`<section><h3>Data</h3>${jsonText(record["attestation_data"], "Reported data", whole)}</section>`,
    ],
  };
}

const summaryGroup = (rows: readonly Readonly<Record<string, unknown>>[]): Html =>
  facts(
    rows.map(({ name, value, error }) => [
      textOf(name),
      textOf(error) === "" ? html`<b>${inlineText(value)}</b>` : html`<span class="bad">${textOf(error)}</span>`,
    ]),
  );
