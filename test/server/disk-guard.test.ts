/** Read-only mode without free space: changes are refused, reads continue, and changes resume later. */
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { operations } from "../../src/api/index.ts";
import { isReading } from "../../src/http/operation.ts";
import { type AppError, unavailable } from "../../src/errors.ts";
import { createLogger } from "../../src/log.ts";
import { createDiskGuard, translateStorageError, probeWrite } from "../../src/server/disk-guard.ts";
import { freeBytes } from "../../src/store/db/disk-space.ts";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";

const MB = 1_048_576;
const deciding = suite("server/disk-guard: decisions");

const createGuard = ({ missing = 0 } = {}) => {
  const machine = { free: (500 * MB) as number | Error, works: true, missing };
  const lines: { level: string; msg: string; reason?: string }[] = [];
  const reopened: number[] = [];
  const guard = createDiskGuard({
    files: null,
    reserveBytes: 100 * MB,
    logger: createLogger({ level: "info", destination: { write: (line) => void lines.push(JSON.parse(line)) } }),
    measureFreeBytes: async () => {
      if (machine.free instanceof Error) throw machine.free;
      return machine.free;
    },
    countMissingCommits: () => machine.missing,
    probeWrite: async () => {
      if (!machine.works) throw coded("EIO");
    },
    onWritable: () => void reopened.push(1),
  });
  return {
    guard,
    machine,
    lines,
    reopened,
    messages: () => lines.splice(0).map(({ level, msg }) => `${level}: ${msg}`),
  };
};
const coded = (code: string) => Object.assign(new Error(code), { code });
const refusal = (work: () => void): AppError | null => {
  try {
    work();
    return null;
  } catch (error) {
    return error as AppError;
  }
};

deciding("refuses changes below the reserve until a tenth more is free", async () => {
  const { guard, machine, messages, reopened } = createGuard();
  await guard.check();
  assert.is(guard.readOnlyReason(), null);
  guard.ensureWritable(300 * MB);
  machine.free = 100 * MB - 1;
  await guard.check();
  const refused = refusal(() => guard.ensureWritable());
  assert.is(refused?.code, "no_space");
  assert.is(
    refused?.message,
    "The server is in read-only mode: the disk of the data directory has 99 MB free, less than the " +
      "reserve of 100 MB (disk-reserve). Nothing was stored",
  );
  assert.equal(refused?.headers, { "Retry-After": "60" });
  machine.free = 105 * MB;
  await guard.check();
  assert.is.not(guard.readOnlyReason(), null);
  assert.equal(
    { messages: messages(), reopened },
    { messages: ["error: entered read-only mode: changes are refused, reads continue"], reopened: [] },
  );
  machine.free = 111 * MB;
  await guard.check();
  guard.ensureWritable();
  assert.equal(
    { messages: messages(), reopened },
    { messages: ["info: left read-only mode: changes are accepted again"], reopened: [1] },
  );
});

deciding("refuses a body that would use up the reserve", async () => {
  const { guard } = createGuard();
  await guard.check();
  guard.ensureWritable(400 * MB);
  assert.match(
    refusal(() => guard.ensureWritable(400 * MB + 1))?.message ?? "",
    "has no space for 400 MB beyond its reserve of 100 MB",
  );
  assert.is(guard.readOnlyReason(), null);
});

deciding("after a storage failure a test write decides", async () => {
  const { guard, machine, messages } = createGuard();
  for (const harmless of [
    coded("SQLITE_BUSY"),
    coded("SQLITE_CONSTRAINT"),
    coded("ECONNRESET"),
    new Error("x"),
    null,
    unavailable("later", 1),
  ])
    guard.reportFailure(harmless);
  assert.is(guard.readOnlyReason(), null);
  for (const code of [
    "SQLITE_FULL",
    "SQLITE_IOERR_FSYNC",
    "SQLITE_READONLY",
    "ENOSPC",
    "EDQUOT",
    "EIO",
    "EROFS",
    "EACCES",
  ]) {
    machine.works = false;
    guard.reportFailure(code.startsWith("E") ? unavailable("later", 1, coded(code)) : coded(code));
    assert.match(guard.readOnlyReason() ?? "", `the last write failed (${code})`);
    await guard.check();
    assert.match(guard.readOnlyReason() ?? "", "a test write failed (EIO)");
    machine.works = true;
    await guard.check();
    assert.is(guard.readOnlyReason(), null, code);
    assert.equal(
      messages(),
      [
        "error: entered read-only mode: changes are refused, reads continue",
        "info: left read-only mode: changes are accepted again",
      ],
      code,
    );
  }
});

deciding("refuses changes while commits are missing, and permits them once the loss was accepted", async () => {
  const { guard, machine, messages, reopened } = createGuard({ missing: 5 });
  await guard.check();
  const refused = refusal(() => guard.ensureWritable());
  assert.is(refused?.code, "no_space");
  assert.match(
    refused?.message ?? "",
    /^The server is in read-only mode: the database lacks 5 commits that were acknowledged, .*assay accept-loss/,
  );
  // A test write proves nothing about commits that are missing.
  guard.reportFailure(coded("SQLITE_FULL"));
  await guard.check();
  assert.match(guard.readOnlyReason() ?? "", /lacks 5 commits/);
  assert.equal(messages(), ["error: entered read-only mode: changes are refused, reads continue"]);
  machine.missing = 0;
  await guard.check();
  assert.equal(
    { reason: guard.readOnlyReason(), messages: messages(), reopened },
    { reason: null, messages: ["info: left read-only mode: changes are accepted again"], reopened: [1] },
  );
});

deciding("free space that cannot be measured changes nothing", async () => {
  const { guard, machine, messages } = createGuard();
  machine.free = coded("EACCES");
  await guard.check();
  assert.is(guard.readOnlyReason(), null);
  assert.equal(messages(), ["warn: the free space of the data directory cannot be measured; keeping the last figure"]);
});

const CHANGE = { isChange: true };

deciding("the first write that a full disk refuses is 507, as the later ones in read-only mode", () => {
  for (const code of ["SQLITE_FULL", "ENOSPC", "EDQUOT"]) {
    const refused = unavailable("The write could not be stored. Nothing was changed. Please try again", 5, coded(code));
    const { code: kind, message, headers } = translateStorageError(refused, CHANGE) as AppError;
    assert.equal(
      { kind, message, headers },
      {
        kind: "no_space",
        message:
          `The server is in read-only mode: the disk of the data directory has no space left (${code}). ` +
          "Nothing was stored",
        headers: { "Retry-After": "60" },
      },
    );
    assert.is(translateStorageError(refused, { isChange: false }), refused, "a read keeps its own words");
  }
  const failing = unavailable("The write could not be stored", 5, coded("SQLITE_IOERR_WRITE"));
  assert.is(translateStorageError(failing, CHANGE), failing);
});

deciding("translates errors of the storage, and no others", () => {
  const full = translateStorageError(coded("ENOSPC"), CHANGE) as AppError;
  assert.equal(
    { code: full.code, message: full.message },
    {
      code: "no_space",
      message:
        "The server is in read-only mode: the disk of the data directory has no space left (ENOSPC). " +
        "Nothing was stored",
    },
  );
  const broken = translateStorageError(coded("EIO"), CHANGE) as AppError;
  assert.equal(
    { code: broken.code, headers: broken.headers },
    { code: "unavailable", headers: { "Retry-After": "5" } },
  );
  assert.is((broken.internal as Error).message, "EIO");
  const locked = translateStorageError(coded("SQLITE_BUSY_RECOVERY"), CHANGE) as AppError;
  assert.equal(
    { code: locked.code, message: locked.message, headers: locked.headers },
    {
      code: "unavailable",
      message:
        "Another process has locked the database. Nothing was changed. Please try again; if it keeps failing, the " +
        "operator can end that process (assay help database-files)",
      headers: { "Retry-After": "5" },
    },
  );
  for (const other of [new Error("bug"), coded("ENOENT"), coded("SQLITE_CONSTRAINT"), unavailable("later", 1)])
    assert.is(translateStorageError(other, CHANGE), other);
});

deciding("the test write is durable and leaves nothing behind", async () => {
  const directory = mkdtempSync(join(tmpdir(), "assay-test-"));
  try {
    await probeWrite(directory);
    assert.equal(readdirSync(directory), []);
    assert.ok((await freeBytes(directory)) > 0);
    const missing = join(directory, "missing");
    assert.is(
      await probeWrite(missing).then(
        () => null,
        ({ code }) => code,
      ),
      "ENOENT",
    );
    assert.not(existsSync(missing));
  } finally {
    rmSync(directory, { recursive: true });
  }
});

deciding.run();

const serving = suite("server/disk-guard: serving");
let server: TestServer;
let at: { org: string; key: string };
let flow = "";
serving.before(async () => {
  server = await startServer();
  at = server.given.org();
  flow = await server.given.flow(at);
});
serving.after(() => server.stop());

const rows = (): unknown =>
  server.db
    .prepare("SELECT (SELECT count(*) FROM trails), (SELECT count(*) FROM flows), (SELECT count(*) FROM audit_log)")
    .raw()
    .get();

serving(
  "refuses every change before its body is read, reveals nothing more than before, and answers reads",
  async () => {
    server.disk.free = 999_999;
    await server.diskGuard.check();
    const before = rows();
    const expectedBody = {
      message:
        "The server is in read-only mode: the disk of the data directory has 0 MB free, less than the " +
        "reserve of 0 MB (disk-reserve). Nothing was stored",
    };
    const changes = operations.filter(
      (operation) => !isReading(operation) && operation.status !== "removed" && operation.permission !== "signed",
    );
    assert.ok(changes.length > 50);
    for (const { id, method, path } of changes) {
      const url = path.replace("{org}", at.org).replace(/\{[^}]*\}/g, "x");
      const answer = await server.call(method, url, {
        key: at.key,
        raw: "this is no JSON",
        headers: { "Content-Type": "application/json" },
      });
      assert.equal(
        { status: answer.status, body: answer.body, "Retry-After": answer.headers.get("Retry-After") },
        { status: 507, body: expectedBody, "Retry-After": "60" },
        id,
      );
    }
    assert.is((await server.call("PUT", `/flows/${at.org}`, { key: null, body: {} })).status, 401);
    assert.is(
      (await server.call("PUT", `/flows/${at.org}`, { key: server.given.user(at.org, null), body: {} })).status,
      403,
    );
    assert.is((await server.call("GET", `/flows/${at.org}/${flow}`, { key: at.key })).status, 200);
    assert.equal(await (await fetch(`${server.url}/ready`)).text(), "OK");
    assert.equal(rows(), before);

    server.disk.free = Infinity;
    await server.diskGuard.check();
    assert.is(
      (await server.call("PUT", `/trails/${at.org}/${flow}`, { key: at.key, form: { json: { name: "again" } } }))
        .status,
      201,
    );
  },
);

serving("refuses a batch that fails on storage, and all changes until a test write succeeds", async () => {
  // With a maximum number of pages, SQLite itself reports a full disk.
  const pages = server.db.pragma("page_count", { simple: true }) as number;
  server.db.pragma(`max_page_count = ${pages}`);
  server.disk.fails = true;
  const before = rows();
  const statuses: number[] = [];
  for (let trail = 0; !statuses.includes(507) && trail < 500; trail += 1) {
    statuses.push(
      (
        await server.call("PUT", `/trails/${at.org}/${flow}`, {
          key: at.key,
          form: { json: { name: `trail-${trail}`, description: "x".repeat(3000) } },
        })
      ).status,
    );
  }
  assert.is(statuses.filter((status) => status !== 201 && status !== 507).length, 0, String(statuses));
  const refused = await server.call("PUT", `/flows/${at.org}`, { key: at.key, body: {} });
  assert.equal(
    { status: refused.status, body: refused.body },
    {
      status: 507,
      body: {
        message:
          "The server is in read-only mode: the last write failed (SQLITE_FULL); a test write follows in " +
          "a few seconds. Nothing was stored",
      },
    },
  );
  const stored = statuses.filter((status) => status === 201).length;
  const [trails] = rows() as number[];
  assert.is(trails, ((before as number[])[0] ?? NaN) + stored);
  server.db.pragma("max_page_count = 1073741823");
  server.disk.fails = false;
  await server.diskGuard.check();
  assert.is(
    (await server.call("PUT", `/trails/${at.org}/${flow}`, { key: at.key, form: { json: { name: "after" } } })).status,
    201,
  );
});

serving("an upload whose commit fails on a full disk leaves no file, and is taken once there is space", async () => {
  const evidence = () =>
    ["evidence", "staging"].flatMap((name) =>
      readdirSync(join(server.directory, name), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name)),
    );
  const upload = (name: string, content: Buffer) =>
    server.call("POST", `/attestations/${at.org}/${flow}/trail/full/generic`, {
      key: at.key,
      form: {
        json: { attestation_name: name, is_compliant: true, user_data: { filler: "x".repeat(100_000) } },
        file: { name: "attachment_file", filename: "a.bin", content },
      },
    });
  assert.is((await upload("before", Buffer.alloc(200_000, "before"))).status, 201);
  const [before, stored] = [evidence(), rows()];
  server.db.pragma(`max_page_count = ${server.db.pragma("page_count", { simple: true }) as number}`);
  // The first two share a commit.
  const content = Buffer.alloc(200_000, "refused");
  const refused = await Promise.all([upload("one", content), upload("two", content)]);
  for (const { status, body } of refused) {
    assert.is(status, 507);
    assert.match(body.message, /^The server is in read-only mode: .*SQLITE_FULL.* Nothing was stored$/);
  }
  assert.equal({ files: evidence(), rows: rows() }, { files: before, rows: stored });
  server.db.pragma("max_page_count = 1073741823");
  await server.diskGuard.check();
  assert.is((await upload("one", content)).status, 201);
  assert.is(evidence().length, before.length + 1);
});

serving.run();
