import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";

const test = suite("api/flows/trail-checklist");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

const TEMPLATE = `version: 1
trail:
  attestations:
    - { name: review, type: pull_request }
  artifacts:
    - name: app
      attestations:
        - { name: scan, type: snyk }
        - { name: unit-tests, type: junit }
    - name: docs
      attestations:
        - { name: spelling, type: generic }
`;

/** Of the artifact `app`, the scan was reported as another type and an extra check fails; `docs` is missing. */
async function given() {
  const at = server.given.org();
  const flow = await server.given.flow(at, { template: TEMPLATE });
  const trail = await server.given.trail(at, { flow, description: "About <b>it</b>" });
  const fingerprint = await server.given.artifact(at, { flow, trail, name: "app" });
  const report = (name: string, more = {}) => server.given.attestation(at, { flow, trail, name, ...more });
  const scan = await report("scan", { fingerprint });
  const lint = await report("lint", { fingerprint, is_compliant: false });
  const build = await report("build");
  const path = `/trails/${at.org}/${flow}/${trail}`;
  const call = (query: string) => server.call("GET", `${path}/checklist${query}`, { key: at.key });
  const read = async (query = "") => (await call(query)).body;
  const names = async (query: string): Promise<string[]> =>
    (await read(query)).data.map((check: { attestation_name: string }) => check.attestation_name);
  const whole = async () => (await server.call("GET", `${path}?events=false`, { key: at.key })).body;
  return { at, flow, trail, path, fingerprint, scan, lint, build, call, read, names, whole };
}

test("the checklist has every status of the trail, and its fields but template, statuses and history", async () => {
  const { read, whole } = await given();
  const { template: _, events: __, compliance_status: status, ...fields } = await whole();
  const checklist = await read();
  assert.equal(checklist.trail, fields);
  const listed = checklist.data.map(({ artifact, reported_type, ...check }: Record<string, any>) => [
    artifact?.name ?? null,
    check,
  ]);
  const expected = [
    ...status.attestations_statuses.map((check: object) => [null, check]),
    ...Object.entries<any>(status.artifacts_statuses).flatMap(([name, artifact]) =>
      artifact.attestations_statuses.map((check: object) => [name, check]),
    ),
  ];
  assert.equal(listed, expected);
  const app = checklist.data.find(({ artifact }: any) => artifact?.name === "app").artifact;
  const { artifact_fingerprint, artifact_id, status: state, unexpected } = status.artifacts_statuses.app;
  assert.equal(app, { name: "app", artifact_fingerprint, artifact_id, status: state, unexpected });
});

test("totals count the whole checklist, reasons name what fails, is missing or was reported otherwise", async () => {
  const { read } = await given();
  const { totals, reasons, states } = await read("?search=lint");
  assert.equal(totals, { checks: 7, expected: 4, delivered: 0, failing: 1, missing: 3, missing_artifacts: 1 });
  assert.equal(states, { "NON-COMPLIANT": 1, MISSING: 0, COMPLIANT: 0 });
  assert.equal(
    reasons.missing.map((check: Record<string, unknown>) => [check["attestation_name"], check["reported_type"]]),
    [
      ["review", null],
      ["scan", "generic"],
      ["unit-tests", null],
    ],
  );
  assert.equal(
    reasons.failing.map((check: Record<string, unknown>) => check["attestation_name"]),
    ["lint"],
  );
  assert.equal(reasons.missing_artifacts, ["docs"]);
});

test("a list that is longer than a page begins with what fails, others are in the order of the template", async () => {
  const { names } = await given();
  assert.equal(await names(""), ["review", "build", "scan", "unit-tests", "scan", "lint", "spelling"]);
  assert.equal(await names("?per_page=4"), ["lint", "review", "scan", "unit-tests"]);
  assert.equal(await names("?per_page=4&page=2"), ["spelling", "build", "scan"]);
  assert.equal(await names("?per_page=2&page=2&order=template"), ["scan", "unit-tests"]);
  assert.equal(await names("?page=3"), []);
});

test("checks are found by name, artifact, fingerprint and state", async () => {
  const { names, fingerprint, read } = await given();
  assert.equal(await names("?search=SPELL"), ["spelling"]);
  assert.equal(await names("?search=docs"), ["spelling"]);
  assert.equal(await names(`?search=${fingerprint.slice(0, 6)}&state=MISSING`), ["scan", "unit-tests"]);
  assert.equal(await names(`?search=${fingerprint.slice(-8)}`), []);
  assert.equal(await names("?state=COMPLIANT"), ["build", "scan"]);
  assert.equal((await read("?state=COMPLIANT")).pagination.total, 2);
});

test("of an artifact, what fails comes first, its own before those of the trail; figures count both", async () => {
  const { names, read, whole } = await given();
  const id = (await whole()).compliance_status.artifacts_statuses.app.artifact_id;
  assert.equal(await names(`?artifact_id=${id}`), ["lint", "scan", "unit-tests", "scan", "review", "build"]);
  const { data, totals, reasons, states, pagination } = await read(`?artifact_id=${id}`);
  assert.equal(
    data,
    (await read()).data
      .filter(({ artifact }: any) => artifact?.name !== "docs")
      .sort((a: any, b: any) => rank(a) - rank(b)),
    "the same checks as of the whole trail",
  );
  assert.equal(totals, { checks: 6, expected: 3, delivered: 0, failing: 1, missing: 3, missing_artifacts: 0 });
  assert.equal([reasons.failing.length, reasons.missing.length, reasons.missing_artifacts], [1, 3, []]);
  assert.equal(states, { "NON-COMPLIANT": 1, MISSING: 3, COMPLIANT: 2 });
  assert.is(pagination.total, 6);
  assert.equal(await names(`?artifact_id=${id}&state=COMPLIANT&search=SCAN`), ["scan"]);
});

const rank = ({ artifact, attestation_name: name }: any): number => (name === "lint" ? 0 : artifact !== null ? 1 : 2);

test("an artifact without a name has its own checks, one that was replaced has those of the trail only", async () => {
  const { at, flow, trail, names, whole } = await given();
  const ids = async () => (await whole()).compliance_status.artifacts_statuses;
  const { artifact_id: replaced } = (await ids()).app;
  await server.given.artifact(at, { flow, trail, name: "app" });
  const fingerprint = await server.given.artifact(at, { flow, trail });
  await server.given.attestation(at, { flow, trail, fingerprint, name: "licences" });
  const { [fingerprint]: unnamed } = await ids();
  assert.equal(await names(`?artifact_id=${unnamed.artifact_id}`), ["licences", "review", "build"]);
  assert.equal(await names(`?artifact_id=${replaced}`), ["review", "build"]);
  assert.equal(await names("?artifact_id=nothing"), ["review", "build"]);
});

test("the check of a record has its place among the reported ones, and its page is shown", async () => {
  const { read, build, lint, scan } = await given();
  const { opened, pagination } = await read(`?order=template&per_page=2&attestation_id=${lint}`);
  assert.is(pagination.page, 3);
  assert.equal(
    { ...opened, check: opened.check.attestation_name },
    {
      check: "lint",
      position: 3,
      reported: 3,
      previous: scan,
      next: null,
    },
  );
  const elsewhere = await read(`?state=NON-COMPLIANT&attestation_id=${build}`);
  assert.equal([elsewhere.opened.position, elsewhere.opened.next], [1, scan], "in the whole checklist");
  assert.is((await read(`?per_page=2&page=1&attestation_id=${lint}`)).pagination.page, 1);
  assert.is((await read("?attestation_id=nothing")).opened, null);
});

test("an unknown trail, state, order or page size is refused", async () => {
  const { at, flow, call } = await given();
  const none = await server.call("GET", `/trails/${at.org}/${flow}/none/checklist`, { key: at.key });
  assert.is(none.status, 404);
  assert.equal(none.body, {
    message: `Trail with name 'none' does not exist for Organization '${at.org}' and Flow '${flow}'`,
  });
  for (const query of ["?state=GOOD", "?order=random", "?per_page=101", "?page=0", `?search=${"x".repeat(257)}`])
    assert.is((await call(query)).status, 400, query);
});

test.run();
