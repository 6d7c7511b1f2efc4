/**
 * Inbound webhooks: calls of other products that become flows, trails and attestations (semantics 8.6). They need no
 * API key: the address is unguessable, the body is signed, and the webhook's service account records what arrives.
 */
import { Type } from "typebox";
import type { Static, TSchema } from "typebox";
import {
  FLAG_ATTESTATION,
  FLOW_PREFIX,
  describeFlagChange,
  locateFlagChange,
} from "../../domain/inbound-webhook/launch-darkly.ts";
import { isUnfinished } from "../../domain/attestation/verdicts.ts";
import { locateScan } from "../../domain/inbound-webhook/sonar.ts";
import type { SonarFlowNames } from "../../domain/inbound-webhook/sonar.ts";
import { isObject, readStoredJson } from "../../domain/stored-json.ts";
import { invalid, notFound } from "../../errors.ts";
import { createBodyShape, readJson } from "../../http/body/read-json.ts";
import { toMembers } from "../../json/text.ts";
import { CONFIGURATION_BOUNDS, optionalJson } from "../../http/operation.ts";
import type { JsonBody } from "../../http/operation.ts";
import { Closed, Maybe, Message, Ok, named } from "../../http/schema.ts";
import type { InboundWebhookRow, WebhookKind } from "../../store/notifications/inbound-webhooks.ts";
import { GENERIC } from "../attestations/generic.ts";
import { recordAttestation } from "../attestations/record-attestation.ts";
import { SONAR, SonarResults } from "../attestations/sonar.ts";
import { findOrCreateFlow } from "../flows/apply-flow.ts";
import { operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { MAX_LIST_ITEMS, MAX_RESULTS_BYTES, MAX_TEXT_CHARS, Text } from "../../contract/shapes.ts";
import { findOrBeginTrail } from "../flows/begin-trail.ts";
import { NoQuery } from "../paths.ts";

const HookPath = Closed({
  hook_uid: Type.String({ description: "Unguessable id of the webhook, from `assay webhook enable`" }),
});

/** The signature covers the bytes of the body, so `readCall` parses it after the signature was verified. */
const signedBody = <T extends TSchema>(schema: T): JsonBody<T> => ({ ...optionalJson(schema), isRaw: true });

/** A call, and the same as it was sent, for the record. */
type Call<T extends TSchema> = { call: Static<T>; asSent: Static<T> };

/** @throws AppError 400 for a body that is not JSON or does not match the schema */
function readCall<T extends TSchema>(schema: T, bytes: Buffer | null): Call<T> {
  const shape = { ...createBodyShape(schema, CONFIGURATION_BOUNDS), acceptsNull: false, keeps: "whole" as const };
  const { value, asSent } = readJson(bytes ?? "", shape);
  return { call: value as Static<T>, asSent: asSent as Static<T> };
}

/** The webhook. @throws AppError 404 when it was disabled after the signature was verified */
function requireWebhook({ store }: ReadingContext, kind: WebhookKind, publicId: string): InboundWebhookRow {
  const webhook = store.inboundWebhooks.find(kind, publicId);
  if (!webhook) throw notFound("Webhook not found");
  return webhook;
}

const responses = {
  200: { description: "Recorded now or by an earlier delivery", schema: Ok },
  401: { description: "The signature is missing or does not match the body", schema: Message },
  403: { description: "The webhook's service account is no longer allowed to record attestations", schema: Message },
  404: { description: "No such webhook, or the call refers to something that does not exist", schema: Message },
};

const SonarWebhook = named(
  "SonarWebhook",
  Type.Object(
    {
      ...SonarResults.properties,
      analysedAt: Maybe(
        Type.String({
          maxLength: MAX_TEXT_CHARS,
          description: "Required unless the task has the status FAILED or CANCELED",
        }),
      ),
      revision: Maybe(Text),
      properties: Maybe(Type.Record(Type.String(), Text)),
    },
    { additionalProperties: true, "x-max-bytes": MAX_RESULTS_BYTES },
  ),
);

const isSonarFlowNames = (value: unknown): value is SonarFlowNames => isObject(value);

/** @throws AppError 400 as readCall, and for a finished task without the time of its analysis */
function readScan(bytes: Buffer | null): Call<typeof SonarWebhook> {
  const read = readCall(SonarWebhook, bytes);
  if (!read.call.analysedAt && !isUnfinished(read.call.status)) throw invalid({ analysedAt: "Field required" });
  return read;
}

/** Verdicts of two projects in one flow would replace each other. */
const sharedFlow = (flow: string, owner: string, key: string) =>
  invalid({
    "project.key":
      `The flow '${flow}' records the project '${owner}'. Set the analysis property sonar.analysis.kosli_flow of one ` +
      `of the two projects [input: ${key}]`,
  });

export const sonarWebhook = operation({
  id: "sonar_qube_webhook",
  method: "POST",
  path: "/webhooks/sonar/{hook_uid}",
  tag: "Webhooks",
  summary: "Accept the result of a SonarQube scan",
  description:
    "Records a `sonar` attestation in the flow and trail that the analysis properties name " +
    "(`sonar.analysis.kosli_flow` and others). Missing flows and trails are created. Without these properties, the " +
    "flow is named after the project and the trail after the revision. A task that failed or was canceled has no " +
    "revision and no quality gate: it is recorded as not compliant, in the trail of " +
    "`sonar.analysis.kosli_git_commit` or else in a trail named after the task.",
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
  prepare: async (_context, { rawBody }) => readScan(rawBody),
  handle(context, { params, rawBody }, { call, asSent }) {
    const { store, organization, note } = context;
    const webhook = requireWebhook(context, "sonar", params.hook_uid);
    const { location: place, problems } = locateScan(call, readStoredJson(webhook.settings_json, isSonarFlowNames));
    if (problems) throw invalid(problems);
    if (!store.inboundWebhooks.recordReceipt(webhook.id, rawBody ?? Buffer.alloc(0)))
      return { status: 200, body: "OK", unaudited: true };
    const flow = findOrCreateFlow(context, place.flow, place.flowDescription);
    if (place.isNamedAfterProject) {
      const owner = store.inboundWebhooks.claimFlow(flow.id, call.project.key);
      if (owner !== call.project.key) throw sharedFlow(place.flow, owner, call.project.key);
    }
    recordAttestation(context, SONAR, {
      params: { org: organization.name, flow_name: place.flow, trail_name: place.trail },
      flow,
      trail: store.trailEvaluation.get(
        findOrBeginTrail(context, flow, { name: place.trail, description: place.trailDescription }).id,
      ),
      common: {
        attestation_name: place.attestation,
        target_artifacts: place.target === null ? null : [place.target],
        artifact_fingerprint: place.fingerprint,
        git_commit_info: place.commit === null ? null : { sha1: place.commit },
        origin_url: call.project.url ?? null,
      },
      payload: { sonar_results: call as Static<typeof SonarResults> },
      // Recorded as received: an unfinished task has no time of analysis.
      asSent: { sonar_results: { ...toMembers(asSent), revision: call.revision ?? "" } as Static<typeof SonarResults> },
      prepared: null,
      file: null,
    });
    note({ webhook: "sonar", flow: place.flow, trail: place.trail });
    return { status: 200, body: "OK" };
  },
});

const OPEN = { additionalProperties: true };
const LaunchDarklyWebhook = named(
  "LaunchDarklyWebhook",
  Type.Object(
    {
      name: Maybe(Text),
      titleVerb: Maybe(Text),
      comment: Maybe(Text),
      member: Maybe(Type.Object({ email: Maybe(Text), firstName: Maybe(Text), lastName: Maybe(Text) }, OPEN)),
      target: Maybe(
        Type.Object({ name: Maybe(Text), resources: Maybe(Type.Array(Text, { maxItems: MAX_LIST_ITEMS })) }, OPEN),
      ),
      accesses: Maybe(Type.Array(Type.Object({ resource: Maybe(Text) }, OPEN), { maxItems: MAX_LIST_ITEMS })),
    },
    { ...OPEN, "x-max-bytes": MAX_RESULTS_BYTES },
  ),
);

const NOTHING_RECORDED = { message: "Nothing was recorded: the change names no flag in an environment" };

/** Flags and environments in one call. A change of a flag names the environments it affects, which are far fewer. */
const MAX_CHANGES = 100;

const tooManyChanges = (count: number) =>
  invalid({ target: `A change may touch at most ${MAX_CHANGES} flags and environments [input: ${count}]` });

/** Finds the environments whose flow has a trail of a flag. @throws AppError 400 when asked for too many flags */
function environmentsOfFlags({ store, organization }: ReadingContext): (flag: string) => string[] {
  let flags = 0;
  return (flag) => {
    if ((flags += 1) > MAX_CHANGES) throw tooManyChanges(flags);
    return store.flows
      .listWithTrail(organization.id, { prefix: FLOW_PREFIX, trail: flag, limit: MAX_CHANGES + 1 })
      .map((flow) => flow.slice(FLOW_PREFIX.length));
  };
}

export const launchDarklyWebhook = operation({
  id: "launch_darkly_webhook",
  method: "POST",
  path: "/webhooks/launch-darkly/{hook_uid}",
  tag: "Webhooks",
  summary: "Accept a change of a LaunchDarkly flag",
  description:
    "Records a `generic` attestation named `flag-change` for each environment E in which the flag changed, in the " +
    "flow `launch-darkly-E` and the trail named after the key of the flag. Missing flows and trails are created. A " +
    "change of the flag in all environments, such as its removal, is recorded wherever the flag has a trail. A " +
    "change without an environment is accepted but not recorded, and the response says so.",
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
      description: "Recorded now or by an earlier delivery; a message if there was nothing to record",
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
  prepare: async (_context, { rawBody }) => readCall(LaunchDarklyWebhook, rawBody),
  handle(context, { params, rawBody }, { call, asSent }) {
    const { store, organization, note } = context;
    const webhook = requireWebhook(context, "launch-darkly", params.hook_uid);
    const places = locateFlagChange(call, environmentsOfFlags(context));
    if (places.length > MAX_CHANGES) throw tooManyChanges(places.length);
    if (!store.inboundWebhooks.recordReceipt(webhook.id, rawBody ?? Buffer.alloc(0)))
      return { status: 200, body: "OK", unaudited: true };
    for (const { project, environment, flag, flow: flowName, trail: trailName } of places) {
      const flow = findOrCreateFlow(context, flowName, `Changes of LaunchDarkly flags in ${environment}`);
      recordAttestation(context, GENERIC, {
        params: { org: organization.name, flow_name: flowName, trail_name: trailName },
        flow,
        trail: store.trailEvaluation.get(
          findOrBeginTrail(context, flow, { name: trailName, description: `LaunchDarkly flag ${flag}` }).id,
        ),
        common: {
          attestation_name: FLAG_ATTESTATION,
          description: [describeFlagChange(call, flag), call.comment].filter(Boolean).join(": "),
          annotations: { project, environment, flag },
          user_data: asSent as Record<string, unknown>,
        },
        payload: { is_compliant: true },
        asSent: { is_compliant: true },
        prepared: null,
        file: null,
      });
    }
    note({ webhook: "launch-darkly", changes: places.map(({ flow, trail }) => `${flow}/${trail}`) });
    return { status: 200, body: places.length === 0 ? NOTHING_RECORDED : "OK" };
  },
});
