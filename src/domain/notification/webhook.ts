/** Payload 1.0 of webhooks (wire-contract 20): every scalar is a string, and absent values are omitted. */
import { shownCommit } from "../commit.ts";
import { formatEpoch } from "../time.ts";
import { snapshotApiUrl, snapshotPageUrl, formatState } from "./event.ts";
import type { EventFlow, EventLinks, NotificationEvent, Provenance } from "./event.ts";
import { PAYLOAD_VERSION } from "./targets.ts";
import { eventTypeOf } from "./triggers.ts";

export type Payload = { readonly [field: string]: string | Payload };

/** The WEBHOOK payload about an event. */
export function buildWebhookPayload(event: NotificationEvent, links: EventLinks): Payload {
  const head = { version: PAYLOAD_VERSION, timestamp: timestampOf(event.at) };
  const what = { event_type: eventTypeOf(event.trigger), description: event.description };
  if (event.subject === "flow")
    return { ...head, org: event.org, flow: event.flow, ...what, ...buildFlowParts(event, links) };
  const { snapshot } = event;
  const payload = {
    ...head,
    org: snapshot.org,
    environment: snapshot.environment,
    ...what,
    snapshot: {
      index: String(snapshot.index),
      // The contract has two values only, so an unknown verdict counts as non-compliant.
      status: snapshot.compliant === true ? "compliant" : "non-compliant",
      html_url: snapshotPageUrl(snapshot, links),
      api_url: snapshotApiUrl(snapshot, links),
    },
  };
  if (event.subject === "environment") return payload;
  const { name, fingerprint, provenance } = event.artifact;
  const shownProvenance = provenance ? { provenance: buildProvenance(snapshot.org, provenance, links) } : {};
  const artifact = { name, fingerprint, ...shownProvenance };
  const { allowlistEntry: entry } = event;
  if (!entry) return { ...payload, artifact };
  const allowlistEntry = { id: entry.id, description: entry.reason, expires_at: timestampOf(entry.expiresAt) };
  return { ...payload, artifact, allowlist_entry: allowlistEntry };
}

/** Whole epoch seconds as text. */
export const timestampOf = (at: number): string => formatEpoch(Math.floor(at));

const buildProvenance = (
  org: string,
  { flow, state, fingerprint, commit, commitUrl, buildUrl, artifactId, selector }: Provenance,
  links: EventLinks,
): Payload => ({
  flow,
  status: state.toLowerCase(),
  commit: shownCommit(commit),
  commit_url: commitUrl,
  html_url: links.artifactPage(org, flow, { fingerprint, id: artifactId }),
  api_url: links.artifactApi(org, flow, { fingerprint, selector }),
  build_url: buildUrl,
});

/** The parts of flow events, which the contract does not describe: they follow the payloads that it does describe. */
function buildFlowParts({ org, flow, trail, artifact, attestation }: EventFlow, links: EventLinks): Payload {
  return {
    ...(trail
      ? {
          trail: {
            name: trail.name,
            status: trail.state.toLowerCase(),
            html_url: links.trailPage(org, flow, trail.name),
            api_url: links.trailApi(org, flow, trail.name),
          },
        }
      : { html_url: links.flowPage(org, flow), api_url: links.flowApi(org, flow) }),
    ...(artifact
      ? {
          artifact: {
            name: artifact.name,
            fingerprint: artifact.fingerprint,
            status: artifact.state.toLowerCase(),
            commit: shownCommit(artifact.commit),
            commit_url: artifact.commitUrl,
            html_url: links.artifactPage(org, flow, artifact),
            api_url: links.artifactApi(org, flow, artifact),
            build_url: artifact.buildUrl,
          },
        }
      : {}),
    ...(attestation
      ? {
          attestation: {
            id: attestation.id,
            name: attestation.name,
            type: attestation.type,
            status: formatState(attestation.compliant),
            html_url: trail
              ? links.attestationPage(org, { flow, trail: trail.name, id: attestation.id })
              : links.flowPage(org, flow),
            api_url: links.attestationApi(org, attestation.id),
          },
        }
      : {}),
  };
}
