/**
 * The frame of the pages of the story in Chromium: a step that replaces content without a new document shows what a
 * full load of the same address shows, and keeps the place of the reader.
 */
import type { BrowserContext, Page } from "playwright-core";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { PAGES } from "../screenshots/pages.ts";
import { ADMIN } from "../story/story.ts";
import { patternOf } from "../web/crawl.ts";
import { inChromium } from "./chromium.ts";
import { givePeople } from "./people.ts";
import type { Person } from "./people.ts";

const test = suite("integration/frame");
const inBrowser = inChromium(test);
const { told, as, addressOf } = givePeople(test);

/** The pages that the administrator sees. */
const pages = PAGES.filter(({ as: user, isLarge = false }) => user === ADMIN && !isLarge);

/** Their names by their addresses. Pages on which something is opened have the address of another. */
async function namesByAddress(): Promise<Map<string, string>> {
  const names = new Map<string, string>();
  for (const photographed of pages) {
    const address = await addressOf(photographed);
    if (!names.has(address)) names.set(address, photographed.name);
  }
  return names;
}

/**
 * Functions of the page under test, for the document of an address: `linksOf` and `formsOf` list [element, where it
 * leads as it stands], `stepsOf` the addresses of those that stay on the path of the page.
 */
const IN_PAGE = `
// Those that only add to a list are left out, and bars of charts, which load their page.
const linksOf = (root, base) =>
  [...root.querySelectorAll("#frame a[href]:not([download], [data-hx-swap], svg *)")]
    .map((link) => [link, new URL(link.getAttribute("href"), base).href]);
// One whose fields must be filled in first is no step yet.
const formsOf = (root, base) =>
  [...root.querySelectorAll("#frame form[method=get]:not([data-hx-boost=false])")]
    .filter((form) => form.checkValidity())
    .map((form) => {
      const address = new URL(form.getAttribute("action") ?? "", base);
      const fields = new FormData(form, form.querySelector("button[type=submit]"));
      address.search = new URLSearchParams(fields).toString();
      return [form, address.href];
    });
const stepsOf = (root, base) => {
  const { pathname, search } = new URL(base);
  return [...linksOf(root, base), ...formsOf(root, base)]
    .map(([, address]) => new URL(address))
    .filter((step) => step.pathname === pathname && step.search !== search && step.hash === "")
    .map(({ href }) => href);
};
`;

/** Lists the steps of the page with an address, without opening it. */
const stepsAt = (address: string): string => `(async () => { ${IN_PAGE}
  const response = await fetch(${JSON.stringify(address)}, { headers: { Accept: "text/html" } });
  const root = new DOMParser().parseFromString(await response.text(), "text/html");
  return { address: response.url, steps: stepsOf(root, response.url) };
})()`;

/** Follows the link or submits the form that leads to an address; returns "swapped" once the page shows what came. */
const follow = (address: string): string => `(() => { ${IN_PAGE}
  const address = ${JSON.stringify(address)};
  const leadsThere = ([, to]) => to === address;
  const [link] = linksOf(document, location.href).find(leadsThere) ?? [];
  const [form] = formsOf(document, location.href).find(leadsThere) ?? [];
  const { promise, resolve } = Promise.withResolvers();
  // The last listener knows whether scripts have taken the step over.
  for (const type of ["click", "submit"])
    window.addEventListener(type, (event) => {
      if (event.defaultPrevented) return;
      if (type === "click" && form && !link) return;
      event.preventDefault();
      resolve("loads a new document");
    }, { once: true });
  document.addEventListener("htmx:finally:request", ({ detail }) => resolve(detail.ctx.status), { once: true });
  if (link) link.click();
  else if (form) form.requestSubmit(form.querySelector("button[type=submit]"));
  else resolve("is gone");
  return promise;
})()`;

/**
 * What a page shows, but for what differs in every answer: tokens, the time on the head for paper, and the end of a
 * slider, which is now. Editors are left out, because scripts put them into a page when they come.
 */
const SHOWN = `(() => {
  const frame = document.getElementById("frame").cloneNode(true);
  for (const token of frame.querySelectorAll("input[name=csrf]")) token.setAttribute("value", "");
  for (const slider of frame.querySelectorAll("input[type=range]"))
    for (const name of ["max", "step"]) slider.removeAttribute(name);
  for (const editor of frame.querySelectorAll("form[data-editor]")) editor.remove();
  for (const time of frame.querySelectorAll(".paper time")) time.textContent = "";
  return {
    title: document.title,
    address: location.href,
    html: frame.outerHTML,
  };
})()`;

type Shown = { title: string; address: string; html: string };

// Tabs ask at the same time, and pages show how long ago something was.
test.before(() => void (told().server.clock.step = 0));

/** Where two texts begin to differ, for a message. */
function difference(one: string, other: string): string {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at++;
  const around = (text: string): string => text.slice(Math.max(0, at - 80), at + 80);
  return `...${around(one)}... instead of ...${around(other)}...`;
}

/**
 * One step of each kind: in an organization, of a page with a set of parameters and a tab. Other records and values
 * take the same way. The organizations differ in what they have: the usual, nothing, and names and texts of every kind.
 */
function kindOf(step: string): string {
  const { pathname, searchParams } = new URL(step);
  const parameters = [...searchParams].map(([name, value]) =>
    /^(?:ask|tab|view)$/.test(name) ? `${name}=${value}` : name,
  );
  return [pathname.split("/")[1], patternOf(pathname), ...parameters.sort()].join(" ");
}

type Walk = { name: string; address: string; steps: string[] };

/** The pages of the story with the first step of each kind that they have. */
async function planWalks(page: Page): Promise<Walk[]> {
  const walks: Walk[] = [];
  const known = new Set<string>();
  for (const [from, name] of await namesByAddress()) {
    const { address, steps } = (await page.evaluate(stepsAt(from))) as { address: string; steps: string[] };
    const isNew = (step: string): boolean => !known.has(kindOf(step)) && known.add(kindOf(step)).size > 0;
    walks.push({ name, address, steps: steps.filter(isNew) });
  }
  return walks.filter(({ steps }) => steps.length > 0);
}

type Tabs = [tab: Page, beside: Page];
/** Browsers at once: while one waits for the server, others need the processors. */
const BROWSERS = 3;
/** A tab that has seen a hundred pages takes gigabytes and seconds; a new one takes as long as a page. */
const ITEMS_OF_TABS = 8;

/** Has each item looked at in one of a few browsers, in two tabs; returns the problems of all. */
async function inTabs<Item>(
  items: Iterable<Item>,
  findProblems: (tabs: Tabs, item: Item) => Promise<string[]>,
): Promise<string[]> {
  const problems: string[] = [];
  const left = [...items];
  const lookAtSome = async (context: BrowserContext): Promise<void> => {
    const tabs: Tabs = [await context.newPage(), await context.newPage()];
    for (const item of left.splice(0, ITEMS_OF_TABS)) problems.push(...(await findProblems(tabs, item)));
    for (const tab of tabs) await tab.close();
  };
  const look = async ({ page }: Person): Promise<void> => {
    while (left.length > 0) await lookAtSome(page.context());
  };
  await Promise.all(Array.from({ length: BROWSERS }, () => as(ADMIN, look, { hasStoryClock: true })));
  return problems;
}

/** Loads an address in a tab. Scripts have run then; pictures and fonts may still be on their way. */
const load = (page: Page, address: string) => page.goto(address, { waitUntil: "domcontentloaded" });

/** Takes the steps of a page in place, compares each with a full load in the other tab, and returns what differs. */
async function compareSteps([tab, beside]: Tabs, { name, address, steps }: Walk): Promise<string[]> {
  const problems: string[] = [];
  for (const step of steps) {
    const way = `${name} to ${new URL(step).search}`;
    await load(tab, address);
    const outcome = await tab.evaluate(follow(step));
    if (outcome !== "swapped") {
      problems.push(`${way} ${outcome}`);
      continue;
    }
    const inPlace = (await tab.evaluate(SHOWN)) as Shown;
    await load(beside, step);
    const loaded = (await beside.evaluate(SHOWN)) as Shown;
    for (const part of ["title", "address", "html"] as const)
      if (inPlace[part] !== loaded[part]) problems.push(`${way}: ${part} ${difference(inPlace[part], loaded[part])}`);
  }
  return problems;
}

inBrowser("a step that stays on its path shows what a full load of its address shows", async () => {
  let walks: Walk[] = [];
  await as(ADMIN, async ({ page }) => void (walks = await planWalks(page)));
  const count = walks.flatMap(({ steps }) => steps).length;
  assert.ok(count > 300, `${count} steps`);
  assert.equal(await inTabs(walks, compareSteps), []);
});

/** Where the reader is: how far the page is scrolled, whether its heading is covered, and what has the focus. */
const PLACE = `(() => {
  const { activeElement: active, scrollingElement: { scrollTop } } = document;
  const isCovered = (element) => element.getBoundingClientRect().top < document.querySelector(".top").offsetHeight;
  return {
    scrollTop,
    isHeadingCovered: isCovered(document.querySelector("h1")),
    focus: active.id || active.className || active.localName,
    text: active.textContent.trim().slice(0, 40),
  };
})()`;
/** Whether the row of the drawer is in view. */
const IS_ROW_SEEN = `(() => {
  const { top, bottom } = document.querySelector("tr.sel").getBoundingClientRect();
  return top >= document.querySelector(".top").offsetHeight && bottom <= innerHeight;
})()`;
type Place = { scrollTop: number; isHeadingCovered: boolean; focus: string; text: string };

/** Clicks the link with the name, and waits for what it brings. */
async function step(page: Page, name: string | RegExp, root = "#main"): Promise<Place> {
  const link = page.locator(root).getByRole("link", { name }).first();
  const address = new URL((await link.getAttribute("href")) as string, page.url()).href;
  assert.is(await page.evaluate(follow(address)), "swapped");
  return (await page.evaluate(PLACE)) as Place;
}

inBrowser("a step shows the page from its top, and the focus is in what came", () =>
  as(
    ADMIN,
    async ({ page }) => {
      await page.evaluate("window.scrollTo(0, 10_000)");
      const { isHeadingCovered, focus, scrollTop } = await step(page, /^Older/);
      assert.is(scrollTop, 0);
      assert.is(isHeadingCovered, false);
      assert.is(focus, "main");
    },
    { path: "/acme/attestations", viewport: { width: 1280, height: 500 } },
  ),
);

inBrowser("a drawer opens beside its row, takes the focus, and gives it back to the row when it closes", () =>
  as(
    ADMIN,
    async ({ page }) => {
      await page.getByRole("link", { name: "license-scan" }).first().scrollIntoViewIfNeeded();
      const { scrollTop } = (await page.evaluate(PLACE)) as Place;
      assert.ok(scrollTop > 0);
      const opened = await step(page, "license-scan");
      assert.is(opened.focus, "drawer");
      assert.ok(opened.scrollTop > 0);
      assert.is(await page.evaluate(IS_ROW_SEEN), true);
      const next = await step(page, "Previous attestation", ".drawer");
      assert.is(next.focus, "drawer");
      const closed = await step(page, "Close", ".drawer");
      assert.is(closed.text, "sbom");
      assert.is(closed.focus, "t-name");
      assert.is(closed.isHeadingCovered, true, "the list stays where it was");
    },
    { path: "/acme/flows/backend-api/trails/release-2.41.0", viewport: { width: 1280, height: 500 } },
  ),
);

/** Widths in CSS pixels, on both sides of every width at which the layout changes. */
const WIDTHS = [320, 390, 600, 768, 820, 1024, 1100, 1199, 1280, 1600, 2560];
const MAX_CONTENT_WIDTH = 1400;

/** What sticks out at the right, and where the parts of the page are. */
const LAYOUT = `(() => {
  const width = document.documentElement.clientWidth;
  const boxOf = (selector) => {
    const box = document.querySelector(selector)?.getBoundingClientRect();
    return box && box.width > 0 ? { left: box.left, right: box.right } : null;
  };
  const overflow = document.documentElement.scrollWidth - width;
  const isOutside = (element) => element.getBoundingClientRect().right > width + 1;
  const culprit = overflow > 0 ? [...document.querySelectorAll("body *")].findLast(isOutside) : null;
  return {
    overflow: culprit ? overflow + " px by " + culprit.outerHTML.slice(0, 120) : "",
    side: boxOf(".side"),
    main: boxOf("#main"),
    around: boxOf("#main") && document.querySelector("#main").parentElement.getBoundingClientRect().toJSON(),
    drawer: boxOf(".drawer"),
    scrim: boxOf(".scrim"),
  };
})()`;
type Box = { left: number; right: number };
type Layout = { overflow: string; [part: string]: Box | string | null };

/** What is wrong with a layout at a width of the window. */
function problemsOf(layout: Layout, width: number): string[] {
  const { overflow, side, main, drawer, scrim, around } = layout as { overflow: string } & Record<string, Box | null>;
  const problems = overflow === "" ? [] : [`overflows by ${overflow}`];
  if (main && around && !drawer) {
    if (main.right - main.left > MAX_CONTENT_WIDTH) problems.push("the content is too wide");
    if (Math.abs(main.left - around.left - (around.right - main.right)) > 1) problems.push("it is not in the middle");
  }
  const navigation = side ? side.right - side.left : 0;
  const expected = width <= 760 ? 0 : width <= 1100 ? 88 : 224;
  if (navigation !== expected) problems.push(`the navigation takes ${navigation} px`);
  if (!drawer || !main) return problems;
  if (width >= 1200 && drawer.left < main.right) problems.push("the drawer covers the page");
  if (width < 1200 && width > 760 && (scrim?.left !== navigation || drawer.right !== width))
    problems.push("the drawer does not lie over a dimmed page");
  if (width <= 760 && (scrim !== null || drawer.left !== 0 || drawer.right !== width))
    problems.push("the drawer is not a sheet");
  return problems;
}

/** Looks at a page in every width. */
async function measure([tab]: Tabs, [address, name]: [string, string]): Promise<string[]> {
  const problems: string[] = [];
  await tab.goto(address);
  if ((await tab.locator("#frame").count()) === 0) return problems;
  for (const width of WIDTHS) {
    await tab.setViewportSize({ width, height: 800 });
    const layout = (await tab.evaluate(LAYOUT)) as Layout;
    problems.push(...problemsOf(layout, width).map((problem) => `${name} at ${width} px: ${problem}`));
  }
  return problems;
}

inBrowser("nothing overflows at any width; content, navigation and drawers have the widths that fit", async () => {
  assert.equal(await inTabs(await namesByAddress(), measure), []);
});

inBrowser("what lies beside an open drawer closes it", () =>
  as(
    ADMIN,
    async ({ page }) => {
      await step(page, "license-scan");
      await page.mouse.click(150, 400);
      await page.locator(".drawer").waitFor({ state: "detached" });
      assert.is(new URL(page.url()).search, "");
    },
    { path: "/acme/flows/backend-api/trails/release-2.41.0", viewport: { width: 1024, height: 800 } },
  ),
);

inBrowser("the navigation folds, stays so in this browser, and unfolds, without the page being loaded again", () =>
  as(ADMIN, async ({ page }) => {
    await page.evaluate("window.isKept = true; window.scrollTo(0, 200)");
    await page.getByRole("button", { name: "Collapse the navigation" }).click();
    await page.locator("#frame.app-rail").waitFor();
    assert.is(await page.evaluate("window.isKept"), true);
    assert.is(await page.evaluate("document.scrollingElement.scrollTop"), 200);
    await page.goto(`${told().server.url}/acme/flows`);
    const side = await page.locator(".side").boundingBox();
    assert.is(side?.width, 88);
    await page.getByRole("button", { name: "Expand the navigation" }).click();
    await page.locator("#frame:not(.app-rail)").waitFor();
  }),
);

test.run();
