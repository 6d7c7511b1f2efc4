/**
 * Trails at their limits, on a server in a process of its own: neither a report to one nor an artifact that gets all
 * attestations that wait for it keeps the main thread busy for more than 50 ms of processor time.
 */
import { hash } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { attackedServer } from "./attacked.ts";
import { MAX_TRAIL_CHECKS, MAX_WAITING_ATTESTATIONS } from "../../src/domain/compliance/trail-size.ts";
import { formRequest, jsonRequest } from "./attack.ts";
import type { AttackRequest } from "./attack.ts";
import { MAX_BUSY_MS } from "./loop-delay.ts";
import { send } from "./world.ts";

/** The shortest of several counts: other load on the machine only makes a measurement longer. */
const TRIES = 5;
const AT_ONCE = 20;
/** Artifacts of one name, each of which is to have so many attestations. */
const [ARTIFACTS, CHECKS] = [5, 1_990];
const COMMIT = "0f".repeat(20);
const test = suite("attacks/large-trail");
const attacked = attackedServer(test);

async function record(request: AttackRequest): Promise<void> {
  const answer = await send(attacked.server.url, request);
  assert.ok(answer?.status === 201, `${request.path}: ${answer?.status} ${answer?.text}`);
}

const begin = (name: string, template: string): Promise<void> =>
  record(
    formRequest("PUT", `/trails/${attacked.world.org}/${attacked.world.flow}`, attacked.world.memberKey, {
      json: JSON.stringify({ name }),
      file: { part: "template_file", content: template },
    }),
  );

/** Each number is another one of the same artifact. */
const fingerprintOf = (trail: string, number: number): string => hash("sha256", `${trail} ${number}`);

const artifact = (trail: string, number: number): AttackRequest =>
  jsonRequest(
    "POST",
    `/artifacts/${attacked.world.org}/${attacked.world.flow}`,
    attacked.world.memberKey,
    JSON.stringify({
      fingerprint: fingerprintOf(trail, number),
      filename: "app",
      git_commit: COMMIT,
      build_url: "https://ci.example.com/1",
      commit_url: "https://git.example.com/1",
      trail_name: trail,
      template_reference_name: "app",
    }),
  );

const attestation = (trail: string, data: object): AttackRequest =>
  formRequest(
    "POST",
    `/attestations/${attacked.world.org}/${attacked.world.flow}/trail/${trail}/generic`,
    attacked.world.memberKey,
    {
      json: JSON.stringify({ is_compliant: true, ...data }),
    },
  );

/** @returns the fewest milliseconds for which the main thread was busy without yielding, of several requests */
async function leastBusy(request: (turn: number) => AttackRequest): Promise<number> {
  let least = Infinity;
  for (let turn = 0; turn < TRIES && least > MAX_BUSY_MS; turn += 1) {
    await attacked.server.reset();
    await record(request(turn));
    const { busiest } = await attacked.server.report();
    least = Math.min(least, busiest);
  }
  return least;
}

test(`a report to a trail that expects ${ARTIFACTS * CHECKS} of at most ${MAX_TRAIL_CHECKS} attestations`, async () => {
  const names = Array.from({ length: CHECKS }, (_, n) => `        - { name: check-${n}, type: generic }\n`);
  await begin("many", `version: 1\ntrail:\n  artifacts:\n    - name: app\n      attestations:\n${names.join("")}`);
  for (let n = 0; n < ARTIFACTS; n += 1) await record(artifact("many", n));
  const busy = await leastBusy((turn) =>
    attestation("many", { attestation_name: `check-${turn}`, artifact_fingerprint: fingerprintOf("many", 0) }),
  );

  assert.ok(busy <= MAX_BUSY_MS, `the main thread was busy for ${busy.toFixed(0)} ms`);
});

test(`an artifact for which ${MAX_WAITING_ATTESTATIONS} attestations wait`, async () => {
  await begin("waiting", "version: 1\ntrail:\n  artifacts:\n    - name: app\n");
  const git_commit_info = { sha1: COMMIT, message: "m", author: "a", branch: "b", timestamp: 1, url: "" };
  const waiting = (n: number) =>
    attestation("waiting", { attestation_name: `check-${n}`, target_artifacts: ["app"], git_commit_info });
  for (let n = 0; n < MAX_WAITING_ATTESTATIONS; n += AT_ONCE)
    await Promise.all(Array.from({ length: AT_ONCE }, (_, k) => record(waiting(n + k))));
  const busy = await leastBusy((turn) => artifact("waiting", turn));

  assert.ok(busy <= MAX_BUSY_MS, `the main thread was busy for ${busy.toFixed(0)} ms`);
});

test.run();
