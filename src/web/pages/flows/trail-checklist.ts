/** The card with the checklist of a trail. */
import type { Html } from "../../html.ts";
import { html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { typeWordOf } from "../../../domain/attestation/kinds.ts";
import { resultOf } from "../../components/attestation-result.ts";
import { icon } from "../../components/icon.ts";
import { fingerprint } from "../../components/identifier.ts";
import { card, empty, linkButton, moreLink, nameCell } from "../../components/layout.ts";
import { filters, oneOf, pager } from "../../components/lists.ts";
import { formatNumber, stateIcon, stateSubtitle, stateWord, tag } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { isAbout } from "./trail-entries.ts";
import type { Entry, Trail, TrailAttestation } from "./trail-entries.ts";

/** With both records of an overridden one, a page reads at most a hundred. */
const PER_PAGE = 50;

/** In the order of a large checklist: what fails comes first. */
const STATES = ["non_compliant", "missing", "compliant"] as const;
type CheckState = (typeof STATES)[number];
const STATE_WORDS: Readonly<Record<CheckState, string>> = {
  non_compliant: "Failing",
  missing: "Missing",
  compliant: "Compliant",
};

/**
 * The part of the checklist that the address asks for: a page, or the page with the open attestation. One that is
 * longer than a page is searched and filtered, and begins with what fails; others are in the order of the template.
 */
export function pageOfChecklist(entries: readonly Entry[], { query }: Pick<Visit, "query">) {
  const isLarge = entries.length > PER_PAGE;
  const isByState = isLarge && query.get("by") !== "artifact";
  const found = isLarge ? entries.filter((entry) => isFound(entry, query.get("check") ?? "")) : entries;
  const state = isLarge ? oneOf(query, "state", STATES) : null;
  const counts = Object.fromEntries(
    STATES.map((one) => [one, found.filter((entry) => entry.state === one).length]),
  ) as Record<CheckState, number>;
  const selected = state === null ? found : found.filter((entry) => entry.state === state);
  const all = isByState ? STATES.flatMap((one) => selected.filter((entry) => entry.state === one)) : selected;
  const pageCount = Math.max(1, Math.ceil(all.length / PER_PAGE));
  const opened = query.get("attestation_id");
  const at = opened === null ? -1 : all.findIndex((entry) => isAbout(entry, opened));
  const asked = query.has("page") ? Number(query.get("page")) : at === -1 ? 1 : Math.floor(at / PER_PAGE) + 1;
  const page = Number.isInteger(asked) && asked >= 1 ? Math.min(asked, pageCount) : 1;
  return {
    /** In the order of the list, on all pages. */
    all,
    shown: all.slice((page - 1) * PER_PAGE, page * PER_PAGE),
    pagination: { total: all.length, page, per_page: PER_PAGE, page_count: pageCount },
    isLarge,
    isByState,
    counts,
  };
}

/** Characters of a fingerprint that are not found by chance. */
const MIN_FINGERPRINT_CHARS = 5;

/** Whether the name of the check or of its artifact has the text, or the fingerprint begins with it. */
function isFound({ status, group }: Entry, search: string): boolean {
  const text = search.trim().toLowerCase();
  const has = (name: string): boolean => name.toLowerCase().includes(text);
  if (text === "" || has(status.attestation_name)) return true;
  if (group === null) return false;
  const print = group.artifact.artifact_fingerprint ?? "";
  return has(group.name) || (text.length >= MIN_FINGERPRINT_CHARS && print.startsWith(text));
}

/** The widths of the columns, because names and results may be long. */
export const CHECKLIST_COLUMNS = html`<colgroup><col class="col-name"><col><col class="col-when"></colgroup>`;

/** With a column for the artifact. */
const STATE_COLUMNS = html`<colgroup><col class="col-name"><col class="col-owner"><col><col
class="col-when"></colgroup>`;

type Checklist = ReturnType<typeof pageOfChecklist> & {
  trail: Trail;
  entries: readonly Entry[];
  /** By id; of a record that is not in it, only the verdict is shown. */
  records: ReadonlyMap<string, TrailAttestation>;
};

export function checklistCard(visit: Visit, checklist: Checklist): Html {
  const { trail, entries, shown, pagination, records, isByState } = checklist;
  const template = moreLink(visit.to.flow(trail.flow.name, { tab: "template" }), "Template");
  const context = { records, flow: trail.flow.name, isByState };
  const groups = Map.groupBy(shown, ({ group }) => group?.name ?? "");
  const bodies = isByState
    ? html`<tbody>${shown.map((entry) => entryRow(visit, entry, context))}</tbody>`
    : [...groups.values()].map((group) => groupBody(visit, group, context));
  const head = html`<tr><th scope="col">Attestation</th>${isByState && html`<th scope="col">Artifact</th>`}<th
scope="col">Result</th><th scope="col" class="r">When</th></tr>`;
  const list = html`<table class="t t-stack checklist"><caption class="vh">Attestations that the template expects, and
others that were reported</caption>${isByState ? STATE_COLUMNS : CHECKLIST_COLUMNS}<thead${
    !isByState && html` class="vh"`
  }>${head}</thead>${bodies}</table>`;
  return html`<div>${checklist.isLarge && checklistFilters(visit, checklist)}${card({
    id: "h-checklist",
    title: "Checklist",
    note: entries.length === 0 ? null : summaryOf(entries),
    more: template,
    body: entries.length === 0 ? nothing(trail) : shown.length === 0 ? noMatch(visit) : list,
  })}${pager(visit, pagination)}</div>`;
}

function checklistFilters(visit: Visit, { pagination, counts, isByState }: Checklist): Html {
  const all = STATES.reduce((sum, state) => sum + counts[state], 0);
  return filters(visit, {
    items: [
      { kind: "search", name: "check", label: "Check or artifact" },
      {
        kind: "state",
        name: "state",
        label: "State",
        choices: [
          { value: "", text: "All", count: all },
          ...STATES.map((state) => ({ value: state, text: STATE_WORDS[state], count: counts[state] })),
        ],
      },
      {
        kind: "choice",
        name: "by",
        label: "Order",
        choices: [
          { value: "", text: "By state" },
          { value: "artifact", text: "By artifact" },
        ],
      },
    ],
    keep: ["order"],
    total: pagination.total,
    what: `${pagination.total === 1 ? "check" : "checks"}, ${isByState ? "failing first" : "as in the template"}`,
  });
}

const noMatch = ({ here }: Visit): Html =>
  empty({
    icon: "search",
    title: "No check matches",
    text: "The search looks for a part of the name of a check or artifact, or the beginning of a fingerprint.",
    actions: linkButton(here({ check: null, state: null }), "Clear filters"),
  });

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

type RowContext = { records: ReadonlyMap<string, TrailAttestation>; flow: string; isByState: boolean };

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

function entryRow({ here, query, now, to }: Visit, entry: Entry, { records, flow, isByState }: RowContext): Html {
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
  })}${isByState && html`<td>${ownerOf({ to }, entry, flow)}</td>`}<td class="fill">${
    state === "missing" ? html`<span class="muted">Expected by the template</span>` : result
  }</td><td class="r">${time(record?.created_at, now)}</td></tr>`;
}

function ownerOf({ to }: Pick<Visit, "to">, { group }: Entry, flow: string): Html {
  if (group === null) return html`<span class="muted">the trail</span>`;
  const print = group.artifact.artifact_fingerprint;
  const name = html`<bdi class="cut">${group.name}</bdi>`;
  return print === null ? name : html`<a href="${to.artifact(flow, print, group.artifact.artifact_id)}">${name}</a>`;
}

const typeText = (type: string): string => (type === "*" ? "any type" : typeWordOf(type));

/** The query parameters of an open drawer, removed. */
export const CLOSED = { attestation_id: null, view: null, ask: null } as const;
