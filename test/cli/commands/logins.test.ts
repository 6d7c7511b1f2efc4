/** The commands for passwords and sessions. */
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createPasswordHasher } from "../../../src/auth/password-hashing.ts";
import { cookieDigest } from "../../../src/store/accounts/sessions.ts";
import { auditOf, cli, inDirectory, look } from "../in-process.ts";
import type { Surroundings } from "../in-process.ts";

const test = suite("cli/commands/logins");

/** Organization acme with its admin ops, who has two sessions, and ann with one. */
const given = (body: (data: string) => Promise<void>): Promise<void> =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    await cli(["init", "--data", data, "--org", "acme", "--user", "ops"]);
    await cli(["user", "create", "ann", "--email", "ann@example.com", "--data", data]);
    look(data, (store) => {
      for (const [name, cookie] of [
        ["ops", "one"],
        ["ops", "two"],
        ["ann", "three"],
      ] as const)
        store.sessions.create({
          digest: cookieDigest(cookie),
          csrfToken: "t",
          userId: store.users.find(name)?.id as number,
          method: "password",
          address: "10.0.0.1",
          userAgent: `Browser\u0007 of ${cookie}`,
          idleTimeoutS: 3600,
          lifetimeS: 7200,
        });
    });
    await body(data);
  });

const run = (data: string, words: string[], surroundings: Surroundings = {}) =>
  cli([...words, "--data", data], surroundings);
const open = (data: string, name: string): number =>
  look(data, (store) => store.sessions.list(store.users.find(name)?.id as number).length);
const stored = (data: string, name: string) =>
  look(data, (store) => store.passwords.find(store.users.find(name)?.id as number));
const failed = (err: string) => ({ code: 1, out: "", err });

test("reads the password from one line of standard input and ends all sessions", () =>
  given(async (data) => {
    const before = auditOf(data).length;
    assert.equal(await run(data, ["user", "passwd", "ops"], { stdin: "Zu\u0308rich is nice\r\nnot this\n" }), {
      code: 0,
      out: "set the password of ops, ended 2 sessions\n",
      err: "",
    });
    const hash = stored(data, "ops");
    assert.equal(
      {
        cost: hash?.cost,
        block_size: hash?.block_size,
        parallelism: hash?.parallelism,
        "salt.length": hash?.salt.length,
      },
      { cost: 131072, block_size: 8, parallelism: 1, "salt.length": 16 },
    );
    assert.ok(await createPasswordHasher().verify("Zürich is nice", hash));
    assert.equal({ "open ops": open(data, "ops"), "open ann": open(data, "ann") }, { "open ops": 0, "open ann": 1 });
    assert.equal(auditOf(data).slice(before), ['user passwd password.set ops {"ended_sessions":2}']);

    assert.equal(await run(data, ["user", "passwd", "ops", "--remove", "--json"]), {
      code: 0,
      out: '{"user":"ops","password":"removed","ended_sessions":0}\n',
      err: "",
    });
    assert.is(stored(data, "ops"), null);
    assert.equal(await run(data, ["user", "passwd", "ops", "--remove"]), {
      code: 0,
      out: "ops has no password, ended 0 sessions\n",
      err: "",
    });
    assert.equal(auditOf(data).slice(before + 1), ['user passwd password.removed ops {"ended_sessions":0}']);
  }));

test("prompts twice on a terminal", () =>
  given(async (data) => {
    const asked = "New password of ann: Again: ";
    assert.equal(
      await run(data, ["user", "passwd", "ann@example.com"], {
        typed: ["correct horse battery", "correct horse battery"],
      }),
      { code: 0, out: "set the password of ann, ended 1 session\n", err: asked },
    );
    const hash = stored(data, "ann");
    assert.equal(
      await run(data, ["user", "passwd", "ann"], { typed: ["correct horse battery", "correct horse batteri"] }),
      failed(`${asked}assay: nothing was changed: the two passwords differ\n`),
    );
    assert.equal(
      await run(data, ["user", "passwd", "ann"], { typed: [null] }),
      failed("New password of ann: assay: nothing was changed: no password was entered\n"),
    );
    assert.equal(stored(data, "ann"), hash);
  }));

test("refuses an unacceptable password and changes nothing", () =>
  given(async (data) => {
    await cli(["user", "create", "administrator", "--data", data]);
    const before = auditOf(data).length;
    for (const [name, stdin, problem] of [
      ["ops", "", "a password must have at least 12 characters"],
      ["ops", "eleven char", "a password must have at least 12 characters"],
      ["ops", "e\u0301".repeat(11), "a password must have at least 12 characters"],
      ["ops", "x".repeat(1025), "a password must have at most 1024 bytes and no control characters"],
      ["ops", "twelve\tcharacters", "a password must have at most 1024 bytes and no control characters"],
      ["administrator", "Administrator", "a password must differ from the login name"],
    ] as const)
      assert.equal(
        await run(data, ["user", "passwd", name], { stdin }),
        failed(`assay: nothing was changed: ${problem}\n`),
        JSON.stringify(stdin.slice(0, 20)),
      );
    assert.equal(
      await run(data, ["user", "passwd", "eve"], { stdin: "correct horse battery" }),
      failed('assay: there is no user "eve"; assay user list lists all\n'),
    );
    assert.equal({ entries: auditOf(data).length, open: open(data, "ops") }, { entries: before, open: 2 });
  }));

test("a disabled user has no session, no password and no provider login until enabled", () =>
  given(async (data) => {
    await run(data, ["user", "passwd", "ann"], { stdin: "correct horse battery" });
    look(data, (store) => {
      const id = store.users.find("ann")?.id as number;
      store.identities.create("https://id.example", "42", id);
      store.sessions.create({
        digest: cookieDigest("four"),
        csrfToken: "t",
        userId: id,
        method: "oidc",
        address: "a",
        userAgent: "b",
        idleTimeoutS: 3600,
        lifetimeS: 7200,
      });
    });
    const before = auditOf(data).length;
    assert.equal(await run(data, ["user", "disable", "ann", "--json"]), {
      code: 0,
      out: '{"user":"ann","removed_from":[],"revoked_api_keys":0,"ended_sessions":1,"service_accounts":[]}\n',
      err: "",
    });
    assert.equal(
      { "stored ann": stored(data, "ann"), "open ann": open(data, "ann"), "open ops": open(data, "ops") },
      { "stored ann": null, "open ann": 0, "open ops": 2 },
    );
    assert.equal(auditOf(data).slice(before), [
      'user disable password.removed ann {"ended_sessions":1}',
      'user disable identity.blocked ann {"identities":1}',
    ]);
    const show = async () => (await run(data, ["user", "show", "ann"])).out.split("\n").slice(2, 4);
    assert.equal(await show(), ["no password, 0 open sessions", "42 at https://id.example: blocked"]);
    assert.equal(await run(data, ["user", "enable", "ann"]), { code: 0, out: "enabled ann\n", err: "" });
    assert.equal(await run(data, ["user", "enable", "ann", "--json"]), {
      code: 0,
      out: '{"user":"ann","outcome":"unchanged"}\n',
      err: "",
    });
    assert.equal(await show(), ["no password, 0 open sessions", "42 at https://id.example"]);
  }));

test("ends and audits the sessions of a disabled user without a password", () =>
  given(async (data) => {
    const before = auditOf(data).length;
    await run(data, ["user", "disable", "ann"]);
    assert.equal(
      { open: open(data, "ann"), auditOf: auditOf(data).slice(before) },
      { open: 0, auditOf: ['user disable session.all_ended ann {"ended_sessions":1}'] },
    );
  }));

test("lists sessions and ends them one by one, by user, or all at once", () =>
  given(async (data) => {
    const { out } = await run(data, ["session", "list"]);
    const time = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`;
    const line = (user: string, cookie: string) =>
      `[0-9a-f-]{32,36}  ${user}   password  10\\.0\\.0\\.1  ${time}  ${time}  Browser\\\\u0007 of ${cookie}\n`;
    assert.match(
      out,
      new RegExp(
        "^ID +USER  METHOD    ADDRESS   SINCE {17}LAST USED {13}BROWSER\n" +
          `${line("ops", "one")}${line("ops", "two")}${line("ann", "three")}$`,
      ),
    );
    const { sessions } = JSON.parse((await run(data, ["session", "list", "--user", "ops", "--json"])).out) as {
      sessions: Record<string, string>[];
    };
    assert.equal(
      sessions.map(({ user, user_agent, method }) => [user, user_agent, method]),
      [
        ["ops", "Browser\u0007 of one", "password"],
        ["ops", "Browser\u0007 of two", "password"],
      ],
    );

    const id = sessions[0]?.["id"] ?? "";
    assert.equal(await run(data, ["session", "revoke", id]), { code: 0, out: "ended 1 session\n", err: "" });
    assert.equal(
      await run(data, ["session", "revoke", id]),
      failed(`assay: there is no open session "${id}"; see assay session list\n`),
    );
    assert.equal(await run(data, ["session", "revoke", "--user", "ops", "--json"]), {
      code: 0,
      out: '{"ended_sessions":1}\n',
      err: "",
    });
    assert.equal(await run(data, ["session", "revoke", "--all"]), { code: 0, out: "ended 1 session\n", err: "" });
    assert.equal(await run(data, ["session", "list"]), { code: 0, out: "no open sessions\n", err: "" });
    for (const words of [[], ["--all", "--user", "ops"], [id, "--all"]]) {
      const { code, err } = await run(data, ["session", "revoke", ...words]);
      assert.equal(
        { code, err },
        {
          code: 2,
          err: "assay: give exactly one of ID, --user USER and --all\nassay: see assay help session revoke\n",
        },
      );
    }
    assert.equal(
      auditOf(data)
        .slice(-3)
        .map((entry) => entry.replace(/[0-9a-f-]{32,36}/, "ID")),
      [
        'session revoke session.ended ops {"session":"ID"}',
        'session revoke session.all_ended ops {"ended_sessions":1}',
        'session revoke session.all_ended ann {"ended_sessions":1}',
      ],
    );
  }));

test.run();
