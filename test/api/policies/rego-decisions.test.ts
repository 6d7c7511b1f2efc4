/** Decisions that evaluations record (newer-clients 7.1). */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { until } from "../../patience.ts";
import { entriesOf, refused } from "../administration.ts";
import { SLOW, constant, regoClient } from "./rego-given.ts";
import type { At, Json } from "./rego-given.ts";

const test = suite("api/policies/rego-decisions");
let server: TestServer;
let rego: ReturnType<typeof regoClient>;
test.before(async () => {
  server = await startServer();
  rego = regoClient(server);
});
test.after(() => server.stop());

type World = Awaited<ReturnType<typeof world>>;
/** An organization with a trail, the control C1 and the policies `allow` and `deny`. */
async function world() {
  const at = await rego.world();
  await server.call("POST", `/controls/${at.org}`, { key: at.key, body: { identifier: "C1", name: "One" } });
  await rego.publish(at, "allow", { files: { "p.rego": constant(true) } });
  await rego.publish(at, "deny", {
    files: { "p.rego": 'package p\n\ndefault allow := false\n\nviolations contains "too old"\n' },
  });
  return at;
}
const destination = (at: World) => ({ control: "C1", name: "gate", flow: at.flow, trail: at.trail });
const request = (at: World, policy: unknown, decision: object = destination(at)) => ({
  context: { trails: at.trails },
  policy,
  decision,
});
const decisionsOf = async (at: At): Promise<Json[]> =>
  (await server.call("GET", `/controls/${at.org}/C1/decisions`, { key: at.key })).body.decisions;
const attestation = async (at: At, id: string): Promise<Json> =>
  (await server.call("GET", `/attestations/${at.org}?attestation_id=${id}`, { key: at.key })).body.data[0];

test("the verdict becomes a decision of the caller, once, with everything that it was made from", async () => {
  const at = await world();
  const scan = await server.given.attestation(at, { flow: at.flow, trail: at.trail, name: "scan" });
  const member = { org: at.org, key: server.given.user(at.org, "member") };
  let id = "";
  const entries = await entriesOf(server, async () => {
    const body = { ...request(at, { identifier: "deny" }), params: { days: 30 } };
    const created = await rego.evaluate(member, body);
    id = created.body.id;
    await rego.ended(member, id);
  });
  const evaluation = (await rego.evaluations(at, `/${id}`)).body;
  assert.equal(evaluation.decision, destination(at));
  const record = await attestation(at, evaluation.decision_attestation_id);
  assert.equal(
    {
      type: record["attestation_type"],
      name: record["attestation_name"],
      control: record["control"],
      version: record["control_version"],
      isCompliant: record["is_compliant"],
      by: record["reported_by"],
      at: record["created_at"],
      origin: record["origin_url"],
      type_name: record["type_name"],
    },
    {
      type: "system:decision",
      name: "gate",
      control: "C1",
      version: 1,
      isCompliant: false,
      by: evaluation.requested_by,
      at: evaluation.recorded_at,
      origin: null,
      type_name: "decision",
    },
  );
  assert.equal(record["attestation_data"], {
    is_compliant: false,
    evaluation: {
      id,
      requested_at: evaluation.requested_at,
      recorded_at: evaluation.recorded_at,
      policy: evaluation.policy,
      params: { days: 30 },
      trails: evaluation.trails,
      attestation_ids: [scan],
      violations: ["too old"],
      outputs: {},
      input_sha256: evaluation.input_sha256,
      engine: evaluation.engine,
    },
  });
  assert.equal(
    entries.map(({ event, actor_name, target, detail }: Json) => ({
      event,
      actor_name,
      target,
      detail,
    })),
    [
      {
        event: "evaluation.requested",
        actor_name: evaluation.requested_by,
        target: `/api/v2/evaluations/${at.org}`,
        detail: { evaluation_id: id, bundle_sha256: evaluation.policy.sha256, control: "C1" },
      },
      {
        event: "attestation.reported",
        actor_name: evaluation.requested_by,
        target: `/api/v2/attestations/${at.org}/${at.flow}/trail/${at.trail}/system`,
        detail: {
          evaluation_id: id,
          attestation_id: evaluation.decision_attestation_id,
          attestation_name: "gate",
          attestation_type: "system:decision",
          is_compliant: false,
          trail_state: "NON-COMPLIANT",
        },
      },
    ],
  );
  assert.equal(
    (await decisionsOf(at)).map(({ id: found }) => found),
    [evaluation.decision_attestation_id],
  );
  // The same again after a restart, for example, finds it ended.
  server.rego.evaluator.start();
  await server.rego.evaluator.whenIdle();
  assert.is((await decisionsOf(at)).length, 1);
});

test("a decision on an artifact counts for it, and an inline policy says so", async () => {
  const at = await world();
  const fingerprint = await server.given.artifact(at, { flow: at.flow, trail: at.trail, name: "app" });
  const created = await rego.evaluate(
    at,
    request(at, { files: { "p.rego": constant(true) } }, { ...destination(at), fingerprint }),
  );
  const { decision_attestation_id: id, decision } = await rego.ended(at, created.body.id);
  assert.is(decision.fingerprint, fingerprint);
  const record = await attestation(at, id);
  assert.equal([record["artifact_fingerprint"], record["is_compliant"]], [fingerprint, true]);
  assert.equal(Object.keys(record["attestation_data"].evaluation.policy).sort(), ["sha256", "source"]);
  assert.is(record["attestation_data"].evaluation.policy.source, "inline");
});

test("a decision counts as any other, for the version of its control at that moment", async () => {
  const at = await world();
  const flow = await server.given.flow(at, {
    template: "version: 1\ntrail:\n  artifacts:\n    - name: app\n      attestations: [{name: gate, type: decision}]\n",
  });
  const trail = await server.given.trail(at, { flow });
  const fingerprint = await server.given.artifact(at, { flow, trail, name: "app" });
  const policy = await server.given.policy(at, {
    yaml: "artifacts:\n  attestations:\n    - {type: decision, for_control: C1}\n",
  });
  const state = async () => {
    const { body: read } = await server.call("GET", `/trails/${at.org}/${flow}/${trail}`, { key: at.key });
    const path = `/asserts/${at.org}/fingerprint/${fingerprint}?policy_name=${policy}`;
    const { body: verdict } = await server.call("GET", path, { key: at.key });
    const [slot] = read.compliance_status.artifacts_statuses.app.attestations_statuses;
    const { status, is_compliant, unexpected } = slot;
    return { slot: { status, is_compliant, unexpected }, isCompliant: verdict.compliant };
  };
  const decide = async (identifier: string): Promise<Json> => {
    const destination = { control: "C1", name: "gate", flow, trail, fingerprint };
    const created = await rego.evaluate(at, request(at, { identifier }, destination));
    const { decision_attestation_id: id } = await rego.ended(at, created.body.id);
    return attestation(at, id);
  };
  const missing = { status: "MISSING", is_compliant: null, unexpected: false };
  assert.equal(await state(), { slot: missing, isCompliant: false });
  const denied = await decide("deny");
  assert.equal([denied["control"], denied["control_version"]], ["C1", 1]);
  const complete = { status: "COMPLETE", unexpected: false };
  assert.equal(await state(), { slot: { ...complete, is_compliant: false }, isCompliant: false });
  await server.call("PUT", `/controls/${at.org}/C1`, { key: at.key, body: { name: "One", description: "Stricter" } });
  const allowed = await decide("allow");
  assert.equal([allowed["control"], allowed["control_version"]], ["C1", 2]);
  assert.equal(await state(), { slot: { ...complete, is_compliant: true }, isCompliant: true });
  const found = (await decisionsOf(at)).map(({ id, is_compliant, control_version }) => [
    id,
    is_compliant,
    control_version,
  ]);
  assert.equal(found, [
    [allowed["attestation_id"], true, 2],
    [denied["attestation_id"], false, 1],
  ]);
});

test("verdict and decision are written together: a failed write leaves neither, and is made up for", async () => {
  const at = await world();
  // After the decision was inserted, as a full disk would.
  server.db.exec(
    "CREATE TEMP TRIGGER no_end BEFORE UPDATE OF status ON rego_evaluations " +
      "WHEN NEW.decision_attestation_id IS NOT NULL BEGIN SELECT raise(ABORT, 'no room for a verdict'); END",
  );
  let id = "";
  try {
    const entries = await entriesOf(server, async () => {
      id = (await rego.evaluate(at, request(at, { identifier: "allow" }))).body.id;
      await until("the write fails", () => server.lines.some((line) => line.includes("no room for a verdict")));
    });
    assert.equal(
      entries.map(({ event }) => event),
      ["evaluation.requested"],
    );
    assert.equal(await decisionsOf(at), []);
    const [waiting] = (await rego.evaluations(at, "?status=pending")).body.evaluations;
    assert.equal([waiting?.id, waiting?.decision_attestation_id, waiting?.result], [id, undefined, undefined]);
  } finally {
    server.db.exec("DROP TRIGGER no_end");
  }
  // As the next process does.
  server.rego.evaluator.start();
  const ended = await rego.ended(at, id);
  assert.equal(ended["result"], { allow: true, violations: [] });
  assert.equal(
    (await decisionsOf(at)).map((decision) => decision["id"]),
    [ended["decision_attestation_id"]],
  );
});

test("a failure of any kind writes no decision", async () => {
  const at = await world();
  for (const [files, kind] of [
    [{ "p.rego": "package p\n\nallow := 1\n" }, "result_shape"],
    [{ "p.rego": "package p\n\nallow if {\n" }, "compile"],
    [{ "p.rego": "package p\n\ndeny := true\n" }, "entrypoint"],
    [{ "data.json": "{}" }, "no_policy"],
    [{ "p.rego": "package p\n\nallow := x if some x in [true, false]\n" }, "evaluate"],
  ] as const) {
    const created = await rego.evaluate(at, request(at, { files }));
    const body = await rego.ended(at, created.body.id);
    assert.equal([body["status"], body["error"]?.kind], ["failed", kind]);
    assert.equal([body["decision_attestation_id"], body["decision_error"]], [undefined, undefined]);
    assert.equal(body["decision"], destination(at), "what was asked for is shown");
  }
  assert.equal(await decisionsOf(at), []);
});

test("a destination that is gone leaves the verdict alone, with the reason", async () => {
  const at = await world();
  const slow = await rego.evaluate(at, { context: { trails: at.trails }, policy: { files: { "p.rego": SLOW } } });
  const elsewhere = await server.given.flow(at);
  await server.given.trail(at, { flow: elsewhere, name: "t" });
  // The caller's second one waits for the first.
  const created = await rego.evaluate(
    at,
    request(at, { identifier: "allow" }, { ...destination(at), flow: elsewhere, trail: "t" }),
  );
  assert.is((await server.call("PUT", `/flows/${at.org}/${elsewhere}/archive`, { key: at.key })).status, 200);
  const body = await rego.ended(at, created.body.id);
  assert.equal([body.status, body.result], ["completed", { allow: true, violations: [] }]);
  assert.is(body.decision_attestation_id, undefined);
  assert.is(body.decision_error, `Flow named '${elsewhere}' has been archived for organization '${at.org}'`);
  assert.equal(await decisionsOf(at), []);
  assert.ok(server.lines.some((line) => line.includes(body.id) && line.includes("its destination is gone")));
  await rego.ended(at, slow.body.id);
});

test("an organization may take decisions with published policies only", async () => {
  const at = await world();
  const settings = { decisions_need_published_policy: true };
  const path = `/organizations/${at.org}/settings`;
  assert.is((await server.call("PATCH", path, { key: at.key, body: settings })).status, 200);
  const inline = { files: { "p.rego": constant(true) } };
  await refused(server, () => rego.evaluate(at, request(at, inline)), {
    status: 400,
    body: { message: "A decision can only be recorded with a published policy" },
  });
  const alone = await rego.evaluate(at, { context: { trails: at.trails }, policy: inline });
  assert.is((await rego.ended(at, alone.body.id)).result.allow, true);
  const published = await rego.evaluate(at, request(at, { identifier: "allow" }));
  assert.type((await rego.ended(at, published.body.id)).decision_attestation_id, "string");
});

test("an evaluation without a decision goes after its time, one with a decision stays with it", async () => {
  const at = await world();
  const without = (await rego.evaluate(at, { context: { trails: at.trails }, policy: { identifier: "allow" } })).body
    .id;
  await rego.ended(at, without);
  await server.given.attestation(at, { flow: at.flow, trail: at.trail, name: "scan" });
  const withOne = (await rego.evaluate(at, request(at, { identifier: "allow" }))).body.id;
  const ended = await rego.ended(at, withOne);
  const documents = (): unknown =>
    server.db
      .prepare(
        `SELECT count(*) FROM rego_documents WHERE digest IN
           (SELECT input_digest FROM rego_evaluations WHERE public_id IN (?, ?))`,
      )
      .pluck()
      .get(without, withOne);
  assert.is(documents(), 2);
  server.store.regoEvaluations.removeOld(ended.recorded_at + 1, 1_000);
  assert.is((await rego.evaluations(at, `/${without}`)).status, 404);
  assert.equal((await rego.evaluations(at, `/${withOne}`)).body, ended);
  assert.is(documents(), 1);
});

test.run();
