/** Warnings of the readable report about SBOMs that lack minimum elements (newer-clients 2.4). */
import { checkElements, describeBasis, describeMissing } from "../domain/sbom/elements.ts";
import type { ReadDocument } from "../domain/sbom/document.ts";
import { readBoundedSbom } from "../workers/sbom-document.ts";
import { DamagedMemberError } from "./evidence.ts";
import type { EvidenceFiles } from "./evidence.ts";
import type { ReportAttestation } from "./report.ts";

/** Documents that a report reads, the latest ones: each may take 0.1 s, for which other packages wait. */
const MAX_READ_SBOMS = 20;
/** Of one document. In memory it takes thirty times as much, beside everything else that the thread holds. */
const MAX_READ_BYTES = 1024 * 1024;

const REMOTE: ReadDocument = { unread: "it is on remote storage, which a report does not read" };

/** Adds the warnings to the SBOMs among the attestations of a report, oldest first. */
export function warnAboutSboms(attestations: readonly ReportAttestation[], files: EvidenceFiles): void {
  let left = MAX_READ_SBOMS;
  for (const attestation of [...attestations].reverse()) {
    const { sbom, evidence } = attestation;
    if (sbom === null) continue;
    const document = readDocument(evidence, files, left);
    if ("facts" in document) left -= 1;
    const check = checkElements(sbom, "facts" in document ? document.facts : null);
    const basis = describeBasis("unread" in document ? document.unread : null);
    const lines = describeMissing(check);
    attestation.warnings =
      lines.length > 0
        ? [`Minimum elements of an SBOM are missing, which is a warning and no verdict. ${basis}`, ...lines]
        : [`No minimum element of an SBOM is missing, as far as is known. ${basis}`];
  }
}

function readDocument(evidence: ReportAttestation["evidence"], files: EvidenceFiles, left: number): ReadDocument {
  if (evidence === null) return { unread: "no file is attached" };
  if (evidence.state !== "included") return { unread: `it is ${evidence.state} on the server` };
  if (evidence.size > MAX_READ_BYTES) return { unread: "it is larger than 1 MB, which is what a report reads" };
  if (left === 0) return { unread: `a report reads the latest ${MAX_READ_SBOMS} documents` };
  const blocks: Uint8Array[] = [];
  try {
    for (const block of files.read(evidence.digest, evidence.size)) {
      // A block of a remote file, which arrives later.
      if (block.length === 0 && evidence.size > 0) return REMOTE;
      blocks.push(block);
    }
  } catch (error) {
    if (!(error instanceof DamagedMemberError)) throw error;
    return { unread: "it is damaged on the server" };
  }
  return readBoundedSbom(Buffer.concat(blocks));
}
