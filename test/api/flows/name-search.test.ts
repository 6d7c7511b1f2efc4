/** The search for names, fingerprints and commits. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { running, runningIn } from "../environments/given.ts";

const test = suite("api/flows/name-search");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
const search = async (at: At, q: string, more: Record<string, string> = {}): Promise<any> => {
  const query = new URLSearchParams({ q, ...more });
  const { status, body } = await server.call("GET", `/search/${at.org}?${query}`, { key: at.key });
  assert.is(status, 200, JSON.stringify(body));
  return body;
};
/** The names that were found, by kind. */
const found = async (at: At, q: string): Promise<Record<string, string[]>> =>
  Object.fromEntries(
    (await search(at, q)).groups.map(({ kind, results }: any) => [kind, results.map((r: any) => r.name)]),
  );

const PRINT = "abc123".padEnd(64, "0");
const COMMIT = "def456".padEnd(40, "0");

async function world() {
  const at = server.given.org();
  await server.given.flow(at, { name: "payments-api" });
  await server.given.flow(at, { name: "Billing_100" });
  await server.given.trail(at, { flow: "payments-api", name: "release-2.41.0" });
  await server.given.artifact(at, {
    flow: "payments-api",
    trail: "release-2.41.0",
    name: "app",
    filename: "ghcr.io/acme/payments:2.41.0",
    fingerprint: PRINT,
    commit: COMMIT,
  });
  return { at, ...runningIn(server) };
}

test("finds everything that has the text in its name, by kind", async () => {
  const { at, environment, report } = await world();
  environment(at, { name: "payments-prod" });
  report(at, "payments-prod", [running("ghcr.io/acme/payments:2.41.0", PRINT)]);
  await server.given.policy(at, { name: "payments-policy", yaml: null });
  assert.equal(await found(at, "PAYMENTS"), {
    flow: ["payments-api"],
    environment: ["payments-prod"],
    artifact: ["ghcr.io/acme/payments:2.41.0"],
    policy: ["payments-policy"],
  });
  assert.equal(await found(at, " release-2 "), { trail: ["release-2.41.0"] });
  assert.equal(await found(at, "2.41"), { trail: ["release-2.41.0"], artifact: ["ghcr.io/acme/payments:2.41.0"] });
  assert.equal(await found(at, "GHCR.io/"), { artifact: ["ghcr.io/acme/payments:2.41.0"] }, "also what is not running");
});

test("finds a hundred of one kind; trails come newest first, after the one of that name", async () => {
  const at = server.given.org();
  await server.given.flow(at, { name: "releases" });
  const names = Array.from({ length: 120 }, (_, number) => `release-${String(number).padStart(3, "0")}`);
  for (const name of names) await server.given.trail(at, { flow: "releases", name });
  const newest = names.toReversed();
  const [all] = (await search(at, "release", { kind: "trail" })).groups;
  assert.is(all.kind, "trail");
  assert.is(all.has_more, true);
  assert.is(all.total, null, "only the latest trails are compared");
  assert.equal(
    all.results.map(({ name }: any) => name),
    newest.slice(0, 100),
  );
  const groups = await found(at, "release-0");
  assert.equal(groups, { trail: newest.filter((name) => name.startsWith("release-0")).slice(0, 8) });
  assert.equal((await found(at, "release-00"))["trail"]?.[0], "release-009");
  await server.given.trail(at, { flow: "releases", name: "release-0" });
  await server.given.trail(at, { flow: "releases", name: "release-01" });
  assert.equal((await found(at, "release-0"))["trail"]?.slice(0, 2), ["release-0", "release-01"]);
  const { status } = await server.call("GET", `/search/${at.org}?q=a&kind=toString`, { key: at.key });
  assert.is(status, 400);
});

test("finds fingerprints and commits by their first five characters", async () => {
  const { at } = await world();
  const { groups } = await search(at, "sha256:ABC12");
  assert.equal(
    groups.map(({ kind, results: [{ name, detail, flow_name, fingerprint }] }: any) => [
      kind,
      name,
      detail,
      flow_name,
      fingerprint,
    ]),
    [["fingerprint", PRINT, "ghcr.io/acme/payments:2.41.0", "payments-api", PRINT]],
  );
  const [commits] = (await search(at, "def45")).groups;
  assert.equal(commits, {
    kind: "commit",
    results: [
      {
        name: COMMIT,
        id: null,
        detail: "",
        flow_name: "payments-api",
        trail_name: "release-2.41.0",
        fingerprint: null,
        environment_name: null,
        snapshot_index: null,
        html_url: `http://assay.test/${at.org}/flows/payments-api/trails/release-2.41.0`,
      },
    ],
    has_more: false,
    total: 1,
  });
  assert.equal(await found(at, "def4"), {}, "four characters are too few");
});

test("finds the commit that only an attestation names", async () => {
  const { at } = await world();
  await server.given.attestation(at, { flow: "payments-api", trail: "release-2.41.0", commit: "9".repeat(40) });
  const [group] = (await search(at, "99999")).groups;
  assert.equal([group?.kind, group?.results[0].trail_name], ["commit", "release-2.41.0"]);
});

test("leads to the environment of an artifact that was never reported", async () => {
  const { at, environment, report } = await world();
  environment(at, { name: "prod" });
  report(at, "prod", [running("debug-shell:latest", "5".repeat(64))]);
  for (const text of ["shell", "55555"]) {
    const [group] = (await search(at, text)).groups;
    const { environment_name, snapshot_index, html_url, flow_name } = group.results[0];
    assert.equal([environment_name, snapshot_index, flow_name], ["prod", 1, null]);
    assert.is(html_url, `http://assay.test/${at.org}/environments/prod/1`);
  }
});

test("wildcards match themselves", async () => {
  const { at } = await world();
  assert.equal(await found(at, "Billing_1"), { flow: ["Billing_100"] });
  assert.equal(await found(at, "Billing-1"), {});
  assert.equal(await found(at, "%"), {});
  assert.equal(await found(at, "*"), {});
  assert.equal(await found(at, "payments_api"), {});
});

test("leaves out what is archived, and controls where they are off", async () => {
  const { at } = await world();
  await server.call("POST", `/controls/${at.org}`, { key: at.key, body: { identifier: "SDLC-7", name: "Réviews" } });
  assert.equal(await found(at, "sdlc"), { control: ["SDLC-7"] });
  assert.equal(await found(at, "RÉVIEW"), { control: ["SDLC-7"] });
  server.db.prepare("UPDATE organizations SET controls_enabled = 0 WHERE name = ?").run(at.org);
  assert.equal(await found(at, "sdlc"), {});
  await server.call("PUT", `/flows/${at.org}/payments-api/archive`, { key: at.key });
  assert.equal(await found(at, "payments-api"), {});
  assert.equal(await found(at, "release-2"), {});
});

test("shows at most eight of a kind, and says that there are more", async () => {
  const at = server.given.org();
  for (let n = 0; n < 9; n += 1) await server.given.flow(at, { name: `many-${n}` });
  const { groups } = await search(at, "many-");
  assert.equal(
    groups.map(({ kind, results, has_more, total }: any) => ({ kind, shown: results.length, has_more, total })),
    [{ kind: "flow", shown: 8, has_more: true, total: 9 }],
  );
  const [one] = (await search(at, "many-1")).groups;
  assert.equal([one.has_more, one.total], [false, 1]);
});

test("names no total of trails and artifacts, of which not all are compared", async () => {
  const { at } = await world();
  for (const text of ["2.41", "ghcr"]) {
    const { groups } = await search(at, text);
    assert.equal(
      groups.map(({ kind, has_more, total }: any) => ({ kind, has_more, total })),
      [{ kind: text === "ghcr" ? "artifact" : "trail", has_more: false, total: null }],
    );
  }
});

test("counts up to a hundred of a kind", async () => {
  const at = server.given.org();
  for (let n = 0; n < 101; n += 1) await server.given.flow(at, { name: `many-${n}` });
  const [all] = (await search(at, "many-")).groups;
  assert.equal([all.results.length, all.has_more, all.total], [8, true, null]);
  const [shown] = (await search(at, "many-", { kind: "flow" })).groups;
  assert.equal([shown.results.length, shown.has_more, shown.total], [100, true, null]);
});

test("an empty text finds nothing, one of 257 characters is refused", async () => {
  const { at } = await world();
  assert.equal(await found(at, "  "), {});
  const long = await server.call("GET", `/search/${at.org}?q=${"x".repeat(257)}`, { key: at.key });
  assert.is(long.status, 400);
  assert.match(JSON.stringify(long.body), /\bq\b/);
  assert.is((await server.call("GET", `/search/${at.org}`, { key: at.key })).status, 400);
});

test("finds nothing of another organization", async () => {
  const { at } = await world();
  const other = server.given.org();
  assert.equal(await found(other, "payments"), {});
  assert.equal(await found(other, PRINT), {});
  assert.is((await server.call("GET", `/search/${at.org}?q=x`, { key: other.key })).status, 403);
});

test.run();
