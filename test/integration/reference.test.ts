// The API reference in a real browser: a pasted key works, and nothing is sent anywhere else. Also runs in a namespace
// without a network (integration/air-gap).
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { authorize, execute, inChromium, screenshot, server, visit } from "./chromium.ts";

const test = suite("integration/reference");
const inBrowser = inChromium(test);

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
