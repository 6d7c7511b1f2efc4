/**
 * Controls: requirements that decisions and policies refer to (semantics 7.1). All operations on controls, their
 * versions, decisions and coverage belong to a feature that an organization can turn off.
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import { CONTROL_IDENTIFIER } from "../../domain/names.ts";
import { isObject, readStoredJson } from "../../domain/stored-json.ts";
import { invalid } from "../../errors.ts";
import { NO_BODY, json } from "../../http/operation.ts";
import { Closed, Matching, Maybe, Message, Nullable, OneOf, Repeated, named } from "../../http/schema.ts";
import type { ControlListRow, ControlRow, ControlLinks } from "../../store/policies/controls.ts";
import { operation, largeRead } from "../context.ts";
import type { LargeReadContext, OperationContext } from "../context.ts";
import { PageCounts, pageCounts, definePaging } from "../paging.ts";
import { MAX_LIST_ITEMS, MAX_PATH_CHARS, MAX_TEXT_CHARS, Text, WebUrl } from "../../contract/shapes.ts";
import { MAX_NAME_CHARS } from "../../domain/names.ts";
import { TagChoice } from "../tags.ts";
import { UNREADABLE, presentEach } from "../../contract/placeholders.ts";
import { Tags } from "../../contract/tags.ts";
import { parseTagFilters } from "../filters.ts";
import { ControlPath, OrgPath, NoQuery, RESERVED_CONTROL_IDENTIFIER } from "../paths.ts";

export const CONTROL_OPERATION = { tag: "Controls", feature: "controls" } as const;
export const NO_CONTROL = { description: "No such control", schema: Message };

/** The paging of all lists of controls, versions, decisions and coverage. */
export const CONTROL_PAGES = definePaging({ perPage: 15, maxPerPage: 100 });
export const SortDirection = (fallback: "asc" | "desc", by: string) =>
  OneOf(["asc", "desc"], { default: fallback, description: `Sort direction; the list is sorted by ${by}` });

// Shown as a title, but standards use full sentences of a thousand characters and more.
const ControlName = Type.String({ minLength: 1, maxLength: MAX_PATH_CHARS, description: "Name of the control" });
const ControlLinksInput = Type.Record(Type.String(), WebUrl, {
  maxProperties: MAX_LIST_ITEMS,
  description: "URLs by the names of the links; names may contain dots",
});

const ControlPostInput = named(
  "ControlPostInput",
  Closed({
    identifier: Matching(CONTROL_IDENTIFIER, {
      maxLength: MAX_NAME_CHARS,
      description:
        "Permanent identifier of the control, also after archiving; " +
        `\`${RESERVED_CONTROL_IDENTIFIER}\` is reserved`,
    }),
    name: ControlName,
    description: Maybe(Text),
    links: Maybe(ControlLinksInput),
  }),
);

const ControlPutInput = named(
  "ControlPutInput",
  Closed({
    name: Maybe(ControlName),
    description: Type.Optional(
      Nullable(Type.String({ maxLength: MAX_TEXT_CHARS, description: "null or empty: removed" })),
    ),
    links: Maybe(
      Type.Record(Type.String(), WebUrl, {
        maxProperties: MAX_LIST_ITEMS,
        description: "Replaces all links; null: unchanged",
      }),
    ),
  }),
);

const listFields = {
  identifier: Type.String(),
  name: Type.String(),
  description: Nullable(Type.String()),
  links: Type.Record(Type.String(), Type.String()),
  version: Type.Integer({ description: "Number of the latest version" }),
  created_at: Type.Number({ description: "Epoch seconds" }),
  created_by: Type.String(),
  tags: Tags,
};
const ControlListItem = named("ControlListItem", Closed(listFields));
const ControlListPage = named("ControlListPage", Closed({ ...PageCounts, controls: Type.Array(ControlListItem) }));
const ControlResponse = named(
  "ControlResponse",
  Closed({
    ...listFields,
    archived: Type.Boolean(),
    policies_referencing: Type.Array(Type.String(), {
      description: "Names of the policies whose latest version has a rule for the control",
    }),
  }),
);
const CONTROL = { description: "The current state of the control", schema: ControlResponse };

/** Whether a stored value is the links of a control. */
export const isLinks = (value: unknown): value is ControlLinks => isObject(value);
const isTags = (value: unknown): value is Record<string, string> => isObject(value);

const presentListItem = (row: ControlRow, tags: Record<string, string>): Static<typeof ControlListItem> => ({
  identifier: row.identifier,
  name: row.name,
  description: row.description,
  links: readStoredJson(row.links_json, isLinks),
  version: row.version,
  created_at: row.created_at,
  created_by: row.created_by,
  tags,
});

/** A control whose record cannot be shown: its identifier and a mark. */
const placeholder = (row: ControlListRow): Static<typeof ControlListItem> =>
  presentListItem({ ...row, description: UNREADABLE, links_json: "{}" }, {});

const presentControl = ({ store }: LargeReadContext, row: ControlRow): Static<typeof ControlResponse> => ({
  ...presentListItem(row, store.controls.getTags(row.id)),
  archived: row.archived === 1,
  policies_referencing: store.controls.listReferencingPolicies(row.id),
});

/** The reply to an edit. An edit without effect makes no version and is not audited. */
function replyToEdit(context: OperationContext, before: ControlRow, after: ControlRow) {
  context.note({ control: after.identifier, version: after.version });
  const reply = { status: 200 as const, body: presentControl(context, after) };
  return before.version === after.version ? { ...reply, unaudited: true as const } : reply;
}

export const listControls = largeRead({
  ...CONTROL_OPERATION,
  id: "list_controls",
  method: "GET",
  path: "/controls/{org}",
  summary: "List the controls of an organization",
  description: "In pages, by name. Active controls or, with `archived=true`, archived ones.",
  permission: "control:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    ...CONTROL_PAGES.query,
    sort_direction: SortDirection("asc", "name"),
    search: Type.Optional(Type.String({ description: "Part of the name or the identifier; case-insensitive" })),
    tag: Repeated(Type.String(), { description: "`key` or `key:value`; all must match" }),
    archived: Type.Boolean({ default: false, description: "Archived controls instead of active ones" }),
  }),
  body: NO_BODY,
  responses: { 200: { description: "One page", schema: ControlListPage } },
  example: { params: { org: "acme" }, query: { search: "review", tag: "team:payments" } },
  handle({ store, organization }, { query }) {
    const filter = { search: query.search ?? "", archived: query.archived, tags: parseTagFilters(query.tag) };
    const { page, perPage, ...slice } = CONTROL_PAGES.window(query);
    const rows = store.controls.list(organization.id, filter, { direction: query.sort_direction, ...slice });
    const controls = presentEach(
      rows,
      (row) => presentListItem(row, readStoredJson(row.tags_json, isTags)),
      placeholder,
    );
    return {
      status: 200,
      body: { ...pageCounts(store.controls.count(organization.id, filter), page, perPage), controls },
    };
  },
});

export const postControl = operation({
  ...CONTROL_OPERATION,
  id: "post_control",
  method: "POST",
  path: "/controls/{org}",
  summary: "Create a control",
  description:
    "An identifier can never be reused in the organization, not even that of an archived control: a 409 is permanent.",
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
      description: "Someone other than the author approves",
      links: { wiki: "https://example.com/sdlc-7" },
    },
  },
  handle(context, { body }) {
    const { store, organization, principal, note } = context;
    const { identifier, name, description, links } = body;
    if (identifier === RESERVED_CONTROL_IDENTIFIER)
      throw invalid({
        identifier: `The identifier '${RESERVED_CONTROL_IDENTIFIER}' is reserved [input: ${identifier}]`,
      });
    const row = store.controls.create(
      organization,
      { identifier, name, description: description || null, links: links ?? {} },
      principal.displayName,
    );
    note({ control: identifier });
    return { status: 201, body: presentControl(context, row) };
  },
});

export const listControlTagChoices = largeRead({
  ...CONTROL_OPERATION,
  id: "list_control_tag_choices",
  method: "GET",
  path: "/controls/{org}/tags",
  summary: "List the tags in use on controls",
  description:
    "All pairs of key and value, each once, in order, including tags of archived controls. For use as filter " +
    "choices.",
  permission: "control:read",
  audit: null,
  params: OrgPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The tags", schema: Type.Array(TagChoice) } },
  example: { params: { org: "acme" } },
  handle: ({ store, organization }) => ({ status: 200, body: store.controls.listTagChoices(organization.id) }),
});

export const getControl = largeRead({
  ...CONTROL_OPERATION,
  id: "get_control",
  method: "GET",
  path: "/controls/{org}/{identifier}",
  summary: "Read a control",
  description: "The current state, whether or not the control is archived.",
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
  summary: "Update the name, description or links of a control",
  description:
    "Omitted fields, and a `name` or `links` of null, are unchanged. `links` replaces all links; `{}` removes them. " +
    "A `description` that is null or empty removes the description. A change makes a new version; a request without " +
    "effect makes none. An archived control stays archived.",
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
    const after = store.controls.update(
      before,
      {
        name: body.name ?? before.name,
        description: body.description === undefined ? before.description : body.description || null,
        links: body.links ?? readStoredJson(before.links_json, isLinks),
      },
      principal.displayName,
    );
    return replyToEdit(context, before, after);
  },
});

/** What archiving and unarchiving have in common. */
const archiveOperation = (action: "archive" | "unarchive", texts: { summary: string; description: string }) =>
  operation({
    ...CONTROL_OPERATION,
    ...texts,
    id: `${action}_control`,
    method: "POST",
    path: `/controls/{org}/{identifier}/${action}`,
    permission: "control:write",
    audit: `control.${action}d`,
    params: ControlPath,
    query: NoQuery,
    body: NO_BODY,
    responses: { 200: CONTROL, 404: NO_CONTROL },
    example: { params: { org: "acme", identifier: "SDLC-7" } },
    handle(context, { params }) {
      const { store, organization, principal } = context;
      const before = store.controls.require(organization, params.identifier);
      const after = store.controls[action](before, principal.displayName);
      return replyToEdit(context, before, after);
    },
  });

export const archiveControl = archiveOperation("archive", {
  summary: "Archive a control",
  description:
    "Removes the control from the list of active controls. It keeps its identifier, versions, decisions and tags, " +
    "and policies that refer to it continue to require decisions. Archiving an archived control changes nothing.",
});
export const unarchiveControl = archiveOperation("unarchive", {
  summary: "Unarchive a control",
  description: "Returns an archived control to the list of active controls. Unarchiving an active one changes nothing.",
});
