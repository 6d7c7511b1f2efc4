/** Payload 1.0 of webhooks (wire-contract 20): every scalar is a string, what there is not is left out. */
import { formatEpoch } from "../time.ts";
import { snapshotApiUrl, snapshotPageUrl, formatState } from "./event.ts";
import type { EventFlow, EventLinks, NotificationEvent, Provenance } from "./event.ts";
import { PAYLOAD_VERSION } from "./targets.ts";
import { eventTypeOf } from "./triggers.ts";

export type Payload = { readonly [field: string]: string | Payload };

/** What is sent to a WEBHOOK about a notice. */
export function buildWebhookPayload(notice: NotificationEvent, links: EventLinks): Payload {
  const head = { version: PAYLOAD_VERSION, timestamp: timestampOf(notice.at) };
  const what = { event_type: eventTypeOf(notice.trigger), description: notice.description };
  if (notice.subject === "flow")
    return { ...head, org: notice.org, flow: notice.flow, ...what, ...flowParts(notice, links) };
  const { snapshot: moment } = notice;
  const payload = {
    ...head,
    org: moment.org,
    environment: moment.environment,
    ...what,
    snapshot: {
      index: String(moment.index),
      // Two words and no third: what is not known to be compliant is not.
      status: moment.compliant === true ? "compliant" : "non-compliant",
      html_url: snapshotPageUrl(moment, links),
      api_url: snapshotApiUrl(moment, links),
    },
  };
  if (notice.subject === "environment") return payload;
  const { name, fingerprint, provenance } = notice.artifact;
  return {
    ...payload,
    artifact: { name, fingerprint, ...(provenance ? { provenance: provenanceOf(moment.org, provenance, links) } : {}) },
  };
}

/** Whole epoch seconds. */
export const timestampOf = (at: number): string => formatEpoch(Math.floor(at));

const provenanceOf = (
  org: string,
  { flow, state, fingerprint, commit, commitUrl, buildUrl, artifactId, selector }: Provenance,
  links: EventLinks,
): Payload => ({
  flow,
  status: state.toLowerCase(),
  commit,
  commit_url: commitUrl,
  html_url: links.artifactPage(org, flow, { fingerprint, id: artifactId }),
  api_url: links.artifactApi(org, flow, { fingerprint, selector }),
  build_url: buildUrl,
});

/** Of events in flows, which the contract does not describe: the same words in the same places. */
function flowParts({ org, flow, trail, artifact, attestation }: EventFlow, links: EventLinks): Payload {
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
            commit: artifact.commit,
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
            html_url: trail ? links.attestationPage(org, flow, trail.name, attestation.id) : links.flowPage(org, flow),
            api_url: links.attestationApi(org, attestation.id),
          },
        }
      : {}),
  };
}
