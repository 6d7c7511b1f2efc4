import { readFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  ADDON_ASSET,
  readBuildInfo,
  findCheckoutPath,
  listAssets,
  readAsset,
  readTextAsset,
  resolveWorkerEntry,
} from "../src/assets.ts";

const assets = suite("assets");

assets("the pages of the API reference ship, and nothing else of their package", () => {
  assert.equal(listAssets("swagger-ui/"), [
    "swagger-ui/LICENSE",
    "swagger-ui/NOTICE",
    "swagger-ui/swagger-ui-bundle.js",
    "swagger-ui/swagger-ui.css",
  ]);
  assert.match(readTextAsset("swagger-ui/swagger-ui.css"), ".swagger-ui");
});

assets("the native addon is an asset with a path in a checkout", () => {
  const path = findCheckoutPath(ADDON_ASSET);
  assert.is.not(path, null);
  assert.equal(readAsset(ADDON_ASSET), readFileSync(String(path)));
});

for (const key of [
  "",
  "nothing.txt",
  "swagger-ui",
  "swagger-ui/",
  "swagger-ui/index.html",
  "swagger-ui/../../package.json",
  "/etc/passwd",
  "__proto__",
]) {
  assets(`"${key}" is not an asset`, () => {
    assert.throws(
      () => readAsset(key),
      (error: Error) => error.message === `no asset "${key}" ships with this build of Assay`,
    );
    assert.is(findCheckoutPath(key), null);
  });
}

assets("an unknown prefix has no assets", () => {
  assert.equal(listAssets("no-such/"), []);
});

assets("an unknown worker is refused by name", () => {
  assert.throws(() => resolveWorkerEntry("no-such-worker"), /no-such-worker/);
});

assets("the build has the version of package.json and a commit", () => {
  const { version, commit } = readBuildInfo();
  assert.is(version, JSON.parse(readFileSync(join(import.meta.dirname, "..", "package.json"), "utf8")).version);
  assert.ok(commit === null || /^[0-9a-f]{40}(-modified)?$/.test(commit), String(commit));
});

assets.run();
