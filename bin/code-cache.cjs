// Run by pack.ts in a process with a fixed hash seed: code-cache.cjs SCRIPT CACHE writes V8's code cache of a script;
// with --check, which needs no such seed, it fails unless V8 accepts the cache that is there.
const { readFileSync, writeFileSync } = require("node:fs");
const { setFlagsFromString } = require("node:v8");
const { Script, constants } = require("node:vm");

const [path, cache, check] = process.argv.slice(2);
// A cache is accepted only under the flags that it was made with. The seed took effect when the process started.
setFlagsFromString("--hash-seed=0");
const script = new Script(readFileSync(path, "utf8"), {
  filename: "main.cjs",
  ...(check ? { cachedData: readFileSync(cache) } : {}),
  importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
});
if (!check) writeFileSync(cache, script.createCachedData());
else if (script.cachedDataRejected) throw new Error(`V8 rejects the code cache ${cache}`);
