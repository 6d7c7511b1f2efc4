import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createEventComposer } from "../../../src/domain/attestation/event.ts";
import type { AttestationEventDetail, EventRecord } from "../../../src/domain/attestation/event.ts";

const test = suite("domain/attestation/event");

const RECORD: EventRecord = {
  public_id: "01a2076d-0000-7000-8000-00000000",
  name: "tests",
  attestation_type: "junit",
  is_compliant: 0,
  artifact_fingerprint: "f".repeat(64),
  git_commit_info_json: '{"sha1":"abc","message":"Größe"}',
  repo_info_json: '{"name":"shop","url":"https://git.test/shop","provider":"github","extra":1}',
};

const composeAttestationEvent = (record: EventRecord, detail: AttestationEventDetail): string =>
  createEventComposer()(record, JSON.stringify(detail));

test("an event has the members of its record and its own, in the order of all events", () => {
  const detail = {
    target_artifact: "server",
    artifact_id: "01a2",
    artifact_name: "server:1",
    is_reattestation: true,
  } as const;
  assert.is(
    composeAttestationEvent(RECORD, detail),
    '{"attestation_type":"junit","attestation_id":"01a2076d-0000-7000-8000-00000000","is_compliant":false,' +
      `"template_reference_name":"tests","target_artifact":"server","artifact_fingerprint":"${"f".repeat(64)}",` +
      '"artifact_id":"01a2","artifact_name":"server:1","is_reattestation":true,' +
      '"git_commit_info":{"sha1":"abc","message":"Größe"},' +
      '"repo_info":{"name":"shop","url":"https://git.test/shop","id":"","description":"","provider":"github"}}',
  );
});

test("what was not reported is left out or null", () => {
  const record = { ...RECORD, artifact_fingerprint: null, git_commit_info_json: null, repo_info_json: null };
  assert.equal(JSON.parse(composeAttestationEvent(record, { is_reattestation: null })), {
    attestation_type: "junit",
    attestation_id: RECORD.public_id,
    is_compliant: false,
    template_reference_name: "tests",
    is_reattestation: null,
    git_commit_info: null,
    repo_info: null,
  });
});

test("an event without a commit stays without one, even if its record has that of an earlier record", () => {
  const event = JSON.parse(composeAttestationEvent(RECORD, { is_reattestation: true, git_commit_info: null }));
  assert.is(event.git_commit_info, null);
});

test("a damaged record throws", () => {
  assert.throws(() => composeAttestationEvent({ ...RECORD, repo_info_json: "{" }, { is_reattestation: null }));
});

test("an event is the same whatever events were composed before it", () => {
  const record = fc.record({
    public_id: fc.constantFrom("01a2", "01a3"),
    name: fc.constantFrom("tests", 'a "review"'),
    attestation_type: fc.constantFrom("junit", "generic"),
    is_compliant: fc.constantFrom(0 as const, 1 as const),
    artifact_fingerprint: fc.constantFrom(null, "f".repeat(64)),
    git_commit_info_json: fc.constantFrom(null, RECORD.git_commit_info_json, '{"sha1":"def"}', "{"),
    repo_info_json: fc.constantFrom(null, "null", RECORD.repo_info_json, '{"name":"a","url":"b"}', "["),
  });
  const detail = fc.constantFrom(
    '{"is_reattestation":true}',
    '{"is_reattestation":null,"git_commit_info":null}',
    '{"target_artifact":"server","artifact_id":"01a2","artifact_name":"server:1","is_reattestation":null}',
    "null",
    "{",
  );
  const outcome = (compose: () => string): string => {
    try {
      return compose();
    } catch {
      return "damaged";
    }
  };
  fc.assert(
    fc.property(fc.array(fc.tuple(record, detail), { maxLength: 6 }), (events) => {
      const composeNext = createEventComposer();
      for (const event of events)
        assert.is(
          outcome(() => composeNext(...event)),
          outcome(() => createEventComposer()(...event)),
        );
    }),
  );
});

test.run();
