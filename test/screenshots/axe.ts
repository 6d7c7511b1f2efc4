/** Accessibility of a page that is open in Chromium, by axe-core. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";

const SOURCE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** WCAG 2.2 A and AA, and the good practice that axe-core knows besides. */
const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

type Found = { id: string; impact: string | null; help: string; nodes: { html: string; failureSummary?: string }[] };

/**
 * What axe-core objects to in the page, one line for each element; empty if nothing. The script comes in through the
 * debugger, so the page's Content-Security-Policy does not apply to it. Frames stay out: the only ones are previews of
 * evidence, whose sandbox gives them an origin that takes no messages.
 */
export async function axeViolations(page: Page): Promise<string[]> {
  await page.evaluate(SOURCE);
  const options = JSON.stringify({ runOnly: TAGS, resultTypes: ["violations"], iframes: false });
  const violations: Found[] = await page.evaluate(`axe.run(document, ${options}).then((result) => result.violations)`);
  const lines = violations.flatMap(({ id, impact, help, nodes }) =>
    nodes.map(({ html, failureSummary = "" }) => {
      const summary = failureSummary.split("\n").at(1)?.trim() ?? help;
      return `${id} (${impact ?? "unknown"}): ${html.slice(0, 160)}: ${summary}`;
    }),
  );
  // What lies below an open menu is as large as before when the menu closes.
  return lines.filter(
    (line) => !(line.startsWith("target-size ") && line.includes("because it is partially obscured")),
  );
}
