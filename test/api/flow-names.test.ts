/**
 * Flows that were renamed or archived while another flow took their name: no read attributes their evidence to that
 * flow.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { fresh, freshCommit, startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { running, runningIn } from "./environments/given.ts";

const test = suite("api/flow-names");
let server: TestServer;
let world: ReturnType<typeof runningIn>;
test.before(async () => {
  server = await startServer();
  world = runningIn(server);
});
test.after(() => server.stop());

type At = { org: string; key: string };
type Place = At & {
  /** Names that other flows have now. */
  archived: string;
  renamed: string;
  /** Current names of the flows that had them. */
  archivedNow: string;
  renamedNow: string;
  environment: string;
  logical: string;
  policy: string;
  fingerprint: string;
  legacy: string;
  later: string;
};

const get = async (at: At, path: string) => {
  const answer = await server.call("GET", path, { key: at.key });
  assert.is(answer.status, 200, `${path}: ${answer.text}`);
  return answer;
};
const put = async (at: At, path: string, body?: object): Promise<void> => {
  const { status, text } = await server.call("PUT", path, { key: at.key, ...(body ? { body } : {}) });
  assert.is(status, 200, text);
};

/**
 * An artifact of two flows, and one of the second flow alone, run under a policy that neither satisfies; then the first
 * flow is archived and the second renamed, and new flows take both names.
 */
async function place(): Promise<Place> {
  const at = server.given.org();
  const [archived, renamed] = [
    await server.given.flow(at, { name: fresh("taken") }),
    await server.given.flow(at, { name: fresh("taken") }),
  ];
  const policy = await server.given.policy(at, {
    yaml: "artifacts:\n  trail-compliance: {required: true}\n  attestations: [{type: junit}]\n",
  });
  const build = (flow: string, fields: { fingerprint?: string; trail?: string | null }) => {
    const commit = freshCommit();
    return server.given.artifact(at, {
      flow,
      trail: "t",
      name: "server",
      commit,
      commit_url: `https://github.com/acme/api/commit/${commit}`,
      ...fields,
    });
  };
  const fingerprint = await build(archived, {});
  await server.given.attestation(at, { flow: archived, trail: "t", name: "unit", is_compliant: false });
  await build(renamed, { fingerprint });
  const legacy = await build(renamed, { trail: null });
  const later = await build(archived, { trail: "later" });
  const environment = world.environment(at);
  const logical = world.environment(at, { type: "logical", members: [environment] });
  world.attach(at, environment, policy);
  world.report(at, environment, [running("api:1", fingerprint), running("old:1", legacy)]);
  world.report(at, environment, [running("api:2", later), running("old:1", legacy)]);
  await get(at, `/snapshots/${at.org}/${environment}/1`); // so that caches of what is shown are filled
  await put(at, `/flows/${at.org}/${archived}/archive`);
  const renamedNow = fresh("moved");
  await put(at, `/flows/${at.org}/${renamed}/rename`, { new_name: renamedNow });
  for (const name of [archived, renamed]) await server.given.flow(at, { name });
  const archivedNow = server.db
    .prepare<[string], string>("SELECT name FROM flows WHERE archived_name = ?")
    .pluck()
    .get(archived) as string;
  return {
    ...at,
    archived,
    renamed,
    archivedNow,
    renamedNow,
    environment,
    logical,
    policy,
    fingerprint,
    legacy,
    later,
  };
}

/** Asserts that a response does not contain the names that other flows took. */
function namesNoOtherFlow({ archived, renamed, archivedNow }: Place, path: string, text: string): void {
  for (const name of [archived, renamed]) {
    const found = text.replaceAll(archivedNow, "").indexOf(name);
    assert.is(
      found,
      -1,
      `${path} names the flow that took '${name}': ${text.slice(Math.max(0, found - 200), found + 100)}`,
    );
  }
}

test("no response about past runs names the flows that took over the names", async () => {
  const at = await place();
  const { org, environment, logical, fingerprint, legacy, later } = at;
  for (const path of [
    ...[1, 2].flatMap((index) => [
      `/snapshots/${org}/${environment}/${index}`,
      `/snapshots/${org}/${logical}/${index}`,
    ]),
    `/environments/${org}/${environment}/events`,
    `/environments/${org}/${logical}/events`,
    `/environments/${org}/${environment}/auditlog`,
    `/environments/${org}/${logical}/auditlog`,
    `/env-diff/${org}?snappish1=${environment}%231&snappish2=${environment}%232`,
    `/env-diff/${org}?snappish1=${logical}%231&snappish2=${environment}%232`,
    ...[fingerprint, legacy, later].flatMap((print) => [
      `/asserts/${org}/fingerprint/${print}`,
      `/asserts/${org}/fingerprint/${print}?environment_name=${environment}`,
      `/asserts/${org}/fingerprint/${print}?policy_name=${at.policy}`,
      `/search/${org}/sha/${print}`,
    ]),
    `/artifacts/${org}`,
    `/trails/${org}`,
    `/attestations/${org}`,
    `/deployments/${org}`,
    `/builds/${org}`,
    `/environments/${org}/${environment}/deployments`,
    `/deployments/${org}/${environment}/${fingerprint}`,
    `/artifacts/${org}/${at.renamedNow}/fingerprint/${fingerprint}`,
    `/artifacts/${org}/${at.archivedNow}/fingerprint/${fingerprint}`,
  ]) {
    const { text } = await get(at, path);
    namesNoOtherFlow(at, path, text);
    assert.ok(
      text.includes(at.archivedNow) || text.includes(at.renamedNow),
      `${path} names the flows themselves: ${text}`,
    );
  }
});

test("a snapshot shows the current names in flows, links, verdicts and reasons, with unchanged verdicts", async () => {
  const at = await place();
  const { body } = await get(at, `/snapshots/${at.org}/${at.environment}/1`);
  const [api, old] = body.artifacts;
  const page = (flow: string, print: string) =>
    new RegExp(`^http://assay.test/${at.org}/flows/${flow}/artifacts/${print}`);
  assert.is(api.flow_name, at.archivedNow);
  assert.match(api.html_url, page(at.archivedNow, at.fingerprint));
  assert.is(api.flow_html_url, `http://assay.test/${at.org}/flows/${at.archivedNow}`);
  assert.equal(
    api.flows.map(({ flow_name }: any) => flow_name),
    [at.archivedNow, at.renamedNow],
  );
  for (const [flow, name] of [
    [api.flows[0], at.archivedNow],
    [api.flows[1], at.renamedNow],
  ] as const) {
    assert.match(flow.html_url, page(name, at.fingerprint));
    assert.is(flow.flow_html_url, `http://assay.test/${at.org}/flows/${name}`);
  }
  const resolved = (artifact: any) =>
    artifact.policy_decisions[0].rule_evaluations.map(({ resolutions }: any) =>
      resolutions.map(({ type, context }: any) => [type, context.flow_name]),
    );
  assert.equal(resolved(api), [
    [
      ["rule_not_applicable", at.archivedNow],
      ["rule_not_applicable", at.renamedNow],
    ],
    [
      ["non_compliant_in_trail", at.archivedNow],
      ["rule_satisfied", at.renamedNow],
    ],
    [
      ["missing_attestation", at.archivedNow],
      ["missing_attestation", at.renamedNow],
    ],
  ]);
  assert.equal(api.reasons_for_incompliance, [
    `Policy '${at.policy}' requires compliance in the trail, but the artifact is NON-COMPLIANT in trail 't' of ` +
      `flow '${at.archivedNow}'.`,
    `Policy '${at.policy}' requires a compliant junit attestation, but none was reported in trail 't' of flow ` +
      `'${at.archivedNow}'.`,
    `Policy '${at.policy}' requires a compliant junit attestation, but none was reported in trail 't' of flow ` +
      `'${at.renamedNow}'.`,
  ]);
  assert.equal(old.reasons_for_incompliance, [
    `Policy '${at.policy}' requires a compliant junit attestation, but the artifact was reported to flow ` +
      `'${at.renamedNow}' without a trail.`,
  ]);
  assert.equal(resolved(old), [
    [["rule_not_applicable", at.renamedNow]],
    [["rule_satisfied", at.renamedNow]],
    [["legacy_flow", at.renamedNow]],
  ]);
  assert.equal(
    { "body.compliant": body.compliant, "api.compliant": api.compliant, "old.compliant": old.compliant },
    { "body.compliant": false, "api.compliant": false, "old.compliant": false },
  );
});

test("events and comparisons show the current names", async () => {
  const at = await place();
  const events = (await get(at, `/environments/${at.org}/${at.environment}/events?reverse=true`)).body;
  assert.equal(
    events.map(({ type, pipeline, flows }: any) => ({
      type,
      pipeline,
      flows: flows.map(({ flow_name }: any) => flow_name),
    })),
    [
      { type: "started-non-compliant", pipeline: at.archivedNow, flows: [at.archivedNow, at.renamedNow] },
      { type: "started-non-compliant", pipeline: at.renamedNow, flows: [at.renamedNow] },
      { type: "started-non-compliant", pipeline: at.archivedNow, flows: [at.archivedNow] },
      { type: "exited", pipeline: at.archivedNow, flows: [at.archivedNow, at.renamedNow] },
    ],
  );
  const { body: diff } = await get(
    at,
    `/env-diff/${at.org}?snappish1=${at.environment}%231&snappish2=${at.environment}%232`,
  );
  const flows = (group: string) => diff[group].artifacts.map(({ name, flow }: any) => [name, flow]);
  assert.equal(flows("snappish1"), [["api:1", at.archivedNow]]);
  assert.equal(flows("snappish2"), [["api:2", at.archivedNow]]);
  assert.equal(flows("not-changed"), [["old:1", at.renamedNow]]);
});

test("the flow filter of the audit log follows flows, not names", async () => {
  const at = await place();
  const rows = async (...names: string[]) => {
    const query = names.map((name) => `flow_names=${encodeURIComponent(name)}`).join("&");
    const { text } = await get(at, `/environments/${at.org}/${at.environment}/auditlog?${query}`);
    return text
      .split("\r\n")
      .slice(1, -1)
      .map((line) => {
        const cells = line.split(",");
        return `${cells[3]} ${cells[6]} ${cells[4]}`;
      });
  };
  const ofArchived = ["1 api:1 started-non-compliant", "2 api:2 started-non-compliant", "2 api:1 exited"];
  const ofRenamed = ["1 api:1 started-non-compliant", "1 old:1 started-non-compliant", "2 api:1 exited"];
  assert.equal((await rows(at.archivedNow)).sort(), ofArchived.sort());
  assert.equal((await rows(at.renamedNow)).sort(), ofRenamed.sort());
  assert.equal(await rows(at.archived), [], "the flow that took the name saw none of it");
  assert.equal(await rows(at.renamed), []);
  assert.equal(await rows("nobody"), []);
  assert.equal(await rows("no provenance"), []);
  const all = await rows(at.archivedNow, at.renamedNow);
  assert.equal(all.length, 4);
  const { text } = await get(at, `/environments/${at.org}/${at.environment}/auditlog`);
  assert.ok(text.includes(`"${at.archivedNow}, ${at.renamedNow}"`), text);
});

test("a former name that no other flow took still works as a filter", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const fingerprint = await server.given.artifact(at, { flow, trail: "t" });
  const environment = world.environment(at);
  world.report(at, environment, [running("api:1", fingerprint)]);
  const name = fresh("moved");
  await put(at, `/flows/${at.org}/${flow}/rename`, { new_name: name });
  for (const word of [flow, name]) {
    const { text } = await get(at, `/environments/${at.org}/${environment}/auditlog?flow_names=${word}`);
    assert.is(text.split("\r\n").length, 3, text);
    assert.match(text, new RegExp(`UNKNOWN,${name},`));
  }
});

test("stored evaluations keep the names, and replay", async () => {
  const at = await place();
  const id = world.idOf(at, at.environment);
  const stored = server.db
    .prepare<[number], string>("SELECT group_concat(facts_json) FROM evaluations WHERE environment_id = ?")
    .pluck()
    .get(id) as string;
  assert.ok(stored.includes(`"flow":"${at.archived}"`) && stored.includes(`"flow":"${at.renamed}"`));
  assert.not.ok(stored.includes(at.archivedNow) || stored.includes(at.renamedNow));
  const explanation = server.store.explanations.explain(server.store.environments.get(id), 1);
  assert.ok(explanation);
  assert.equal(
    explanation.artifacts.flatMap(({ problems }) => problems),
    [],
  );
  const shown = server.store.explanations.withPresentFlowNames(explanation);
  const api = shown.artifacts[0];
  assert.equal(
    api?.facts.flows.map(({ flow, evaluated_as }) => ({ flow, evaluated_as })),
    [
      { flow: at.archivedNow, evaluated_as: at.archived },
      { flow: at.renamedNow, evaluated_as: at.renamed },
    ],
  );
  namesNoOtherFlow(at, "explain", JSON.stringify([api?.reasons, api?.verdicts]));
});

test.run();
