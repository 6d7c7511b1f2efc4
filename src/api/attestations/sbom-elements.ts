/** Which minimum elements an SBOM lacks: a warning for its readers (newer-clients 2.4). */
import { Type } from "typebox";
import { SBOM_LABEL } from "../../domain/attestation/kinds.ts";
import { ASKERS, checkElements } from "../../domain/sbom/elements.ts";
import type { SbomFacts } from "../../domain/sbom/elements.ts";
import { readSbomSummary } from "../../domain/sbom/summary.ts";
import { badRequest } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Message, Nullable, OneOf, named } from "../../http/schema.ts";
import { stringifyJson } from "../../json/text.ts";
import { singleAllowance, withLargeJson } from "../../contract/large-json.ts";
import { readReportedMembers } from "../../contract/reported-json.ts";
import type { PlacedAttestationRow } from "../../store/attestations/attestation-rows.ts";
import { MAX_SBOM_BYTES, TOO_LARGE } from "../../workers/sbom-document.ts";
import { operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { documentLane } from "../flows/flows.ts";
import { NoQuery } from "../paths.ts";
import { AttestationPath, requireOnTrail } from "./evidence.ts";

const SbomElements = named(
  "SbomElements",
  Closed({
    attestation_id: Type.String(),
    looked_at: OneOf(["document", "summary"], {
      description: "The attached document, or only what the client reported about it",
    }),
    not_read: Nullable(Type.String({ description: "Why the document was not read, after 'because'" })),
    components: Nullable(Type.Integer({ description: "How many components it has; null if that is not known" })),
    missing: Type.Array(
      Closed({
        element: Type.String(),
        words: Type.String({ description: "The element for people" }),
        asked_by: Type.Array(OneOf(ASKERS)),
        components: Nullable(
          Type.Integer({ description: "How many components lack it; null for an element of the whole document" }),
        ),
      }),
    ),
    unknown: Type.Array(Type.String(), { description: "Elements, for people, of which nothing is known" }),
  }),
);

type Document = { facts: SbomFacts } | { unread: string };

/** @throws AppError as reading evidence does */
async function readDocument(context: ReadingContext, row: PlacedAttestationRow): Promise<Document> {
  const { evidence_digest: digest, evidence_size: size } = row;
  if (digest === null || size === null) return { unread: "no file is attached" };
  if (size > MAX_SBOM_BYTES) return TOO_LARGE;
  return context.documents.readSbom(documentLane(context), digest, async () => {
    const chunks: Buffer[] = [];
    for await (const chunk of await context.evidence.open({ digest, size }, null)) chunks.push(chunk as Buffer);
    return Buffer.concat(chunks);
  });
}

function summaryOf(context: ReadingContext, row: PlacedAttestationRow) {
  const { payload_json } = withLargeJson(context, row, { table: "attestations", allowance: singleAllowance(context) });
  const { attestation_data: data = null } = readReportedMembers(payload_json);
  return readSbomSummary(JSON.parse(stringifyJson(data)));
}

export const getSbomElements = operation({
  id: "get_attestation_sbom",
  method: "GET",
  path: "/attestations/{org}/{flow_name}/trail/{trail_name}/attestation/{attestation_id}/sbom",
  tag: "Attestation",
  summary: "List the minimum elements that an SBOM lacks",
  description:
    "Compares an SBOM with the minimum elements of CISA (draft of 2025) and of BSI TR-03183-2: the document where it " +
    "is attached, has at most 8 MB and is CycloneDX as JSON or SPDX 2, else what the client reported about it. What " +
    "is missing is a warning and never a verdict.",
  permission: "attestation:read",
  audit: null,
  origin: "assay",
  params: AttestationPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "What is missing", schema: SbomElements },
    400: { description: "The attestation is of another type", schema: Message },
    404: { description: "No such attestation on the trail", schema: Message },
  },
  example: {
    params: {
      org: "acme",
      flow_name: "backend",
      trail_name: "release-1",
      attestation_id: "0f5c9a1d-2b3e-4f50-8172-8394a5b6",
    },
  },
  async prepare(context, { params }) {
    const row = requireOnTrail(context, params);
    if (row.type !== SBOM_LABEL)
      throw badRequest(`Attestation '${params.attestation_id}' is of type '${row.type}' and not an SBOM`);
    const document = await readDocument(context, row);
    const unread = "unread" in document ? document.unread : null;
    const check = checkElements(summaryOf(context, row), "facts" in document ? document.facts : null);
    return {
      attestation_id: row.public_id,
      looked_at: unread === null ? ("document" as const) : ("summary" as const),
      not_read: unread,
      ...check,
    };
  },
  handle: (_context, _input, body) => ({ status: 200, body }),
});
