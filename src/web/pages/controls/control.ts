/** `/{org}/controls/{control}`: its decisions, coverage and versions, and the forms that change it. */
import { archiveControl, getControl, putControl, unarchiveControl } from "../../../api/policies/controls.ts";
import { patchTags } from "../../../api/tags.ts";
import { binderButton } from "../binder/binder-link.ts";
import { formOf } from "../../components/forms.ts";
import { icon } from "../../components/icon.ts";
import { reportedLink } from "../../components/identifier.ts";
import { card, linkButton, padded, pageHead, tabs } from "../../components/layout.ts";
import { tag } from "../../components/state.ts";
import { tagEditor, tagForms, tagList } from "../../components/tags.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { form, page } from "../../page/page.ts";
import type { Visit } from "../../page/page.ts";
import { coverageTab } from "./control-coverage.ts";
import { placingLinks } from "./control-data.ts";
import type { Control } from "./control-data.ts";
import { decisionsTab } from "./control-decisions.ts";
import { controlFields, writtenControl } from "./control-form.ts";
import { controlVersionsTab } from "./control-versions.ts";

const TABS = [
  { key: "decisions", text: "Decisions" },
  { key: "coverage", text: "Coverage" },
  { key: "versions", text: "Versions" },
] as const;

const idOf = ({ params }: Visit): string => params["control"] ?? "";
const editAddress = (visit: Visit): string => visit.to.control(idOf(visit), { ask: "edit" });

/** What the address asks for instead of a tab: a form, which a refused one is shown in again. */
function askedOf({ query, refused, may }: Visit): "edit" | "archive" | null {
  const asked = refused ? (refused.form === "archive" ? "archive" : "edit") : query.get("ask");
  if (asked === "archive") return may(archiveControl) ? asked : null;
  return asked === "edit" && (may(putControl) || may(patchTags)) ? asked : null;
}

export const controlPage = page({
  path: "/{org}/controls/{control}",
  async show(visit) {
    const { call, query, to } = visit;
    const control = await call(getControl, { params: { identifier: idOf(visit) } });
    const asked = askedOf(visit);
    const tab = TABS.find(({ key }) => key === query.get("tab"))?.key ?? "decisions";
    const { main, drawer } = asked
      ? { main: asked === "edit" ? editing(visit, control) : askArchive(visit, control), drawer: null }
      : tab === "decisions"
        ? await decisionsTab(visit, control)
        : { main: await (tab === "coverage" ? coverageTab : controlVersionsTab)(visit, control), drawer: null };
    const items = TABS.map(({ key, text }) => ({
      text,
      href: to.control(control.identifier, key === "decisions" ? {} : { tab: key }),
      isCurrent: asked === null && key === tab,
    }));
    const isStacked = asked !== null || tab === "coverage";
    return {
      title: control.identifier,
      section: "controls",
      crumbs: [{ text: "Controls", href: to.controls(control.archived ? { tab: "archived" } : {}) }],
      main: html`${head(visit, control)}${control.archived && archivedNote(visit)}${tabs("Control", items)}${
        isStacked ? html`<div class="stack">${main}</div>` : main
      }`,
      drawer,
    };
  },
  forms: {
    edit: form(putControl, async (visit, fields) => {
      const { call, to } = visit;
      await placingLinks(() => call(putControl, { params: { identifier: idOf(visit) }, body: writtenControl(fields) }));
      return { go: to.control(idOf(visit)), done: "saved" };
    }),
    archive: form(archiveControl, async (visit) => {
      await visit.call(archiveControl, { params: { identifier: idOf(visit) } });
      return { go: visit.to.control(idOf(visit)) };
    }),
    unarchive: form(unarchiveControl, async (visit) => {
      await visit.call(unarchiveControl, { params: { identifier: idOf(visit) } });
      return { go: visit.to.control(idOf(visit)), done: "unarchived" };
    }),
    ...tagForms("control", (visit) => ({ id: idOf(visit), back: editAddress(visit) })),
  },
});

function head(visit: Visit, control: Control): Html {
  const { may, to, now } = visit;
  const { identifier, archived } = control;
  const links = Object.entries(control.links).map(([name, url]) => html`${icon("link")}${reportedLink(url, name)}`);
  const policies = control.policies_referencing.slice(0, MAX_POLICIES);
  const rest = control.policies_referencing.length - policies.length;
  const requiredBy =
    policies.length > 0 &&
    html`required by ${policies.map(
      (name, at) => html`${at > 0 && ", "}<a href="${to.policy(name)}"><bdi>${name}</bdi></a>`,
    )}${rest > 0 && ` and ${rest} more`}`;
  const mayEdit = may(putControl) || may(patchTags);
  return pageHead({
    above: identifier,
    title: html`<bdi>${control.name}</bdi>`,
    state: html`${tag(`v${control.version}`)}${archived && tag("archived", "archive")}`,
    sub: control.description,
    meta: [
      ...links,
      requiredBy,
      html`created ${time(control.created_at, now)} by ${control.created_by}`,
      tagList(control.tags),
    ],
    actions: [
      binderButton(visit, { control: identifier }),
      mayEdit && linkButton(editAddress(visit), "Edit", { icon: "pencil" }),
      !archived &&
        may(archiveControl) &&
        linkButton(to.control(identifier, { ask: "archive" }), "Archive", { icon: "archive", kind: "danger" }),
    ],
  });
}

/** Policies that the head names. */
const MAX_POLICIES = 5;

function archivedNote(visit: Visit): Html {
  const button =
    visit.may(unarchiveControl) &&
    html`<div class="why-do">${formOf(visit, {
      name: "unarchive",
      submit: "Unarchive",
      isInline: true,
      fields: null,
    })}</div>`;
  return html`<div class="why why-none gap-b">${icon("archive")}<div><h2>This control is archived</h2>
<p>It keeps its identifier, versions and decisions, and policies that name it go on to require decisions.</p>
${button}</div></div>`;
}

function editing(visit: Visit, control: Control): Html {
  const fields = controlFields(visit, { form: "edit", of: putControl, control });
  const cancel = visit.to.control(control.identifier);
  return html`${
    visit.may(putControl) &&
    card({
      id: "h-edit",
      title: "Edit control",
      note: "a change makes a new version",
      body: padded(formOf(visit, { name: "edit", submit: "Save", fields, cancel })),
    })
  }${visit.may(patchTags) && card({ id: "h-tags", title: "Tags", body: tagEditor(visit, control.tags) })}`;
}

function askArchive(visit: Visit, control: Control): Html {
  const text = html`<p><b>${control.identifier}</b> leaves the list of active controls. It keeps its identifier,
versions and decisions. Policies that name it go on to require decisions on it.</p>`;
  const form = formOf(visit, {
    name: "archive",
    submit: "Archive this control",
    isDanger: true,
    cancel: visit.here({ ask: null }),
    fields: text,
  });
  return card({ id: "h-archive", title: "Archive this control?", body: padded(form) });
}
