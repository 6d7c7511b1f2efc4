/** The tab with the snapshots of an environment and who made them, and its events as a file for auditors. */
import { getEnvAuditlog } from "../../../api/environments/environment-auditlog.ts";
import { listSnapshotOutlines } from "../../../api/environments/snapshot-history.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { card, empty, nameCell, padded, table } from "../../components/layout.ts";
import { pageOf, pager } from "../../components/lists.ts";
import { verdictBar } from "../../components/charts.ts";
import { icon } from "../../components/icon.ts";
import { badge, stateOfVerdict } from "../../components/state.ts";
import { formatSpan, timestamp } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import type { PastEnvironment } from "./past.ts";
import { reportCommand } from "./types.ts";
import type { ShownEnvironment } from "./types.ts";

type Outline = AnswerOf<typeof listSnapshotOutlines>["data"][number];

const PER_PAGE = 25;

/** @param past the environment as of the moment that is shown, with a snapshot in force then; null for the present */
export async function logTab(visit: Visit, environment: ShownEnvironment, past: PastEnvironment | null): Promise<Html> {
  const { data, pagination } = await visit.call(listSnapshotOutlines, {
    params: { env_name: environment.name },
    query: { page: pageOf(visit.query), per_page: PER_PAGE, until: past?.snapshot_index ?? null },
  });
  if (pagination.total === 0)
    return html`<section class="card">${empty({
      icon: "history",
      title: "No snapshots yet",
      text: "A snapshot is made when what runs, or its verdict, changes.",
      command: reportCommand(environment),
    })}</section>`;
  const list = table({
    caption: "Snapshots, newest first",
    columns: [
      { text: "Snapshot" },
      { text: "State", className: "w-st" },
      { text: past === null ? "Running" : "Ran", className: "w-seg" },
      { text: "In force for", isRight: true, className: "hide-tablet" },
      { text: "Taken", isRight: true },
    ],
    rows: data.map((outline) => outlineRow(visit, environment, outline)),
  });
  return html`${card({ id: "h-log", title: "Snapshots", body: list })}${pager(visit, pagination)}${
    past === null && visit.may(getEnvAuditlog) && fileCard(visit, environment)
  }`;
}

const CAUSES: Readonly<Record<Outline["cause"], string>> = {
  report: "report of",
  policies: "policies changed by",
  policy_version: "policy version by",
  allowlist: "allowlist changed by",
  member: "member changed by",
};

function outlineRow({ to, now, moment }: Visit, { name }: ShownEnvironment, outline: Outline): Html {
  const { artifact_compliance_count: counts, member, timestamp: taken } = outline;
  const cause = html`${CAUSES[outline.cause]} <bdi>${outline.user_name || "the server"}</bdi>${
    member &&
    html` in <a href="${to.snapshot(member.name, member.index)}"><span><bdi>${member.name}</bdi>
#${member.index}</span></a>`
  }`;
  const cell = nameCell({
    href: to.snapshot(name, outline.index),
    name: `#${outline.index}`,
    sub: html`<span>${cause}</span>`,
  });
  const span = formatSpan((outline.next_timestamp ?? now) - taken);
  return html`<tr>${cell}<td>${badge(stateOfVerdict(outline.compliant))}</td><td class="w-seg seg-td">${verdictBar(
    { compliant: counts.true, failing: counts.false, unknown: counts.null },
    (show) => to.snapshot(name, outline.index, { show }),
    { isPast: moment !== null },
  )}</td><td class="r num hide-tablet" data-l="In force for">${span}</td><td class="r"
data-l="Taken">${timestamp(taken)}</td></tr>`;
}

/** Downloads need no script: the form asks the operation itself. */
function fileCard({ to, org }: Visit, { name }: ShownEnvironment): Html {
  const kinds = [
    { value: "", text: "All events" },
    { value: "started", text: "Starts" },
    { value: "exited", text: "Exits" },
    { value: "changed", text: "Changes" },
  ];
  const choice = kinds.map(({ value, text }) => html`<option value="${value}">${text}</option>`);
  return card({
    id: "h-csv",
    title: "Audit log",
    note: "all events with verdicts, commits and who reported them, as CSV",
    body: padded(html`<form class="filters no-gap" method="get"
action="${to.api("environments", org, name, "auditlog")}"><select
class="field" name="event_types" aria-label="Events">${choice}</select><input class="field" name="flow_names"
aria-label="Flows, separated by commas" placeholder="Flows: api, web"><input class="field" name="repo_names"
aria-label="Repositories, separated by commas" placeholder="Repositories"><button class="btn" type="submit">${icon(
      "download",
    )}Download CSV</button></form>`),
  });
}
