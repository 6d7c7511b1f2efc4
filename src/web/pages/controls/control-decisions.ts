/** The tab with the decisions on a control, and the drawer with one of them (`decision=`). */
import { getControlDecision, listControlDecisions } from "../../../api/policies/control-decisions.ts";
import { AppError } from "../../../errors.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { binderButton } from "../binder/binder-link.ts";
import { drawer } from "../../components/drawer.ts";
import { jsonText } from "../../components/json.ts";
import { artifactName, commit, fingerprint, reportedLink } from "../../components/identifier.ts";
import { card, downloadButton, empty, facts, linkButton, nameCell, table } from "../../components/layout.ts";
import { dayBoundOf, filters, pageOf, pager } from "../../components/lists.ts";
import { badge, formatNumber, stateOfVerdict, tag } from "../../components/state.ts";
import { time, timestamp } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { queryText } from "../../page/links.ts";
import type { Visit } from "../../page/page.ts";
import type { Control } from "./control-data.ts";

type DecisionPage = AnswerOf<typeof listControlDecisions>;
type Decision = DecisionPage["decisions"][number];

const PER_PAGE = 25;
const FILTERS = ["flow", "compliance", "from", "to"] as const;

/** The filters of the address, as the list and its CSV take them. */
function readFilter(query: URLSearchParams) {
  const compliance = query.get("compliance");
  return {
    flow_name: query.get("flow") || null,
    is_compliant: compliance === "yes" ? true : compliance === "no" ? false : null,
    from_timestamp: dayBoundOf(query, "from"),
    to_timestamp: dayBoundOf(query, "to"),
  };
}

/** The tab, and the drawer if the address asks for a decision. */
export async function decisionsTab(visit: Visit, control: Control): Promise<{ main: Html; drawer: Html | null }> {
  const { call, query } = visit;
  const answer = await call(listControlDecisions, {
    params: { identifier: control.identifier },
    query: {
      ...readFilter(query),
      page: pageOf(query),
      per_page: PER_PAGE,
      sort_direction: query.get("sort") === "asc" ? "asc" : "desc",
    },
  });
  const isFiltered = FILTERS.some((name) => Boolean(query.get(name)));
  if (answer.total_count === 0 && !isFiltered) return { main: noDecision(control), drawer: null };
  return { main: decisionList(visit, control, answer), drawer: await drawerOf(visit, control, answer) };
}

const noDecision = ({ identifier }: Control): Html =>
  html`<section class="card">${empty({
    icon: "law",
    title: "No decisions yet",
    text: "A decision says whether a trail or an artifact met the control, and who decided.",
    command: `kosli attest decision --control ${identifier} \\
  --compliant=true --flow FLOW --trail TRAIL --name NAME`,
  })}</section>`;

function decisionList(visit: Visit, control: Control, { decisions, ...counts }: DecisionPage): Html {
  const { total_count: total, total_pages, page } = counts;
  const form = filters(visit, {
    items: [
      { kind: "text", name: "flow", label: "Name of a flow" },
      {
        kind: "choice",
        name: "compliance",
        label: "Decision",
        choices: [
          { value: "", text: "Any decision" },
          { value: "yes", text: "Approved" },
          { value: "no", text: "Refused" },
        ],
      },
      { kind: "day", name: "from", label: "From (UTC)" },
      { kind: "day", name: "to", label: "To (UTC)" },
      {
        kind: "choice",
        name: "sort",
        label: "Order",
        choices: [
          { value: "", text: "Newest first" },
          { value: "asc", text: "Oldest first" },
        ],
      },
    ],
    keep: ["tab"],
    total,
    what: total === 1 ? "decision" : "decisions",
  });
  if (decisions.length === 0 && page === 1)
    return html`${form}<section class="card">${empty({
      icon: "search",
      title: "No decision matches",
      text: "The name of a flow matches as a whole. Times are in UTC.",
      actions: linkButton(visit.to.control(control.identifier), "Clear filters"),
    })}</section>`;
  const columns = [
    { text: "Subject" },
    { text: "Decision", className: "w-st" },
    { text: "Flow" },
    // The drawer says it, and the list beside it is narrow.
    ...(visit.query.get("decision") ? [] : [{ text: "Version", className: "w-time" }]),
    { text: "Decided", isRight: true },
  ];
  return html`${form}${card({
    id: "h-decisions",
    title: "Decisions",
    more: takeAlong(visit, control),
    body: table({ caption: "Decisions", columns, rows: decisions.map((decision) => decisionRow(visit, decision)) }),
  })}${pager(visit, { total, page, per_page: PER_PAGE, page_count: total_pages })}`;
}

/** The decisions as a file: the list with its filters, or all of the period as a package. */
function takeAlong(visit: Visit, { identifier: control }: Control): Html {
  const { query, to, org } = visit;
  const { is_compliant: verdict, ...filter } = readFilter(query);
  const asked = queryText({ ...filter, is_compliant: verdict === null ? null : String(verdict) });
  const csv = `${to.api("controls", org, control, "decisions", "csv")}${asked}`;
  const about = { control, from: query.get("from"), to: query.get("to") };
  return html`<span class="right row">${downloadButton(csv, "CSV", "small")}${binderButton(visit, about, {
    text: "Binder…",
    kind: "small",
  })}</span>`;
}

/** An override counts from its own time on, and says so. */
const verdictOf = ({ is_compliant, attestation_type }: Decision): Html =>
  attestation_type === "override"
    ? badge(stateOfVerdict(is_compliant), { word: `${is_compliant ? "Approved" : "Refused"} by override` })
    : badge(stateOfVerdict(is_compliant), { word: is_compliant ? "Approved" : "Refused" });

function decisionRow(visit: Visit, decision: Decision): Html {
  const { to, here, query, now } = visit;
  const { flow_name: flow, trail_name: trail, control_version: version } = decision;
  const name = nameCell({
    href: here({ decision: decision.id, page: query.get("page") }),
    name: artifactName(decision.artifact_name ?? trail),
    sub: html`<span><bdi>${decision.attestation_name}</bdi> by ${decision.reported_by}</span>`,
  });
  const ofFlow = html`<a href="${to.flow(flow)}"><bdi>${flow}</bdi></a>`;
  const place =
    decision.artifact_name === null
      ? ofFlow
      : html`<a href="${to.trail(flow, trail)}"><bdi>${trail}</bdi></a><div class="sub">${ofFlow}</div>`;
  const isOpen = Boolean(query.get("decision"));
  const look = query.get("decision") === decision.id && html` class="sel"`;
  return html`<tr${look}>${name}<td>${verdictOf(decision)}</td><td class="fill">${place}</td>
${isOpen ? null : html`<td>${version === null ? html`<span class="muted">none</span>` : tag(`v${version}`)}</td>`}
<td class="r" data-l="Decided">${time(decision.timestamp, now)}</td></tr>`;
}

async function drawerOf(visit: Visit, control: Control, { decisions }: DecisionPage): Promise<Html | null> {
  const { query, call } = visit;
  const id = query.get("decision") ?? "";
  if (id === "") return null;
  const at = decisions.findIndex((one) => one.id === id);
  const params = { identifier: control.identifier, decision_id: id };
  const decision = await call(getControlDecision, { params }).catch((error: unknown) => {
    if (error instanceof AppError && error.code === "not_found") return null;
    throw error;
  });
  return decision && drawerWith(visit, decision, { at, all: decisions });
}

function drawerWith(visit: Visit, decision: Decision, { at, all }: { at: number; all: readonly Decision[] }): Html {
  const { here, query } = visit;
  const addressOf = (to: Decision | undefined): string | null =>
    to === undefined ? null : here({ decision: to.id, page: query.get("page") });
  return drawer({
    label: "Decision",
    what: "decision",
    close: here({ decision: null, page: query.get("page") }),
    ...(at === -1
      ? { position: "Decision" }
      : {
          position: `${formatNumber(at + 1)} of ${formatNumber(all.length)} on this page`,
          previous: addressOf(all[at - 1]),
          next: addressOf(all[at + 1]),
        }),
    body: decisionSections(visit, decision),
  });
}

function decisionSections(visit: Visit, decision: Decision): Html {
  const { to, org, now } = visit;
  const { flow_name: flow, trail_name: trail, artifact_fingerprint: print, id } = decision;
  const artifact =
    print === null
      ? "the whole trail"
      : html`<a href="${to.artifact(flow, print)}"><bdi>${decision.artifact_name ?? "artifact"}</bdi></a>`;
  const { sha1, url } = (decision.git_commit_info ?? {}) as { sha1?: string; url?: string };
  const original = decision.original_attestation_id;
  const whole = to.api("controls", org, decision.control, "decisions", id);
  return html`<section><div class="ph-title"><h2><bdi>${decision.attestation_name}</bdi></h2>${verdictOf(
    decision,
  )}</div>
<div class="meta"><span>${time(decision.timestamp, now)}</span><span>by ${decision.reported_by}</span></div>
${decision.description && html`<p class="prose gap-t2">${decision.description}</p>`}</section>
<section><h3>Record</h3>${facts([
    ["Trail", html`<a href="${to.attestation({ flow, trail, id })}"><bdi>${trail}</bdi></a>`],
    ["Flow", html`<a href="${to.flow(flow)}"><bdi>${flow}</bdi></a>`],
    ["Artifact", artifact],
    ["Fingerprint", print && fingerprint(print)],
    ["Commit", sha1 && commit(sha1, url)],
    ["Control", decision.control_version === null ? "did not exist yet" : `version ${decision.control_version}`],
    ["Origin", decision.origin_url && reportedLink(decision.origin_url, decision.origin_url)],
    ["Reported", timestamp(decision.timestamp)],
    [
      "Overrides",
      original &&
        html`<a href="${visit.here({ decision: original, page: visit.query.get("page") })}">an earlier decision</a>`,
    ],
  ])}</section>
${jsonSection("Data of the decision", decision.attestation_data, whole)}
${jsonSection("Annotations", decision.annotations, whole)}${jsonSection("User data", decision.user_data, whole)}${
  decision.evidence_archive_fingerprint &&
  html`<section><h3>Evidence</h3><div class="row">${fingerprint(decision.evidence_archive_fingerprint)}${downloadButton(
    to.api("attestations", org, flow, "trail", trail, "attestation", id, "evidence"),
    "Download",
    "small",
  )}</div></section>`
}`;
}

function jsonSection(title: string, value: unknown, whole: string): Html | null {
  const isEmpty =
    value === null || value === undefined || (typeof value === "object" && Object.keys(value).length === 0);
  return isEmpty ? null : html`<section><h3>${title}</h3>${jsonText(value, title, whole)}</section>`;
}
