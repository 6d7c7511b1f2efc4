// Everything that ships with Assay and is not code: the schema, its migrations, the web pages and the native addon.
//
// The program runs in three worlds: a checkout (Node runs the .ts files), a bundle (Node runs .build/bundle/main.cjs,
// for profiling what will be packed) and the packed executable. This module is the only one that knows which, and so
// the only one that may touch an embedded file. The table SOURCES is read in the checkout and by the build; whatever it
// lists is found under the same key in all three worlds.

import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative, sep } from "node:path";
import * as sea from "node:sea";
import { fileURLToPath } from "node:url";
import { getEnvironmentData, isMainThread, setEnvironmentData } from "node:worker_threads";

/**
 * What a build says about itself. `commit` is null where git could not tell, and ends in "-modified" for an unclean
 * tree.
 */
export interface BuildInfo {
  readonly version: string;
  readonly commit: string | null;
}

/** The native addon of better-sqlite3; see store/db/native-addon.ts, its only reader. */
export const ADDON_ASSET = "better_sqlite3.node";

/**
 * Licence texts of what is inside, one file for each (a prefix of keys), and the bill of materials: the build makes
 * them, so a checkout has none.
 */
export const LICENSES = "licenses/";
export const BILL_OF_MATERIALS = "sbom.cdx.json";

interface Source {
  /** A key, or a prefix of keys when it ends in "/". */
  readonly key: string;
  /** A file, or a directory where the key is a prefix; relative to the checkout. */
  readonly from: string;
  /** Which files of the directory are shipped, by their path below it; null means all. */
  readonly accept: RegExp | null;
}

const SOURCES: readonly Source[] = [
  { key: "schema.sql", from: "schema.sql", accept: null },
  { key: "migrations/", from: "src/store/migrations", accept: /^\d{4}-[a-z0-9-]+\.sql$/ },
  { key: "Dockerfile", from: "bin/Dockerfile", accept: null },
  { key: "guide/", from: "src/guide", accept: /^[a-z0-9-]+\.md$/ },
  { key: "ui/", from: "src/web/static", accept: null },
  {
    key: "swagger-ui/",
    from: "node_modules/swagger-ui-dist",
    accept: /^(swagger-ui\.css|swagger-ui-bundle\.js|LICENSE|NOTICE)$/,
  },
  {
    key: "fonts/dejavu/",
    from: "node_modules/dejavu-fonts-ttf",
    accept: /^(ttf\/DejaVuSans(-Bold|Mono)?\.ttf|LICENSE)$/,
  },
  ...["sc-chinese-simplified", "jp-japanese", "kr-korean"].map(
    (subset): Source => ({
      key: `fonts/noto-${subset.slice(0, 2)}/`,
      from: `node_modules/@fontsource/noto-sans-${subset.slice(0, 2)}`,
      accept: new RegExp(`^(files/noto-sans-${subset}-400-normal\\.woff|LICENSE)$`),
    }),
  ),
  {
    key: ADDON_ASSET,
    from: `node_modules/better-sqlite3/prebuilds/${process.platform}-${process.arch}.node`,
    accept: null,
  },
];

// Defined by the build; not there at all in a checkout.
declare const ASSAY_BUILD: BuildInfo;

const built: BuildInfo | null = typeof ASSAY_BUILD === "undefined" ? null : ASSAY_BUILD;

// A worker of a bundle is evaluated from text and does not know where the bundle lies, so the main thread tells it.
const BUNDLE_DIRECTORY = "assay.bundle-directory";
if (built !== null && !sea.isSea() && isMainThread) setEnvironmentData(BUNDLE_DIRECTORY, __dirname);

/**
 * The bytes of one asset, in a buffer of the caller's own.
 * Throws an Error that names the key when no such asset ships.
 */
export function readAsset(key: string): Buffer {
  if (built !== null && sea.isSea()) {
    if (!sea.getAssetKeys().includes(key)) throw missing(key);
    return Buffer.from(sea.getAsset(key));
  }
  const path = files(key).get(key);
  if (path === undefined) throw missing(key);
  return readFileSync(path);
}

/** The asset as text (UTF-8). Throws like `readAsset`. */
export function readTextAsset(key: string): string {
  return readAsset(key).toString("utf8");
}

/** The keys that begin with `prefix`, sorted by code unit. An unknown prefix has no keys; that is no mistake. */
export function listAssets(prefix: string): string[] {
  const keys = built !== null && sea.isSea() ? sea.getAssetKeys() : [...files(prefix).keys()];
  return keys.filter((key) => key.startsWith(prefix)).sort();
}

/** Where a checkout keeps the asset on disk (absolute path); null where it is embedded or does not exist. */
export function findCheckoutPath(key: string): string | null {
  return built === null ? (files(key).get(key) ?? null) : null;
}

/**
 * How to start the worker thread whose entry is src/<name>.ts, for example "backup/backup-worker":
 * `new Worker(entry.source, { eval: entry.eval })`. In a checkout the source is the path of the file; in an executable
 * there is no file to name, so the source is the code itself.
 * Throws an Error when no such worker ships.
 */
export function resolveWorkerEntry(name: string): { source: string; eval: boolean } {
  if (built === null) {
    const path = join(checkoutRoot(), "src", `${name}.ts`);
    if (statSync(path, { throwIfNoEntry: false }) === undefined) throw missing(`workers/${name}.cjs`);
    return { source: path, eval: false };
  }
  return { source: readTextAsset(`workers/${name}.cjs`), eval: true };
}

/**
 * Version and commit of this build: set by the build, read from package.json and git in a checkout. Read once, because
 * git takes milliseconds, and a process that runs has the code of its start.
 */
export function readBuildInfo(): BuildInfo {
  if (built !== null) return built;
  if (checkoutBuild !== null) return checkoutBuild;
  const root = checkoutRoot();
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
  checkoutBuild = { version, commit: currentCommit(root) };
  return checkoutBuild;
}
let checkoutBuild: BuildInfo | null = null;

/** The path of the executable that runs; null in a checkout and a bundle, which have none. */
export const findPackedExecutable = (): string | null => (built !== null && sea.isSea() ? process.execPath : null);

function currentCommit(root: string): string | null {
  const git = (...args: string[]) =>
    execFileSync("git", args, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  try {
    // A file that nobody committed is built in like any other, so it counts as a modification too.
    return git("rev-parse", "HEAD") + (git("status", "--porcelain") === "" ? "" : "-modified");
  } catch {
    return null;
  }
}

function checkoutRoot(): string {
  return fileURLToPath(new URL("..", import.meta.url));
}

/**
 * Key -> absolute path, at least of the assets whose keys begin with `prefix`. Read anew each time: it is asked a few
 * dozen times in a process, and tests add files. Packages of fonts have a thousand files, so only the places that may
 * hold such a key are looked at.
 */
function files(prefix: string): Map<string, string> {
  const found = new Map<string, string>();
  if (built !== null) {
    const assets = join(String(getEnvironmentData(BUNDLE_DIRECTORY)), "assets");
    for (const name of filesBelow(assets)) found.set(name, join(assets, name));
    return found;
  }
  const root = checkoutRoot();
  for (const { key, from, accept } of SOURCES) {
    if (!key.startsWith(prefix) && !(key.endsWith("/") && prefix.startsWith(key))) continue;
    const path = join(root, from);
    if (!key.endsWith("/")) {
      if (statSync(path, { throwIfNoEntry: false })?.isFile()) found.set(key, path);
      continue;
    }
    for (const name of filesBelow(path)) {
      if (accept === null || accept.test(name)) found.set(key + name, join(path, name));
    }
  }
  return found;
}

/** Paths of the files below a directory, relative to it, with "/" between; none when there is no such directory. */
function filesBelow(directory: string): string[] {
  if (!statSync(directory, { throwIfNoEntry: false })?.isDirectory()) return [];
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(directory, join(entry.parentPath, entry.name)).split(sep).join("/"));
}

function missing(key: string): Error {
  return new Error(`no asset "${key}" ships with this build of Assay`);
}
