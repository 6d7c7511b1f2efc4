/** No changes where there is no room, reads in any case, and changes again when there is. */
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { operations } from "../../src/api/index.ts";
import { type AppError, unavailable } from "../../src/errors.ts";
import { createLogger } from "../../src/log.ts";
import { createDiskGuard, translateStorageError, probeWrite } from "../../src/server/disk-guard.ts";
import { freeBytes } from "../../src/store/db/disk-space.ts";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";

const MB = 1_048_576;
const deciding = suite("room: deciding");

const givenRoom = () => {
  const machine = { free: (500 * MB) as number | Error, works: true };
  const lines: { level: string; msg: string; reason?: string }[] = [];
  const reopened: number[] = [];
  const room = createDiskGuard({
    reserve: 100 * MB,
    logger: createLogger({ level: "info", destination: { write: (line) => void lines.push(JSON.parse(line)) } }),
    free: async () => {
      if (machine.free instanceof Error) throw machine.free;
      return machine.free;
    },
    probeWrite: async () => {
      if (!machine.works) throw coded("EIO");
    },
    reopened: () => void reopened.push(1),
  });
  return {
    room,
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

deciding("below the reserve nothing is admitted, until a tenth more is free", async () => {
  const { room, machine, messages, reopened } = givenRoom();
  await room.check();
  assert.is(room.readOnlyReason(), null);
  room.ensureWritable(300 * MB);
  machine.free = 100 * MB - 1;
  await room.check();
  const refused = refusal(() => room.ensureWritable());
  assert.is(refused?.code, "no_space");
  assert.is(
    refused?.message,
    "The server takes no changes at the moment: the disk of the data directory has 99 MB left, and below 100 MB (disk-reserve) only reads are served. Nothing was stored",
  );
  assert.equal(refused?.headers, { "Retry-After": "60" });
  machine.free = 105 * MB;
  await room.check();
  assert.is.not(room.readOnlyReason(), null);
  assert.equal(
    { messages: messages(), reopened },
    { messages: ["error: taking no changes, only reads"], reopened: [] },
  );
  machine.free = 111 * MB;
  await room.check();
  room.ensureWritable();
  assert.equal({ messages: messages(), reopened }, { messages: ["info: taking changes again"], reopened: [1] });
});

deciding("what would not leave the reserve is not begun", async () => {
  const { room } = givenRoom();
  await room.check();
  room.ensureWritable(400 * MB);
  assert.match(
    refusal(() => room.ensureWritable(400 * MB + 1))?.message ?? "",
    "has no room for 400 MB beside its reserve of 100 MB",
  );
  assert.is(room.readOnlyReason(), null);
});

deciding("after trouble of the storage a write on trial decides", async () => {
  const { room, machine, messages } = givenRoom();
  for (const harmless of [
    coded("SQLITE_BUSY"),
    coded("SQLITE_CONSTRAINT"),
    coded("ECONNRESET"),
    new Error("x"),
    null,
    unavailable("later", 1),
  ])
    room.reportFailure(harmless);
  assert.is(room.readOnlyReason(), null);
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
    room.reportFailure(code.startsWith("E") ? unavailable("later", 1, coded(code)) : coded(code));
    assert.match(room.readOnlyReason() ?? "", `the last write failed (${code})`);
    await room.check();
    assert.match(room.readOnlyReason() ?? "", "a write on trial failed (EIO)");
    machine.works = true;
    await room.check();
    assert.is(room.readOnlyReason(), null, code);
    assert.equal(messages(), ["error: taking no changes, only reads", "info: taking changes again"], code);
  }
});

deciding("free space that cannot be measured decides nothing", async () => {
  const { room, machine, messages } = givenRoom();
  machine.free = coded("EACCES");
  await room.check();
  assert.is(room.readOnlyReason(), null);
  assert.equal(messages(), ["warn: the free space of the data directory cannot be measured"]);
});

deciding("errors of the storage become answers, and all others stay", () => {
  const full = translateStorageError(coded("ENOSPC")) as AppError;
  assert.equal(
    { code: full.code, message: full.message },
    {
      code: "no_space",
      message:
        "The server takes no changes at the moment: there is no room left on the disk of the data directory (ENOSPC). Nothing was stored",
    },
  );
  const broken = translateStorageError(coded("EIO")) as AppError;
  assert.equal(
    { code: broken.code, headers: broken.headers },
    { code: "unavailable", headers: { "Retry-After": "5" } },
  );
  assert.is((broken.internal as Error).message, "EIO");
  for (const other of [new Error("bug"), coded("ENOENT"), coded("SQLITE_CONSTRAINT"), unavailable("later", 1)])
    assert.is(translateStorageError(other), other);
});

deciding("the trial writes durably and leaves nothing", async () => {
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

const serving = suite("room: serving");
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
  "every change is refused before its body is read, nobody learns more than before, and reads go on",
  async () => {
    server.disk.free = 999_999;
    await server.room.check();
    const before = rows();
    const told = {
      message:
        "The server takes no changes at the moment: the disk of the data directory has 0 MB left, and below 0 MB (disk-reserve) only reads are served. Nothing was stored",
    };
    const changes = operations.filter(
      ({ method, status, permission }) => method !== "GET" && status !== "removed" && permission !== "signed",
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
        { status: 507, body: told, "Retry-After": "60" },
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
    await server.room.check();
    assert.is(
      (await server.call("PUT", `/trails/${at.org}/${flow}`, { key: at.key, form: { json: { name: "again" } } }))
        .status,
      201,
    );
  },
);

serving("a batch that the storage fails is refused, and so is what comes until a trial succeeds", async () => {
  // The page that the database may not grow beyond: SQLite itself says that the disk is full.
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
  assert.is(
    statuses.filter((status) => status !== 201 && status !== 503 && status !== 507).length,
    0,
    String(statuses),
  );
  const refused = await server.call("PUT", `/flows/${at.org}`, { key: at.key, body: {} });
  assert.equal(
    { status: refused.status, body: refused.body },
    {
      status: 507,
      body: {
        message:
          "The server takes no changes at the moment: the last write failed (SQLITE_FULL), and the next one is tried in a few seconds. Nothing was stored",
      },
    },
  );
  const stored = statuses.filter((status) => status === 201).length;
  const [trails] = rows() as number[];
  assert.is(trails, (before as number[])[0]! + stored);
  server.db.pragma("max_page_count = 1073741823");
  server.disk.fails = false;
  await server.room.check();
  assert.is(
    (await server.call("PUT", `/trails/${at.org}/${flow}`, { key: at.key, form: { json: { name: "after" } } })).status,
    201,
  );
});

serving.run();
