/** Small evidence in the database lives exactly as long as an attestation names it. */
import { createHash } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { smallEvidenceStore } from "../../../src/store/attestations/small-evidence.ts";
import { opened } from "../given.ts";

const test = suite("store/attestations/small-evidence");

const CONTENT = Buffer.from("report");
const DIGEST = createHash("sha256").update(CONTENT).digest("hex");

/** `count` attestations that name the same evidence, whose content is in the database. */
function named(count: number) {
  const all = opened();
  const evidence = smallEvidenceStore(all.db);
  const flow = all.flow("f").id;
  const trail = all.trail(flow, "t").id;
  evidence.insert(DIGEST, CONTENT);
  for (let n = 0; n < count; n += 1) {
    all.attestation(flow, trail, `n${n}`, { evidence_digest: DIGEST, evidence_size: CONTENT.length });
  }
  const ids = all.db.prepare<[], number>("SELECT id FROM attestations ORDER BY id").pluck().all();
  return { ...all, evidence, ids };
}

test("content is kept once for each digest", () => {
  const { db, evidence } = named(2);
  evidence.insert(DIGEST, CONTENT);
  assert.equal(evidence.find(DIGEST), CONTENT);
  assert.is(evidence.find("0".repeat(64)), null);
  assert.is(db.prepare("SELECT count(*) FROM small_evidence").pluck().get(), 1);
});

test("damaged content is replaced by the same file, told, and counted as before", () => {
  const { db, evidence } = named(2);
  const totals = () => db.prepare("SELECT * FROM evidence_totals").get();
  const before = totals();
  for (const damage of ["x'6f6f707321'", "x'00'"]) {
    db.exec("DROP TRIGGER small_evidence_is_final");
    db.exec(`UPDATE small_evidence SET content = ${damage}`);
    db.exec(
      "CREATE TRIGGER small_evidence_is_final BEFORE UPDATE ON small_evidence BEGIN SELECT raise(ABORT, 'final'); END",
    );
    assert.is(evidence.insert(DIGEST, CONTENT), true);
    assert.equal(evidence.find(DIGEST), CONTENT);
    assert.equal(totals(), before);
    assert.is(evidence.insert(DIGEST, CONTENT), false);
  }
});

test("content of 65,536 bytes is kept, and one byte more is refused", () => {
  const { evidence } = named(0);
  evidence.insert("a".repeat(64), Buffer.alloc(65_536));
  assert.is(evidence.find("a".repeat(64))?.length, 65_536);
  assert.throws(() => evidence.insert("b".repeat(64), Buffer.alloc(65_537)), /CHECK constraint failed/);
  assert.is(evidence.find("b".repeat(64)), null);
});

test("content goes when the last attestation stops naming it", () => {
  const { db, evidence, ids } = named(2);
  const drop = db.prepare("UPDATE attestations SET evidence_digest = NULL, evidence_size = NULL WHERE id = ?");
  drop.run(ids[0]);
  assert.equal(evidence.find(DIGEST), CONTENT);
  drop.run(ids[1]);
  assert.is(evidence.find(DIGEST), null);
});

test("content that an attestation names is neither changed nor deleted", () => {
  const { db, evidence } = named(1);
  assert.throws(() => db.exec("DELETE FROM small_evidence"), /an attestation names this evidence/);
  assert.throws(() => db.exec("UPDATE small_evidence SET content = x'00'"), /evidence is never changed/);
  assert.equal(evidence.find(DIGEST), CONTENT);
});

test("a refused transaction leaves no content", () => {
  const { db, evidence } = named(0);
  const content = Buffer.from("other");
  const digest = createHash("sha256").update(content).digest("hex");
  const refused = db.transaction(() => {
    evidence.insert(digest, content);
    throw new Error("refused");
  });
  assert.throws(refused, /refused/);
  assert.is(evidence.find(digest), null);
});

test.run();
