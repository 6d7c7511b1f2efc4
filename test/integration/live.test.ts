/**
 * Live pages in Chromium: many pages of one session, whose browser opens six connections to the server; who is sent
 * what; and what happens when pages are closed or hidden, sessions end, or the server restarts.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createMemoryBudget } from "../../src/http/memory/memory-budget.ts";
import { createMetrics } from "../../src/server/metrics.ts";
import { startServer } from "../given.ts";
import type { ServerOptions, TestServer } from "../given.ts";
import { running, runningIn } from "../api/environments/given.ts";
import { createBrowser, PASSWORD, setPassword } from "../web/browser.ts";
import { browser, EXECUTABLE, FLAGS, inChromium, STEP_TIMEOUT_MS } from "./chromium.ts";

const test = suite("integration/live");
const inBrowser = inChromium(test);

/** Asks until the answer is yes; fails when a step of the browser would. */
async function inTime(problem: string, ask: () => Promise<boolean>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(problem)), STEP_TIMEOUT_MS);
  });
  try {
    while (!(await Promise.race([ask(), late])));
  } finally {
    clearTimeout(timer);
  }
}

/** A server on which a second of live updates takes a twentieth of one, and which counts its streams. */
async function startCounted(options: ServerOptions = {}) {
  const metrics = createMetrics({
    figures: {} as never,
    directory: null,
    now: () => 1_000,
    build: { version: "1.2.3", commit: null },
    jobKinds: () => [],
    pools: () => ({}),
    memory: createMemoryBudget({ total: 300, bodies: 100, answers: 100 }),
  });
  let changed = Promise.withResolvers<void>();
  const liveStreams = (count: number): void => {
    metrics.liveStreams(count);
    changed.resolve();
    changed = Promise.withResolvers();
  };
  const server = await startServer({
    metrics: { metrics: { ...metrics, liveStreams }, key: null },
    liveTimer(seconds, ring) {
      const timer = setTimeout(ring, seconds * 50);
      return () => clearTimeout(timer);
    },
    ...options,
  });
  const countStreams = async (): Promise<number> =>
    Number(/^assay_live_streams (\d+)$/m.exec(await metrics.collect())?.[1]);
  /** Resolves once the server has so many streams. */
  const untilStreams = (count: number): Promise<void> =>
    inTime(`the server has not ${count} streams`, async () => {
      const { promise } = changed;
      if ((await countStreams()) === count) return true;
      await promise;
      return false;
    });
  return { server, untilStreams };
}

type Person = {
  context: BrowserContext;
  open(path: string, options?: { hasClock?: boolean }): Promise<Page>;
  complaints: string[];
};

/** Signs a user in and runs `work` in a fresh profile; no page may throw, or break the policy. */
async function as(
  { server, user, program = browser }: { server: TestServer; user: string; program?: Browser },
  work: (person: Person) => Promise<void>,
): Promise<void> {
  const outside = createBrowser(server.url);
  assert.is((await outside.login(user, PASSWORD)).status, 303);
  const context = await program.newContext();
  const complaints: string[] = [];
  context.setDefaultTimeout(STEP_TIMEOUT_MS);
  const value = outside.cookies.get("assay") ?? "";
  await context.addCookies([{ name: "assay", value, url: server.url, httpOnly: true, sameSite: "Lax" }]);
  try {
    await work({
      context,
      complaints,
      async open(path, { hasClock = false } = {}) {
        const page = await context.newPage();
        page.on("pageerror", (error) => complaints.push(String(error)));
        page.on("console", (message) => {
          if (/Content.Security.Policy/.test(message.text())) complaints.push(message.text());
        });
        if (hasClock) await page.clock.install();
        await page.goto(`${server.url}${path}`);
        return page;
      },
    });
    assert.equal(complaints, []);
  } finally {
    await context.close();
  }
}

/** An organization with five trails and five environments, and its administrator. */
async function world(server: TestServer) {
  const at = server.given.org();
  const user = `${at.org}-admin`;
  await setPassword(server, user);
  const flow = await server.given.flow(at);
  const { environment, report } = runningIn(server);
  const trails = await Promise.all([1, 2, 3, 4, 5].map(() => server.given.trail(at, { flow })));
  const environments = trails.map(() => environment(at));
  for (const name of environments) report(at, name, [running("first", "1".repeat(64))]);
  return {
    at,
    user,
    paths: [
      ...trails.map((trail) => `/${at.org}/flows/${flow}/trails/${trail}`),
      ...environments.map((name) => `/${at.org}/environments/${name}`),
    ],
    environments,
    /** Changes every trail and every environment; each page of them then shows `name`. */
    async change(name: string): Promise<void> {
      await server.call("GET", "/version").catch((error) => console.log("C1", error.cause));
      await server.call("GET", "/version").catch((error) => console.log("C2", error.cause));
      for (const trail of trails) await server.given.attestation(at, { flow, trail, name });
      for (const one of environments) report(at, one, [running(name, "2".repeat(64))]);
    },
  };
}

const shows = (page: Page, text: string): Promise<void> => page.getByText(text).first().waitFor();

/** Resolves once an expression holds in the page, whose policy forbids it to evaluate text itself. */
const until = (page: Page, expression: string): Promise<void> =>
  inTime(`never ${expression}`, async () => (await page.evaluate(expression)) === true);

/** How a page looks to its scripts when another covers it; Chromium without a screen shows all pages. */
const setHidden = (page: Page, isHidden: boolean): Promise<unknown> =>
  page.evaluate(`Object.defineProperty(document, "hidden", { configurable: true, value: ${isHidden} });
    document.dispatchEvent(new Event("visibilitychange"))`);

inBrowser("ten pages of a session load, share one stream, and are all updated, also without the first", async () => {
  const { server, untilStreams } = await startCounted();
  try {
    const { user, paths, change } = await world(server);
    await as({ server, user }, async ({ open }) => {
      const pages = await Promise.all(paths.map((path) => open(path)));
      assert.is(pages.length, 10);
      await untilStreams(1);
      await change("seen-by-all");
      await Promise.all(pages.map((page) => shows(page, "seen-by-all")));
      await untilStreams(1);
      const [first, ...others] = pages as [Page, ...Page[]];
      await first.close();
      await change("seen-by-others");
      await Promise.all(others.map((page) => shows(page, "seen-by-others")));
      await untilStreams(1);
      for (const page of others) await page.close();
      await untilStreams(0);
    });
  } finally {
    await server.stop();
  }
});
inBrowser("a session follows only what it may read, also through the worker of its browser", async () => {
  const { server, untilStreams } = await startCounted();
  try {
    const [mine, theirs] = [await world(server), await world(server)];
    await as({ server, user: mine.user }, ({ open }) =>
      as({ server, user: theirs.user }, async ({ open: openTheirs }) => {
        const page = await open(mine.paths[5] as string);
        const other = await openTheirs(theirs.paths[5] as string);
        await untilStreams(2);
        const address = `/live?org=${mine.at.org}&environment=${mine.environments[0]}`;
        await other.evaluate(`window.heard = [];
          window.port = new SharedWorker(document.getElementById("page").dataset.liveWorker).port;
          port.onmessage = ({ data }) => heard.push(data);
          port.postMessage(new URL("${address}", location.href).href)`);
        await until(other, "heard.length > 0");
        await mine.change("seen-by-mine");
        await shows(page, "seen-by-mine");
        await theirs.change("seen-by-theirs");
        await shows(other, "seen-by-theirs");
        assert.equal(await other.evaluate("[...new Set(heard)]"), [""], "the subject is gone, they say");
        assert.is(await other.getByText("seen-by-mine").count(), 0);
      }),
    );
  } finally {
    await server.stop();
  }
});

inBrowser("a hidden page follows nothing, and is brought up to date when it is visible again", async () => {
  const { server, untilStreams } = await startCounted();
  try {
    const { user, paths, change } = await world(server);
    await as({ server, user }, async ({ open }) => {
      const page = await open(paths[0] as string);
      await untilStreams(1);
      await setHidden(page, true);
      await untilStreams(0);
      await change("seen-later");
      await setHidden(page, false);
      await shows(page, "seen-later");
      await untilStreams(1);
      await change("seen-after");
      await shows(page, "seen-after");
    });
  } finally {
    await server.stop();
  }
});

inBrowser("a page to which one goes back is live again", async () => {
  const { server, untilStreams } = await startCounted();
  try {
    const { user, paths, at, change } = await world(server);
    await as({ server, user }, async ({ open }) => {
      const page = await open(paths[0] as string);
      await page.goto(`${server.url}${paths[6]}`);
      await page.goto(`${server.url}/${at.org}/flows`);
      await page.goBack();
      await change("seen-on-the-way");
      await shows(page, "seen-on-the-way");
      await page.goBack();
      await change("seen-at-the-start");
      await shows(page, "seen-at-the-start");
      assert.is(new URL(page.url()).pathname, paths[0]);
      await untilStreams(1);
    });
  } finally {
    await server.stop();
  }
});

inBrowser("a page that the browser kept while one was elsewhere is live again", async () => {
  const { server, untilStreams } = await startCounted();
  // Playwright switches the back/forward cache off.
  const keeping = await chromium.launch({
    executablePath: EXECUTABLE,
    args: FLAGS,
    ignoreDefaultArgs: ["--disable-back-forward-cache"],
  });
  try {
    const { user, paths, at, change } = await world(server);
    await as({ server, user, program: keeping }, async ({ open }) => {
      const page = await open(paths[0] as string);
      await untilStreams(1);
      await page.evaluate("window.isKept = true");
      await page.goto(`${server.url}/${at.org}/flows`);
      await untilStreams(0);
      await change("seen-on-return");
      // page.goBack() waits for a load, which a kept page does not have.
      await page.evaluate("history.back()");
      await shows(page, "seen-on-return");
      assert.is(await page.evaluate("window.isKept"), true);
      await change("seen-after-return");
      await shows(page, "seen-after-return");
      await untilStreams(1);
    });
  } finally {
    await keeping.close();
    await server.stop();
  }
});

inBrowser("when one page signs out, the stream ends and the others lead to the login", async () => {
  const { server, untilStreams } = await startCounted();
  try {
    const { user, paths } = await world(server);
    await as({ server, user }, async ({ open }) => {
      const [one, two] = [await open(paths[0] as string, { hasClock: true }), await open(paths[1] as string)];
      await untilStreams(1);
      await two.goto(`${server.url}/account`);
      await two.getByRole("button", { name: "Sign out", exact: true }).click();
      await two.waitForURL(/login/);
      await untilStreams(0);
      // The first interval still knows of a heartbeat before.
      await one.clock.fastForward(30_000);
      await one.clock.fastForward(30_000);
      await one.waitForURL(/login\?next=/);
    });
  } finally {
    await server.stop();
  }
});

inBrowser("pages are live again after the server was restarted", async () => {
  const directory = mkdtempSync(join(tmpdir(), "assay-live-"));
  let { server, untilStreams } = await startCounted({ directory });
  try {
    const { at, user, paths, environments } = await world(server);
    await as({ server, user }, async ({ open }) => {
      const pages = await Promise.all(paths.slice(5).map((path) => open(path)));
      await untilStreams(1);
      const address = { host: "127.0.0.1", port: Number(new URL(server.url).port) };
      await server.stop();
      ({ server, untilStreams } = await startCounted({ directory, network: { address } }));
      const { report } = runningIn(server);
      for (const name of environments) report(at, name, [running("seen-after-restart", "2".repeat(64))]);
      await Promise.all(pages.map((page) => shows(page, "seen-after-restart")));
      await untilStreams(1);
    });
  } finally {
    await server.stop();
    rmSync(directory, { recursive: true, force: true });
  }
});

inBrowser("a browser without shared workers, or whose worker does not load, has a stream for each page", async () => {
  const { server, untilStreams } = await startCounted();
  try {
    const { user, paths, change } = await world(server);
    for (const script of [
      "delete globalThis.SharedWorker",
      "const Real = SharedWorker; SharedWorker = class extends Real { constructor() { super('/ui/missing.js') } }",
      "SharedWorker = class { constructor() { throw new DOMException('', 'SecurityError') } }",
    ])
      await as({ server, user }, async ({ context, open }) => {
        await context.addInitScript(script);
        const pages = [await open(paths[0] as string), await open(paths[5] as string)];
        await untilStreams(2);
        await change(`seen-alone-${script.length}`);
        await Promise.all(pages.map((page) => shows(page, `seen-alone-${script.length}`)));
        for (const page of pages) await page.close();
        await untilStreams(0);
      });
  } finally {
    await server.stop();
  }
});

inBrowser(
  "a page whose stream a proxy holds back reloads itself every half minute, and tries for a stream",
  async () => {
    const { server, untilStreams } = await startCounted();
    try {
      const { user, paths, change } = await world(server);
      await as({ server, user }, async ({ context, open }) => {
        // The requests of a shared worker cannot be held back, nor its time be changed.
        await context.addInitScript("delete globalThis.SharedWorker");
        await context.route(/\/live\?/, () => undefined);
        const page = await open(paths[0] as string, { hasClock: true });
        await change("seen-by-polling");
        await page.clock.fastForward(29_000);
        assert.is(await page.getByText("seen-by-polling").count(), 0);
        await page.clock.fastForward(1_000);
        await shows(page, "seen-by-polling");
        await context.unroute(/\/live\?/);
        await page.clock.fastForward(30_000);
        await page.clock.fastForward(1_000);
        await untilStreams(1);
        await change("seen-by-stream");
        await page.clock.fastForward(1_000);
        await shows(page, "seen-by-stream");
      });
    } finally {
      await server.stop();
    }
  },
);

inBrowser("of more pages than one stream follows the first are updated by it", async () => {
  const { server, untilStreams } = await startCounted();
  try {
    const { user, at, paths } = await world(server);
    const { environment, report } = runningIn(server);
    const names = Array.from({ length: 30 }, () => environment(at));
    await as({ server, user }, async ({ open }) => {
      const page = await open(paths[0] as string);
      await page.evaluate(`window.heard = {};
        window.ports = ${JSON.stringify(names)}.map((name) => {
          const { port } = new SharedWorker(document.getElementById("page").dataset.liveWorker);
          port.onmessage = ({ data }) => void (heard[name] ??= new Set()).add(data);
          port.postMessage(new URL("/live?org=${at.org}&environment=" + name, location.href).href);
          return port;
        })`);
      await until(page, "Object.keys(heard).length === 24");
      for (const name of names) report(at, name, []);
      await until(page, "Object.values(heard).every(({ size }) => size >= 2)");
      assert.equal(await page.evaluate("Object.keys(heard).sort()"), names.slice(0, 24).sort());
      await untilStreams(1);
    });
  } finally {
    await server.stop();
  }
});

test.run();
