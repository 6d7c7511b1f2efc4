/** Operations about the API itself: its version. The document has its own tests in test/whole/. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { readBuildInfo } from "../../src/assets.ts";
import { schemaVersion } from "../../src/store/db/database.ts";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";

const test = suite("api/meta");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

test("returns version, commit and schema without authentication", async () => {
  const { status, body } = await server.call("GET", "/version");
  const { version, commit } = readBuildInfo();
  assert.is(status, 200);
  assert.equal(body, { version, commit, schema: schemaVersion() });
  assert.match(body.version, /^\d+\.\d+\.\d+/);
});

test("serves the version under the alias as well, and refuses writes", async () => {
  const { body } = await server.call("GET", "/version");
  assert.equal((await server.call("GET", "//api/fastapi/version")).body, body);
  const refused = await server.call("PUT", "/version", { body: {} });
  assert.equal({ status: refused.status, allow: refused.headers.get("allow") }, { status: 405, allow: "GET, HEAD" });
});

test.run();
