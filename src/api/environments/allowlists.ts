/**
 * Allowlists: artifacts that an environment accepts regardless of its policies, each with a reason (semantics 5.6).
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import { MAX_EXPIRY_S } from "../../domain/time.ts";
import { badRequest, invalid } from "../../errors.ts";
import { NO_BODY, json } from "../../http/operation.ts";
import { CheckedByHandler, Closed, ExactlyOne, Maybe, Message, named } from "../../http/schema.ts";
import type { AllowlistRow } from "../../store/environments/allowlists.ts";
import { JsonList } from "../../json/text.ts";
import { largeRead, operation } from "../context.ts";
import { reevaluateForAllowlist } from "./record-report.ts";
import { Fingerprint, MAX_PATH_CHARS, Text } from "../../contract/shapes.ts";
import { definePaging, ENVELOPE, PageOf } from "../paging.ts";
import { presentPagination } from "../../http/pagination.ts";
import { EnvironmentPath, OrgPath, NoQuery } from "../paths.ts";

const PAGES = definePaging({ perPage: 25, maxPerPage: 100, optional: true });

const AllowlistPutInput = named(
  "AllowlistPutInput",
  Closed({
    artifact_fingerprint: Fingerprint,
    artifact_name: Type.String({ maxLength: MAX_PATH_CHARS, description: "Name of the file, directory or image" }),
    description: { ...Text, description: "Reason" },
    expires_at: Maybe(
      CheckedByHandler(
        { minimum: 0 },
        Type.Integer({
          maximum: MAX_EXPIRY_S,
          description:
            "End of the entry in whole epoch seconds in the future: from then on it does not count. Without it, the " +
            "entry does not end",
        }),
      ),
    ),
  }),
);

const AllowlistResponse = named(
  "AllowlistResponse",
  Closed({
    artifact_name: Type.String(),
    fingerprint: Type.String({ description: "SHA-256 in hexadecimal digits" }),
    environment_name: Type.String(),
    timestamp: Type.Number({ description: "Epoch seconds" }),
    user_name: Type.String({ description: "Display name of the user who allowed it" }),
    description: Type.String({ description: "Reason" }),
    expires_at: Type.Optional(
      Type.Integer({ description: "Epoch seconds from which on the entry does not count; absent if it does not end" }),
    ),
  }),
);

export const allowArtifact = operation({
  id: "allow_artifact_for_env",
  method: "PUT",
  path: "/allowlists/{org}/{env_name}",
  tag: "Allowlists",
  summary: "Allow an artifact in an environment",
  description:
    "The environment accepts the fingerprint from now on, with or without provenance and regardless of its policies. " +
    "Another reason, name, user or end adds an entry, which takes the place of the one before: a later `expires_at` " +
    "extends it, an earlier one shortens it, and none removes the end. Repeating a request adds nothing. When an " +
    "entry ends, the environment is re-evaluated. Returns the body of the request.",
  permission: "allowlist:write",
  audit: "artifact.allowed",
  params: EnvironmentPath,
  query: NoQuery,
  body: json(AllowlistPutInput),
  responses: {
    201: { description: "Allowed", schema: AllowlistPutInput },
    404: { description: "No such environment, or it has been archived", schema: Message },
  },
  example: {
    params: { org: "acme", env_name: "production" },
    body: {
      artifact_fingerprint: "7b1f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccd",
      artifact_name: "nginx:1.29",
      description: "Base image of the vendor, reviewed by the platform team",
    },
  },
  handle(context, { params, body }) {
    const { store, organization, principal, note } = context;
    const expiresAt = body.expires_at ?? null;
    const environment = store.environments.requireWritable(organization, params.env_name);
    if (environment.type === "logical")
      throw badRequest(
        `Environment '${params.env_name}' in organization '${organization.name}' is logical: ` +
          "allow artifacts in its members",
      );
    if (expiresAt !== null && expiresAt <= context.now())
      throw invalid({ expires_at: `Expiry must be in the future [input: ${expiresAt}]` });
    const entry = {
      fingerprint: body.artifact_fingerprint,
      artifact_name: body.artifact_name,
      description: body.description,
      user_id: principal.publicId,
      user_name: principal.displayName,
      expires_at: expiresAt,
    };
    const latest = store.allowlists.findLatest(environment.id, entry.fingerprint);
    // Clients repeat a PUT whose response was lost (wire-contract 1.6).
    const isRepeated =
      latest?.artifact_name === entry.artifact_name &&
      latest.description === entry.description &&
      latest.user_id === entry.user_id &&
      latest.expires_at === entry.expires_at;
    const allowlist_id = isRepeated ? latest.public_id : store.allowlists.create(environment, entry);
    note({
      environment: environment.name,
      artifact_fingerprint: body.artifact_fingerprint,
      allowlist_id,
      added: !isRepeated,
      ...(expiresAt === null ? {} : { expires_at: expiresAt }),
    });
    if (!isRepeated) reevaluateForAllowlist(context, environment.id);
    return { status: 201, body };
  },
});

const AllowlistPage = PageOf("AllowlistPage", AllowlistResponse);

export const listAllowlist = largeRead({
  id: "list_allowlist",
  method: "GET",
  path: "/allowlists/{org}",
  tag: "Allowlists",
  summary: "List the allowlist entries of all environments",
  description:
    "Newest first. Of several entries for one fingerprint in one environment, the newest counts, until it ends. All " +
    "of them or, with `page` or `per_page`, a page.",
  permission: "environment:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    ...PAGES.query,
    ...ENVELOPE,
    env_name: Type.Optional(Type.String({ description: "Name of an environment; an unknown one has no entries" })),
    fingerprint: Type.Optional(Type.String({ description: "Fingerprint of an artifact" })),
    in_force: Type.Optional(Type.Boolean({ default: false, description: "Only entries that count" })),
  }),
  body: NO_BODY,
  responses: {
    200: {
      description: "All entries, or one page of them",
      schema: ExactlyOne([AllowlistPage, Type.Array(AllowlistResponse)]),
    },
  },
  example: { params: { org: "acme" }, query: { env_name: "production", in_force: "true" } },
  handle({ store, organization }, { query }) {
    const environment = query.env_name ? store.environments.find(organization.id, query.env_name) : null;
    const filter = {
      // An unknown environment has an id that no environment has.
      environmentId: query.env_name ? (environment?.id ?? -1) : null,
      fingerprint: query.fingerprint ?? null,
      inForce: query.in_force ?? false,
    };
    const window = query.envelope ? PAGES.window(query) : PAGES.optionalWindow(query);
    const rows = store.allowlists.list(organization.id, filter, window ?? { limit: -1, offset: 0 });
    const data = JsonList.from(rows, presentEntry);
    if (!query.envelope || window === null) return { status: 200, body: data };
    const pagination = presentPagination(store.allowlists.count(organization.id, filter), window.page, window.perPage);
    return { status: 200, body: { data, pagination } };
  },
});

const presentEntry = ({
  artifact_name,
  fingerprint,
  environment_name,
  timestamp,
  user_name,
  description,
  expires_at,
}: AllowlistRow & { environment_name: string }): Static<typeof AllowlistResponse> => ({
  artifact_name,
  fingerprint,
  environment_name,
  timestamp,
  user_name,
  description,
  ...(expires_at === null ? {} : { expires_at }),
});
