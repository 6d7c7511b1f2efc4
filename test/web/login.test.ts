/** Signing in with a password, over real HTTP, without scripts. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createPasswordHasher } from "../../src/auth/password-hashing.ts";
import { rootOf } from "../../src/web/html.ts";
import { rejection } from "../evidence/given.ts";
import { CHEAP_SCRYPT, fresh, startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { createBrowser, setPassword, PASSWORD, messageOf, visibleText } from "./browser.ts";

const test = suite("web/login");

let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

/** A user with a password, and the name of their organization. */
async function given(): Promise<{ name: string; org: string; key: string }> {
  const { org, key } = server.given.org();
  const name = `${org}-admin`;
  await setPassword(server, name);
  return { name, org, key };
}

const WRONG = "The login name or the password is wrong.";
const STRANGE = "This form has expired, or was not sent from this page. Please try again.";
const audit = (event: string, name: string) =>
  server.db
    .prepare(
      "SELECT actor_name, key_id, operation, detail_json FROM audit_log WHERE event = ? AND target = ? ORDER BY id",
    )
    .all(event, name) as { actor_name: string; key_id: string; operation: string; detail_json: string }[];

test("signing in starts a session and shows the account; signing out ends it on the server", async () => {
  const { name, org } = await given();
  const browser = createBrowser(server.url);
  assert.equal(await browser.get("/").then(({ status, location }) => [status, location]), [303, "./login"]);
  assert.equal(await browser.get("/account").then(({ status, location }) => [status, location]), [
    303,
    "./login?next=%2Faccount",
  ]);

  const answer = await browser.login(name, PASSWORD);
  assert.equal({ status: answer.status, location: answer.location }, { status: 303, location: `./${org}` });
  const [cookie = ""] = answer.headers.getSetCookie().filter((line) => line.startsWith("assay="));
  assert.match(cookie, /^assay=[\w-]{43}; path=\/; samesite=lax; httponly$/);
  assert.equal([...browser.cookies.keys()], ["assay"], "the form token is removed");

  const account = await browser.get("/account");
  assert.is(account.status, 200);
  assert.match(visibleText(account), new RegExp(`Name Role Default ${org} admin .*this session .*Login name ${name}`));
  assert.equal(await browser.get("/").then(({ status, location }) => [status, location]), [303, `./${org}`]);
  assert.equal(await browser.get("/login?next=/api/v2/doc/").then(({ location }) => location), "./api/v2/doc/");
  const [started, ...more] = audit("session.started", name);
  assert.equal(
    { operation: started?.operation, actor_name: started?.actor_name, "more.length": more.length },
    { operation: "login", actor_name: name, "more.length": 0 },
  );

  const stolen = browser.cookies.get("assay") as string;
  const left = await browser.submitForm("/logout", {}, "/account");
  assert.equal(
    { status: left.status, location: left.location, "cookies.size": browser.cookies.size },
    { status: 303, location: "./login", "cookies.size": 0 },
  );
  const thief = createBrowser(server.url, { Cookie: `assay=${stolen}` });
  assert.is((await thief.get("/account")).status, 303);
  assert.is(audit("session.ended", name).length, 1);
});

test("another login in the same browser replaces the first", async () => {
  const { name } = await given();
  const browser = createBrowser(server.url);
  const csrf = await browser.readCsrfToken("/login");
  const form = browser.cookies.get("assay-form") as string;
  await browser.post("/login", { csrf, name, password: PASSWORD });
  const first = browser.cookies.get("assay") as string;
  browser.cookies.set("assay-form", form);
  assert.is((await browser.post("/login", { csrf, name, password: PASSWORD })).status, 303);
  assert.is.not(browser.cookies.get("assay"), first);
  assert.is(server.store.sessions.list(server.store.users.find(name)?.id as number).length, 1);
});

test("pages forbid inline scripts, frames and caching; the login forbids all scripts", async () => {
  const { name } = await given();
  const browser = createBrowser(server.url);
  await browser.login(name, PASSWORD);
  const plain =
    "default-src 'none'; style-src 'self'; img-src 'self'; font-src 'self'; base-uri 'none'; " +
    "form-action 'self'; frame-ancestors 'none'";
  for (const [path, policy] of [
    ["/login", plain],
    ["/account", `${plain}; script-src 'self'; worker-src 'self'; connect-src 'self'; frame-src 'self'`],
  ] as const) {
    const { headers, text } = path === "/login" ? await createBrowser(server.url).get(path) : await browser.get(path);
    assert.is(headers.get("Cache-Control"), "no-store");
    assert.is(headers.get("Content-Security-Policy"), policy);
    assert.is(headers.get("X-Frame-Options"), "DENY");
    assert.is(headers.get("X-Content-Type-Options"), "nosniff");
    assert.is(headers.get("Referrer-Policy"), "same-origin");
    assert.is(headers.get("Content-Type"), "text/html; charset=utf-8");
    assert.not.match(text, /<script>|<style|style="|onclick|http:\/\/(?!assay\.test)/);
    assert.is(text.includes("<script"), path === "/account");
    for (const [, address = ""] of text.matchAll(/<link [^>]*href="([^"]*)"/g)) {
      const file = await browser.get(`/${address.replace(/^\.\//, "")}`);
      assert.equal(
        { status: file.status, "Cache-Control": file.headers.get("Cache-Control") },
        { status: 200, "Cache-Control": "public, max-age=31536000, immutable" },
        address,
      );
    }
    for (const [, id = ""] of text.matchAll(/<input id="([^"]*)"/g))
      assert.ok(text.includes(`<label for="${id}">`), id);
  }
});

test("a wrong password, an unknown name and a user without a password look alike", async () => {
  const { name } = await given();
  server.given.org({ name: "nopassword" });
  const work: unknown[] = [];
  const passwords = createPasswordHasher(CHEAP_SCRYPT);
  const other = await startServer({
    logins: {
      passwords: {
        ...passwords,
        verify(text, stored) {
          work.push(stored === null);
          return passwords.verify(text, stored);
        },
      },
    },
  });
  try {
    await setPassword(other, name);
    other.given.org({ name: "nopassword" });
    const answers = [];
    for (const [who, password] of [
      [name, "wrong password"],
      ["nobody", PASSWORD],
      ["nopassword-admin", PASSWORD],
      [name, ""],
      [name, "\u0000".repeat(12)],
      [name, "x".repeat(2000)],
    ] as const) {
      const browser = createBrowser(other.url);
      const { status, text } = await browser.login(who, password);
      answers.push([
        status,
        messageOf({ text }),
        text.replaceAll(who, "NAME").replace(/name="csrf" value="[^"]*"/, ""),
      ]);
      assert.not.ok(browser.cookies.has("assay"));
    }
    assert.equal(new Set(answers.map((answer) => JSON.stringify(answer))).size, 1);
    assert.equal(answers[0]?.slice(0, 2), [403, WRONG]);
    assert.equal(work, [false, true, true, false, false, false], "each computed one hash");
  } finally {
    await other.stop();
  }
});

test("accepts a password from any keyboard", async () => {
  const { name } = await given();
  await setPassword(server, name, "Zürich is\u3000nice");
  assert.is((await createBrowser(server.url).login(name, "Zu\u0308rich is nice")).status, 303);
  assert.is((await createBrowser(server.url).login(name, "Zurich is nice")).status, 403);
});

test("limits failed logins per account and per address", async () => {
  const other = await startServer();
  try {
    for (const name of ["ann", "bob"]) await setPassword(other, name);
    const browser = createBrowser(other.url);
    for (let count = 0; count < 9; count += 1) assert.is((await browser.login("ann", "wrong")).status, 403);
    // A successful login does not reset the count of the address.
    assert.is((await createBrowser(other.url).login("ann", PASSWORD)).status, 303);
    assert.is((await browser.login("bob", "wrong")).status, 403);
    const refused = await browser.login("bob", PASSWORD);
    assert.is(refused.status, 429);
    assert.match(refused.headers.get("Retry-After") ?? "", /^\d+$/);
    assert.is(
      messageOf(refused),
      `There were too many failed logins. Please try again in ${refused.headers.get("Retry-After")} seconds.`,
    );
    other.clock.at += 900;
    assert.is((await browser.login("bob", PASSWORD)).status, 303);
  } finally {
    await other.stop();
  }
});

test("limits attempts on an account across parallel requests from many addresses", async () => {
  const taken = new Map<string, number>();
  const tries = {
    peek: () => 0,
    reset: (key: string) => void taken.delete(key),
    take(key: string) {
      const count = (taken.get(key) ?? 0) + 1;
      taken.set(key, count);
      return key.startsWith("account ") && count > 10 ? 60 : 0;
    },
  };
  const other = await startServer({ logins: { attempts: tries } });
  try {
    await setPassword(other, "ann");
    const statuses = await Promise.all(
      Array.from({ length: 20 }, async () => (await createBrowser(other.url).login("ann", "wrong")).status),
    );
    assert.equal(statuses.sort(), [...Array(10).fill(403), ...Array(10).fill(429)]);
  } finally {
    await other.stop();
  }
});

test("refuses a form from another site, whatever it contains", async () => {
  const { name } = await given();
  const fields = { name, password: PASSWORD, next: "" };
  const strange = async (
    work: (browser: ReturnType<typeof createBrowser>) => ReturnType<ReturnType<typeof createBrowser>["post"]>,
  ) => {
    const browser = createBrowser(server.url);
    const answer = await work(browser);
    assert.equal(
      { status: answer.status, messageOf: messageOf(answer), has: browser.cookies.has("assay") },
      { status: 403, messageOf: STRANGE, has: false },
    );
  };
  await strange((browser) => browser.post("/login", fields));
  await strange((browser) => browser.post("/login", { ...fields, csrf: "" }));
  await strange(async (browser) => {
    await browser.readCsrfToken("/login");
    return browser.post("/login", { ...fields, csrf: "A".repeat(43) });
  });
  for (const origin of [
    "https://evil.example",
    "null",
    server.url.replace("http:", "https:"),
    `${server.url}.evil.example`,
  ])
    await strange(async (browser) =>
      browser.post("/login", { ...fields, csrf: await browser.readCsrfToken("/login") }, { Origin: origin }),
    );
  await strange(async (browser) =>
    browser.send("POST", "/login", {
      headers: { "Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "cross-site" },
      body: new URLSearchParams({ ...fields, csrf: await browser.readCsrfToken("/login") }).toString(),
    }),
  );
  const proxied = createBrowser(server.url);
  assert.is(
    (
      await proxied.post(
        "/login",
        { ...fields, csrf: await proxied.readCsrfToken("/login") },
        { Origin: "http://assay.test" },
      )
    ).status,
    303,
    "the public address",
  );
  for (const [type, body, status] of [
    ["application/json", "{}", 400],
    ["application/x-www-form-urlencoded", "x".repeat(1_100_000), 413],
  ] as const)
    assert.is(
      (await createBrowser(server.url).send("POST", "/login", { headers: { "Content-Type": type }, body })).status,
      status,
    );
  assert.is((await createBrowser(server.url).send("PUT", "/login")).status, 405);
});

test("redirects to the requested page after the login, but never to another host", async () => {
  const { name, org } = await given();
  const ends = async (next: string) => (await createBrowser(server.url).login(name, PASSWORD, next)).location;
  assert.is(await ends("/api/v2/doc/#/Flows/list_flows"), "./api/v2/doc/#/Flows/list_flows");
  for (const next of [
    "//evil.example",
    "/\\evil.example",
    "https://evil.example",
    "/\t/evil.example",
    "/..//evil.example",
    "/.//evil.example",
    "\\\\evil.example",
    "javascript:alert(1)",
    "/%0d%0aSet-Cookie:x",
    "evil",
    "/a b",
    "/x".repeat(1001),
  ]) {
    const at = await ends(next);
    assert.is(new URL(at ?? "", `${server.url}/login`).origin, server.url, next);
    assert.ok(at === `./${org}` || next === "/%0d%0aSet-Cookie:x", `${next}: ${at}`);
  }
  const page = await createBrowser(server.url).get(`/login?next=${encodeURIComponent("//evil.example")}`);
  assert.match(page.text, /name="next" value=""/);
});

test("pages find their root behind any path of a proxy", () => {
  for (const [originalUrl, path, at] of [
    ["/", "/", "/"],
    ["/login?x=/y", "/login", "/"],
    ["/login/oidc/callback", "/login/oidc/callback", "/"],
    ["/assay", "/", "/assay/"],
    ["/a/assay?x", "/", "/a/assay/"],
    ["/a/assay/", "/", "/a/assay/"],
    ["/assay/login/oidc", "/login/oidc", "/assay/"],
  ] as const)
    assert.is(new URL(rootOf({ originalUrl, path }), `https://assay.example${originalUrl}`).pathname, at, originalUrl);
});

test("values in a page are escaped", async () => {
  const browser = createBrowser(server.url);
  const { text } = await browser.login(`"><script>alert('x')</script>&`, "wrong");
  assert.not.match(text, /<script/);
  assert.match(text, /value="&#34;&#62;&#60;script&#62;alert\(&#39;x&#39;\)&#60;\/script&#62;&#38;"/);
});

test("over TLS the cookie is bound to this host and to TLS", async () => {
  const other = await startServer({ baseUrl: "https://assay.test" });
  try {
    await setPassword(other, "ann");
    const browser = createBrowser(other.url, { Origin: "https://assay.test" });
    const answer = await browser.login("ann", PASSWORD);
    const [cookie = ""] = answer.headers.getSetCookie().filter((line) => line.startsWith("__Host-assay="));
    assert.match(cookie, /^__Host-assay=[\w-]{43}; path=\/; samesite=lax; secure; httponly$/);
    assert.is((await browser.get("/account")).status, 200);
    const plain = createBrowser(other.url, { Cookie: `assay=${browser.cookies.get("__Host-assay")}` });
    assert.is((await plain.get("/account")).status, 303, "a cookie without the prefix is not accepted");
  } finally {
    await other.stop();
  }
});

test("the next login rehashes a password with outdated parameters", async () => {
  const name = fresh("user");
  const id = server.store.users.create({ name, displayName: "", email: null });
  server.store.passwords.set(
    id,
    await createPasswordHasher({ cost: 32, block_size: 8, parallelism: 2 }).hash(PASSWORD),
  );
  for (let count = 0; count < 2; count += 1) {
    assert.is((await createBrowser(server.url).login(name, PASSWORD)).status, 303);
    assert.equal(
      { cost: server.store.passwords.find(id)?.cost, parallelism: server.store.passwords.find(id)?.parallelism },
      { cost: CHEAP_SCRYPT.cost, parallelism: CHEAP_SCRYPT.parallelism },
    );
  }
});

test("refuses logins beyond the queue with a request to retry", async () => {
  const other = await startServer();
  try {
    await setPassword(other, "ann");
    const statuses = await Promise.all(
      Array.from(
        { length: 60 },
        async (_, index) =>
          await other.passwords.verify(`wrong ${index}`, null).then(
            () => 200,
            (error: { code: string }) => error.code,
          ),
      ),
    );
    assert.equal([...new Set(statuses)].sort(), [200, "unavailable"].sort());
    assert.is(statuses.filter((status) => status === 200).length, 33);
    assert.is((await createBrowser(other.url).login("ann", PASSWORD)).status, 303, "later logins succeed");
  } finally {
    await other.stop();
  }
});

/** How many of these hashes were refused with each code; `made` counts the others. */
async function outcomes(hashes: readonly Promise<unknown>[]): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const result of await Promise.allSettled(hashes)) {
    const code = result.status === "fulfilled" ? "made" : (result.reason as { code: string }).code;
    counts[code] = (counts[code] ?? 0) + 1;
  }
  return counts;
}

test("members who are created at the same time take one place among the logins, and wait up to a limit", async () => {
  const passwords = createPasswordHasher(CHEAP_SCRYPT);
  const create = (count: number) =>
    Array.from({ length: count }, (_, index) => passwords.hashOfMember(`pass ${index}`));
  const logins = Array.from({ length: 32 }, (_, index) => passwords.verify(`wrong ${index}`, null));
  assert.equal(await outcomes([...create(241), ...logins]), { made: 241 + 32 });
  const [first, ...others] = create(244);
  const refused = await Promise.all(others.slice(-3).map((other) => rejection(other)));
  assert.equal(await outcomes([first as Promise<unknown>, ...others]), { made: 241, too_many: 3 });
  for (const error of refused)
    assert.equal(
      { message: error.message, headers: (error as unknown as { headers: object }).headers },
      {
        message: "Too many members are being created. Please try again in 5 seconds",
        headers: { "Retry-After": "5" },
      },
    );
});

test.run();
