/**
 * The preview of a policy: the mistakes of a text that is not stored, or what it would change. Nothing is written, and
 * everything that the server could refuse when the text is uploaded is found here.
 */
import { Type } from "typebox";
import { badRequest } from "../../errors.ts";
import { json } from "../../http/operation.ts";
import { Closed, Message, Nullable, OneOf, named } from "../../http/schema.ts";
import type { PolicyPreview } from "../../store/environments/policy-previews.ts";
import type { StoredPolicyFile } from "../../workers/documents.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { documentLane } from "../flows/flows.ts";
import { OrgPath, NoQuery } from "../paths.ts";
import { MAX_NAME_CHARS } from "../../domain/names.ts";
import { SCHEMA_URL } from "../../domain/policy/schema.ts";
import { MAX_PREVIEWED_CHARS, TextProblem, TextWarnings, checkText, previewLane } from "../uploads.ts";
import { requireControls } from "./policies.ts";

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

const Verdict = OneOf(["COMPLIANT", "NON-COMPLIANT", "UNKNOWN"]);

const PreviewReason = named(
  "PolicyPreviewReason",
  Closed({
    policy: Type.String(),
    line: Nullable(
      Type.Integer({ description: "Line of the rule in the previewed text; null for a rule of another policy" }),
    ),
    column: Nullable(Type.Integer()),
    text: Type.String(),
  }),
);

const PreviewedArtifact = named(
  "PolicyPreviewArtifact",
  Closed({
    name: Type.String(),
    fingerprint: Type.String(),
    before: Verdict,
    after: Verdict,
    reasons_before: Type.Array(Type.String(), { description: "Why it does not satisfy its policies now" }),
    reasons: Type.Array(PreviewReason, { description: "Why it would not satisfy them" }),
    further_reasons: Type.Integer({ description: "Number of reasons that are not listed" }),
    stale: Type.Boolean({ description: "Its facts changed since its evaluation, and the preview does not know them" }),
  }),
);

const UnknownArtifact = named(
  "PolicyPreviewUnknownArtifact",
  Closed({ name: Type.String(), fingerprint: Type.String(), reason: Type.String() }),
);

const EnvironmentPreviewShape = named(
  "PolicyPreviewEnvironment",
  Closed({
    environment: Type.String(),
    attached: Type.Boolean({ description: "Whether the environment uses `policy_name` now" }),
    snapshot: Type.Integer({ description: "Number of the evaluated snapshot, the latest one; 0 without any" }),
    before: Verdict,
    after: Verdict,
    artifacts: Type.Integer({ description: "Artifacts that run in the snapshot" }),
    unchanged: Type.Integer(),
    would_fail: Type.Integer(),
    would_pass: Type.Integer(),
    kept_by_allowlist: Type.Integer({
      description: "Artifacts, also counted as unchanged, that would not satisfy the policies but are on the allowlist",
    }),
    unknown: Type.Integer({ description: "Artifacts whose stored facts cannot be evaluated" }),
    stale: Type.Integer({ description: "Artifacts whose facts changed since their evaluation" }),
    flips: Type.Array(PreviewedArtifact, { description: "Artifacts with another verdict" }),
    allowlisted: Type.Array(PreviewedArtifact, { description: "Artifacts that only the allowlist keeps compliant" }),
    unknown_artifacts: Type.Array(UnknownArtifact),
    not_listed: Type.Integer({ description: "Artifacts that the three lists have no room for" }),
  }),
);

const PreviewStop = named(
  "PolicyPreviewStop",
  Closed({
    reason: OneOf(["environments", "artifacts", "time"]),
    environments_left: Type.Integer({ description: "Environments that are missing or incomplete" }),
    artifacts_left: Type.Integer({ description: "Artifacts that were not evaluated" }),
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

type Previewed = { valid: boolean; problems: readonly unknown[]; warnings: readonly unknown[] } & PolicyPreview;

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
    "on the artifacts of the latest snapshots, with the facts that are stored with their evaluations; other policies " +
    "of an environment stay as they are. The answer lists the artifacts whose verdict would be another one. It has " +
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
        ? store.policyPreviews.listConsumerIds(policy.id)
        : [];
    const { value: file, problems } = await checkText(() => readPolicy(context, body.policy_yaml));
    if (problems) return { valid: false, problems, warnings: [], environments: [], stopped: null };
    const preview = await context.policyPreviews.preview(previewLane(context), {
      organization,
      policy: { yaml: file.yaml, parsedJson: file.parsedJson, name: policy?.name ?? NEW_POLICY },
      policyId: policy?.id ?? null,
      environmentIds,
    });
    return { valid: true, problems: [], ...preview };
  },
  handle: (_context, _input, previewed) => ({ status: 200, body: previewed }),
});

/**
 * The active physical environments with these names, each once.
 * @throws AppError not_found; 400 for a logical one, which has no policies of its own
 */
function requireEnvironmentIds({ store, organization }: OperationContext, names: readonly string[]): number[] {
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
async function readPolicy(context: OperationContext, text: string): Promise<StoredPolicyFile> {
  const file = await context.documents.readPolicy(documentLane(context), Buffer.from(text));
  requireControls(context, file.controls);
  return file;
}
