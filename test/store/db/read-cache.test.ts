import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { openDatabase } from "../../../src/store/db/database.ts";
import { createReadCache } from "../../../src/store/db/read-cache.ts";

const test = suite("store/db/read-cache");

/** Two connections to one database with a table of texts. */
function world(body: (house: ReturnType<typeof open>) => void): void {
  const directory = mkdtempSync(join(tmpdir(), "assay-unchanged-"));
  const house = open(directory);
  try {
    body(house);
  } finally {
    house.ours.close();
    house.other.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

function open(directory: string) {
  const [ours, other] = [openDatabase(directory, 1), openDatabase(directory, 1)];
  const write = (db: typeof ours, name: string) =>
    db.prepare("INSERT INTO templates (public_id, content) VALUES (?, '')").run(name);
  const unchanged = createReadCache(ours);
  const look = (): unknown => (unchanged.refresh(), unchanged.get("k"));
  const keep = (): void => unchanged.set("k", "v", { chars: 1, state: unchanged.refresh() });
  return { ours, other, write, unchanged, look, keep };
}

test("what was read holds until something is written, by whomever", () => {
  world(({ ours, other, write, look, keep }) => {
    assert.is(look(), undefined);
    keep();
    assert.equal([look(), look()], ["v", "v"]);
    write(ours, "a");
    assert.is(look(), undefined);
    keep();
    write(other, "b");
    assert.is(look(), undefined);
    keep();
    assert.is(look(), "v");
  });
});

test("a write that is undone empties it too; reading does not", () => {
  world(({ ours, write, look, keep }) => {
    keep();
    ours.prepare("SELECT count(*) FROM templates").get();
    assert.is(look(), "v");
    ours.exec("BEGIN");
    write(ours, "a");
    ours.exec("ROLLBACK");
    assert.is(look(), undefined);
  });
});

test("what was read before a change is not kept after it", () => {
  world(({ other, write, unchanged, look }) => {
    const state = unchanged.refresh();
    write(other, "a");
    unchanged.refresh();
    unchanged.set("k", "old", { chars: 1, state });
    assert.is(look(), undefined);
  });
});

test("a change between the look and the read keeps nothing for the next look", () => {
  world(({ other, write, unchanged, look }) => {
    const state = unchanged.refresh();
    write(other, "a");
    unchanged.set("k", "perhaps old", { chars: 1, state });
    assert.is(look(), undefined);
  });
});

test("it keeps so many characters and no more", () => {
  world(({ unchanged }) => {
    const state = unchanged.refresh();
    for (const key of ["a", "b", "c"]) unchanged.set(key, key, { chars: 1_500_000, state });
    assert.equal(
      ["a", "b", "c"].map((key) => unchanged.get(key)),
      [undefined, undefined, "c"],
    );
  });
});

test("keys count, and what is larger than everything together is not kept", () => {
  world(({ unchanged }) => {
    const state = unchanged.refresh();
    const [a, b] = ["a".repeat(3_000_000), "b".repeat(3_000_000)];
    for (const key of [a, b]) unchanged.set(key, "v", { chars: 1, state });
    assert.equal({ "get(a)": unchanged.get(a), "get(b)": unchanged.get(b) }, { "get(a)": undefined, "get(b)": "v" });
    unchanged.set("huge", "v", { chars: 5_000_000, state });
    assert.equal({ huge: unchanged.get("huge"), get: unchanged.get(b) }, { huge: undefined, get: "v" });
  });
});

test.run();
