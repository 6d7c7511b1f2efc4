import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { userInfo } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { readTextAsset } from "../../../src/assets.ts";
import { keyDigest } from "../../../src/store/accounts/api-keys.ts";
import { auditOf, cli, countRows, inDirectory, look } from "../in-process.ts";
import type { Outcome } from "../in-process.ts";

const test = suite("cli/commands/apply");

/** A data directory with organization first and user root only. */
const given = (
  body: (data: string, apply: (yaml: string, ...options: string[]) => Promise<Outcome>) => Promise<void>,
): Promise<void> =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    await cli(["init", "--data", data, "--org", "first", "--user", "root"]);
    await body(data, (yaml, ...options) => cli(["apply", "-", "--data", data, ...options], { stdin: yaml }));
  });

const KEY = "0123456789abcdef";
/** The history names the user of the operating system who ran the command. */
const OPERATOR = `operator (${userInfo().username})`;

const WHOLE = `
organizations:
  - name: acme
    public: true
    features: { controls: false }
    members: [ { user: ops, role: admin }, { user: root, role: reader } ]
    service_accounts:
      - { name: ci, privilege: member, api_keys: [ { description: fixed, key: "${KEY}1" }, { description: minted } ] }
      - { name: plain }
  - { name: eve, kind: personal, public: true, members: [ { user: eve, role: admin } ] }
users:
  - { name: ops, display_name: Operations, email: ops@example.com, \
api_keys: [ { description: laptop, key: "${KEY}2", expires_at: 4102444800 } ] }
  - { name: eve }
`;

test("creates everything, prints the changes, and changes nothing the second time", () =>
  given(async (data, apply) => {
    const first = await apply(WHOLE);
    assert.is(first.code, 0, first.err);
    const minted = /^ {11}([\w-]{43})$/m.exec(first.out)?.[1] ?? "";
    assert.equal(first.out.split("\n"), [
      "created    user ops",
      "created    user eve",
      "created    organization ops: personal",
      "created    member ops/ops: admin",
      "created    organization acme",
      "created    member acme/ops: admin",
      "created    member acme/root: reader",
      "created    service account acme/ci: member",
      "created    API key of acme/ci: fixed",
      "created    API key of acme/ci: minted",
      `           ${minted}`,
      "created    service account acme/plain: reader",
      "created    organization eve: personal",
      "created    member eve/eve: admin",
      "created    API key of ops: laptop",
      "",
    ]);
    look(data, (store) => {
      for (const [key, name] of [
        [`${KEY}1`, "ci"],
        [minted, "ci"],
        [`${KEY}2`, "ops"],
      ] as const) {
        assert.is(store.apiKeys.findHolder(keyDigest(key))?.name, name);
      }
      const rows = store.organizations.list().map((row) => [row.name, row.kind, row.is_public, row.controls_enabled]);
      assert.equal(rows, [
        ["acme", "shared", 1, 0],
        ["eve", "personal", 1, 1],
        ["first", "shared", 0, 1],
        ["ops", "personal", 0, 1],
        ["root", "personal", 0, 1],
      ]);
      const user = store.users.find("ops");
      assert.equal(
        { display_name: user?.display_name, email: user?.email },
        { display_name: "Operations", email: "ops@example.com" },
      );
    });

    const [rows, audit] = [countRows(data), auditOf(data)];
    const second = await apply(WHOLE);
    assert.is(second.code, 0, second.err);
    assert.ok(
      second.out
        .trimEnd()
        .split("\n")
        .every((line) => line.startsWith("unchanged  ")),
      second.out,
    );
    assert.is(second.out.trimEnd().split("\n").length, 12);
    assert.equal(countRows(data), rows);
    assert.equal(auditOf(data), audit);
  }));

test("updates what differs, audits each change, and leaves everything else alone", () =>
  given(async (data, apply) => {
    await apply(WHOLE);
    const audit = auditOf(data).length;
    const { code, out, err } = await apply(`
organizations:
  - name: acme
    members: [ { user: root, role: member } ]
    service_accounts: [ { name: ci, privilege: admin, api_keys: [ { description: fixed, key: "${KEY}3" }, \
{ description: other, key: "${KEY}1", expires_at: 4102444800 } ] } ]
users:
  - { name: ops, display_name: Ops, email: OPS@example.com }
`);
    assert.is(code, 0, err);
    assert.equal(out.split("\n"), [
      "changed    user ops: display name Operations -> Ops, e-mail ops@example.com -> OPS@example.com",
      "changed    organization acme: public true -> false, controls false -> true",
      "changed    member acme/root: role reader -> member",
      "changed    service account acme/ci: privilege member -> admin",
      "created    API key of acme/ci: fixed",
      "unchanged  API key of acme/ci: other; description and expiry of an existing key never change",
      "",
    ]);
    assert.equal(auditOf(data).slice(audit), [
      'apply user.updated ops {"display_name":"Ops","email":"OPS@example.com"}',
      'apply organization.updated acme {"public":false,"controls":true,"evaluations":true,' +
        '"decisions_need_published_policy":false}',
      'apply member.role_changed root {"role":"member","previous_role":"reader"}',
      "apply service_account.updated /api/v2/service-accounts/acme/ci " +
        '{"account":"ci","privilege":"admin","previous_privilege":"member","description_changed":false}',
      'apply api_key.created - {"org":"acme","service_account":"ci","key_id":ID,"description":"fixed","expires_at":0}',
    ]);
    look(data, (store, db) => {
      const acme = store.organizations.find("acme")?.id ?? 0;
      assert.is(
        store.organizations.findRole(acme, store.users.find("ops")?.id ?? 0),
        "admin",
        "members that are not named stay",
      );
      assert.is(store.apiKeys.findHolder(keyDigest(`${KEY}1`))?.name, "ci", "keys that are not named stay");
      assert.is(store.serviceAccounts.find(acme, "plain")?.privilege, "reader");
      assert.equal(
        db
          .prepare(
            "SELECT event_type, user_name, role, previous_role, changed_by FROM membership_events WHERE " +
              "organization_id = ? ORDER BY id",
          )
          .raw()
          .all(acme),
        [
          ["added", "ops", "admin", null, OPERATOR],
          ["added", "root", "reader", null, OPERATOR],
          ["changed", "root", "member", "reader", OPERATOR],
          ["changed", "acme/ci", "admin", "member", OPERATOR],
        ],
      );
    });
  }));

test("--json prints the same changes and keys", () =>
  given(async (_, apply) => {
    const { out } = await apply("users: [{name: ops, api_keys: [{description: d}]}]", "--json");
    const { changes } = JSON.parse(out);
    assert.match(changes[3].key, /^[\w-]{43}$/);
    changes[3].key = "-";
    assert.equal(changes, [
      { kind: "user", name: "ops", outcome: "created", detail: null, key: null },
      { kind: "organization", name: "ops", outcome: "created", detail: "personal", key: null },
      { kind: "member", name: "ops/ops", outcome: "created", detail: "admin", key: null },
      { kind: "api_key", name: "ops", outcome: "created", detail: "d", key: "-" },
    ]);
  }));

test("swaps the addresses of two users", () =>
  given(async (data, apply) => {
    await apply("users: [{name: a, email: a@x}, {name: b, email: b@x}]");
    const { code, err } = await apply("users: [{name: a, email: b@x}, {name: b, email: A@x}]");
    assert.is(code, 0, err);
    assert.equal(
      look(data, (store) => ["a", "b"].map((name) => store.users.find(name)?.email)),
      ["b@x", "A@x"],
    );
  }));

test("generates a key if the only one with its description is invalid", () =>
  given(async (data, apply) => {
    const yaml = "users: [{name: root, api_keys: [{description: d}]}]";
    await apply(yaml);
    const { keys } = JSON.parse((await cli(["key", "list", "--user", "root", "--json", "--data", data])).out);
    await cli(["key", "revoke", keys[1].id, "--user", "root", "--data", data]);
    assert.match((await apply(yaml)).out, /^created {4}API key of root: d\n {11}[\w-]{43}$/m);
  }));

test("reports all conflicts with the database at once with positions, and applies nothing", () =>
  given(async (data, apply) => {
    await apply(`
organizations: [ { name: acme, service_accounts: [ { name: ci, api_keys: [ { description: a, key: "${KEY}1" }, \
{ description: b, key: "${KEY}2" } ] } ] } ]
users: [ { name: ops, email: ops@example.com, api_keys: [ { description: l, key: "${KEY}3" } ] } ]`);
    look(data, (store, db) => {
      db.prepare("UPDATE api_keys SET revoked_at = 1 WHERE digest = ?").run(keyDigest(`${KEY}1`));
      db.prepare("UPDATE api_keys SET expires_at = 1, revoked_at = 1 WHERE digest = ?").run(keyDigest(`${KEY}2`));
      store.users.create({ name: "bare", displayName: "", email: null });
    });
    const [rows, audit] = [countRows(data), auditOf(data)];
    const yaml = `organizations:
  - { name: fine }
  - { name: acme, kind: personal }
  - { name: ops }
  - { name: bare }
  - { name: nobody, kind: personal }
  - name: first
    members:
      - { user: ghost, role: reader }
      - { user: new, role: reader }
    service_accounts:
      - name: ci
        api_keys:
          - { description: old, expires_at: 1700000000 }
          - { description: a, key: "${KEY}1" }
users:
  - { name: first }
  - { name: new, email: OPS@example.com }
  - name: root
    api_keys:
      - { description: x, key: "${KEY}3" }
  - name: zoe
    api_keys: [ { description: gone, key: "${KEY}4", expires_at: 1 } ]
`;
    const problems = [
      'line 3 column 5: organizations[1].kind: "acme" is a shared organization, and its kind cannot change',
      'line 4 column 5: organizations[2].kind: "ops" is a personal organization, and its kind cannot change',
      "line 5 column 5: organizations[3].name: A user has this name, which their personal organization needs " +
        "[input: bare]",
      "line 6 column 5: organizations[4]: a personal organization has the name of its user, and there is no user " +
        '"nobody"',
      "line 9 column 9: organizations[5].members[0]: User 'ghost' not found",
      "line 14 column 13: organizations[5].service_accounts[0].api_keys[0].expires_at: Expiry must be in the future " +
        "[input: 1700000000]",
      "line 15 column 13: organizations[5].service_accounts[0].api_keys[1]: this key belongs to another " +
        "owner, give a different one",
      "line 18 column 5: users[1].email: A user, 'ops', with this e-mail address already exists " +
        "[input: OPS@example.com]",
      "line 21 column 9: users[2].api_keys[0]: this key belongs to another owner, give a different one",
      "line 23 column 17: users[3].api_keys[0].expires_at: Expiry must be in the future [input: 1]",
    ];
    // The parser itself finds that one file has `first` as user and as shared organization.
    const alone = await apply("users: [ { name: acme } ]");
    assert.equal(alone, {
      code: 1,
      out: "",
      err:
        "assay: standard input line 1 column 10: users[0].name: An organization with this name already exists, and " +
        "the user needs a personal one [input: acme]\nassay: nothing was applied\n",
    });
    assert.equal(await apply(yaml.replace("  - { name: first }\n", "  - { name: root2 }\n")), {
      code: 1,
      out: "",
      err: [...problems.map((problem) => `standard input ${problem}`), "nothing was applied"]
        .map((line) => `assay: ${line}\n`)
        .join(""),
    });

    const dead = (key: string) =>
      `organizations: [ { name: acme, service_accounts: [ { name: ci, api_keys: [ { description: a, key: "${key}` +
      `" } ] } ] } ]`;
    const place = "line 1 column 76: organizations[0].service_accounts[0].api_keys[0]";
    assert.is(
      (await apply(dead(`${KEY}1`))).err,
      `assay: standard input ${place}: this key was revoked, give a new one\nassay: nothing was applied\n`,
    );
    assert.is(
      (await apply(dead(`-${KEY}`))).err,
      `assay: standard input ${place}: this key begins with a hyphen, so that clients take it for a flag: ` +
        "give a different one\nassay: nothing was applied\n",
    );
    assert.is(
      (await apply(dead(`${KEY}2`))).err,
      `assay: standard input ${place}: this key has expired, give a new one\nassay: nothing was applied\n`,
    );
    assert.equal({ countRows: countRows(data), auditOf: auditOf(data) }, { countRows: rows, auditOf: audit });
  }));

test("creates a missing data directory, unless the file is refused", () =>
  inDirectory(async (directory) => {
    const data = join(directory, "deep", "data");
    const apply = (yaml: string) => cli(["apply", "-", "--data", data, "--json"], { stdin: yaml });
    const refusals = [
      "users: [{nam: ops}]",
      "organizations: [{name: acme, members: [{user: nobody, role: admin}]}]",
      "users: [{name: u, api_keys: [{expires_at: 1}]}]",
    ];
    for (const yaml of refusals)
      assert.equal(
        { code: (await apply(yaml)).code, readdirSync: readdirSync(directory) },
        { code: 1, readdirSync: [] },
        yaml,
      );
    const made = await apply("users: [{name: ops, api_keys: [{}, {description: laptop}]}]");
    assert.equal({ code: made.code, err: made.err }, { code: 0, err: "" });
    const keys = (outcome: Outcome) =>
      (JSON.parse(outcome.out).changes as { kind: string; outcome: string; detail: string; key: string | null }[])
        .filter(({ kind }) => kind === "api_key")
        .map(({ outcome: what, detail, key }) => ({ what, detail, minted: key !== null }));
    assert.equal(keys(made), [
      { what: "created", detail: "from an apply file", minted: true },
      { what: "created", detail: "laptop", minted: true },
    ]);
    const again = await apply("users: [{name: ops, api_keys: [{description: ''}]}]");
    assert.equal(keys(again), [{ what: "unchanged", detail: "from an apply file", minted: false }]);
    assert.is(statSync(data).mode & 0o777, 0o700);
  }));

test("leaves an empty directory empty and a used one alone when the file is refused", () =>
  inDirectory(async (directory) => {
    const refused = "organizations: [{name: acme, members: [{user: nobody, role: admin}]}]";
    assert.is((await cli(["apply", "-", "--data", directory], { stdin: refused })).code, 1);
    assert.equal(readdirSync(directory), []);
    writeFileSync(join(directory, "note"), "mine");
    assert.is((await cli(["apply", "-", "--data", directory], { stdin: refused })).code, 1);
    assert.is(readFileSync(join(directory, "note"), "utf8"), "mine");
  }));

test("reads a file and names it in its mistakes", () =>
  given(async (data) => {
    const file = join(data, "apply.yml");
    const apply = (...options: string[]) => cli(["apply", "apply.yml", "--data", data, ...options], { cwd: data });
    writeFileSync(file, "users: [{name: ops}]");
    assert.is((await apply()).code, 0);

    writeFileSync(file, "users: [{name: _}, {nam: x}]");
    const { code, err } = await apply();
    assert.is(code, 1);
    assert.equal(
      err
        .trimEnd()
        .split("\n")
        .map((line) => line.slice(0, 60)),
      [
        'assay: apply.yml line 1 column 16: users[0].name: "_" is not',
        "assay: apply.yml line 1 column 20: users[1].name: it is miss",
        "assay: apply.yml line 1 column 21: users[1].nam: unknown key",
        "assay: nothing was applied",
      ],
    );
    assert.match((await apply("--json")).err, /^\{"error":"apply\.yml line 1 column 16: .*; nothing was applied"\}\n$/);

    writeFileSync(file, Buffer.from([0x61, 0xff]));
    assert.equal(await apply(), { code: 1, out: "", err: "assay: cannot read apply.yml: it is not UTF-8 text\n" });
    writeFileSync(file, Buffer.alloc(8 * 1_048_576 + 1));
    assert.equal(await apply(), { code: 1, out: "", err: "assay: cannot read apply.yml: it is larger than 8 MB\n" });
    assert.match(
      (await cli(["apply", "/dev/zero", "--data", data])).err,
      /^assay: cannot read \/dev\/zero: it is larger than 8 MB\n$/,
    );
    assert.match(
      (await cli(["apply", data, "--data", data])).err,
      /^assay: cannot read .*: it is a directory \(EISDIR\); give the path of a file\n$/,
    );
    assert.match(
      (await cli(["apply", "none.yml", "--data", data])).err,
      /^assay: cannot read none\.yml: it, or a directory above it, does not exist \(ENOENT\)/,
    );
    assert.is((await cli(["apply", "--data", data])).code, 2);
    assert.is((await cli(["apply", "-"], { stdin: "x".repeat(10) })).code, 2);
    assert.is(
      (await cli(["apply", "-", "--data", data], { stdin: "x".repeat(8 * 1_048_576 + 1) })).err,
      "assay: cannot read standard input: it is larger than 8 MB\n",
    );
  }));

test("applies the example of the guide as it is printed", () =>
  given(async (_, apply) => {
    const lines = readTextAsset("guide/apply.md").split("\n");
    const example = lines.slice(lines.indexOf("    organizations:")).filter((line) => line.startsWith("    "));
    const { code, out, err } = await apply(example.join("\n"));
    assert.is(code, 0, err);
    assert.is(out.match(/^ {11}[\w-]{43}$/gm)?.length, 2);
    for (const change of ["user ops", "organization acme", "member acme/ops: admin", "API key of acme/ci-bot: ci"])
      assert.match(out, `created    ${change}\n`);
  }));

test("applies a large file in linear time", () =>
  given(async (_, apply) => {
    const names = Array.from({ length: 3000 }, (_unused, index) => `u${index}`);
    const users = names.map((name) => `{name: ${name}}`).join(",");
    const members = names.map((name) => `{user: ${name}, role: reader}`).join(",");
    const yaml = `users: [${users}]\norganizations: [{name: big, members: [${members}]}]`;
    const { code, out, err } = await apply(yaml);
    assert.is(code, 0, err);
    assert.is(out.trimEnd().split("\n").length, 3000 * 4 + 1);
  }));

test.run();
