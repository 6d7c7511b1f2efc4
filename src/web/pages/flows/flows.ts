/** `/{org}/flows`: the flows of an organization, and the form that creates one. */
import type { AnswerOf } from "../../../http/in-process.ts";
import { createFlowWithTemplate, getFlow, getFlows } from "../../../api/flows/flows.ts";
import { AppError, invalid } from "../../../errors.ts";
import { templateCompletions } from "../../components/completions.ts";
import { asksForPreview, editorForm, isChecked } from "../../components/editor.ts";
import { selectField, textField } from "../../components/forms.ts";
import { card, empty, linkButton, nameCell, padded, pageHead, table } from "../../components/layout.ts";
import { filters, pageOf, pager } from "../../components/lists.ts";
import { badge, stateOf } from "../../components/state.ts";
import { tagList } from "../../components/tags.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import { form, page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";
import { checkTemplate, noTemplateResult, TEMPLATE_LANGUAGE, templateResult } from "./flow-template.ts";

type FlowPage = Exclude<AnswerOf<typeof getFlows>, readonly unknown[]>;
type ListedFlow = FlowPage["data"][number];

const PER_PAGE = 25;
const SORTS = ["latest_activity", "name"] as const;

/** What an organization without flows is asked to paste. */
const FIRST_COMMAND = "kosli create flow backend-api --template-file template.yml";

export const flowsPage = page({
  path: "/{org}/flows",
  show: (visit) =>
    visit.may(createFlowWithTemplate) && visit.query.get("ask") === "create" ? showCreation(visit) : showList(visit),
  forms: {
    create: form(createFlowWithTemplate, async (visit, fields) => {
      if (asksForPreview(fields)) return { show: await showCreation(await checkTemplate(visit, fields, "create")) };
      const { call, to } = visit;
      const name = fields.text("name").trim();
      const exists = await call(getFlow, { params: { flow_name: name } }).then(
        () => true,
        (error: unknown) => {
          if (error instanceof AppError && error.code === "not_found") return false;
          throw error;
        },
      );
      if (exists) throw invalid({ name: `A flow with this name already exists [input: ${name}]` });
      await call(createFlowWithTemplate, {
        body: { name, description: fields.text("description"), visibility: visibilityOf(fields.text("visibility")) },
        ...templateFile(fields.text("template_file")),
      });
      return { go: to.flow(name), done: "created" };
    }),
  },
});

/** The template as the file of a form; none for an empty text, which keeps the flow's own. */
export const templateFile = (text: string): { file?: { filename: string; text: string } } =>
  text.trim() === "" ? {} : { file: { filename: "template.yml", text } };

export const visibilityOf = (text: string): "public" | "private" => (text === "public" ? "public" : "private");

export const VISIBILITIES = [
  { value: "private", text: "Private: members of the organization" },
  { value: "public", text: "Public: everybody who is signed in, if the organization is public" },
];

/** A template to begin with. */
const EXAMPLE_TEMPLATE = `version: 1
trail:
  attestations:
    - name: pull-request
      type: pull_request
  artifacts:
    - name: server
      attestations:
        - name: unit-tests
          type: junit
`;

async function showCreation(visit: Visit): Promise<Content> {
  const refused = visit.refused?.form === "create" ? visit.refused : null;
  const problems = refused?.problems ?? [];
  const fields = html`<div class="form">${textField(visit, {
    form: "create",
    name: "name",
    label: "Name",
    of: createFlowWithTemplate,
    isRequired: true,
    placeholder: "backend-api",
  })}${textField(visit, { form: "create", name: "description", label: "Description", hint: "What it builds" })}
${selectField(visit, { form: "create", name: "visibility", label: "Visibility", choices: VISIBILITIES })}</div>`;
  const editor = editorForm(visit, {
    form: "create",
    field: "template_file",
    title: "template.yml",
    label: "Template of the flow",
    value: EXAMPLE_TEMPLATE,
    problems,
    base: null,
    completions: await templateCompletions(visit),
    language: TEMPLATE_LANGUAGE,
    above: card({ id: "h-new", title: "Flow", body: padded(fields) }),
    result: isChecked(refused)
      ? templateResult({ problems, warnings: refused?.warnings ?? [] }, null)
      : noTemplateResult(),
    buttons: { submit: "Create flow", cancel: visit.to.flows() },
    rows: 14,
  });
  return {
    title: "New flow",
    section: "flows",
    crumbs: [{ text: "Flows", href: visit.to.flows() }],
    hasEditor: true,
    main: html`${pageHead({
      title: "New flow",
      sub: "A flow is a process whose evidence you collect: the builds of a service, for instance.",
    })}${editor}`,
  };
}

async function showList(visit: Visit): Promise<Content> {
  const { call, query, may, here } = visit;
  const sort = SORTS.find((one) => one === query.get("sort")) ?? "latest_activity";
  const tags = (query.get("tag") ?? "").split(",").filter((text) => text.trim() !== "");
  const answer = (await call(getFlows, {
    query: {
      page: pageOf(query),
      per_page: PER_PAGE,
      search_by_name: query.get("search"),
      case_sensitive: false,
      sort,
      ...(tags.length > 0 ? { tag: tags } : {}),
    },
  })) as FlowPage;
  const create =
    may(createFlowWithTemplate) && linkButton(here({ ask: "create" }), "New flow", { icon: "plus", kind: "primary" });
  const isEmpty = answer.pagination.total === 0 && !query.get("search") && tags.length === 0;
  return {
    title: "Flows",
    section: "flows",
    crumbs: [],
    main: html`${pageHead({
      title: "Flows",
      sub: "What is built, and what every build has to prove.",
      actions: isEmpty ? [] : [create],
    })}${isEmpty ? noFlows(create) : html`${flowFilters(visit, answer.pagination.total)}${flowList(visit, answer)}`}`,
  };
}

const noFlows = (create: Value): Html =>
  html`<section class="card">${empty({
    icon: "workflow",
    title: "No flows yet",
    text: "A flow collects the evidence of one process, such as the builds of a service. Pipelines report to it.",
    command: FIRST_COMMAND,
    actions: create,
  })}</section>`;

const flowFilters = (visit: Visit, total: number): Html =>
  filters(visit, {
    items: [
      { kind: "search", name: "search", label: "Search by name" },
      { kind: "text", name: "tag", label: "Tag: key or key:value" },
      {
        kind: "choice",
        name: "sort",
        label: "Order",
        choices: [
          { value: "", text: "Latest activity first" },
          { value: "name", text: "By name" },
        ],
      },
    ],
    total,
    what: total === 1 ? "flow" : "flows",
  });

function flowList(visit: Visit, { data, pagination }: FlowPage): Html {
  if (data.length === 0)
    return html`<section class="card">${empty({
      icon: "search",
      title: "No flow matches",
      text: "The search looks for a part of the name. A tag matches as a whole.",
      actions: linkButton(visit.to.flows(), "Clear filters"),
    })}</section>`;
  const rows = data.map((flow) => flowRow(visit, flow));
  const columns = [{ text: "Name" }, { text: "Latest trail", className: "w-st" }, { text: "Active", isRight: true }];
  const list = table({ caption: "Flows", columns, rows });
  return html`<section class="card" aria-label="Flows">${list}</section>${pager(visit, pagination)}`;
}

function flowRow({ to, now }: Visit, flow: ListedFlow): Html {
  const name = nameCell({
    href: to.flow(flow.name),
    name: html`<bdi>${flow.name}</bdi>`,
    sub: html`${flow.description}${tagList(flow.tags)}`,
  });
  const { latest_state: latest } = flow;
  const state = latest === null ? html`<span class="muted">No trail yet</span>` : badge(stateOf(latest));
  const active = time(flow.latest_activity_at, now);
  return html`<tr>${name}<td>${state}</td><td class="r" data-l="Active">${active}</td></tr>`;
}
