/** Every rule of the contract that code or a page cites exists, and every operation is in the contract. */
import { globSync } from "node:fs";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  PAGES,
  citationsIn,
  headings,
  misspeltIn,
  numbersOf,
  operationLines,
  operationRows,
  ownCitationsIn,
  pathOf,
  tableOfOwnOperations,
} from "./contract.ts";
import type { Citation } from "./contract.ts";
import { readDocument, withPart } from "./documentation.ts";
import { matchesFile } from "./golden.ts";
import { ROOT } from "./source.ts";

const test = suite("rules/contract-references");

/** Of 535 citations when this test was written: it must not pass because it finds none. */
const MIN_CITATIONS = 500;

/** What describes the spelling of citations, with wrong ones. */
const ABOUT_CITATIONS = ["test/rules/contract.ts", "test/rules/contract-references.test.ts"];

const code = ["src/**/*.ts", "test/**/*.ts", "bin/**/*.ts", "test/cases/**/*.yaml", "schema.sql"]
  .flatMap((pattern) => globSync(pattern, { cwd: ROOT }))
  .filter((path) => !path.includes("cases/replay/") && !ABOUT_CITATIONS.includes(path));
const documents = ["src/**/*.md", "test/*.md", "bin/*.md", "*.md"].flatMap((pattern) =>
  globSync(pattern, { cwd: ROOT }),
);

const cited = (paths: readonly string[]): Citation[] => paths.flatMap((path) => citationsIn(path, readDocument(path)));

const missingFrom = (known: ReadonlySet<string>, citations: readonly Citation[]): string[] =>
  citations
    .filter(({ page, number }) => !known.has(`${page} ${number}`))
    .map(({ page, number, place }) => `${place}: ${page} ${number} does not exist`);

test("every rule of the contract that code cites exists", () => {
  const citations = cited(code);
  assert.equal(missingFrom(headings(), citations), []);
  assert.ok(citations.length >= MIN_CITATIONS, `only ${citations.length} citations were found`);
});

test("every rule of the contract that a document cites exists", () => {
  const known = headings();
  assert.equal(missingFrom(known, cited(documents)), []);
  assert.equal(
    missingFrom(
      known,
      PAGES.flatMap((page) => ownCitationsIn(page, readDocument(pathOf(page)))),
    ),
    [],
  );
});

test("rules are cited in one way: the name of the page and the number of the heading", () => {
  assert.equal(
    [...code, ...documents].flatMap((path) => misspeltIn(path, readDocument(path))),
    [],
  );
});

test("a number has one heading, below the heading of its section", () => {
  for (const page of PAGES) {
    const numbers = numbersOf(readDocument(pathOf(page)));
    assert.ok(numbers.length > 8, page);
    assert.equal(
      numbers.filter((number, index) => numbers.indexOf(number) !== index),
      [],
      page,
    );
    const orphans = numbers.filter((number, index) => {
      const parent = number.split(".").slice(0, -1).join(".");
      return parent !== "" && !numbers.slice(0, index).includes(parent);
    });
    assert.equal(orphans, [], page);
  }
});

test("a citation is found wherever a comment breaks its line, and a made-up one is reported", () => {
  const source = [
    "/**",
    " * Reads it (semantics 5.1, 5.2), and writes it (wire-contract 9 to 13 and",
    " * 25; messages 2). Semantics",
    " * 99.9: made up.",
    " */",
    "// Delivered messages are kept for 30 days; messages 12, and operations",
    "// 29.",
  ].join("\n");
  const citations = citationsIn("a.ts", source);
  assert.equal(
    citations.map(({ page, number, place }) => `${place} ${page} ${number}`),
    [
      "a.ts:2 semantics 5.1",
      "a.ts:2 semantics 5.2",
      "a.ts:2 wire-contract 9",
      "a.ts:2 wire-contract 13",
      "a.ts:2 wire-contract 25",
      "a.ts:3 messages 2",
      "a.ts:3 semantics 99.9",
      "a.ts:6 messages 12",
      "a.ts:6 operations 29",
    ],
  );
  assert.equal(missingFrom(headings(), citations), ["a.ts:3: semantics 99.9 does not exist"]);
  assert.equal(
    ownCitationsIn("semantics", "see section 5.4 (5.6, 5.7)\nand sections 2, 4").map(({ number }) => number),
    ["5.4", "5.6", "5.7", "2", "4"],
  );
});

test("another spelling of a citation is refused", () => {
  for (const [text, found] of [
    ["(semantics 13, row 78)", "semantics 13, row "],
    ["(semantics 5.1, decision 106)", "decision 106"],
    ["(decisions 7 and 8)", "decisions 7"],
    ["the texts of messages.md section 2", "messages.md section 2"],
    ["`semantics.md` 5.4", "semantics.md` 5"],
    ["(wire contract 5)", "wire contract 5"],
    ["(newer clients 2)", "newer clients 2"],
    ["(operations, Flows)", "(operations, F"],
    ["(http-api-v2, policy input)", "(http-api-v2, p"],
    ["(semantics)", "(semantics)"],
  ] as const)
    assert.ok(misspeltIn("a.ts", text).includes(`a.ts:1: ${found}`), `${text}: ${misspeltIn("a.ts", text).join()}`);
  for (const text of [
    "(semantics 2.4, legacy report)",
    "(operations 6; wire-contract 6.1)",
    "the semantics of a patch",
  ])
    assert.equal(misspeltIn("a.ts", text), [], text);
});

/** In the contract, and served by middleware instead of operations. */
const SERVED_OTHERWISE = ["GET /doc/ get_api_docs", "GET /ready get_ready"];

test("operations 29 is the table of the operations that only Assay has", () => {
  const path = pathOf("operations");
  matchesFile(path, withPart(readDocument(path), "assay", tableOfOwnOperations()));
});

test("the contract has every operation of the code, and no other one", () => {
  const rows = operationRows(readDocument(pathOf("operations")));
  const lines = operationLines();
  assert.equal(
    lines.filter((line) => !rows.includes(line)),
    [],
    "operations without a row",
  );
  assert.equal(
    rows.filter((row) => !lines.includes(row) && !SERVED_OTHERWISE.includes(row)),
    [],
    "rows without an operation",
  );
  assert.is(new Set(rows).size, rows.length, "an operation has two rows");
});

test.run();
