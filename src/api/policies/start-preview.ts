/** Where an artifact could run: its verdict under the policies of every environment. */
import { Type } from "typebox";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, OneOf, named } from "../../http/schema.ts";
import { ENVIRONMENT_TYPES } from "../../store/environments/environments.ts";
import { operation } from "../context.ts";
import { FingerprintPath, NoQuery } from "../paths.ts";
import { previewLane } from "../uploads.ts";
import { createCauseWriter } from "./preview-causes.ts";
import { PreviewCause, PreviewReason, Verdict } from "./preview-shapes.ts";

const ArtifactInEnvironments = named(
  "ArtifactInEnvironments",
  Closed({
    environments: Type.Array(
      Closed({
        environment: Type.String(),
        type: OneOf(ENVIRONMENT_TYPES),
        running: Type.Boolean({ description: "Whether it runs there now" }),
        verdict: Verdict,
        allowed: Type.Boolean({ description: "Whether the allowlist would accept it, whatever its policies say" }),
        policies: Type.Array(Closed({ policy: Type.String(), version: Type.Integer() }), {
          description: "Those in force; the verdict is UNKNOWN without any",
        }),
        causes: Type.Array(PreviewCause, {
          description: "What the policies would fail on, each attestation, trail or artifact once; at most 20",
        }),
        further_causes: Type.Integer({ description: "Number of causes that are not listed" }),
        reasons: Type.Array(PreviewReason, { description: "Why it would not satisfy the policies; at most 20" }),
      }),
      { description: "By name, at most 100" },
    ),
    left: Type.Integer({ description: "Environments that were not looked at, because there are more, or it took 5 s" }),
  }),
);

export const previewStart = operation({
  id: "assert_artifact_in_environments",
  method: "GET",
  path: "/asserts/{org}/fingerprint/{fingerprint}/environments",
  tag: "Asserts",
  summary: "Assert an artifact in all environments",
  description:
    "The verdict that the artifact would get in each physical environment if it started there now: under the " +
    "policies in force, with its attestations as they are. Where it runs already, it is evaluated under its name " +
    "there; elsewhere under the name that each flow has for it. An artifact that was reported to no flow has no " +
    "provenance. Nothing is stored.",
  permission: "environment:read",
  audit: null,
  origin: "assay",
  params: FingerprintPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The verdicts", schema: ArtifactInEnvironments } },
  example: {
    params: { org: "acme", fingerprint: "7b1f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccd" },
  },
  prepare(context, { params }) {
    const { id } = context.organization;
    const question = { organizationId: id, fingerprint: params.fingerprint, at: context.now() };
    return context.policyPreviews.previewStart(previewLane(context), question);
  },
  handle(context, _input, { environments, left }) {
    const write = createCauseWriter(context);
    return {
      status: 200,
      body: { environments: environments.map((one) => ({ ...one, causes: one.causes.map(write) })), left },
    };
  },
});
