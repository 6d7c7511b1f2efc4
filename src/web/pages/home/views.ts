/** `/{org}/views`: the saved views, and the forms that save, rename and delete one. */
import { createView, deleteView, listViews, putView } from "../../../api/accounts/views.ts";
import { AppError, badRequest, notFound } from "../../../errors.ts";
import type { CallInput } from "../../../http/in-process.ts";
import { formOf, hiddenField, textField } from "../../components/forms.ts";
import { icon } from "../../components/icon.ts";
import { card, empty, linkButton, nameCell, padded, pageHead, reasonsBox, table } from "../../components/layout.ts";
import { count } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import {
  describeList,
  listFields,
  listHref,
  listIcon,
  nameFields,
  problemOf,
  viewHref,
} from "../../components/views.ts";
import type { List, View } from "../../components/views.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Fields } from "../../page/fields.ts";
import { form, page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";

const LIST_FIELD = "list.parameters.";

export const viewsPage = page({
  path: "/{org}/views",
  past: "present",
  async show(visit) {
    const { call, query, refused } = visit;
    if (refused?.form === "save") return content(visit, "Save a view", saving(visit, refused.fields));
    const views = await call(listViews);
    const asked = refused?.form ?? query.get("ask");
    const id = refused ? refused.fields.text("view") : query.get("view");
    const view = views.find(({ view_id }) => view_id === id);
    if (!view || !mayChange(visit, view) || (asked !== "rename" && asked !== "delete"))
      return content(visit, null, listed(visit, views, view ?? null));
    return content(visit, view.name, asked === "rename" ? renaming(visit, view) : deletion(visit, view));
  },
  forms: {
    save: form(createView, async ({ call, to }, fields) => {
      const isForAll = fields.text("for_everyone") === "yes";
      const { list } = await describingLists(() =>
        call(createView, { body: { name: fields.text("name").trim(), list: listOf(fields), for_everyone: isForAll } }),
      );
      return { go: listHref(to, list), done: "view_saved" };
    }),
    rename: form(putView, async (visit, fields) => {
      const view = await requireView(visit, fields.text("view"));
      const name = fields.text("name").trim();
      await visit.call(putView, { params: { view_id: view.view_id }, body: { name, list: view.list as never } });
      return { go: visit.to.views(), done: "saved" };
    }),
    delete: form(deleteView, async ({ call, to }, fields) => {
      await call(deleteView, { params: { view_id: fields.text("view") } });
      return { go: to.views(), done: "deleted" };
    }),
  },
});

type SavedList = NonNullable<CallInput<typeof createView>["body"]>["list"];

/** The list in the fields of a form; the operation checks it. */
function listOf(fields: Fields): SavedList {
  const parameters = fields
    .entries()
    .flatMap(([name, value]) => (name.startsWith(LIST_FIELD) ? [[name.slice(LIST_FIELD.length), value]] : []));
  return { page: fields.text("list.page"), parameters: Object.fromEntries(parameters) } as SavedList;
}

/** Says what is wrong with a list, which has no field of its own in the form. @throws AppError */
async function describingLists<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const problem =
      error instanceof AppError && Object.entries(error.fields ?? {}).find(([key]) => key.startsWith("list"));
    if (!problem) throw error;
    const [, kind, name] = /^This (\w+) does not exist \[input: (.*)\]$/s.exec(problem[1]) ?? [];
    throw badRequest(
      kind === undefined
        ? "This list cannot be saved with these filters: open it again, and save it from there"
        : `There is no ${kind} named ${name} (any more), so the list has nothing to show: choose another ${kind}`,
    );
  }
}

/** @throws AppError 404 */
async function requireView({ call }: Visit, id: string): Promise<View> {
  const view = (await call(listViews)).find(({ view_id }) => view_id === id);
  if (!view) throw notFound("This view was deleted meanwhile");
  return view;
}

/** Views of the organization are changed by its admins. */
const mayChange = ({ role, may }: Visit, { for_everyone }: View): boolean =>
  may(putView) && (!for_everyone || role === "admin");

const content = ({ to }: Visit, title: string | null, main: Html): Content => ({
  title: title ?? "Views",
  section: null,
  crumbs: title === null ? [] : [{ text: "Views", href: to.views() }],
  main: html`${pageHead({
    title: title === null ? "Views" : html`<bdi>${title}</bdi>`,
    ...(title === null
      ? { sub: "Lists that were saved with their filters. To add one, filter a list and choose Save view there." }
      : {}),
  })}${main}`,
});

/** @param asked the view that the address names */
function listed(visit: Visit, views: readonly View[], asked: View | null): Html {
  const own = views.filter(({ for_everyone }) => !for_everyone);
  const shared = views.filter(({ for_everyone }) => for_everyone);
  return html`<div class="stack">${asked && problemBox(visit, asked)}${card({
    id: "h-own",
    title: html`Mine ${count(own.length)}`,
    body:
      own.length > 0
        ? viewTable(visit, own, "My views")
        : empty({
            icon: "bookmark",
            title: "No view of your own yet",
            text: "Filter any list, such as the artifacts that are non-compliant, and save it there as a view.",
            actions: html`${linkButton(visit.to.artifacts(), "Artifacts")}${linkButton(
              visit.to.environments(),
              "Environments",
            )}${linkButton(visit.to.attestations(), "Attestations")}`,
          }),
  })}${
    shared.length > 0 &&
    card({
      id: "h-shared",
      title: html`Everybody in ${visit.org} ${count(shared.length)}`,
      body: viewTable(visit, shared, "Views of the organization"),
    })
  }</div>`;
}

function viewTable(visit: Visit, views: readonly View[], caption: string): Html {
  const hasActions = views.some((view) => mayChange(visit, view));
  return table({
    caption,
    columns: [
      { text: "Name", className: "w-most" },
      { text: "By", className: "w-time" },
      { text: "Changed", isRight: true, className: "w-time" },
      ...(hasActions ? [{ text: "Actions", isHidden: true, isRight: true, className: "w-time" }] : []),
    ],
    rows: views.map((view) => viewRow(visit, view, hasActions)),
  });
}

function viewRow(visit: Visit, view: View, hasActions: boolean): Html {
  const { to, now, here } = visit;
  const problem = problemOf(view);
  const name = nameCell({
    href: viewHref(to, view),
    name: html`<bdi>${view.name}</bdi>`,
    mark: icon(listIcon(view.list as List)),
    sub: html`<span class="cut-block">${describeList(view.list as List)}</span>${
      problem && html`<span class="strong wait">${problem}</span>`
    }`,
  });
  const link = (ask: string, text: string): Html =>
    html`<a class="btn btn-s" href="${here({ ask, view: view.view_id })}">${text}<span
class="vh"> ${view.name}</span></a>`;
  const actions =
    mayChange(visit, view) &&
    html`<span class="row-actions beside">${link("rename", "Rename")}${link("delete", "Delete…")}</span>`;
  return html`<tr>${name}<td data-l="By"><bdi class="cut">${view.created_by}</bdi></td>
<td class="r" data-l="Changed">${time(view.last_modified_at, now)}</td>${
    hasActions && html`<td class="r">${actions}</td>`
  }</tr>`;
}

/** What is wrong with the view in the address; null if nothing is. */
function problemBox(visit: Visit, view: View): Html | null {
  const problem = problemOf(view);
  return problem === null
    ? null
    : reasonsBox({
        state: "wait",
        mark: "alert",
        title: html`<bdi>${view.name}</bdi> has nothing to show`,
        reasons: [problem],
        actions:
          mayChange(visit, view) && linkButton(visit.here({ ask: "delete", view: view.view_id }), "Delete the view…"),
      });
}

/** The form that was refused; its list is in the fields. */
function saving(visit: Visit, fields: Fields): Html {
  const list = listOf(fields) as List;
  return card({
    id: "h-save",
    title: "View",
    body: padded(
      formOf(visit, {
        name: "save",
        submit: "Save",
        cancel: visit.to.views(),
        fields: html`${listFields(list)}${nameFields(visit)}`,
      }),
    ),
  });
}

function renaming(visit: Visit, view: View): Html {
  const name = textField(visit, {
    form: "rename",
    name: "name",
    label: "Name",
    of: putView,
    value: view.name,
    hint: "",
  });
  return card({
    id: "h-rename",
    title: "Rename",
    body: padded(
      formOf(visit, {
        name: "rename",
        submit: "Rename",
        cancel: visit.to.views(),
        fields: html`${hiddenField("view", view.view_id)}${name}`,
      }),
    ),
  });
}

function deletion(visit: Visit, view: View): Html {
  const who = view.for_everyone ? ` It leaves the navigation of everybody in ${visit.org}.` : "";
  return card({
    id: "h-delete",
    title: "Delete this view?",
    body: padded(
      formOf(visit, {
        name: "delete",
        submit: "Delete view",
        isDanger: true,
        cancel: visit.to.views(),
        fields: html`${hiddenField("view", view.view_id)}<p>${describeList(view.list as List)}.${who} What
it lists is kept.</p>`,
      }),
    ),
  });
}
