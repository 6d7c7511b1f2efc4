import { suite } from "uvu";
import * as assert from "uvu/assert";
import { comparePolicies, compareSnapshotRows, splitName, versionOf } from "../../../src/domain/snapshot/comparison.ts";
import type { Running } from "../../../src/domain/snapshot/comparison.ts";

const test = suite("domain/snapshot/comparison");

let ids = 0;
const one = (name: string, print: string, fields: Partial<Running> = {}): Running => ({
  id: ++ids,
  name,
  fingerprint: print,
  now: 1,
  compliant: true,
  place: "",
  ...fields,
});
/** The changes of every kind that has some, as `name before > name after`. */
function told(before: Running[], after: Running[]) {
  const changes = compareSnapshotRows(before, after);
  return Object.fromEntries(
    Object.entries(changes)
      .filter(([, list]) => list.length > 0)
      .map(([kind, list]) => [
        kind,
        list.map((change) => `${change.before?.name ?? "-"} > ${change.after?.name ?? "-"}`),
      ]),
  );
}

test("takes a name apart into service and version", () => {
  const version = (name: string) => splitName(name);
  assert.equal(version("acme/web:2.41.0"), { service: "acme/web", version: "2.41.0" });
  assert.equal(version("registry.test:5000/acme/web"), { service: "registry.test:5000/acme/web", version: null });
  assert.equal(version("registry.test:5000/web:1"), { service: "registry.test:5000/web", version: "1" });
  const digest = `web@sha256:${"a".repeat(64)}`;
  assert.equal(version(digest), { service: "web", version: null });
  assert.equal(version(`web:1@sha256:${"a".repeat(64)}`), { service: "web", version: "1" });
  assert.equal(version(":"), { service: ":", version: null });
  assert.equal(version("web:"), { service: "web:", version: null });
  assert.equal(version("web@sha256:latest"), { service: "web@sha256", version: "latest" });
  assert.equal(version("web:1@2"), { service: "web:1@2", version: null });
  assert.is(versionOf({ name: digest, fingerprint: "abcdef0123" }), "abcdef0");
  assert.is(versionOf({ name: "web", fingerprint: "" }), "");
});

test("pairs what exited and what started by service, and leaves over what has no partner", () => {
  assert.equal(told([one("web:1", "a"), one("old:1", "b")], [one("web:2", "c"), one("new:1", "d")]), {
    upgraded: ["web:1 > web:2"],
    started: ["- > new:1"],
    exited: ["old:1 > -"],
  });
  assert.equal(told([one("web:1", "a")], [one("web:1", "a"), one("web:2", "b")]), {
    started: ["- > web:2"],
    unchanged: ["web:1 > web:1"],
  });
  assert.equal(told([one("web:1", "a"), one("web:2", "b")], [one("web:3", "c")]), {
    upgraded: ["web:1 > web:3"],
    exited: ["web:2 > -"],
  });
});

test("an upgrade in one member is not paired with an exit in another", () => {
  assert.equal(told([one("web:1", "a", { place: "eu" })], [one("web:2", "b", { place: "us" })]), {
    started: ["- > web:2"],
    exited: ["web:1 > -"],
  });
});

test("lists verdicts that turned, with those of upgrades", () => {
  assert.equal(
    told(
      [one("web:1", "a"), one("redis", "b", { compliant: false }), one("lone", "c", { compliant: null })],
      [one("web:2", "d", { compliant: false }), one("redis", "b"), one("lone", "c")],
    ),
    { verdict: ["web:1 > web:2", "lone > lone", "redis > redis"], upgraded: ["web:1 > web:2"] },
  );
});

test("compares instances, and joins the names of one fingerprint", () => {
  assert.equal(told([one("a", "x", { now: 2 }), one("b", "x")], [one("a", "x", { now: 3 })]), { unchanged: ["a > a"] });
  assert.equal(told([one("a", "x")], [one("a", "x", { now: 3 })]), { scaled: ["a > a"] });
  assert.equal(
    told([one("a", "x"), one("b", "x", { compliant: false })], [one("a", "x", { now: 2 })]),
    { verdict: ["b > a"] },
    "the one that fails counts",
  );
});

test("images without a fingerprint are compared by name", () => {
  assert.equal(told([one("a", ""), one("b", "")], [one("b", ""), one("c", "")]), {
    unchanged: ["b > b"],
    started: ["- > c"],
    exited: ["a > -"],
  });
});

test("lists what fails first, then by name", () => {
  const fails = { compliant: false };
  assert.equal(told([], [one("b", "1"), one("a", "2"), one("z", "3", fails), one("u", "4", { compliant: null })]), {
    started: ["- > z", "- > u", "- > a", "- > b"],
  });
});

test("pairs 20,000 with 20,000", () => {
  const many = (version: number) =>
    Array.from({ length: 20_000 }, (_, index) => one(`service-${index}:${version}`, `${version}-${index}`));
  assert.is(compareSnapshotRows(many(1), many(2)).upgraded.length, 20_000);
});

test("tells attached, detached and changed policies apart", () => {
  const policy = (key: number, name: string, version: number) => ({ policy: String(key), name, version });
  assert.equal(
    comparePolicies(
      [policy(1, "same", 2), policy(2, "changed", 6), policy(3, "gone", 1)],
      [policy(4, "added", 3), policy(2, "changed", 7), policy(1, "same", 2)],
    ),
    [
      { name: "added", before: null, after: 3 },
      { name: "changed", before: 6, after: 7 },
      { name: "gone", before: 1, after: null },
    ],
  );
});

test.run();
