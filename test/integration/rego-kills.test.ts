/** The executable, killed between the request for an evaluation and its verdict (newer-clients 7.2). */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { SLOW } from "../api/policies/rego-given.ts";
import { expectStatus } from "../binary/client.ts";
import type { Json } from "../binary/client.ts";
import { startRuntimeServer } from "../binary/runtime-server.ts";
import type { RuntimeServer } from "../binary/runtime-server.ts";

const test = suite("integration/rego-kills");
let server: RuntimeServer;
test.before(async () => void (server = await startRuntimeServer()));
test.after(() => server.close());

/** Lists what the trail had when the evaluation was requested. Clock and randomness are those of the request, too. */
const GATE = `# METADATA
# entrypoint: true
package gate

# METADATA
# entrypoint: true
default allow := false

allow if "late" in names

names contains name if some name, _ in input.trail.compliance_status.attestations_statuses

# METADATA
# entrypoint: true
violations contains sprintf("%s is not late", [name]) if some name in names

# METADATA
# entrypoint: true
drawn := [rand.intn("a", 1000000000), time.now_ns()]
`;
const TRAIL = { flow: "gates", trail: "t1" };

const evaluate = (source: string, more: object = {}): Promise<any> =>
  expectStatus(
    server.json("POST", "/evaluations/acme", {
      context: { trails: [TRAIL] },
      policy: { files: { "gate.rego": source } },
      ...more,
    }),
    201,
  );
async function ended(id: string): Promise<Json> {
  for (;;) {
    const body = await server.read(`/evaluations/acme/${id}`);
    if (body.status !== "pending") return body;
  }
}
const countDecisions = async (): Promise<number> => (await server.read("/controls/acme/C1/decisions")).decisions.length;
const attest = (name: string): Promise<unknown> => server.attest({ ...TRAIL, name });

test("what was pending at a kill ends with the verdict of its request, and one decision", async () => {
  await server.createFlow(TRAIL.flow);
  await server.reportArtifact({ ...TRAIL, name: "app" });
  await expectStatus(server.as("admin").json("POST", "/controls/acme", { identifier: "C1", name: "One" }), 201);
  await attest("scan");

  // With the start of the engine more than a second of a processor, so that the kill comes first; little enough for a
  // busy machine to end it in time afterwards. The second one waits for the other one of its caller.
  const running = await evaluate(SLOW.replace("1, 1000", "1, 400"));
  const decision = { control: "C1", name: "gate", ...TRAIL };
  const waiting = await evaluate(GATE, { decision, params: { n: 1 } });
  await attest("late");
  const killedAt = Date.now() / 1_000;
  await server.restart("SIGKILL");

  const first = await ended(waiting.id);
  assert.ok(first["recorded_at"] > killedAt, "the kill came before the verdict");
  assert.is((await ended(running.id))["status"], "completed");
  const { result, requested_at, decision_attestation_id: attestation } = first;
  assert.is(requested_at, waiting.requested_at);
  assert.equal([result.allow, result.violations], [false, ["scan is not late"]]);
  assert.is(result.drawn[1], Number(BigInt(Math.round(requested_at * 1e6)) * 1_000n));
  assert.type(attestation, "string");
  assert.is(await countDecisions(), 1);

  await server.restart("SIGKILL");
  assert.equal(await ended(waiting.id), first);
  assert.is(await countDecisions(), 1);

  const later = await evaluate(GATE);
  assert.is((await ended(later.id))["result"].allow, true);
});

test.run();
