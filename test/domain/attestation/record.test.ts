import { suite } from "uvu";
import * as assert from "uvu/assert";
import { factOf, isReattestation } from "../../../src/domain/attestation/record.ts";
import type { AttestationRecord } from "../../../src/domain/attestation/record.ts";

const test = suite("the record that counts");

const report = (attestationId: string, isCompliant: boolean, type = "snyk"): AttestationRecord => ({ attestationId, name: "scan", type, overrides: null, isCompliant });
const override = (attestationId: string, isCompliant: boolean, overrides = "snyk"): AttestationRecord => ({ attestationId, name: "scan", type: "override", overrides, isCompliant });
const fact = (type: string, attestationId: string | null, overriddenAttestationId: string | null, isCompliant: boolean) => ({ name: "scan", type, attestationId, overriddenAttestationId, isCompliant });

const table: [what: string, oldestFirst: AttestationRecord[], expected: ReturnType<typeof factOf>][] = [
  ["nothing", [], null],
  ["a single report", [report("a", false)], fact("snyk", "a", null, false)],
  ["the latest of two, also of another type", [report("a", true), report("b", false, "generic")], fact("generic", "b", null, false)],
  ["override of a failure (decision 53)", [report("a", false), override("o", true)], fact("snyk", "a", "o", true)],
  ["override of a pass", [report("a", true), override("o", false)], fact("snyk", "a", "o", false)],
  ["the original's type wins over the override's word", [report("a", false, "custom:x"), override("o", true, "generic")], fact("custom:x", "a", "o", true)],
  ["the latest of two overrides", [report("a", false), override("o", true), override("p", false)], fact("snyk", "a", "p", false)],
  ["a report ends the override (decision 11)", [report("a", false), override("o", true), report("b", false)], fact("snyk", "b", null, false)],
  ["override of the newest report", [report("a", true), report("b", false), override("o", true)], fact("snyk", "b", "o", true)],
  ["override of a name never reported (decision 12)", [override("o", true)], fact("snyk", null, "o", true)],
  ["the same of a decision", [override("o", true, "decision")], fact("system:decision", null, "o", true)],
  ["the same of some custom type", [override("o", true, "custom")], fact("custom", null, "o", true)],
];
for (const [what, oldestFirst, expected] of table) {
  test(what, () => assert.equal(factOf(oldestFirst.toReversed()), expected));
}

test("a repeat says true, the first report null (decision 51)", () => {
  assert.is(isReattestation(0), null);
  assert.is(isReattestation(1), true);
});

test.run();
