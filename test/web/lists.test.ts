/** What stands below a list of several pages. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pager } from "../../src/web/components/lists.ts";
import { visibleText } from "./browser.ts";

const test = suite("web/lists");

const PER_PAGE = 25;

/** The words of the way to other pages, from the number of pages and the page that is shown. */
function wordsOf(page: number, pages: number): string {
  const shown = pager(
    { here: ({ page: to }) => `?page=${to}`, query: new URLSearchParams() },
    { total: pages * PER_PAGE, page, per_page: PER_PAGE, page_count: pages },
  );
  return shown === null ? "" : visibleText(shown);
}

test("the way to other pages has the first, the last and the neighbours, and dots for two and more between", () => {
  for (const [page, pages, numbers] of [
    [1, 2, "1 2"],
    [1, 5, "1 2 3 4 5"],
    [1, 6, "1 2 3 … 6"],
    [5, 9, "1 2 3 4 5 6 7 8 9"],
    [6, 11, "1 … 4 5 6 7 8 … 11"],
    [11, 11, "1 … 9 10 11"],
  ] as const)
    assert.match(wordsOf(page, pages), `Previous ${numbers} Next`, `page ${page} of ${pages}`);
  assert.is(wordsOf(1, 1), "");
});

test.run();
