/** The pages of the story as paper shows them, in Chromium. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { PAGES, PRINTED } from "../screenshots/pages.ts";
import type { PhotographedPage } from "../screenshots/pages.ts";
import { imageFingerprint } from "../../src/demo/acme/releases.ts";
import { ADMIN } from "../story/story.ts";
import { inChromium } from "./chromium.ts";
import { readPdfLines } from "./pdf-lines.ts";
import { givePeople } from "./people.ts";

const test = suite("integration/print");
const inBrowser = inChromium(test);
const { told, as, addressOf } = givePeople(test);

const pages = PAGES.filter(({ name, as: user }) => user === ADMIN && PRINTED.test(name));
/** A sheet of A4 between its margins, in CSS pixels. */
const SHEET = { width: 673, height: 994 };

/** What is wrong with the page on paper, a line each. */
const FAULTS = `(() => {
  const seen = (element) => element.checkVisibility() && element.getBoundingClientRect().width > 0;
  const all = (selector) => [...document.querySelectorAll("#frame " + selector)].filter(seen);
  const right = (element) => element.getBoundingClientRect().right;
  const isPast = (time) => right(time) > right(time.closest("td"));
  const isInPieces = (time) => time.getBoundingClientRect().height > 24;
  const isTooWide = (element) => right(element) > innerWidth + 1 && !element.closest("svg");
  const faults = {
    "to click": all(":is(nav:not(.pager), button, .btn, .tabs, input, select)"),
    "too wide": all("*").filter(isTooWide),
    "cut off": all("td time[title]").filter(isPast),
    "in pieces": all("td time[title]").filter(isInPieces),
    narrow: all("td").filter((cell) => cell.innerText !== "" && cell.offsetWidth < 24),
  };
  return Object.entries(faults).flatMap(([fault, elements]) =>
    elements.map((element) => fault + ": " + element.outerHTML.slice(0, 120)));
})()`;

inBrowser("paper has nothing to click, and shows every time whole and in one line", () =>
  as(
    ADMIN,
    async ({ page }) => {
      await page.emulateMedia({ media: "print" });
      const problems: string[] = [];
      for (const photographed of pages) {
        await page.goto(await addressOf(photographed));
        const faults = (await page.evaluate(FAULTS)) as string[];
        problems.push(...faults.slice(0, 3).map((fault) => `${photographed.name}: ${fault}`));
      }
      assert.ok(pages.length > 20);
      assert.equal(problems, []);
    },
    { viewport: SHEET },
  ),
);

const BACKEND = imageFingerprint("acme/backend-api:2.41.0");
/** The object in the head line, and the whole digest that its page shows. */
const HEADS: Readonly<Record<string, { object: string; identity: RegExp }>> = {
  trail: { object: "Flows / backend-api / release-2.41.0", identity: /^commit [0-9a-f]{40}/ },
  artifact: { object: "Artifacts / acme/backend-api:2.41.0", identity: new RegExp(`^sha256:${BACKEND}`) },
  control: { object: "Controls / SEC-REL-4", identity: /^SEC-REL-4/ },
  snapshot: { object: "Environments / production-eu / #213", identity: /^production-eu#213/ },
  why: { object: "Environments / production-eu / #213 / Why?", identity: new RegExp(`^sha256:${BACKEND}`) },
};
const PAGE_NUMBER = /^\d+ of \d+$/;
const ABSOLUTE_TIME = /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC/g;
/** How screens show a time: by how long ago it was, or in the zone of the reader. */
const OTHER_TIME = /\b(?:ago|just now|\d{4}-\d\d-\d\d \d\d:\d\d)\b/;
const utc = (seconds: number): string =>
  `${new Date(seconds * 1_000).toISOString().slice(0, 19).replace("T", " ")} UTC`;

inBrowser("a PDF has a head line, numbers its pages, and says every time in UTC", () =>
  as(
    ADMIN,
    async ({ page }) => {
      const printed = `Printed ${utc(told().story.now)} by Rita Mann`;
      for (const [name, { object, identity }] of Object.entries(HEADS)) {
        const url = new URL(await addressOf(PAGES.find((one) => one.name === name) as PhotographedPage));
        await page.goto(url.href);
        const sheets = readPdfLines(await page.pdf({ preferCSSPageSize: true }));
        assert.ok(sheets.length > 1, `${name} has several pages`);
        assert.equal(
          sheets.map((lines) => lines.filter((line) => PAGE_NUMBER.test(line))),
          sheets.map((_, index) => [`${index + 1} of ${sheets.length}`]),
          `numbers of the pages of ${name}`,
        );
        // Behind the two lines of the margin.
        const [head, ...rest] = (sheets[0]?.slice(2).join("") ?? "").split("State of ");
        assert.is(head, `acme / ${object}${printed}assay.test${url.pathname}${url.search}`);
        const below = rest.join("").replace(ABSOLUTE_TIME, "");
        assert.match(below, identity, `digest of ${name}`);
        const all = sheets.flat().join(" ");
        assert.not.match(all.replaceAll(ABSOLUTE_TIME, ""), OTHER_TIME, `times of ${name}`);
      }
    },
    { hasStoryClock: true, timezoneId: "Asia/Tokyo" },
  ),
);

/** The colours of text, of its page and of a sign. */
const COLOURS = `["#main", ".badge", ".card"].map((selector) => {
  const { color, backgroundColor, borderColor } = getComputedStyle(document.querySelector(selector));
  return [color, backgroundColor, borderColor].join(" ");
}).join()`;

inBrowser("a dark theme prints with the colours of the light one of its kind", () =>
  as(ADMIN, async ({ page }) => {
    await page.goto(`${told().server.url}/acme/environments/production-eu`);
    const coloursOf = async (theme: string, media: "print" | "screen"): Promise<unknown> => {
      await page.emulateMedia({ media });
      return page.evaluate(`document.documentElement.dataset.theme = "${theme}", ${COLOURS}`);
    };
    for (const kind of ["", "-high-contrast", "-colorblind"]) {
      const onPaper = await coloursOf(`dark${kind}`, "print");
      assert.equal(onPaper, await coloursOf(`light${kind}`, "print"), kind);
      assert.not.equal(onPaper, await coloursOf(`dark${kind}`, "screen"), kind);
    }
  }),
);

test.run();
