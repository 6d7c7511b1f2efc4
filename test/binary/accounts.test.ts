// Accounts over their life: an operator adds and removes people on the command line while the executable serves, and
// the existing clients mint, rotate and revoke the key of a service account.

import { userInfo } from "node:os";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createClient, expectStatus } from "./client.ts";
import { inDirectory, run, start } from "./executable.ts";

/** The membership audit log names the operating system user who ran the command. */
const OPERATOR = `operator (${userInfo().username})`;

const test = suite("binary/accounts");

test("members and keys change while the server runs, and revoked keys stay revoked after a restart", () =>
  inDirectory(async (data) => {
    const cli = async (...words: string[]): Promise<string> => {
      const { code, stdout, stderr } = await run([...words, "--data", data]);
      assert.is(code, 0, stderr);
      return stdout.trim();
    };
    const admin = await cli("init", "--org", "acme", "--user", "ops");
    const serve = () => start(["serve", "--data", data, "--listen", "127.0.0.1:0"]);
    let server = await serve();

    await cli("user", "create", "ann", "--email", "Ann@example.com");
    await cli("member", "add", "ann@example.com", "--org", "acme", "--role", "member");
    const ann = createClient(
      server.url,
      await cli("key", "create", "--user", "ann", "--description", "laptop"),
      "terraform",
    );
    const made = await expectStatus(
      ann.json("POST", "/service-accounts/acme", { name: "ci", description: null, privilege: "member" }),
      201,
    );
    assert.equal(await expectStatus(ann.json("GET", "/service-accounts/acme/ci"), 200), made);
    const key = await expectStatus(
      ann.json("POST", "/service-accounts/acme/ci/api-keys", { description: "pipeline", expires_at: 4_102_444_800 }),
      201,
    );
    const pipeline = createClient(server.url, key.key);
    await expectStatus(pipeline.json("GET", "/flows/acme"), 200);

    const kosli = createClient(server.url, admin);
    const rotated = await expectStatus(
      kosli.json("POST", `/service-accounts/acme/ci/api-keys/${key.id}/rotate`, {}),
      201,
    );
    assert.equal(
      { key: rotated.key, expires_at: rotated.expires_at },
      { key: rotated.api_key, expires_at: 4_102_444_800 },
    );
    for (const secret of [key.key, rotated.key])
      await expectStatus(createClient(server.url, secret).json("GET", "/flows/acme"), 200);
    const { body } = await kosli.json("DELETE", `/service-accounts/acme/ci/api-keys/${key.id}`, null);
    assert.is(body, "revoked");
    await expectStatus(pipeline.json("GET", "/flows/acme"), 401);

    await cli("member", "remove", "ann", "--org", "acme");
    await expectStatus(ann.json("GET", "/service-accounts/acme"), 403);
    const { events, total_count } = await expectStatus(
      kosli.json("GET", "/membership-audit-log/acme?search=ann&sort_dir=asc"),
      200,
    );
    assert.equal(
      {
        total_count,
        events: events.map((event: Record<string, unknown>) => [
          event["event_type"],
          event["role"],
          event["changed_by"],
          event["source"],
        ]),
      },
      {
        total_count: 2,
        events: [
          ["added", "member", OPERATOR, "script"],
          ["removed", null, OPERATOR, "script"],
        ],
      },
    );

    assert.equal(await server.stop(), { code: 0, signal: null });
    server = await serve();
    const again = createClient(server.url, rotated.key);
    await expectStatus(again.json("GET", "/flows/acme"), 200);
    await expectStatus(createClient(server.url, key.key).json("GET", "/flows/acme"), 401);
    assert.is(
      await expectStatus(createClient(server.url, admin).json("DELETE", "/service-accounts/acme/ci", null), 200),
      "OK",
    );
    await expectStatus(again.json("GET", "/flows/acme"), 401);
    await server.stop();
  }));

test.run();
