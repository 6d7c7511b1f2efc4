/** `causes` in lists and asserts: why something is not compliant, in words that begin with what decided. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { freshFingerprint, startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { running, runningIn } from "./environments/given.ts";

const test = suite("api/causes");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
const read = async ({ key }: At, path: string): Promise<any> => {
  const { status, body } = await server.call("GET", path, { key });
  assert.is(status, 200, JSON.stringify(body));
  return body;
};
const texts = ({ causes }: { causes: { text: string }[] }): string[] => causes.map(({ text }) => text);

const TEMPLATE = `version: 1
trail:
  artifacts:
    - name: web
      attestations:
        - { name: scan, type: snyk }
        - { name: gate, type: sonar }
`;
const SCHEMA = "_schema: https://assay.example.com/schemas/policy/v1\n";
const POLICY = "artifacts:\n  provenance:\n    required: true\n  trail-compliance:\n    required: true\n";
const snyk = (high: number) => ({
  snyk_results: {
    tool: { name: "snyk", version: "1" },
    results: [{ high_count: high, medium_count: 0, low_count: 2 }],
  },
});

/** An artifact whose scan fails and whose gate is missing; it runs in an environment with a policy, as does another. */
async function given() {
  const at = server.given.org();
  const flow = await server.given.flow(at, { template: TEMPLATE });
  const fingerprint = freshFingerprint();
  await server.given.artifact(at, {
    flow,
    trail: "t1",
    fingerprint,
    filename: "web:1",
    template_reference_name: "web",
  });
  const body = { attestation_name: "scan", artifact_fingerprint: fingerprint, ...snyk(3) };
  const sent = await server.call("POST", `/attestations/${at.org}/${flow}/trail/t1/snyk`, {
    key: at.key,
    form: { json: body },
  });
  assert.is(sent.status, 201, JSON.stringify(sent.body));
  const policy = await server.given.policy(at, { yaml: POLICY });
  const world = runningIn(server);
  const environment = world.environment(at);
  world.attach(at, environment, policy);
  world.report(at, environment, [running("web:1", fingerprint)]);
  return { at, flow, fingerprint, environment, world };
}
const SCAN = "scan fails: 3 high, 2 low";

test("lists of environments, trails and artifacts have causes on request only", async () => {
  const { at, flow, environment } = await given();
  const lists: [path: string, itemsOf: (body: any) => any[]][] = [
    [`/environments/${at.org}?page=1`, ({ environments }) => environments],
    [`/trails/${at.org}/${flow}?per_page=5`, ({ data }) => data],
    [`/artifacts/${at.org}?page=1`, (items) => items],
    [`/artifacts/${at.org}?flow_name=${flow}`, (items) => items],
  ];
  for (const [path, itemsOf] of lists) {
    const [item] = itemsOf(await read(at, `${path}&causes=true`));
    assert.equal(texts(item), [SCAN, "gate is missing"], path);
    assert.is(item.further_causes, 0, path);
    assert.equal(item.causes[0].subject, "scan", path);
    assert.is(itemsOf(await read(at, path))[0].causes, undefined, path);
  }
  const { artifacts } = await read(at, `/snapshots/${at.org}/${environment}/-1?page=1`);
  assert.equal(texts(artifacts[0]), [SCAN, "gate is missing"]);
  const whole = await read(at, `/snapshots/${at.org}/${environment}/-1`);
  assert.is(whole.artifacts[0].causes, undefined, "the contract's answer stays as it is");
});

test("asserts have the causes of their scope on request", async () => {
  const { at, flow, fingerprint, environment } = await given();
  const path = `/asserts/${at.org}/fingerprint/${fingerprint}`;
  assert.is((await read(at, `${path}?environment_name=${environment}`)).causes, undefined);
  const inEnvironment = await read(at, `${path}?environment_name=${environment}&causes=true`);
  assert.equal(texts(inEnvironment), [SCAN, "gate is missing"]);
  const inFlow = await read(at, `${path}?causes=true`);
  assert.equal([inFlow.flows[0].flow, ...texts(inFlow.flows[0])], [flow, SCAN, "gate is missing"]);
  assert.equal(texts(inFlow), [SCAN, "gate is missing"]);
});

test("previews of a change, of a policy and of a start have the same words", async () => {
  const { at, fingerprint, environment, world } = await given();
  const other = world.environment(at);
  world.report(at, other, [running("web:1", fingerprint)]);
  const policy = await server.given.policy(at, { yaml: POLICY });
  const post = async (path: string, body: object) => {
    const answer = await server.call("POST", path, { key: at.key, body });
    assert.is(answer.status, 200, answer.text);
    return answer.body as any;
  };
  const attach_policies = { environment: other, policy_names: [policy] };
  const change = await post(`/previews/${at.org}`, { attach_policies });
  const draft = await post(`/policies/${at.org}/preview`, { policy_yaml: `${SCHEMA}${POLICY}`, environments: [other] });
  for (const { environments } of [change, draft])
    assert.equal(texts(environments[0].flips[0]), [SCAN, "gate is missing"]);
  const start = await read(at, `/asserts/${at.org}/fingerprint/${fingerprint}/environments`);
  const found = start.environments.find((one: any) => one.environment === environment);
  assert.equal([found.causes[0].subject, ...texts(found)], ["scan", SCAN, "gate is missing"]);
});

test("a logical environment names the members that fail", async () => {
  const { at, environment, world } = await given();
  const group = world.environment(at, { type: "logical", members: [environment] });
  world.report(at, environment, []);
  world.report(at, environment, [running("other", freshFingerprint())]);
  const { environments } = await read(at, `/environments/${at.org}?page=1&causes=true`);
  const found = Object.fromEntries(environments.map((one: any) => [one.name, texts(one)]));
  assert.equal(found[group], [`${environment} is non-compliant`]);
  assert.equal(found[environment], ["No provenance: not reported to any flow"]);
});

test("what is compliant has no causes, and damage shows none", async () => {
  const { at, flow, environment } = await given();
  const fine = await server.given.flow(at);
  await server.given.trail(at, { flow: fine, name: "fine" });
  const [trail] = (await read(at, `/trails/${at.org}/${fine}?per_page=5&causes=true`)).data;
  assert.equal([trail.compliance_state, trail.causes, trail.further_causes], ["COMPLIANT", [], 0]);
  server.db.prepare("UPDATE evaluations SET verdicts_json = 'x'").run();
  server.db.prepare("UPDATE trails SET reasons_json = 'x' WHERE name = 't1'").run();
  const { environments } = await read(at, `/environments/${at.org}?page=1&causes=true`);
  assert.equal([environments[0].name, environments[0].causes], [environment, []]);
  const [damaged] = (await read(at, `/trails/${at.org}/${flow}?per_page=5&causes=true`)).data;
  assert.equal(damaged.causes, []);
});

test.run();
