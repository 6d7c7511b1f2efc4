/**
 * Saved views: lists of the web interface with their filters, each under a name. A view is the name of a list with
 * values of its parameters (api/list-pages.ts), never an address: what it shows is read under the rights of the reader.
 * Those of a member are for that person alone and end with the membership; those of the organization are for all
 * members, and made by admins. Service accounts, which see no pages, have none of their own.
 */
import { Type } from "typebox";
import { UNREADABLE, presentEach } from "../../contract/placeholders.ts";
import { LIST_NAMES, LIST_PAGES, MAX_VALUE_CHARS, OBJECTS } from "../list-pages.ts";
import type { ListName, ListParameters, ObjectParameter } from "../list-pages.ts";
import { VIEW_NAME } from "../../domain/names.ts";
import { parseTimeExpression } from "../../domain/snapshot/expression.ts";
import { isRecordOf, isText, readStoredJson } from "../../domain/stored-json.ts";
import { badRequest, forbidden, invalid, notFound } from "../../errors.ts";
import { NO_BODY, json } from "../../http/operation.ts";
import { Closed, ExactlyOne, Matching, Message, OneOf, PublishedAs, named } from "../../http/schema.ts";
import { validate } from "../../http/validate.ts";
import type { ViewOwner, ViewRow } from "../../store/accounts/views.ts";
import { operation } from "../context.ts";
import type { OperationContext, ReadingContext } from "../context.ts";
import { NoQuery, OrgPath } from "../paths.ts";

/** Of a person in all organizations together, and of an organization. */
export const MAX_VIEWS = 100;
export const MAX_VIEW_NAME_CHARS = 80;
/** More than any list has. */
const MAX_PARAMETERS = 20;

/** `ListOfFlowArtifacts` for `flow-artifacts`. */
const componentOf = (name: string): string =>
  `ListOf${name
    .split("-")
    .map((word) => `${word[0]?.toUpperCase()}${word.slice(1)}`)
    .join("")}`;

const ViewedList = PublishedAs(
  named(
    "ViewedList",
    ExactlyOne(
      LIST_NAMES.map((name) => named(componentOf(name), Closed({ page: OneOf([name]), parameters: LIST_PAGES[name] }))),
      { by: "page" },
    ),
  ),
  // Refusals name what is wrong under the shape of one list, not under those of all: see requireParameters.
  Closed({
    page: OneOf(LIST_NAMES),
    parameters: Type.Record(Type.String(), Type.String({ maxLength: MAX_VALUE_CHARS }), {
      maxProperties: MAX_PARAMETERS,
    }),
  }),
);
const Name = Matching(VIEW_NAME, { maxLength: MAX_VIEW_NAME_CHARS, description: "One line, unique for its owner" });
const ForEveryone = "Whether it belongs to the organization, for all members, and not to one person";

const ViewPostInput = named(
  "ViewPostInput",
  Closed({
    name: Name,
    list: ViewedList,
    for_everyone: Type.Optional(Type.Boolean({ default: false, description: `${ForEveryone}; for admins only` })),
  }),
);
const ViewPutInput = named("ViewPutInput", Closed({ name: Name, list: ViewedList }));

const ViewResponse = named(
  "ViewResponse",
  Closed({
    view_id: Type.String(),
    name: Type.String(),
    for_everyone: Type.Boolean({ description: ForEveryone }),
    list: named(
      "StoredViewedList",
      Closed({ page: OneOf(LIST_NAMES), parameters: Type.Record(Type.String(), Type.String()) }),
    ),
    missing: Type.Array(OneOf(OBJECTS), {
      description: "Parameters whose flow, environment or control is archived or gone, so that the list has nothing",
    }),
    created_by: Type.String({ description: "Display name of the author at the time" }),
    created_at: Type.Number({ description: "Epoch seconds" }),
    last_modified_at: Type.Number({ description: "Epoch seconds" }),
  }),
);

const ViewPath = Closed({ org: OrgPath.properties.org, view_id: Type.String({ description: "Id of the view" }) });
const EXAMPLE_PATH = { org: "acme", view_id: "019a2b3c-4d5e-7f60-8a9b-0c1d2e3f" };
const NO_VIEW = { description: "No such view of the caller or of the organization", schema: Message };
const NOT_PERMITTED = {
  description: "The role lacks the permission, or that of an admin, or the caller is a service account",
  schema: Message,
};

/** Whose views a caller has: those of the user; null for others, who have none. */
const ownerOf = ({ principal, organization }: ReadingContext): (ViewOwner & { userId: number }) | null =>
  principal.kind === "user" ? { organizationId: organization.id, userId: principal.id } : null;

const everybody = ({ organization }: ReadingContext): ViewOwner => ({ organizationId: organization.id, userId: null });

/** @throws AppError 403 for those who may not make views for everyone, and for a caller without views */
function requireOwner(context: ReadingContext, isForEveryone: boolean): ViewOwner {
  if (isForEveryone) {
    if (context.role !== "admin") throw forbidden(null, "Only an admin makes, changes or deletes views for everyone");
    return everybody(context);
  }
  const own = ownerOf(context);
  if (own === null)
    throw forbidden(
      null,
      "Only a user has views of their own: an admin makes those of the organization with for_everyone",
    );
  return own;
}

/** A view that the caller may change, with its owner. @throws AppError 403, 404; other people's views are not found */
function requireView(context: ReadingContext, id: string): { view: ViewRow; owner: ViewOwner } {
  const view = context.store.views.find(context.organization.id, id);
  const isSeen = view !== null && (view.user_id === null || view.user_id === ownerOf(context)?.userId);
  if (!isSeen) throw notFound("View not found");
  return { view, owner: requireOwner(context, view.user_id === null) };
}

type List = { page: ListName; parameters: ListParameters };

const FINDERS: Readonly<Record<ObjectParameter, (context: ReadingContext, name: string) => unknown>> = {
  flow: ({ store, organization }, name) => store.flows.find(organization.id, name),
  environment: ({ store, organization }, name) => store.environments.find(organization.id, name),
  control: ({ store, organization }, name) => store.controls.find(organization.id, name),
};

/** The parameters that name something that is not there. */
const findMissing = (context: ReadingContext, parameters: ListParameters): ObjectParameter[] =>
  OBJECTS.filter((name) => parameters[name] !== undefined && !FINDERS[name](context, parameters[name]));

/** @throws AppError 400 for parameters that the list does not have, and for values that they do not take */
function requireParameters({ page, parameters }: List, now: number): void {
  const problems = validate(LIST_PAGES[page], { ...parameters }, { mode: "plain", root: "" });
  if (problems)
    throw invalid(
      Object.fromEntries(Object.entries(problems).map(([name, text]) => [`list.parameters.${name}`, text])),
    );
  requireTimes(parameters, now);
}

/** The patterns of lists also match days that no month has. @throws AppError 400 */
function requireTimes(parameters: ListParameters, now: number): void {
  const wrong = ["from", "to"].flatMap((name) => {
    const text = parameters[name];
    if (text === undefined || parseTimeExpression(text, now) !== null) return [];
    return [[`list.parameters.${name}`, `Input should be a date or time of the calendar [input: ${text}]`] as const];
  });
  if (wrong.length > 0) throw invalid(Object.fromEntries(wrong));
}

/** @throws AppError 400 for a flow, environment or control that does not exist */
function requireObjects(context: ReadingContext, { parameters }: List): void {
  const missing = findMissing(context, parameters).map(
    (name) => [`list.parameters.${name}`, `This ${name} does not exist [input: ${parameters[name]}]`] as const,
  );
  if (missing.length > 0) throw invalid(Object.fromEntries(missing));
}

/** @throws AppError 400 for the name of another view of the owner */
function requireFreeName({ store }: ReadingContext, owner: ViewOwner, name: string): void {
  if (store.views.findByName(owner, name))
    throw invalid({ name: `A view with this name already exists [input: ${name}]` });
}

/** In a fixed order, so that equal lists are stored as equal texts. */
const storedParameters = (parameters: ListParameters): string =>
  JSON.stringify(Object.fromEntries(Object.entries(parameters).sort(([a], [b]) => (a < b ? -1 : 1))));

/** @throws StoredJsonError for a damaged record */
function present(context: ReadingContext, view: ViewRow) {
  return presentWith(context, view, readStoredJson(view.parameters_json, isRecordOf(isText)));
}

/** A damaged record: a parameter that no list has, so that it is never taken for a list without filters. */
const placeholder = (context: ReadingContext, view: ViewRow) => presentWith(context, view, { unreadable: UNREADABLE });

function presentWith(context: ReadingContext, view: ViewRow, parameters: ListParameters) {
  return {
    view_id: view.public_id,
    name: view.name,
    for_everyone: view.user_id === null,
    list: { page: view.page as ListName, parameters },
    missing: findMissing(context, parameters),
    created_by: view.created_by,
    created_at: view.created_at,
    last_modified_at: view.last_modified_at,
  };
}

const noteOf = ({ name, page, user_id }: Pick<ViewRow, "name" | "page" | "user_id">) => ({
  view: name,
  page,
  for_everyone: user_id === null,
});

function answerWith(context: OperationContext, id: string) {
  return present(context, context.store.views.find(context.organization.id, id) as ViewRow);
}

export const listViews = operation({
  id: "list_views",
  origin: "assay",
  method: "GET",
  path: "/views/{org}",
  tag: "Views",
  summary: "List saved views",
  description:
    "Those of the caller, then those of the organization, each by name. A view whose flow, environment or control is " +
    "gone stays, and says so.",
  permission: "view:read",
  audit: null,
  params: OrgPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The views", schema: Type.Array(ViewResponse) } },
  example: { params: { org: "acme" } },
  handle(context) {
    const own = ownerOf(context);
    const views = [...(own ? context.store.views.list(own) : []), ...context.store.views.list(everybody(context))];
    return {
      status: 200,
      body: presentEach(
        views,
        (view) => present(context, view),
        (view) => placeholder(context, view),
      ),
    };
  },
});

export const createView = operation({
  id: "create_view",
  origin: "assay",
  method: "POST",
  path: "/views/{org}",
  tag: "Views",
  summary: "Save a list as a view",
  description:
    "`page` names a list of the web interface, `parameters` its filters and order. A flow, environment or control " +
    `must exist. A person has at most ${MAX_VIEWS} views, in all organizations together, and so has an organization. ` +
    "Those of a person end with the membership. Service accounts have none of their own.",
  permission: "view:write",
  audit: "view.created",
  params: OrgPath,
  query: NoQuery,
  body: json(ViewPostInput),
  responses: { 201: { description: "Saved", schema: ViewResponse }, 403: NOT_PERMITTED },
  example: {
    params: { org: "acme" },
    body: {
      name: "Failing artifacts",
      list: { page: "artifacts", parameters: { state: "NON-COMPLIANT" } },
      for_everyone: true,
    },
  },
  handle(context, { body }) {
    const { store, principal, note } = context;
    const { name, list } = body;
    const owner = requireOwner(context, body.for_everyone ?? false);
    requireParameters(list, context.now());
    requireObjects(context, list);
    requireFreeName(context, owner, name);
    if (store.views.count(owner) >= MAX_VIEWS)
      throw badRequest(
        owner.userId === null
          ? `The organization has ${MAX_VIEWS} views, which is the maximum: delete one first`
          : `You have ${MAX_VIEWS} views in all organizations, which is the maximum: delete one first`,
      );
    const fields = { name, page: list.page, parameters_json: storedParameters(list.parameters) };
    const id = store.views.create(owner, { ...fields, createdBy: principal.displayName });
    note({ view_id: id, ...noteOf({ ...fields, user_id: owner.userId }) });
    return { status: 201, body: answerWith(context, id) };
  },
});

export const putView = operation({
  id: "put_view",
  origin: "assay",
  method: "PUT",
  path: "/views/{org}/{view_id}",
  tag: "Views",
  summary: "Rename a view, or replace its list",
  description:
    "What it belongs to stays. An unchanged list is accepted even if its flow, environment or control is gone.",
  permission: "view:write",
  audit: "view.updated",
  params: ViewPath,
  query: NoQuery,
  body: json(ViewPutInput),
  responses: { 200: { description: "The view as it is now", schema: ViewResponse }, 403: NOT_PERMITTED, 404: NO_VIEW },
  example: {
    params: EXAMPLE_PATH,
    body: { name: "Failing flows", list: { page: "artifacts", parameters: { state: "NON-COMPLIANT" } } },
  },
  handle(context, { params, body }) {
    const { store, note } = context;
    const { view, owner } = requireView(context, params.view_id);
    const { name, list } = body;
    requireParameters(list, context.now());
    const fields = { name, page: list.page, parameters_json: storedParameters(list.parameters) };
    const isSameList = fields.page === view.page && fields.parameters_json === view.parameters_json;
    if (!isSameList) requireObjects(context, list);
    if (name !== view.name) requireFreeName(context, owner, name);
    store.views.update(view.id, fields);
    note({
      view_id: view.public_id,
      ...noteOf({ ...fields, user_id: view.user_id }),
      ...(name === view.name ? {} : { from: view.name, to: name }),
      ...(isSameList ? {} : { changes: ["list"] }),
    });
    return { status: 200, body: answerWith(context, view.public_id) };
  },
});

export const deleteView = operation({
  id: "delete_view",
  origin: "assay",
  method: "DELETE",
  path: "/views/{org}/{view_id}",
  tag: "Views",
  summary: "Delete a view",
  description: "The list itself, and what is in it, stays.",
  permission: "view:write",
  audit: "view.deleted",
  params: ViewPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "Deleted", schema: Type.Literal("deleted") },
    403: NOT_PERMITTED,
    404: NO_VIEW,
  },
  example: { params: EXAMPLE_PATH },
  handle(context, { params }) {
    const { view } = requireView(context, params.view_id);
    context.store.views.delete(view.id);
    context.note({ view_id: view.public_id, ...noteOf(view) });
    return { status: 200, body: "deleted" };
  },
});
