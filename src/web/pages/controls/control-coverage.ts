/** The tab that says which environments enforce a control. */
import { getControlCoverage } from "../../../api/policies/control-coverage.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { segments } from "../../components/charts.ts";
import { typeIcon, typeName } from "../../components/environment-type.ts";
import { card, empty, linkButton, nameCell, nameList, padded, table } from "../../components/layout.ts";
import { filters, pageOf, pager } from "../../components/lists.ts";
import { plainState, formatNumber } from "../../components/state.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import type { Control } from "./control-data.ts";

type Coverage = AnswerOf<typeof getControlCoverage>;

const PER_PAGE = 25;

export async function coverageTab(visit: Visit, control: Control): Promise<Html> {
  const { call, query } = visit;
  const status = query.get("covered");
  const answer = await call(getControlCoverage, {
    params: { identifier: control.identifier },
    query: {
      page: pageOf(query),
      per_page: PER_PAGE,
      search: query.get("search") || null,
      covered: status === "yes" ? true : status === "no" ? false : null,
    },
  });
  if (answer.summary.total === 0)
    return html`<section class="card">${empty({
      icon: "server",
      title: "No environments yet",
      text: "An environment is covered if one of its policies has a rule for the control.",
      command: "kosli create environment production --type K8S",
    })}</section>`;
  return html`${summary(visit, answer)}${list(visit, control, answer)}`;
}

function summary({ here }: Visit, { summary: { total, covered, coverage_percent: percent } }: Coverage): Html {
  const [yes, no] = [here({ covered: "yes", search: null }), here({ covered: "no", search: null })];
  const lacking = total - covered;
  const bar = segments(
    [
      { colour: "cover", value: covered, words: "covered", href: yes },
      { colour: "track", value: lacking, words: "not covered", href: no },
    ],
    `${percent} % covered`,
  );
  const sentence = html`<a href="${yes}">${formatNumber(covered)}</a> of ${formatNumber(total)} ${
    total === 1 ? "environment requires" : "environments require"
  } a decision on this control${
    lacking > 0 && html`, <a href="${no}">${formatNumber(lacking)} ${lacking === 1 ? "does" : "do"} not</a>`
  }.`;
  return card({
    id: "h-coverage",
    title: "Coverage",
    more: html`<span class="right num strong">${percent} %</span>`,
    body: padded(
      html`<div class="cover">${bar}<p class="sub">${sentence} Logical environments are not counted.</p></div>`,
    ),
  });
}

function list(visit: Visit, control: Control, answer: Coverage): Html {
  const { to } = visit;
  const { environments, total_count: total, total_pages, page } = answer;
  const form = filters(visit, {
    items: [
      { kind: "search", name: "search", label: "Search by name" },
      {
        kind: "choice",
        name: "covered",
        label: "Coverage",
        choices: [
          { value: "", text: "Covered or not" },
          { value: "yes", text: "Covered" },
          { value: "no", text: "Not covered" },
        ],
      },
    ],
    keep: ["tab"],
    total,
    what: total === 1 ? "environment" : "environments",
  });
  if (environments.length === 0 && page === 1)
    return html`<div>${form}<section class="card">${empty({
      icon: "search",
      title: "No environment matches",
      text: "The search looks for a part of the name, in any case.",
      actions: linkButton(to.control(control.identifier, { tab: "coverage" }), "Clear filters"),
    })}</section></div>`;
  const rows = environments.map(({ name, type, covered, policies }) => {
    const label = html`<bdi>${name}</bdi>`;
    const cell = nameCell({ href: to.environment(name), name: label, sub: typeName(type), mark: typeIcon(type) });
    const by = nameList(policies.map((policy) => html`<a href="${to.policy(policy)}"><bdi>${policy}</bdi></a>`));
    const state = covered ? plainState("compliant", "Covered") : plainState("missing", "Not covered");
    return html`<tr>${cell}<td>${state}</td><td class="fill" data-l="${covered ? "By" : ""}">${
      covered ? by : html`<span class="muted">no policy requires it</span>`
    }</td></tr>`;
  });
  const columns = [{ text: "Environment" }, { text: "Coverage", className: "w-st" }, { text: "Required by" }];
  return html`<div>${form}<section class="card" aria-label="Environments">${table({
    caption: "Environments",
    columns,
    rows,
  })}</section>${pager(visit, { total, page, per_page: PER_PAGE, page_count: total_pages })}</div>`;
}
