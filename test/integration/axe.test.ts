/** The accessibility check itself: it runs under the Content-Security-Policy of pages, and finds what is wrong. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { axeViolations } from "../screenshots/axe.ts";
import { browser, inChromium, server } from "./chromium.ts";

const test = suite("integration/axe");
const inBrowser = inChromium(test);

inBrowser("axe-core runs on a page that allows no script, and finds a field without a label", async () => {
  const page = await browser.newPage();
  try {
    const response = await page.goto(`${server.url}/login`);
    const policy = response?.headers()["content-security-policy"] ?? "";
    assert.match(policy, "default-src 'none'");
    assert.not.match(policy, "unsafe");
    assert.equal(await axeViolations(page), []);
    await page.evaluate("document.querySelector('label').remove()");
    const [violation = ""] = await axeViolations(page);
    assert.match(violation, /^label \(critical\): <input/);
  } finally {
    await page.close();
  }
});

test.run();
