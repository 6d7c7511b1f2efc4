/** `/{org}/flows/{flow}`: its trails, artifacts, deployments, template and settings. */
import { archiveFlow, createFlowWithTemplate, getFlow, renameFlow } from "../../../api/flows/flows.ts";
import { patchTags } from "../../../api/tags.ts";
import { binderButton } from "../binder/binder-link.ts";
import { tagChangeOf, tagForms, tagList } from "../../components/tags.ts";
import { asksForPreview, typedForm } from "../../components/editor.ts";
import { askPreview, isUnseen, turnsNothing } from "../../components/impact.ts";
import { pageHead, tabs } from "../../components/layout.ts";
import { icon } from "../../components/icon.ts";
import { tag } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Fields } from "../../page/fields.ts";
import { form, page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";
import { artifactsTab } from "./flow-artifacts.ts";
import { deploymentsTab } from "./flow-deployments.ts";
import { settingsTab } from "./flow-settings.ts";
import { checkTemplate, editsTemplate, templateTab } from "./flow-template.ts";
import { trailsTab } from "./flow-trails.ts";
import type { Flow } from "./flow-trails.ts";
import { templateFile, visibilityOf } from "./flows.ts";

type Tab = { key: string; text: string; show(visit: Visit, flow: Flow): Promise<Html> | Html };

const TABS: readonly Tab[] = [
  { key: "trails", text: "Trails", show: trailsTab },
  { key: "artifacts", text: "Artifacts", show: artifactsTab },
  { key: "deployments", text: "Deployments", show: deploymentsTab },
  { key: "template", text: "Template", show: templateTab },
  { key: "settings", text: "Settings", show: settingsTab },
];

const settingsOf = ({ to, params }: Visit): string => to.flow(params["flow"] ?? "", { tab: "settings" });

async function show(visit: Visit): Promise<Content> {
  const { call, params, query, to, may, here, now } = visit;
  const flow = await call(getFlow, { params: { flow_name: params["flow"] ?? "" } });
  const isArchived = ARCHIVED.test(flow.name);
  const mayChange = may(renameFlow) || may(patchTags);
  const shown = TABS.filter(({ key }) => key !== "settings" || (mayChange && !isArchived));
  const tab = shown.find(({ key }) => key === query.get("tab")) ?? (shown[0] as Tab);
  const head = pageHead({
    title: html`<bdi>${flow.name}</bdi>`,
    state: [tag(flow.visibility), isArchived && tag("archived", "archive")],
    sub: flow.description,
    meta: [
      tagList(flow.tags),
      flow.last_deployment_at && html`${icon("rocket")}deployed ${time(flow.last_deployment_at, now)}`,
    ],
    actions: [binderButton(visit, { flow: flow.name })],
  });
  const items = shown.map(({ key, text }) => ({
    text,
    href: here(
      Object.fromEntries([...query.keys()].map((name) => [name, name === "tab" ? key : null]).concat([["tab", key]])),
    ),
    isCurrent: key === tab.key,
  }));
  return {
    title: flow.name,
    section: "flows",
    crumbs: [{ text: "Flows", href: to.flows() }],
    main: html`${head}${isArchived && archivedNote(to.flow(flow.name.replace(ARCHIVED, "")))}${tabs(
      "Flow",
      items,
    )}<div class="stack">${await tab.show(visit, flow)}</div>`,
    hasEditor: tab.key === "template" && editsTemplate(visit),
  };
}

export const flowPage = page({
  path: "/{org}/flows/{flow}",
  show,
  forms: {
    describe: form(createFlowWithTemplate, async (visit, fields) => {
      const { call, params } = visit;
      const name = params["flow"] ?? "";
      const { template } = await call(getFlow, { params: { flow_name: name } });
      await call(createFlowWithTemplate, {
        body: { name, description: fields.text("description"), visibility: visibilityOf(fields.text("visibility")) },
        ...templateFile(template),
      });
      return { go: settingsOf(visit), done: "saved" };
    }),
    template: form(createFlowWithTemplate, async (visit, fields) => {
      if (asksForPreview(fields)) return { show: await show(await checkTemplate(visit, fields, "template")) };
      const { call, params, to } = visit;
      const name = params["flow"] ?? "";
      const { description, visibility } = await call(getFlow, { params: { flow_name: name } });
      await call(createFlowWithTemplate, {
        body: { name, description, visibility: visibilityOf(visibility) },
        file: { filename: "template.yml", text: fields.text("template_file") },
      });
      return { go: to.flow(name, { tab: "template" }), done: "saved" };
    }),
    rename: form(renameFlow, async (visit, fields) => {
      const { call, params, to } = visit;
      const name = fields.text("new_name").trim();
      const question = await checkName(visit, fields, name);
      if (question !== null) return { show: question };
      await call(renameFlow, { params: { flow_name: params["flow"] ?? "" }, body: { new_name: name } });
      return { go: to.flow(name, { tab: "settings" }), done: "renamed" };
    }),
    archive: form(archiveFlow, async ({ call, params, to }) => {
      await call(archiveFlow, { params: { flow_name: params["flow"] ?? "" } });
      return { go: to.flows(), done: "archived" };
    }),
    ...tagForms("flow", (visit) => ({ id: visit.params["flow"] ?? "", back: settingsOf(visit) }), checkTags),
  },
});

/** The page with what a change of tags would turn, which no panel showed yet; null where it turns nothing. */
async function checkTags(visit: Visit, name: string, fields: Fields): Promise<Content | null> {
  const change = tagChangeOf(name, fields);
  if (!isUnseen(fields, JSON.stringify(change))) return null;
  const preview = await askPreview(visit, { tag_flow: { flow_name: visit.params["flow"] ?? "", ...change } });
  // A change that is refused says why at its field.
  if ("failed" in preview ? preview.isRefused : turnsNothing(preview)) return null;
  return show(typedForm(visit, name, { fields, problems: [] }));
}

/** The page with what another name would turn, which no panel showed yet; null where it turns nothing. */
async function checkName(visit: Visit, fields: Fields, name: string): Promise<Content | null> {
  if (!isUnseen(fields, name)) return null;
  const preview = await askPreview(visit, { rename_flow: { flow_name: visit.params["flow"] ?? "", new_name: name } });
  // A name that is refused says why at its field.
  if ("failed" in preview ? preview.isRefused : turnsNothing(preview)) return null;
  return show(typedForm(visit, "rename", { fields, problems: [] }));
}

/** What archiving adds to a name (semantics 1.8). */
const ARCHIVED = /-archived-at-\d+$/;

const archivedNote = (href: string): Html =>
  html`<p class="done" role="status">This flow is archived. Its evidence stays readable, and nothing can be reported to
it. <a href="${href}">The flow that has its name now</a>, if there is one.</p>`;
