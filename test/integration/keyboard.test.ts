/** The pages by keyboard alone, in Chromium: the palette, keys of one character, lists, drawers and forms. */
import type { Page } from "playwright-core";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { axeViolations } from "../screenshots/axe.ts";
import { ADMIN } from "../story/story.ts";
import { inChromium } from "./chromium.ts";
import { givePeople } from "./people.ts";

const test = suite("integration/keyboard");
const inBrowser = inChromium(test);
const { told, as, forgetSession } = givePeople(test);

const TRAIL = "/acme/flows/backend-api/trails/release-2.41.0";

/** What has the focus, in words. */
const focus = (page: Page): Promise<string> =>
  page.evaluate(`(({ activeElement: { name, classList, textContent } }) =>
    name || (classList.contains("drawer") ? "drawer" : textContent.trim().slice(0, 40)))(document)`);

const palette = (page: Page) => page.getByRole("dialog", { name: "Search or jump to" });
const options = (page: Page) => palette(page).getByRole("option");

inBrowser("the palette has places and commands of the person, finds names, and opens what is chosen", () =>
  as(ADMIN, async ({ page }) => {
    await page.keyboard.press("Control+k");
    await options(page).first().waitFor();
    const offered = (await options(page).allInnerTexts()).join("\n");
    for (const text of [
      "New flow…",
      "Invite a member…",
      "Allow an artifact…",
      "Compare two environments…",
      "Audit log",
    ])
      assert.ok(offered.includes(text), text);
    assert.equal(await axeViolations(page), []);
    await page.keyboard.type("release-2.41");
    const found = options(page).filter({ hasText: "release-2.41.0" }).first();
    await found.locator("mark", { hasText: /^release-2\.41$/ }).waitFor();
    assert.is(await options(page).first().getAttribute("aria-selected"), "true");
    assert.match(await found.innerText(), /Non-compliant/);
    await page.keyboard.press("Enter");
    await page.waitForURL(`**${TRAIL}`);
    await page.keyboard.press("Control+k");
    await page.keyboard.type("> new pol");
    await options(page).filter({ hasText: "New policy…" }).locator("mark").waitFor();
    // Until all of it is typed, other commands begin with it, too.
    await options(page).nth(1).waitFor({ state: "detached" });
    assert.is(await options(page).count(), 1);
    await page.keyboard.press("Enter");
    await page.waitForURL("**/acme/policies?ask=create");
    assert.is(await focus(page), "name");
  }),
);

inBrowser("a command that needs an environment asks for it", () =>
  as(ADMIN, async ({ page }) => {
    await page.keyboard.press("Control+k");
    await page.keyboard.type("allow an");
    await page.keyboard.press("Enter");
    await options(page).filter({ hasText: "batch-settlement" }).first().waitFor();
    await page.keyboard.type("production-e");
    await page.keyboard.press("Enter");
    await page.waitForURL("**/environments/production-eu?tab=settings&ask=allow");
    assert.is(await focus(page), "artifact_fingerprint");
  }),
);

inBrowser("the command that needs a time asks for it, and stays on the page", () =>
  as(
    ADMIN,
    async ({ page }) => {
      await page.keyboard.press("Control+k");
      await page.keyboard.type("go to a time");
      await options(page).getByText("Go to a time…").waitFor();
      await page.keyboard.press("Enter");
      await page.locator("#as-of:focus").waitFor();
      assert.is(await palette(page).count(), 0);
      await page.keyboard.type("yesterday");
      await page.keyboard.press("Enter");
      await page.locator("#moment-asked-error").waitFor();
      assert.match(page.url(), /\/acme\/policies\?at=yesterday$/);
      await page.locator("#moment-asked").fill("1.days.ago");
      await page.keyboard.press("Enter");
      await page.locator(".asof").waitFor();
      assert.match(page.url(), /\/acme\/policies\?at=/);
    },
    { path: "/acme/policies" },
  ),
);

inBrowser("what finds nothing has next steps, and the palette gives the focus back", () =>
  as(ADMIN, async ({ page }) => {
    await page.getByRole("link", { name: "Policies", exact: true }).first().focus();
    await page.keyboard.press("Control+k");
    await page.keyboard.type("libpeapod");
    await palette(page).getByText("No results for “libpeapod”").waitFor();
    assert.match(await palette(page).getByRole("status").innerText(), /No results/);
    assert.match(await options(page).first().innerText(), /Attestations named libpeapod/);
    assert.equal(await axeViolations(page), []);
    await page.keyboard.press("Escape");
    assert.is(await palette(page).count(), 0);
    assert.is(await focus(page), "Policies");
  }),
);

inBrowser("a person is offered only what the role permits, and the search page has the same", () =>
  as("auditor", async ({ page }) => {
    await page.keyboard.press("Control+k");
    await options(page).first().waitFor();
    const offered = (await options(page).allInnerTexts()).join("\n");
    assert.not.match(offered, /New |Invite|Allow|Attach|Place a hold/);
    assert.match(offered, /Compare two environments…/);
    await page.goto(`${told().server.url}/acme/search`);
    assert.not.match(await page.getByRole("main").innerText(), /New |Invite|Allow|Attach|Place a hold/);
  }),
);

inBrowser("the palette begins with what was opened last in this browser, until the person signs out", () =>
  as(ADMIN, async ({ page }) => {
    const { url } = told().server;
    const recent = () => palette(page).getByRole("group", { name: "Recent" }).getByRole("option").allInnerTexts();
    await page.keyboard.press("Control+k");
    await options(page).first().waitFor();
    assert.equal(await recent(), [], "nothing was opened yet");
    const places = ["environments/production-eu", "policies/prod-baseline", TRAIL.slice("/acme/".length)];
    for (const path of places) await page.goto(`${url}/acme/${path}`);
    // A list is no record, and neither is a page of another organization here.
    await page.goto(`${url}/edge/environments/markup`);
    await page.goto(`${url}/acme/environments/production-eu`);
    await page.keyboard.press("Control+k");
    await options(page).first().waitFor();
    const shown = (await recent()).map((text) => text.replaceAll(/\s+/g, " "));
    assert.equal(shown, ["release-2.41.0 backend-api", "prod-baseline"]);
    assert.equal(await axeViolations(page), []);
    await page.keyboard.press("Enter");
    await page.waitForURL(`**${TRAIL}`);
    await page.goto(`${url}/account`);
    await page.getByRole("button", { name: "Sign out", exact: true }).click();
    await page.waitForURL("**/login*");
    assert.is(await page.evaluate("localStorage.getItem('assay-recent')"), null);
    forgetSession(ADMIN);
  }),
);

inBrowser("S saves a list as a view, which the navigation then has", () =>
  as(
    ADMIN,
    async ({ page }) => {
      await page.keyboard.press("s");
      await page.locator(".save-view[open] input:focus").waitFor();
      assert.equal(await axeViolations(page), []);
      await page.keyboard.press("Escape");
      assert.is(await page.locator(".save-view[open]").count(), 0);
      await page.keyboard.press("s");
      await page.keyboard.type("Any servers");
      await page.keyboard.press("Enter");
      await page.locator('.nav-views a[aria-current="true"]', { hasText: "Any servers" }).waitFor();
      await page.keyboard.press("g");
      await page.keyboard.press("v");
      await page.waitForURL("**/acme/views");
    },
    { path: "/acme/environments?type=K8S&name=prod" },
  ),
);

inBrowser("all results of a kind have a page", () =>
  as(ADMIN, async ({ page }) => {
    await page.keyboard.press("Control+k");
    await page.keyboard.type("release");
    // Lists of what was typed until then come before it.
    const all = palette(page).locator('[role="option"][href$="q=release&kind=trail"]');
    assert.match(await all.innerText(), /Show more/);
    await all.click();
    await page.waitForURL("**/acme/search?q=release&kind=trail");
    await page.locator("#main .found").nth(20).waitFor();
    await page.locator('#main .found[href*="/flows/"][href$="?search=release"]').first().click();
    await page.waitForURL("**/acme/flows/*?search=release");
  }),
);

inBrowser("keys of one character go, filter, fold the navigation and list themselves", () =>
  as(ADMIN, async ({ page }) => {
    await page.keyboard.press("g");
    await page.keyboard.press("e");
    await page.waitForURL("**/acme/environments");
    await page.keyboard.press("f");
    await page.locator("#main input:focus").waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("f");
    assert.is(await page.locator("#main input:focus").inputValue(), "gf", "keys act on no field");
    await page.getByRole("button", { name: "Filter", exact: true }).focus();
    await page.keyboard.press("[");
    await page.locator("#frame.app-rail").waitFor();
    await page.keyboard.press("[");
    await page.locator("#frame:not(.app-rail)").waitFor();
    await page.keyboard.press("?");
    const keyboard = page.getByRole("dialog", { name: "Keyboard" });
    await keyboard.getByText("Audit log").waitFor();
    assert.equal(await axeViolations(page), []);
    await page.keyboard.press("Escape");
    assert.is(await keyboard.count(), 0);
    await page.keyboard.press("g");
    await page.keyboard.press("l");
    await page.waitForURL("**/settings/audit-log");
  }),
);

inBrowser("T goes to a time, whose pages keep it, and back", () =>
  as(
    ADMIN,
    async ({ page }) => {
      await page.keyboard.press("t");
      assert.is(await focus(page), "at");
      assert.equal(await axeViolations(page), []);
      await page.keyboard.type("2026-11-16 09:00");
      await page.keyboard.press("Enter");
      const band = page.locator(".asof");
      await band.getByText("as of Mon 16 Nov 2026, 09:00 UTC").waitFor();
      assert.equal(await axeViolations(page), []);
      await band.getByRole("link", { name: "Day before" }).press("Enter");
      await band.getByText("as of Sun 15 Nov 2026, 09:00 UTC").waitFor();
      await page.keyboard.press("g");
      await page.keyboard.press("e");
      await page.waitForURL("**/acme/environments?at=2026-11-15T09%3A00Z");
      // Filters keep it, too.
      await page.keyboard.press("f");
      await page.keyboard.type("staging");
      await page.keyboard.press("Enter");
      await page.waitForURL(/name=staging/);
      await band.getByText("as of Sun 15 Nov 2026, 09:00 UTC").waitFor();
      await page.keyboard.press("t");
      await page.keyboard.press("Escape");
      assert.is(await page.locator(".when-menu[open]").count(), 0);
      await band.getByRole("link", { name: "Back to now" }).press("Enter");
      await band.waitFor({ state: "detached" });
      assert.not.match(page.url(), /[?&]at=/);
    },
    { path: "/acme" },
  ),
);

inBrowser("keys of one character can be switched off in the account", () =>
  as(
    ADMIN,
    async ({ page, click }) => {
      await page.getByLabel("Single-key shortcuts").selectOption("off");
      await page.locator("form:has(#choose-keys)").getByRole("button", { name: "Save" }).click();
      await page.locator("#frame[data-keys=off]").waitFor();
      await page.goto(`${told().server.url}/acme`);
      for (const key of ["?", "[", "/", "j"]) await page.keyboard.press(key);
      assert.is(await page.locator("dialog, .app-rail").count(), 0);
      await page.keyboard.press("Control+k");
      await palette(page).waitFor();
      await page.keyboard.press("Escape");
      await click("link", "Flows");
    },
    { path: "/account" },
  ),
);

inBrowser("J, K and Enter go through a list and its drawer, Escape closes what is on top", () =>
  as(
    ADMIN,
    async ({ page }) => {
      await page.keyboard.press("j");
      assert.is(await focus(page), "pull-request");
      await page.keyboard.press("j");
      await page.keyboard.press("j");
      await page.keyboard.press("k");
      const second = await focus(page);
      assert.not.equal(second, "pull-request");
      await page.keyboard.press("Enter");
      await page.locator(".drawer").getByRole("heading", { name: second }).waitFor();
      await page.locator(".drawer:focus").waitFor();
      await page.keyboard.press("j");
      await page.locator(".drawer:focus").filter({ hasNotText: second }).waitFor();
      await page.keyboard.press("k");
      await page.locator(".drawer").getByRole("heading", { name: second }).waitFor();
      await page.keyboard.press("Control+k");
      await palette(page).waitFor();
      await page.keyboard.press("Escape");
      assert.is(await page.locator(".drawer").count(), 1, "the palette was on top");
      await page.keyboard.press("Escape");
      await page.locator(".drawer").waitFor({ state: "detached" });
      assert.is(await focus(page), second);
    },
    { path: TRAIL },
  ),
);

inBrowser("a form opens with the focus in its first field, and comes back with it in the first error", () =>
  as(
    ADMIN,
    async ({ page, click }) => {
      assert.is(await focus(page), "name");
      await page.keyboard.type("no such name!");
      await click("button", "Create flow");
      assert.is(await page.locator(":focus[aria-invalid=true]").getAttribute("name"), "name");
      await page.goto(`${told().server.url}${TRAIL}`);
      await click("link", "Override with a reason");
      await page.locator(".drawer form :focus").waitFor();
      await page.keyboard.press("Escape");
      assert.is(await focus(page), "drawer", "the first time leaves the field");
    },
    { path: "/acme/flows?ask=create" },
  ),
);

test.run();
