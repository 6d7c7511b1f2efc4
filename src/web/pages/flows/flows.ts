/** `/{org}/flows`: the flows of an organization, and the form that creates one. */
import type { AnswerOf } from "../../../http/in-process.ts";
import { createFlowWithTemplate, getFlow, getFlows } from "../../../api/flows/flows.ts";
import { AppError, invalid } from "../../../errors.ts";
import { templateCompletions } from "../../components/completions.ts";
import { asksForPreview, editorForm, isChecked } from "../../components/editor.ts";
import { selectField, textField } from "../../components/forms.ts";
import { card, nameCell, padded, pageHead } from "../../components/layout.ts";
import { listPage, pageFrom } from "../../components/list-page.ts";
import { oneOf, tagsOf } from "../../components/lists.ts";
import { badge, stateOf } from "../../components/state.ts";
import { tagList } from "../../components/tags.ts";
import { time } from "../../components/time.ts";
import { icon } from "../../components/icon.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { form, page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";
import { checkTemplate, noTemplateResult, TEMPLATE_LANGUAGE, templateResult } from "./flow-template.ts";

type FlowPage = Exclude<AnswerOf<typeof getFlows>, readonly unknown[]>;
type ListedFlow = FlowPage["data"][number];

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
    buttons: { submit: "Create flow", cancel: { href: visit.to.flows(), text: "Cancel" } },
    rows: 14,
  });
  return {
    title: "New flow",
    section: "flows",
    crumbs: [{ text: "Flows", href: visit.to.flows() }],
    crumb: "New",
    hasEditor: true,
    main: html`${pageHead({
      title: "New flow",
      sub: "A flow is a process whose evidence you collect: the builds of a service, for instance.",
    })}${editor}`,
  };
}

const showList = listPage({
  title: "Flows",
  section: "flows",
  sub: "What is built, and what every build has to prove.",
  create: { operation: createFlowWithTemplate, text: "New flow" },
  what: ["flow", "flows"],
  read: pageFrom(getFlows, ({ query }) => ({
    query: {
      search_by_name: query.get("search"),
      case_sensitive: false,
      sort: oneOf(query, "sort", ["name"]) ?? "latest_activity",
      ...tagsOf(query),
    },
  })),
  filters: [
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
  columns: [{ text: "Name" }, { text: "Last changed trail", className: "w-st" }, { text: "Active", isRight: true }],
  row: flowRow,
  empty: {
    icon: "workflow",
    title: "No flows yet",
    text: "A flow collects the evidence of one process, such as the builds of a service. Pipelines report to it.",
    command: "kosli create flow backend-api --template-file template.yml",
  },
  none: "The search looks for a part of the name. A tag matches as a whole.",
});

function flowRow({ to, now }: Visit, flow: ListedFlow): Html {
  const name = nameCell({
    href: to.flow(flow.name),
    name: html`<bdi>${flow.name}</bdi>`,
    sub: html`${flow.description}${tagList(flow.tags)}`,
    mark: icon("workflow"),
  });
  const { latest_state: latest } = flow;
  const state = latest === null ? html`<span class="muted">No trail yet</span>` : badge(stateOf(latest));
  const active = time(flow.latest_activity_at, now);
  return html`<tr>${name}<td>${state}</td><td class="r" data-l="Active">${active}</td></tr>`;
}
