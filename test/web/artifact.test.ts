/** The page of an artifact. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { freshFingerprint, startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { signIn, visibleText } from "./browser.ts";
import type { Browser } from "./browser.ts";

const test = suite("web/artifact");

let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };

const signedIn = (name: string): Promise<Browser> => signIn(server, name);

async function report(at: At, environment: string, fingerprints: readonly string[]): Promise<void> {
  const artifacts = fingerprints.map((fingerprint) => ({
    digests: { app: fingerprint },
    creationTimestamp: 1_700_000_000,
    podName: "app-1",
    namespace: "n",
  }));
  const path = `/environments/${at.org}/${environment}/report/K8S`;
  const { status, text } = await server.call("PUT", path, { key: at.key, body: { type: "K8S", artifacts } });
  assert.is(status, 201, text);
}

const TEMPLATE = `version: 1
trail:
  artifacts:
    - name: app
      attestations:
        - name: scan
          type: generic
        - name: tests
          type: junit
`;

async function given() {
  const at = server.given.org();
  const flow = await server.given.flow(at, { template: TEMPLATE });
  const trail = await server.given.trail(at, { flow });
  const fingerprint = await server.given.artifact(at, {
    flow,
    trail,
    name: "app",
    filename: "app<script>:1",
    build_url: "https://ci.test/builds/88121",
  });
  await server.given.attestation(at, { flow, trail, name: "scan", fingerprint, is_compliant: false });
  const browser = await signedIn(`${at.org}-admin`);
  return { at, flow, trail, fingerprint, browser, path: `/${at.org}/flows/${flow}/artifacts/${fingerprint}` };
}

test("an artifact shows its verdict in its flow, its attestations, its build, and that it never ran", async () => {
  const { browser, path, trail } = await given();
  const page = await browser.get(path);
  assert.is(page.status, 200);
  assert.not.ok(page.text.includes("app<script>"));
  const text = visibleText(page);
  for (const words of [
    "app<script>:1 Non-compliant",
    "scan fails · tests is missing",
    "scan Non-compliant generic",
    "tests Missing junit Expected by the template",
    "Build 88121",
    `Trail ${trail}`,
    "It never ran",
    "Audit package",
  ])
    assert.ok(text.includes(words), `${words}\n${text}`);
});

test("where it would fail is shown first, with the cause, for environments in which it does not run", async () => {
  const { at, browser, path, fingerprint } = await given();
  assert.not.match(visibleText(await browser.get(path)), "Where it would fail");
  const yaml = "artifacts:\n  attestations:\n    - type: generic\n      name: approval\n";
  const policy = await server.given.policy(at, { yaml });
  const named = (name: string, policies: string[]) =>
    server.call("PUT", `/environments/${at.org}`, {
      key: at.key,
      body: { name, type: "K8S", description: "", policies },
    });
  for (const [name, policies] of [
    ["lab", []],
    ["live", [policy]],
    ["test", []],
  ] as const)
    assert.ok((await named(name, [...policies])).status < 300);
  await report(at, "test", [fingerprint]);
  const text = visibleText(await browser.get(path));
  assert.match(
    text,
    new RegExp(
      `Where it would fail .* live Would fail approval is missing · ${policy} v1 ` +
        "lab No policy nothing is required there",
    ),
  );
  assert.not.match(text, "test No policy");
});

test("what is one attestation away from environments is said with its command, where most need it", async () => {
  const { at, browser, path, fingerprint } = await given();
  const needing = async (...names: string[]): Promise<string> =>
    server.given.policy(at, {
      yaml: `artifacts:\n  attestations:\n${names.map((name) => `    - { type: generic, name: ${name} }\n`).join("")}`,
    });
  const [approval, review, both] = [await needing("approval"), await needing("review"), await needing("a", "b")];
  const read = async (): Promise<string> => visibleText(await browser.get(path));
  await server.given.environment(at, { name: "both", policies: [both] });
  assert.match(await read(), "both Would fail a is missing");
  assert.not.match(await read(), "attestation away", "two are missing");
  await server.given.environment(at, { name: "lab", policies: [review] });
  await server.given.environment(at, { name: "live", policies: [approval] });
  await server.given.environment(at, { name: "prod", policies: [approval] });
  const command = (name: string): string => `kosli attest generic --name ${name} .*--fingerprint ${fingerprint} `;
  assert.match(
    await read(),
    new RegExp(`One attestation away. live and prod would accept it after: ${command("approval")}`),
  );
  for (const name of ["p1", "p2"]) await server.given.environment(at, { name, policies: [approval] });
  assert.match(await read(), /One attestation away. live\s?, p1\s?, p2 and 1 more would accept it after:/);
});

test("where it runs and ran is shown with the verdict of each environment and why", async () => {
  const { at, browser, path, fingerprint } = await given();
  const policy = await server.given.policy(at, {
    yaml: "artifacts:\n  provenance:\n    required: true\n  trail-compliance:\n    required: true\n",
  });
  const production = await server.given.environment(at, { name: "production", policies: [policy] });
  const staging = await server.given.environment(at, { name: "staging", policies: [policy] });
  const load = await server.given.environment(at, { name: "load-test" });
  for (const environment of [production, staging, load]) await report(at, environment, [fingerprint]);
  for (const environment of [staging, load]) await report(at, environment, []);
  const page = await browser.get(path);
  const text = visibleText(page);
  for (const words of [
    `production Kubernetes, running #1 Non-compliant scan fails · tests is missing · ${policy} v1`,
    "staging Kubernetes, ran until #1 Would fail",
    "load-test Kubernetes, ran until #1 Unknown no policy attached",
    "Non-compliant since",
    "Exited",
  ])
    assert.ok(text.includes(words), `${words}\n${text}`);
  assert.match(page.text, /role="group" aria-label="Runs in production, non-compliant since [^"]+ UTC"/);
  // A stretch that is long enough leads to the snapshot with which it began.
  assert.match(page.text, /href="[^"]*production\/1" aria-label="production #1, non-compliant from [^"]+ UTC"/);
  assert.match(page.text, /why\?environment=production&#38;snapshot=1&#38;fingerprint=/);
});

test("artifact_id selects one of several records, which says that a later one exists", async () => {
  const { at, flow, browser, path, fingerprint } = await given();
  const read = async () =>
    (await server.call("GET", `/artifacts/${at.org}/${flow}/fingerprint/${fingerprint}`, { key: at.key })).body;
  const first = await read();
  const again = await server.given.trail(at, { flow, name: "again" });
  await server.given.artifact(at, { flow, trail: again, name: "app", filename: "app:2", fingerprint });
  const latest = await read();
  assert.ok(visibleText(await browser.get(path)).includes("app:2"));
  const old = visibleText(await browser.get(`${path}?artifact_id=${first.id}`));
  assert.ok(old.includes("app<script>:1") && old.includes("This artifact was reported again"), old);
  for (const id of [latest.id, "no-such-format!", ""])
    assert.not.ok(visibleText(await browser.get(`${path}?artifact_id=${id}`)).includes("reported again"));
});

test("an artifact that was reported without a trail says so", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const fingerprint = await server.given.artifact(at, { flow, trail: null });
  const browser = await signedIn(`${at.org}-admin`);
  const page = await browser.get(`/${at.org}/flows/${flow}/artifacts/${fingerprint}`);
  assert.is(page.status, 200);
  assert.ok(visibleText(page).includes("reported without a trail"));
});

test("an unknown artifact is a page with status 404, in a foreign organization one with 403", async () => {
  const { at, flow, browser, path } = await given();
  const address = `/${at.org}/flows/${flow}/artifacts`;
  assert.is((await browser.get(`${address}/${freshFingerprint()}`)).status, 404);
  assert.is((await browser.get(`${address}/sha256:${path.slice(-64)}`)).status, 200);
  const stranger = await signedIn(`${server.given.org().org}-admin`);
  assert.is((await stranger.get(path)).status, 403);
});

test.run();
