/** Small evidence is part of the database in a backup; the other files are members of the archive. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { IncompleteEvidenceError } from "../../src/backup/errors.ts";
import { openDatabase } from "../../src/store/db/database.ts";
import { smallEvidenceStore } from "../../src/store/attestations/small-evidence.ts";
import { AT, EVIDENCE, backUp, evidenceIn, givenData, removeDirectories, restore, sha256 } from "./given.ts";

const test = suite("backup/small-evidence");
const [ONE, BLOCK, LARGE] = EVIDENCE;
const given = await givenData({ smallEvidence: 1_000 });
test.after(async () => {
  await given.server.stop();
  removeDirectories();
});

test("a backup and its restore keep small evidence in the database, and only the rest in files", async () => {
  const { archive, manifest } = await backUp(given);
  assert.equal(manifest.files, { count: 1, bytes: LARGE.length, missing: [] });
  assert.is(manifest.database.rows["small_evidence"], 2);
  const { directory } = await restore(archive);
  assert.equal([...evidenceIn(directory).keys()], [sha256(LARGE)]);
  const db = openDatabase(directory, AT);
  const rows = smallEvidenceStore(db);
  for (const content of [ONE, BLOCK]) assert.equal(rows.find(sha256(content)), content);
  db.close();
});

test("a backup of altered content is refused and names it, and --allow-missing accepts it", async () => {
  const { db } = given.server;
  const trigger = db.prepare("SELECT sql FROM sqlite_schema WHERE name = 'small_evidence_is_final'").pluck().get();
  db.exec("DROP TRIGGER small_evidence_is_final");
  db.prepare("UPDATE small_evidence SET content = ? WHERE digest = ?").run(Buffer.from("y"), sha256(ONE));
  db.exec(String(trigger));
  const error = await backUp(given).catch((thrown: unknown) => thrown);
  assert.instance(error, IncompleteEvidenceError);
  assert.equal((error as IncompleteEvidenceError).problems, [
    `evidence ${sha256(ONE)} is damaged: its content in the database differs from its digest`,
  ]);
  const { manifest } = await backUp(given, { allowMissing: true });
  assert.equal(manifest.files, { count: 1, bytes: LARGE.length, missing: [] });
});

test.run();
