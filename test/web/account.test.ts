/** The account page, and the end of sessions. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { cookieDigest } from "../../src/store/accounts/sessions.ts";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { createBrowser, setPassword, PASSWORD, messageOf, visibleText } from "./browser.ts";
import type { Browser } from "./browser.ts";

const test = suite("web/account");

let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

/** A user who is signed in. */
async function given(at = server): Promise<{ name: string; browser: Browser; id: number }> {
  const name = `${at.given.org().org}-admin`;
  await setPassword(at, name);
  const browser = createBrowser(at.url, { "User-Agent": "Browser/1 <b>" });
  assert.is((await browser.login(name, PASSWORD)).status, 303);
  return { name, browser, id: at.store.users.find(name)?.id as number };
}

const isIn = async (browser: Browser): Promise<boolean> => (await browser.get("/account")).status === 200;
const NEW = "a new password of ann";
const change = (present = PASSWORD, wanted = NEW, again = wanted) => ({ present, wanted, again });

test("a new password ends all sessions and starts one; the old password and cookies no longer work", async () => {
  const { name, browser } = await given();
  const other = createBrowser(server.url);
  await other.login(name, PASSWORD);
  const old = browser.cookies.get("assay") as string;
  const token = await browser.readApiCsrfToken();
  const answer = await browser.submitForm("/account/password", change(), "/account");
  assert.equal(
    { status: answer.status, location: answer.location },
    { status: 303, location: "../account?done=password" },
  );
  assert.is.not(browser.cookies.get("assay"), old);
  assert.is.not(await browser.readApiCsrfToken(), token);
  assert.is(
    messageOf(await browser.get("/account?done=password")),
    "Your password was changed. All your other sessions were ended.",
  );
  assert.equal(
    {
      browser: await isIn(browser),
      other: await isIn(other),
      oldCookie: await isIn(createBrowser(server.url, { Cookie: `assay=${old}` })),
    },
    { browser: true, other: false, oldCookie: false },
  );
  assert.equal(
    {
      oldPassword: (await createBrowser(server.url).login(name, PASSWORD)).status,
      newPassword: (await createBrowser(server.url).login(name, NEW)).status,
    },
    { oldPassword: 403, newPassword: 303 },
  );
  const events = server.db
    .prepare("SELECT event FROM audit_log WHERE target = ? AND operation = 'change_password' ORDER BY id")
    .pluck()
    .all(name);
  assert.equal(events, ["password.set", "session.started"]);
});

test("a refused password changes nothing", async () => {
  const { browser, id } = await given();
  const before = server.store.passwords.find(id);
  for (const [fields, status, said] of [
    [change("wrong"), 403, "Your password was not changed: the current password is wrong."],
    [change(PASSWORD, "short"), 400, "Your password was not changed: a password must have at least 12 characters."],
    [change(PASSWORD, NEW, `${NEW}!`), 400, "Your password was not changed: the two new passwords differ."],
    [{ ...change(), csrf: "wrong" }, 403, "This form has expired, or was not sent from this page. Please try again."],
    [{ ...change(), csrf: "" }, 403, "This form has expired, or was not sent from this page. Please try again."],
  ] as const) {
    const answer = await browser.submitForm("/account/password", fields, "/account");
    assert.equal({ status: answer.status, messageOf: messageOf(answer) }, { status, messageOf: said });
  }
  const csrf = await browser.readCsrfToken("/account");
  assert.is(
    (await browser.post("/account/password", { ...change(), csrf }, { Origin: "https://evil.example" })).status,
    403,
  );
  assert.equal(server.store.passwords.find(id), before);
  assert.is(
    (await createBrowser(server.url).submitForm("/account/password", change(), "/login")).location,
    "../login?next=%2Faccount",
  );
});

test("users see and end their own sessions", async () => {
  const { name, browser } = await given();
  const other = createBrowser(server.url, { "User-Agent": "Browser/2" });
  await other.login(name, PASSWORD);
  const stranger = (await given()).browser;
  const page = visibleText(await browser.get("/account"));
  assert.match(page, /Browser\/1 <b> 127\.0\.0\.1 password .* this session .*Browser\/2 127\.0\.0\.1 password .* End /);
  const idOf = async (one: Browser) =>
    server.store.sessions.findHolder(cookieDigest(one.cookies.get("assay") as string))?.public_id ?? "";
  assert.is((await browser.submitForm("/account/session", { id: await idOf(stranger) }, "/account")).status, 303);
  assert.ok(await isIn(stranger), "a session of another user");
  assert.is(
    (await other.post("/account/session", { csrf: await stranger.readCsrfToken("/account"), id: await idOf(browser) }))
      .status,
    403,
  );
  assert.is(
    (await browser.submitForm("/account/session", { id: await idOf(other) }, "/account")).location,
    "../account?done=session",
  );
  assert.equal({ browser: await isIn(browser), other: await isIn(other) }, { browser: true, other: false });
  await other.login(name, PASSWORD);
  assert.is((await browser.submitForm("/account/sessions", {}, "/account")).location, "../account?done=sessions");
  assert.equal(
    { browser: await isIn(browser), other: await isIn(other), stranger: await isIn(stranger) },
    { browser: true, other: false, stranger: true },
  );
});

test("signing out needs the token of the session", async () => {
  const { browser } = await given();
  assert.is((await browser.post("/logout", {})).status, 403);
  assert.is(
    (await browser.post("/logout", { csrf: await browser.readCsrfToken("/account") }, { Origin: "null" })).status,
    403,
  );
  assert.ok(await isIn(browser));
  assert.is((await createBrowser(server.url).post("/logout", {})).location, "./login");
});

test("a session expires when it is idle, and at the end of its lifetime", async () => {
  const other = await startServer({ logins: { idleTimeoutS: 3600, lifetimeS: 10_000 } });
  try {
    const idle = (await given(other)).browser;
    other.clock.at += 3000;
    assert.ok(await isIn(idle));
    other.clock.at += 3000;
    assert.ok(await isIn(idle), "the session was used meanwhile");
    other.clock.at += 3600;
    assert.not.ok(await isIn(idle));

    const { browser, id } = await given(other);
    for (let count = 0; count < 3; count += 1) {
      other.clock.at += 3000;
      assert.ok(await isIn(browser));
    }
    assert.is(other.store.sessions.list(id).length, 1);
    other.clock.at += 1000;
    assert.not.ok(await isIn(browser));
    assert.equal(other.store.sessions.list(id), []);
  } finally {
    await other.stop();
  }
});

test("rotates a cookie every hour; the old value works for a moment, and ends the session later", async () => {
  const { browser, name } = await given();
  const old = browser.cookies.get("assay") as string;
  const thief = createBrowser(server.url, { Cookie: `assay=${old}` });
  const token = await browser.readApiCsrfToken();
  server.clock.at += 3600;
  const answer = await browser.get("/account");
  assert.equal(
    { status: answer.status, "Cache-Control": answer.headers.get("Cache-Control") },
    { status: 200, "Cache-Control": "no-store" },
  );
  const next = browser.cookies.get("assay") as string;
  assert.is.not(next, old);
  assert.is(await browser.readApiCsrfToken(), token, "an open page continues to work");
  const beside = await thief.get("/account");
  assert.equal(
    { status: beside.status, getSetCookie: beside.headers.getSetCookie() },
    { status: 200, getSetCookie: [] },
    "a request in progress",
  );
  server.clock.at += 61;
  assert.ok(await isIn(browser));
  assert.not.ok(await isIn(thief));
  assert.not.ok(await isIn(browser), "two had it");
  assert.ok(server.lines.some((line) => line.includes("an old value of its cookie was used") && line.includes(name)));
  assert.is(
    server.db
      .prepare("SELECT count(*) FROM audit_log WHERE operation = 'reused_cookie' AND target = ?")
      .pluck()
      .get(name),
    1,
  );
});

test("answers parallel requests when a cookie is due, and one of them gets the new value", async () => {
  const { browser } = await given();
  const old = browser.cookies.get("assay") as string;
  server.clock.at += 3600;
  const answers = await Promise.all(
    Array.from({ length: 10 }, () => createBrowser(server.url, { Cookie: `assay=${old}` }).get("/account")),
  );
  assert.equal(
    answers.map(({ status }) => status),
    Array(10).fill(200),
  );
  assert.is(answers.filter(({ headers }) => headers.getSetCookie().length > 0).length, 1);
});

test("in read-only mode pages are shown, and the login says why it is refused", async () => {
  const other = await startServer();
  try {
    const { browser, name } = await given(other);
    other.clock.at += 3600;
    other.disk.free = 0;
    await other.diskGuard.check();
    const answer = await browser.get("/account");
    assert.equal(
      { status: answer.status, getSetCookie: answer.headers.getSetCookie() },
      { status: 200, getSetCookie: [] },
    );
    const refused = await createBrowser(other.url).login(name, PASSWORD);
    assert.is(refused.status, 507);
    assert.match(messageOf(refused) ?? "", /^The server is in read-only mode: .*Nothing was stored\.$/);
  } finally {
    await other.stop();
  }
});

const secretIn = ({ text }: { text: string }): string | null =>
  /<div class="secret"><code>([^<]*)<\/code>/.exec(text)?.[1] ?? null;
const fieldError = ({ text }: { text: string }, id: string): string | null => {
  const message = new RegExp(`<p class="field-error" id="${id}-error">([\\s\\S]*?)</p>`).exec(text)?.[1];
  return message === undefined ? null : visibleText({ text: message });
};

test("what shows a key is an address that shows it once, to its session only, and creates nothing", async () => {
  const { browser, name } = await given();
  const fields = { form: "create_key", description: "only once", expires_at: "30" };
  const answer = await browser.post("/account", { csrf: await browser.readCsrfToken("/account"), ...fields });
  assert.is(answer.status, 303);
  assert.match(answer.location ?? "", /^\.\/account\?shown=[0-9a-f]{32}$/);
  const address = (answer.location as string).slice(1);
  const other = createBrowser(server.url);
  await other.login(name, PASSWORD);
  assert.is(secretIn(await other.get(address)), null);
  const key = secretIn(await browser.get(address));
  assert.ok(key);
  const again = await browser.get(address);
  assert.equal([again.status, secretIn(again)], [200, null]);
  assert.match(messageOf(again) ?? "", /shown once only\. Loading the page again changed nothing/);
  const { body } = await server.call("GET", "/user/api-keys", { key });
  assert.is(body.filter(({ description }: { description: string }) => description === "only once").length, 1);
});

test("a key of one's own is shown once with what to paste, rotated, and revoked after a question", async () => {
  const { browser, name } = await given();
  const org = name.replace(/-admin$/, "");
  const refused = await browser.submitForm("/account", { form: "create_key", description: "", expires_at: "90" });
  assert.is(refused.status, 400);
  assert.ok(fieldError(refused, "create_key-description"));
  const fields = { form: "create_key", description: "laptop <1>", expires_at: "30" };
  const created = await browser.submitForm("/account", fields);
  const key = secretIn(created) as string;
  assert.equal([created.status, created.headers.get("Cache-Control")], [200, "no-store"]);
  assert.match(visibleText(created), new RegExp(`KOSLI_ORG=${org} export KOSLI_API_TOKEN=${key}`));
  assert.match(created.text, /laptop &#60;1&#62;/);
  assert.not.ok((await browser.get("/account")).text.includes(key), "a reload does not show it");
  const keys = async (): Promise<{ id: string; description: string }[]> =>
    (await server.call("GET", "/user/api-keys", { key })).body;
  const { id } = (await keys()).find(({ description }) => description === fields.description) as { id: string };

  const rotate = `/account?ask=rotate&key=${id}`;
  const rotation = { form: "rotate_key", key: id, grace_period_hours: "24", expires_at: "same" };
  const wrong = await browser.submitForm(rotate, { ...rotation, grace_period_hours: "721" });
  assert.is(wrong.status, 400);
  assert.ok(fieldError(wrong, "rotate_key-grace_period_hours"));
  const next = secretIn(await browser.submitForm(rotate, rotation)) as string;
  assert.is((await server.call("GET", "/user/api-keys", { key: next })).status, 200);

  const revoke = `/account?ask=revoke&key=${id}`;
  assert.match(visibleText(await browser.get(revoke)), /Revoke this key\?/);
  assert.is((await server.call("GET", "/user/api-keys", { key })).status, 200, "a question changes nothing");
  const revoked = await browser.submitForm(revoke, { form: "revoke_key", key: id });
  assert.equal([revoked.status, revoked.location], [303, "./account?done=revoked"]);
  assert.is((await server.call("GET", "/user/api-keys", { key })).status, 401);
  const another = await given();
  const foreign = (await server.call("GET", "/user/api-keys", { key: next })).body[0].id;
  assert.is((await another.browser.submitForm("/account", { form: "revoke_key", key: foreign })).status, 404);
});

test("the default organization is chosen, and only one of one's own", async () => {
  const { browser, name } = await given();
  const org = name.replace(/-admin$/, "");
  const other = (await given()).name.replace(/-admin$/, "");
  const refused = await browser.submitForm("/account", { form: "default_org", organization: other });
  assert.is(refused.status, 403);
  assert.match(messageOf(refused) ?? "", /Access denied/);
  const chosen = await browser.submitForm("/account", { form: "default_org", organization: org });
  assert.equal([chosen.status, chosen.location], [303, "./account?done=default_org"]);
  assert.match(visibleText(await browser.get("/account")), new RegExp(`${org} admin default`));
});

test("all themes can be chosen, and the page has the chosen one", async () => {
  const { browser } = await given();
  const page = await browser.get("/account");
  const themes = [...page.text.matchAll(/<option value="([a-z-]+)"( selected)?>/g)].filter(([, value]) =>
    /^(?:system|light|dark)/.test(value ?? ""),
  );
  assert.is(themes.length, 7);
  const answer = await browser.submitForm(
    "/preferences",
    { theme: "dark-high-contrast", next: "/account" },
    "/account",
  );
  assert.equal([answer.status, answer.location], [303, "./account"]);
  const dark = await browser.get("/account");
  assert.match(dark.text, /<html lang="en" data-theme="dark-high-contrast">/);
  assert.match(dark.text, /<option value="dark-high-contrast" selected>/);
});

test("a refused password is said at its field, and no password appears in the page", async () => {
  const { browser } = await given();
  for (const [fields, field] of [
    [change("wrong"), "present"],
    [change(PASSWORD, "short"), "wanted"],
    [change(PASSWORD, NEW, `${NEW}!`), "again"],
  ] as const) {
    const { text } = await browser.submitForm("/account/password", fields, "/account");
    assert.ok(fieldError({ text }, `password-${field}`), field);
    assert.not.ok(text.includes(NEW) || text.includes(PASSWORD));
  }
});

test("/session returns the user who is signed in, and null otherwise", async () => {
  const { browser, name } = await given();
  const { headers, text } = await browser.get("/session");
  assert.equal(
    {
      "Cache-Control": headers.get("Cache-Control"),
      "Content-Type": headers.get("Content-Type"),
      "Access-Control-Allow-Origin": headers.get("Access-Control-Allow-Origin"),
    },
    {
      "Cache-Control": "no-store",
      "Content-Type": "application/json; charset=utf-8",
      "Access-Control-Allow-Origin": null,
    },
  );
  assert.is((JSON.parse(text) as { user: string }).user, name);
  assert.equal(JSON.parse((await createBrowser(server.url).get("/session")).text), { user: null, csrf_token: null });
  assert.equal(JSON.parse((await createBrowser(server.url, { Cookie: "assay=" }).get("/session")).text), {
    user: null,
    csrf_token: null,
  });
});

test("the root is a 404 for clients that accept JSON only", async () => {
  const headers = { Accept: "application/json" };
  assert.equal(await server.call("GET", "//", { headers }).then(({ status, body }) => [status, body]), [
    404,
    { message: "The requested URL was not found on the server: the API is described at /api/v2/doc/ of this server" },
  ]);
});

test.run();
