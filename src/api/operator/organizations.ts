/** Organizations of the server. Their admins change the settings with other operations. */
import { Type } from "typebox";
import { ORGANIZATION_NAME } from "../../domain/names.ts";
import { invalid } from "../../errors.ts";
import { NO_BODY, json } from "../../http/operation.ts";
import { Closed, OneOf, named } from "../../http/schema.ts";
import { Name } from "../../contract/shapes.ts";
import type { OrganizationRow } from "../../store/accounts/organizations.ts";
import { changesOf } from "../changes.ts";
import { operation } from "../context.ts";
import { NoQuery } from "../paths.ts";
import { OPERATOR } from "./operator.ts";

const SETTINGS = {
  is_public: Type.Boolean({ description: "Whether every user of the server may read the organization" }),
  controls_enabled: Type.Boolean({ description: "Whether its beta features (controls) are enabled" }),
};
const ServerOrganization = named(
  "ServerOrganization",
  Closed({
    name: Type.String(),
    kind: OneOf(["personal", "shared"]),
    ...SETTINGS,
    created_at: Type.Number({ description: "Epoch seconds" }),
  }),
);

const present = ({ name, kind, is_public, controls_enabled, created_at }: OrganizationRow) => ({
  name,
  kind,
  is_public: is_public === 1,
  controls_enabled: controls_enabled === 1,
  created_at,
});

export const listOrganizations = operation({
  ...OPERATOR,
  id: "list_organizations",
  method: "GET",
  path: "/operator/organizations",
  summary: "List all organizations of the server",
  description: "By name, personal ones too.",
  audit: null,
  params: Closed({}),
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The organizations", schema: Type.Array(ServerOrganization) } },
  example: {},
  handle: ({ store }) => ({ status: 200, body: store.organizations.list().map(present) }),
});

export const createOrganization = operation({
  ...OPERATOR,
  id: "create_organization",
  method: "POST",
  path: "/operator/organizations",
  summary: "Create a shared organization",
  description: "It has no members yet. Personal organizations are created with their users.",
  audit: "organization.created",
  params: Closed({}),
  query: NoQuery,
  body: json(
    Closed({
      name: Name(ORGANIZATION_NAME, { description: "Name, which cannot be changed" }),
      is_public: Type.Optional({ ...SETTINGS.is_public, default: false }),
      controls_enabled: Type.Optional({ ...SETTINGS.controls_enabled, default: true }),
    }),
  ),
  responses: { 201: { description: "Created", schema: ServerOrganization } },
  example: { body: { name: "acme", is_public: false, controls_enabled: true } },
  handle(context, { body }) {
    const { store } = context;
    const { name, is_public: isPublic = false, controls_enabled: controlsEnabled = true } = body;
    if (store.organizations.find(name))
      throw invalid({ name: `An organization with this name already exists [input: ${name}]` });
    if (store.users.find(name))
      throw invalid({ name: `A user has this name, which their personal organization needs [input: ${name}]` });
    const id = changesOf(context).createOrganization({ name, kind: "shared", isPublic, controlsEnabled });
    return { status: 201, body: present(store.organizations.get(id)), unaudited: true };
  },
});
