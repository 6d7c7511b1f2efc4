// Concurrent requests on one environment, through the executable: in whichever order they run, the history has no gaps,
// every response is one that the request could have had alone, and what was acknowledged survives a kill.

import { suite } from "uvu";
import * as assert from "uvu/assert";
import { until } from "../patience.ts";
import type { ApiResponse, Json } from "../binary/client.ts";
import {
  TRAIL_POLICY,
  PROVENANCE_POLICY,
  SCAN_TEMPLATE,
  fingerprintOf,
  reportItems,
  startRuntimeServer,
  policyYaml,
} from "../binary/runtime-server.ts";
import type { RuntimeServer } from "../binary/runtime-server.ts";

const test = suite("integration/runtime-races");
let server: RuntimeServer;
test.before(async () => void (server = await startRuntimeServer()));
test.after(() => server.close());

const SETS = [
  { "app:1": "race-1", shared: "race-shared" },
  { "app:2": "race-2", shared: "race-shared" },
];
const sendReport = (environment: string, index: number): Promise<ApiResponse> =>
  server.json("PUT", `/environments/acme/${environment}/report/docker`, {
    artifacts: reportItems(SETS[index % 2] as Record<string, string>),
  });
const runMany = <T>(count: number, make: (index: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, (_, index) => make(index)));
const countCreated = (answers: ApiResponse[]): number => answers.filter(({ status }) => status === 201).length;
const runningNames = ({ artifacts }: Json): string[] =>
  artifacts.filter(({ annotation }: Json) => annotation.now > 0).map(({ name }: Json) => name);

/**
 * Expects snapshots 1 to n without a gap in index or time. Each snapshot after the first runs the other set than the
 * one before it, unless policy changes made snapshots too (`alternating` false).
 */
async function expectHistory(environment: string, count: number, { alternating = true } = {}): Promise<void> {
  const list: Json[] = await server.read(`/snapshots/acme/${environment}?interval=&page=1&per_page=1000&reverse=true`);
  assert.equal(
    list.map(({ index }) => index),
    Array.from({ length: count }, (_, index) => index + 1),
    environment,
  );
  for (const [position, { from, to }] of list.entries())
    assert.is(to, list[position + 1]?.["from"] ?? 0, `${environment}#${position + 1} from ${from}`);
  const sets = await Promise.all(
    list.map(async ({ index }) => runningNames(await server.readSnapshot(environment, `${index}`)).join()),
  );
  assert.ok(
    sets.every((set) => SETS.some((one) => Object.keys(one).join() === set)),
    sets.join(" "),
  );
  if (alternating)
    for (const [position, set] of sets.slice(1).entries())
      assert.is.not(set, sets[position], `${environment}#${position + 2}`);
}

test("concurrent reports make one history per environment, and one for their logical environment", async () => {
  await server.createFlow("race");
  for (const label of ["race-1", "race-shared"])
    await server.reportArtifact({ flow: "race", trail: "t", name: label, label, reference: label });
  await server.putPolicy("race-policy", PROVENANCE_POLICY);
  const members = ["race-a", "race-b"];
  // The same PUT several times at once, as concurrent pipelines send it.
  const creating = await runMany(8, (index) =>
    server.json("PUT", "/environments/acme", {
      name: members[index % 2],
      type: "docker",
      description: "",
      policies: ["race-policy"],
    }),
  );
  assert.equal(
    creating.map(({ status, body }) => [status, body]),
    creating.map(() => [201, "OK"]),
  );
  await server.createEnvironment("race-all", "logical", { included_environments: members });

  const answers = await runMany(40, (index) => sendReport(members[index < 20 ? 0 : 1] as string, index));
  for (const { status, body } of answers)
    assert.ok((status === 200 || status === 201) && body === "OK", `${status} ${JSON.stringify(body)}`);
  const counts = [countCreated(answers.slice(0, 20)), countCreated(answers.slice(20))] as const;
  await expectHistory("race-a", counts[0]);
  await expectHistory("race-b", counts[1]);
  const list: Json[] = await server.read("/snapshots/acme/race-all?interval=&page=1&per_page=1000&reverse=true");
  assert.equal(
    list.map(({ index }) => index),
    Array.from({ length: counts[0] + counts[1] }, (_, index) => index + 1),
  );
  for (const member of members)
    assert.is(await server.readState(member), runningNames(await server.readSnapshot(member)).includes("app:1"));
  const both = [
    ...runningNames(await server.readSnapshot("race-a")),
    ...runningNames(await server.readSnapshot("race-b")),
  ];
  assert.equal(runningNames(await server.readSnapshot("race-all")), both);
});

test("renames, policy changes and allowlisting take effect while reports arrive", async () => {
  await server.createEnvironment("busy", "docker");
  for (const name of ["busy-one", "busy-two"]) await server.putPolicy(name, PROVENANCE_POLICY);
  const paths = "/environments/acme/busy/policies";
  const allow = { artifact_fingerprint: fingerprintOf("race-1"), artifact_name: "app", description: "known" };
  const changes = () => [
    server.json("PUT", "/environments/acme/busy/rename", { new_name: "busy-now" }),
    server.json("POST", paths, { policy_names: ["busy-one"] }),
    server.json("POST", paths, { policy_names: ["busy-two"] }),
    server.json("DELETE", paths, { policy_names: ["busy-one"] }),
    server.json("PUT", "/allowlists/acme/busy", allow),
    server.json("PATCH", "/environments/acme/busy", { description: "busy" }),
    server.json("PATCH", "/tags/acme/environment/busy", { set_tags: { busy: "1" }, remove_tags: null }),
  ];
  const [before, changed, after] = await Promise.all([
    runMany(10, (index) => sendReport("busy", index)),
    Promise.all(changes()),
    runMany(10, (index) => sendReport("busy", index)),
  ]);
  for (const { status, body } of [...before, ...after])
    assert.ok((status === 200 || status === 201) && body === "OK", `${status} ${JSON.stringify(body)}`);
  assert.equal(
    changed.map(({ status, body }) => [status, body]),
    [...Array.from({ length: 4 }, () => [200, "OK"]), [201, allow], [200, "OK"], [200, "OK"]],
  );
  const { name, description, tags, policies } = await server.read("/environments/acme/busy");
  assert.equal({ name, description, tags }, { name: "busy-now", description: "busy", tags: { busy: "1" } });
  assert.ok(policies.includes("busy-two"));
  await expectHistory("busy-now", await server.countSnapshots("busy"), { alternating: false });

  // Concurrent versions are numbered one after the other, and the environment is finally evaluated under the last one.
  const versions = await runMany(4, (index) =>
    server.putPolicy("busy-two", policyYaml(`  provenance: {required: ${index % 2 === 0}} # ${index}\n`), 200),
  );
  assert.equal(versions.map(({ versions: of }) => of.length).toSorted(), [2, 3, 4, 5]);
  const latest = (await server.read("/policies/acme/busy-two")).versions.at(-1);
  await server.expectOk("DELETE", paths, { policy_names: ["busy-one"] });
  await server.json("PUT", "/environments/acme/busy/report/docker", {
    artifacts: reportItems({ unknown: "race-unknown" }),
  });
  const expected = !latest.policy_yaml.includes("true");
  await until("it was re-evaluated", async () => (await server.readState("busy")) === expected);
  assert.equal({ version: latest.version, state: await server.readState("busy") }, { version: 5, state: expected });
});

test("archiving takes effect once while reports arrive, and loses no recorded snapshot", async () => {
  await server.createEnvironment("going", "docker");
  await server.createEnvironment("going-group", "logical", { included_environments: ["going"] });
  const gone = { message: "Environment named 'going' has been archived for organization 'acme'" };
  await sendReport("going", 0);
  const [before, archiving, after] = await Promise.all([
    runMany(10, (index) => sendReport("going", index + 1)),
    runMany(2, () => server.json("PUT", "/environments/acme/going/archive", null)),
    runMany(10, (index) => sendReport("going", index)),
  ]);
  const answers = [...before, ...after];
  for (const { status, body } of answers) assert.equal(body, status === 404 ? gone : "OK", `${status}`);
  assert.ok(answers.every(({ status }) => [200, 201, 404].includes(status)));
  assert.equal(archiving.map(({ status, body }) => [status, body]).toSorted(), [
    [200, "OK"],
    [404, gone],
  ]);
  const { status, body } = await sendReport("going", 0);
  assert.equal({ status, body }, { status: 404, body: gone });
  const group = await server.read("/environments/acme/going-group");
  assert.equal(
    { included_environments: group.included_environments, count: await server.countSnapshots("going-group") },
    { included_environments: [], count: countCreated(answers) + 1 },
  );
  const { environment_name } = (await server.readSnapshot("going-group", "1")).artifacts[0];
  assert.match(environment_name, /^going-archived-at-\d+$/);
  await expectHistory(environment_name, countCreated(answers) + 1);
  // The name is free immediately.
  await server.createEnvironment("going", "docker");
  assert.is((await sendReport("going", 0)).status, 201);
  assert.is(await server.countSnapshots("going"), 1);
});

/** The items of a report so large that a worker thread evaluates and records it. */
const thousands = (tag: string): Json[] =>
  reportItems(
    Object.fromEntries(
      Array.from({ length: 3000 }, (_, index) => [`/srv/${tag}/${String(index).padStart(4, "0")}`, `${index}`]),
    ),
  );

test("changes take effect while a large report is being recorded", async () => {
  await server.putPolicy("heavy-policy", PROVENANCE_POLICY);
  await server.createEnvironment("heavy", "server");
  await server.createEnvironment("heavy-group", "logical", { included_environments: ["heavy"] });
  const [one, two] = [thousands("one"), thousands("two")];
  const report = (artifacts: readonly Json[]) =>
    server.json("PUT", "/environments/acme/heavy/report/server", { artifacts });
  const paths = "/environments/acme/heavy/policies";
  await server.report("heavy", "server", one, 201);
  await server.expectOk("POST", paths, { policy_names: ["heavy-policy"] });
  // The request is answered only after the snapshot is recorded.
  assert.equal(
    {
      environmentSnapshots: await server.countSnapshots("heavy"),
      environmentState: await server.readState("heavy"),
      groupSnapshots: await server.countSnapshots("heavy-group"),
      groupState: await server.readState("heavy-group"),
    },
    { environmentSnapshots: 2, environmentState: false, groupSnapshots: 2, groupState: false },
  );
  const answers = await Promise.all([
    report(two),
    server.json("PUT", "/environments/acme/heavy/rename", { new_name: "heavy-now" }),
    report(one),
    server.json("DELETE", paths, { policy_names: ["heavy-policy"] }),
    report(two),
  ]);
  assert.equal(
    answers.map(({ body }) => body),
    answers.map(() => "OK"),
  );
  // The order in which the reports arrive is undefined. One that repeats the previous report makes no snapshot.
  const [first, renaming, second, detaching, third] = answers.map(({ status }) => status);
  assert.equal({ renaming, detaching }, { renaming: 200, detaching: 200 });
  const statuses = [first, second, third];
  assert.ok(statuses.every((status) => status === 200 || status === 201) && statuses.includes(201), String(statuses));
  const latest = await server.readSnapshot("heavy");
  assert.equal(
    {
      applied_policies: latest.applied_policies,
      artifact_compliance_count: latest.artifact_compliance_count,
      state: await server.readState("heavy"),
    },
    { applied_policies: [], artifact_compliance_count: { true: 0, false: 0, null: 3000 }, state: null },
  );
  const named = (artifacts: readonly Json[]): string =>
    JSON.stringify(artifacts.map(({ digests }) => Object.keys(digests)[0]));
  assert.ok(
    [named(one), named(two)].includes(JSON.stringify(runningNames(latest))),
    "the snapshot is exactly one of the reports",
  );
  const list: Json[] = await server.read("/snapshots/acme/heavy?interval=&page=1&per_page=1000&reverse=true");
  assert.equal(
    list.map(({ index }) => index),
    list.map((_, index) => index + 1),
  );
  assert.is(await server.countSnapshots("heavy-group"), list.length);

  const gone = { message: "Environment named 'heavy' has been archived for organization 'acme'" };
  const [late, archiving] = await Promise.all([
    report(one),
    server.json("PUT", "/environments/acme/heavy/archive", null),
  ]);
  assert.equal({ status: archiving.status, body: archiving.body }, { status: 200, body: "OK" });
  assert.equal(late.body, late.status === 404 ? gone : "OK");
  // Unless the environment is archived first, the report makes a snapshot if it differs from the latest one.
  const accepted = named(one) === JSON.stringify(runningNames(latest)) ? 200 : 201;
  assert.ok(late.status === 404 || late.status === accepted, `${late.status}`);
  assert.is(await server.countSnapshots("heavy-group"), list.length + (late.status === 201 ? 1 : 0));
});

test("the next report sees changes made while a report was being recorded", async () => {
  await server.createFlow("seen", SCAN_TEMPLATE);
  await server.putPolicy("seen-policy", TRAIL_POLICY);
  for (const [round, size] of [1, 1, 500, 500, 2000].entries()) {
    const name = `seen-${round}`;
    const label = `seen-app-${round}`;
    await server.createEnvironment(name, "server", { policies: ["seen-policy"] });
    const running = [...reportItems({ "/srv/app": label }), ...thousands(name).slice(0, size - 1)];
    const report = () => server.json("PUT", `/environments/acme/${name}/report/server`, { artifacts: running });
    const build = async (): Promise<void> => {
      await server.reportArtifact({ flow: "seen", trail: `t${round}`, name: "app", label });
      await server.attest({ flow: "seen", trail: `t${round}`, label, name: "scan" });
    };
    const answers = await Promise.all([report(), build(), report(), report()]);
    for (const answer of answers) if (answer) assert.ok([200, 201].includes(answer.status), `${answer.status}`);
    const { status } = await report();
    const { artifacts } = await server.readSnapshot(name);
    const app = artifacts.find((one: Json) => one["name"] === "/srv/app");
    assert.equal(
      { compliant: app.compliant, flow_name: app.flow_name },
      { compliant: true, flow_name: "seen" },
      `${name}: the last report was answered ${status}`,
    );
    assert.is((await report()).status, 200);
  }
});

test("accepts 24 reports at once, each too large for the main thread to record", async () => {
  const names = Array.from({ length: 24 }, (_, index) => `fleet-${index}`);
  for (const name of names) await server.createEnvironment(name, "server");
  const artifacts = thousands("fleet").slice(0, 100);
  const answers = await Promise.all(
    names.map((name) => server.json("PUT", `/environments/acme/${name}/report/server`, { artifacts })),
  );
  assert.equal(
    answers.map(({ status, body }) => [status, body]),
    names.map(() => [201, "OK"]),
  );
  assert.equal(
    await Promise.all(names.map((name) => server.countSnapshots(name))),
    names.map(() => 1),
  );
});

test("a new policy version is applied to its environments even after a kill", async () => {
  const names = ["queued-1", "queued-2", "queued-3"];
  await server.putPolicy("queued-policy", PROVENANCE_POLICY);
  for (const name of names) {
    await server.createEnvironment(name, "server", { policies: ["queued-policy"] });
    await server.report(name, "server", thousands(name), 201);
  }
  await server.putPolicy("queued-policy", policyYaml("  provenance: {required: false}\n"), 200);
  await server.restart("SIGKILL");
  const states = () => Promise.all(names.map((name) => server.readState(name)));
  await until("all were re-evaluated", async () => !(await states()).includes(false));
  assert.equal(
    { states: await states(), counts: await Promise.all(names.map((name) => server.countSnapshots(name))) },
    { states: [true, true, true], counts: [2, 2, 2] },
  );
});

test("keeps everything acknowledged before a kill", async () => {
  await server.createEnvironment("killed", "docker");
  await sendReport("killed", 0);
  let acknowledged = 1;
  let sent = 0;
  const sending = runMany(3, async (lane) => {
    try {
      for (let index = lane; index < 10_000; index += 1) {
        sent += 1;
        if ((await sendReport("killed", index)).status === 201) acknowledged += 1;
      }
    } catch {
      // The connection broke: whether this report was recorded is unknown.
    }
  });
  await until("20 reports were recorded", async () => (await server.countSnapshots("killed")) >= 20);
  const killing = server.restart("SIGKILL");
  await sending;
  await killing;
  const count = await server.countSnapshots("killed");
  assert.ok(
    count >= acknowledged && count <= acknowledged + 3,
    `${count} snapshots of ${acknowledged} acknowledged, ${sent} sent`,
  );
  await expectHistory("killed", count);
  const last = runningNames(await server.readSnapshot("killed")).includes("app:1") ? 0 : 1;
  assert.equal(
    {
      repeated: (await sendReport("killed", last)).status,
      changed: (await sendReport("killed", last + 1)).status,
      snapshots: await server.countSnapshots("killed"),
    },
    { repeated: 200, changed: 201, snapshots: count + 1 },
  );
});

test.run();
