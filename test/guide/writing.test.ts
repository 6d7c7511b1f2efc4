/** Follows the pages of the guide for people who write policies, templates, types and actions, block by block. */
import { suite } from "uvu";
import { findTool } from "../tools.ts";
import { WRITING_PAGES, openPage } from "./examples.ts";

const missing = ["curl", "sha256sum", "grep", "cut"].filter((program) => findTool(program) === null);
if (missing.length > 0) console.log(`skipped: the commands of the pages need ${missing.join(" and ")}`);

for (const topic of WRITING_PAGES) {
  const test = suite(`guide/${topic}`);
  const page = await openPage(topic);
  test.after(page.close);
  for (const { name, runsPrograms, follow } of page.steps)
    (runsPrograms && missing.length > 0 ? test.skip : test)(name, follow);
  test.run();
}
