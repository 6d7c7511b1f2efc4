/** Versions of a control (semantics 7.1): each has the fields of the control from then on. */
import { Type } from "typebox";
import type { Static } from "typebox";
import { readStoredJson } from "../../domain/stored-json.ts";
import { notFound } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Message, Nullable, OneOf, named } from "../../http/schema.ts";
import type { ControlVersionRow } from "../../store/policies/controls.ts";
import { CONTROL_OPERATION, NO_CONTROL, CONTROL_PAGES, SortDirection, isLinks } from "./controls.ts";
import { largeRead } from "../context.ts";
import { PageCounts, pageCounts } from "../paging.ts";
import { UNREADABLE, presentEach } from "../../contract/placeholders.ts";
import { ControlPath, NoQuery } from "../paths.ts";

const ControlVersion = named(
  "ControlVersion",
  Closed({
    identifier: Type.String(),
    version: Type.Integer({ description: "1 for the first version" }),
    status: OneOf(["created", "edited", "archived", "unarchived"], {
      description: "The change that made this version",
    }),
    name: Type.String(),
    description: Nullable(Type.String()),
    links: Type.Record(Type.String(), Type.String()),
    created_at: Type.Number({ description: "Epoch seconds of the change" }),
    created_by: Type.String({ description: "Display name of the user who made the change" }),
  }),
);
const ControlVersionListPage = named(
  "ControlVersionListPage",
  Closed({ ...PageCounts, versions: Type.Array(ControlVersion) }),
);

const presentVersion = (identifier: string, row: ControlVersionRow): Static<typeof ControlVersion> => ({
  identifier,
  version: row.version,
  status: row.status,
  name: row.name,
  description: row.description,
  links: readStoredJson(row.links_json, isLinks),
  created_at: row.timestamp,
  created_by: row.created_by,
});

export const listControlVersions = largeRead({
  ...CONTROL_OPERATION,
  id: "list_control_versions",
  method: "GET",
  path: "/controls/{org}/{identifier}/versions",
  summary: "List the versions of a control",
  description:
    "In pages, by default newest first. Creating, editing, archiving and unarchiving a control make a new version; " +
    "tagging does not.",
  permission: "control:read",
  audit: null,
  params: ControlPath,
  query: Closed({ ...CONTROL_PAGES.query, sort_direction: SortDirection("desc", "version") }),
  body: NO_BODY,
  responses: { 200: { description: "One page", schema: ControlVersionListPage }, 404: NO_CONTROL },
  example: { params: { org: "acme", identifier: "SDLC-7" }, query: { page: "1" } },
  handle({ store, organization }, { params, query }) {
    const control = store.controls.require(organization, params.identifier);
    const { page, perPage, ...slice } = CONTROL_PAGES.window(query);
    const versions = presentEach(
      store.controls.listVersions(control.id, query.sort_direction, slice),
      (row) => presentVersion(control.identifier, row),
      (row) => presentVersion(control.identifier, { ...row, description: UNREADABLE, links_json: "{}" }),
    );
    return { status: 200, body: { ...pageCounts(control.version, page, perPage), versions } };
  },
});

export const getControlVersion = largeRead({
  ...CONTROL_OPERATION,
  id: "get_control_version",
  method: "GET",
  path: "/controls/{org}/{identifier}/versions/{version_number}",
  summary: "Read a version of a control",
  description: "Its name, description and links as they were in that version.",
  permission: "control:read",
  audit: null,
  params: Closed({
    ...ControlPath.properties,
    version_number: Type.Integer({
      minimum: Number.MIN_SAFE_INTEGER,
      maximum: Number.MAX_SAFE_INTEGER,
      description: "Number of the version, from 1",
    }),
  }),
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "The version", schema: ControlVersion },
    404: { description: "No such control, or no such version of it", schema: Message },
  },
  example: { params: { org: "acme", identifier: "SDLC-7", version_number: "1" } },
  handle({ store, organization }, { params }) {
    const { id, identifier } = store.controls.require(organization, params.identifier);
    const row = store.controls.findVersion(id, params.version_number);
    if (!row)
      throw notFound(
        `Version '${params.version_number}' of control '${identifier}' does not exist ` +
          `in organization '${organization.name}'`,
      );
    return { status: 200, body: presentVersion(identifier, row) };
  },
});
