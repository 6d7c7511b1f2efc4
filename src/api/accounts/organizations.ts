/** An organization and its settings, which include the switch for beta features. */
import { Type } from "typebox";
import { Closed, Ok, OneOf, named } from "../../http/schema.ts";
import { NO_BODY, json } from "../../http/operation.ts";
import type { OrganizationRow } from "../../store/accounts/organizations.ts";
import { changesOf } from "../changes.ts";
import { operation, largeRead } from "../context.ts";
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

export const getOrganization = largeRead({
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

const OrganizationSettings = named(
  "OrganizationSettings",
  Closed({
    is_public: Type.Boolean({ description: "Whether every user of the server may read the organization" }),
    controls_enabled: Type.Boolean({ description: "The same as `experimental_features_enabled`" }),
    evaluations_enabled: Type.Boolean({ description: "Whether Rego policies are evaluated" }),
    decisions_need_published_policy: Type.Boolean({
      description: "Whether an evaluation with a decision has to name a published Rego policy",
    }),
  }),
);
const OrganizationSettingsInput = named(
  "OrganizationSettingsInput",
  Closed({
    is_public: Type.Optional(OrganizationSettings.properties.is_public),
    controls_enabled: Type.Optional(OrganizationSettings.properties.controls_enabled),
    evaluations_enabled: Type.Optional(OrganizationSettings.properties.evaluations_enabled),
    decisions_need_published_policy: Type.Optional(OrganizationSettings.properties.decisions_need_published_policy),
  }),
);

const presentSettings = (row: OrganizationRow) => ({
  is_public: row.is_public === 1,
  controls_enabled: row.controls_enabled === 1,
  evaluations_enabled: row.evaluations_enabled === 1,
  decisions_need_published_policy: row.decisions_need_published_policy === 1,
});

export const getOrganizationSettings = largeRead({
  id: "get_organization_settings",
  origin: "assay",
  method: "GET",
  path: "/organizations/{org}/settings",
  tag: "Organizations",
  summary: "Read the settings of an organization",
  description: "For admins, who may also change them.",
  permission: "org:settings",
  audit: null,
  params: OrgPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The settings", schema: OrganizationSettings } },
  example: { params: { org: "acme" } },
  handle: ({ organization }) => ({ status: 200, body: presentSettings(organization) }),
});

export const updateOrganizationSettings = operation({
  id: "update_organization_settings",
  origin: "assay",
  method: "PATCH",
  path: "/organizations/{org}/settings",
  tag: "Organizations",
  summary: "Change the settings of an organization",
  description:
    "Absent fields stay unchanged. Every user and service account of the server can read a public organization, " +
    "except for its members, keys, notification targets and settings.",
  permission: "org:settings",
  audit: "organization.updated",
  params: OrgPath,
  query: NoQuery,
  body: json(OrganizationSettingsInput),
  responses: { 200: { description: "The settings as they are now", schema: OrganizationSettings } },
  example: { params: { org: "acme" }, body: { is_public: false } },
  handle(context, { body }) {
    const { store } = context;
    // Read in this write: the request's row may predate a change of another setting.
    const row = store.organizations.get(context.organization.id);
    const before = presentSettings(row);
    const after = { ...before, ...body };
    if (JSON.stringify(after) !== JSON.stringify(before))
      changesOf(context).configureOrganization(row, {
        isPublic: after.is_public,
        controlsEnabled: after.controls_enabled,
        evaluationsEnabled: after.evaluations_enabled,
        decisionsNeedPublishedPolicy: after.decisions_need_published_policy,
      });
    const settings = presentSettings(store.organizations.get(row.id));
    return { status: 200, body: settings, unaudited: true };
  },
});
