/** Keys that were made elsewhere: whose they become, and that no refusal quotes one. */
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { importApiKey } from "../../../src/api/operator/user-api-keys.ts";
import { withOperator } from "../../../src/cli/operator.ts";
import type { Operator } from "../../../src/cli/operator.ts";
import { AppError } from "../../../src/errors.ts";
import { keyDigest } from "../../../src/store/accounts/api-keys.ts";
import { auditOf, cli, inDirectory } from "../../cli/in-process.ts";

const test = suite("api/operator/user-api-keys");

const KEY = "0123456789abcdef";

/** The organization acme with its admin ops and the service account ci. */
const given = (body: (operator: Operator, data: string) => Promise<void>): Promise<void> =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    await cli(["init", "--data", data, "--org", "acme", "--user", "ops"]);
    await cli(["service-account", "create", "ci", "--org", "acme", "--data", data]);
    await withOperator(data, { command: "test" }, (operator) => body(operator, data));
  });

const CI = { org: "acme", service_account: "ci" };

test("a key becomes that of a user or a service account, and importing it again changes nothing", () =>
  given(async ({ call, store }, data) => {
    for (const [owner, key, name] of [
      [{ user: "ops" }, `${KEY}1`, "ops"],
      [CI, `${KEY}2`, "ci"],
    ] as const) {
      const made = await call(importApiKey, { body: { ...owner, description: "d", key } });
      assert.equal({ created: made.created, description: made.description }, { created: true, description: "d" });
      assert.is(store.apiKeys.findHolder(keyDigest(key))?.name, name);
      const entries = auditOf(data).length;
      const again = await call(importApiKey, { body: { ...owner, description: "other", expires_at: 4e9, key } });
      assert.equal(again, { ...made, created: false });
      assert.is(auditOf(data).length, entries);
    }
  }));

test("accepts a key with a hyphen in front that its owner has, as an earlier version let it", () =>
  given(async ({ call, store }) => {
    const key = `-${KEY}`;
    const { id } = store.users.find("ops") as { id: number };
    store.apiKeys.create({ userId: id }, { digest: keyDigest(key), description: "old", expiresAt: 0 });
    const known = await call(importApiKey, { body: { user: "ops", description: "old", key } });
    assert.equal({ created: known.created, description: known.description }, { created: false, description: "old" });
  }));

test("refuses keys of others, dead ones, texts that are none, and owners that do not exist, and quotes no key", () =>
  given(async ({ call, store }, data) => {
    const description = "d";
    for (const key of [`${KEY}1`, `${KEY}2`]) await call(importApiKey, { body: { user: "ops", description, key } });
    store.apiKeys.revoke(store.apiKeys.find(keyDigest(`${KEY}2`))?.public_id as string);
    const before = auditOf(data).length;
    const refusals = [
      [{ ...CI, key: `${KEY}1` }, "this key belongs to another owner, give a different one"],
      [{ user: "ops", key: `${KEY}2` }, "this key was revoked, give a new one"],
      [{ user: "ops", key: "a b" }, "A key has 16 to 1024 printable ASCII characters without spaces and colons"],
      [
        { user: "ops", key: `-${KEY}` },
        "this key begins with a hyphen, so that clients take it for a flag: give a different one",
      ],
      [{ user: "eve", key: KEY }, "There is no user 'eve'"],
      [{ org: "acme", service_account: "x", key: KEY }, "There is no service account 'acme/x'"],
      [{ ...CI, user: "ops", key: KEY }, "Name the owner of the key: user, or org and service_account"],
      [{ key: KEY }, "Name the owner of the key: user, or org and service_account"],
    ] as const;
    for (const [body, message] of refusals) {
      const error = await call(importApiKey, { body: { description, ...body } }).then(
        () => null,
        (refused: unknown) => refused,
      );
      assert.ok(error instanceof AppError, message);
      assert.equal({ message: error.message, fields: error.fields }, { message, fields: null });
      assert.not.ok(error.message.includes(body.key), "the key is not quoted");
    }
    assert.is(auditOf(data).length, before);
  }));

test.run();
