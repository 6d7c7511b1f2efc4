/**
 * The verdict that a report stores follows from the facts before it and the one that it adds
 * (`evaluateRecorded`). After any sequence of reports it equals the verdict that the database alone gives.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { findDifferences } from "../../../src/store/flows/trail-evaluation.ts";
import { startServer } from "../../given.ts";

const test = suite("api/attestations/incremental");

const TEMPLATE = `version: 1
trail:
  attestations:
    - { name: review, type: generic }
  artifacts:
    - name: backend
      attestations:
        - { name: tests, type: generic }
        - { name: scan, type: "*" }
    - name: frontend
      attestations:
        - { name: tests, type: generic }
`;
const COMMIT = "a".repeat(40);
const FINGERPRINTS = ["1", "2", "3"].map((digit) => digit.repeat(64));
const SEEDS = [1, 2, 3, 4];
const REPORTS = 40;

for (const seed of SEEDS)
  test(`stored verdicts equal those of a re-evaluation after random reports, seed ${seed}`, async () => {
    const server = await startServer();
    try {
      const at = await server.given.org();
      const flow = await server.given.flow(at, { template: TEMPLATE });
      const pick = createPicker(seed);
      for (let batch = 0; batch < REPORTS / 4; batch += 1)
        await Promise.all(
          Array.from({ length: 4 }, () => {
            const { method, path, ...input } = nextReport(pick, `${at.org}/${flow}`);
            return server.call(method, path, { key: at.key, ...input });
          }),
        );
      assertVerdictsAreRight(server, { minReports: REPORTS / 8 + 1 });
    } finally {
      await server.stop();
    }
  });

test("a report about a trail reads the facts of the trail once", async () => {
  const server = await startServer();
  try {
    const at = await server.given.org();
    const flow = await server.given.flow(at, { template: TEMPLATE });
    const trail = await server.given.trail(at, { flow });
    const { readFacts } = server.store.attestations;
    let reads = 0;
    server.store.attestations.readFacts = (id) => {
      reads += 1;
      return readFacts(id);
    };
    const path = `/attestations/${at.org}/${flow}/trail/${trail}/generic`;
    const json = { attestation_name: "review", is_compliant: true };
    assert.is((await server.call("POST", path, { key: at.key, form: { json } })).status, 201);
    assert.is(reads, 1);
    assertVerdictsAreRight(server, { minReports: 1 });
  } finally {
    await server.stop();
  }
});

type Picker = <T>(...choices: readonly T[]) => T;
function createPicker(seed: number): Picker {
  let state = seed;
  return (...choices) => {
    // A linear congruential generator; its high bits are random enough.
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return choices[Math.floor((state / 2 ** 31) * choices.length)] as (typeof choices)[number];
  };
}

/** A report about one of two trails: mostly attestations, accepted and refused ones, of all bindings. */
function nextReport(pick: Picker, place: string) {
  const [org, flow] = place.split("/");
  const trail = pick("one", "two");
  const json = {
    attestation_name: pick("review", "tests", "scan", "extra"),
    ...pick<object>(
      {},
      { artifact_fingerprint: pick(...FINGERPRINTS) },
      { target_artifacts: [pick("backend", "frontend")], git_commit_info: { sha1: COMMIT } },
      { target_artifacts: [pick("backend", "frontend")] },
    ),
  };
  const attest = (kind: string, fields: object) => ({
    method: "POST" as const,
    path: `/attestations/${org}/${flow}/trail/${trail}/${kind}`,
    ...(kind === "override" ? { body: { ...json, ...fields } } : { form: { json: { ...json, ...fields } } }),
  });
  const artifact = {
    method: "POST" as const,
    path: `/artifacts/${org}/${flow}`,
    body: {
      trail_name: trail,
      template_reference_name: pick("backend", "frontend", null),
      fingerprint: pick(...FINGERPRINTS),
      filename: "artifact",
      git_commit: pick(COMMIT, "b".repeat(40)),
      build_url: "https://ci.test/1",
      commit_url: "https://git.test/1",
    },
  };
  const begin = { method: "PUT" as const, path: `/trails/${org}/${flow}`, form: { json: { name: trail } } };
  const generic = () => attest("generic", { is_compliant: pick(true, false) });
  const override = () =>
    attest("override", {
      original_attestation_type: "generic",
      new_compliance_status: pick(true, false),
      reason: "checked by hand",
    });
  return pick<typeof begin | typeof artifact | ReturnType<typeof attest>>(
    generic(),
    generic(),
    generic(),
    override(),
    artifact,
    artifact,
    begin,
  );
}

function assertVerdictsAreRight(
  { db, store }: Awaited<ReturnType<typeof startServer>>,
  { minReports }: { minReports: number },
): void {
  const ids = db.prepare<[], number>("SELECT id FROM trails").pluck().all();
  assert.ok(ids.length > 0);
  for (const id of ids) {
    const trail = store.trails.get(id);
    const { evaluated_at } = JSON.parse(trail.compliance_json) as { evaluated_at: number };
    assert.equal(findDifferences(trail, store.trailEvaluation.computeVerdicts(id, evaluated_at)), []);
  }
  const attested = db.prepare("SELECT count(*) FROM attestations").pluck().get() as number;
  assert.ok(attested >= minReports, `only ${attested} reports were accepted`);
}

test.run();
