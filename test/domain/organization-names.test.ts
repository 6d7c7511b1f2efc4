/** What a comparison with an organization reports, and where it ends. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { compareNames } from "../../src/domain/organization-names.ts";
import type { NameReference, OrganizationNames } from "../../src/domain/organization-names.ts";

const test = suite("domain/organization-names");

const FLOWS = new Set(["payments", "web"]);
const knownUntil = (isOver: () => boolean, flows: ReadonlySet<string> = FLOWS): OrganizationNames => ({
  organization: "acme",
  flows,
  tagKeys: new Set(),
  types: new Map(),
  attestations: new Set(),
  isExpected: () => true,
  isOver,
});
const known = knownUntil(() => false);

/** A reference to a flow that does not exist. */
const missing = (name: string, line: number): NameReference => ({
  place: () => ({ line, column: 1 }),
  path: `a.${line}`,
  find: () => ({ missing: `no '${name}'`, remedy: "create it", similar: { name, among: "flows" } }),
});
const found: NameReference = { place: () => ({ line: 9, column: 9 }), path: "x", find: () => null };

const texts = (references: Iterable<NameReference>, names = known): string[] =>
  compareNames(references, names).map(({ line, column, path, problem }) => `${line}:${column} ${path}: ${problem}`);

test("lists what is missing by position, with similar names or else what to do", () => {
  assert.equal(texts([missing("zzz", 7), found, missing("payment", 3)]), [
    "3:1 a.3: no 'payment'; did you mean payments?",
    "7:1 a.7: no 'zzz'; create it",
  ]);
  assert.equal(texts([]), []);
});

test("does not suggest the name itself, which another rule may be missing", () => {
  assert.equal(texts([missing("web", 1)]), ["1:1 a.1: no 'web'; create it"]);
});

test("lists the first hundred", () => {
  const lines = Array.from({ length: 150 }, (_, index) => missing("zzz", 150 - index));
  const listed = compareNames(lines, known);
  assert.equal([listed.length, listed[0]?.line, listed[99]?.line], [100, 1, 100]);
});

const STOP =
  "the comparison with organization 'acme' ended here, because it takes too long; assay policy check and " +
  "assay template check with --org compare the whole file";

test("says where it ended when the time is over, and reports nothing that was read since", () => {
  let asked = 0;
  const names = knownUntil(() => ++asked > 2);
  const rest = missing("zzz", 4);
  assert.equal(texts([missing("payment", 5), found, missing("yyy", 2), rest], names), [
    "5:1 a.5: no 'payment'; create it",
    `2:1 a.2: ${STOP}`,
  ]);
});

test("keeps a place for that among a hundred", () => {
  let asked = 0;
  const lines = Array.from({ length: 120 }, (_, index) => missing("zzz", index + 1));
  const listed = compareNames(
    lines,
    knownUntil(() => ++asked > 110),
  );
  assert.is(listed.length, 100);
  assert.equal(listed[98]?.line, 99);
  assert.equal(listed[99], { line: 111, column: 1, path: "a.111", problem: STOP });
});

test("looks for the names that are similar to a repeated name once", () => {
  let reads = 0;
  const counted = new Proxy(FLOWS, {
    get(target, key) {
      reads += 1;
      return Reflect.get(target, key).bind(target);
    },
  });
  const references = [...[1, 2, 3].map((line) => missing("payment", line)), missing("wab", 4)];
  assert.equal(
    texts(
      references,
      knownUntil(() => false, counted),
    ).map((text) => text.replace(/^.*; /, "")),
    ["did you mean payments?", "did you mean payments?", "did you mean payments?", "did you mean web?"],
  );
  assert.is(reads, 2);
});

test.run();
