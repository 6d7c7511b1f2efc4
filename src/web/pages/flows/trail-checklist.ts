/** The card with the checklist of a trail. */
import type { Html } from "../../html.ts";
import { html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { getTrailChecklist } from "../../../api/flows/trail-checklist.ts";
import { totalIn } from "../../../api/paging.ts";
import { typeWordOf } from "../../../domain/attestation/kinds.ts";
import { countingId, isAbout } from "../../../domain/compliance/checklist.ts";
import type { CheckState } from "../../../domain/compliance/checklist.ts";
import { resultOf } from "../../components/attestation-result.ts";
import { icon } from "../../components/icon.ts";
import { fingerprint } from "../../components/identifier.ts";
import { card, empty, linkButton, moreLink, nameCell } from "../../components/layout.ts";
import { filters, oneOf, pageOf, pager } from "../../components/lists.ts";
import { formatNumber, stateIcon, stateSubtitle, stateWord, tag } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { recordOf, stateOfCheck } from "./trail-entries.ts";
import type { ShownCheck, Checklist, Trail, TrailAttestation } from "./trail-entries.ts";

/** With both records of an overridden one, a page reads at most a hundred. */
const PER_PAGE = 50;
const MAX_SEARCH_CHARS = 256;

/** In the order of a large checklist: what fails comes first. */
const STATES = ["non_compliant", "missing", "compliant"] as const;
const STATE_WORDS: Readonly<Record<(typeof STATES)[number], string>> = {
  non_compliant: "Failing",
  missing: "Missing",
  compliant: "Compliant",
};
/** Their words in the API. */
const API_STATES = { non_compliant: "NON-COMPLIANT", missing: "MISSING", compliant: "COMPLIANT" } as const;

const isByArtifact = ({ query }: Pick<Visit, "query">): boolean => query.get("by") === "artifact";
const isLarge = ({ totals }: Checklist): boolean => totals.checks > PER_PAGE;

/**
 * The part of the checklist that the address asks for: a page, or the page with the open attestation. One that is
 * longer than a page is searched and filtered, and begins with what fails; others are in the order of the template.
 */
export async function readChecklist(visit: Visit): Promise<Checklist> {
  const { call, params, query } = visit;
  const ask = (asked: { search?: string; state?: CheckState | null; page: number | null }): Promise<Checklist> =>
    call(getTrailChecklist, {
      params: { flow_name: params["flow"] ?? "", trail_name: params["trail"] ?? "" },
      query: {
        ...asked,
        order: isByArtifact(visit) ? "template" : null,
        attestation_id: query.get("attestation_id") || null,
        per_page: PER_PAGE,
      },
    });
  const state = oneOf(query, "state", STATES);
  const filter = {
    search: (query.get("check") ?? "").slice(0, MAX_SEARCH_CHARS),
    state: state && API_STATES[state],
  };
  const page = query.has("page") ? pageOf(query) : null;
  const found = await ask({ ...filter, page });
  const isFiltered = filter.search !== "" || filter.state !== null;
  if (!isLarge(found) && (isFiltered || (page ?? 1) > 1)) return ask({ page: 1 });
  const last = Math.max(1, found.pagination.page_count);
  return page !== null && page > last ? ask({ ...filter, page: last }) : found;
}

/** The widths of the columns, because names and results may be long. */
export const CHECKLIST_COLUMNS = html`<colgroup><col class="col-name"><col><col class="col-when"></colgroup>`;

/** With a column for the artifact. */
const STATE_COLUMNS = html`<colgroup><col class="col-name"><col class="col-owner"><col><col
class="col-when"></colgroup>`;

/** By id; of a record that is not in it, only the verdict is shown. */
type Records = ReadonlyMap<string, TrailAttestation>;

export function checklistCard(visit: Visit, { checklist, records }: { checklist: Checklist; records: Records }): Html {
  const { trail, totals, data: shown, pagination } = checklist;
  const isByState = isLarge(checklist) && !isByArtifact(visit);
  const template = moreLink(visit.to.flow(trail.flow.name, { tab: "template" }), "Template");
  const context = { records, flow: trail.flow.name, isByState };
  const groups = Map.groupBy(shown, ({ artifact }) => artifact?.name ?? "");
  const bodies = isByState
    ? html`<tbody>${shown.map((check) => checkRow(visit, check, context))}</tbody>`
    : [...groups.values()].map((group) => groupBody(visit, group, context));
  const head = html`<tr><th scope="col">Attestation</th>${isByState && html`<th scope="col">Artifact</th>`}<th
scope="col">Result</th><th scope="col" class="r">When</th></tr>`;
  const list = html`<table class="t t-stack checklist"><caption class="vh">Attestations that the template expects, and
others that were reported</caption>${isByState ? STATE_COLUMNS : CHECKLIST_COLUMNS}<thead${
    !isByState && html` class="vh"`
  }>${head}</thead>${bodies}</table>`;
  return html`<div>${isLarge(checklist) && checklistFilters(visit, checklist, isByState)}${card({
    id: "h-checklist",
    title: "Checklist",
    note: totals.checks === 0 ? null : summaryOfChecklist(totals),
    more: template,
    body: totals.checks === 0 ? nothing(trail) : shown.length === 0 ? noMatch(visit) : list,
  })}${pager(visit, pagination)}</div>`;
}

function checklistFilters(visit: Visit, { pagination, states }: Checklist, isByState: boolean): Html {
  const all = totalIn(states, null);
  return filters(visit, {
    items: [
      { kind: "search", name: "check", label: "Check or artifact" },
      {
        kind: "state",
        name: "state",
        label: "State",
        choices: [
          { value: "", text: "All", count: all },
          ...STATES.map((state) => ({ value: state, text: STATE_WORDS[state], count: states[API_STATES[state]] })),
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
    what: `${pagination.total === 1 ? "check" : "checks"}, ${isByState ? "failing first" : "by artifact"}`,
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

/** `9 of 10 delivered, 1 fails, 1 not in the template`. */
export function summaryOfChecklist({ checks, expected, delivered, failing }: Checklist["totals"]): string {
  const extra = checks - expected;
  return [
    expected > 0 && `${formatNumber(delivered)} of ${formatNumber(expected)} delivered`,
    failing > 0 && `${formatNumber(failing)} ${failing === 1 ? "fails" : "fail"}`,
    extra > 0 && `${formatNumber(extra)} not in the template`,
  ]
    .filter((part) => part !== false)
    .join(", ");
}

type RowContext = { records: Records; flow: string; isByState: boolean };

function groupBody(visit: Visit, checks: readonly ShownCheck[], context: RowContext): Html {
  const artifact = checks[0]?.artifact ?? null;
  return html`<tbody><tr class="group"><th colspan="3" scope="colgroup">${
    artifact === null ? "Trail" : artifactHead(visit, artifact, context)
  }</th></tr>${checks.map((check) => checkRow(visit, check, context))}</tbody>`;
}

function artifactHead(
  { to }: Visit,
  { name, artifact_fingerprint: print, artifact_id: id, unexpected }: NonNullable<ShownCheck["artifact"]>,
  { flow }: RowContext,
): Html {
  // An artifact that was reported without a name goes by its fingerprint, which follows anyway.
  const isFingerprint = print !== null && name.endsWith(print);
  const label = html`<bdi>${isFingerprint ? "Artifact" : name}</bdi>`;
  const link = print === null ? label : html`<a href="${to.artifact(flow, print, id)}">${label}</a>`;
  const extra = unexpected && tag("not in template", "plus");
  return html`<span class="gh">${icon("package")}${link} ${
    print === null ? html`<span class="st none">${icon("circle")}Missing</span>` : fingerprint(print)
  }${extra}</span>`;
}

function checkRow({ here, query, now, to }: Visit, check: ShownCheck, { records, flow, isByState }: RowContext): Html {
  const state = stateOfCheck(check);
  const id = countingId(check);
  const opened = query.get("attestation_id");
  const isOpen = opened !== null && isAbout(check, opened);
  const record = recordOf(check, records);
  const isOverridden = check.overridden_attestation_id !== null;
  const word = isOverridden ? `${stateWord(state)} by override` : stateWord(state);
  const tags = [isOverridden && tag("overridden", "pencil"), check.unexpected && tag("not in template", "plus")].filter(
    (item) => item !== false,
  );
  return html`<tr${isOpen && html` class="sel" aria-current="true"`}>${nameCell({
    href: id === null ? null : here({ ...CLOSED, attestation_id: id, page: query.get("page") }),
    name: html`<bdi>${check.attestation_name}</bdi>`,
    mark: stateIcon(state, word),
    after: tags.length > 0 && html`${tags}`,
    sub: html`${stateSubtitle(state, word)}<span>${typeText(check.attestation_type)}</span>`,
  })}${isByState && html`<td class="fill">${ownerOf({ to }, check, flow)}</td>`}<td class="fill">${
    state === "missing" ? html`<span class="muted">Expected by the template</span>` : record && resultOf(record)
  }</td><td class="r">${time(record?.created_at, now)}</td></tr>`;
}

function ownerOf({ to }: Pick<Visit, "to">, { artifact }: ShownCheck, flow: string): Html {
  if (artifact === null) return html`<span class="muted">the trail</span>`;
  const { name, artifact_fingerprint: print, artifact_id: id } = artifact;
  const label = html`<bdi class="cut">${name}</bdi>`;
  return print === null ? label : html`<a href="${to.artifact(flow, print, id)}">${label}</a>`;
}

const typeText = (type: string): string => (type === "*" ? "any type" : typeWordOf(type));

/** The query parameters of an open drawer, removed. */
export const CLOSED = { attestation_id: null, view: null, ask: null } as const;
