/**
 * The preview of a change: which verdicts it would turn. It is evaluated as the next snapshot after the change will be,
 * and what it predicts is what the change then makes, unless something else changes meanwhile.
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import { allows } from "../../domain/access.ts";
import { storedLabelOf } from "../../domain/attestation/kinds.ts";
import { MAX_NAME_CHARS, TAG_KEY } from "../../domain/names.ts";
import { formatArchivedName } from "../../domain/time.ts";
import { forbidden } from "../../errors.ts";
import { json } from "../../http/operation.ts";
import { CheckedByHandler, Closed, Message, Nullable, named } from "../../http/schema.ts";
import { Fingerprint, MAX_LIST_ITEMS, MAX_TEXT_CHARS, MAX_URL_CHARS } from "../../contract/shapes.ts";
import { MAX_TAGS } from "../../store/db/tags.ts";
import { MAX_NEXT_TRAILS } from "../../store/flows/template-previews.ts";
import type { PreviewedChange } from "../../store/environments/preview-hypotheses.ts";
import { bindOverride } from "../attestations/record-attestation.ts";
import { postOverride } from "../attestations/override.ts";
import { operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { requireLogical, requireMemberKeys } from "../environments/logical-environments.ts";
import { documentLane, renameFlow } from "../flows/flows.ts";
import { requirePolicyIds } from "../filters.ts";
import { OrgPath, NoQuery } from "../paths.ts";
import { requireTagKeys } from "../tags.ts";
import { MAX_PREVIEWED_CHARS, previewLane } from "../uploads.ts";
import { requireEnvironmentIds } from "./policy-preview.ts";
import { writeCauses, writeMemberCauses } from "./preview-causes.ts";
import { NextTrailsPreview, PreviewStop, environmentPreviewFields } from "./preview-shapes.ts";
import { logicalPreviewFields, turnedTrail } from "./preview-shapes.ts";

const MAX_NAMES = 100;

const NameText = Type.String({ maxLength: MAX_NAME_CHARS });
const environment = Type.String({ maxLength: MAX_NAME_CHARS, description: "Name of a physical environment" });
const PoliciesOfEnvironment = named(
  "ChangePreviewPolicies",
  Closed({ environment, policy_names: Type.Array(NameText, { minItems: 1, maxItems: MAX_NAMES }) }),
);
const ArtifactInEnvironment = named(
  "ChangePreviewArtifact",
  Closed({ environment, artifact_fingerprint: Fingerprint }),
);
const flow_name = Type.String({ maxLength: MAX_NAME_CHARS, description: "Name of an active flow" });
const template_file = Type.String({ maxLength: MAX_PREVIEWED_CHARS, description: "The text of its new template" });
const { new_name } = renameFlow.body.schema.properties;
const { attestation_name, artifact_fingerprint, new_compliance_status, original_attestation_type } =
  postOverride.body.schema.properties;
const OverriddenAttestation = named(
  "ChangePreviewOverride",
  Closed({
    flow_name,
    trail_name: Type.String({ maxLength: MAX_NAME_CHARS, description: "Name of a trail of the flow" }),
    attestation_name,
    artifact_fingerprint,
    target_artifacts: Type.Optional(
      Type.Array(NameText, {
        maxItems: MAX_NAMES,
        description: "Names of artifacts in the template: the latest artifact of each",
      }),
    ),
    new_compliance_status,
    original_attestation_type,
  }),
);
const TagsOfFlow = named(
  "ChangePreviewTags",
  Closed({
    flow_name,
    set_tags: Type.Optional(
      CheckedByHandler(
        { propertyNames: { pattern: TAG_KEY, maxLength: MAX_NAME_CHARS } },
        Type.Record(Type.String(), Type.String({ maxLength: MAX_URL_CHARS }), { maxProperties: MAX_TAGS }),
      ),
    ),
    remove_tags: Type.Optional(Type.Array(Type.String({ maxLength: MAX_TEXT_CHARS }), { maxItems: MAX_TAGS })),
  }),
);

const MembersOfEnvironment = named(
  "ChangePreviewMembers",
  Closed({
    environment: Type.String({ maxLength: MAX_NAME_CHARS, description: "Name of a logical environment" }),
    included_environments: Type.Array(NameText, {
      maxItems: MAX_LIST_ITEMS,
      description: "Names of all its members after the change: physical environments",
    }),
  }),
);
const ArchivedEnvironment = named(
  "ChangePreviewArchivedEnvironment",
  Closed({ environment: Type.String({ maxLength: MAX_NAME_CHARS, description: "Name of an active environment" }) }),
);

/** The changes, of which a request names one. */
const CHANGES = {
  attach_policies: Type.Optional(PoliciesOfEnvironment),
  detach_policies: Type.Optional(PoliciesOfEnvironment),
  allow_artifact: Type.Optional(ArtifactInEnvironment),
  disallow_artifact: Type.Optional(ArtifactInEnvironment),
  override_attestation: Type.Optional(OverriddenAttestation),
  tag_flow: Type.Optional(TagsOfFlow),
  archive_flow: Type.Optional(named("ChangePreviewFlow", Closed({ flow_name }))),
  rename_flow: Type.Optional(named("ChangePreviewName", Closed({ flow_name, new_name }))),
  edit_template: Type.Optional(named("ChangePreviewTemplate", Closed({ flow_name, template_file }))),
  set_members: Type.Optional(MembersOfEnvironment),
  archive_environment: Type.Optional(ArchivedEnvironment),
};
const ChangePreviewInput = named(
  "ChangePreviewInput",
  Closed(CHANGES, { minProperties: 1, maxProperties: 1, description: "One change" }),
);
type Input = Static<typeof ChangePreviewInput>;

const ChangePreviewResponse = named(
  "ChangePreview",
  Closed({
    trail: Nullable(
      Closed(
        { flow: Type.String(), ...turnedTrail },
        { description: "The trail of an override; null for another change" },
      ),
    ),
    next_trails: Nullable(NextTrailsPreview),
    environments: Type.Array(named("ChangePreviewEnvironment", Closed(environmentPreviewFields)), {
      description: "Those that the change is about: named in it, or in which an artifact of the trail or flow runs",
    }),
    logical_environments: Type.Array(named("ChangePreviewLogical", Closed(logicalPreviewFields)), {
      description:
        "Logical environments whose members the change is about, and those that include one of `environments`, by " +
        "name. Their verdicts follow from those of their members: from what the change would make of them, else from " +
        "the stored ones. Those with a member that was not evaluated whole are left out",
    }),
    stopped: Nullable(PreviewStop),
  }),
);

export const previewChange = operation({
  id: "preview_change",
  method: "POST",
  path: "/previews/{org}",
  tag: "Policies",
  summary: "Preview a change without making it",
  description:
    "Says which verdicts a change would turn: policies of an environment, an allowlist entry, the override of an " +
    "attestation, tags of a flow, its name, its archiving, or its template; the members of a logical environment, or " +
    "the archiving of an environment that logical ones include. Running artifacts are evaluated as the " +
    "next snapshot after the change will: policies and allowlists are re-evaluated at once, overrides, tags and " +
    "names with the next report of an environment. A template turns nothing at once, because trails keep the one " +
    `that they began with: its preview evaluates the ${MAX_NEXT_TRAILS} newest trails as if they began again. For ` +
    "members and archived environments nothing is evaluated. A logical environment follows from the verdicts of its " +
    "members, of which at most 20 are listed. These two need the permission of the change itself. The " +
    "answer has at most 100 environments, 20,000 evaluated artifacts and 1,000 listed ones, and takes at most five " +
    "seconds; `stopped` says what was left. Nothing is stored. A change that would be refused because it names " +
    "something that does not exist is refused here, too. For a text of a policy, see `preview_policy`.",
  permission: "policy:read",
  audit: null,
  origin: "assay",
  onlyReads: true,
  params: OrgPath,
  query: NoQuery,
  body: json(ChangePreviewInput),
  responses: {
    200: { description: "What the change would turn", schema: ChangePreviewResponse },
    404: { description: "No such environment, policy, flow, trail or artifact", schema: Message },
  },
  example: {
    params: { org: "acme" },
    body: { attach_policies: { environment: "production", policy_names: ["production"] } },
  },
  async prepare(context, { body }) {
    if (body.edit_template) {
      const next = await previewTemplateChange(context, body.edit_template);
      return { trail: null, environments: [], logical_environments: [], ...next };
    }
    const question = { change: readChange(context, body), at: context.now() };
    return { next_trails: null, ...(await context.policyPreviews.previewChange(previewLane(context), question)) };
  },
  handle: (context, _input, previewed) => ({
    status: 200,
    body: {
      ...previewed,
      environments: writeCauses(context, previewed.environments),
      logical_environments: writeMemberCauses(context, previewed.logical_environments),
    },
  }),
});

/** @throws AppError as the change itself would, for a flow that does not exist too */
async function previewTemplateChange(context: ReadingContext, edit: NonNullable<Input["edit_template"]>) {
  const { store, organization, documents, policyPreviews } = context;
  const { id: flowId } = store.flows.requireWritable(organization, edit.flow_name);
  const draft = await documents.readTemplate(documentLane(context), Buffer.from(edit.template_file));
  return policyPreviews.previewTemplate(previewLane(context), { flowId, draft, at: context.now() });
}

/** The change with the keys of what it names. @throws AppError as the change itself would */
function readChange(context: ReadingContext, body: Input): PreviewedChange {
  const { store, organization } = context;
  const { set_members: members, archive_environment: archived } = body;
  if (members || archived) requireEnvironmentWriter(context);
  if (members)
    return {
      kind: "members",
      logicalId: requireLogical(context, members.environment).id,
      memberIds: requireMemberKeys(context, "set_members.included_environments", members.included_environments),
    };
  if (archived) {
    const { id } = store.environments.requireWritable(organization, archived.environment);
    return { kind: "archive", environmentId: id };
  }
  const { attach_policies: attach, detach_policies: detach, allow_artifact: allow, disallow_artifact: disallow } = body;
  const ofPolicies = attach ?? detach;
  if (ofPolicies) {
    const environmentId = requireEnvironmentId(context, ofPolicies.environment);
    requirePolicyIds(context, ofPolicies.policy_names);
    const { id, name } = organization;
    return {
      kind: "policies",
      organization: { id, name },
      environmentId,
      attach: attach?.policy_names ?? [],
      detach: detach?.policy_names ?? [],
    };
  }
  const ofArtifact = allow ?? disallow;
  if (ofArtifact) {
    const environmentId = requireEnvironmentId(context, ofArtifact.environment);
    const fingerprint = ofArtifact.artifact_fingerprint;
    return { kind: "allowlist", environmentId, fingerprint, isAllowed: allow !== undefined };
  }
  if (body.override_attestation) return readOverride(context, body.override_attestation);
  const flow = store.flows.requireWritable(
    organization,
    (body.tag_flow ?? body.archive_flow ?? body.rename_flow)?.flow_name ?? "",
  );
  return {
    kind: "flow",
    flowId: flow.id,
    name: body.archive_flow ? formatArchivedName(flow.name, context.now()) : (body.rename_flow?.new_name ?? null),
    tags: readTags(body.tag_flow ?? {}),
  };
}

/** @throws AppError 403 */
function requireEnvironmentWriter({ role, organization }: ReadingContext): void {
  if (!allows("environment:write", { role, isPublic: organization.is_public === 1 })) throw forbidden();
}

const requireEnvironmentId = (context: ReadingContext, name: string): number =>
  requireEnvironmentIds(context, [name])[0] as number;

function readTags({
  set_tags: set = {},
  remove_tags: remove = [],
}: Pick<Static<typeof TagsOfFlow>, "set_tags" | "remove_tags">) {
  requireTagKeys(set, "tag_flow.set_tags");
  return { set, remove };
}

function readOverride(context: ReadingContext, override: Static<typeof OverriddenAttestation>): PreviewedChange {
  const { store, organization } = context;
  const flow = store.flows.requireWritable(organization, override.flow_name);
  const { id } = store.trails.require({ organization: organization.name, flow }, override.trail_name);
  const originalType = override.original_attestation_type;
  const params = { org: organization.name, flow_name: flow.name, trail_name: override.trail_name };
  const targets = bindOverride(context, params, {
    trail: store.trailEvaluation.get(id),
    common: override,
    originalType,
  });
  return {
    kind: "override",
    trailId: id,
    override: {
      name: override.attestation_name,
      targets,
      isCompliant: override.new_compliance_status,
      type: storedLabelOf(originalType),
    },
  };
}
