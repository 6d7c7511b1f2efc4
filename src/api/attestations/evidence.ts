/** Downloads of evidence. */
import { Type } from "typebox";
import type { Static } from "typebox";
import { notFound } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Message } from "../../http/schema.ts";
import { operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import type { PlacedAttestationRow } from "../../store/attestations/attestation-rows.ts";
import { requireTrail } from "../flows/trails.ts";
import { NoQuery } from "../paths.ts";

export const AttestationPath = Closed({
  org: Type.String(),
  flow_name: Type.String(),
  trail_name: Type.String(),
  attestation_id: Type.String(),
});

/** @throws AppError 404 for an attestation that is not on the trail, or whose flow or trail does not exist */
export function requireOnTrail(
  context: ReadingContext,
  { flow_name, trail_name, attestation_id }: Static<typeof AttestationPath>,
): PlacedAttestationRow {
  const { store, organization } = context;
  const flow = store.flows.require(organization, flow_name);
  const trail = requireTrail(context, { id: flow.id, name: flow_name }, trail_name);
  const row = store.attestations.findByPublicId(organization.id, attestation_id);
  if (row?.trail_id === trail.id) return row;
  throw notFound(
    `Attestation '${attestation_id}' does not exist in trail '${trail_name}' of flow ` +
      `'${flow_name}' belonging to organization '${organization.name}'`,
  );
}

export const getEvidence = operation({
  id: "get_attestation_evidence",
  method: "GET",
  path: "/attestations/{org}/{flow_name}/trail/{trail_name}/attestation/{attestation_id}/evidence",
  tag: "Attestation",
  summary: "Download the evidence of an attestation",
  description:
    "The file as uploaded, with its content type. Supports byte ranges; the ETag is the SHA-256 of the content.",
  permission: "attestation:read",
  audit: null,
  params: AttestationPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: {
      description: "The file, with the content type of its upload",
      // Generated clients use the first type, so it has to be the one that fits every file.
      contentType: ["application/octet-stream", "*/*"],
      schema: Type.String({ format: "binary" }),
      isDownload: true,
    },
    404: { description: "No such attestation on the trail, or it has no evidence", schema: Message },
  },
  example: {
    params: {
      org: "acme",
      flow_name: "backend",
      trail_name: "release-1",
      attestation_id: "0f5c9a1d-2b3e-4f50-8172-8394a5b6",
    },
  },
  handle(context, { params }) {
    const { organization, evidence } = context;
    const row = requireOnTrail(context, params);
    const { evidence_digest: digest, evidence_size: size } = row;
    if (digest === null || size === null)
      throw notFound(
        `Attestation '${params.attestation_id}' in organization '${organization.name}' has no evidence file`,
      );
    return {
      status: 200,
      download: {
        size,
        contentType: row.evidence_content_type ?? "application/octet-stream",
        filename: row.evidence_filename ?? "file",
        etag: digest,
        open: (range) => evidence.open({ digest, size }, range),
      },
    };
  },
});
