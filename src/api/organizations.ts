import { Type } from "typebox";
import { Closed, OneOf, named } from "../http/schema.ts";
import { NO_BODY } from "../http/operation.ts";
import type { OrganizationRow } from "../store/organizations.ts";
import { operation } from "./kit.ts";

/** Path of an organization alone. */
export const OrgPath = Closed({ org: Type.String({ description: "Name of the organization" }) });
export const NoQuery = Closed({});

const OrganizationResponse = named(
  "OrganizationResponse",
  Closed({
    name: Type.String(),
    kind: OneOf(["personal", "shared"]),
    experimental_features_enabled: Type.Boolean({ description: "Whether the organization's beta features (controls) are on" }),
    created_at: Type.Number(),
    last_modified_at: Type.Number(),
  }),
);

const presentOrganization = (row: OrganizationRow) => ({
  name: row.name,
  kind: row.kind,
  experimental_features_enabled: row.controls_enabled === 1,
  created_at: row.created_at,
  last_modified_at: row.last_modified_at,
});

export const getOrganization = operation({
  id: "get_organization",
  method: "GET",
  path: "/organizations/{org}",
  tag: "Organizations",
  summary: "Read an organization",
  description: "Name, kind and the state of the beta features. An organization that does not exist answers like one that the caller may not see.",
  permission: "org:read",
  audit: null,
  params: OrgPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The organization", schema: OrganizationResponse } },
  example: { params: { org: "acme" } },
  handle: ({ organization }) => ({ status: 200, body: presentOrganization(organization) }),
});
