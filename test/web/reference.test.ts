// The API reference in a real browser: it is complete, a pasted key works, and nothing is sent anywhere else. Also runs
// in a namespace without a network (binary/air-gap).
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { authorize, execute, inChromium, screenshot, server, visit } from "./chromium.ts";

const test = suite("web/reference");
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

inBrowser("a pasted key works as bearer token, without cookies, and reloading forgets it", () =>
  visit({ cookie: true }, async ({ page, context }) => {
    const { org, key } = server.given.org();
    await authorize(page, "HTTPBearer", key);
    const { request, status, body } = await execute(page, org);
    assert.is(status, "200");
    assert.equal(body, (await server.call("GET", `/organizations/${org}`, { key })).body);
    assert.is(request.url(), `${server.url}/api/v2/organizations/${org}`);
    const headers = await request.allHeaders();
    assert.is(headers["authorization"], `Bearer ${key}`);
    assert.is(headers["cookie"], undefined);
    await screenshot(page, "assay-doc-answer");

    assert.not.ok(JSON.stringify(await context.storageState()).includes(key));
    assert.is(await page.evaluate("localStorage.length + sessionStorage.length"), 0);
    await page.reload();
    await page.locator(".auth-wrapper .authorize.unlocked").waitFor();
  }),
);

test.run();
