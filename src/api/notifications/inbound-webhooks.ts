/**
 * Webhooks of other products, which become flows, trails and attestations here (semantics 8.6). They need no key: the
 * address is unguessable and the body is signed, and what comes in is recorded by the service account of the door
 * (store/inbound-webhooks.ts).
 */
import { Type } from "typebox";
import type { Static, TSchema } from "typebox";
import { FLAG_ATTESTATION, describeChange, placesOfChange } from "../../domain/inbound-webhook/launch-darkly.ts";
import { isUnfinished } from "../../domain/attestation/sonar.ts";
import { placeOfScan } from "../../domain/inbound-webhook/sonar.ts";
import type { SonarFlowNames } from "../../domain/inbound-webhook/sonar.ts";
import { invalid, notFound } from "../../errors.ts";
import { parseJson } from "../../http/body/read-json.ts";
import { optionalJson } from "../../http/operation.ts";
import type { JsonBody } from "../../http/operation.ts";
import { Closed, Maybe, Message, Ok, named } from "../../http/schema.ts";
import { validate } from "../../http/validate.ts";
import type { InboundWebhookRow, WebhookKind } from "../../store/notifications/inbound-webhooks.ts";
import { GENERIC } from "../attestations/generic.ts";
import { recordAttestation } from "../attestations/report.ts";
import { SONAR, SonarResults } from "../attestations/sonar.ts";
import { flowFor } from "../flows/flows.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { LIST_LENGTH, MAX_RESULTS_BYTES, TEXT_LENGTH, Text } from "../../contract/shapes.ts";
import { beginImplicitly } from "../flows/trails.ts";
import { NoQuery } from "../paths.ts";

const HookPath = Closed({
  hook_uid: Type.String({ description: "Unguessable id of the webhook, from `assay webhook enable`" }),
});

/** Never read before its signature was checked, and then by `readCall`: the signature is over its bytes. */
const signedBody = <T extends TSchema>(schema: T): JsonBody<T> => ({ ...optionalJson(schema), rawAbove: 0 });

/** @throws AppError 400 for what is no JSON, or has not the shape. */
function readCall<T extends TSchema>(schema: T, bytes: Buffer | null): Static<T> {
  const value = parseJson(bytes ?? "", "body");
  const problems = validate(schema, value, { mode: "plain", root: "body" });
  if (problems) throw invalid(problems);
  return value as Static<T>;
}

/** The door, which may have been closed since the signature was checked. @throws AppError 404. */
function doorOf({ store }: OperationContext, kind: WebhookKind, publicId: string): InboundWebhookRow {
  const door = store.inboundWebhooks.find(kind, publicId);
  if (!door) throw notFound("Webhook not found");
  return door;
}

const responses = {
  200: { description: "Recorded, or recorded before", schema: Ok },
  401: { description: "The signature is missing or is not that of the body", schema: Message },
  403: { description: "The service account of the webhook may not record attestations any more", schema: Message },
  404: { description: "No such webhook, or what the call names does not exist", schema: Message },
};

const SonarWebhook = named(
  "SonarWebhook",
  Type.Object(
    {
      ...SonarResults.properties,
      analysedAt: Maybe(
        Type.String({
          maxLength: TEXT_LENGTH,
          description: "Absent only for a task with the status FAILED or CANCELED",
        }),
      ),
      revision: Maybe(Text),
      properties: Maybe(Type.Record(Type.String(), Text)),
    },
    { additionalProperties: true, "x-max-bytes": MAX_RESULTS_BYTES },
  ),
);

/** @throws AppError 400 as readCall, and for a finished task without the time of its analysis. */
function readScan(bytes: Buffer | null): Static<typeof SonarWebhook> {
  const call = readCall(SonarWebhook, bytes);
  if (!call.analysedAt && !isUnfinished(call.status)) throw invalid({ analysedAt: "Field required" });
  return call;
}

export const sonarWebhook = operation({
  id: "sonar_qube_webhook",
  method: "POST",
  path: "/webhooks/sonar/{hook_uid}",
  tag: "Webhooks",
  summary: "Take in the result of a SonarQube scan",
  description:
    "Records a `sonar` attestation where the properties of the analysis say, `sonar.analysis.kosli_flow` and its " +
    "like. Flow and trail are created where they are missing. Without properties the flow is named after the " +
    "project and the trail after the revision. A task that failed or was canceled has no revision and no quality " +
    "gate: it is recorded as not compliant, in the trail of `sonar.analysis.kosli_git_commit`, else in one named " +
    "after the task.",
  status: "unlisted",
  permission: "signed",
  signature: { endpoint: "sonar", header: "x-sonar-webhook-hmac-sha256", requires: "attestation:write" },
  audit: "webhook.received",
  params: HookPath,
  query: NoQuery,
  body: signedBody(SonarWebhook),
  responses,
  example: {
    params: { hook_uid: "hLk3mWcN4v0sYt2bXq9dRz7aJf5gPe1uToKi8nVlBwE" },
    body: {
      serverUrl: "https://sonar.example.com",
      taskId: "AVh21JS2JepAEhwQ-b3u",
      status: "SUCCESS",
      analysedAt: "2026-01-31T12:00:00+0000",
      revision: "0f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112",
      project: { key: "backend", name: "Backend", url: "https://sonar.example.com/dashboard?id=backend" },
      qualityGate: { name: "Sonar way", status: "OK", conditions: [] },
      properties: { "sonar.analysis.kosli_flow": "backend", "sonar.analysis.kosli_trail": "release-1" },
    },
  },
  prepare: async (_context, { rawBody: unread }) => readScan(unread),
  handle(context, { params, rawBody: unread }, call) {
    const { store, organization, note } = context;
    const door = doorOf(context, "sonar", params.hook_uid);
    const { place, problems } = placeOfScan(call, JSON.parse(door.settings_json) as SonarFlowNames);
    if (problems) throw invalid(problems);
    if (!store.inboundWebhooks.receive(door.id, unread ?? Buffer.alloc(0)))
      return { status: 200, body: "OK", unaudited: true };
    const flow = flowFor(context, place.flow, place.flowDescription);
    recordAttestation(context, SONAR, {
      params: { org: organization.name, flow_name: place.flow, trail_name: place.trail },
      flow,
      trail: beginImplicitly(context, flow, place.trail, place.trailDescription),
      common: {
        attestation_name: place.attestation,
        target_artifacts: place.target === null ? null : [place.target],
        artifact_fingerprint: place.fingerprint,
        git_commit_info: place.commit === null ? null : { sha1: place.commit },
        origin_url: call.project.url ?? null,
      },
      // Recorded as it came: an unfinished task has no time of analysis.
      payload: { sonar_results: { ...call, revision: call.revision ?? "" } as Static<typeof SonarResults> },
      prepared: null,
      file: null,
    });
    note({ webhook: "sonar", flow: place.flow, trail: place.trail });
    return { status: 200, body: "OK" };
  },
});

const open = { additionalProperties: true };
const LaunchDarklyWebhook = named(
  "LaunchDarklyWebhook",
  Type.Object(
    {
      name: Maybe(Text),
      titleVerb: Maybe(Text),
      comment: Maybe(Text),
      member: Maybe(Type.Object({ email: Maybe(Text), firstName: Maybe(Text), lastName: Maybe(Text) }, open)),
      target: Maybe(
        Type.Object({ name: Maybe(Text), resources: Maybe(Type.Array(Text, { maxItems: LIST_LENGTH })) }, open),
      ),
      accesses: Maybe(Type.Array(Type.Object({ resource: Maybe(Text) }, open), { maxItems: LIST_LENGTH })),
    },
    { ...open, "x-max-bytes": MAX_RESULTS_BYTES },
  ),
);

const NOTHING_RECORDED = { message: "Nothing was recorded: the change names no flag in an environment" };

/** Places of one call: a change of a flag names the environments that it touches, and nobody has more. */
const MOST_PLACES = 100;

export const launchDarklyWebhook = operation({
  id: "launch_darkly_webhook",
  method: "POST",
  path: "/webhooks/launch-darkly/{hook_uid}",
  tag: "Webhooks",
  summary: "Take in a change of a LaunchDarkly flag",
  description:
    "Records a `generic` attestation named `flag-change` for each environment E in which the flag changed, in the" +
    " trail of the flag's key in the flow `launch-darkly-E`. Both are created where they are missing. A change in" +
    " no environment is accepted and not recorded, and the answer says so.",
  status: "unlisted",
  permission: "signed",
  signature: { endpoint: "launch-darkly", header: "x-ld-signature", requires: "attestation:write" },
  audit: "webhook.received",
  params: HookPath,
  query: NoQuery,
  body: signedBody(LaunchDarklyWebhook),
  responses: {
    ...responses,
    200: {
      description: "Recorded, or recorded before; or, with a message, nothing to record",
      schema: Type.Union([Ok, Message]),
    },
  },
  example: {
    params: { hook_uid: "Qf7bUe2mZx0rKd9tVw4sLy6nHc8gJp1aRo5iTk3vBqX" },
    body: {
      kind: "flag",
      name: "New checkout",
      titleVerb: "turned on the flag",
      comment: "rollout",
      date: 1769860800000,
      member: { email: "ada@example.com", firstName: "Ada", lastName: "Lovelace" },
      target: { name: "New checkout", resources: ["proj/web:env/production:flag/new-checkout"] },
    },
  },
  prepare: async (_context, { rawBody: unread }) => readCall(LaunchDarklyWebhook, unread),
  handle(context, { params, rawBody: unread }, call) {
    const { store, organization, note } = context;
    const door = doorOf(context, "launch-darkly", params.hook_uid);
    const places = placesOfChange(call);
    if (places.length > MOST_PLACES)
      throw invalid({
        target: `A change may touch at most ${MOST_PLACES} flags and environments [input: ${places.length}]`,
      });
    if (!store.inboundWebhooks.receive(door.id, unread ?? Buffer.alloc(0)))
      return { status: 200, body: "OK", unaudited: true };
    for (const { project, environment, flag, flow: flowName, trail: trailName } of places) {
      const flow = flowFor(context, flowName, `Changes of LaunchDarkly flags in ${environment}`);
      recordAttestation(context, GENERIC, {
        params: { org: organization.name, flow_name: flowName, trail_name: trailName },
        flow,
        trail: beginImplicitly(context, flow, trailName, `LaunchDarkly flag ${flag}`),
        common: {
          attestation_name: FLAG_ATTESTATION,
          description: [describeChange(call, flag), call.comment].filter(Boolean).join(": "),
          annotations: { project, environment, flag },
          user_data: call,
        },
        payload: { is_compliant: true },
        prepared: null,
        file: null,
      });
    }
    note({ webhook: "launch-darkly", changes: places.map(({ flow, trail }) => `${flow}/${trail}`) });
    return { status: 200, body: places.length === 0 ? NOTHING_RECORDED : "OK" };
  },
});
