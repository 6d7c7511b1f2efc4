/**
 * The frame of the pages of the story in Chromium: a step that replaces content without a new document shows what a
 * full load of the same address shows, and keeps the place of the reader.
 */
import type { Page } from "playwright-core";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { PAGES } from "../screenshots/pages.ts";
import { ADMIN } from "../story/story.ts";
import { inChromium } from "./chromium.ts";
import { givePeople } from "./people.ts";

const test = suite("integration/frame");
const inBrowser = inChromium(test);
const { told, as, addressOf } = givePeople(test);

/** The pages that the administrator sees. */
const pages = PAGES.filter(({ as: user, isLarge = false }) => user === ADMIN && !isLarge);

/**
 * Functions of the page under test. `formAddress` is where a form leads as it stands, and `steps` lists the addresses
 * of links and filter forms that stay on the path of the page.
 */
const IN_PAGE = `
const formAddress = (form) => {
  const address = new URL(form.action);
  address.search = new URLSearchParams(new FormData(form, form.querySelector("button[type=submit]"))).toString();
  return address.href;
};
// Those that only add to a list are left out, and bars of charts, which load their page.
const links = () => [...document.querySelectorAll("#frame a[href]:not([download], [data-hx-swap], svg *)")];
// One whose fields must be filled in first is no step yet.
const forms = () => [...document.querySelectorAll("#frame form[method=get]:not([data-hx-boost=false])")]
  .filter((form) => form.checkValidity());
const steps = () => [...links().map(({ href }) => href), ...forms().map(formAddress)]
  .map((address) => new URL(address))
  .filter(({ pathname, search, hash }) => pathname === location.pathname && search !== location.search && hash === "")
  .map(({ href }) => href);
`;

/** Follows the link or submits the form that leads to an address; returns "swapped" once the page shows what came. */
const follow = (address: string): string => `(() => { ${IN_PAGE}
  const address = ${JSON.stringify(address)};
  const link = links().find(({ href }) => href === address);
  const form = forms().find((one) => formAddress(one) === address);
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

type Compared = { swapped: number; problems: string[] };
type Shown = { title: string; address: string; html: string };

/** Sets the clock of the server, which goes on with every request, to the end of the story. */
const standStill = (): void => {
  told().server.clock.at = told().story.now;
};

/** Where two texts begin to differ, for a message. */
function difference(one: string, other: string): string {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at++;
  const around = (text: string): string => text.slice(Math.max(0, at - 80), at + 80);
  return `...${around(one)}... instead of ...${around(other)}...`;
}

/** One step of each kind: of a path with a set of parameters and a tab. Other values take the same way. */
function kindOf(step: string): string {
  const { pathname, searchParams } = new URL(step);
  const parameters = [...searchParams].map(([name, value]) =>
    /^(?:ask|tab|view)$/.test(name) ? `${name}=${value}` : name,
  );
  return [pathname, ...parameters.sort()].join(" ");
}

/** The steps of a page that are of a kind not in `known`, which this adds. */
async function newSteps(page: Page, known: Set<string>): Promise<string[]> {
  const steps = (await page.evaluate(`(() => { ${IN_PAGE} return steps(); })()`)) as string[];
  return steps.filter((step) => {
    const kind = kindOf(step);
    return !known.has(kind) && known.add(kind);
  });
}

/** Takes each new kind of step of a page in place, compares it with a full load, and returns what differs. */
async function compareSteps(
  page: Page,
  from: { name: string; address: string },
  known: Set<string>,
): Promise<Compared> {
  const compared: Compared = { swapped: 0, problems: [] };
  await page.goto(from.address);
  if ((await page.locator("#frame").count()) === 0) return compared;
  for (const step of await newSteps(page, known)) {
    const way = `${from.name} to ${new URL(step).search}`;
    if (page.url() !== from.address) await page.goto(from.address);
    standStill();
    const outcome = await page.evaluate(follow(step));
    if (outcome !== "swapped") {
      compared.problems.push(`${way} ${outcome}`);
      continue;
    }
    compared.swapped++;
    const inPlace = (await page.evaluate(SHOWN)) as Shown;
    standStill();
    await page.goto(step);
    const loaded = (await page.evaluate(SHOWN)) as Shown;
    for (const part of ["title", "address", "html"] as const)
      if (inPlace[part] !== loaded[part])
        compared.problems.push(`${way}: ${part} ${difference(inPlace[part], loaded[part])}`);
  }
  return compared;
}

inBrowser("a step that stays on its path shows what a full load of its address shows", async () => {
  const known = new Set<string>();
  const problems: string[] = [];
  let swapped = 0;
  // Each page has a tab of its own: one that has seen a hundred pages takes gigabytes and seconds.
  for (const { name, ...photographed } of pages)
    await as(
      ADMIN,
      async ({ page }) => {
        const compared = await compareSteps(page, { name, address: await addressOf(photographed) }, known);
        problems.push(...compared.problems);
        swapped += compared.swapped;
      },
      { hasStoryClock: true },
    );
  assert.equal(problems, []);
  assert.ok(swapped > 100, `${swapped} steps`);
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

inBrowser("nothing overflows at any width; content, navigation and drawers have the widths that fit", () =>
  as(ADMIN, async ({ page }) => {
    const problems: string[] = [];
    for (const photographed of pages) {
      await page.goto(await addressOf(photographed));
      if ((await page.locator("#frame").count()) === 0) continue;
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 800 });
        const layout = (await page.evaluate(LAYOUT)) as Layout;
        for (const problem of problemsOf(layout, width))
          problems.push(`${photographed.name} at ${width} px: ${problem}`);
      }
    }
    assert.equal(problems, []);
  }),
);

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
