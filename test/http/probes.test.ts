import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../given.ts";

const test = suite("http/probes");

test("ready answers the bare text OK without a key, and with a bogus one", async () => {
  const server = await startServer();
  try {
    for (const key of [null, "bogus"]) {
      const answer = await server.call("GET", "//ready", { key });
      assert.is(answer.status, 200);
      assert.is(answer.text, "OK");
      assert.match(answer.headers.get("Content-Type") ?? "", /^text\/plain/);
      assert.is(answer.headers.get("Cache-Control"), "no-store");
    }
  } finally {
    await server.stop();
  }
});

test("ready is 503 when the database does not answer; healthz says that the process lives", async () => {
  const server = await startServer();
  try {
    server.db.close();
    const ready = await server.call("GET", "//ready");
    assert.is(ready.status, 503);
    assert.is(ready.text, "The database does not answer");
    const alive = await server.call("GET", "//healthz");
    assert.is(alive.status, 200);
    assert.is(alive.text, "OK");
  } finally {
    await server.stop();
  }
});

test.run();
