/**
 * Photographs every page of the story in Chromium into .build/screenshots, with an index page:
 *
 *     node test/screenshots/main.ts [REGEXP] [--only MODE,MODE] [--axe] [--large] [--no-story-rebuild]
 *
 * REGEXP selects pages by their name in pages.ts; MODES below has the widths and themes, of which `--only` selects
 * some. `--large` adds lists of 10,000 rows, which take minutes to write. `--no-story-rebuild` starts from the
 * story of the previous run, which saves some seconds. `--axe` prints what axe-core finds. Pages that answer an error
 * are listed at the end; so are pages that are wider than their window, and what the browser's console complains
 * about. The run fails if there is any of these.
 */
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { chromium } from "playwright-core";
import { buildClient } from "../../bin/client.ts";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { EXECUTABLE, FLAGS, STEP_TIMEOUT_MS } from "../integration/chromium.ts";
import { saveStory, startSavedStory, startStoryServer } from "../story/server.ts";
import type { StoryServer } from "../story/server.ts";
import { ADMIN } from "../story/story.ts";
import { PASSWORD, createBrowser } from "../web/browser.ts";
import { axeViolations } from "./axe.ts";
import { PAGES, PRINTED } from "./pages.ts";
import type { PhotographedPage } from "./pages.ts";

const BUILD = join(import.meta.dirname, "..", "..", ".build");
const SCREENSHOTS = join(BUILD, "screenshots");
const STORY = join(BUILD, "story");

/** How pages are looked at. `theme`: chosen in this browser (src/web/page/preferences.ts). */
const MODES: Readonly<Record<string, BrowserContextOptions & { theme?: string }>> = {
  light: { viewport: { width: 1280, height: 800 }, colorScheme: "light" },
  dark: { viewport: { width: 1280, height: 800 }, colorScheme: "dark" },
  phone: { viewport: { width: 390, height: 844 }, colorScheme: "light", hasTouch: true },
  /** A sheet of A4, of pages that people print. */
  print: { viewport: { width: 794, height: 1123 }, colorScheme: "light" },
  tablet: { viewport: { width: 768, height: 1024 }, colorScheme: "light", hasTouch: true },
  notebook: { viewport: { width: 1024, height: 768 }, colorScheme: "light" },
  wide: { viewport: { width: 2560, height: 1200 }, colorScheme: "light" },
  ...Object.fromEntries(
    ["light-high-contrast", "dark-high-contrast", "light-colorblind", "dark-colorblind"].map((theme) => [
      theme,
      { viewport: { width: 1280, height: 800 }, theme },
    ]),
  ),
};
/** Without `--only`; `--axe` checks the other modes, too, and photographs them only if they are named. */
const PHOTOGRAPHED = ["light", "dark", "phone", "print"];
/** Lists of 10,000 rows are cut: a taller picture is more than Chromium can make. */
const MAX_HEIGHT = 10_000;

/** What looks like a missing page is the page itself. */
const isErrorPage = ({ name }: PhotographedPage): boolean => name.startsWith("error-");

type Findings = { missing: string[]; complaints: string[]; overflows: string[]; violations: string[] };

/** Seconds before the end of the story at which its people have signed in. */
const SIGNED_IN_S = 120;

/** A server without users, on which nobody knows the token for the first of them. */
const startEmptyServer = (): Promise<TestServer> =>
  startServer({ logins: { setup: { file: "", newToken: null, isToken: () => false, remove: () => {} } } });

/** Session cookies by user; each user signs in once. */
function createSessions({ server, story }: StoryServer) {
  const cookies = new Map<string, string>();
  return async (user: string): Promise<string> => {
    if (!cookies.has(user)) {
      server.clock.at = story.now - SIGNED_IN_S;
      const browser = createBrowser(server.url);
      await browser.login(user, PASSWORD);
      const cookie = browser.cookies.get("assay");
      if (cookie === undefined) throw new Error(`'${user}' could not sign in`);
      cookies.set(user, cookie);
    }
    return cookies.get(user) as string;
  };
}

async function capture(page: Page, file: string): Promise<void> {
  const [width, height] = await page.evaluate<[number, number]>(
    "[document.documentElement.clientWidth, document.documentElement.scrollHeight]",
  );
  await page.screenshot({
    path: file,
    fullPage: true,
    animations: "disabled",
    clip: { x: 0, y: 0, width, height: Math.min(height, MAX_HEIGHT) },
  });
}

/** What sticks out of the window, if the page can be scrolled to the side. */
const findOverflow = (page: Page): Promise<string | null> =>
  page.evaluate(`(() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return null;
    const all = [...document.querySelectorAll("body *")];
    const wide = all.filter((one) => one.getBoundingClientRect().right > width + 1);
    return (wide.at(-1)?.outerHTML ?? "the page").slice(0, 160);
  })()`);

async function run(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      only: { type: "string" },
      axe: { type: "boolean", default: false },
      large: { type: "boolean", default: false },
      "no-story-rebuild": { type: "boolean", default: false },
    },
  });
  const wanted = new RegExp(positionals[0] ?? "");
  const pages = PAGES.filter(({ name, isLarge = false }) => wanted.test(name) && (values.large || !isLarge));
  const modes = values.only?.split(",") ?? (values.axe ? Object.keys(MODES) : PHOTOGRAPHED);
  for (const mode of modes) if (!(mode in MODES)) throw new Error(`--only takes ${Object.keys(MODES)}, not '${mode}'`);
  if (pages.length === 0) throw new Error(`No page in test/screenshots/pages.ts matches '${positionals[0]}'`);
  await buildClient(join(import.meta.dirname, "..", ".."));
  const directory = values.large ? `${STORY}-large` : STORY;
  const saved = values["no-story-rebuild"] ? await startSavedStory(directory) : null;
  const told = saved ?? (await startStoryServer({ large: values.large }));
  if (!saved) saveStory(told, directory);
  const empty = await startEmptyServer();
  const browser = await chromium.launch({ executablePath: EXECUTABLE, args: FLAGS });
  const cookieOf = createSessions(told);
  const findings: Findings = { missing: [], complaints: [], overflows: [], violations: [] };
  try {
    mkdirSync(SCREENSHOTS, { recursive: true });
    const session = { told, empty, cookieOf, browser, pages, axe: values.axe, findings };
    for (const mode of modes)
      await photograph({ ...session, mode, isPictured: values.only !== undefined || PHOTOGRAPHED.includes(mode) });
  } finally {
    await browser.close();
    await empty.stop();
    await told.server.stop();
  }
  writeIndex();
  const sections = {
    "answered with an error": findings.missing,
    console: findings.complaints,
    "wider than the window": findings.overflows,
    axe: findings.violations,
  };
  for (const [title, lines] of Object.entries(sections)) {
    const different = [...new Set(lines)];
    if (different.length > 0) console.log([`${title} (${different.length}):`, ...different].join("\n  "));
  }
  console.log(`${pages.length} pages: file://${join(SCREENSHOTS, "index.html")}`);
  if (Object.values(findings).some((found) => found.length > 0)) process.exitCode = 1;
}

type Session = {
  told: StoryServer;
  empty: TestServer;
  cookieOf: ReturnType<typeof createSessions>;
  browser: Browser;
  pages: readonly PhotographedPage[];
  mode: string;
  isPictured: boolean;
  axe: boolean;
  findings: Findings;
};

/** Photographs the pages in one mode. The clocks of server and browser stand at the end of the story. */
async function photograph(session: Session): Promise<void> {
  const { told, empty, cookieOf, browser, pages, mode, isPictured, axe, findings } = session;
  const { server, story } = told;
  const read = async (path: string): Promise<any> =>
    (await server.call("GET", path, { key: story.keys.get(ADMIN) as string })).body;
  const isPrint = mode === "print";
  const shown = pages.filter(({ name }) => !isPrint || PRINTED.test(name));
  for (const [user, theirs] of Map.groupBy(shown, ({ as }) => as ?? null)) {
    server.clock.at = story.now;
    const { theme, ...options } = MODES[mode] ?? {};
    const context = await browser.newContext({ ...options, reducedMotion: "reduce" });
    context.setDefaultTimeout(STEP_TIMEOUT_MS);
    await context.clock.setFixedTime(story.now * 1000);
    if (user !== null)
      await context.addCookies([
        { name: "assay", value: await cookieOf(user), url: server.url, httpOnly: true, sameSite: "Lax" },
      ]);
    if (theme !== undefined) await context.addCookies([{ name: "assay-theme", value: theme, url: server.url }]);
    const page = await context.newPage();
    if (isPrint) await page.emulateMedia({ media: "print" });
    let current = "";
    const complain = (text: string): void => void findings.complaints.push(`${current}: ${text}`);
    page.on("pageerror", (error) => complain(String(error)));
    page.on("console", (message) => {
      const isAboutStatus = message.text().startsWith("Failed to load resource: the server responded");
      // The fixed clock is a script, which the sandbox of a preview refuses as it refuses every script.
      const isAboutClock = message.text().startsWith("Blocked script execution") && current.startsWith("evidence-");
      if (["error", "warning"].includes(message.type()) && !isAboutStatus && !isAboutClock) complain(message.text());
    });
    for (const photographed of theirs) {
      current = `${photographed.name} ${mode}`;
      const path = typeof photographed.path === "string" ? photographed.path : await photographed.path(read);
      server.clock.at = story.now;
      const response = await page.goto(`${(photographed.isBefore ? empty : server).url}${path}`, { waitUntil: "load" });
      const status = response?.status() ?? 0;
      if (status >= 400 && !isErrorPage(photographed)) {
        findings.missing.push(`${photographed.name}: ${status} ${path}`);
        continue;
      }
      await photographed.step?.(page);
      const overflow = isPrint ? null : await findOverflow(page);
      if (overflow !== null) findings.overflows.push(`${current}: ${overflow}`);
      if (isPictured) await capture(page, join(SCREENSHOTS, `${photographed.name}-${mode}.png`));
      if (isPrint) await page.pdf({ path: join(SCREENSHOTS, `${photographed.name}.pdf`), preferCSSPageSize: true });
      if (axe) findings.violations.push(...(await axeViolations(page)).map((text) => `${current}: ${text}`));
    }
    await context.close();
  }
}

/** The index shows everything that has been photographed, also in earlier runs. */
function writeIndex(): void {
  const files = new Set(readdirSync(SCREENSHOTS));
  const rows = PAGES.flatMap(({ name }) => {
    const pictures = Object.keys(MODES).filter((mode) => files.has(`${name}-${mode}.png`));
    if (pictures.length === 0) return [];
    const cells = pictures.map((mode) => {
      const file = `${name}-${mode}.png`;
      return `<a href="${file}"><img src="${file}" alt="${name}, ${mode}" loading="lazy" class="${mode}"></a>`;
    });
    return [`<section id="${name}"><h2>${name}</h2>${cells.join("")}</section>`];
  });
  const style =
    "body{font:14px sans-serif;margin:24px}section{margin-bottom:32px}a{display:inline-block;margin-right:16px;" +
    "vertical-align:top}img{border:1px solid #888;max-height:640px;object-fit:cover;object-position:top}" +
    ".light,.dark{width:600px}.phone{width:220px}.print,.tablet{width:400px}.notebook{width:500px}.wide{width:900px}";
  const title = "Pages of the story";
  writeFileSync(
    join(SCREENSHOTS, "index.html"),
    `<!doctype html><html lang="en"><meta charset="utf-8"><title>${title}</title><style>${style}</style>` +
      `<h1>${title}</h1>${rows.join("\n")}</html>\n`,
  );
}

await run();
