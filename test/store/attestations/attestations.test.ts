import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { AttestationFilter } from "../../../src/store/attestations/attestation-search.ts";
import { opened, plan } from "../given.ts";
import type { NewAttestation } from "../../../src/store/attestations/attestation-rows.ts";

const test = suite("store/attestations/attestations");
const [FINGERPRINT, COMMIT] = ["f".repeat(64), "c".repeat(40)];

/** A trail with an artifact, and helpers that report attestations to it. */
function world() {
  const all = opened();
  const f = all.flow("f");
  const t = all.trail(f.id, "t");
  const artifact = all.artifact(f.id, t.id, FINGERPRINT, { referenceName: "app" });
  const { attestations } = all.store;
  const onTrail = (name: string, fields: Partial<NewAttestation> = {}) => {
    const made = all.attestation(f.id, t.id, name, fields);
    attestations.bindToTrail(t.id, made.id, name);
    return made;
  };
  const made = (name: string, fields: Partial<NewAttestation> = {}) =>
    all.attestation(f.id, t.id, name, { scope: "artifact", ...fields });
  const bind = (id: number, name: string, to = artifact) =>
    attestations.bindToArtifact({ trailId: t.id, artifactId: to }, { id, name });
  const onArtifact = (name: string, fields: Partial<NewAttestation> = {}, to = artifact) => {
    const one = made(name, fields);
    bind(one.id, name, to);
    return one;
  };
  const override = (fields: Partial<NewAttestation> = {}) => ({
    type: "override",
    overridden_type: "generic",
    ...fields,
  });
  /** Adds an artifact to the trail. */
  const another = (fingerprint: string) => all.artifact(f.id, t.id, fingerprint, { referenceName: "db" });
  return { ...all, f, t, artifact, another, attestations, onTrail, made, bind, onArtifact, override };
}
const fact = (
  name: string,
  type: string,
  attestationId: string | null,
  overriddenAttestationId: string | null,
  isCompliant = true,
) => ({
  name,
  type,
  attestationId,
  overriddenAttestationId,
  isCompliant,
});

test("reads a record by id and by public id, the latter only in its own organization", () => {
  const { store, organizationId, onTrail, attestations, f, t } = world();
  const other = store.organizations.create({ name: "other", kind: "shared", isPublic: false, controlsEnabled: true });
  const { id, publicId } = onTrail("a", { description: "d", payload_json: '{"x":1}' });
  const row = attestations.get(id);
  assert.equal(
    {
      public_id: row.public_id,
      name: row.name,
      description: row.description,
      payload_json: row.payload_json,
      trail_id: row.trail_id,
    },
    { public_id: publicId, name: "a", description: "d", payload_json: '{"x":1}', trail_id: t.id },
  );
  assert.equal(attestations.findByPublicId(organizationId, publicId), { ...row, flow_name: f.name, trail_name: "t" });
  assert.is(attestations.findByPublicId(other, publicId), null);
  assert.is(attestations.findByPublicId(organizationId, "nothing"), null);
  assert.throws(() => attestations.get(id + 1), /attestation \d+ is gone/);
});

test("the latest record of a name counts at each place, in whatever order records are bound", () => {
  const { t, artifact, attestations, onTrail, made, bind } = world();
  const [first, second] = [onTrail("a"), onTrail("a")];
  attestations.bindToTrail(t.id, first.id, "a");
  const [older, newer] = [made("a"), made("a", { is_compliant: 0 })];
  bind(newer.id, "a");
  bind(older.id, "a");
  bind(older.id, "a");
  assert.equal(
    {
      'current(t.id, null, "a").id': attestations.findCurrent(t.id, null, "a")?.id,
      'current(t.id, artifact, "a").id': attestations.findCurrent(t.id, artifact, "a")?.id,
      'current(t.id, artifact, "b")': attestations.findCurrent(t.id, artifact, "b"),
    },
    {
      'current(t.id, null, "a").id': second.id,
      'current(t.id, artifact, "a").id': newer.id,
      'current(t.id, artifact, "b")': null,
    },
  );
  assert.equal(
    [...attestations.readFacts(t.id)],
    [
      [null, [fact("a", "generic", second.publicId, null)]],
      [artifact, [fact("a", "generic", newer.publicId, null, false)]],
    ],
  );
  assert.equal(
    attestations.listReceivedBy(artifact).map(({ name }) => name),
    ["a", "a"],
  );
  assert.equal(
    attestations.listLatestByArtifact(t.id, artifact).map(({ id }) => id),
    [newer.id],
  );
});

test("an override replaces the newest ordinary record at its own place, however many came between", () => {
  const { t, artifact, attestations, onTrail, onArtifact, override } = world();
  onTrail("a", { type: "junit" });
  const original = onTrail("a", { type: "snyk", control: null });
  onTrail("a", override({ original_id: original.id, overridden_type: "snyk" }));
  const last = onTrail("a", override({ original_id: original.id, overridden_type: "snyk", is_compliant: 0 }));
  const alone = onArtifact("a", override({ overridden_type: "jira" }));
  assert.equal(
    [...attestations.readFacts(t.id)],
    [
      [null, [fact("a", "snyk", original.publicId, last.publicId, false)]],
      [artifact, [fact("a", "jira", null, alone.publicId)]],
    ],
  );
  const ended = onTrail("a");
  assert.equal(attestations.readFacts(t.id).get(null), [fact("a", "generic", ended.publicId, null)]);
});

test("an override reported before the artifact overrides that artifact's own record", () => {
  const { t, artifact, another, attestations, made, bind, onArtifact, override } = world();
  const second = another("e".repeat(64));
  const early = made("a", { type: "snyk", is_compliant: 0 });
  const own = onArtifact("a", { type: "jira" }, second);
  const over = made("a", override({ overridden_type: "junit" }));
  bind(over.id, "a");
  assert.equal(attestations.readFacts(t.id).get(artifact), [fact("a", "junit", null, over.publicId)]);
  bind(early.id, "a");
  bind(over.id, "a", second);
  assert.equal(attestations.readFacts(t.id).get(artifact), [fact("a", "snyk", early.publicId, over.publicId)]);
  assert.equal(attestations.readFacts(t.id).get(second), [fact("a", "jira", own.publicId, over.publicId)]);
});

test("records wait for a name and a commit, and keep waiting for further artifacts", () => {
  const { t, attestations, made, bind } = world();
  const waiting = (name: string, commit = COMMIT, target = "app") => {
    const { id } = made(name, { git_commit: commit, target_artifacts_json: JSON.stringify([target]) });
    attestations.addPendingBinding(id, { trailId: t.id, referenceName: target, commit });
    attestations.addPendingBinding(id, { trailId: t.id, referenceName: target, commit });
    return id;
  };
  const [a, again, other] = [waiting("a"), waiting("a"), waiting("b")];
  waiting("a", "d".repeat(40));
  waiting("a", COMMIT, "db");
  const byFingerprint = made("c", { artifact_fingerprint: FINGERPRINT }).id;
  bind(byFingerprint, "c");
  const candidates = (referenceName: string | null, fingerprint = FINGERPRINT) =>
    attestations.listBindingCandidates(t.id, { fingerprint, referenceName, gitCommit: COMMIT }, 10).map(({ id }) => id);
  assert.equal(candidates("app"), [a, again, other, byFingerprint]);
  assert.equal(candidates("app"), candidates("app"));
  assert.equal(
    { "candidates(null)": candidates(null), "candidates web": candidates("web", "e".repeat(64)) },
    { "candidates(null)": [byFingerprint], "candidates web": [] },
  );
  assert.equal(
    attestations
      .listBindingCandidates(t.id, { fingerprint: FINGERPRINT, referenceName: "app", gitCommit: COMMIT }, 10)
      .at(-1),
    {
      id: byFingerprint,
      name: "c",
      attestationId: String(byFingerprint),
      artifactFingerprint: FINGERPRINT,
      targetArtifacts: [],
      commit: null,
    },
  );
  assert.is(attestations.findLatestPending({ trailId: t.id, referenceName: "app", commit: COMMIT }, "a")?.id, again);
  assert.is(attestations.findLatestPending({ trailId: t.id, referenceName: "app", commit: COMMIT }, "c"), null);
  assert.is(attestations.findLatestPending({ trailId: t.id, referenceName: "web", commit: COMMIT }, "a"), null);
});

test("reads no more candidates for a new artifact than asked for, however many there are", () => {
  const { db, sql, t, attestations, made, bind, another } = world();
  const second = another(FINGERPRINT);
  const [first] = Array.from({ length: 3 }, () => {
    const { id } = made("c", { artifact_fingerprint: FINGERPRINT });
    bind(id, "c");
    bind(id, "c", second);
    return id;
  });
  const waiting = Array.from({ length: 3 }, () => {
    const { id } = made("a", { git_commit: COMMIT, target_artifacts_json: '["app"]' });
    attestations.addPendingBinding(id, { trailId: t.id, referenceName: "app", commit: COMMIT });
    return id;
  });
  const artifact = { fingerprint: FINGERPRINT, referenceName: "app", gitCommit: COMMIT };
  const candidates = (limit: number) => attestations.listBindingCandidates(t.id, artifact, limit).map(({ id }) => id);
  assert.equal(candidates(1), [first, waiting[0]]);
  assert.is(candidates(3).length, 6);
  const limited = sql.filter((text) =>
    /FROM (attestation_bindings b|pending_bindings pb) .*LIMIT (\?|@limit)$/s.test(text),
  );
  assert.is(limited.length, 2);
  for (const text of limited) assert.not.match(plan(db, text).join("\n"), /TEMP B-TREE/, text);
});

test("a policy sees the latest of each name on both levels, overrides as what they override", () => {
  const { t, artifact, another, onTrail, onArtifact, override, attestations } = world();
  const review = onTrail("review", { type: "pull_request" });
  onArtifact("scan");
  const scan = onArtifact("scan", { is_compliant: 0 });
  const decision = onArtifact("go", { type: "system:decision", control: "C-1", control_version: 2 });
  const over = onArtifact("go", override({ overridden_type: "generic", original_id: decision.id, is_compliant: 0 }));
  const sibling = onArtifact("scan", {}, another("e".repeat(64)));
  assert.ok(sibling.id > scan.id);
  assert.equal(attestations.listPolicyCandidates(t.id, artifact), [
    {
      name: "scan",
      type: "generic",
      isCompliant: false,
      control: null,
      attestationId: scan.publicId,
      level: "artifact",
      sequence: scan.id,
    },
    {
      name: "go",
      type: "system:decision",
      isCompliant: false,
      control: "C-1",
      attestationId: over.publicId,
      level: "artifact",
      sequence: over.id,
    },
    {
      name: "review",
      type: "pull_request",
      isCompliant: true,
      control: null,
      attestationId: review.publicId,
      level: "trail",
      sequence: review.id,
    },
  ]);
});

/** The ids of listed records as letters, in the order of their reports. */
function lists() {
  const all = world();
  const g = all.flow("g");
  const u = all.trail(g.id, "u");
  const ids = [
    all.onTrail("a", { git_commit: COMMIT, created_at: 10 }).id,
    all.onTrail("b", { git_commit: COMMIT, type: "snyk", is_compliant: 0, created_at: 11 }).id,
    all.onTrail("b", { type: "override", overridden_type: "snyk", created_at: 12.5 }).id,
    all.onArtifact("a", { created_at: 13 }).id,
    all.attestation(g.id, u.id, "a", { created_at: 14 }).id,
  ];
  const letters = (rows: Iterable<{ id: number }>): string =>
    Array.from(rows, ({ id }) => "ABCDE"[ids.indexOf(id)]).join("");
  const everything: AttestationFilter = {
    organizationId: all.organizationId,
    before: null,
    publicId: null,
    commit: null,
    names: null,
    flowIds: null,
    types: null,
    isCompliant: null,
    from: null,
    to: null,
  };
  const search = (filter: Partial<AttestationFilter>, limit = 10) =>
    letters(all.store.attestationSearch.search({ ...everything, ...filter }, limit));
  return {
    ...all,
    g,
    u,
    ids,
    letters,
    search,
    lists: all.store.attestationLists,
    names: all.store.attestationSearch.listNames,
  };
}

test("a search returns the records that match every filter, newest first", () => {
  const { search, ids, f, g } = lists();
  const cases: [Partial<AttestationFilter>, string][] = [
    [{}, "EDCBA"],
    [{ organizationId: 99 }, ""],
    [{ before: ids[2] as number }, "BA"],
    [{ names: ["a"] }, "EDA"],
    [{ names: ["a", "b", "c"] }, "EDCBA"],
    [{ names: [] }, ""],
    [{ flowIds: [g.id] }, "E"],
    [{ flowIds: [f.id, g.id] }, "EDCBA"],
    [{ flowIds: [] }, ""],
    [{ types: ["snyk"] }, "CB"],
    [{ types: ["override", "generic"] }, "EDCA"],
    [{ types: [] }, ""],
    [{ isCompliant: false }, "B"],
    [{ from: 12, to: 13 }, "DC"],
    [{ from: 11, to: 12 }, "B"],
    [{ names: ["a"], flowIds: [f.id], isCompliant: true, from: 11, before: ids[4] as number }, "D"],
  ];
  for (const [filter, expected] of cases) assert.is(search(filter), expected, JSON.stringify(filter));
  assert.is(search({}, 2), "ED");
});

test("lists records by flow, by name, by artifact and by commit", () => {
  const { lists: stored, names, letters, f, g, t, organizationId } = lists();
  const span = (from: number | null, to: number | null) => [
    letters(stored.listByFlow(f.id, { from, to }, { limit: 10, offset: 0 })),
    stored.countByFlow(f.id, { from, to }),
  ];
  assert.equal(
    {
      "span(null, null)": span(null, null),
      "span(11, null)": span(11, null),
      "span(null, 11)": span(null, 11),
      "span(12, 13)": span(12, 13),
      "span(14, null)": span(14, null),
    },
    {
      "span(null, null)": ["DCBA", 4],
      "span(11, null)": ["DCB", 3],
      "span(null, 11)": ["BA", 2],
      "span(12, 13)": ["DC", 2],
      "span(14, null)": ["", 0],
    },
  );
  assert.equal(
    [
      letters(stored.listByFlow(f.id, { from: null, to: null }, { limit: 2, offset: 1 })),
      letters(stored.listByFlow(g.id, { from: null, to: null }, { limit: 2, offset: 1 })),
    ],
    ["CB", ""],
  );
  assert.equal(
    {
      "letters underTrail b": letters(stored.listByTrail(t.id, "b")),
      "letters underTrail a": letters(stored.listByTrail(t.id, "a")),
      "letters underTrail c": letters(stored.listByTrail(t.id, "c")),
    },
    { "letters underTrail b": "CB", "letters underTrail a": "A", "letters underTrail c": "" },
  );
  assert.equal(
    {
      'letters underArtifact(f.id, FINGERPRINT, "a")': letters(stored.listByArtifact(f.id, FINGERPRINT, "a")),
      'letters underArtifact(g.id, FINGERPRINT, "a")': letters(stored.listByArtifact(g.id, FINGERPRINT, "a")),
    },
    { 'letters underArtifact(f.id, FINGERPRINT, "a")': "D", 'letters underArtifact(g.id, FINGERPRINT, "a")': "" },
  );
  assert.equal(
    {
      "letters ofCommit(organizationId, COMMIT)": letters(stored.listByCommit(organizationId, COMMIT)),
      "letters ofCommit 99": letters(stored.listByCommit(99, COMMIT)),
    },
    { "letters ofCommit(organizationId, COMMIT)": "BA", "letters ofCommit 99": "" },
  );
  assert.equal(
    { "names organizationId": names(organizationId), "names 99": names(99) },
    { "names organizationId": ["a", "b"], "names 99": [] },
  );
});

test("evidence that a record names is referenced", () => {
  const { onTrail, store } = world();
  const { evidenceLocation } = store;
  const digest = "d".repeat(64);
  assert.is(evidenceLocation.isReferenced(digest), false);
  onTrail("a", { evidence_digest: digest, evidence_size: 0 });
  assert.is(evidenceLocation.isReferenced(digest), true);
});

/**
 * Queries that sort what is bound to one record, the ids of one trail, records that are named one by one, or the ids in
 * the scope of an audit binder.
 */
const SORTS_FEW = new RegExp(
  [
    "current_attestations|attestation_bindings|pending_bindings|WHERE trail_id = \\?|json_each",
    "t\\.created_at >= @from|AS found",
  ].join("|"),
);

test("no list and no lookup scans or sorts the whole table", () => {
  const { db, sql, search, f, lists: stored, letters, t, organizationId } = lists();
  search({ names: ["a"] });
  search({ flowIds: [f.id], before: 5 });
  search({ names: ["a", "b"], types: ["snyk"], isCompliant: true, from: 1, to: 2 });
  letters(stored.listByFlow(f.id, { from: 1, to: 2 }, { limit: 1, offset: 1 }));
  letters([...stored.listByTrail(t.id, "a"), ...stored.listByCommit(organizationId, COMMIT)]);
  // An audit package sorts the files of its own trail by digest (audit-packages.test.ts).
  const about = sql.filter(
    (text) =>
      text.startsWith("SELECT") && text.includes("attestations att") && !text.includes("GROUP BY att.evidence_digest"),
  );
  assert.ok(about.length > 12);
  const offences = about.flatMap((text) =>
    plan(db, text)
      .filter((step) => /^SCAN att\b/.test(step) || (step.includes("TEMP B-TREE") && !SORTS_FEW.test(text)))
      .map((step) => `${step}: ${text}`),
  );
  assert.equal(offences, []);
});

test.run();
