/** Operations about the API itself. The document is derived from all operations, so it is handed in when the server is put together. */
import { Type } from "typebox";
import { Closed } from "../http/schema.ts";
import { NO_BODY } from "../http/operation.ts";
import { operation } from "./kit.ts";

export const getOpenApi = operation({
  id: "get_openapi",
  method: "GET",
  path: "/openapi.json",
  tag: "Meta",
  summary: "Read this API's OpenAPI document",
  description: "OpenAPI 3.1, derived from the operations that this server serves. Needs no login: it holds no data.",
  permission: "public",
  audit: null,
  params: Closed({}),
  query: Closed({}),
  body: NO_BODY,
  responses: { 200: { description: "The document", schema: Type.Record(Type.String(), Type.Unknown()) } },
  example: {},
  handle: ({ openApi }) => ({ status: 200, body: openApi() }),
});
