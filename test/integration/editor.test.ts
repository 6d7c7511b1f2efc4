/** The editor for policies and templates in Chromium: errors, completion, preview, keyboard; what it never stores. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { chromium } from "playwright-core";
import type { Browser, Page } from "playwright-core";
import { existsSync } from "node:fs";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { createBrowser, PASSWORD, setPassword } from "../web/browser.ts";
import { EXECUTABLE, FLAGS, STEP_TIMEOUT_MS } from "./chromium.ts";

const installed = existsSync(EXECUTABLE);
const test = suite("integration/editor");
const check = installed ? test : test.skip;

let server: TestServer;
let browser: Browser;
test.before(async () => {
  server = await startServer();
  if (installed) browser = await chromium.launch({ executablePath: EXECUTABLE, args: FLAGS });
});
test.after(async () => {
  if (installed) await browser.close();
  await server.stop();
});

type At = { org: string; key: string };
const V1 = "_schema: https://assay.example.com/schemas/policy/environment/v1\nartifacts:\n  attestations:\n";
const RULE = "    - type: junit\n";

/** An organization with a policy in use, and the page of the policy; nothing may be complained about. */
async function withEditor(path: (at: At) => string, work: (page: Page, at: At) => Promise<void>): Promise<void> {
  const at = server.given.org();
  await server.call("PUT", `/policies/${at.org}`, {
    key: at.key,
    form: {
      field: "payload",
      json: { name: "prod" },
      file: { name: "policy_file", filename: "policy.yml", content: `${V1}${RULE}` },
    },
  });
  await server.given.flow(at, { name: "backend-api" });
  await server.given.control(at, { identifier: "SEC-REL-4" });
  await server.given.environment(at, { name: "production", policies: ["prod"] });
  await setPassword(server, `${at.org}-admin`);
  const outside = createBrowser(server.url);
  await outside.login(`${at.org}-admin`, PASSWORD);
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  try {
    context.setDefaultTimeout(STEP_TIMEOUT_MS);
    const value = outside.cookies.get("assay") ?? "";
    await context.addCookies([{ name: "assay", value, url: server.url, httpOnly: true, sameSite: "Lax" }]);
    const page = await context.newPage();
    const complaints: string[] = [];
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
    });
    await page.goto(`${server.url}${path(at)}`);
    await work(page, at);
    assert.equal(complaints, []);
  } finally {
    await context.close();
  }
}

const policyPath = ({ org }: At): string => `/${org}/policies/prod`;
const typeAtEnd = async (page: Page, text: string): Promise<void> => {
  await page.locator(".cm-content").click();
  await page.keyboard.press("Control+End");
  await page.keyboard.type(text);
};
const versionsOf = async (at: At): Promise<string[]> =>
  (await server.call("GET", `/policies/${at.org}/prod`, { key: at.key })).body.versions.map(
    (version: { policy_yaml: string }) => version.policy_yaml,
  );
/** Waits until this alone is offered: while a person types, the list of the word before may still be shown. */
const offered = (page: Page, label: string): Promise<void> =>
  page
    .locator(".cm-tooltip-autocomplete ul:not(:has(li + li)) .cm-completionLabel")
    .filter({ hasText: new RegExp(`^${label}$`) })
    .waitFor();
/** Takes an offer by mouse. The editor ignores Enter for 75 ms after a list opens, so a key would race with it. */
const take = async (page: Page, label: string): Promise<void> => {
  await page.locator(".cm-tooltip-autocomplete li").filter({ hasText: label }).click();
  await page.locator(".cm-tooltip-autocomplete").filter({ hasText: label }).waitFor({ state: "detached" });
};

check("shows each error under its line while a person types, and switches Save off until it is mended", () =>
  withEditor(policyPath, async (page, at) => {
    await typeAtEnd(page, "    - type: pull-request");
    const message = page.locator(".cm-message");
    await message.waitFor();
    assert.match(await message.innerText(), /^Line 5, column 13 type: write one of these: generic, /);
    assert.is(await page.locator(".cm-lintRange-error").innerText(), "pull-request");
    assert.is(await page.locator("[data-editor-state]").innerText(), "1 error");
    const save = page.getByRole("button", { name: "Save as version 2" });
    assert.is(await save.getAttribute("aria-disabled"), "true");
    await page.keyboard.press("Control+Home");
    await save.click({ force: true });
    assert.equal(await versionsOf(at), [`${V1}${RULE}`]);
    // The button leads to the error instead: typing there replaces the word.
    await page.keyboard.press("Shift+End");
    const checked = page.waitForResponse((answer) => answer.request().postData()?.includes("wrong") === true);
    await page.keyboard.type("wrong");
    await checked;
    await page.getByRole("button", { name: "Error in line 5, column 13" }).click();
    await page.keyboard.press("Shift+End");
    await page.keyboard.type("snyk");
    await message.waitFor({ state: "detached" });
    assert.is(await save.getAttribute("aria-disabled"), null);
    await page.getByLabel("Comment").fill("Scans");
    await save.click();
    await page.waitForURL(/done=version_saved/);
    assert.is((await versionsOf(at)).length, 2);
    assert.match((await versionsOf(at))[1] as string, /- type: \S*snyk/);
  }),
);

check("marks warnings in their own way, and leaves Save on", () =>
  withEditor(policyPath, async (page, at) => {
    await typeAtEnd(page, "    - type: custom:coverage");
    const message = page.locator(".cm-message-warning");
    await message.waitFor();
    assert.match(
      await message.innerText(),
      /^Line 5, column 13 organization '\S+' has no attestation type 'coverage'; create it, or correct the name$/,
    );
    assert.is(await page.locator(".cm-lintRange-warning").innerText(), "custom");
    assert.is(await page.locator(".cm-lintRange-error").count(), 0);
    assert.is(await page.locator("[data-editor-state]").innerText(), "1 warning");
    const result = page.locator("#editor-result");
    await result.getByText("Computed from this draft. Nothing is stored.").waitFor();
    assert.match(
      await result.innerText(),
      /1 warning\. The text would be stored all the same\.\s+line 5: organization/,
    );
    // The mark leads to the place. A text with errors is not compared with the organization.
    await page.getByRole("button", { name: "Warning in line 5, column 13" }).click();
    await page.keyboard.press("Shift+End");
    await page.keyboard.type("wrong");
    await page.locator("[data-editor-state]").getByText("1 error").waitFor();
    assert.is(await page.locator("[data-editor-state]").innerText(), "1 error");
    await page.getByRole("button", { name: "Error in line 5, column 13" }).click();
    await page.keyboard.press("Shift+End");
    await page.keyboard.type("custom:coverage");
    await page.locator("[data-editor-state]").getByText("1 warning").waitFor();
    const save = page.getByRole("button", { name: "Save as version 2" });
    assert.is(await save.getAttribute("aria-disabled"), null);
    await save.click();
    await page.waitForURL(/done=version_saved/);
    assert.is((await versionsOf(at)).length, 2);
  }),
);

check("completes keys of the schema, types, controls, and names of flows in expressions", () =>
  withEditor(policyPath, async (page) => {
    await typeAtEnd(page, "    - ty");
    await offered(page, "type");
    await page.locator(".cm-tooltip-autocomplete li").first().click();
    // A key that was taken offers its values at once.
    const list = page.locator(".cm-tooltip-autocomplete").filter({ hasText: "pull_request" });
    assert.match(await list.innerText(), /^decision$/m);
    await page.keyboard.type("deci");
    await offered(page, "decision");
    await take(page, "decision");
    await page.keyboard.press("Enter");
    await page.keyboard.type("for_control: ");
    await offered(page, "SEC-REL-4");
    await take(page, "SEC-REL-4");
    await page.keyboard.press("Enter");
    await page.keyboard.type("if: ${{ flow.name == 'ba");
    await offered(page, "backend-api");
  }),
);

check("says what the draft would change, and from which draft once it has errors; nothing is stored", () =>
  withEditor(policyPath, async (page, at) => {
    await typeAtEnd(page, "    - type: snyk");
    const result = page.locator("#editor-result");
    await result.getByText("Computed from this draft. Nothing is stored.").waitFor();
    assert.match(await result.innerText(), /production\s+0 running\s+no change/);
    assert.match(await result.innerText(), /Changes since v1\s+1 line added/);
    assert.match(await page.locator("[data-editor-changes]").innerText(), /^\+1 −0 lines since v1$/);
    assert.is(await page.locator(".cm-new").count(), 1);
    await page.keyboard.type("y");
    await result.getByText(/Computed from the last draft without errors, at .* Nothing is stored/).waitFor();
    assert.equal(await versionsOf(at), [`${V1}${RULE}`]);
  }),
);

check("can be used and left by keyboard alone, and takes no shortcut of the page", () =>
  withEditor(policyPath, async (page) => {
    await typeAtEnd(page, "# a/b");
    const focus = `(() => {
      const { activeElement: host } = document;
      return host.shadowRoot?.activeElement?.className.includes("cm-content") ? "editor" : (host.name || host.tagName);
    })()`;
    assert.is(await page.evaluate(focus), "editor", "a slash does not open the search");
    await page.keyboard.press("Tab");
    assert.is(await page.evaluate(focus), "editor");
    await page.keyboard.press("Escape");
    await page.keyboard.press("Tab");
    assert.is.not(await page.evaluate(focus), "editor");
  }),
);

check("stays below the navigation at the bottom of a phone", () =>
  withEditor(policyPath, async (page) => {
    const box = async (selector: string) => {
      const found = await page.locator(selector).boundingBox();
      assert.ok(found, selector);
      return found;
    };
    const width = 390;
    await page.setViewportSize({ width, height: 844 });
    const panel = await box(".cm-panels");
    const y = panel.y + panel.height / 2;
    // So high that the navigation covers the panel.
    await page.setViewportSize({ width, height: Math.round(y + 30) });
    const bar = await box(".bottom");
    assert.ok(y > bar.y && y < bar.y + bar.height, `the panel is at ${y}, the navigation at ${bar.y}`);
    assert.is(await page.evaluate(`document.elementFromPoint(${width / 2}, ${y}).closest(".bottom") !== null`), true);
  }),
);

check("comes when a tab brings it, and when the text area is of a template", () =>
  withEditor(
    ({ org }) => `/${org}/policies/prod?tab=versions`,
    async (page, { org }) => {
      assert.is(await page.locator(".cm-content").count(), 0);
      await page.getByRole("link", { name: "Edit", exact: true }).click();
      await page.locator(".cm-content").waitFor();
      await page.goto(`${server.url}/${org}/flows/backend-api?tab=template&ask=edit`);
      await page.locator(".cm-content").click();
      await page.keyboard.press("Control+a");
      await page.keyboard.type("version: 2");
      await page.locator(".cm-message").waitFor();
      assert.match(await page.locator(".cm-message").innerText(), /^Line 1, column 10/);
      await page.locator("#editor-result").getByText("The template has an error. Nothing is stored.").waitFor();
    },
  ),
);

test.run();
