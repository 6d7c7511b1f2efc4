// The first code that an executable runs: starts the bundle from its code cache (see pack.ts). Without one, or with one
// that this Node rejects, V8 compiles the bundle again.
const { getAsset, getRawAsset } = require("node:sea");
const { Script, constants } = require("node:vm");

const script = new Script(getAsset("program/main.cjs", "utf8"), {
  filename: "main.cjs",
  cachedData: Buffer.from(getRawAsset("program/main.cache")),
  importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
});
script.runInThisContext()(exports, require, module, __filename, __dirname);
