/** People of the story with the web interface open in Chromium. */
import type { BrowserContext, BrowserContextOptions, Page } from "playwright-core";
import type { Test } from "uvu";
import * as assert from "uvu/assert";
import type { PhotographedPage } from "../screenshots/pages.ts";
import { startStoryServer } from "../story/server.ts";
import type { StoryServer } from "../story/server.ts";
import { ADMIN } from "../story/story.ts";
import { createBrowser, PASSWORD } from "../web/browser.ts";
import { browser, STEP_TIMEOUT_MS } from "./chromium.ts";

export type Person = {
  page: Page;
  /** Clicks a link or button by its name; each counts. */
  click(role: "link" | "button", name: string | RegExp): Promise<void>;
  clicks(): number;
  /** The browser may complain about what a test does on purpose. */
  expectComplaints(pattern: RegExp): void;
};

type PersonOptions = BrowserContextOptions & { path?: string; hasStoryClock?: boolean };

/** Tells the story before the tests of a suite, and lets people of it look. */
export function givePeople(test: Test) {
  let told: StoryServer;
  const cookies = new Map<string, string>();
  test.before(async () => void (told = await startStoryServer()));
  test.after(() => told.server.stop());

  async function cookieOf(user: string): Promise<string> {
    if (!cookies.has(user)) {
      const outside = createBrowser(told.server.url);
      await outside.login(user, PASSWORD);
      cookies.set(user, outside.cookies.get("assay") ?? "");
    }
    return cookies.get(user) as string;
  }

  /** Reads from the API as the administrator. */
  const read = async (path: string): Promise<any> =>
    (await told.server.call("GET", path, { key: told.story.keys.get(ADMIN) as string })).body;

  return {
    told: (): StoryServer => told,
    /** Whoever signed in again has another session. */
    forgetSession: (user: string): void => void cookies.delete(user),
    read,
    /** The address of a page of the story. */
    addressOf: async ({ path }: Pick<PhotographedPage, "path">): Promise<string> =>
      `${told.server.url}${typeof path === "string" ? path : await path(read)}`,
    /**
     * Opens the overview as a person, and checks at the end that the browser had nothing to complain about.
     * `hasStoryClock`: the time of the browser stands at the end of the story.
     */
    async as(
      user: string,
      work: (person: Person) => Promise<void>,
      { path = "/acme", hasStoryClock = false, ...options }: PersonOptions = {},
    ): Promise<void> {
      const { server, story } = told;
      server.clock.at = story.now;
      const context = await browser.newContext({
        viewport: { width: 1280, height: 800 },
        reducedMotion: "reduce",
        ...options,
      });
      try {
        context.setDefaultTimeout(STEP_TIMEOUT_MS);
        if (hasStoryClock) await context.clock.setFixedTime(story.now * 1000);
        await context.addCookies([
          { name: "assay", value: await cookieOf(user), url: server.url, httpOnly: true, sameSite: "Lax" },
        ]);
        const complaints = listen(context, server.url);
        const page = await context.newPage();
        let count = 0;
        let expected: RegExp | null = null;
        await page.goto(`${server.url}${path}`);
        await work({
          page,
          async click(role, name) {
            count++;
            await page.getByRole(role, { name }).first().click();
            await page.waitForLoadState("load");
          },
          clicks: () => count,
          expectComplaints: (pattern) => void (expected = pattern),
        });
        assert.equal(
          complaints.filter((text) => !expected?.test(text)),
          [],
        );
      } finally {
        await context.close();
      }
    },
  };
}

/** Errors of the console and of scripts, violations of the policy, and requests to other hosts, in any tab. */
function listen(context: BrowserContext, origin: string): string[] {
  const complaints: string[] = [];
  context.on("weberror", (error) => complaints.push(String(error.error())));
  context.on("dialog", (dialog) => {
    complaints.push(`a dialog says ${dialog.message()}`);
    void dialog.dismiss();
  });
  context.on("request", (request) => {
    if (!request.url().startsWith(origin) && !/^(?:data|blob|about):/.test(request.url()))
      complaints.push(`asks ${request.url()}`);
  });
  context.on("console", (message) => {
    const isAboutStatus = message.text().startsWith("Failed to load resource: the server responded");
    // A fixed clock is a script, which the sandbox of a preview refuses as it refuses every script.
    const isAboutClock = message.text().startsWith("Blocked script execution") && /\/evidence\?/.test(message.text());
    if (["error", "warning"].includes(message.type()) && !isAboutStatus && !isAboutClock)
      complaints.push(message.text());
  });
  return complaints;
}
