/** The API itself: its OpenAPI document and its version. The document is derived from all operations at startup. */
import { Type } from "typebox";
import { Closed, Nullable, named } from "../http/schema.ts";
import { NO_BODY } from "../http/operation.ts";
import { operation } from "./context.ts";

export const getOpenApi = operation({
  id: "get_openapi",
  method: "GET",
  path: "/openapi.json",
  tag: "Meta",
  summary: "Read this API's OpenAPI document",
  description: "OpenAPI 3.1, derived from the operations of this server. Requires no authentication.",
  permission: "public",
  audit: null,
  params: Closed({}),
  query: Closed({}),
  body: NO_BODY,
  responses: { 200: { description: "The document", schema: Type.Record(Type.String(), Type.Unknown()) } },
  example: {},
  handle: ({ openApi }) => ({ status: 200, body: openApi() }),
});

const VersionResponse = named(
  "VersionResponse",
  Closed({
    version: Type.String({ description: "Version of the server program" }),
    commit: Nullable(
      Type.String({ description: "Git commit of the build; ends in `-modified` if the tree had changes" }),
    ),
    schema: Type.Integer({ description: "Version of the database schema" }),
  }),
);

export const getVersion = operation({
  id: "get_version",
  origin: "assay",
  method: "GET",
  path: "/version",
  tag: "Meta",
  summary: "Read the version of the server",
  description:
    "Version and commit of the program, and the version of its database schema. `commit` is null if it was unknown " +
    "at build time. Requires no authentication.",
  permission: "public",
  audit: null,
  params: Closed({}),
  query: Closed({}),
  body: NO_BODY,
  responses: { 200: { description: "The version", schema: VersionResponse } },
  example: {},
  handle: ({ version }) => ({ status: 200, body: version() }),
});
