/** Which patterns match a path, and in which order. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createRouteTable } from "../../../src/http/routing/route-table.ts";

const test = suite("http/route-table");

const PATTERNS = [
  "/flows",
  "/flows/{org}",
  "/flows/{org}/new",
  "/flows/{org}/{name}",
  "/repos/{org}/{name*}",
  "/{org}/x",
];
const tableOf = (strict: boolean) =>
  createRouteTable(
    PATTERNS.map((pattern) => ({ pattern, value: pattern.length })),
    { strict },
  );
const strict = tableOf(true);
const lenient = tableOf(false);
const patterns = (table: typeof strict, path: string): string[] => table(path).map(({ pattern }) => pattern);

test("the more specific pattern comes first", () => {
  assert.equal(patterns(strict, "/flows/acme/new"), ["/flows/{org}/new", "/flows/{org}/{name}"]);
  assert.equal(patterns(strict, "/flows/x"), ["/flows/{org}", "/{org}/x"]);
});

test("a parameter takes one segment, and never an empty one", () => {
  assert.equal(patterns(strict, "/flows/acme"), ["/flows/{org}"]);
  assert.equal(patterns(strict, "/flows//web"), []);
  assert.equal(patterns(strict, "/flows/acme/web/more"), []);
});

test("a rest parameter takes all segments that follow, however many", () => {
  const path = `/repos/acme/${"group/".repeat(30)}web`;
  const [found] = strict(path);
  assert.equal(found?.params(), { org: "acme", name: `${"group/".repeat(30)}web` });
  assert.equal(patterns(strict, "/repos/acme"), []);
  assert.equal(patterns(strict, "/repos/acme/"), []);
});

test("parameters stay percent-encoded", () => {
  assert.equal(strict("/flows/a%2Fb/%zz")[0]?.params(), { org: "a%2Fb", name: "%zz" });
});

test("the case of a literal counts", () => {
  assert.equal(patterns(strict, "/FLOWS"), []);
  assert.equal(patterns(strict, "/FLOWS/x"), ["/{org}/x"]);
});

test("a slash at the end makes another path only in a strict table", () => {
  assert.equal(patterns(strict, "/flows/"), []);
  assert.equal(patterns(lenient, "/flows/"), ["/flows"]);
  assert.equal(patterns(lenient, "/flows/acme/web/"), ["/flows/{org}/{name}"]);
  assert.equal(patterns(lenient, "/flows//"), []);
});

test("all values of a pattern are found together", () => {
  const table = createRouteTable(
    [
      { pattern: "/a/{b}", value: "GET" },
      { pattern: "/c", value: "other" },
      { pattern: "/a/{b}", value: "PUT" },
    ],
    { strict: true },
  );
  assert.equal(
    table("/a/1").map(({ values }) => values),
    [["GET", "PUT"]],
  );
});

test("a path without a pattern, or without a slash, matches nothing", () => {
  for (const path of ["", "/", "//", "/nothing", "*", "/nothing/at/all/anywhere/here"])
    assert.equal(patterns(strict, path), []);
});

test.run();
