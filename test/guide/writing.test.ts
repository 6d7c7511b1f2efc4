/** Follows the pages of the guide for people who write policies, templates, types and actions, block by block. */
import { suite } from "uvu";
import { WRITING_PAGES, openPage } from "./examples.ts";

for (const topic of WRITING_PAGES) {
  const test = suite(`guide/${topic}`);
  const page = await openPage(topic);
  test.after(page.close);
  for (const { name, follow } of page.steps) test(name, follow);
  test.run();
}
