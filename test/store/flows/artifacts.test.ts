import { suite } from "uvu";
import * as assert from "uvu/assert";
import { opened, plan, scans } from "../given.ts";

const test = suite("store/flows/artifacts");
const [F0, F1] = [`${"f".repeat(63)}0`, `${"f".repeat(63)}1`];

test("trail, fingerprint and reference name identify a record; without a trail flow and fingerprint do", () => {
  const { store, flow, trail, artifact } = opened();
  const f = flow("f");
  const t = trail(f.id, "t");
  const named = artifact(f.id, t.id, F0, { referenceName: "server" });
  const nameless = artifact(f.id, t.id, F0);
  const legacy = artifact(f.id, null, F0);
  const find = (trailId: number | null, referenceName: string | null, fingerprint = F0) =>
    store.artifacts.find({ flowId: f.id, trailId, fingerprint, referenceName })?.id ?? null;
  assert.equal(
    {
      "find server": find(t.id, "server"),
      "find(t.id, null)": find(t.id, null),
      "find client": find(t.id, "client"),
      "find(t.id, null, F1)": find(t.id, null, F1),
      "find(null, null)": find(null, null),
    },
    {
      "find server": named,
      "find(t.id, null)": nameless,
      "find client": null,
      "find(t.id, null, F1)": null,
      "find(null, null)": legacy,
    },
  );
  assert.throws(() => artifact(f.id, t.id, F0, { referenceName: "server" }), /UNIQUE/);
  assert.throws(() => artifact(f.id, null, F0), /UNIQUE/);
});

test("resolves a prefix in its flow, unless several fingerprints begin with it", () => {
  const { store, flow, trail, artifact } = opened();
  const [f, g] = [flow("f"), flow("g")];
  artifact(f.id, trail(f.id, "t").id, F0);
  artifact(f.id, trail(f.id, "u").id, F0);
  artifact(g.id, trail(g.id, "t").id, F1);
  assert.is(store.artifacts.resolveFingerprint(f.id, "fffff"), F0);
  assert.is(store.artifacts.resolveFingerprint(f.id, "eeeee"), null);
  assert.is(store.artifacts.resolveFingerprint(f.id, F1), F1, "a whole fingerprint needs no look-up");
  artifact(f.id, null, F1);
  assert.is(store.artifacts.resolveFingerprint(f.id, "fffff"), null);
  assert.is(store.artifacts.resolveFingerprint(f.id, F1.slice(0, 63)), null);
});

test("finds the latest record of a fingerprint, of a trail, and of an attestation", () => {
  const { store, flow, trail, artifact, attestation } = opened();
  const f = flow("f");
  const [t, u] = [trail(f.id, "t"), trail(f.id, "u")];
  const first = artifact(f.id, t.id, F0, { referenceName: "a" });
  const second = artifact(f.id, t.id, F0, { referenceName: "b" });
  const third = artifact(f.id, u.id, F0);
  const { id, publicId } = attestation(f.id, t.id, "tests");
  store.attestations.bindToArtifact({ trailId: t.id, artifactId: first }, { id, name: "tests" });
  const { findLatest: latest, findLatestBound: latestBound } = store.artifacts;
  assert.equal(
    {
      "latest(f.id, F0, null).id": latest(f.id, F0, null)?.id,
      "latest(f.id, F0, t.id).id": latest(f.id, F0, t.id)?.id,
      "latest(f.id, F1, null)": latest(f.id, F1, null),
    },
    { "latest(f.id, F0, null).id": third, "latest(f.id, F0, t.id).id": second, "latest(f.id, F1, null)": null },
  );
  assert.is(latest(f.id, F0, null)?.trail_name, "u");
  assert.equal(
    {
      "latestBound(f.id, F0, null, publicId).id": latestBound(publicId, {
        flowId: f.id,
        fingerprint: F0,
        trailId: null,
      })?.id,
      "latestBound(f.id, F0, t.id, publicId).id": latestBound(publicId, {
        flowId: f.id,
        fingerprint: F0,
        trailId: t.id,
      })?.id,
      "latestBound(f.id, F0, u.id, publicId)": latestBound(publicId, { flowId: f.id, fingerprint: F0, trailId: u.id }),
      "latestBound(f.id, F1, null, publicId)": latestBound(publicId, { flowId: f.id, fingerprint: F1, trailId: null }),
    },
    {
      "latestBound(f.id, F0, null, publicId).id": first,
      "latestBound(f.id, F0, t.id, publicId).id": first,
      "latestBound(f.id, F0, u.id, publicId)": null,
      "latestBound(f.id, F1, null, publicId)": null,
    },
  );
});

test("finds the latest commit, and that of a branch in the commit or in the list of commits", () => {
  const { store, flow, artifact, trail } = opened();
  const f = flow("f");
  const commit = (n: number) => String(n).repeat(40);
  const report = (name: string, n: number, fields: object) =>
    artifact(f.id, trail(f.id, name).id, F0, { git_commit: commit(n), ...fields });
  report("a", 1, { git_commit_info_json: '{"branch":"a+b"}' });
  report("b", 2, { commits_list_json: '[{"branch":""},{"branch":"main"}]' });
  report("c", 3, { git_commit_info_json: '{"branch":""}' });
  const latest = (branch: string | null) => store.artifacts.findLatestCommit(f.id, F0, branch);
  assert.equal(
    {
      "latest(null)": latest(null),
      "latest main": latest("main"),
      "latest a+b": latest("a+b"),
      "latest a b": latest("a b"),
      "latest none": latest("none"),
    },
    {
      "latest(null)": commit(3),
      "latest main": commit(2),
      "latest a+b": commit(1),
      "latest a b": commit(1),
      "latest none": null,
    },
  );
  assert.is(store.artifacts.findLatestCommit(f.id, F1, null), null);
});

test("lists binding candidates in the order of their reports, each once", () => {
  const { store, flow, trail, artifact, attestation } = opened();
  const f = flow("f");
  const t = trail(f.id, "t");
  const reported = artifact(f.id, t.id, F0);
  const [sha1, other] = ["1".repeat(40), "2".repeat(40)];
  const wait = (name: string, commit: string) => {
    const { id } = attestation(f.id, t.id, name, {
      scope: "artifact",
      target_artifacts_json: '["server"]',
      git_commit: commit,
    });
    store.attestations.addPendingBinding(id, { trailId: t.id, referenceName: "server", commit });
    return id;
  };
  const first = wait("a", sha1);
  const second = attestation(f.id, t.id, "b", { scope: "artifact", artifact_fingerprint: F0 }).id;
  store.attestations.bindToArtifact({ trailId: t.id, artifactId: reported }, { id: second, name: "b" });
  const third = wait("c", sha1);
  wait("d", other);
  const of = (fingerprint: string, referenceName: string | null, gitCommit = sha1) =>
    store.attestations
      .listBindingCandidates(t.id, { fingerprint, referenceName, gitCommit }, 10)
      .map(({ id, name }) => [id, name]);
  assert.equal(of(F0, "server"), [
    [first, "a"],
    [second, "b"],
    [third, "c"],
  ]);
  assert.equal(of(F1, "client"), []);
  assert.equal(of(F0, null), [[second, "b"]]);
});

test("pages the records of one or several repositories, newest first", () => {
  const { store, organizationId, flow, trail, artifact } = opened();
  const repo = (provider: string) =>
    store.repos.capture(organizationId, {
      externalId: "1",
      provider,
      name: "n",
      url: "https://git.test/x",
      description: "",
      namespacePath: null,
      additionalInfoJson: null,
    });
  const [one, two, other] = [repo("github"), repo("gitlab"), repo("")];
  const f = flow("f");
  const t = trail(f.id, "t");
  const records = [one, two, other, one, two].map((repo_id, n) => artifact(f.id, t.id, `${n}`.repeat(64), { repo_id }));
  const list = (repos: number[], limit = 9, offset = 0) =>
    Array.from(store.artifactLists.select({ organizationId, repoIds: repos }).list({ limit, offset }), ({ id }) =>
      records.indexOf(id),
    );
  assert.equal(
    {
      "list([one])": list([one]),
      "list([two])": list([two]),
      "list([one, two])": list([one, two]),
      "list([])": list([]),
    },
    { "list([one])": [3, 0], "list([two])": [4, 1], "list([one, two])": [4, 3, 1, 0], "list([])": [] },
  );
  assert.equal(
    {
      "list 1": list([one], 1),
      "list 1 1": list([one], 1, 1),
      "list 3": list([one, two], 3),
      "list 3 3": list([one, two], 3, 3),
      "list 3 6": list([one, two], 3, 6),
    },
    { "list 1": [3], "list 1 1": [0], "list 3": [4, 3, 1], "list 3 3": [0], "list 3 6": [] },
  );
});

test("tells whether an organization has more than so many records, of its own", () => {
  const { store, organizationId, flow, trail, artifact } = opened();
  const f = flow("f");
  const t = trail(f.id, "t");
  for (const n of [1, 2, 3]) artifact(f.id, t.id, `${n}`.repeat(64));
  const isMoreThan = (count: number): boolean => store.artifactLists.isMoreThan(organizationId, count);
  assert.equal([0, 2, 3, 4].map(isMoreThan), [true, true, false, false]);
  assert.not.ok(store.artifactLists.isMoreThan(organizationId + 1, 0));
});

test("an index serves every query on artifacts, and pages follow its order", () => {
  const { db, sql, store, organizationId } = opened();
  const state = "INCOMPLETE";
  store.artifactLists.isMoreThan(organizationId, 1);
  for (const place of [{}, { flowId: 1 }, { repoIds: [1] }])
    for (const narrowed of [place, { ...place, state }, { ...place, search: "x" }] as const) {
      const selection = store.artifactLists.select({ organizationId, ...narrowed });
      Array.from(selection.list({ limit: 1, offset: 0 }));
      selection.countStates();
    }
  const about = sql.filter(
    (text) =>
      /\b(FROM|JOIN) (artifacts|attestation_bindings|current_attestations|pending_bindings)\b/.test(text) &&
      text.startsWith("SELECT"),
  );
  assert.ok(about.length > 20);
  for (const text of about) {
    // json_each is a virtual table over one value; a subquery has at most 5,001 ids from an index.
    const scanned = scans(db, text).filter((step) => !/^SCAN (?:searched|\(subquery-\d+\))$/.test(step));
    assert.equal(scanned, [], text);
  }
  const paged = about.filter((text) => text.includes("ORDER BY a.id DESC LIMIT ? OFFSET ?"));
  assert.is(new Set(paged).size, 9);
  for (const text of paged)
    assert.not.ok(
      plan(db, text).some((step) => step.includes("TEMP B-TREE")),
      text,
    );
});

test.run();
