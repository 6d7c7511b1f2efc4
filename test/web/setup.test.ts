/** Creating the first administrator. */
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { newSecret } from "../../src/clock.ts";
import { openSetupToken, removeSetupToken } from "../../src/auth/first-admin.ts";
import type { SetupToken } from "../../src/auth/first-admin.ts";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { createBrowser, PASSWORD, messageOf, visibleText } from "./browser.ts";

const test = suite("web/setup");

/** A server without users, and its token. */
async function given(
  body: (world: { server: TestServer; setup: SetupToken; token: string }) => Promise<void>,
): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "assay-setup-"));
  const setup = openSetupToken(directory, newSecret);
  const server = await startServer({ logins: { setup } });
  try {
    await body({ server, setup, token: readFileSync(setup.file, "utf8").trim() });
  } finally {
    await server.stop();
    rmSync(directory, { recursive: true });
  }
}

const fieldsOf = (token: string, more: Record<string, string> = {}): Record<string, string> => ({
  token,
  organization: "acme",
  name: "ops",
  password: PASSWORD,
  again: PASSWORD,
  ...more,
});
const TAKEN = "This server already has a user, or an organization with that name.";
const rows = ({ db }: TestServer) =>
  db
    .prepare(
      "SELECT (SELECT count(*) FROM users) + (SELECT count(*) FROM organizations) + (SELECT count(*) FROM audit_log)",
    )
    .pluck()
    .get();

test("the token creates the first organization with its admin, who is signed in", () =>
  given(async ({ server, setup, token }) => {
    const browser = createBrowser(server.url);
    assert.match((await browser.get("/login")).text, /<a href="\.\/setup">Create the first administrator<\/a>/);
    const answer = await browser.submitForm("/setup", fieldsOf(`  ${token}\n`));
    assert.equal({ status: answer.status, location: answer.location }, { status: 303, location: "./acme" });
    assert.match(
      visibleText(await browser.get("/account")),
      / acme admin .* ops \(personal\) admin .* one-time token .* Login name ops/,
    );
    assert.not.ok(existsSync(setup.file));
    const entries = server.db
      .prepare(
        "SELECT actor_kind || ' ' || actor_name || ' ' || operation || ' ' || event || ' ' || target FROM " +
          "audit_log ORDER BY id",
      )
      .pluck()
      .all();
    assert.equal(
      entries,
      [
        "user.created ops",
        "organization.created ops",
        "member.added ops",
        "organization.created acme",
        "member.added ops",
        "password.set ops",
        "session.started ops",
      ].map((entry) => `operator setup setup ${entry}`),
    );
    assert.is(
      server.db
        .prepare("SELECT count(*) FROM membership_events WHERE source = 'app' AND changed_by = 'ops'")
        .pluck()
        .get(),
      2,
    );

    assert.equal(
      await createBrowser(server.url)
        .get("/setup")
        .then(({ status, location }) => [status, location]),
      [303, "./login"],
    );
    const second = createBrowser(server.url);
    const refused = await second.submitForm("/setup", fieldsOf(token, { organization: "beta", name: "eve" }), "/login");
    assert.equal({ status: refused.status, messageOf: messageOf(refused) }, { status: 409, messageOf: TAKEN });
    assert.is((await createBrowser(server.url).login("ops", PASSWORD)).status, 303);
  }));

test("of twenty parallel claims one wins", () =>
  given(async ({ server, token }) => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        const browser = createBrowser(server.url);
        return browser.submitForm("/setup", fieldsOf(token, { organization: `org-${index}`, name: `user-${index}` }));
      }),
    );
    assert.equal(answers.map(({ status }) => status).sort(), [303, ...Array(19).fill(409)]);
    assert.equal(
      {
        "users.count": server.store.users.count(),
        "organizations.list.length": server.store.organizations.list().length,
        "sessions.list.length": server.store.sessions.list().length,
      },
      { "users.count": 1, "organizations.list.length": 2, "sessions.list.length": 1 },
    );
  }));

test("a refused claim leaves nothing behind, and the token stays valid", () =>
  given(async ({ server, setup, token }) => {
    const before = rows(server);
    for (const [fields, status, said] of [
      [
        fieldsOf("x".repeat(43)),
        403,
        "No administrator was created: the token is wrong; the valid one is in the file setup-token in the data " +
          "directory.",
      ],
      [
        fieldsOf(""),
        403,
        "No administrator was created: the token is wrong; the valid one is in the file setup-token in the data " +
          "directory.",
      ],
      [
        fieldsOf(token, { organization: "a b" }),
        400,
        "No administrator was created: the name of the organization may have letters, digits and - _ . ~, and " +
          "begins with a letter or a digit.",
      ],
      [
        fieldsOf(token, { name: "" }),
        400,
        "No administrator was created: the login name may have letters, digits and - _ . ~, and begins with a " +
          "letter or a digit.",
      ],
      [
        fieldsOf(token, { name: "acme" }),
        400,
        "No administrator was created: your personal organization gets your login name, so the shared one needs " +
          "another name.",
      ],
      [fieldsOf(token, { again: "other" }), 400, "No administrator was created: the two passwords differ."],
      [
        fieldsOf(token, { password: "short", again: "short" }),
        400,
        "No administrator was created: a password must have at least 12 characters.",
      ],
      [fieldsOf(token, { csrf: "" }), 403, "This form has expired, or was not sent from this page. Please try again."],
    ] as const) {
      const browser = createBrowser(server.url);
      const answer = await browser.submitForm("/setup", fields);
      assert.equal(
        { status: answer.status, messageOf: messageOf(answer), has: browser.cookies.has("assay") },
        { status, messageOf: said, has: false },
      );
      assert.not.ok(answer.text.includes(token), "the page does not contain the token");
    }
    const strange = createBrowser(server.url);
    assert.is(
      (
        await strange.post(
          "/setup",
          { ...fieldsOf(token), csrf: await strange.readCsrfToken("/setup") },
          { Origin: "https://evil.example" },
        )
      ).status,
      403,
    );
    assert.equal({ rows: rows(server), existsSync: existsSync(setup.file) }, { rows: before, existsSync: true });
    assert.is((await createBrowser(server.url).submitForm("/setup", fieldsOf(token))).status, 303);
  }));

test("limits attempts to guess the token", () =>
  given(async ({ server, token }) => {
    const browser = createBrowser(server.url);
    for (let count = 0; count < 10; count += 1)
      assert.is((await browser.submitForm("/setup", fieldsOf("wrong"))).status, 403);
    const refused = await browser.submitForm("/setup", fieldsOf(token));
    assert.equal([refused.status, refused.headers.get("Retry-After") === null], [429, false]);
    server.clock.at += 900;
    assert.is((await browser.submitForm("/setup", fieldsOf(token))).status, 303);
  }));

/** The status of a claim from another address of this machine. */
async function claimFrom(address: string, { url }: TestServer, fields: Record<string, string>): Promise<number> {
  const send = (method: string, headers: Record<string, string>, body?: string) =>
    new Promise<{ status: number; cookie: string; text: string }>((resolve, reject) => {
      const outgoing = request(`${url}/setup`, { method, headers, localAddress: address }, (incoming) => {
        let text = "";
        incoming
          .setEncoding("utf8")
          .on("data", (chunk: string) => (text += chunk))
          .on("end", () => {
            const cookie = (incoming.headers["set-cookie"] ?? []).map((line) => line.split(";", 1)[0]).join("; ");
            resolve({ status: incoming.statusCode ?? 0, cookie, text });
          });
      });
      outgoing.on("error", reject).end(body);
    });
  const page = await send("GET", {});
  const csrf = /name="csrf" value="([^"]*)"/.exec(page.text)?.[1] ?? "";
  const headers = { "Content-Type": "application/x-www-form-urlencoded", Origin: url, Cookie: page.cookie };
  return (await send("POST", headers, new URLSearchParams({ csrf, ...fields }).toString())).status;
}

test("failed attempts from one address do not lock out another", () =>
  given(async ({ server, token }) => {
    for (let count = 0; count < 10; count += 1) assert.is(await claimFrom("127.0.0.2", server, fieldsOf("wrong")), 403);
    assert.is(await claimFrom("127.0.0.2", server, fieldsOf("wrong")), 429);
    assert.is(await claimFrom("127.0.0.2", server, fieldsOf(token)), 429, "the address itself is limited");
    assert.is(await claimFrom("127.0.0.3", server, fieldsOf(token)), 303);
  }));

test("a user created in another way invalidates the token, also for a claim in progress", () =>
  given(async ({ server, token }) => {
    const browser = createBrowser(server.url);
    const csrf = await browser.readCsrfToken("/setup");
    const claim = browser.post("/setup", { ...fieldsOf(token), csrf });
    server.store.users.create({ name: "somebody", displayName: "", email: null });
    assert.is((await claim).status, 409);
    assert.is(server.store.users.count(), 1);
  }));

test("a server without a token has no setup", async () => {
  const server = await startServer();
  try {
    assert.is((await createBrowser(server.url).get("/setup")).status, 303);
    assert.is((await createBrowser(server.url).submitForm("/setup", fieldsOf("x"), "/login")).status, 409);
  } finally {
    await server.stop();
  }
});

test("only the owner can read the token, and a restart keeps it", () => {
  const directory = mkdtempSync(join(tmpdir(), "assay-setup-"));
  try {
    const first = openSetupToken(directory, newSecret);
    assert.match(first.newToken ?? "", /^[\w-]{43}$/);
    assert.is(statSync(first.file).mode & 0o777, 0o600);
    assert.is(readFileSync(first.file, "utf8"), `${first.newToken}\n`);
    const again = openSetupToken(directory, newSecret);
    assert.equal(
      {
        newToken: again.newToken,
        first: again.isToken(first.newToken ?? ""),
        other: again.isToken("x"),
        empty: again.isToken(""),
      },
      { newToken: null, first: true, other: false, empty: false },
    );
    // A start that was killed while it wrote the file.
    writeFileSync(first.file, "half");
    const whole = openSetupToken(directory, newSecret);
    assert.equal(
      { half: whole.isToken("half"), whole: whole.isToken(whole.newToken ?? "") },
      { half: false, whole: true },
    );
    // Another user put a link there.
    rmSync(first.file);
    const target = join(directory, "target");
    writeFileSync(target, "another user's file");
    chmodSync(target, 0o644);
    symlinkSync(target, first.file);
    openSetupToken(directory, newSecret);
    assert.equal(
      {
        readFileSync: readFileSync(target, "utf8"),
        mode: statSync(first.file).mode & 0o777,
      },
      { readFileSync: "another user's file", mode: 0o600 },
    );
    removeSetupToken(directory);
    removeSetupToken(directory);
    assert.not.ok(existsSync(first.file));
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test.run();
