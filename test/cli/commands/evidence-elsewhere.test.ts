/** Evidence on a real S3 server with the maintenance commands: backup, restore, verify, doctor, vacuum. */
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, truncateSync, utimesSync } from "node:fs";
import { basename, join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { readFileHeader } from "../../../src/store/db/database.ts";
import { lockEvidence } from "../../../src/store/db/data-directory-lock.ts";
import { evidencePath } from "../../../src/evidence/layout.ts";
import { removeRoots } from "../../evidence/given.ts";
import { freePort, givenS3Store, startStorage } from "../../evidence/s3-server.ts";
import type { Storage } from "../../evidence/s3-server.ts";
import { place as placeFixture } from "../../upgrades/fixture.ts";
import { BYTES, CONTENTS, DIGESTS, onData } from "./evidence-given.ts";
import { cli, inDirectory, look, start } from "../in-process.ts";

let storage: Storage;
const test = suite("cli/commands/evidence-elsewhere");
test.before(async () => {
  storage = await startStorage();
});
test.after(async () => {
  await storage.stop();
  removeRoots();
});

type OnStorage = Parameters<Parameters<typeof onData>[1]>[0] & {
  /** The same variables for a storage that is down. */
  down: Record<string, string>;
  fileOf(digest: string): string;
};

/** Calls `body` with a data directory without a server whose evidence is only on the storage. */
const elsewhere = (body: (given: OnStorage) => Promise<void>): Promise<void> =>
  onData(storage, async (given) => {
    const moved = await given.vault("migrate", "--to", given.place, "--remove-source");
    assert.is(moved.code, 0, moved.err);
    assert.equal(
      { inDirectory: given.inDirectory(), onStorage: given.onStorage() },
      { inDirectory: [], onStorage: DIGESTS },
    );
    await body({
      ...given,
      down: { ...given.env, ASSAY_S3_ENDPOINT: `http://127.0.0.1:${await freePort()}` },
      fileOf: (digest) => storage.fileOf(`${given.prefix}/${digest.slice(0, 2)}/${digest.slice(2)}`),
    });
  });

const recorded = (directory: string): string | null =>
  look(directory, ({ evidenceLocation }) => evidenceLocation.findCurrent());
const [FIRST = "", SECOND = ""] = DIGESTS;
/** Asserts a message about the storage that neither mentions lost evidence nor shows a stack. */
const noAnswer = (err: string): void => {
  assert.match(err, /(evidence gives no answer|does not respond): .*ECONNREFUSED/);
  assert.not.match(err, /missing|damage|unexpected failure| {4}at /);
};

test("a backup contains the evidence of the storage and restores it to a directory", async () => {
  await elsewhere(async ({ directory, place, env }) => {
    await inDirectory(async (home) => {
      const [archive, target] = [join(home, "assay.tar"), join(home, "restored")];
      const made = await cli(["backup", archive, "--verify", "--json"], { env });
      assert.is(made.code, 0, made.err);
      assert.is(JSON.parse(made.out).evidence.count, CONTENTS.length);
      assert.equal(readdirSync(home), ["assay.tar"]);
      assert.is(recorded(directory), place);

      const restored = await cli(["restore", archive, "--data", target]);
      assert.is(restored.code, 0, restored.err);
      assert.is(recorded(target), "directory");
      for (const [index, content] of CONTENTS.entries())
        assert.ok(
          DIGESTS.some((digest) => readFileSync(evidencePath(join(target, "evidence"), digest)).equals(content)),
          `content ${index}`,
        );
      const verified = await cli(["verify", "--data", target, "--json"]);
      assert.is(verified.code, 0, verified.out + verified.err);
      const evidence = JSON.parse(verified.out).checks.find(({ check }: { check: string }) => check === "evidence");
      assert.equal(
        { looked_at: evidence.looked_at, noted: evidence.noted },
        { looked_at: { files: CONTENTS.length, "bytes read": BYTES }, noted: 0 },
      );

      const server = start(["serve", "--data", target, "--listen", "127.0.0.1:0"]);
      await server.wrote(/API reference/);
      assert.is((await server.stop()).code, 0);
      const refused = await cli(["serve", "--data", target, "--listen", "127.0.0.1:0", "--evidence-store", place], {
        env: { ...env, ASSAY_DATA: target },
      });
      assert.is(refused.code, 1);
      assert.match(refused.err, `the evidence is kept in the data directory, but --evidence-store is ${place}`);
    });
  });
});

test("a backup without evidence does not access the storage, and its restore keeps the location", async () => {
  await elsewhere(async ({ directory, place }) => {
    await inDirectory(async (home) => {
      const [archive, target] = [join(home, "assay.tar"), join(home, "restored")];
      storage.requests();
      const made = await cli(["backup", archive, "--without-evidence", "--data", directory]);
      assert.is(made.code, 0, made.err);
      assert.equal(storage.requests(), []);
      assert.match((await cli(["restore", archive, "--data", target])).err, "restore it with --without-evidence");
      assert.is((await cli(["restore", archive, "--without-evidence", "--data", target])).code, 0);
      assert.is(recorded(target), place);
      const keys = await cli(["backup", archive, "--overwrite", "--data", directory]);
      assert.is(keys.code, 1);
      assert.match(keys.err, `no keys for the evidence on ${place}: give --s3-access-key`);
    });
  });
});

test("restores backups of all earlier schemas unchanged", async () => {
  for (const schema of [1, 2, 3]) {
    await inDirectory(async (home) => {
      const [data, archive, target] = [join(home, "data"), join(home, "assay.tar"), join(home, "restored")];
      placeFixture(schema, data);
      const made = await cli(["backup", archive, "--data", data]);
      assert.is(made.code, 0, made.err);
      const restored = await cli(["restore", archive, "--data", target]);
      assert.is(restored.code, 0, restored.err);
      assert.is(readFileHeader(join(target, "assay.db"))?.schemaVersion, schema);
      assert.equal(
        readdirSync(join(target, "evidence"), { recursive: true }).sort(),
        readdirSync(join(data, "evidence"), { recursive: true }).sort(),
      );
      assert.is(recorded(target), "directory");
    });
  }
});

test("reports a storage configured before the migration, and no missing evidence", async () => {
  await onData(storage, async ({ directory, place, env }) => {
    const configured = { ...env, ASSAY_EVIDENCE_STORE: place };
    for (const words of [
      ["backup", join(directory, "..", "never.tar")],
      ["verify"],
      ["vacuum", "--evidence"],
      ["vault", "status"],
    ]) {
      const { code, err } = await cli(words, { env: configured });
      assert.is(code, 1, words.join(" "));
      assert.match(err, `the evidence is kept in the data directory, but --evidence-store is ${place}`);
    }
    assert.not.ok(existsSync(join(directory, "..", "never.tar")));
    rmSync(join(directory, "staging"), { recursive: true });
    assert.is((await cli(["verify"], { env })).code, 0);
    assert.not.ok(existsSync(join(directory, "staging")), "it makes nothing");
  });
});

test("verify reads the objects and names damaged and missing ones", async () => {
  await elsewhere(async ({ directory, env, fileOf }) => {
    rmSync(join(directory, "evidence"), { recursive: true });
    rmSync(join(directory, "staging"), { recursive: true });
    const clean = await cli(["verify"], { env });
    assert.is(clean.code, 0, clean.out + clean.err);
    assert.match(clean.out, `${CONTENTS.length} files, ${BYTES} bytes read`);
    assert.equal(
      ["evidence", "staging"].filter((name) => existsSync(join(directory, name))),
      [],
      "it makes nothing",
    );

    const bytes = readFileSync(fileOf(FIRST));
    truncateSync(fileOf(FIRST), bytes.length - 1);
    renameSync(fileOf(SECOND), `${fileOf(SECOND)}.away`);
    const damaged = await cli(["verify", "--json"], { env });
    assert.is(damaged.code, 5);
    const { findings } = JSON.parse(damaged.out).checks.find(({ check }: { check: string }) => check === "evidence");
    assert.equal(
      findings.map(({ about }: { about: string }) => about).sort(),
      [FIRST, SECOND].map((digest) => `evidence ${digest}`),
    );
    assert.match(
      findings.find(({ about }: { about: string }) => about.endsWith(SECOND)).problem,
      /^is missing; named by attestation/,
    );

    const backup = await cli(["backup", join(directory, "..", "never.tar")], { env });
    assert.is(backup.code, 5);
    assert.match(backup.err, `evidence ${SECOND} is missing`);
    assert.not.ok(existsSync(join(directory, "..", "never.tar")));
  });
});

test("explains that a storage does not respond, and reports no missing evidence", async () => {
  await elsewhere(async ({ directory, down, onStorage }) => {
    await inDirectory(async (home) => {
      for (const words of [
        ["backup", join(home, "assay.tar")],
        ["backup", join(home, "assay.tar"), "--allow-missing"],
        ["verify"],
        ["verify", "--quick"],
        ["vacuum", "--evidence"],
      ]) {
        const { code, err } = await cli(words, { env: down });
        assert.is(code, 1, words.join(" "));
        noAnswer(err);
      }
      assert.equal(readdirSync(home), []);
      assert.equal(onStorage(), DIGESTS);
      look(directory, (_, db) => db.exec("CREATE TABLE added (id INTEGER PRIMARY KEY) STRICT"));
      const found = await cli(["verify"], { env: down });
      assert.is(found.code, 5, "what was found is not hidden by it");
      assert.match(found.out, /evidence: cannot be checked, because its storage does not respond: .*ECONNREFUSED/);
      assert.match(found.out, "Damage: 2 problems in schema, evidence");
      assert.not.match(found.out, "missing");
    });
  });
});

test("doctor checks the location as a start does, and probes the storage", async () => {
  await elsewhere(async ({ directory, place, env, down }) => {
    const checkEvidenceStore = async (surroundings: Record<string, string>) => {
      const { out } = await cli(["doctor", "--json", "--listen", "127.0.0.1:0"], { env: surroundings });
      const { level, found } = JSON.parse(out).checks.find(
        ({ check }: { check: string }) => check === "evidence store",
      );
      return { level, found };
    };
    assert.equal(await checkEvidenceStore({ ...env, ASSAY_EVIDENCE_STORE: place }), {
      level: "ok",
      found: `${place} responds`,
    });
    const dead = await checkEvidenceStore({ ...down, ASSAY_EVIDENCE_STORE: place });
    assert.is(dead.level, "fail");
    assert.match(dead.found, /does not respond: .*ECONNREFUSED/);
    const wrong = await checkEvidenceStore({ ASSAY_DATA: directory });
    assert.is(wrong.level, "fail");
    assert.match(wrong.found, `the evidence is kept in ${place}, but no --evidence-store is given`);
    const keyless = await checkEvidenceStore({ ASSAY_DATA: directory, ASSAY_EVIDENCE_STORE: place });
    assert.is(keyless.level, "fail");
    assert.match(keyless.found, "no keys for the evidence");
  });
});

test("vacuum sweeps only old unreferenced objects", async () => {
  await elsewhere(async ({ env, prefix, fileOf, onStorage }) => {
    const { put } = givenS3Store({ storage, prefix });
    const [old, young] = [await put(Buffer.from("old")), await put(Buffer.from("young"))];
    for (const digest of [old, ...DIGESTS]) utimesSync(fileOf(digest), 1, 1);
    const { code, out, err } = await cli(["vacuum", "--evidence", "--json"], { env });
    assert.is(code, 0, err);
    const { evidence_files, evidence_bytes } = JSON.parse(out);
    assert.equal(
      { evidence_files, evidence_bytes, onStorage: onStorage() },
      { evidence_files: 1, evidence_bytes: 3, onStorage: [...DIGESTS, young].sort() },
    );
  });
});

test("refuses a migration with --remove-source while a backup runs", async () => {
  await elsewhere(async ({ directory, place, vault, env, inDirectory: inPlace, onStorage }) => {
    const lock = lockEvidence(directory);
    try {
      const refused = await vault("migrate", "--to", "directory", "--remove-source");
      assert.is(refused.code, 4);
      assert.match(refused.err, /a backup of .* is running.*nothing was moved/);
      assert.equal(
        { recorded: recorded(directory), inPlace: inPlace(), onStorage: onStorage() },
        { recorded: place, inPlace: [], onStorage: DIGESTS },
      );
      const swept = await cli(["vacuum", "--evidence"], { env });
      assert.is(swept.code, 4);
      assert.match(swept.err, "no evidence was removed");
    } finally {
      lock?.release();
    }
    assert.is((await vault("migrate", "--to", "directory", "--remove-source")).code, 0);
    assert.equal(
      { recorded: recorded(directory), inPlace: inPlace(), onStorage: onStorage() },
      { recorded: "directory", inPlace: DIGESTS, onStorage: [] },
    );
  });
});

test("a server backs up evidence on the storage, and logs when it does not respond", async () => {
  await elsewhere(async ({ directory, place, env, down }) => {
    const words = ["serve", "--listen", "127.0.0.1:0", "--evidence-store", place, "--backup-every", "24h"];
    const dead = start(words, { env: down });
    const text = await dead.wrote(/"msg":"the backup failed/);
    const { error } = JSON.parse(text.split("\n").find((line) => line.includes("the backup failed")) ?? "{}");
    assert.match(error, /^the .*(gives no answer|does not respond): .*ECONNREFUSED/);
    const stopped = await dead.stop();
    assert.equal(
      [stopped.code, existsSync(join(directory, "backups")) ? readdirSync(join(directory, "backups")) : []],
      [0, []],
    );

    const server = start(words, { env });
    const made = await server.wrote(/"msg":"made a backup"/);
    const { file, files, missing } = JSON.parse(
      made.split("\n").find((line) => line.includes("made a backup")) ?? "{}",
    );
    assert.equal({ files, missing }, { files: CONTENTS.length, missing: 0 });
    await server.stop();
    const target = join(directory, "..", `${basename(directory)}-restored`);
    try {
      assert.is((await cli(["restore", file, "--data", target])).code, 0);
      assert.equal(
        { recorded: recorded(target), code: (await cli(["verify", "--data", target])).code },
        { recorded: "directory", code: 0 },
      );
    } finally {
      rmSync(target, { recursive: true, force: true });
    }
  });
});

test("keeps the storage credentials out of logs, messages and backups", async () => {
  await elsewhere(async ({ directory, place, env }) => {
    const keys = ["ACCESS-4711-NOBODY", "SECRET-4711-NOBODY"] as const;
    const unknown = { ...env, ASSAY_S3_ACCESS_KEY: keys[0], ASSAY_S3_SECRET_KEY: keys[1] };
    const server = start(
      ["serve", "--listen", "127.0.0.1:0", "--evidence-store", place, "--log-level", "debug", "--backup-every", "24h"],
      { env: unknown },
    );
    await server.wrote(/"msg":"the backup failed/);
    const said = [await server.stop()];
    for (const words of [["backup", join(directory, "never.tar")], ["verify"], ["vault", "status"]])
      said.push(await cli(words, { env: unknown }));
    assert.equal(
      said.map(({ code }) => code),
      [0, 1, 1, 1],
    );
    for (const { out, err } of said) for (const key of keys) assert.not.match(out + err + process.title, key);

    const archive = join(directory, "assay.tar");
    assert.is((await cli(["backup", archive], { env })).code, 0);
    const bytes = readFileSync(archive);
    assert.ok(bytes.includes(place), "where the evidence was is in it");
    for (const name of ["ASSAY_S3_SECRET_KEY", "ASSAY_S3_ENDPOINT"])
      assert.not.ok(bytes.includes(env[name] ?? ""), name);
  });
});

test.run();
