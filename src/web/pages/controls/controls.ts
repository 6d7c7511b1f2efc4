/** `/{org}/controls`: the controls of an organization, and the form that creates one. */
import { listControls, postControl } from "../../../api/policies/controls.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { formOf, textField } from "../../components/forms.ts";
import { card, empty, linkButton, nameCell, padded, pageHead, table, tabs } from "../../components/layout.ts";
import { filters, pageOf, pager } from "../../components/lists.ts";
import { tag } from "../../components/state.ts";
import { tagList } from "../../components/tags.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { form, page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";
import { controlFields, writtenControl } from "./control-form.ts";
import { placingLinks } from "./control-data.ts";

type ControlPage = AnswerOf<typeof listControls>;

const PER_PAGE = 25;

export const controlsPage = page({
  path: "/{org}/controls",
  show(visit) {
    const isCreation = visit.query.get("ask") === "create" || visit.refused !== null;
    return visit.may(postControl) && isCreation ? Promise.resolve(creation(visit)) : showList(visit);
  },
  forms: {
    create: form(postControl, async ({ call, to }, fields) => {
      const identifier = fields.text("identifier").trim();
      await placingLinks(() => call(postControl, { body: { identifier, ...writtenControl(fields) } }));
      return { go: to.control(identifier), done: "created" };
    }),
  },
});

function creation(visit: Visit): Content {
  const fields = html`${textField(visit, {
    form: "create",
    name: "identifier",
    label: "Identifier",
    of: postControl,
    hint: "Permanent, such as SDLC-7. Decisions and policies name it; it can never be used again.",
    isMono: true,
    isRequired: true,
  })}${controlFields(visit, { form: "create", of: postControl, control: null })}`;
  const cancel = visit.to.controls();
  return {
    title: "New control",
    section: "controls",
    crumbs: [{ text: "Controls", href: cancel }],
    main: html`${pageHead({
      title: "New control",
      sub: "A control is a requirement of a standard or of your own. Decisions show that it was met.",
    })}${card({
      id: "h-new",
      title: "Control",
      body: padded(formOf(visit, { name: "create", submit: "Create control", fields, cancel })),
    })}`,
  };
}

const isArchivedTab = ({ query }: Visit): boolean => query.get("tab") === "archived";

async function showList(visit: Visit): Promise<Content> {
  const { call, query, to, may } = visit;
  const archived = isArchivedTab(visit);
  const tags = (query.get("tag") ?? "").split(",").filter((text) => text.trim() !== "");
  const answer = await call(listControls, {
    query: {
      page: pageOf(query),
      per_page: PER_PAGE,
      search: query.get("search"),
      archived,
      sort_direction: query.get("sort") === "desc" ? "desc" : "asc",
      ...(tags.length === 0 ? {} : { tag: tags }),
    },
  });
  const create =
    may(postControl) && linkButton(to.controls({ ask: "create" }), "New control", { icon: "plus", kind: "primary" });
  const isFiltered = Boolean(query.get("search")) || tags.length > 0;
  const isEmpty = answer.total_count === 0 && !isFiltered;
  const head = pageHead({
    title: "Controls",
    sub: "Requirements that decisions show to be met, and that policies enforce.",
    actions: isEmpty && !archived ? [] : [create],
  });
  return {
    title: archived ? "Archived controls" : "Controls",
    section: "controls",
    crumbs: [],
    crumb: "Controls",
    main: html`${head}${tabs("Controls", [
      { text: "Active", href: to.controls(), isCurrent: !archived },
      { text: "Archived", href: to.controls({ tab: "archived" }), isCurrent: archived },
    ])}${isEmpty ? nothing(archived, create) : list(visit, answer)}`,
  };
}

const nothing = (archived: boolean, create: Html | false): Html =>
  archived
    ? html`<section class="card">${empty({
        icon: "archive",
        title: "No archived controls",
        text: "An archived control keeps its identifier, versions and decisions.",
      })}</section>`
    : html`<section class="card">${empty({
        icon: "checklist",
        title: "No controls yet",
        text: "A control is a requirement of a standard or of your own. Pipelines report decisions on it.",
        command: 'kosli create control SDLC-7 --name "Releases are approved"',
        actions: create,
      })}</section>`;

function list(visit: Visit, { controls, total_count: total, total_pages, page: number }: ControlPage): Html {
  const form = filters(visit, {
    items: [
      { kind: "search", name: "search", label: "Search by name or identifier" },
      { kind: "text", name: "tag", label: "Tag: key or key:value" },
      {
        kind: "choice",
        name: "sort",
        label: "Order",
        choices: [
          { value: "", text: "By name, A to Z" },
          { value: "desc", text: "By name, Z to A" },
        ],
      },
    ],
    keep: ["tab"],
    total,
    what: total === 1 ? "control" : "controls",
  });
  if (controls.length === 0 && number === 1)
    return html`${form}<section class="card">${empty({
      icon: "search",
      title: "No control matches",
      text: "The search looks for a part of the name or identifier. A tag matches as a whole.",
      actions: linkButton(visit.to.controls({ tab: isArchivedTab(visit) ? "archived" : null }), "Clear filters"),
    })}</section>`;
  const columns = [
    { text: "Control" },
    { text: "Version", className: "w-time" },
    { text: "Tags" },
    { text: "Created", isRight: true },
  ];
  return html`${form}<section class="card" aria-label="Controls">${table({
    caption: "Controls",
    columns,
    rows: controls.map((control) => controlRow(visit, control)),
  })}</section>${pager(visit, { total, page: number, per_page: PER_PAGE, page_count: total_pages })}`;
}

function controlRow({ to, now }: Visit, control: ControlPage["controls"][number]): Html {
  const name = nameCell({
    href: to.control(control.identifier),
    name: html`<span class="cut-block"><bdi>${control.name}</bdi></span>`,
    sub: html`<code class="cut-block">${control.identifier}</code>${
      control.description && html`<span class="cut-block">${control.description}</span>`
    }`,
  });
  return html`<tr>${name}<td>${tag(`v${control.version}`)}</td><td class="fill">${tagList(control.tags)}</td>
<td class="r" data-l="Created">${time(control.created_at, now)}</td></tr>`;
}
