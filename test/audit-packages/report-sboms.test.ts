/** Warnings of the readable report about SBOMs: what they say, and which documents are read for them. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { DamagedMemberError } from "../../src/audit-packages/evidence.ts";
import type { EvidenceFiles } from "../../src/audit-packages/evidence.ts";
import { toReportAttestation } from "../../src/audit-packages/report-attestation.ts";
import { warnAboutSboms } from "../../src/audit-packages/report-sboms.ts";
import type { PlacedAttestationRow } from "../../src/store/attestations/attestation-rows.ts";

const test = suite("audit-packages/report-sboms");

const DOCUMENT = JSON.stringify({
  bomFormat: "CycloneDX",
  metadata: { timestamp: "2026-01-31T12:00:00Z", tools: [{ name: "syft" }] },
  components: [{ name: "a", version: "1" }, { name: "b" }],
});
const DATA = {
  format: "cyclonedx-1.6",
  original_fingerprint: "a".repeat(64),
  document: { created_at: "2026-01-31T12:00:00Z", tools: ["syft"], subject: { name: "app" }, package_count: 2 },
};
const rowOf = (more: Partial<PlacedAttestationRow> = {}, data: unknown = DATA): PlacedAttestationRow =>
  ({
    type: "system:sbom",
    control: null,
    description: null,
    evidence_digest: "a".repeat(64),
    evidence_size: DOCUMENT.length,
    evidence_filename: "app.cdx.json",
    reasons_json: "[]",
    overridden_type: null,
    payload_json: JSON.stringify({ type_name: "sbom", attestation_data: data }),
    ...more,
  }) as PlacedAttestationRow;
const filesOf = (read: EvidenceFiles["read"]): EvidenceFiles => ({ state: () => "included", read });
const LOCAL = filesOf(function* () {
  yield Buffer.from(DOCUMENT);
});
function warningsOf(row: PlacedAttestationRow, files = LOCAL, state: "included" | "missing" | null = "included") {
  const attestation = toReportAttestation(row, "the trail", state);
  warnAboutSboms([attestation], files);
  return attestation.warnings;
}
const basis = (unread: string): string =>
  `Only what the client reported was looked at: the document was not read, because ${unread}.`;

test("shows format, subject, packages, tools and time of an SBOM, and its type without prefix", () => {
  const { type, facts } = toReportAttestation(rowOf(), "the trail", "included");
  assert.equal(
    { type, facts },
    {
      type: "sbom",
      facts: ["Format: CycloneDX 1.6", "About: app", "Packages: 2", "Tools: syft", "Created: 2026-01-31T12:00:00Z"],
    },
  );
  assert.equal(toReportAttestation(rowOf({}, { format: "x" }), "the trail", null).facts, [
    "Format: x",
    "About: not stated",
    "Packages: not stated",
    "Tools: not stated",
    "Created: not stated",
  ]);
});

test("warns of what the attached document lacks", () => {
  const both = "producer (2 of 2 components lack it), version (1 of 2 components lack it), licence (2 of 2 components";
  assert.equal(warningsOf(rowOf()), [
    "Minimum elements of an SBOM are missing, which is a warning and no verdict. The attached document was read.",
    `CISA and BSI: author of the SBOM, dependencies between components, ${both} lack it)`,
    "CISA: lifecycle phase in which it was made, identifier such as a package URL (2 of 2 components lack it), " +
      "hash (2 of 2 components lack it)",
    "BSI: SHA-512 hash (2 of 2 components lack it), file name and whether it is executable, an archive or structured " +
      "(2 of 2 components lack it)",
  ]);
});

test("says why a document was not read, and warns of what is known without it", () => {
  const none = "No minimum element of an SBOM is missing, as far as is known.";
  const remote = filesOf(function* () {
    yield Buffer.alloc(0);
    yield Buffer.from(DOCUMENT);
  });
  const damaged = filesOf(function* () {
    if (DOCUMENT === "") yield Buffer.alloc(0);
    throw new DamagedMemberError("a".repeat(64), "s", "it changed");
  });
  for (const [warnings, unread] of [
    [warningsOf(rowOf({ evidence_digest: null, evidence_size: null }), LOCAL, null), "no file is attached"],
    [warningsOf(rowOf(), LOCAL, "missing"), "it is missing on the server"],
    [warningsOf(rowOf({ evidence_size: 1_048_577 })), "it is larger than 1 MB, which is what a report reads"],
    [warningsOf(rowOf(), remote), "it is on remote storage, which a report does not read"],
    [warningsOf(rowOf(), damaged), "it is damaged on the server"],
  ] as const)
    assert.equal(warnings, [`${none} ${basis(unread)}`]);
  const bare = rowOf({ evidence_digest: null, evidence_size: null }, { format: "spdx-2.3" });
  assert.equal(warningsOf(bare, LOCAL, null), [
    `Minimum elements of an SBOM are missing, which is a warning and no verdict. ${basis("no file is attached")}`,
    "BSI: CycloneDX 1.6, SPDX 3.0.1, or a later version",
    "CISA and BSI: time of its creation",
    "CISA: tool that made it",
  ]);
});

test("reads the latest twenty documents of a report", () => {
  const all = Array.from({ length: 22 }, () => toReportAttestation(rowOf(), "the trail", "included"));
  warnAboutSboms(all, LOCAL);
  const notRead = all.map(({ warnings }) => warnings[0]?.includes("was not read"));
  assert.equal(notRead, [true, true, ...Array.from({ length: 20 }, () => false)]);
  assert.ok(all[0]?.warnings[0]?.includes("because a report reads the latest 20 documents"));
});

test("other attestations have no warnings, and a damaged record has those of nothing known", () => {
  assert.equal(warningsOf(rowOf({ type: "generic" })), []);
  assert.equal(warningsOf(rowOf({ payload_json: "{", evidence_digest: null }), LOCAL, null), [
    `Minimum elements of an SBOM are missing, which is a warning and no verdict. ${basis("no file is attached")}`,
    "CISA and BSI: time of its creation",
    "CISA: tool that made it",
  ]);
});

test.run();
