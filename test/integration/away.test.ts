/** A page in Chromium whose server goes away and comes back. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { axeViolations } from "../screenshots/axe.ts";
import { ADMIN } from "../story/story.ts";
import { inChromium } from "./chromium.ts";
import { givePeople } from "./people.ts";

const test = suite("integration/away");
const inBrowser = inChromium(test);
const { as } = givePeople(test);

const PATH = "/acme/environments/production-eu";

inBrowser("a page says that the server is away, since when, marks its data as old, and recovers by itself", () =>
  as(
    ADMIN,
    async ({ page, expectComplaints }) => {
      expectComplaints(/htmx:error|ERR_FAILED/);
      await page.clock.install({ time: "2026-11-20T10:44:12Z" });
      await page.reload();
      assert.is(await page.getByText("has not answered").isVisible(), false);
      const names = page.locator("#main .t-name");
      const shown = await names.allInnerTexts();
      assert.ok(shown.length > 5);
      await page.context().route("**/*", (route) => route.abort());
      await page.clock.fastForward(130_000);
      const band = page.locator("[data-away]");
      await page.locator("#main").getByRole("link", { name: "Failing" }).first().click();
      await band.waitFor();
      assert.match(await band.innerText(), /has not answered since 10:44:12 UTC\. What you see is 2 minutes old/);
      assert.match(await band.innerText(), /retrying in \d+ s/);
      assert.is(await page.locator("#frame.stale-data").count(), 1);
      assert.equal(await names.allInnerTexts(), shown, "what was shown stays");
      assert.equal(await axeViolations(page), []);
      await page.context().unroute("**/*");
      await page.clock.fastForward(15_000);
      await band.waitFor({ state: "hidden" });
      assert.is(await page.locator("#frame.stale-data").count(), 0);
    },
    { path: PATH },
  ),
);

inBrowser("the answer of a proxy in place of the server does not replace the page", () =>
  as(
    ADMIN,
    async ({ page }) => {
      const body = "<html><title>502 Bad Gateway</title><h1>502 Bad Gateway</h1></html>";
      await page
        .context()
        .route("**/environments/**", (route) => route.fulfill({ status: 502, contentType: "text/html", body }));
      await page.locator("#main").getByRole("link", { name: "Failing" }).first().click();
      await page.locator("[data-away]").waitFor();
      assert.match(await page.getByRole("heading", { level: 1 }).innerText(), /production-eu/);
      await page.context().unroute("**/environments/**");
      await page.getByRole("button", { name: "Retry now" }).click();
      await page.locator("[data-away]").waitFor({ state: "hidden" });
    },
    { path: PATH },
  ),
);

test.run();
