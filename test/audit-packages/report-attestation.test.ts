/** An attestation in the readable report. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { toReportAttestation } from "../../src/audit-packages/report-attestation.ts";
import type { PlacedAttestationRow } from "../../src/store/attestations/attestation-rows.ts";

const test = suite("audit-packages/report-attestation");

test("the data of a custom type has the digits that were reported, and its keys in their order", () => {
  const row = {
    type: "custom:any",
    control: null,
    description: null,
    evidence_digest: null,
    reasons_json: "[]",
    overridden_type: null,
    payload_json: '{"type_name":"any","attestation_data":{"n":9007199254740993,"10":1.0,"2":1e400}}',
  } as PlacedAttestationRow;
  assert.equal(toReportAttestation(row, "the trail", null).facts, ['Data: {"n":9007199254740993,"10":1.0,"2":1e400}']);
});

test.run();
