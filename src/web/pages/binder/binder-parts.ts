/** The parts of a binder as tables: times in UTC and absolute, on screens as on paper. */
import { causesLine } from "../../components/causes.ts";
import { typeIcon } from "../../components/environment-type.ts";
import { icon } from "../../components/icon.ts";
import { artifactName, commit, fingerprint } from "../../components/identifier.ts";
import { nameList, table } from "../../components/layout.ts";
import type { TableColumn } from "../../components/layout.ts";
import { badge, formatNumber, plainState, stateOf, stateOfVerdict } from "../../components/state.ts";
import type { ShownState } from "../../components/state.ts";
import { formatUtc, utcTime } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { sizeText } from "../flows/evidence-preview.ts";
import type { ShownBinder } from "./binder-form.ts";

/** A part of the document; `body` null: it has nothing, and `nothing` says so. */
export type BinderPart = { id: string; title: string; total: number; note?: Value; body: Html | null; nothing: string };

/** Rows that screens show; the others fold out, and paper shows all. */
const SHOWN_ROWS = 8;

type Parted<Row> = { total: number; items: readonly Row[] };

/** The name that its page links to, or text on paper. */
const nameLink = (href: string, name: Html): Html => html`<a class="t-name" href="${href}">${name}</a>`;
/** The grey line below a name; one child, because its children stand apart. */
const subLine = (text: Value): Html => html`<div class="sub"><span>${text}</span></div>`;
const ofTrail = (trail: string): Html => html`<span class="cut">trail <bdi>${trail}</bdi></span>`;
/** Where it was reported. A comma is cut with its name, because it would begin the next line. */
const ofFlow = (flow: string, trail: string | null): Html =>
  html`<span class="cut"><bdi>${flow}</bdi>${trail && ","}</span>${trail && html` ${ofTrail(trail)}`}`;
/** On phones the label stands before a time; what there is in place of a time says it all. */
const momentCell = (label: string, at: number | null, { otherwise, sub }: { otherwise: string; sub?: Value }): Html =>
  at === null
    ? html`<td><span class="muted">${otherwise}</span>${sub}</td>`
    : html`<td data-l="${label}">${utcTime(at)}${sub}</td>`;
const TIME = { className: "cw-168" } as const;

function listTable<Row>(
  { caption, columns, what }: { caption: string; columns: readonly TableColumn[]; what: string },
  { total, items }: Parted<Row>,
  row: (one: Row) => Html,
): Html | null {
  if (items.length === 0) return null;
  const rows = items.map(row);
  const [shown, rest] = [rows.slice(0, SHOWN_ROWS), rows.slice(SHOWN_ROWS)];
  const left = total - items.length;
  const note = left > 0 ? `; ${formatNumber(left)} others are in the JSON and the download` : "";
  const folded =
    rest.length > 0 &&
    html`<details class="fold"><summary>${icon("chevron-right", "12")}<span><b>${formatNumber(rest.length)} more
${what}</b>${note}</span></summary>${table({ caption: `${caption}, continued`, columns, rows: rest })}</details>`;
  const lacking =
    rest.length === 0 &&
    left > 0 &&
    html`<p class="card-f sub">${formatNumber(left)} others are in the JSON and the download.</p>`;
  return html`<div class="card">${table({ caption, columns, rows: shown })}${folded}${lacking}</div>`;
}

export function missingPart(visit: Visit, { missing, subject }: ShownBinder): BinderPart {
  const title = {
    control: "Without a decision",
    environment: "Not compliant, unknown or allowed",
    flow: "Trails that are not compliant",
  };
  const began = subject.kind === "flow" ? "Begun" : "Since";
  const columns = [
    { text: `${began}, UTC`, ...TIME },
    { text: subject.kind === "flow" ? "Trail" : "Artifact" },
    { text: "State", className: "cw-144" },
    { text: "Details" },
  ];
  const states: Readonly<Record<string, ShownState>> = {
    "non-compliant": "non_compliant",
    allowed: "allowlisted",
    incomplete: "incomplete",
  };
  const body = listTable({ caption: title[subject.kind], columns, what: "entries" }, missing, (gap) => {
    const { environment_name: place, allowlist, trail_name: trail, artifact_name: artifact } = gap;
    const state = states[gap.state] ?? "unknown";
    const until = allowlist?.expires_at ?? null;
    const word = gap.state === "allowed" ? (until === null ? "Allowed, no end" : "Allowed") : undefined;
    const of = trail && ofTrail(trail);
    // The binder of an environment does not name it in each row.
    const other = place !== subject.name && html`<span class="cut">in <bdi>${place}</bdi>${of && ","}</span>`;
    const where = place !== null && (other || of) && subLine(html`${other} ${of}`);
    const address = place === null ? visit.to.trail(gap.flow_name ?? "", trail ?? "") : snapshotOf(visit, gap);
    const end = place !== null && (gap.until === null ? "Has not ended." : `Until ${formatUtc(gap.until)}.`);
    const allowed =
      allowlist &&
      subLine(html`${allowlist.reason} (allowed by ${allowlist.by}${until !== null && `, until ${formatUtc(until)}`})`);
    return html`<tr><td data-l="${began}">${utcTime(gap.since)}</td><td class="lead">${nameLink(
      address,
      artifactName(artifact ?? trail ?? ""),
    )}${where}</td><td>${badge(state, word === undefined ? {} : { word })}</td><td class="full">${causesLine(
      gap,
    )}${allowed}${end && subLine(html`${end}`)}</td></tr>`;
  });
  return {
    id: "missing",
    title: title[subject.kind],
    total: missing.total,
    body,
    nothing: {
      control: "Every release had the decision that the policies required.",
      environment: "No artifact ran without being compliant.",
      flow: "Every trail that began in the period is compliant.",
    }[subject.kind],
  };
}

const snapshotOf = ({ to }: Visit, gap: ShownBinder["missing"]["items"][number]): string =>
  to.snapshot(gap.environment_name ?? "", gap.snapshot_index ?? 1);

export function decisionsPart(visit: Visit, { decisions, subject }: ShownBinder): BinderPart {
  const { to } = visit;
  const columns = [
    { text: "Decided, UTC", ...TIME },
    { text: "Subject" },
    { text: "Decision", className: "cw-144" },
    { text: "Decided by", className: "cw-112" },
    { text: "Commit", className: "cw-88" },
  ];
  const body = listTable({ caption: "Decisions", columns, what: "decisions" }, decisions, (one) => {
    const { flow_name: flow, trail_name: trail, artifact_name: artifact, id } = one;
    const of = subject.kind !== "control" && html`, ${one.control}`;
    const word = `${one.is_compliant ? "Approved" : "Refused"}${one.is_override ? " by override" : ""}`;
    return html`<tr><td data-l="Decided">${utcTime(one.timestamp)}</td><td class="lead">${nameLink(
      to.attestation({ flow, trail, id }),
      artifactName(artifact ?? trail),
    )}${subLine(html`${ofFlow(flow, artifact && trail)}${of}`)}${
      one.reason !== null && html`<div class="sub reason"><span>${one.reason}</span></div>`
    }</td><td>${plainState(stateOfVerdict(one.is_compliant), word)}</td><td data-l="By">${one.decided_by}</td><td
data-l="Commit">${commit(one.git_commit)}</td></tr>`;
  });
  return {
    id: "decisions",
    title: "Decisions",
    total: decisions.total,
    note: decisions.total > 1 && "newest first",
    body,
    nothing: "No decision was made.",
  };
}

export function verdictsPart({ to }: Visit, { verdicts, subject }: ShownBinder): BinderPart | null {
  if (verdicts === null) return null;
  const columns = [
    { text: "From, UTC", ...TIME },
    { text: "To, UTC", ...TIME },
    { text: "State" },
    { text: "Snapshots" },
    { text: "Failing at most", isRight: true },
  ];
  const body = listTable({ caption: "Verdicts", columns, what: "verdicts" }, verdicts, (one) => {
    const { first_snapshot: first, last_snapshot: last } = one;
    const range =
      first === null
        ? html`<td><span class="muted">before the first snapshot</span></td>`
        : html`<td data-l="Snapshots"><a href="${to.snapshot(subject.name, first)}">#${first}</a>${
            last !== null && last !== first && html` to <a href="${to.snapshot(subject.name, last)}">#${last}</a>`
          }</td>`;
    const until = momentCell("To", one.until, { otherwise: "at the end" });
    return html`<tr><td data-l="From">${utcTime(one.since)}</td>${until}<td>${plainState(
      stateOfVerdict(one.compliant),
    )}</td>${range}<td class="r"
data-l="Failing at most">${formatNumber(one.non_compliant_artifacts)}</td></tr>`;
  });
  const { total } = verdicts;
  const note = total > 1 && "oldest first";
  return { id: "verdicts", title: "Verdicts", total, note, body, nothing: "There is no verdict." };
}

export function trailsPart({ to }: Visit, { trails, subject }: ShownBinder): BinderPart | null {
  if (trails === null) return null;
  const columns = [
    { text: "Begun, UTC", ...TIME },
    { text: "Trail" },
    { text: "State", className: "cw-144" },
    { text: "Artifacts", isRight: true },
    { text: "Attestations", isRight: true },
  ];
  const body = listTable(
    { caption: "Trails", columns, what: "trails" },
    trails,
    (one) =>
      html`<tr><td data-l="Begun">${utcTime(one.begun_at)}</td><td class="lead">${nameLink(
        to.trail(subject.name, one.name),
        html`<bdi>${one.name}</bdi>`,
      )}</td><td>${plainState(stateOf(one.state))}</td><td class="r" data-l="Artifacts">${formatNumber(
        one.artifacts,
      )}</td><td class="r" data-l="Attestations">${formatNumber(one.attestations)}</td></tr>`,
  );
  return {
    id: "trails",
    title: "Trails",
    total: trails.total,
    note: trails.total > 0 && "newest first; states when this page was made",
    body,
    nothing: "No trail began.",
  };
}

export function requiredPart({ to }: Visit, { required, coverage, subject }: ShownBinder): BinderPart {
  const isControl = subject.kind === "control";
  const columns = [
    { text: "Environment", className: "cw-env" },
    ...(isControl ? [] : [{ text: "Control", className: "cw-112" }]),
    { text: "Required by", className: "cw-by" },
    { text: "Releases", isRight: true },
    { text: "With the decision", isRight: true },
    { text: "Share", className: "cw-112" },
  ];
  const body = listTable({ caption: "Where decisions were required", columns, what: "entries" }, required, (one) => {
    const by = nameList(
      one.policies.map(({ name, version }) => html`<a href="${to.policy(name)}"><bdi>${name}</bdi></a> v${version}`),
    );
    const share = one.coverage_percent;
    const bar = html`<div class="seg-cell"><span class="sub num">${share} %</span><svg class="seg" role="img"
aria-label="${share} per cent" viewBox="0 0 100 6" preserveAspectRatio="none"><rect class="c-track" width="100"
height="6"/><rect class="c-cover" width="${share}" height="6"/></svg></div>`;
    return html`<tr><td class="lead"><div class="name-cell">${typeIcon(one.environment_type)}<div>${nameLink(
      to.environment(one.environment_name),
      html`<bdi>${one.environment_name}</bdi>`,
    )}</div></div></td>${
      !isControl && html`<td data-l="Control"><a href="${to.control(one.control)}"><bdi>${one.control}</bdi></a></td>`
    }<td class="full">${by}</td><td class="r" data-l="Releases">${formatNumber(one.releases)}</td><td class="r"
data-l="With the decision">${formatNumber(one.with_decision)}${
      one.allowed > 0 && subLine(html`${formatNumber(one.allowed)} more allowed`)
    }</td><td class="seg-td">${bar}</td></tr>`;
  });
  const unreleased = coverage && coverage.required_in.length > 0 && required.total === 0;
  return {
    id: "required",
    title: "Where decisions were required",
    total: required.total,
    note: coverage && coverageText(coverage),
    body,
    nothing: unreleased
      ? "Nothing started where a policy has a rule for it."
      : "No policy required a decision of what started.",
  };
}

/** Names in a sentence. */
const MAX_NAMES = 10;

function coverageText({ required_in: yes, not_required_in: no }: NonNullable<ShownBinder["coverage"]>): string {
  const total = yes.length + no.length;
  const others = no.slice(0, MAX_NAMES).join(", ");
  const more = no.length > MAX_NAMES ? ` and ${no.length - MAX_NAMES} more` : "";
  return `required in ${yes.length} of ${total} environments${no.length > 0 ? `, not in ${others}${more}` : ""}`;
}

export function allowlistPart({ to }: Visit, { allowlist }: ShownBinder): BinderPart {
  const columns = [
    { text: "Begun, UTC", ...TIME },
    { text: "Ends, UTC", ...TIME },
    { text: "For" },
    { text: "Reason" },
    { text: "Allowed by", className: "cw-112" },
  ];
  const body = listTable({ caption: "Allowlist entries", columns, what: "entries" }, allowlist, (one) => {
    const replaced = one.replaced_at !== null && subLine(html`replaced ${formatUtc(one.replaced_at)}`);
    return html`<tr><td data-l="Begun">${utcTime(one.begun_at)}</td>${momentCell("Ends", one.expires_at, {
      otherwise: "no end",
      sub: replaced,
    })}<td class="lead"><span class="t-name">${artifactName(one.artifact_name)}</span>${subLine(html`in
<a href="${to.environment(one.environment_name)}"><bdi>${one.environment_name}</bdi></a> ${fingerprint(
      one.artifact_fingerprint,
    )}`)}</td><td class="full">${one.reason}</td><td data-l="By">${one.by}</td></tr>`;
  });
  return {
    id: "allowlist",
    title: "Allowlist entries",
    total: allowlist.total,
    body,
    nothing: "No artifact was allowed despite the policies.",
  };
}

export function rulesPart({ to }: Visit, { rules, subject }: ShownBinder): BinderPart {
  const columns = [
    { text: "Rule" },
    { text: "From, UTC", ...TIME },
    { text: "To, UTC", ...TIME },
    { text: "Saved by", className: "cw-112" },
    { text: "SHA-256", className: "cw-88" },
  ];
  const body = listTable({ caption: "Rules in force", columns, what: "versions" }, rules, (one) => {
    const address = one.kind === "policy" ? to.policy(one.name) : to.control(one.name);
    const name = nameLink(address, html`<bdi>${one.name}</bdi>`);
    return html`<tr><td class="lead">${name} <span class="v">v${one.version}</span>${subLine(
      html`${one.kind}${one.comment !== "" && html`, ${one.comment}`}`,
    )}</td><td data-l="From">${utcTime(one.since)}</td>${momentCell("To", one.until, {
      otherwise: "in force",
    })}<td data-l="By">${one.by}</td><td data-l="SHA-256">${
      one.sha256 === null ? html`<span class="muted">–</span>` : fingerprint(one.sha256)
    }</td></tr>`;
  });
  return {
    id: "rules",
    title: subject.kind === "control" ? "Policies and control in force" : "Policies in force",
    total: rules.total,
    body,
    nothing: "No policy was in force.",
  };
}

type ChangedRecord = NonNullable<ShownBinder["changes"]["items"][number]["record"]>;

/** What a record was before and after, where the audit log has both. */
const stepOf = ({ before, after }: ChangedRecord): Value =>
  before !== null && after !== null ? html`from ${stepSide(before)} to ${stepSide(after)}` : null;

const stepSide = (text: string): Value => (/^[0-9a-f]{64}$/.test(text) ? fingerprint(text) : html`<bdi>${text}</bdi>`);

export function changesPart({ to }: Visit, { changes, from, subject }: ShownBinder): BinderPart {
  const columns = [{ text: "When, UTC", ...TIME }, { text: "Who", className: "cw-144" }, { text: "What" }];
  const body = listTable({ caption: "Who changed what", columns, what: "changes" }, changes, (one) => {
    const { record } = one;
    const detail = one.allowlist?.reason ?? one.policy?.comment ?? (record && stepOf(record));
    return html`<tr><td data-l="When">${utcTime(one.timestamp)}</td><td data-l="Who">${one.by ?? "–"}</td><td
class="full"><span class="cut-block" title="${one.text}">${one.text}</span>${
      detail !== null && subLine(html`${detail}`)
    }</td></tr>`;
  });
  const people = changes.people_since === null;
  const since = Math.max(changes.since, changes.people_since ?? 0);
  const cut = since > from && html`There are too many: those before ${formatUtc(since)} are left out. `;
  return {
    id: "changes",
    title: "Who changed what",
    total: changes.total,
    note: html`${cut}${
      people
        ? "without members, keys and records, which administrators read"
        : `without other ${subject.kind}s; members, keys and other records are of the whole organization. `
    }${!people && cut === false && html`<a href="${to.changes()}">All changes</a>`}`,
    body,
    nothing: "Nothing was changed.",
  };
}

export function evidencePart({ to }: Visit, { evidence, figures }: ShownBinder): BinderPart {
  const columns = [
    { text: "File" },
    { text: "SHA-256", className: "cw-88" },
    { text: "Size", isRight: true, className: "cw-88" },
    { text: "Reported, UTC", ...TIME },
    { text: "Attestation" },
  ];
  const body = listTable({ caption: "Evidence", columns, what: "files" }, evidence, (one) => {
    const { flow_name: flow, trail_name: trail, attestation_id: id } = one;
    const gone = one.deleted_at !== null && subLine(html`deleted ${formatUtc(one.deleted_at)}`);
    return html`<tr><td class="lead"><span class="t-name"><bdi>${one.name ?? "file"}</bdi></span>${gone}</td><td
data-l="SHA-256">${one.sha256 === null ? "–" : fingerprint(one.sha256)}</td><td class="r" data-l="Size">${
      one.bytes === null ? "–" : sizeText(one.bytes)
    }</td><td data-l="Reported">${utcTime(one.reported_at)}</td><td class="full"><a
href="${to.attestation({ flow, trail, id })}"><bdi class="cut">${one.attestation_name}</bdi></a>${subLine(
      ofFlow(flow, trail),
    )}</td></tr>`;
  });
  return {
    id: "evidence",
    title: "Evidence index",
    total: evidence.total,
    note: evidence.total > 0 && `${sizeText(figures.evidence_bytes ?? 0)} in the download`,
    body,
    nothing: "No file is attached.",
  };
}
