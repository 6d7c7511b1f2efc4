/** The card with the checklist of a trail. */
import type { Html } from "../../html.ts";
import { html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { typeWordOf } from "../../../domain/attestation/kinds.ts";
import { resultOf } from "../../components/attestation-result.ts";
import { icon } from "../../components/icon.ts";
import { fingerprint } from "../../components/identifier.ts";
import { card, empty, moreLink, nameCell } from "../../components/layout.ts";
import { pager } from "../../components/lists.ts";
import { formatNumber, stateIcon, stateSubtitle, stateWord, tag } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { isAbout } from "./trail-entries.ts";
import type { Entry, Trail, TrailAttestation } from "./trail-entries.ts";

/** With both records of an overridden one, a page reads at most a hundred. */
const PER_PAGE = 50;

/** The part of the checklist that the address asks for: a page, or the page with the open attestation. */
export function pageOfChecklist(entries: readonly Entry[], { query }: Pick<Visit, "query">) {
  const pageCount = Math.max(1, Math.ceil(entries.length / PER_PAGE));
  const opened = query.get("attestation_id");
  const at = opened === null ? -1 : entries.findIndex((entry) => isAbout(entry, opened));
  const asked = query.has("page") ? Number(query.get("page")) : at === -1 ? 1 : Math.floor(at / PER_PAGE) + 1;
  const page = Number.isInteger(asked) && asked >= 1 ? Math.min(asked, pageCount) : 1;
  return {
    shown: entries.slice((page - 1) * PER_PAGE, page * PER_PAGE),
    pagination: { total: entries.length, page, per_page: PER_PAGE, page_count: pageCount },
  };
}

/** The widths of the columns, because names and results may be long. */
export const CHECKLIST_COLUMNS = html`<colgroup><col class="col-name"><col><col class="col-when"></colgroup>`;

type Checklist = ReturnType<typeof pageOfChecklist> & {
  trail: Trail;
  entries: readonly Entry[];
  /** By id; of a record that is not in it, only the verdict is shown. */
  records: ReadonlyMap<string, TrailAttestation>;
};

export function checklistCard(visit: Visit, { trail, entries, shown, pagination, records }: Checklist): Html {
  const { to } = visit;
  const template = moreLink(to.flow(trail.flow.name, { tab: "template" }), "Template");
  const isEmpty = entries.length === 0;
  const groups = Map.groupBy(shown, ({ group }) => group?.name ?? "");
  const bodies = [...groups.values()].map((group) => groupBody(visit, group, { records, flow: trail.flow.name }));
  const list = html`<table class="t t-stack checklist"><caption class="vh">Attestations that the template expects, and
others that were reported</caption>${CHECKLIST_COLUMNS}<thead class="vh"><tr><th
scope="col">Attestation</th><th scope="col">Result</th><th
scope="col">When</th></tr></thead>${bodies}</table>`;
  return html`<div>${card({
    id: "h-checklist",
    title: "Checklist",
    note: isEmpty ? null : summaryOf(entries),
    more: template,
    body: isEmpty ? nothing(trail) : list,
  })}${pager(visit, pagination)}</div>`;
}

const nothing = (trail: Trail): Html =>
  empty({
    icon: "checklist",
    title: "Nothing expected, nothing reported",
    text: "The template of this trail expects no attestation. What pipelines report appears here.",
    command: `kosli attest generic --name NAME --flow ${trail.flow.name} --trail ${trail.name}`,
  });

/** `9 of 10 delivered, 1 fails, 1 extra`. */
function summaryOf(entries: readonly Entry[]): string {
  const expected = entries.filter(({ status }) => !status.unexpected);
  const delivered = expected.filter(({ state }) => state !== "missing").length;
  const failing = entries.filter(({ state }) => state === "non_compliant").length;
  const extra = entries.length - expected.length;
  return [
    expected.length > 0 && `${formatNumber(delivered)} of ${formatNumber(expected.length)} delivered`,
    failing > 0 && `${formatNumber(failing)} ${failing === 1 ? "fails" : "fail"}`,
    extra > 0 && `${formatNumber(extra)} extra`,
  ]
    .filter((part) => part !== false)
    .join(", ");
}

type RowContext = { records: ReadonlyMap<string, TrailAttestation>; flow: string };

function groupBody(visit: Visit, entries: readonly Entry[], context: RowContext): Html {
  const group = entries[0]?.group ?? null;
  return html`<tbody><tr class="group"><th colspan="3" scope="colgroup">${
    group === null ? "Trail" : artifactHead(visit, group, context)
  }</th></tr>${entries.map((entry) => entryRow(visit, entry, context))}</tbody>`;
}

function artifactHead({ to }: Visit, { name, artifact }: NonNullable<Entry["group"]>, { flow }: RowContext): Html {
  const print = artifact.artifact_fingerprint;
  // An artifact that was reported without a name goes by its fingerprint, which follows anyway.
  const isFingerprint = print !== null && name.endsWith(print);
  const label = html`<bdi>${isFingerprint ? "Artifact" : name}</bdi>`;
  const link = print === null ? label : html`<a href="${to.artifact(flow, print, artifact.artifact_id)}">${label}</a>`;
  const extra = artifact.unexpected && tag("not in template", "plus");
  return html`<span class="gh">${icon("package")}${link} ${
    print === null ? html`<span class="st none">${icon("circle")}Missing</span>` : fingerprint(print)
  }${extra}</span>`;
}

function entryRow({ here, query, now }: Visit, entry: Entry, { records }: RowContext): Html {
  const { status, state, id } = entry;
  const opened = query.get("attestation_id");
  const isOpen = opened !== null && isAbout(entry, opened);
  const record = id === null ? undefined : records.get(id);
  const original = status.attestation_id === null ? undefined : records.get(status.attestation_id);
  const isOverridden = status.overridden_attestation_id !== null;
  const word = isOverridden ? `${stateWord(state)} by override` : stateWord(state);
  const tags = [
    isOverridden && tag("overridden", "pencil"),
    status.unexpected && tag("not in template", "plus"),
  ].filter((item) => item !== false);
  const result = record && resultOf(isOverridden && original ? original : record);
  return html`<tr${isOpen && html` class="sel" aria-current="true"`}>${nameCell({
    href: id === null ? null : here({ ...CLOSED, attestation_id: id, page: query.get("page") }),
    name: html`<bdi>${status.attestation_name}</bdi>`,
    mark: stateIcon(state, word),
    after: tags.length > 0 && html`${tags}`,
    sub: html`${stateSubtitle(state, word)}<span>${typeText(status.attestation_type)}</span>`,
  })}<td class="fill">${
    state === "missing" ? html`<span class="muted">Expected by the template</span>` : result
  }</td><td class="r">${time(record?.created_at, now)}</td></tr>`;
}

const typeText = (type: string): string => (type === "*" ? "any type" : typeWordOf(type));

/** The query parameters of an open drawer, removed. */
export const CLOSED = { attestation_id: null, view: null, ask: null } as const;
