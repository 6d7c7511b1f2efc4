/** What a page tells the browser about the version that it shows, for live updates. */
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import Koa from "koa";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { emptyLogFields } from "../../src/http/request-log.ts";
import { createCookies } from "../../src/web/cookies.ts";
import { editableText, html } from "../../src/web/html.ts";
import { createPageFiles } from "../../src/web/page/files.ts";
import { page } from "../../src/web/page/page.ts";
import { createPageServer } from "../../src/web/page/serve.ts";

const test = suite("web/page-server");

/** The address that an open page of an environment follows. `commits`: how often something is written meanwhile. */
async function liveAttributes(commits: number): Promise<string[]> {
  let state = 7;
  const shown = page({
    path: "/{org}/environments/{env}",
    async show({ params }) {
      state += commits;
      return {
        title: "prod",
        section: "environments",
        crumbs: [],
        main: html`<p>prod</p>`,
        live: { environment: params["env"] ?? "" },
      };
    },
  });
  const principal = { name: "ops", displayName: "", publicId: "p" } as never;
  const pages = createPageServer({
    pages: [shown],
    sections: {},
    files: createPageFiles(),
    cookies: createCookies("http://assay.test"),
    limits: {} as never,
    sessionOf: () => ({ principal, csrfToken: "t".repeat(43) }),
    liveVersion: () => "v1",
    databaseState: () => state,
    readOnlyReason: () => null,
    countRequest: () => undefined,
    createCaller: () => ({
      call: async ({ id }) => (id === "list_views" ? [] : { data: [], pagination: { total: 0 } }) as never,
      open: async () => assert.unreachable() as never,
      permits: () => true,
      membershipIn: () => null,
    }),
    baseUrl: "http://assay.test",
    now: () => 1_700_000_000,
    askToSignIn: async () => assert.unreachable(),
  });
  const app = new Koa();
  app.use((ctx) => {
    ctx.state = { log: emptyLogFields() };
    const found = pages.find(ctx.path);
    if (found) return pages.serve(ctx, found);
    return assert.unreachable();
  });
  const server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    const { port } = server.address() as AddressInfo;
    const response = await fetch(`http://127.0.0.1:${port}/acme/environments/prod`);
    const text = await response.text();
    assert.is(response.status, 200, text);
    const attributes = /data-live="([^"]*)" data-live-version="([^"]*)"\sdata-live-worker="([^"]*)"/.exec(text) ?? [];
    return attributes.slice(1).map((value) => value.replace(/&(?:amp|#38);/g, "&"));
  } finally {
    server.close();
  }
}

test("a page follows its subject from the version that it shows", async () => {
  const [address = "", version, worker = ""] = await liveAttributes(0);
  assert.is(address, "../../live?org=acme&environment=prod");
  assert.is(version, "v1");
  assert.match(worker, /^\.\.\/\.\.\/ui\/live-worker\.[0-9a-f]{16}\.js$/);
});

test("a page that was read while something was committed is read again at once", async () => {
  const [address, version] = await liveAttributes(1);
  assert.equal([address, version], ["../../live?org=acme&environment=prod", "outdated"]);
});

test("control characters of a text become visible, and stay as they are where a form sends them back", () => {
  const name = "a\u0007b\u001b[31mc\u007fd\u0085e\u202ef\tg\nh";
  assert.is(html`<b>${name}</b>`.text, "<b>a\u2407b\u241b[31mc\u2421dU+0085eU+202Ef\tg\nh</b>");
  assert.is(html`<b>${[name, "<"]}</b>`.text, "<b>a\u2407b\u241b[31mc\u2421dU+0085eU+202Ef\tg\nh&#60;</b>");
  assert.is(html`<input value="${name}">`.text, `<input value="${name}">`);
  assert.is(html`<textarea>${editableText(`${name}<`)}</textarea>`.text, `<textarea>${name}&#60;</textarea>`);
});

test.run();
