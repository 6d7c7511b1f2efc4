/** What all pages of the web interface share: sessions, forms, refusals, files. Seen through the pages of flows. */
import { gunzipSync, gzipSync } from "node:zlib";
import { request } from "node:http";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { createBrowser, PASSWORD, setPassword, signIn, signInWithRole, visibleText } from "./browser.ts";
import type { Browser, Page } from "./browser.ts";

const test = suite("web/pages");

let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

/** An organization, and a browser in which its administrator is signed in. */
async function given(host: TestServer = server): Promise<{ at: { org: string; key: string }; browser: Browser }> {
  const at = host.given.org();
  return { at, browser: await signedIn(`${at.org}-admin`, host) };
}

const signedIn = (name: string, host: TestServer = server): Promise<Browser> => signIn(host, name);

/** A user with a role in the organization, signed in. */
const member = (org: string, role: "reader" | "member" | null): Promise<Browser> => signInWithRole(server, org, role);

const descriptionOf = async (at: { org: string; key: string }, flow: string): Promise<string> =>
  (await server.call("GET", `/flows/${at.org}/${flow}`, { key: at.key })).body.description;

const fieldError = ({ text }: Page, id: string): string | null => {
  const message = new RegExp(`<p class="field-error" id="${id}-error">([\\s\\S]*?)</p>`).exec(text)?.[1];
  return message === undefined ? null : visibleText({ text: message });
};

test("a page without a session leads to the login, and the login back to the page", async () => {
  const { at } = await given();
  const browser = createBrowser(server.url);
  const page = await browser.get(`/${at.org}/flows?search=pay`);
  assert.equal(
    [page.status, page.location],
    [303, `../login?next=${encodeURIComponent(`/${at.org}/flows?search=pay`)}`],
  );
  const back = await browser.login(`${at.org}-admin`, PASSWORD, `/${at.org}/flows?search=pay`);
  assert.equal([back.status, back.location], [303, `./${at.org}/flows?search=pay`]);
});

test("a path that is no page, and a page for a client that is no browser, answer as the API does", async () => {
  const { at } = await given();
  for (const [path, accept] of [
    [`/${at.org}/nothing-of-that-name/at/all`, "text/html"],
    [`/${at.org}/flows`, "application/json"],
  ] as const) {
    const { status, text } = await createBrowser(server.url).get(path, { Accept: accept });
    assert.equal(
      [status, JSON.parse(text)],
      [
        404,
        {
          message:
            "The requested URL was not found on the server" + ": the API is described at /api/v2/doc/ of this server",
        },
      ],
    );
  }
});

test("a script that reloads a part of a page without a session is led to the login, and the login back", async () => {
  const { at } = await given();
  const path = `/${at.org}/flows?q=pay`;
  const { status, text, headers } = await createBrowser(server.url).get(path, { "HX-Request": "true" });
  assert.equal(
    { status, text, target: headers.get("HX-Redirect") },
    { status: 204, text: "", target: `../login?next=${encodeURIComponent(path)}` },
  );
});

test("a page is the answer for every Accept that admits HTML", async () => {
  const { at } = await given();
  const path = `/${at.org}/flows`;
  for (const [accept, status] of [
    ["text/html", 303],
    ["TEXT/HTML", 303],
    ["text/*", 303],
    ["*/*", 303],
    ["", 303],
    ["application/json;q=0.9, */*;q=0.1", 303],
    ["application/json", 404],
    ["text/html;q=0, application/json", 404],
    ["text/plain", 404],
  ] as const) {
    const answer = await createBrowser(server.url).get(path, { Accept: accept });
    assert.is(answer.status, status, accept);
    if (status === 303) assert.is(answer.location, `../login?next=${encodeURIComponent(path)}`, accept);
  }
  // A client with a key is no browser, unless it says so.
  const authorization = { Authorization: `Bearer ${at.key}` };
  assert.is((await createBrowser(server.url).get(path, { Accept: "*/*", ...authorization })).status, 404);
  assert.is((await createBrowser(server.url).get(path, { Accept: "text/html", ...authorization })).status, 303);
});

test("pages have a strict policy and no inline script or style, and stay with the person", async () => {
  const { at, browser } = await given();
  await server.given.flow(at, { name: "payments" });
  const page = await browser.get(`/${at.org}/flows/payments`);
  assert.is(page.status, 200);
  assert.is(
    page.headers.get("Content-Security-Policy"),
    "default-src 'none'; style-src 'self'; img-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; " +
      "frame-ancestors 'none'; script-src 'self'; worker-src 'self'; connect-src 'self'; frame-src 'self'",
  );
  assert.is(page.headers.get("Cache-Control"), "no-store");
  assert.not.match(page.text, /<style|style=|<script>|\son[a-z]+=/);
  assert.not.match(page.text, /https?:\/\/(?!127\.0\.0\.1)/, "no address of another host");
});

/** Bytes of all scripts but the editor, as browsers get them. */
const MAX_SCRIPT_BYTES = 40_000;

test("the files of a page are cached forever under a name that changes with their content", async () => {
  const { at, browser } = await given();
  const { text } = await browser.get(`/${at.org}/flows`);
  const names = [...text.matchAll(/(?:href|src)="\.\.\/(ui\/[^"]+)"/g)].map(([, name]) => name as string);
  assert.equal(names.map((name) => name.replace(/\.[0-9a-f]{16}\./, ".")).sort(), [
    "ui/app.js",
    "ui/assay.css",
    "ui/icon.svg",
    "ui/inter-latin.woff2",
  ]);
  for (const name of names) {
    const { status, headers, text: content } = await browser.get(`/${name}`);
    assert.equal([status, headers.get("Cache-Control")], [200, "public, max-age=31536000, immutable"], name);
    assert.ok(!name.includes("app.") || gzipSync(content).length <= MAX_SCRIPT_BYTES, `${content.length} bytes`);
    for (const font of name.includes("assay") ? content.matchAll(/url\(([^)]+\.woff2)\)/g) : [])
      assert.is((await browser.get(`/ui/${font[1]}`)).status, 200, font[1]);
  }
  assert.is((await browser.get("/ui/app.0000000000000000.js")).status, 404);
  assert.is((await browser.post(`/${names[0]}`, {})).status, 405);
});

test("a page is compressed, and its token differs in every answer", async () => {
  const { at, browser } = await given();
  const path = `/${at.org}/flows`;
  const bytes = await new Promise<Buffer>((resolve, reject) => {
    const headers = {
      Accept: "text/html",
      "Accept-Encoding": "gzip",
      Cookie: [...browser.cookies].map(([name, value]) => `${name}=${value}`).join("; "),
    };
    request(`${server.url}${path}`, { headers }, (response) => {
      assert.is(response.headers["content-encoding"], "gzip");
      response.toArray().then((parts) => resolve(Buffer.concat(parts)), reject);
    }).end();
  });
  assert.match(gunzipSync(bytes).toString(), /<title>Flows/);
  const [one, other] = [await browser.readCsrfToken(path), await browser.readCsrfToken(path)];
  assert.is.not(one, other);
  assert.match(one, /^[\w-]{80,}$/);
});

test("a form submits to its operation, and the next page says that it succeeded", async () => {
  const { at, browser } = await given();
  const path = `/${at.org}/flows?ask=create`;
  const made = await browser.submitForm(path, {
    form: "create",
    name: "payments",
    description: "Builds",
    visibility: "private",
    template_file: "version: 1\r\n",
  });
  assert.equal([made.status, made.location], [303, `../${at.org}/flows/payments?done=created`]);
  const flow = await server.call("GET", `/flows/${at.org}/payments`, { key: at.key });
  assert.equal([flow.body.description, flow.body.template], ["Builds", "version: 1\n"]);
  const shown = await browser.get(`/${at.org}/flows/payments?done=created`);
  assert.match(visibleText(shown), /^Created\. payments private Builds/);
  const entry = server.db.prepare("SELECT event, target, actor_name FROM audit_log ORDER BY id DESC LIMIT 1").get();
  assert.equal(entry, {
    event: "flow.applied",
    target: `/api/v2/flows/${at.org}/template_file`,
    actor_name: `${at.org}-admin`,
  });
});

test("a refused form keeps what was typed, and shows each message at its field", async () => {
  const { at, browser } = await given();
  const path = `/${at.org}/flows?ask=create`;
  const typed = { form: "create", name: "no spaces", description: 'a "quoted" <b>', template_file: "version: 2" };
  const page = await browser.submitForm(path, typed);
  assert.is(page.status, 400);
  assert.match(
    String(fieldError(page, "create-name")),
    /^Begin with a letter or a digit, and use only letters, digits and - _ \. ~\.$/,
  );
  assert.match(page.text, /name="name" required[^>]*aria-invalid="true"[^>]*value="no spaces"/);
  assert.match(page.text, /value="a &#34;quoted&#34; &#60;b&#62;"/);
  assert.match(page.text, /<textarea[^>]*>\nversion: 2<\/textarea>/);
  const template = await browser.submitForm(path, { ...typed, name: "payments" });
  assert.is(template.status, 400);
  assert.match(visibleText(template), /version : 2 Line 1, column 10 /);
  assert.equal((await server.call("GET", `/flows/${at.org}`, { key: at.key })).body, []);
});

test("creating a flow under a name that exists changes nothing", async () => {
  const { at, browser } = await given();
  await server.given.flow(at, { name: "payments" });
  const page = await browser.submitForm(`/${at.org}/flows?ask=create`, {
    form: "create",
    name: "payments",
    description: "other",
    template_file: "version: 1",
  });
  assert.equal([page.status, fieldError(page, "create-name")], [400, "A flow with this name already exists."]);
  assert.is(await descriptionOf(at, "payments"), "");
});

test("a form without the token of the session, or from another site, changes nothing and stays", async () => {
  const { at, browser } = await given();
  await server.given.flow(at, { name: "payments" });
  const path = `/${at.org}/flows/payments?tab=settings`;
  const fields = { form: "describe", description: "stolen", visibility: "public" };
  const token = await browser.readCsrfToken(path);
  const other = await given();
  for (const [csrf, origin] of [
    ["", server.url],
    [token.slice(0, -2), server.url],
    [await other.browser.readCsrfToken(`/${other.at.org}/flows`), server.url],
    [token, "https://evil.test"],
  ] as const) {
    const page = await browser.post(path, { ...fields, csrf }, { Origin: origin });
    assert.is(page.status, 403);
    assert.match(visibleText(page), /This form has expired, or was not sent from this page/);
    assert.match(page.text, /value="stolen"/);
  }
  assert.is(await descriptionOf(at, "payments"), "");
});

test("a form that is submitted after the session ended is shown again, filled in, after the sign-in", async () => {
  const { at, browser } = await given();
  await server.given.flow(at, { name: "payments" });
  const path = `/${at.org}/flows/payments?tab=settings`;
  const csrf = await browser.readCsrfToken(path);
  browser.cookies.clear();
  const fields = { form: "describe", description: "Builds <of> payments", visibility: "public" };
  const login = await browser.post(path, { ...fields, csrf });
  assert.is(login.status, 401);
  assert.match(visibleText(login), /What you submitted is kept/);
  assert.is(await descriptionOf(at, "payments"), "");
  const hidden = (name: string): string =>
    (new RegExp(`name="${name}" value="([^"]*)"`).exec(login.text)?.[1] ?? "").replace(/&#(\d+);/g, (_, code: string) =>
      String.fromCharCode(Number(code)),
    );
  const page = await browser.post("/login", {
    csrf: await browser.readCsrfToken("/login"),
    name: `${at.org}-admin`,
    password: PASSWORD,
    next: hidden("next"),
    form: hidden("form"),
  });
  assert.is(page.status, 200);
  assert.match(visibleText(page), /Your session had ended\. Nothing was stored yet/);
  assert.match(page.text, /value="Builds &#60;of&#62; payments"/);
  assert.is(await descriptionOf(at, "payments"), "", "it is not submitted by itself");
  const action = /<form class="form" method="post" action="([^"]*)"/.exec(page.text)?.[1] ?? "";
  const own = /name="csrf" value="([^"]*)"[^>]*><input type="hidden" name="form" value="describe"/;
  const again = own.exec(page.text)?.[1];
  const saved = await browser.post(action.replace(/&#38;/g, "&"), { ...fields, csrf: again ?? "" });
  assert.is(saved.status, 303);
  assert.is(await descriptionOf(at, "payments"), "Builds <of> payments");
});

test("a form of another site is not kept for a person who signs in after it", async () => {
  const { at, browser } = await given();
  await server.given.flow(at, { name: "payments" });
  browser.cookies.clear();
  const path = `/${at.org}/flows/payments`;
  const fields = { form: "describe", description: "planted", csrf: "" };
  const login = await browser.post(path, fields, { Origin: "https://evil.test" });
  assert.equal([login.status, login.text], [303, ""]);
});

test("refusals of a whole request are pages for a person, with the headers of the API", async () => {
  const { at, browser } = await given();
  const unknown = await browser.get(`/${at.org}/nothing/at/all`);
  assert.is(unknown.status, 404);
  assert.match(visibleText(unknown), /This does not exist/);
  assert.match(unknown.text, /<nav class="side"/);
  const large = await browser.post(`/${at.org}/flows`, { form: "x".repeat(3_000_000) });
  assert.is(large.status, 413);
  assert.match(visibleText(large), /This is too large/);
  const kind = await browser.send("POST", `/${at.org}/flows`, { headers: { "Content-Type": "text/plain" }, body: "x" });
  assert.is(kind.status, 400);
  assert.match(visibleText(kind), /only accepts the form of its page/);
});

test("in read-only mode pages are shown, and a form says why nothing was stored", async () => {
  const host = await startServer();
  try {
    const { at, browser } = await given(host);
    await host.given.flow(at, { name: "payments" });
    host.disk.free = 0;
    await host.diskGuard.check();
    const path = `/${at.org}/flows/payments?tab=settings`;
    const page = await browser.submitForm(path, { form: "describe", description: "typed", visibility: "private" });
    assert.is(page.status, 507);
    assert.match(visibleText(page), /The server is in read-only mode: .* Nothing was stored/);
    assert.match(page.text, /value="typed"/);
    // Every page tells administrators why, and no one else.
    const notice = /The server is in read-only mode Changes are refused: the disk .*\(disk-reserve\)\./;
    assert.match(visibleText(await browser.get(`/${at.org}/flows`)), notice);
    host.given.user(at.org, "reader");
    const { name } = host.db.prepare("SELECT name FROM users ORDER BY id DESC LIMIT 1").get() as { name: string };
    host.disk.free = Infinity;
    await host.diskGuard.check();
    const reader = await signIn(host, name);
    host.disk.free = 0;
    await host.diskGuard.check();
    assert.not.match(visibleText(await reader.get(`/${at.org}/flows`)), /read-only/);
  } finally {
    await host.stop();
  }
});

test("a page that follows a trail names its address, its version, and the worker of the stream", async () => {
  const { at, browser } = await given();
  const flow = await server.given.flow(at);
  await server.given.trail(at, { flow, name: "release-1" });
  const attributes = async (): Promise<Record<string, string>> => {
    const { text } = await browser.get(`/${at.org}/flows/${flow}/trails/release-1`);
    const found = text.matchAll(/ ?\bdata-live(-\w+)?="([^"]*)"/g);
    return Object.fromEntries([...found].map(([, name = "", value = ""]) => [name, value.replaceAll("&#38;", "&")]));
  };
  const before = await attributes();
  assert.is(before[""], `../../../../live?org=${at.org}&flow=${flow}&trail=release-1`);
  assert.match(before["-version"] ?? "", /^[\w-]{16}$/);
  assert.equal(await attributes(), before);
  await server.given.attestation(at, { flow, trail: "release-1" });
  assert.is.not((await attributes())["-version"], before["-version"]);
  // A worker has the policy of its own file, not that of the page.
  const worker = await browser.get(String(before["-worker"]).replace("../../../..", ""));
  assert.is(worker.status, 200);
  assert.is(worker.headers.get("Content-Type"), "text/javascript; charset=utf-8");
  assert.is(worker.headers.get("Content-Security-Policy"), "default-src 'none'; connect-src 'self'");
});

test("pages count for the rate limit of the session", async () => {
  const host = await startServer({ rates: { key: 3 } });
  try {
    const { at, browser } = await given(host);
    const pages = [];
    for (let n = 0; n < 5; n++) pages.push(await browser.get(`/${at.org}/flows`));
    const last = pages.at(-1) as Page;
    assert.is(last.status, 429);
    assert.match(String(last.headers.get("Retry-After")), /^\d+$/);
    assert.match(visibleText(last), /Too many requests/);
  } finally {
    await host.stop();
  }
});

test("a role sees only the forms that it may submit, and what it submits anyway is refused", async () => {
  const { at } = await given();
  await server.given.flow(at, { name: "payments" });
  const reader = await member(at.org, "reader");
  const page = await reader.get(`/${at.org}/flows/payments?tab=settings`);
  assert.is(page.status, 200);
  assert.not.match(page.text, /name="form"/);
  assert.not.match(visibleText(page), /Settings|Edit|Archive/);
  const csrf = await reader.readCsrfToken(`/${at.org}/flows`);
  for (const form of ["describe", "template", "rename", "archive", "set_tag", "constructor"]) {
    const answer = await reader.post(`/${at.org}/flows/payments`, { csrf, form, new_name: "x", key: "a" });
    assert.is(answer.status, form === "constructor" ? 400 : 403, form);
  }
  assert.is((await server.call("GET", `/flows/${at.org}/payments`, { key: at.key })).body.name, "payments");
  const writer = await member(at.org, "member");
  assert.match((await writer.get(`/${at.org}/flows/payments?tab=settings`)).text, /name="form" value="describe"/);
});

test("a foreign and a missing organization give the same page", async () => {
  const { at } = await given();
  const { browser } = await given();
  const [foreign, missing] = [await browser.get(`/${at.org}/flows`), await browser.get("/nothing/flows")];
  assert.equal([foreign.status, missing.status], [403, 403]);
  const strip = ({ text }: Page): string => text.replace(/name="(?:csrf|next)"\s*value="[^"]*"/g, "");
  assert.is(strip(foreign), strip(missing));
  assert.match(visibleText(foreign), /You have no access to this/);
});

test("a record that does not exist is a page that offers the search", async () => {
  const { at, browser } = await given();
  const page = await browser.get(`/${at.org}/flows/nothing`);
  assert.is(page.status, 404);
  assert.match(visibleText(page), /This does not exist There is no flow 'nothing' in \S+\. .* Search Overview/);
});

test("stored markup shows as text", async () => {
  const { at, browser } = await given();
  const script = "<script>alert(1)</script>";
  await server.call("PUT", `/flows/${at.org}/template_file`, {
    key: at.key,
    form: { json: { name: "payments", description: script } },
  });
  await server.call("PATCH", `/tags/${at.org}/flow/payments`, { key: at.key, body: { set_tags: { a: script } } });
  for (const path of ["flows", "flows/payments", "flows/payments?tab=settings", `flows?search=${script}`]) {
    const { status, text } = await browser.get(`/${at.org}/${path}`);
    assert.is(status, 200, path);
    assert.not.match(text, /<script>/);
    assert.match(text, /&#60;script&#62;alert\(1\)/);
  }
});

test("below a base path every address stays below it", async () => {
  const host = await startServer({ network: { basePath: "/tools/assay" } });
  try {
    const at = host.given.org();
    await setPassword(host, `${at.org}-admin`);
    const browser = createBrowser(`${host.url}/tools/assay`);
    const csrf = /name="csrf" value="([^"]*)"/.exec((await browser.get("login")).text)?.[1] ?? "";
    await browser.post("login", { csrf, name: `${at.org}-admin`, password: PASSWORD }, { Origin: host.url });
    const page = await browser.get(`${at.org}/flows?ask=create`);
    assert.is(page.status, 200);
    const base = `${host.url}/tools/assay/${at.org}/flows`;
    for (const [, address = ""] of page.text.matchAll(/(?:href|src|action)="([^"#][^"]*)"/g))
      assert.ok(new URL(address, base).pathname.startsWith("/tools/assay/"), address);
  } finally {
    await host.stop();
  }
});

test("what a browser chose is kept in cookies, each on its own, and only what can be chosen", async () => {
  const { at, browser } = await given();
  const path = `/${at.org}/flows`;
  assert.match((await browser.get(path)).text, /<html lang="en">/);
  const chosen = await browser.submitForm("/preferences", { theme: "dark", next: path }, path);
  assert.equal([chosen.status, chosen.location], [303, `.${path}`]);
  assert.match((await browser.get(path)).text, /<html lang="en" data-theme="dark">/);
  await browser.submitForm("/preferences", { theme: '"><script>', next: path }, path);
  assert.match((await browser.get(path)).text, /<html lang="en" data-theme="dark">/);
  await browser.submitForm("/preferences", { theme: "light", next: "https://evil.test" }, path);
  assert.match((await browser.get(path)).text, /<html lang="en" data-theme="light">/);
  assert.match((await browser.get(path)).text, /<div class="app" id="frame"/);
  await browser.submitForm("/preferences", { navigation: "rail", density: "dense", next: path }, path);
  await browser.submitForm("/preferences", { navigation: "toString", density: "", next: path }, path);
  const { text } = await browser.get(path);
  assert.match(text, /<html lang="en" data-theme="light">/);
  assert.match(text, /<div class="app app-rail dense" id="frame"/);
});

test("a page answers HEAD, and refuses other methods with those that it has", async () => {
  const { at, browser } = await given();
  const head = await browser.send("HEAD", `/${at.org}/flows`);
  assert.equal([head.status, head.text], [200, ""]);
  const put = await browser.send("PUT", `/${at.org}/flows`);
  assert.equal([put.status, put.headers.get("Allow")], [405, "GET, HEAD, POST"]);
});

test("a page has a head for paper: object, address, whole fingerprint, state in UTC, and who prints it", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const fingerprint = await server.given.artifact(at, { flow, trail: "t", name: "shop" });
  const browser = await signIn(server, `${at.org}-admin`);
  const path = `/${at.org}/flows/${flow}/artifacts/${fingerprint}?show=x&y=1`;
  const { text } = await browser.get(path);
  const [head = ""] = /<aside class="paper"[\s\S]*?<\/aside>/.exec(text) ?? [];
  const words = visibleText({ text: head });
  assert.ok(words.startsWith(`${at.org} / Artifacts / shop `), words);
  assert.ok(words.includes(`Printed by ${at.org}-admin`), words);
  assert.ok(words.includes(`${path} State of `), words);
  assert.match(words, /State of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC/);
  assert.ok(words.endsWith(`sha256:${fingerprint}`), words);
  assert.not.ok((await browser.get("/account")).text.includes('class="paper"'), "outside of an organization");
});

test.run();
