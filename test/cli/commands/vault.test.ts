/**
 * `assay vault`: moves the evidence between the data directory and a real S3 server; at any moment one of them is
 * complete and in use.
 */
import { mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { lockDirectory } from "../../../src/store/db/data-directory-lock.ts";
import { evidencePath } from "../../../src/evidence/layout.ts";
import { startServer } from "../../given.ts";
import { contentOf, digestOf, removeRoots } from "../../evidence/given.ts";
import { BUCKET, freePort, KEYS, respondWithError, startStorage } from "../../evidence/s3-server.ts";
import type { Storage } from "../../evidence/s3-server.ts";
import { BYTES, CONTENTS, DIGESTS, onData as onStorage } from "./evidence-given.ts";
import { auditOf, cli, inDirectory, joinPatterns, look, start } from "../in-process.ts";

let storage: Storage;
const test = suite("cli/commands/vault");
test.before(async () => {
  storage = await startStorage();
});
test.after(async () => {
  await storage.stop();
  removeRoots();
});

const onData = <T>(body: Parameters<typeof onStorage<T>>[1]): Promise<T> => onStorage(storage, body);
const recorded = (directory: string): string | null =>
  look(directory, ({ evidenceLocation }) => evidenceLocation.findCurrent());

test("moves evidence to the storage and back, verifies it, and records the location in the database", async () => {
  await onData(async ({ directory, place, vault, inDirectory, onStorage }) => {
    const there = await vault("migrate", "--to", place);
    assert.equal(there, {
      code: 0,
      err: "",
      out:
        `${place} has 3 files, ${BYTES} bytes; 3 of them newly copied\n` +
        `the evidence is now stored there: start the server with --evidence-store ${place}\n` +
        `the old location, the data directory ${directory}, was left unchanged\n`,
    });
    assert.equal(
      { recorded: recorded(directory), inDirectory: inDirectory(), onStorage: onStorage() },
      { recorded: place, inDirectory: DIGESTS, onStorage: DIGESTS },
    );
    const status = await vault("status", "--json");
    assert.equal(
      { code: status.code, out: JSON.parse(status.out) },
      {
        code: 0,
        out: { place, files: 3, bytes: BYTES, in_database: { files: 0, bytes: 0 }, reachable: true, why: null },
      },
    );
    assert.is(
      (await vault("migrate", "--to", place)).out,
      `the evidence is already stored in ${place}; nothing to do\n`,
    );

    rmSync(join(directory, "evidence"), { recursive: true });
    const back = await vault("migrate", "--to", "directory", "--remove-source", "--json");
    assert.equal(
      { code: back.code, out: JSON.parse(back.out) },
      {
        code: 0,
        out: {
          from: place,
          to: "directory",
          switched: true,
          files: 3,
          bytes: BYTES,
          copied: 3,
          unnamed: 0,
          lost: [],
          removed: 3,
        },
      },
    );
    assert.equal(
      { recorded: recorded(directory), inDirectory: inDirectory(), onStorage: onStorage() },
      { recorded: "directory", inDirectory: DIGESTS, onStorage: [] },
    );
    for (const content of CONTENTS)
      assert.ok(readFileSync(evidencePath(join(directory, "evidence"), digestOf(content))).equals(content));
    assert.equal(
      auditOf(directory).filter((line) => line.startsWith("vault migrate")),
      [
        `vault migrate evidence.moved ${place} {"from":"directory"}`,
        `vault migrate evidence.moved directory {"from":"${place}"}`,
      ],
    );
  });
});

test("small evidence stays in the database when files move", async () => {
  await onData(async ({ directory, place, vault, env, onStorage }) => {
    const server = await startServer({ directory });
    const at = server.given.org();
    const flow = await server.given.flow(at);
    const trail = await server.given.trail(at, { flow });
    const file = { name: "attachment_file", filename: "small.txt", content: "small" };
    await server.given.attestation(at, { flow, trail, file });
    await server.stop();

    const moved = JSON.parse((await vault("migrate", "--to", place, "--remove-source", "--json")).out);
    assert.equal({ files: moved.files, bytes: moved.bytes }, { files: 3, bytes: BYTES });
    assert.equal(onStorage(), DIGESTS);
    assert.is(
      (await vault("status")).out,
      `evidence is stored in ${place}: 3 files referenced by attestations, ${BYTES} bytes\n` +
        "the database holds 1 more small files, 5 bytes\nthe storage is reachable\n",
    );
    const verified = await cli(["verify", "--json"], { env });
    assert.is(verified.code, 0, verified.out);
    const evidence = JSON.parse(verified.out).checks.find(({ check }: { check: string }) => check === "evidence");
    assert.equal(evidence.looked_at, { files: 4, "bytes read": BYTES + 5 });
  });
});

test("evidence in the database binds a directory to no location", async () => {
  await inDirectory(async (directory) => {
    const server = await startServer({ directory });
    const at = server.given.org();
    const flow = await server.given.flow(at);
    const trail = await server.given.trail(at, { flow });
    const file = { name: "attachment_file", filename: "small.txt", content: "small" };
    await server.given.attestation(at, { flow, trail, file });
    await server.stop();
    assert.is(recorded(directory), null);
  });
});

test("skips files that are already there, and replaces incomplete and damaged ones", async () => {
  await onData(async ({ place, vault, prefix, onStorage, directory }) => {
    const copied = await vault("copy", "--to", place, "--json");
    assert.equal(
      { code: copied.code, copied: JSON.parse(copied.out).copied, switched: JSON.parse(copied.out).switched },
      { code: 0, copied: 3, switched: false },
    );
    assert.is(recorded(directory), "directory");
    storage.requests();
    assert.is(JSON.parse((await vault("copy", "--to", place, "--json")).out).copied, 0);
    assert.equal(
      storage.requests().filter((line) => line.startsWith("PUT ")),
      [],
    );

    const [first = "", second = ""] = DIGESTS;
    const keyOf = (digest: string): string => storage.fileOf(`${prefix}/${digest.slice(0, 2)}/${digest.slice(2)}`);
    truncateSync(keyOf(first), 5);
    const changed = readFileSync(keyOf(second));
    changed[0] = (changed[0] ?? 0) ^ 1;
    writeFileSync(keyOf(second), changed);
    // One of the right size is compared byte by byte, because the store reports no checksum.
    assert.is(JSON.parse((await vault("migrate", "--to", place, "--json")).out).copied, 2);
    assert.equal({ recorded: recorded(directory), onStorage: onStorage() }, { recorded: place, onStorage: DIGESTS });
    for (const digest of [first, second]) assert.is(digestOf(readFileSync(keyOf(digest))), digest);
  });
});

test("does not switch when the storage fails, and continues with the next run", async () => {
  await onData(async ({ directory, place, vault, onStorage, env }) => {
    let uploads = 0;
    const end = storage.inject((incoming, outgoing, pass) => {
      if (incoming.method !== "PUT") return pass();
      uploads += 1;
      if (uploads === 1) return pass();
      incoming.resume();
      respondWithError(outgoing, 403, "AccessDenied");
    });
    const failed = await vault("migrate", "--to", place);
    end();
    assert.equal(
      { code: failed.code, out: failed.out, recorded: recorded(directory) },
      { code: 1, out: "", recorded: "directory" },
    );
    assert.match(
      failed.err,
      joinPatterns(
        /AccessDenied.*status 403.*The location was not switched; the copied files stay at the target, run this again/s,
        / to continue/s,
      ),
    );
    assert.is(onStorage().length, 1);
    assert.is(JSON.parse((await vault("migrate", "--to", place, "--json")).out).copied, 2);

    const down = { ...env, ASSAY_S3_ENDPOINT: `http://127.0.0.1:${await freePort()}` };
    const status = await cli(["vault", "status"], { env: down });
    assert.is(status.code, 1);
    assert.match(status.out, /the storage does not respond: .*ECONNREFUSED/);
    const back = await cli(["vault", "migrate", "--to", "directory", "--remove-source"], { env: down });
    assert.equal(
      { code: back.code, recorded: recorded(directory), onStorage: onStorage() },
      { code: 1, recorded: place, onStorage: DIGESTS },
    );
  });
});

test("does not switch when stopped half way", async () => {
  await onData(async ({ directory, place, env }) => {
    const running = start(["vault", "migrate", "--to", place], { env });
    const end = storage.inject((incoming, _, pass) => {
      if (incoming.method === "PUT") void running.stop();
      setImmediate(pass);
    });
    const { code, err } = await running.ended;
    end();
    assert.is(code, 1);
    assert.match(err, "stopped by SIGTERM; the location was not switched");
    assert.is(recorded(directory), "directory");
  });
});

test("refuses to move lost evidence and names it, unless --allow-missing is given", async () => {
  await onData(async ({ directory, place, vault }) => {
    const [missing = "", damaged = ""] = DIGESTS;
    const at = (digest: string): string => evidencePath(join(directory, "evidence"), digest);
    rmSync(at(missing));
    rmSync(at(damaged));
    writeFileSync(at(damaged), "something else");
    const refused = await vault("migrate", "--to", place);
    assert.equal({ code: refused.code, recorded: recorded(directory) }, { code: 5, recorded: "directory" });
    assert.is(
      refused.err,
      `assay: evidence ${missing} is missing\nassay: evidence ${damaged} is damaged\n` +
        "assay: the location was not switched; --allow-missing moves the rest without these files\n",
    );
    const moved = await vault("migrate", "--to", place, "--allow-missing");
    assert.equal({ code: moved.code, recorded: recorded(directory) }, { code: 0, recorded: place });
    assert.match(
      moved.out,
      `evidence ${missing} is missing in the old location\nevidence ${damaged} is damaged in the old location\n`,
    );
  });
});

test("copies recent unreferenced files, but not old ones", async () => {
  await onData(async ({ directory, place, vault, onStorage }) => {
    const young = contentOf(77, 77);
    const path = evidencePath(join(directory, "evidence"), digestOf(young));
    mkdirSync(join(path, ".."), { recursive: true });
    writeFileSync(path, young);
    assert.is(JSON.parse((await vault("migrate", "--to", place, "--json")).out).unnamed, 1);
    assert.equal(onStorage(), [...DIGESTS, digestOf(young)].sort());
  });
});

test("copies but does not migrate a directory that a server uses", async () => {
  await onData(async ({ directory, place, vault }) => {
    const lock = lockDirectory(directory);
    const refused = await vault("migrate", "--to", place);
    assert.is(refused.code, 4);
    assert.match(refused.err, "is in use by another Assay process");
    assert.is(JSON.parse((await vault("copy", "--to", place, "--json")).out).copied, 3);
    lock.release();
  });
});

test("refuses invalid arguments and reports missing credentials", async () => {
  await onData(async ({ directory, place, vault }) => {
    for (const to of [[], ["--to", "elsewhere"], ["--to", "s3://"]]) {
      const refused = await vault("migrate", ...to);
      assert.equal(
        { code: refused.code, err: refused.err },
        {
          code: 2,
          err: "assay: --to: give s3://BUCKET, s3://BUCKET/PREFIX or directory\nassay: see assay help vault migrate\n",
        },
      );
    }
    const keyless = await cli(["vault", "migrate", "--to", place, "--data", directory]);
    assert.equal(
      { code: keyless.code, err: keyless.err },
      {
        code: 1,
        err:
          `assay: no keys for the evidence on ${place}: give --s3-access-key and --s3-secret-key, their ASSAY_ ` +
          "variables, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY\n",
      },
    );
    const aws = await cli(["vault", "migrate", "--to", place, "--data", directory, "--s3-endpoint", storage.endpoint], {
      env: { AWS_ACCESS_KEY_ID: KEYS.accessKey, AWS_SECRET_ACCESS_KEY: KEYS.secretKey },
    });
    assert.is(aws.code, 0);
  });
});

const serve = (directory: string, env: Record<string, string>, ...words: string[]) =>
  start(["serve", "--data", directory, "--listen", "127.0.0.1:0", ...words], { env });

test("a server refuses a location other than the recorded one", async () => {
  await onData(async ({ directory, place, vault, env }) => {
    const early = await serve(directory, env, "--evidence-store", place).ended;
    assert.is(early.code, 1);
    assert.match(
      early.err,
      `the evidence is kept in the data directory, but --evidence-store is ${place}: leave out --evidence-store`,
    );
    assert.match(early.err, `or move it to ${place} with assay vault migrate --to ${place}`);
    await vault("migrate", "--to", place);
    const { ASSAY_S3_ENDPOINT: _, ASSAY_S3_ACCESS_KEY: __, ASSAY_S3_SECRET_KEY: ___, ...plain } = env;
    const late = await serve(directory, plain).ended;
    assert.match(
      late.err,
      `the evidence is kept in ${place}, but no --evidence-store is given: give --evidence-store ${place}`,
    );
    const right = serve(directory, env, "--evidence-store", place);
    await right.wrote(/listening on/);
    assert.is((await right.stop()).code, 0);
    const other = await cli(["vault", "status"], { env: { ...env, ASSAY_EVIDENCE_STORE: `${place}/other` } });
    assert.equal({ code: other.code, out: other.out }, { code: 1, out: "" });
    assert.match(other.err, `the evidence is kept in ${place}, but --evidence-store is ${place}/other`);
  });
});

test("a directory without evidence takes any configured location", async () => {
  await inDirectory(async (directory) => {
    const env = {
      ASSAY_S3_ENDPOINT: storage.endpoint,
      ASSAY_S3_ACCESS_KEY: KEYS.accessKey,
      ASSAY_S3_SECRET_KEY: KEYS.secretKey,
    };
    for (const words of [[`s3://${BUCKET}/fresh`], [], [`s3://${BUCKET}/other`]]) {
      const running = serve(
        directory,
        words.length > 0 ? env : {},
        ...words.flatMap((place) => ["--evidence-store", place]),
      );
      await running.wrote(/listening on/);
      assert.is((await running.stop()).code, 0);
      assert.is(recorded(directory), words[0] ?? "directory");
    }
  });
});

test("a server starts while its storage is down, and logs that", async () => {
  await inDirectory(async (directory) => {
    const env = {
      ASSAY_S3_ENDPOINT: `http://127.0.0.1:${await freePort()}`,
      ASSAY_S3_ACCESS_KEY: "a",
      ASSAY_S3_SECRET_KEY: "b",
    };
    const running = serve(directory, env, "--evidence-store", `s3://${BUCKET}/down`);
    await running.wrote(/listening on/);
    await running.wrote(/the evidence storage does not answer.*503/);
    assert.is((await running.stop()).code, 0);
  });
});

test.run();
