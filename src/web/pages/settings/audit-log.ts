/** `/{org}/settings/audit-log`: what was changed, by whom; and the history of memberships. */
import type { AnswerOf } from "../../../http/in-process.ts";
import { listAuditLogEntries } from "../../../api/accounts/audit-log.ts";
import { listAuditLog } from "../../../api/accounts/membership-audit-log.ts";
import { AppError } from "../../../errors.ts";
import { icon } from "../../components/icon.ts";
import { card, downloadButton, empty, linkButton, table, tabs } from "../../components/layout.ts";
import { pageFrom, renderList } from "../../components/list-page.ts";
import { dayBoundOf, filters, pager } from "../../components/lists.ts";
import { tag } from "../../components/state.ts";
import { time, timestamp } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { queryText } from "../../page/links.ts";
import { page } from "../../page/page.ts";
import type { Visit } from "../../page/page.ts";
import { changeWords, describeObject, eventWords } from "./audit-words.ts";
import type { LoggedEntry } from "./audit-words.ts";
import { settingsContent } from "./settings-page.ts";

type LogPage = AnswerOf<typeof listAuditLogEntries>;
type MembershipEvent = AnswerOf<typeof listAuditLog>["events"][number];

const PER_PAGE = 25;

export const auditLogPage = page({
  path: "/{org}/settings/audit-log",
  async show(visit) {
    const { query, to } = visit;
    const isAboutMembers = query.get("tab") === "memberships";
    const views = tabs("Audit log", [
      { text: "All changes", href: to.settings("audit-log"), isCurrent: !isAboutMembers },
      { text: "Roles", href: to.settings("audit-log", { tab: "memberships" }), isCurrent: isAboutMembers },
    ]);
    const list = isAboutMembers ? await memberships(visit) : await changes(visit);
    return settingsContent(visit, "audit-log", { main: html`<div>${views}${list}</div>` });
  },
});

/** What events are about, by the first word of their names. */
const SUBJECTS: Readonly<Record<string, string>> = {
  action: "Actions",
  api_key: "API keys",
  artifact: "Artifacts",
  attestation: "Attestations",
  control: "Controls",
  custom_type: "Attestation types",
  delivery: "Messages",
  environment: "Environments",
  flow: "Flows",
  member: "Members",
  notification_config: "Recipients of warnings",
  organization: "Organization",
  policy: "Policies",
  retention: "Retention",
  service_account: "Service accounts",
  tags: "Tags",
  trail: "Trails",
  user: "Users",
  webhook: "Webhooks",
};

type LogFilter = {
  actor: string | null;
  event: string | null;
  target: string | null;
  from_timestamp: number | null;
  to_timestamp: number | null;
};

/** The filters of the address; values that no filter may have are left out. */
function filterOf({ query }: Visit): LogFilter {
  const text = (name: string, max: number): string | null => (query.get(name) ?? "").trim().slice(0, max) || null;
  const event = text("event", 100);
  return {
    actor: text("actor", 256),
    event: event !== null && /^[a-z_]+(?:\.[a-z_]+)?$/.test(event) ? event : null,
    target: text("target", 1024),
    from_timestamp: dayBoundOf(query, "from"),
    to_timestamp: dayBoundOf(query, "to"),
  };
}

async function changes(visit: Visit): Promise<Html> {
  const { to, org } = visit;
  const filter = filterOf(visit);
  const { entries, next } = await readEntries(visit, filter);
  const csv = `${to.api("audit-log", org, "csv")}${queryText(filter)}`;
  return html`${logFilters(visit, filter)}${card({
    id: "h-log",
    title: "Changes",
    note: "newest first",
    more: entries.length > 0 && html`<span class="right">${downloadButton(csv, "CSV", "small")}</span>`,
    body: entries.length === 0 ? nothing(visit, next) : entryTable(visit, entries),
  })}${pager(visit, { next })}`;
}

/** A cursor that is none begins anew. */
async function readEntries({ call, query }: Visit, filter: LogFilter): Promise<LogPage> {
  const read = (after: string | null) =>
    call(listAuditLogEntries, { query: { ...filter, after: after || null, per_page: PER_PAGE } });
  try {
    return await read(query.get("after"));
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "invalid") throw error;
    return read(null);
  }
}

function logFilters(visit: Visit, { event }: LogFilter): Html {
  const subjects = Object.entries(SUBJECTS).map(([value, text]) => ({ value, text }));
  const own = event !== null && !Object.hasOwn(SUBJECTS, event) ? [{ value: event, text: event }] : [];
  return filters(visit, {
    items: [
      { kind: "search", name: "actor", label: "Part of the actor's name" },
      {
        kind: "choice",
        name: "event",
        label: "What was changed",
        choices: [{ value: "", text: "Changes of all kinds" }, ...own, ...subjects],
      },
      { kind: "text", name: "target", label: "Part of the target" },
      { kind: "day", name: "from", label: "From (UTC)" },
      { kind: "day", name: "to", label: "To (UTC)" },
    ],
    total: null,
    what: "changes",
  });
}

/** `next` is not null where the server stopped after many entries without a match. */
const nothing = (visit: Visit, next: string | null): Html =>
  next === null
    ? empty({
        icon: "search",
        title: "No change matches",
        text: "The names of actors and targets match in part. Times are in UTC.",
        actions: linkButton(visit.to.settings("audit-log"), "Clear filters"),
      })
    : empty({
        icon: "search",
        title: "No match so far",
        text: "The newest 100,000 changes were looked through. Older ones may match.",
        actions: linkButton(visit.here({ after: next }), "Search further"),
      });

const entryTable = (visit: Visit, entries: readonly LoggedEntry[]): Html =>
  table({
    caption: "Changes",
    columns: [
      { text: "What happened" },
      { text: "To what", className: "w-target" },
      { text: "By" },
      { text: "When", isRight: true },
    ],
    rows: entries.map((entry) => entryRow(visit, entry)),
  });

const ACTORS = { user: "user", service_account: "service account", operator: "command on the server" } as const;

function entryRow({ to }: Visit, entry: LoggedEntry): Html {
  const { actor, detail } = entry;
  const credential =
    actor.credential &&
    html`<span class="id" title="${actor.credential.id}">${
      actor.credential.kind === "session" ? "session" : "key"
    } ${actor.credential.id.slice(0, 13)}</span>`;
  const facts = {
    event: entry.event,
    target: entry.target,
    ...(detail ?? {}),
    operation: entry.operation,
    request_id: entry.request_id,
  };
  const change = changeWords(entry);
  const more = html`<details class="detail-json"><summary>Details<span
class="vh"> of ${entry.event}</span>${icon("chevron-down", "12")}</summary><pre
tabindex="0">${JSON.stringify(facts, null, 2)}</pre></details>`;
  // The details stand below two columns: their lines are longer than one.
  return html`<tr class="has-detail"><td class="lead"><span class="strong event">${eventWords(entry)}</span></td>
<td class="fill">${describeObject(entry, to)}${change && html`<div class="sub">${change}</div>`}</td>
<td class="fill" data-l="By" rowspan="2"><bdi>${actor.full_name ?? actor.name}</bdi><div class="sub">${
    actor.full_name === null ? ACTORS[actor.kind] : html`<bdi>${actor.name}</bdi>`
  } ${credential}</div></td>
<td class="r" rowspan="2">${timestamp(entry.timestamp)}</td></tr>
<tr class="detail"><td class="full" colspan="2">${more}</td></tr>`;
}

/** Where a role was changed. */
const SOURCES: Readonly<Record<MembershipEvent["source"], string>> = {
  app: "web interface or API",
  scim: "SCIM",
  invitation: "invitation",
  script: "command on the server",
  oidc: "login provider",
};

async function memberships(visit: Visit): Promise<Html> {
  const { body } = await renderList(visit, {
    what: ["change", "changes"],
    read: pageFrom(listAuditLog, ({ query }) => ({
      query: { search: (query.get("search") ?? "").slice(0, 256) || null },
    })),
    filters: [{ kind: "search", name: "search", label: "Part of a name" }],
    keep: ["tab"],
    caption: "Changes of roles",
    head: () => ({ id: "h-roles", title: "Roles of members and service accounts", note: "newest first" }),
    columns: [{ text: "Who" }, { text: "Change" }, { text: "By" }, { text: "When", isRight: true }],
    row: membershipRow,
    empty: { icon: "people", title: "No change yet", text: "A change is recorded when a role is given or taken." },
    none: "The search looks for a part of the name of the member, or of the author of the change.",
  });
  return body;
}

function membershipRow({ now }: Visit, event: MembershipEvent): Html {
  const { user, user_name, role, previous_role } = event;
  const change =
    role === null
      ? html`removed, was ${tag(previous_role ?? "unknown")}`
      : previous_role === null
        ? html`added as ${tag(role)}`
        : html`${tag(previous_role)} to ${tag(role)}`;
  return html`<tr><td class="lead"><span class="t-name"><bdi>${user}</bdi></span>
<div class="sub"><bdi>${user_name}</bdi></div></td>
<td class="fill"><span>${change}</span></td>
<td class="fill" data-l="By"><bdi>${event.changed_by}</bdi><div class="sub">${SOURCES[event.source]}</div></td>
<td class="r">${time(event.timestamp, now)}</td></tr>`;
}
