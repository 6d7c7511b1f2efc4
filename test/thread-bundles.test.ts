/** The directory of bundles, which several runs of the suite in one checkout share. */
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { makeOnce } from "./thread-bundles.ts";

const test = suite("thread-bundles");
let place: string;
test.before.each(() => void (place = mkdtempSync(join(tmpdir(), "assay-bundles-"))));
test.after.each(() => rmSync(place, { recursive: true, force: true }));

/** A run that is between two files of its build until the test lets it go on. */
function run(name: string, content: string) {
  const going = Promise.withResolvers<void>();
  const made = makeOnce(place, name, async (directory) => {
    writeFileSync(join(directory, "first"), content);
    await going.promise;
    writeFileSync(join(directory, "last"), content);
  });
  return { made, goOn: () => going.resolve() };
}
const read = (name: string): string[] => ["first", "last"].map((file) => readFileSync(join(place, name, file), "utf8"));

test("two runs that build at the same time have one whole directory", async () => {
  const [one, two] = [run("sources", "one"), run("sources", "two")];
  two.goOn();
  assert.is(await two.made, join(place, "sources"));
  assert.equal(read("sources"), ["two", "two"]);
  one.goOn();
  assert.is(await one.made, join(place, "sources"));
  assert.equal(read("sources"), ["two", "two"], "a directory from which threads start does not change");
  assert.equal(readdirSync(place), ["sources"]);
});

test("a run after changes of the sources leaves the directory of the one before", async () => {
  for (const name of ["before", "after"]) {
    const { made, goOn } = run(name, name);
    goOn();
    await made;
  }
  assert.equal(read("before"), ["before", "before"]);
  assert.equal(read("after"), ["after", "after"]);
});

test("what is there is not built again, and what no run used for a day is removed", async () => {
  const twoDaysAgo = Date.now() / 1_000 - 2 * 86_400;
  for (const name of ["sources", "old", "partial-old"]) {
    mkdirSync(join(place, name));
    utimesSync(join(place, name), twoDaysAgo, twoDaysAgo);
  }
  await makeOnce(place, "sources", () => Promise.reject(new Error("built again")));
  assert.equal(readdirSync(place), ["sources"]);
});

test("a build that fails leaves no directory of that name", async () => {
  await makeOnce(place, "sources", () => Promise.reject(new Error("no"))).then(
    () => assert.unreachable(),
    (error: Error) => assert.is(error.message, "no"),
  );
  assert.not.ok(readdirSync(place).includes("sources"));
});

test.run();
