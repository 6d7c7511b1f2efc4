// The API reference and the pages of logins in a real browser: keys, sessions, refusals, narrow screens.
import type { Page } from "playwright-core";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { PASSWORD, setPassword } from "../web/browser.ts";
import { authorize, browser, execute, inChromium, screenshot, server, STEP_TIMEOUT_MS, visit } from "./chromium.ts";

const test = suite("integration/chromium");
const inBrowser = inChromium(test);

/** Operations that can be called; the payloads of webhooks are listed below them. */
const OPERATION = '.opblock:not([id^="operations-webhooks-"])';

inBrowser("shows every operation of openapi.json, and nothing comes from elsewhere", () =>
  visit({}, async ({ page, requests }) => {
    type Document = { paths: Record<string, Record<string, { operationId: string; tags: string[] }>> };
    const { paths } = (await server.call<Document>("GET", "/openapi.json")).body;
    const declared = new Map<string, string[]>();
    for (const operation of Object.values(paths).flatMap((item) => Object.values(item))) {
      const tag = String(operation.tags[0]);
      declared.set(tag, [...(declared.get(tag) ?? []), operation.operationId].sort());
    }
    // One tag at a time: a long list is rendered only as far as it is visible.
    const shown = new Map<string, string[]>();
    for (const heading of await page.locator(".opblock-tag").all()) {
      const tag = String(await heading.getAttribute("data-tag"));
      await heading.click();
      const prefix = `operations-${tag.replace(/ /g, "_")}-`;
      await page.locator(`.opblock[id^="${prefix}"]`).first().waitFor();
      const ids = await page
        .locator(OPERATION)
        .evaluateAll((blocks) => blocks.map((block) => (block as unknown as { id: string }).id));
      shown.set(tag, ids.map((id) => id.replace(prefix, "")).sort());
      await heading.click();
      await page.locator(OPERATION).first().waitFor({ state: "detached" });
    }
    assert.equal(shown, declared);

    assert.is(await page.title(), "Assay API reference");
    // Counted once: Chromium reads the icon from its cache again whenever the URL changes.
    const fetched = requests.map((request) => new URL(request.url())).filter((url) => url.protocol !== "data:");
    assert.equal([...new Set(fetched.map((url) => url.pathname.replace(/\.[0-9a-f]{16}\./, ".")))].sort(), [
      "/api/v2/doc/",
      "/api/v2/doc/house.css",
      "/api/v2/doc/icon.svg",
      "/api/v2/doc/reference.css",
      "/api/v2/doc/reference.js",
      "/api/v2/doc/swagger-ui-bundle.js",
      "/api/v2/doc/swagger-ui.css",
      "/api/v2/openapi.json",
      "/session",
    ]);
    await screenshot(page, "assay-doc");
  }),
);

inBrowser("a key works as user name of basic authentication, in the dark and under the alias", () =>
  visit({ path: "/api/fastapi/doc/", dark: true }, async ({ page }) => {
    const { org, key } = server.given.org();
    await authorize(page, "HTTPBasic", key);
    const { request, status, body } = await execute(page, org);
    assert.is(status, "200");
    assert.is((body as { name: string }).name, org);
    assert.is(request.url(), `${server.url}/api/fastapi/organizations/${org}`);
    assert.is((await request.allHeaders())["authorization"], `Basic ${Buffer.from(`${key}:`).toString("base64")}`);
    assert.is(await page.evaluate("document.documentElement.className"), "dark-mode");
    await screenshot(page, "assay-doc-dark");
  }),
);

inBrowser("the address of an operation opens it; a refused key shows the refusal", () =>
  visit({ path: "/doc#/Organizations/get_organization" }, async ({ page, complaints }) => {
    await page.locator("#operations-Organizations-get_organization.is-open").waitFor();
    assert.is(page.url(), `${server.url}/api/v2/doc/#/Organizations/get_organization`);
    await authorize(page, "HTTPBearer", "not-a-key");
    const { status, body } = await execute(page, "acme");
    assert.is(status, "401");
    assert.equal(body, { message: "Authentication credentials are missing or invalid" });
    // The browser logs every 4xx.
    assert.equal(complaints.splice(0), [
      "error: Failed to load resource: the server responded with a status of 401 (Unauthorized)",
    ]);
  }),
);

/** Opens the page on a server that does not give its document, which is quicker to show. */
async function visitWithoutDocument(work: (page: Page, complaints: string[]) => Promise<void>): Promise<void> {
  const page = await browser.newPage();
  try {
    page.setDefaultTimeout(STEP_TIMEOUT_MS);
    const complaints: string[] = [];
    page.on("console", (message) => complaints.push(message.text()));
    await page.route("**/openapi.json", (route) => route.fulfill({ status: 503, body: "" }));
    await page.goto(`${server.url}/api/v2/doc/`);
    await page.getByRole("alert").waitFor();
    await work(page, complaints);
  } finally {
    await page.close();
  }
}

inBrowser("the page's policy keeps script from sending a key to another host", () =>
  visitWithoutDocument(async (page, complaints) => {
    const outcome = await page.evaluate(
      "fetch('http://127.0.0.2:9/', { mode: 'no-cors' }).then(() => 'sent', (error) => error.message)",
    );
    assert.is(outcome, "Failed to fetch");
    assert.ok(
      complaints.some((text) => text.includes("Content Security Policy")),
      complaints.join("\n"),
    );
  }),
);

inBrowser("where the document cannot be had, the page says so", () =>
  visitWithoutDocument(async (page) => {
    assert.is(
      await page.getByRole("alert").innerText(),
      "The description of the API could not be loaded: the server answered 503. Reload the page to try again.",
    );
  }),
);

inBrowser("a user signs in, tries a write operation without a key, changes the password and signs out", async () => {
  const { org } = server.given.org({ name: "login-org" });
  await setPassword(server, `${org}-admin`);
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const complaints: string[] = [];
  try {
    context.setDefaultTimeout(STEP_TIMEOUT_MS);
    const page = await context.newPage();
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("console", (message) => {
      // Chromium's suggestions about forms of Swagger UI are `verbose`; our own forms have none.
      if (!page.url().includes("/api/v2/doc/") || message.type() === "error" || message.type() === "warning")
        complaints.push(`${message.type()}: ${message.text()}`);
    });
    page.on("requestfailed", (request) => complaints.push(`${request.url()}: ${request.failure()?.errorText}`));

    await page.goto(`${server.url}/`);
    assert.is(page.url(), `${server.url}/login`);
    await screenshot(page, "assay-login");
    await page.getByLabel("Login name").fill(`${org}-admin`);
    await page.getByLabel("Password").fill("wrong");
    await page.getByRole("button", { name: "Sign in", exact: true }).click();
    assert.is(await page.getByRole("alert").innerText(), "The login name or the password is wrong.");
    await screenshot(page, "assay-login-refused");
    assert.is(await page.evaluate("document.activeElement.id"), "password", "the name stays filled in");
    await page.keyboard.type(PASSWORD);
    await page.keyboard.press("Enter");
    await page.waitForURL(`**/${org}`);
    await page.goto(`${server.url}/account`);
    await page.getByText("this session").waitFor();
    await screenshot(page, "assay-account");
    // The browser logs every 4xx.
    assert.equal(complaints.splice(0), [
      "error: Failed to load resource: the server responded with a status of 403 (Forbidden)",
    ]);

    await page.goto(`${server.url}/api/v2/doc/#/Controls/post_control`);
    await page.getByText(`Signed in as ${org}-admin`).waitFor();
    const operation = page.locator(".opblock.is-open");
    await operation.getByRole("button", { name: "Try it out" }).click();
    await operation.getByPlaceholder("org").fill(org);
    await operation
      .locator("textarea")
      .first()
      .fill(JSON.stringify({ identifier: "from-the-page", name: "From the page" }));
    const sent = page.waitForRequest((request) => request.method() === "POST");
    await operation.getByRole("button", { name: "Execute" }).click();
    const request = await sent;
    await operation.locator(".live-responses-table tbody .response-col_status").waitFor();
    const headers = await request.allHeaders();
    assert.equal(
      [
        (await request.response())?.status(),
        headers["authorization"],
        /^[\w-]{43}$/.test(headers["x-csrf-token"] ?? ""),
      ],
      [201, undefined, true],
    );
    await screenshot(page, "assay-doc-signed-in");

    // A pasted key takes precedence, and the cookie is not sent.
    const { org: other, key } = server.given.org();
    await authorize(page, "HTTPBearer", key);
    const tried = await execute(page, other);
    assert.equal(
      {
        status: tried.status,
        cookie: (await tried.request.allHeaders())["cookie"],
        "x-csrf-token": (await tried.request.allHeaders())["x-csrf-token"],
      },
      { status: "200", cookie: undefined, "x-csrf-token": undefined },
    );

    await page.getByText(`Signed in as ${org}-admin`).click();
    await page.waitForURL("**/account");
    await page.getByLabel("Current password").fill(PASSWORD);
    await page.getByLabel("New password", { exact: true }).fill("another horse battery");
    await page.getByLabel("New password again").fill("another horse battery");
    await page.getByRole("button", { name: "Change password" }).click();
    await page.getByText("Your password was changed.").waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.waitForURL("**/login");
    await page.goto(`${server.url}/account`);
    assert.is(page.url(), `${server.url}/login?next=%2Faccount`);
    assert.equal(complaints, []);
  } finally {
    await context.close();
  }
});

inBrowser("an expired session is reported in the page, without a password dialog of the browser", async () => {
  const { org } = server.given.org({ name: "ended-org" });
  await setPassword(server, `${org}-admin`);
  await visit({ login: `${org}-admin` }, async ({ page, complaints }) => {
    await page.getByText(`Signed in as ${org}-admin`).waitFor();
    server.store.sessions.endByUser(server.store.users.find(`${org}-admin`)?.id as number);
    const { status } = await execute(page, org);
    assert.is(status, "401");
    assert.equal(complaints.splice(0), [
      "error: Failed to load resource: the server responded with a status of 401 (Unauthorized)",
    ]);
  });
});

inBrowser("the pages of logins fit a narrow screen and the dark", async () => {
  const { org } = server.given.org({ name: "narrow-org" });
  await setPassword(server, `${org}-admin`);
  const context = await browser.newContext({
    viewport: { width: 360, height: 720 },
    colorScheme: "dark",
    javaScriptEnabled: false,
  });
  try {
    context.setDefaultTimeout(STEP_TIMEOUT_MS);
    const page = await context.newPage();
    await page.goto(`${server.url}/login`);
    await screenshot(page, "assay-login-dark");
    await page.getByLabel("Login name").fill(`${org}-admin`);
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByRole("button", { name: "Sign in", exact: true }).click();
    await page.waitForURL(`**/${org}`);
    await page.goto(`${server.url}/account`);
    await screenshot(page, "assay-account-dark");
    // A browser without JavaScript still renders pages; Playwright inspects them from outside.
    const box = await page.locator("main").boundingBox();
    assert.ok(box !== null && box.x >= 0 && box.width <= 360, JSON.stringify(box));
  } finally {
    await context.close();
  }
});

test.run();
