/**
 * Controls (semantics 7.1). Every operation here and in the files beside this one belongs to the feature that an
 * organization can switch off.
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import { CONTROL_IDENTIFIER } from "../../domain/names.ts";
import { invalid } from "../../errors.ts";
import { NO_BODY, json } from "../../http/operation.ts";
import { Closed, Matching, Maybe, Message, Nullable, OneOf, Repeated, named } from "../../http/schema.ts";
import type { ControlListRow, ControlRow, ControlLinks } from "../../store/policies/controls.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { Counts, counts, pages } from "../paging.ts";
import { LIST_LENGTH, NAME_LENGTH, PATH_LENGTH, TEXT_LENGTH, Text, WebUrl } from "../../contract/shapes.ts";
import { TagChoice } from "../tags.ts";
import { UNREADABLE, presentEach } from "../../contract/placeholders.ts";
import { Tags } from "../../contract/tags.ts";
import { tagFilters } from "../filters.ts";
import { ControlPath, OrgPath, NoQuery, RESERVED } from "../paths.ts";

export const CONTROL_OPERATION = { tag: "Controls", feature: "controls" } as const;
export const NO_CONTROL = { description: "No such control", schema: Message };

/** How lists of this resource are paged. */
export const CONTROL_PAGES = pages({ perPage: 15, most: 100 });
export const SortDirection = (fallback: "asc" | "desc", by: string) =>
  OneOf(["asc", "desc"], { default: fallback, description: `Direction of the order by ${by}` });

// Read by people as a title; a thousand characters and more are the full sentences of standards.
const ControlName = Type.String({ minLength: 1, maxLength: PATH_LENGTH, description: "What the control is called" });
const ControlLinks = Type.Record(Type.String(), WebUrl, {
  maxProperties: LIST_LENGTH,
  description: "Name of a link to its address; names may contain dots",
});

const ControlPostInput = named(
  "ControlPostInput",
  Closed({
    identifier: Matching(CONTROL_IDENTIFIER, {
      maxLength: NAME_LENGTH,
      description: `Identifies the control for good, also once it is archived; \`${RESERVED}\` is reserved`,
    }),
    name: ControlName,
    description: Maybe(Text),
    links: Maybe(ControlLinks),
  }),
);

const ControlPutInput = named(
  "ControlPutInput",
  Closed({
    name: Maybe(ControlName),
    description: Type.Optional(
      Nullable(Type.String({ maxLength: TEXT_LENGTH, description: "Null or empty: none any more" })),
    ),
    links: Maybe(
      Type.Record(Type.String(), WebUrl, {
        maxProperties: LIST_LENGTH,
        description: "Takes the place of all links; null: they stay",
      }),
    ),
  }),
);

const listed = {
  identifier: Type.String(),
  name: Type.String(),
  description: Nullable(Type.String()),
  links: Type.Record(Type.String(), Type.String()),
  version: Type.Integer({ description: "Number of the latest version" }),
  created_at: Type.Number({ description: "Epoch seconds" }),
  created_by: Type.String(),
  tags: Tags,
};
const ControlListItem = named("ControlListItem", Closed(listed));
const ControlListPage = named("ControlListPage", Closed({ ...Counts, controls: Type.Array(ControlListItem) }));
const ControlResponse = named(
  "ControlResponse",
  Closed({
    ...listed,
    archived: Type.Boolean(),
    policies_referencing: Type.Array(Type.String(), {
      description: "Names of the policies whose latest version has a rule for the control",
    }),
  }),
);
const CONTROL = { description: "The control as it is now", schema: ControlResponse };

const presentListed = (row: ControlRow, tags: Record<string, string>): Static<typeof ControlListItem> => ({
  identifier: row.identifier,
  name: row.name,
  description: row.description,
  links: JSON.parse(row.links_json) as ControlLinks,
  version: row.version,
  created_at: row.created_at,
  created_by: row.created_by,
  tags,
});

/** The item of a control whose record cannot be shown: what identifies it, and a mark. */
const placeholder = (row: ControlListRow): Static<typeof ControlListItem> =>
  presentListed({ ...row, description: UNREADABLE, links_json: "{}" }, {});

const presentControl = ({ store }: OperationContext, row: ControlRow): Static<typeof ControlResponse> => ({
  ...presentListed(row, store.controls.tags(row.id)),
  archived: row.archived === 1,
  policies_referencing: store.controls.policiesReferencing(row.id),
});

/** The answer to a write that may have changed nothing; only a change has a place in the audit log. */
function changed(context: OperationContext, before: ControlRow, after: ControlRow) {
  context.note({ control: after.identifier, version: after.version });
  const answer = { status: 200 as const, body: presentControl(context, after) };
  return before.version === after.version ? { ...answer, unaudited: true as const } : answer;
}

export const listControls = operation({
  ...CONTROL_OPERATION,
  id: "list_controls",
  method: "GET",
  path: "/controls/{org}",
  summary: "List the controls of an organization",
  description: "In pages, by name. Active controls, or with `archived=true` the archived ones alone.",
  permission: "control:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    ...CONTROL_PAGES.query,
    sort_direction: SortDirection("asc", "name"),
    search: Type.Optional(Type.String({ description: "A part of the name or the identifier, in any case" })),
    tag: Repeated(Type.String(), { description: "`key` or `key:value`; all must match" }),
    archived: Type.Boolean({ default: false, description: "Archived controls in place of active ones" }),
  }),
  body: NO_BODY,
  responses: { 200: { description: "One page", schema: ControlListPage } },
  example: { params: { org: "acme" }, query: { search: "review", tag: "team:payments" } },
  handle({ store, organization }, { query }) {
    const filter = { search: query.search ?? "", archived: query.archived, tags: tagFilters(query.tag) };
    const { page, perPage, ...part } = CONTROL_PAGES.window(query);
    const rows = store.controls.list(organization.id, filter, query.sort_direction, part);
    const controls = presentEach(
      rows,
      (row) => presentListed(row, JSON.parse(row.tags_json) as Record<string, string>),
      placeholder,
    );
    return { status: 200, body: { ...counts(store.controls.count(organization.id, filter), page, perPage), controls } };
  },
});

export const postControl = operation({
  ...CONTROL_OPERATION,
  id: "post_control",
  method: "POST",
  path: "/controls/{org}",
  summary: "Create a control",
  description:
    "An identifier that any control of the organization has or had, archived ones included, is taken for good: the 409 is final.",
  permission: "control:write",
  audit: "control.created",
  params: OrgPath,
  query: NoQuery,
  body: json(ControlPostInput),
  responses: {
    201: { ...CONTROL, description: "Created" },
    409: { description: "The identifier is taken", schema: Message },
  },
  example: {
    params: { org: "acme" },
    body: {
      identifier: "SDLC-7",
      name: "Changes are reviewed",
      description: "Somebody else than the author approves",
      links: { wiki: "https://example.com/sdlc-7" },
    },
  },
  handle(context, { body }) {
    const { store, organization, principal, note } = context;
    const { identifier, name, description, links } = body;
    if (identifier === RESERVED)
      throw invalid({ identifier: `The identifier '${RESERVED}' is reserved [input: ${identifier}]` });
    const row = store.controls.create(
      organization,
      identifier,
      { name, description: description || null, links: links ?? {} },
      principal.displayName,
    );
    note({ control: identifier });
    return { status: 201, body: presentControl(context, row) };
  },
});

export const listControlTagChoices = operation({
  ...CONTROL_OPERATION,
  id: "list_control_tag_choices",
  method: "GET",
  path: "/controls/{org}/tags",
  summary: "List the tags in use on controls",
  description: "Every pair of key and value once, in their order, archived controls included: the choices of a filter.",
  permission: "control:read",
  audit: null,
  params: OrgPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The pairs", schema: Type.Array(TagChoice) } },
  example: { params: { org: "acme" } },
  handle: ({ store, organization }) => ({ status: 200, body: store.controls.tagChoices(organization.id) }),
});

export const getControl = operation({
  ...CONTROL_OPERATION,
  id: "get_control",
  method: "GET",
  path: "/controls/{org}/{identifier}",
  summary: "Read a control",
  description: "As it is now, archived or not.",
  permission: "control:read",
  audit: null,
  params: ControlPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: CONTROL, 404: NO_CONTROL },
  example: { params: { org: "acme", identifier: "SDLC-7" } },
  handle: (context, { params }) => ({
    status: 200,
    body: presentControl(context, context.store.controls.require(context.organization, params.identifier)),
  }),
});

export const putControl = operation({
  ...CONTROL_OPERATION,
  id: "put_control",
  method: "PUT",
  path: "/controls/{org}/{identifier}",
  summary: "Change name, description or links of a control",
  description:
    "What is left out stays as it is. `links` takes the place of all links, `{}` removes them, null leaves them; a description of null or nothing removes it; " +
    "a name of null stays. A change makes the next version, and what changes nothing makes none. An archived control stays archived.",
  permission: "control:write",
  audit: "control.edited",
  params: ControlPath,
  query: NoQuery,
  body: json(ControlPutInput),
  responses: { 200: CONTROL, 404: NO_CONTROL },
  example: { params: { org: "acme", identifier: "SDLC-7" }, body: { name: "Every change is reviewed", links: {} } },
  handle(context, { params, body }) {
    const { store, organization, principal } = context;
    const before = store.controls.require(organization, params.identifier);
    const after = store.controls.edit(
      before,
      {
        name: body.name ?? before.name,
        description: body.description === undefined ? before.description : body.description || null,
        links: body.links ?? (JSON.parse(before.links_json) as ControlLinks),
      },
      principal.displayName,
    );
    return changed(context, before, after);
  },
});

/** The two operations that only move a control in or out of the archive. */
const archiving = (archived: boolean) =>
  operation({
    ...CONTROL_OPERATION,
    id: archived ? "archive_control" : "unarchive_control",
    method: "POST",
    path: `/controls/{org}/{identifier}/${archived ? "archive" : "unarchive"}`,
    summary: archived ? "Archive a control" : "Bring an archived control back",
    description: archived
      ? "It leaves the list of active controls and keeps its identifier, versions, decisions and tags; policies that name it go on to ask for decisions. Archiving an archived one changes nothing."
      : "It is as it was before it was archived. Doing so to an active one changes nothing.",
    permission: "control:write",
    audit: archived ? "control.archived" : "control.unarchived",
    params: ControlPath,
    query: NoQuery,
    body: NO_BODY,
    responses: { 200: CONTROL, 404: NO_CONTROL },
    example: { params: { org: "acme", identifier: "SDLC-7" } },
    handle(context, { params }) {
      const { store, organization, principal } = context;
      const before = store.controls.require(organization, params.identifier);
      return changed(context, before, store.controls.setArchived(before, archived, principal.displayName));
    },
  });

export const archiveControl = archiving(true);
export const unarchiveControl = archiving(false);
