/** The story holds what pages and their tests rely on. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { htmlUrls } from "../story/html-urls.ts";
import { startStoryServer } from "../story/server.ts";
import type { StoryServer } from "../story/server.ts";
import { ADMIN, EDGE, FRESH } from "../story/story.ts";

const [HOUR, DAY] = [3_600, 86_400];

const test = suite("integration/story");

let told: StoryServer;
test.before(async () => {
  told = await startStoryServer();
});
test.after(() => told.server.stop());

async function read(path: string): Promise<any> {
  const { status, body, text } = await told.server.call("GET", path, { key: told.story.keys.get(ADMIN) as string });
  assert.is(status, 200, `${path}: ${text}`);
  return body;
}

test("acme has 40 trails and more in three flows, and seven of them are not compliant", async () => {
  const { data, pagination } = await read("/trails/acme?per_page=100");
  assert.ok(pagination.total >= 40);
  assert.equal([...new Set(data.map(({ flow }: any) => flow.name))].sort(), ["backend-api", "infra", "web-checkout"]);
  const states = data
    .filter((trail: any) => trail.compliance_state !== "COMPLIANT")
    .map((trail: any) => `${trail.flow.name} ${trail.name} ${trail.compliance_state}`);
  assert.equal(states.sort(), [
    "backend-api pr-1483 INCOMPLETE",
    "backend-api pr-1490 INCOMPLETE",
    "backend-api release-2.40.0 NON-COMPLIANT",
    "backend-api release-2.41.0 NON-COMPLIANT",
    "backend-api report-export-4.2.0 INCOMPLETE",
    "infra eu-network-57 INCOMPLETE",
    "web-checkout release-8.3.1 NON-COMPLIANT",
  ]);
});

test("release-2.41.0 has a failing scan, a missing gate, an override and an unexpected report", async () => {
  const { compliance_status: status } = await read("/trails/acme/backend-api/release-2.41.0");
  const ofTrail = status.attestations_statuses.map((one: any) => [one.attestation_name, one.status, one.is_compliant]);
  assert.equal(ofTrail, [
    ["pull-request", "COMPLETE", true],
    ["jira-ticket", "COMPLETE", true],
    ["release-approval", "COMPLETE", true],
    ["sonar-gate", "MISSING", null],
  ]);
  const ofArtifact = status.artifacts_statuses["backend-api"].attestations_statuses.map((one: any) => [
    one.attestation_name,
    one.is_compliant,
    one.unexpected,
    one.overridden_attestation_id !== null,
  ]);
  assert.equal(ofArtifact, [
    ["unit-tests", true, false, false],
    ["snyk-container", false, false, false],
    ["sbom", true, false, false],
    ["license-scan", true, false, true],
    ["load-test", true, true, false],
  ]);
});

test("environments are in the states of the design, and one reporter is stale", async () => {
  const environments = await read("/environments/acme");
  const { now } = told.story;
  const rows = environments.map((one: any) => [
    one.name,
    one.state,
    one.last_reported_at === null ? null : Math.floor((now - one.last_reported_at) / HOUR),
  ]);
  assert.equal(rows, [
    ["batch-settlement", true, 25],
    ["k8s-prod", false, 0],
    ["load-test", null, 0],
    ["production", false, null],
    ["production-eu", false, 0],
    ["staging", true, 0],
  ]);
});

test("three artifacts fail now, for the reasons of the design", async () => {
  const failing: string[][] = [];
  for (const environment of ["production-eu", "k8s-prod", "batch-settlement", "staging"]) {
    const { artifacts } = await read(`/snapshots/acme/${environment}/-1`);
    for (const { name, compliant, reasons_for_incompliance: reasons } of artifacts)
      if (!compliant) failing.push([environment, name, reasons.at(0).replace(/^Policy 'prod-baseline' requires /, "")]);
  }
  assert.equal(failing, [
    [
      "production-eu",
      "acme/backend-api:2.41.0",
      "compliance in the trail, but the artifact is NON-COMPLIANT in trail 'release-2.41.0' of flow 'backend-api'.",
    ],
    [
      "k8s-prod",
      "acme/report-export:4.2.0",
      "compliance in the trail, but the artifact is INCOMPLETE in trail 'report-export-4.2.0' of flow 'backend-api'.",
    ],
    ["k8s-prod", "debug-shell:latest", "provenance, but the artifact was not reported to any flow."],
  ]);
});

test("the history of production-eu has hundreds of snapshots, and one incident before today", async () => {
  const snapshots = await read("/snapshots/acme/production-eu?per_page=1000");
  assert.ok(snapshots.length >= 200);
  assert.ok(snapshots[0].from - snapshots.at(-1).from > 55 * DAY);
  const incident = snapshots.slice(1).filter((one: any) => !one.compliant);
  const [begin, end] = [incident.at(-1).from, incident[0].to];
  const indexes = incident.map((one: any) => one.index);
  assert.equal(
    indexes,
    [...indexes.keys()].map((offset) => indexes[0] - offset),
  );
  assert.is(Math.round((end - begin) / HOUR), 8);
});

test("redis is allowlisted, prod-baseline has seven versions and a key expires in six days", async () => {
  const [entry] = await read("/allowlists/acme");
  assert.is(entry.artifact_name, "redis:7.4-alpine");
  const policies = await read("/policies/acme");
  assert.equal(
    policies.map(({ name, versions }: any) => [name, versions.length]),
    [
      ["pci-controls", 3],
      ["prod-baseline", 7],
      ["staging-baseline", 2],
    ],
  );
  const [key] = await read("/service-accounts/acme/reporter-production-eu/api-keys");
  assert.is((key.expires_at - Math.floor(told.story.now)) / DAY, 6);
});

test("there are attestations of all kinds", async () => {
  const kinds = ["generic", "junit", "snyk", "sonar", "jira", "pull_request", "decision", "sbom", "custom:cyclonedx"];
  for (const kind of [...kinds, "custom:licenses"])
    assert.is((await read(`/attestations/acme?type=${kind}&per_page=1`)).data.length, 1, kind);
});

test("one action fails, and the others have delivered their messages", async () => {
  const actions = await read("/actions/acme");
  assert.equal(
    actions.map(({ name, is_failing, last_success_timestamp: at }: any) => [name, is_failing, at !== null]),
    [
      ["page-security-duty", true, true],
      ["tell-deployments", false, true],
      ["record-exceptions", false, true],
      ["welcome-trails", false, true],
    ],
  );
});

test("fresh is empty", async () => {
  assert.equal(await read(`/flows/${FRESH}`), []);
  assert.equal(await read(`/environments/${FRESH}`), []);
  assert.equal((await read(`/attestations/${FRESH}`)).data, []);
});

test("ids and times are the same in every run", async () => {
  const [{ attestation_id: id, created_at: at }] = (await read("/attestations/acme?per_page=1")).data;
  const other = await startStoryServer();
  try {
    const key = other.story.keys.get(ADMIN) as string;
    const { body } = await other.server.call("GET", "/attestations/acme?per_page=1", { key });
    assert.equal([body.data[0].attestation_id, body.data[0].created_at], [id, at]);
  } finally {
    await other.server.stop();
  }
});

test("every operation that reads has an answer in the story, and answers point to pages of all kinds", async () => {
  const { urls, unanswered } = await htmlUrls(told, { orgs: ["acme", EDGE], maxRequests: 40 });
  assert.equal(unanswered, []);
  const kinds = new Set(
    [...urls.keys()].map((url) =>
      new URL(url).pathname
        .split("/")
        .slice(2)
        .map((part, index) => (index % 2 === 0 ? part : "*"))
        .join("/"),
    ),
  );
  for (const kind of ["flows/*/trails/*", "flows/*/artifacts/*", "environments/*"]) assert.ok(kinds.has(kind), kind);
  assert.ok([...urls.keys()].some((url) => url.includes("?attestation_id=")));
});

test.run();
