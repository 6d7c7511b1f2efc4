import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { openDatabase } from "../../../src/store/db/database.ts";
import { createReadCache } from "../../../src/store/db/read-cache.ts";

const test = suite("store/db/read-cache");

/** Two connections to one database with a table of texts. */
function world(body: (setup: ReturnType<typeof open>) => void): void {
  const directory = mkdtempSync(join(tmpdir(), "assay-cache-"));
  const setup = open(directory);
  try {
    body(setup);
  } finally {
    setup.ours.close();
    setup.other.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

function open(directory: string) {
  const [ours, other] = [openDatabase(directory, 1), openDatabase(directory, 1)];
  const write = (db: typeof ours, name: string) =>
    db.prepare("INSERT INTO templates (public_id, content) VALUES (?, '')").run(name);
  const cache = createReadCache(ours);
  const read = (): unknown => {
    cache.refresh();
    return cache.get("k");
  };
  const fill = (): void => cache.set("k", "v", { chars: 1, state: cache.refresh() });
  return { ours, other, write, cache, read, fill };
}

test("a cached value holds until any connection writes", () => {
  world(({ ours, other, write, read, fill }) => {
    assert.is(read(), undefined);
    fill();
    assert.equal([read(), read()], ["v", "v"]);
    write(ours, "a");
    assert.is(read(), undefined);
    fill();
    write(other, "b");
    assert.is(read(), undefined);
    fill();
    assert.is(read(), "v");
  });
});

test("a rolled-back write clears it too; reads do not", () => {
  world(({ ours, write, read, fill }) => {
    fill();
    ours.prepare("SELECT count(*) FROM templates").get();
    assert.is(read(), "v");
    ours.exec("BEGIN");
    write(ours, "a");
    ours.exec("ROLLBACK");
    assert.is(read(), undefined);
  });
});

test("does not cache a value read before a change", () => {
  world(({ other, write, cache, read }) => {
    const state = cache.refresh();
    write(other, "a");
    cache.refresh();
    cache.set("k", "old", { chars: 1, state });
    assert.is(read(), undefined);
  });
});

test("does not cache a value when a change came between refresh and read", () => {
  world(({ other, write, cache, read }) => {
    const state = cache.refresh();
    write(other, "a");
    cache.set("k", "perhaps old", { chars: 1, state });
    assert.is(read(), undefined);
  });
});

test("never exceeds its limit of characters", () => {
  world(({ cache }) => {
    const state = cache.refresh();
    for (const key of ["a", "b", "c"]) cache.set(key, key, { chars: 1_500_000, state });
    assert.equal(
      ["a", "b", "c"].map((key) => cache.get(key)),
      [undefined, undefined, "c"],
    );
  });
});

test("counts keys, and does not cache a value larger than the whole cache", () => {
  world(({ cache }) => {
    const state = cache.refresh();
    const [a, b] = ["a".repeat(3_000_000), "b".repeat(3_000_000)];
    for (const key of [a, b]) cache.set(key, "v", { chars: 1, state });
    assert.equal({ "get(a)": cache.get(a), "get(b)": cache.get(b) }, { "get(a)": undefined, "get(b)": "v" });
    cache.set("huge", "v", { chars: 5_000_000, state });
    assert.equal({ huge: cache.get("huge"), get: cache.get(b) }, { huge: undefined, get: "v" });
  });
});

test.run();
