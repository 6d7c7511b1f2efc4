import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  MAX_BUNDLE_BYTES,
  MAX_BUNDLE_FILES,
  comparePaths,
  findBundleSizeProblem,
  findPathProblems,
  kindOfFile,
} from "../../../src/domain/rego/bundle.ts";

const test = suite("domain/rego/bundle");

test("a bundle has one to a hundred files, and at most a mebibyte of paths and sources", () => {
  assert.is(findBundleSizeProblem(MAX_BUNDLE_FILES, MAX_BUNDLE_BYTES), null);
  assert.is(findBundleSizeProblem(1, 1_048_577), "policy bundle is 1048577 bytes, over the 1048576 byte limit");
  assert.is(findBundleSizeProblem(101, 1), "policy bundle holds 101 files, over the limit of 100");
  assert.is(findBundleSizeProblem(0, 0), "policy bundle holds no files");
});

test("refuses paths that leave the bundle, or that no file can have", () => {
  const refused: readonly (readonly [path: string, problem: string])[] = [
    ["", "The path of a file must not be empty"],
    ["/etc/policy.rego", "The path must be relative to the bundle"],
    ["../policy.rego", "The path must not contain '..'"],
    ["lib/../../policy.rego", "The path must not contain '..'"],
    ["lib//policy.rego", "The path must not contain empty directories or '.'"],
    ["./policy.rego", "The path must not contain empty directories or '.'"],
    ["lib/", "The path must not contain empty directories or '.'"],
    ["lib\\policy.rego", "The path must use '/' between directories"],
    ["policy\u0000.rego", "The path must not contain control characters"],
    ["policy\n.rego", "The path must not contain control characters"],
    ["\ud800.rego", "The path is not valid Unicode"],
    [`${"é".repeat(513)}`, "The path is longer than 1024 bytes"],
  ];
  for (const [path, problem] of refused) assert.equal([...findPathProblems([path])], [[path, problem]]);
  assert.equal([...findPathProblems(["policy.rego", "lib/..a/b.rego", ".hidden", "日本/x", "é".repeat(512)])], []);
});

test("refuses a file in the place of a directory", () => {
  assert.equal(
    [...findPathProblems(["a", "a/b", "c/d", "c"])],
    [
      ["a/b", "'a' is a file, so it cannot be a directory"],
      ["c/d", "'c' is a file, so it cannot be a directory"],
    ],
  );
});

test("orders paths by their bytes", () => {
  const paths = ["b", "a/b", "a", "ａ", "🎉", "Z", "a.b"];
  assert.equal(paths.sort(comparePaths), ["Z", "a", "a.b", "a/b", "b", "ａ", "🎉"]);
});

test("knows modules, tests and data files by their names", () => {
  const kinds = ["p.rego", "a/p_test.rego", "data.json", "a/data.yaml", "data.yml", "x.ergo.yaml", "a/x.ergo.yml"];
  assert.equal(kinds.map(kindOfFile), ["module", "test", "data", "data", "data", "data", "data"]);
  assert.equal(["other.json", "README.md", "p.rego.txt", "xdata.json", "rego"].map(kindOfFile), Array(5).fill("other"));
});

test.run();
