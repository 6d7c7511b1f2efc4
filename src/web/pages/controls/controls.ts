/** `/{org}/controls`: the controls of an organization, and the form that creates one. */
import { listControls, postControl } from "../../../api/policies/controls.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { formOf, textField } from "../../components/forms.ts";
import { card, nameCell, padded, pageHead, tabs } from "../../components/layout.ts";
import { listPage, pageFrom } from "../../components/list-page.ts";
import { oneOf, tagsOf } from "../../components/lists.ts";
import { tag } from "../../components/state.ts";
import { tagList } from "../../components/tags.ts";
import { time } from "../../components/time.ts";
import { icon } from "../../components/icon.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { form, page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";
import { controlFields, writtenControl } from "./control-form.ts";
import { placingLinks } from "./control-data.ts";

type ControlPage = AnswerOf<typeof listControls>;

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
    crumb: "New",
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

const showList = (visit: Visit): Promise<Content> => (isArchivedTab(visit) ? archivedControls : controls)(visit);

const LIST = {
  section: "controls",
  crumb: "Controls",
  sub: "Requirements that decisions show to be met, and that policies enforce.",
  create: { operation: postControl, text: "New control" },
  what: ["control", "controls"],
  above: (visit: Visit) =>
    tabs("Controls", [
      { text: "Active", href: visit.to.controls(), isCurrent: !isArchivedTab(visit) },
      { text: "Archived", href: visit.to.controls({ tab: "archived" }), isCurrent: isArchivedTab(visit) },
    ]),
  read: pageFrom(listControls, (visit) => ({
    query: {
      search: visit.query.get("search"),
      archived: isArchivedTab(visit),
      sort_direction: oneOf(visit.query, "sort", ["desc"]) ?? "asc",
      ...tagsOf(visit.query),
    },
  })),
  filters: [
    { kind: "search", name: "search", label: "Name or identifier" },
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
  columns: [
    { text: "Control" },
    { text: "Version", className: "w-time" },
    { text: "Tags" },
    { text: "Created", isRight: true },
  ],
  row: controlRow,
  none: "The search looks for a part of the name or identifier. A tag matches as a whole.",
} as const;

const controls = listPage({
  ...LIST,
  title: "Controls",
  empty: {
    icon: "checklist",
    title: "No controls yet",
    text: "A control is a requirement of a standard or of your own. Pipelines report decisions on it.",
    command: 'kosli create control SDLC-7 --name "Releases are approved"',
  },
});

const archivedControls = listPage({
  ...LIST,
  title: "Archived controls",
  heading: "Controls",
  empty: {
    icon: "archive",
    title: "No archived controls",
    text: "An archived control keeps its identifier, versions and decisions.",
    actions: null,
  },
});

function controlRow({ to, now }: Visit, control: ControlPage["controls"][number]): Html {
  const name = nameCell({
    href: to.control(control.identifier),
    name: html`<span class="cut-block"><bdi>${control.name}</bdi></span>`,
    mark: icon("checklist"),
    sub: html`<code class="cut-block">${control.identifier}</code>${
      control.description && html`<span class="cut-block">${control.description}</span>`
    }`,
  });
  return html`<tr>${name}<td>${tag(`v${control.version}`)}</td><td class="fill">${tagList(control.tags)}</td>
<td class="r" data-l="Created">${time(control.created_at, now)}</td></tr>`;
}
