/** `/{org}/audit-binder`: the audit binder of a control, an environment or a flow, to read and to print. */
import { createHash } from "node:crypto";
import { downloadAuditBinder, getAuditBinder } from "../../../api/environments/audit-binder.ts";
import { shareOf } from "../../../domain/percent.ts";
import { icon } from "../../components/icon.ts";
import { empty, figures, linkButton, pageHead } from "../../components/layout.ts";
import { formatNumber, tag } from "../../components/state.ts";
import { formatUtc } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { queryText } from "../../page/links.ts";
import { page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";
import { askedOf, binderForm, kindProblem, problemsIn, queryOf } from "./binder-form.ts";
import type { Asked, BinderProblems, ShownBinder } from "./binder-form.ts";
import {
  allowlistPart,
  changesPart,
  decisionsPart,
  evidencePart,
  missingPart,
  requiredPart,
  rulesPart,
  trailsPart,
  verdictsPart,
} from "./binder-parts.ts";
import type { BinderPart } from "./binder-parts.ts";

/** Entries of each list that the page has; all of them fold out, and are printed. */
const ENTRIES = 100;
/** The same where the address asks for long lists, for paper. */
const MANY_ENTRIES = 1_000;

export const binderPage = page({
  path: "/{org}/audit-binder",
  past: "present",
  async show(visit) {
    const { call, query, to } = visit;
    const asked = askedOf(visit);
    const wrong = kindProblem(visit);
    if (wrong !== null) return { ...contentOf(visit, { ...asked, name: "" }), main: refused(visit, asked, wrong) };
    const content = contentOf(visit, asked);
    // A form with a kind and a name leads to the address that links have.
    if (query.has("name") && asked.name !== "")
      return { ...content, main: html``, redirect: to.auditBinder(queryOf(asked)) };
    if (asked.name === "") return { ...content, main: unasked(visit, asked) };
    const limit = query.get("lists") === "long" ? MANY_ENTRIES : ENTRIES;
    const asking = { ...queryOf(asked), limit };
    const found = await call(getAuditBinder, { query: asking }).then(
      (binder) => ({ binder }),
      (error: unknown) => ({ problems: problemsIn(error, asked) }),
    );
    if ("problems" in found) return { ...content, main: refused(visit, asked, found.problems) };
    const { binder } = found;
    // What the operation answers to this request, to the byte.
    const sha256 = createHash("sha256").update(JSON.stringify(binder)).digest("hex");
    return {
      ...content,
      title: `Audit binder of ${binder.subject.kind} ${binder.subject.name}`,
      identity: `sha256 ${sha256} of the JSON`,
      main: shown(visit, { asked, binder, json: queryText(asking) }),
    };
  },
});

const SECTIONS = { control: "controls", environment: "environments", flow: "flows" } as const;

function contentOf({ to, query }: Visit, { kind, name }: Asked): Omit<Content, "main"> {
  const ways = {
    control: [{ text: "Controls", href: to.controls() }],
    environment: [{ text: "Environments", href: to.environments() }],
    flow: [{ text: "Flows", href: to.flows() }],
  };
  const own = { control: to.control(name), environment: to.environment(name), flow: to.flow(name) };
  return {
    title: "Audit binder",
    crumb: "Audit binder",
    ...((query.get("to") ?? "") === ""
      ? { presentNote: "The period ends at that moment. The page tells it as it is known now." }
      : {}),
    section: name === "" ? null : SECTIONS[kind],
    crumbs: name === "" ? [] : [...ways[kind], { text: name, href: own[kind] }],
  };
}

function unasked(visit: Visit, asked: Asked): Html {
  const words = empty({
    icon: "log",
    title: "Choose what the binder is about",
    text:
      "A control, an environment or a flow: its decisions, verdicts or trails in a period, what is missing, the " +
      "rules in force, who changed them, and the evidence.",
  });
  return html`${pageHead({ title: "Audit binder" })}${binderForm(visit, asked, {})}
<section class="card">${words}</section>`;
}

function refused(visit: Visit, asked: Asked, problems: BinderProblems): Html {
  const words = empty({
    icon: "search",
    title: "This binder cannot be shown",
    text: "Correct the fields above, or clear them.",
    actions: linkButton(visit.to.auditBinder(), "Clear"),
  });
  return html`${pageHead({ title: "Audit binder" })}${binderForm(visit, asked, problems)}
<section class="card">${words}</section>`;
}

type Shown = { asked: Asked; binder: ShownBinder; json: string };

function shown(visit: Visit, { asked, binder, json }: Shown): Html {
  const { to, org, may } = visit;
  const { subject } = binder;
  const download = `${to.api("audit-binder", org, "package")}${queryText(queryOf(asked))}`;
  const head = pageHead({
    above: `Audit binder of ${subject.kind}${subject.name === subject.title ? "" : ` ${subject.name}`}`,
    title: html`<bdi>${subject.title}</bdi>`,
    sub: subject.description,
    meta: [
      html`${icon("history")}${periodText(binder)}`,
      subject.version !== null && html`${icon("checklist")}control version ${subject.version}`,
    ],
    actions: [
      linkButton(`${to.api("audit-binder", org)}${json}`, "JSON", { icon: "code" }),
      may(downloadAuditBinder) &&
        html`<a class="btn btn-primary" href="${download}" download>${icon("file-zip")}Download binder</a>`,
    ],
  });
  const parts = [
    missingPart(visit, binder),
    decisionsPart(visit, binder),
    verdictsPart(visit, binder),
    trailsPart(visit, binder),
    requiredPart(visit, binder),
    allowlistPart(visit, binder),
    rulesPart(visit, binder),
    changesPart(visit, binder),
    evidencePart(visit, binder),
  ].filter((part) => part !== null);
  return html`<div class="binder">${head}${binderForm(visit, asked, {})}
<div class="cols-toc"><div class="stack"><section id="summary" aria-label="Summary">
<p class="lede">${binder.summary}</p>
${figuresOf(binder)}${lengthNote(visit, parts)}</section>${parts.map(partOf)}
<p class="sub">The download has this document, every attestation in its scope and the files themselves, with a manifest
of their SHA-256: <code class="nowrap">sha256sum --check SHA256SUMS</code> checks it without this server.</p>
<div class="paper-sign"><span>Reviewed by, date</span><span>Signature</span></div></div>
<nav class="toc" aria-label="In this binder"><a href="#summary">Summary</a>${parts.map(
    ({ id, title }, at) => html`<a href="#${id}">${`${at + 1}  ${title}`}</a>`,
  )}</nav></div></div>`;
}

/** Whole days as such. */
function periodText({ from, to }: ShownBinder): string {
  return `${formatUtc(from).slice(0, 16)} to ${formatUtc(to).slice(0, 16)}, UTC`;
}

const partOf = ({ id, title, total, note, body, nothing }: BinderPart, at: number): Html =>
  html`<section class="part${total > 8 && " part-long"}" id="${id}" aria-labelledby="h-${id}"><h2 id="h-${id}"><span
class="nr">${at + 1}</span>${title}<span class="sub">${formatNumber(total)}${note && html`, ${note}`}</span></h2>${
    body ?? html`<p class="muted">${nothing}</p>`
  }</section>`;

/** Where paper would not have all of the lists: how it gets more. */
function lengthNote({ here, query }: Visit, parts: readonly BinderPart[]): Html | null {
  const isLong = query.get("lists") === "long";
  const limit = isLong ? MANY_ENTRIES : ENTRIES;
  if (parts.every(({ total }) => total <= limit)) return null;
  return html`<p class="notice" role="status">${icon("info")}<span>This page has the first ${formatNumber(
    limit,
  )} entries of each list; the JSON and the download have all of them.${
    !isLong && html` <a href="${here({ lists: "long" })}">Show ${formatNumber(MANY_ENTRIES)} of each</a>`
  }</span></p>`;
}

function figuresOf({ subject, figures: of, evidence }: ShownBinder): Html {
  const { value, shown } = readFigures(of);
  if (subject.kind === "control") {
    const [releases, decided, without] = [
      value("releases"),
      value("releases_with_decision"),
      value("releases_without_decision"),
    ];
    return figures([
      {
        label: "Coverage",
        value: releases === 0 ? tag("no release") : `${shareOf(decided, releases)} %`,
        note: releases > 0 && `${formatNumber(decided)} of ${formatNumber(releases)}`,
        href: "#required",
      },
      { label: "Approved", value: shown("approved"), href: "#decisions" },
      { label: "Refused", value: shown("refused"), href: "#decisions" },
      {
        label: "Without a decision",
        value: formatNumber(without),
        state: bad(without),
        note: value("releases_allowed") > 0 && `${shown("releases_allowed")} more allowed`,
        href: "#missing",
      },
    ]);
  }
  if (subject.kind === "environment") return environmentFigures(of);
  return figures([
    { label: "Trails", value: shown("trails"), href: "#trails" },
    { label: "Compliant", value: shown("trails_compliant"), href: "#trails" },
    {
      label: "Not compliant",
      value: shown("trails_not_compliant"),
      state: bad(value("trails_not_compliant")),
      href: "#missing",
    },
    { label: "Evidence files", value: formatNumber(evidence.total), href: "#evidence" },
  ]);
}

/** Figures of a binder, as numbers and as texts; 0 for what it does not have. */
function readFigures(of: ShownBinder["figures"]) {
  const value = (name: keyof ShownBinder["figures"]): number => of[name] ?? 0;
  return { value, shown: (name: keyof ShownBinder["figures"]): string => formatNumber(value(name)) };
}

const bad = (count: number): "bad" | "" => (count > 0 ? "bad" : "");

function environmentFigures(of: ShownBinder["figures"]): Html {
  const { value, shown } = readFigures(of);
  const [good, wrong, unknown] = [value("seconds_compliant"), value("seconds_non_compliant"), value("seconds_unknown")];
  const length = good + wrong + unknown;
  return figures([
    { label: "Compliant", value: `${shareOf(good, length)} %`, note: "of the time", href: "#verdicts" },
    { label: "Non-compliant", value: `${shareOf(wrong, length)} %`, state: bad(wrong), href: "#verdicts" },
    { label: "Unknown", value: `${shareOf(unknown, length)} %`, href: "#verdicts" },
    {
      label: "Without a compliant verdict at start",
      value: shown("starts_not_compliant"),
      // They may all be unknown: red only where something failed.
      state: wrong > 0 ? bad(value("starts_not_compliant")) : "",
      note: `of ${shown("starts")} starts`,
      href: "#missing",
    },
  ]);
}
