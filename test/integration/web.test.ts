/**
 * The web interface in Chromium, on the story: what people come for, counted in clicks from the overview; by keyboard
 * alone; without scripts; and every page for the accessibility checker and the console of the browser.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { BrowserContextOptions, Page } from "playwright-core";
import { PAGES } from "../screenshots/pages.ts";
import type { PhotographedPage } from "../screenshots/pages.ts";
import { axeViolations } from "../screenshots/axe.ts";
import { imageFingerprint } from "../../src/demo/acme/releases.ts";
import { ADMIN } from "../story/story.ts";
import { PASSWORD } from "../web/browser.ts";
import { inChromium } from "./chromium.ts";
import { givePeople } from "./people.ts";

const test = suite("integration/web");
const inBrowser = inChromium(test);

const { told, as, addressOf, forgetSession } = givePeople(test);

const headingOf = (page: Page): Promise<string> => page.getByRole("heading", { level: 1 }).first().innerText();

inBrowser("a developer with a fingerprint finds what is missing on the trail in one search and one click", () =>
  as("dev-lead", async ({ page, click, clicks }) => {
    await page.keyboard.press("/");
    await page.keyboard.type(imageFingerprint("acme/backend-api:2.41.0").slice(0, 12));
    await page.keyboard.press("Enter");
    await page.waitForURL(/artifacts/);
    await click("link", "release-2.41.0");
    assert.match(await headingOf(page), /release-2\.41\.0/);
    const reasons = await page.getByRole("main").innerText();
    assert.match(reasons, /sonar-gate is missing/);
    assert.match(reasons, /snyk-container fails/);
    assert.ok(clicks() <= 2);
  }),
);

inBrowser("a release engineer sees in one click which rule fails, and what would mend it", () =>
  as(ADMIN, async ({ page, click, clicks }) => {
    await click("link", "Why?");
    const text = await page.getByRole("main").innerText();
    assert.match(text, /1 of 2 policies refuses it/);
    assert.match(text, /has a compliant snyk attestation named snyk-container/);
    assert.match(text, /What would make it compliant/);
    assert.ok(await page.locator(".code li.hit").count());
    assert.is(clicks(), 1);
  }),
);

inBrowser("an operator sees in two clicks what runs, what changed, and the events", () =>
  as("cluster-operator", async ({ page, click, clicks }) => {
    await click("link", "production-eu");
    assert.match(await page.getByRole("main").innerText(), /acme\/backend-api/);
    await click("link", /^Events/);
    assert.match(await page.getByRole("main").innerText(), /started/i);
    assert.is(clicks(), 2);
  }),
);

inBrowser("an auditor reaches decisions and evidence of a control in three clicks, and nothing to edit", () =>
  as("auditor", async ({ page, click, clicks }) => {
    await click("link", "Controls");
    await click("link", "Releases are approved");
    await click("link", "release-2.41.0");
    assert.ok(clicks() <= 3);
    const main = await page.getByRole("main").innerText();
    assert.match(main, /release-2\.41\.0/);
    for (const address of [
      "/acme/controls/SEC-REL-4",
      "/acme/flows/backend-api/trails/release-2.41.0",
      "/acme/flows",
    ]) {
      await page.goto(`${told().server.url}${address}`);
      assert.is(await page.locator("main form[method=post]").count(), 0, address);
    }
  }),
);

inBrowser("an auditor reaches the binder of a control in three clicks, and takes its package along", () =>
  as("auditor", async ({ page, click, clicks }) => {
    await click("link", "Controls");
    await click("link", "Releases are approved");
    await click("link", "Audit binder");
    assert.ok(clicks() <= 3);
    const main = await page.getByRole("main").innerText();
    assert.match(main, /releases \([\d.]+ %\) had the decision for SEC-REL-4/);
    assert.is(await page.locator("main form[method=post]").count(), 0);
    const address = await page.getByRole("link", { name: "Download binder" }).getAttribute("href");
    assert.match(String(address), /audit-binder\/acme\/package\?control=SEC-REL-4/);
    await page.getByText("From and to").click();
    await page.getByLabel("From", { exact: true }).fill("2026-13-01");
    await click("button", "Show");
    assert.match(await page.locator("#from-error").innerText(), /Write it as 2026-01-31/);
    assert.is(await page.getByLabel("Identifier").inputValue(), "SEC-REL-4");
  }),
);

inBrowser("an administrator gives a member another role in three clicks", () =>
  as(ADMIN, async ({ page, click, clicks }) => {
    await click("link", "Settings");
    await click("link", /Change role.*Okko Berg|Change role.*cluster-operator/);
    await page.getByRole("main").getByRole("combobox").first().selectOption("reader");
    await click("button", /role/i);
    assert.is(clicks(), 3);
    const { body } = await told().server.call("GET", "/members/acme", { key: told().story.keys.get(ADMIN) ?? null });
    const members = body.data as { user: string; role: string }[];
    assert.is(members.find(({ user }) => user === "cluster-operator")?.role, "reader");
  }),
);

inBrowser("an administrator revokes a leaked key with one search and three clicks", () =>
  as(ADMIN, async ({ page, click, clicks }) => {
    await page.keyboard.press("/");
    await page.keyboard.type("reporter-production-eu");
    await page.keyboard.press("Enter");
    await page.waitForURL(/service-accounts/);
    await click("link", /^Revoke/);
    await click("button", /^Revoke/);
    assert.ok(clicks() <= 3);
    const path = "/service-accounts/acme/reporter-production-eu/api-keys";
    const { body } = await told().server.call("GET", path, { key: told().story.keys.get(ADMIN) ?? null });
    assert.equal(body, []);
  }),
);

inBrowser(
  "a form that is filled in when the session ends comes back after the sign-in, and waits to be submitted",
  () =>
    as(
      ADMIN,
      async ({ page, click }) => {
        await page.getByLabel("Name", { exact: true }).fill("kept-flow");
        await page.getByLabel("Description").fill('Builds "<of>" the kept');
        await page.context().clearCookies();
        await click("button", "Create flow");
        assert.match(await page.getByRole("main").innerText(), /What you submitted is kept/);
        await page.getByLabel("Login name").fill(ADMIN);
        await page.getByLabel("Password").fill(PASSWORD);
        await click("button", "Sign in");
        const read = async () =>
          (await told().server.call("GET", "/flows/acme/kept-flow", { key: told().story.keys.get(ADMIN) ?? null }))
            .status;
        assert.match(await page.getByRole("main").innerText(), /Nothing was stored yet/);
        assert.is(await page.getByLabel("Name", { exact: true }).inputValue(), "kept-flow");
        assert.is(await page.getByLabel("Description").inputValue(), 'Builds "<of>" the kept');
        assert.is(await read(), 404, "it is not submitted by itself");
        await click("button", "Create flow");
        await page.waitForURL(/kept-flow/);
        assert.is(await read(), 200);
        forgetSession(ADMIN);
      },
      { path: "/acme/flows?ask=create" },
    ),
);

inBrowser("by keyboard alone: skip link, navigation, tabs, search results and forms", () =>
  as(ADMIN, async ({ page }) => {
    await page.keyboard.press("Tab");
    assert.is(await page.evaluate("document.activeElement.textContent"), "Skip to content");
    await page.keyboard.press("Enter");
    assert.match(String(await page.evaluate("document.activeElement.id")), "main");
    await page.keyboard.press("Control+k");
    await page.keyboard.type("web-check");
    await page.locator("dialog [role=option]").first().filter({ hasText: "web-checkout" }).waitFor();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("Enter");
    await page.waitForURL(/web-checkout/);
    await page.goto(`${told().server.url}/acme/flows?ask=create`);
    await page.keyboard.type("by-keyboard");
    await page.keyboard.press("Enter");
    await page.waitForURL(/by-keyboard/);
    assert.match(await headingOf(page), /by-keyboard/);
  }),
);

inBrowser("without scripts pages read, and forms submit, as with them", () =>
  as(
    ADMIN,
    async ({ page, click }) => {
      await click("link", "Flows");
      await click("link", "infra");
      await page.getByRole("main").getByRole("link", { name: "Settings" }).click();
      await page.getByRole("textbox", { name: "Description" }).fill("Networks and clusters");
      await page.getByRole("button", { name: "Save" }).click();
      await page.waitForURL(/done=saved/);
      assert.match(await page.getByRole("status").innerText(), /Saved/);
      await page.goto(`${told().server.url}/acme/why?flow=backend-api&trail=release-2.41.0`);
      assert.match(await page.getByRole("main").innerText(), /sonar-gate/);
      await page.goto(`${told().server.url}/acme/policies/prod-baseline`);
      assert.match(await page.locator("textarea").first().inputValue(), /_schema/);
    },
    { javaScriptEnabled: false },
  ),
);

inBrowser("on a phone the current tab is in view, also after a step to another one", () =>
  as(
    ADMIN,
    async ({ page }) => {
      const current = page.locator(".tabs > [aria-current]");
      const isInView = async (name: string): Promise<boolean> => {
        await current.filter({ hasText: name }).waitFor();
        const box = await current.boundingBox();
        return box !== null && box.x >= 0 && box.x + box.width <= 390;
      };
      assert.ok(await isInView("Settings"));
      await page.getByRole("link", { name: "Deployments" }).click();
      assert.ok(await isInView("Deployments"));
    },
    { path: "/acme/environments/production-eu?tab=settings", viewport: { width: 390, height: 844 } },
  ),
);

inBrowser("a trail that is open shows a new attestation without being reloaded", () =>
  as(
    "dev-lead",
    async ({ page }) => {
      assert.is(await page.getByText("seen-live").count(), 0);
      await told().server.given.attestation(
        { org: "acme", key: told().story.keys.get(ADMIN) as string },
        { flow: "backend-api", trail: "pr-1490", name: "seen-live" },
      );
      await page.getByText("seen-live").first().waitFor();
    },
    { path: "/acme/flows/backend-api/trails/pr-1490" },
  ),
);

const VIEWS: Readonly<Record<string, BrowserContextOptions>> = {
  light: {},
  dark: { colorScheme: "dark" },
  phone: { viewport: { width: 390, height: 844 }, hasTouch: true },
};
/** Pages that are checked in every view here; `make screenshots AXE=1` checks all of them in every view. */
const IN_EVERY_VIEW = /^(?:overview|trail|why|snapshot|policy|artifact|flows|login|account)$|^attestation-snyk$/;

for (const [view, options] of Object.entries(VIEWS)) {
  inBrowser(`axe-core and the console of the browser find nothing: ${view}`, async () => {
    const chosen = PAGES.filter(
      ({ name, isLarge = false }) => !isLarge && (view === "light" || IN_EVERY_VIEW.test(name)),
    );
    const findings: string[] = [];
    const check = async (page: Page, photographed: PhotographedPage): Promise<void> => {
      const { name } = photographed;
      await page.goto(await addressOf(photographed));
      for (const violation of await axeViolations(page)) findings.push(`${name}: ${violation}`);
      const overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
      if (Number(await page.evaluate(overflow)) > 0) findings.push(`${name}: wider than the window`);
    };
    for (const [user, theirs] of Map.groupBy(chosen, ({ as: who }) => (who === undefined ? ADMIN : who))) {
      if (user === null) continue;
      await as(
        user,
        async ({ page }) => {
          for (const one of theirs) await check(page, one);
        },
        options,
      );
    }
    assert.equal(findings, []);
  });
}

test.run();
