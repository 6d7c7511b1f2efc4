import { Type } from "typebox";
import { Closed, Ok, OneOf, named } from "../../http/schema.ts";
import { NO_BODY, json } from "../../http/operation.ts";
import type { OrganizationRow } from "../../store/accounts/organizations.ts";
import { operation } from "../context.ts";
import { OrgPath, NoQuery } from "../paths.ts";
const OrganizationResponse = named(
  "OrganizationResponse",
  Closed({
    name: Type.String(),
    kind: OneOf(["personal", "shared"]),
    experimental_features_enabled: Type.Boolean({
      description: "Whether the organization's beta features (controls) are on",
    }),
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
  description:
    "Name, kind and the state of the beta features. An organization that does not exist answers like one that the caller may not see.",
  permission: "org:read",
  audit: null,
  params: OrgPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The organization", schema: OrganizationResponse } },
  example: { params: { org: "acme" } },
  handle: ({ organization }) => ({ status: 200, body: presentOrganization(organization) }),
});

const OrganizationUpdate = named(
  "OrganizationUpdate",
  Closed({
    experimental_features_enabled: Type.Boolean({
      description: "Whether the organization's beta features (controls) are on",
    }),
  }),
);

export const updateExperimentalFeatures = operation({
  id: "update_experimental_features",
  method: "PUT",
  path: "/organizations/{org}/experimental_features",
  tag: "Organizations",
  summary: "Switch the beta features of an organization on or off",
  description:
    "The beta features are the controls: while they are off, every operation below `/controls` is refused. What was recorded stays, and goes on to count: decisions, and policies that ask for them.",
  permission: "org:settings",
  audit: "organization.beta_switched",
  params: OrgPath,
  query: NoQuery,
  body: json(OrganizationUpdate),
  responses: { 200: { description: "It is as asked for, also when it was before", schema: Ok } },
  example: { params: { org: "acme" }, body: { experimental_features_enabled: true } },
  handle({ store, organization, note }, { body }) {
    // As it is in this write: the row that came with the request may be older than a change of the other setting.
    const { id, is_public, controls_enabled } = store.organizations.get(organization.id);
    const wanted = body.experimental_features_enabled;
    if ((controls_enabled === 1) === wanted) return { status: 200, body: "OK", unaudited: true };
    store.organizations.configure(id, { isPublic: is_public === 1, controlsEnabled: wanted });
    note({ controls: wanted });
    return { status: 200, body: "OK" };
  },
});
