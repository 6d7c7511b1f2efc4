import { suite } from "uvu";
import * as assert from "uvu/assert";
import { readBuildInfo } from "../../src/assets.ts";
import { schemaVersion } from "../../src/store/db/database.ts";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";

const test = suite("http/health");

/** Runs `body` with a server of its own. */
async function withServer(body: (server: TestServer) => Promise<void>): Promise<void> {
  const server = await startServer();
  try {
    await body(server);
  } finally {
    await server.stop();
  }
}

const { version, commit } = readBuildInfo();
const READY = {
  state: "ready",
  reason: null,
  version,
  commit,
  schema: schemaVersion(),
  clock: { state: "right", problem: null },
  evidence_reachable: null,
};

test("/ready answers the bare text OK without a key, and with a bogus one", () =>
  withServer(async (server) => {
    for (const key of [null, "bogus"]) {
      const answer = await server.call("GET", "//ready", { key });
      assert.is(answer.status, 200);
      assert.is(answer.text, "OK");
      assert.match(answer.headers.get("Content-Type") ?? "", /^text\/plain/);
      assert.is(answer.headers.get("Cache-Control"), "no-store");
    }
  }));

test("/readyz answers JSON with version, schema and state, without a key", () =>
  withServer(async (server) => {
    const answer = await server.call("GET", "//readyz", { key: null });
    assert.is(answer.status, 200);
    assert.match(answer.headers.get("Content-Type") ?? "", /^application\/json/);
    assert.is(answer.headers.get("Cache-Control"), "no-store");
    assert.equal(answer.body, READY);
  }));

test("/readyz says that evidence storage does not answer, and the server stays ready", () =>
  withServer(async (server) => {
    server.disk.isEvidenceReachable = false;
    const answer = await server.call("GET", "//readyz", { key: null });
    assert.equal([answer.status, answer.body], [200, { ...READY, evidence_reachable: false }]);
  }));

test("/ready and /readyz are 503 if the database fails; /healthz says that the process is alive", () =>
  withServer(async (server) => {
    server.db.close();
    const ready = await server.call("GET", "//ready");
    assert.is(ready.status, 503);
    assert.is(ready.text, "The database does not answer");
    const readyz = await server.call("GET", "//readyz");
    assert.is(readyz.status, 503);
    assert.equal(readyz.body, { ...READY, state: "unavailable", reason: "The database does not answer" });
    const alive = await server.call("GET", "//healthz");
    assert.is(alive.status, 200);
    assert.is(alive.text, "OK");
  }));

test("/ready and /readyz are 503 with the reason while the disk cannot be read", () =>
  withServer(async (server) => {
    server.disk.problem = "the database cannot be read (EIO)";
    const reason = "Storage failure: the database cannot be read (EIO)";
    const ready = await server.call("GET", "//ready");
    assert.equal({ status: ready.status, text: ready.text }, { status: 503, text: reason });
    const readyz = await server.call("GET", "//readyz");
    assert.equal(
      { status: readyz.status, body: readyz.body },
      { status: 503, body: { ...READY, state: "unavailable", reason } },
    );
    server.disk.problem = null;
    assert.is((await server.call("GET", "//ready")).text, "OK");
  }));

test("a read-only server is ready, and /readyz gives the reason", () =>
  withServer(async (server) => {
    server.disk.free = 10;
    await server.diskGuard.check();
    assert.equal(
      { status: (await server.call("GET", "//ready")).status, text: (await server.call("GET", "//ready")).text },
      { status: 200, text: "OK" },
    );
    const { status, body } = await server.call("GET", "//readyz");
    assert.is(status, 200);
    assert.is(body.state, "read-only");
    assert.match(
      body.reason,
      new RegExp(
        "^The server is in read-only mode: the disk of the data directory has 0 MB free, " +
          "less than the reserve of \\d+ MB \\(disk-reserve\\)$",
      ),
    );
  }));

test("/readyz reports an implausible clock, and the server stays ready", () =>
  withServer(async (server) => {
    server.disk.clock = { state: "ahead", problem: "the clock shows a time to come" };
    const { status, body } = await server.call("GET", "//readyz");
    assert.equal(
      { status, body },
      { status: 200, body: { ...READY, clock: { state: "ahead", problem: "the clock shows a time to come" } } },
    );
  }));

test("successful probes are not logged at level info", () =>
  withServer(async (server) => {
    for (const path of ["ready", "readyz", "healthz"]) await server.call("GET", `//${path}`);
    assert.equal(server.lines, []);
  }));

test.run();
