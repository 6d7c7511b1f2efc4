/**
 * Allowlists: fingerprints that an environment accepts whatever its policies say, each with a reason (semantics 5.6).
 */
import { Type } from "typebox";
import { badRequest } from "../../errors.ts";
import { NO_BODY, json } from "../../http/operation.ts";
import { Closed, Message, named } from "../../http/schema.ts";
import { operation } from "../context.ts";
import { reevaluateForAllowlist } from "./record-report.ts";
import { Fingerprint, PATH_LENGTH, Text } from "../../contract/shapes.ts";
import { EnvironmentPath, OrgPath, NoQuery } from "../paths.ts";

const AllowlistPutInput = named(
  "AllowlistPutInput",
  Closed({
    artifact_fingerprint: Fingerprint,
    artifact_name: Type.String({ maxLength: PATH_LENGTH, description: "Name of the file, directory or image" }),
    description: { ...Text, description: "The reason" },
  }),
);

const AllowlistResponse = named(
  "AllowlistResponse",
  Closed({
    artifact_name: Type.String(),
    fingerprint: Type.String(),
    environment_name: Type.String(),
    timestamp: Type.Number({ description: "Epoch seconds" }),
    user_name: Type.String({ description: "Who allowed it" }),
    description: Type.String({ description: "The reason" }),
  }),
);

export const allowArtifact = operation({
  id: "allow_artifact_for_env",
  method: "PUT",
  path: "/allowlists/{org}/{env_name}",
  tag: "Allowlists",
  summary: "Allow an artifact in an environment",
  description:
    "From now on the environment accepts the fingerprint, with or without provenance and whatever its policies say. Allowing it once more with another reason or name, or by somebody else, adds an entry; sending the same again does not. Answers what was sent.",
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
    const environment = store.environments.requireWritable(organization, params.env_name);
    if (environment.type === "logical")
      throw badRequest(
        `Environment '${params.env_name}' in organization '${organization.name}' is logical: artifacts are allowed in the environments that it includes`,
      );
    const entry = {
      fingerprint: body.artifact_fingerprint,
      artifact_name: body.artifact_name,
      description: body.description,
      user_id: principal.publicId,
      user_name: principal.displayName,
    };
    const latest = store.allowlists.latest(environment.id, entry.fingerprint);
    // Clients send a PUT again when its answer was lost (wire-contract 1.6).
    const isRepeated =
      latest?.artifact_name === entry.artifact_name &&
      latest.description === entry.description &&
      latest.user_id === entry.user_id;
    const allowlist_id = isRepeated ? latest.public_id : store.allowlists.allow(environment, entry);
    note({
      environment: environment.name,
      artifact_fingerprint: body.artifact_fingerprint,
      allowlist_id,
      added: !isRepeated,
    });
    if (!isRepeated) reevaluateForAllowlist(context, environment.id);
    return { status: 201, body };
  },
});

export const listAllowlist = operation({
  id: "list_allowlist",
  method: "GET",
  path: "/allowlists/{org}",
  tag: "Allowlists",
  summary: "List what is allowed",
  description:
    "Every entry of every environment, newest first. Of several entries for one fingerprint in one environment the newest counts.",
  permission: "environment:read",
  audit: null,
  params: OrgPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "All entries", schema: Type.Array(AllowlistResponse) } },
  example: { params: { org: "acme" } },
  handle({ store, organization }) {
    const body = store.allowlists
      .list(organization.id)
      .map(({ artifact_name, fingerprint, environment_name, timestamp, user_name, description }) => ({
        artifact_name,
        fingerprint,
        environment_name,
        timestamp,
        user_name,
        description,
      }));
    return { status: 200, body };
  },
});
