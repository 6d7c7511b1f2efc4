/** Chromium on a test server: a visit in a fresh profile checks that the page asked no other host for anything. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";
import type { Browser, BrowserContext, Page, Request } from "playwright-core";
import * as assert from "uvu/assert";
import type { Test } from "uvu";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { createBrowser, PASSWORD } from "../web/browser.ts";

export const EXECUTABLE = "/usr/bin/chromium";
export const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
];
/** Time limit of one step in the browser, which takes milliseconds; it only ends one that never succeeds. */
export const STEP_TIMEOUT_MS = 120_000;

const installed = existsSync(EXECUTABLE);

/** The server and the browser of the running suite. */
export let server: TestServer;
export let browser: Browser;

/**
 * Gives a suite a server and a browser. The returned function registers a test, which is skipped, visibly, where
 * Chromium is missing.
 */
export function inChromium(test: Test): Test | Test["skip"] {
  if (!installed) console.log(`Chromium is not installed at ${EXECUTABLE}: pages are not opened in a browser`);
  test.before(async () => {
    server = await startServer();
    if (installed) browser = await chromium.launch({ executablePath: EXECUTABLE, args: FLAGS });
  });
  test.after(async () => {
    if (installed) await browser.close();
    await server.stop();
  });
  return installed ? test : test.skip;
}

type Visit = { page: Page; context: BrowserContext; requests: Request[]; complaints: string[] };

/** Opens the page in a fresh profile, runs `work`, and checks that the browser logged no other errors. */
export async function visit(
  options: { path?: string; dark?: boolean; cookie?: boolean; login?: string },
  work: (visit: Visit) => Promise<void>,
): Promise<void> {
  const context = await browser.newContext({
    colorScheme: options.dark ? "dark" : "light",
    viewport: { width: 1280, height: 900 },
  });
  try {
    context.setDefaultTimeout(STEP_TIMEOUT_MS);
    if (options.cookie) await context.addCookies([{ name: "session", value: "of-another-page", url: server.url }]);
    if (options.login !== undefined) {
      const outside = createBrowser(server.url);
      await outside.login(options.login, PASSWORD);
      await context.addCookies([
        { name: "assay", value: outside.cookies.get("assay") ?? "", url: server.url, httpOnly: true, sameSite: "Lax" },
      ]);
    }
    const page = await context.newPage();
    const requests: Request[] = [];
    const complaints: string[] = [];
    page.on("request", (request) => requests.push(request));
    page.on("requestfailed", (request) => complaints.push(`${request.url()}: ${request.failure()?.errorText}`));
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning")
        complaints.push(`${message.type()}: ${message.text()}`);
    });
    await page.goto(`${server.url}${options.path ?? "/api/v2/doc/"}`);
    await page.locator(".opblock-tag").first().waitFor();
    await work({ page, context, requests, complaints });
    assert.equal(complaints, []);
    const origin = new URL(server.url).origin;
    const strangers = requests
      .map((request) => request.url())
      .filter((url) => !url.startsWith("data:") && new URL(url).origin !== origin);
    assert.equal(strangers, []);
  } finally {
    await context.close();
  }
}

/** Opens the dialog, fills in one of its two forms and presses Enter, as people do after pasting. */
export async function authorize(page: Page, scheme: "HTTPBearer" | "HTTPBasic", key: string): Promise<void> {
  await page.locator(".auth-wrapper .authorize").click();
  const dialog = page.locator(".dialog-ux .modal-ux");
  const input = dialog.locator(".auth-container", { hasText: scheme }).locator("input").first();
  await input.fill(key);
  await input.press("Enter");
  await dialog.locator(".close-modal").click();
}

/** Tries get_organization, and returns the request and the response that the page shows. */
export async function execute(page: Page, org: string): Promise<{ request: Request; status: string; body: unknown }> {
  const operation = page.locator("#operations-Organizations-get_organization");
  if (!(await operation.isVisible())) await page.locator("#operations-tag-Organizations").click();
  if ((await operation.locator(".opblock-body").count()) === 0)
    await operation.locator(".opblock-summary-control").click();
  await operation.getByRole("button", { name: "Try it out" }).click();
  await operation.getByPlaceholder("org").fill(org);
  const sent = page.waitForRequest((request) => request.url().includes("/organizations/"));
  await operation.getByRole("button", { name: "Execute" }).click();
  const request = await sent;
  const answer = operation.locator(".live-responses-table");
  await answer.locator("tbody .response-col_status").waitFor();
  return {
    request,
    status: (await answer.locator("tbody .response-col_status").innerText()).trim(),
    body: JSON.parse(await answer.locator(".highlight-code .microlight").first().innerText()),
  };
}

export async function screenshot(page: Page, name: string): Promise<void> {
  const directory = process.env["ASSAY_SCREENSHOTS"];
  if (directory) await page.screenshot({ path: join(directory, `${name}.png`), fullPage: false });
}
