import { suite } from "uvu";
import * as assert from "uvu/assert";
import { opened, plan, scans } from "../given.ts";
import { runtime } from "../../runtime.ts";

const test = suite("store/flows/search");

const full = (prefix: string, length = 64) => prefix.padEnd(length, "0");

function world() {
  const setup = opened();
  const { db, store, organizationId } = setup;
  const { environment, report } = runtime({ db, store });
  const flow = setup.flow("f");
  const find = (prefix: string, most = 9, organization = organizationId) =>
    store.search.listFingerprints(organization, prefix, most);
  const commits = (prefix: string, most = 9, organization = organizationId) =>
    store.search.listCommits(organization, prefix, most);
  return { ...setup, runs: environment, report, flow, addFlow: setup.flow, find, commits };
}

test("finds distinct fingerprints with a prefix among reported and running artifacts, in order", () => {
  const { store, artifact, flow, runs, report, find, organizationId, ...setup } = world();
  const [a, b, c, d] = [full("abcde1"), full("abcde2"), full("abcdf"), full("abcde3")];
  for (const name of ["t", "u", "v"]) artifact(flow.id, setup.trail(flow.id, name).id, b);
  artifact(flow.id, null, c);
  artifact(flow.id, null, a);
  report(runs(organizationId, "prod"), [
    { name: "one", fingerprint: b },
    { name: "two", fingerprint: d },
    { name: "unresolved", fingerprint: "" },
  ]);
  assert.equal(find("abcde"), [a, b, d]);
  assert.equal(find("abcd"), [a, b, d, c]);
  assert.equal(find("abcde", 2), [a, b]);
  assert.equal(
    {
      "find b": find(b),
      "find(`${b.slice(0, 63)}f`)": find(`${b.slice(0, 63)}f`),
      "find full": find(full("abcde", 63)),
      "find fffff": find("fffff"),
      "find abcde 9 99": find("abcde", 9, 99),
    },
    { "find b": [b], "find(`${b.slice(0, 63)}f`)": [], "find full": [], "find fffff": [], "find abcde 9 99": [] },
  );
  assert.equal(find(d), [d]);
});

test("a prefix range includes the first and the last hex characters", () => {
  const { artifact, flow, find, commits } = world();
  const [low, high, before, after] = [
    `abcde${"0".repeat(59)}`,
    `abcde${"f".repeat(59)}`,
    `abcdd${"f".repeat(59)}`,
    `abcdf${"0".repeat(59)}`,
  ];
  for (const one of [low, high, before, after]) artifact(flow.id, null, one, { git_commit: one.slice(0, 40) });
  assert.equal(find("abcde"), [low, high]);
  assert.equal(commits("abcde"), [low.slice(0, 40), high.slice(0, 40)]);
  assert.equal(commits(`${low.slice(0, 40)}0`), [], "longer than a commit");
});

test("finds the commits that artifacts were built from", () => {
  const { artifact, attestation, flow, commits, ...setup } = world();
  const [one, two] = [full("beef1", 40), full("beef2", 40)];
  const trail = setup.trail(flow.id, "t");
  for (const n of [1, 2, 3]) artifact(flow.id, trail.id, full(`${n}`), { git_commit: one });
  artifact(flow.id, trail.id, full("4"), { git_commit: two });
  attestation(flow.id, trail.id, "a", { git_commit: full("beef3", 40) });
  assert.equal(
    {
      "commits beef": commits("beef"),
      "commits one": commits(one),
      "commits beef 1": commits("beef", 1),
      "commits beef 9 99": commits("beef", 9, 99),
    },
    { "commits beef": [one, two], "commits one": [one], "commits beef 1": [one], "commits beef 9 99": [] },
  );
});

test("finds the latest record in each flow, newest first", () => {
  const { store, organizationId, artifact, flow, addFlow, ...setup } = world();
  const [fingerprint, commit] = [full("a"), full("c", 40)];
  const other = addFlow("g");
  artifact(flow.id, setup.trail(flow.id, "t").id, fingerprint, { git_commit: commit });
  artifact(other.id, setup.trail(other.id, "u").id, fingerprint, { git_commit: commit });
  artifact(flow.id, setup.trail(flow.id, "v").id, fingerprint, { git_commit: commit, referenceName: "app" });
  artifact(flow.id, null, full("b"), { git_commit: commit });
  const shown = (rows: ReturnType<typeof store.search.listByCommit>) =>
    rows.map((row) => [row.flow_name, row.trail_name, row.reference_name, row.fingerprint]);
  const [inF, inG, alone] = [
    ["f", "v", "app", fingerprint],
    ["g", "u", null, fingerprint],
    ["f", null, null, full("b")],
  ];
  assert.equal(shown(store.search.listByFingerprint(organizationId, fingerprint)), [inF, inG]);
  assert.equal(shown(store.search.listByCommit(organizationId, commit)), [alone, inF, inG]);
  assert.equal(store.search.listByFingerprint(99, fingerprint), []);
});

test("an artifact that only ran has the name of its last run in its newest environment", () => {
  const { store, organizationId, runs, report } = world();
  const fingerprint = full("a");
  const [older, younger] = [runs(organizationId, "older"), runs(organizationId, "younger")];
  report(younger, [{ name: "first", fingerprint }]);
  report(younger, [{ name: "second", fingerprint }]);
  report(older, [{ name: "elsewhere", fingerprint }]);
  assert.equal(
    {
      "nameOf(organizationId, fingerprint)": store.search.findRunningName(organizationId, fingerprint),
      'nameOf(organizationId, full("b"))': store.search.findRunningName(organizationId, full("b")),
      "nameOf 99": store.search.findRunningName(99, fingerprint),
    },
    { "nameOf(organizationId, fingerprint)": "second", 'nameOf(organizationId, full("b"))': "", "nameOf 99": "" },
  );
});

test("every step of a search is an index range, without sorting", () => {
  const { db, sql } = world();
  const about = sql.filter(
    (text) =>
      /LIMIT (1|200)$/.test(text) &&
      (/^SELECT (fingerprint FROM|git_commit FROM artifacts\s+WHERE organization)/.test(text) ||
        /^SELECT (name FROM snapshot_artifacts|a\.id, a\.public_id, a\.flow_id)/.test(text)),
  );
  assert.is(about.length, 6, about.join("\n"));
  for (const text of about) {
    assert.equal(scans(db, text), [], text);
    assert.not.ok(
      plan(db, text).some((step) => step.includes("TEMP B-TREE")),
      text,
    );
    assert.ok(
      plan(db, text).some((step) =>
        /SEARCH \w+ USING (COVERING )?INDEX \w+ \(organization_id=\? AND (fingerprint|git_commit)(=|>)/.test(step),
      ),
      plan(db, text).join("\n"),
    );
  }
});

test.run();
