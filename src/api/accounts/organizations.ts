/** An organization and its switch for beta features. */
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
      description: "Whether the organization's beta features (controls) are enabled",
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
    "Name, kind and the state of the beta features. The response for an unknown organization is the same as for one " +
    "that the caller may not see.",
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
      description: "Whether the organization's beta features (controls) are enabled",
    }),
  }),
);

export const updateExperimentalFeatures = operation({
  id: "update_experimental_features",
  method: "PUT",
  path: "/organizations/{org}/experimental_features",
  tag: "Organizations",
  summary: "Enable or disable the beta features of an organization",
  description:
    "The beta features are the controls: while they are disabled, every operation under `/controls` is refused. " +
    "Existing decisions, and policies that require them, remain in force.",
  permission: "org:settings",
  audit: "organization.beta_switched",
  params: OrgPath,
  query: NoQuery,
  body: json(OrganizationUpdate),
  responses: { 200: { description: "The requested state is in force, changed or not", schema: Ok } },
  example: { params: { org: "acme" }, body: { experimental_features_enabled: true } },
  handle({ store, organization, note }, { body }) {
    // Read in this write: the request's row may predate a change of the other setting.
    const { id, is_public, controls_enabled } = store.organizations.get(organization.id);
    const isEnabled = body.experimental_features_enabled;
    if ((controls_enabled === 1) === isEnabled) return { status: 200, body: "OK", unaudited: true };
    store.organizations.updateSettings(id, { isPublic: is_public === 1, controlsEnabled: isEnabled });
    note({ controls: isEnabled });
    return { status: 200, body: "OK" };
  },
});
