/**
 * The preview of a policy: the mistakes of a text that is not stored, or what it would change. Nothing is written, and
 * everything that the server could refuse when the text is uploaded is found here.
 */
import { Type } from "typebox";
import { badRequest } from "../../errors.ts";
import { json } from "../../http/operation.ts";
import { Closed, Message, Nullable, named } from "../../http/schema.ts";
import type { DraftPreview } from "../../store/environments/change-previews.ts";
import type { StoredPolicyFile } from "../../workers/documents.ts";
import { operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { documentLane } from "../flows/flows.ts";
import { OrgPath, NoQuery } from "../paths.ts";
import { MAX_NAME_CHARS } from "../../domain/names.ts";
import { SCHEMA_URL } from "../../domain/policy/schema.ts";
import { MAX_PREVIEWED_CHARS, TextProblem, TextWarnings, checkText, previewLane } from "../uploads.ts";
import { requireControls } from "./policies.ts";
import { writeCauses } from "./preview-causes.ts";
import { PreviewStop, environmentPreviewFields } from "./preview-shapes.ts";

const MAX_NAMED_ENVIRONMENTS = 100;

/** The name in reasons of a policy that does not exist yet. */
const NEW_POLICY = "new policy";

const PolicyPreviewInput = named(
  "PolicyPreviewInput",
  Closed({
    policy_yaml: Type.String({ maxLength: MAX_PREVIEWED_CHARS, description: "The text of the policy" }),
    policy_name: Type.Optional(
      Type.String({
        maxLength: MAX_NAME_CHARS,
        description: "The policy that the text would replace; omitted for a new one, which no environment uses yet",
      }),
    ),
    environments: Type.Optional(
      Type.Array(Type.String({ maxLength: MAX_NAME_CHARS }), {
        maxItems: MAX_NAMED_ENVIRONMENTS,
        description:
          "Names of physical environments to evaluate, as if the policy was attached to them; by default those that " +
          "use `policy_name`",
      }),
    ),
  }),
);

const EnvironmentPreviewShape = named(
  "PolicyPreviewEnvironment",
  Closed({
    attached: Type.Boolean({ description: "Whether the environment uses `policy_name` now" }),
    ...environmentPreviewFields,
  }),
);

const PolicyPreviewResponse = named(
  "PolicyPreview",
  Closed({
    valid: Type.Boolean({ description: "Whether the policy would be accepted" }),
    problems: Type.Array(TextProblem, { description: "By position; empty for a valid text" }),
    warnings: TextWarnings,
    environments: Type.Array(EnvironmentPreviewShape, { description: "Empty for an invalid text" }),
    stopped: Nullable(PreviewStop),
  }),
);

type Previewed = { valid: boolean; problems: readonly unknown[]; warnings: readonly unknown[] } & DraftPreview;

export const previewPolicy = operation({
  id: "preview_policy",
  method: "POST",
  path: "/policies/{org}/preview",
  tag: "Policies",
  summary: "Preview a policy without storing it",
  description:
    "Checks a policy text as an upload would, and lists its mistakes by line and column. `warnings` are about rules " +
    "that nothing in the organization can meet, or that never apply: they name a flow, a tag, an attestation type or " +
    "an attestation that it does not have. A valid text is evaluated " +
    "on the artifacts of the latest snapshots, as the next snapshot will evaluate them; other policies of an " +
    "environment stay as they are. The answer lists the artifacts whose verdict would be another one. It has " +
    "at most 100 environments, 20,000 evaluated artifacts and 1,000 listed ones, and takes at most five seconds; " +
    "`stopped` says what was left. Nothing is stored.",
  permission: "policy:read",
  audit: null,
  origin: "assay",
  onlyReads: true,
  params: OrgPath,
  query: NoQuery,
  body: json(PolicyPreviewInput),
  responses: {
    200: { description: "The mistakes of the text, or what it would change", schema: PolicyPreviewResponse },
    404: { description: "No such policy or environment", schema: Message },
  },
  example: {
    params: { org: "acme" },
    body: {
      policy_yaml: [`_schema: ${SCHEMA_URL}`, "artifacts:", "  provenance:", "    required: true", ""].join("\n"),
    },
  },
  async prepare(context, { body }): Promise<Previewed> {
    const { store, organization } = context;
    const policy = body.policy_name === undefined ? null : store.policies.require(organization, body.policy_name);
    const environmentIds = body.environments
      ? requireEnvironmentIds(context, body.environments)
      : policy
        ? store.changePreviews.listConsumerIds(policy.id)
        : [];
    const { value: file, problems } = await checkText(() => readPolicy(context, body.policy_yaml));
    if (problems) return { valid: false, problems, warnings: [], environments: [], stopped: null };
    const preview = await context.policyPreviews.preview(previewLane(context), {
      organization,
      policy: { yaml: file.yaml, parsedJson: file.parsedJson, name: policy?.name ?? NEW_POLICY },
      policyId: policy?.id ?? null,
      environmentIds,
      at: context.now(),
    });
    return { valid: true, problems: [], ...preview };
  },
  handle: (context, _input, previewed) => ({
    status: 200,
    body: { ...previewed, environments: writeCauses(context, previewed.environments) },
  }),
});

/**
 * The active physical environments with these names, each once.
 * @throws AppError not_found; 400 for a logical one, which has no policies of its own
 */
export function requireEnvironmentIds({ store, organization }: ReadingContext, names: readonly string[]): number[] {
  const ids = names.map((name) => {
    const environment = store.environments.requireWritable(organization, name);
    if (environment.type === "logical")
      throw badRequest(
        `Environment '${name}' in organization '${organization.name}' is logical: name its members instead`,
      );
    return environment.id;
  });
  return [...new Set(ids)];
}

/** Reads the text as an upload does. @throws AppError as an upload does */
async function readPolicy(context: ReadingContext, text: string): Promise<StoredPolicyFile> {
  const file = await context.documents.readPolicy(documentLane(context), Buffer.from(text));
  requireControls(context, file.controls);
  return file;
}
