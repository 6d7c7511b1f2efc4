// Everything that ships with Assay and is not code: the schema, its migrations, the web pages, the native addon.
//
// The program runs in three forms: a checkout (Node runs the .ts files), a bundle (Node runs .build/bundle/main.cjs, to
// profile what will be packed) and the packed executable. Only this module knows which, so only it may access embedded
// files. The build and the checkout read the table SOURCES; an asset has the same key in all three forms.

import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative, sep } from "node:path";
import * as sea from "node:sea";
import { fileURLToPath } from "node:url";
import { getEnvironmentData, isMainThread, setEnvironmentData } from "node:worker_threads";

/** Identity of a build. `commit` is null without git, and ends in "-modified" for a tree with uncommitted changes. */
export interface BuildInfo {
  readonly version: string;
  readonly commit: string | null;
}

/** The native addon of better-sqlite3; see store/db/native-addon.ts, its only reader. */
export const ADDON_ASSET = "better_sqlite3.node";

/**
 * Licence texts of the dependencies, one file each (a prefix of keys), and the bill of materials. The build creates
 * them, so a checkout has neither.
 */
export const LICENSES = "licenses/";
export const BILL_OF_MATERIALS = "sbom.cdx.json";

interface Source {
  /** A key; a prefix of keys if it ends in "/". */
  readonly key: string;
  /** A file, or a directory if the key is a prefix; relative to the checkout. */
  readonly from: string;
  /** The files of the directory that ship, by path below it; null for all. */
  readonly accept: RegExp | null;
}

const SOURCES: readonly Source[] = [
  { key: "schema.sql", from: "schema.sql", accept: null },
  { key: "migrations/", from: "src/store/migrations", accept: /^\d{4}-[a-z0-9-]+\.sql$/ },
  { key: "rego/", from: "src/rego/engine", accept: /^(engine\.(wasm\.br|json)|wasm_exec\.js)$/ },
  { key: "Dockerfile", from: "bin/Dockerfile", accept: null },
  { key: "guide/", from: "src/guide", accept: /^[a-z0-9-]+\.md$/ },
  { key: "ui/", from: "src/web/static", accept: null },
  // Built by bin/client.ts.
  { key: "ui/client/", from: ".build/client", accept: /^[a-z-]+\.(js|css|json|woff2)$/ },
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

// Defined by the build; does not exist in a checkout.
declare const ASSAY_BUILD: BuildInfo;

const built: BuildInfo | null = typeof ASSAY_BUILD === "undefined" ? null : ASSAY_BUILD;

// A worker of a bundle is evaluated from text and does not know the path of the bundle, so the main thread passes it
// on.
const BUNDLE_DIRECTORY = "assay.bundle-directory";
if (built !== null && !sea.isSea() && isMainThread) setEnvironmentData(BUNDLE_DIRECTORY, __dirname);

/**
 * The bytes of one asset, in a buffer that the caller may modify.
 * @throws Error with the key if no such asset ships.
 */
export function readAsset(key: string): Buffer {
  if (built !== null && sea.isSea()) {
    if (!sea.getAssetKeys().includes(key)) throw missingAsset(key);
    return Buffer.from(sea.getAsset(key));
  }
  const path = findFiles(key).get(key);
  if (path === undefined) throw missingAsset(key);
  return readFileSync(path);
}

/** The asset as UTF-8 text. @throws Error as `readAsset` does. */
export function readTextAsset(key: string): string {
  return readAsset(key).toString("utf8");
}

/** The keys that start with `prefix`, sorted by code unit; an empty list for an unknown prefix. */
export function listAssets(prefix: string): string[] {
  const keys = built !== null && sea.isSea() ? sea.getAssetKeys() : [...findFiles(prefix).keys()];
  return keys.filter((key) => key.startsWith(prefix)).sort();
}

/** Absolute path of the asset in a checkout; null if it is embedded or does not exist. */
export function findCheckoutPath(key: string): string | null {
  return built === null ? (findFiles(key).get(key) ?? null) : null;
}

/**
 * The entry of the worker thread src/<name>.ts, for example "backup/backup-worker", for
 * `new Worker(entry.source, { eval: entry.eval })`. `source` is the path of the file in a checkout, and the code itself
 * in an executable, which has no files.
 * @throws Error if no such worker ships.
 */
export function resolveWorkerEntry(name: string): { source: string; eval: boolean } {
  if (built === null) {
    const path = join(checkoutRoot(), "src", `${name}.ts`);
    if (statSync(path, { throwIfNoEntry: false }) === undefined) throw missingAsset(`workers/${name}.cjs`);
    return { source: path, eval: false };
  }
  return { source: readTextAsset(`workers/${name}.cjs`), eval: true };
}

/**
 * Version and commit: constants in a build, read from package.json and git in a checkout. Read once, because git takes
 * milliseconds, and a running process has the code of its start.
 */
export function readBuildInfo(): BuildInfo {
  if (built !== null) return built;
  if (checkoutBuild !== null) return checkoutBuild;
  const root = checkoutRoot();
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
  checkoutBuild = { version, commit: readCommit(root) };
  return checkoutBuild;
}
let checkoutBuild: BuildInfo | null = null;

/** Path of the running executable; null in a checkout and in a bundle. */
export const findPackedExecutable = (): string | null => (built !== null && sea.isSea() ? process.execPath : null);

function readCommit(root: string): string | null {
  const git = (...args: string[]) =>
    execFileSync("git", args, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  try {
    // An untracked file is built in like any other, so it counts as a modification too.
    return git("rev-parse", "HEAD") + (git("status", "--porcelain") === "" ? "" : "-modified");
  } catch {
    return null;
  }
}

function checkoutRoot(): string {
  return fileURLToPath(new URL("..", import.meta.url));
}

/**
 * Key -> absolute path, at least of the assets whose keys start with `prefix`. Not cached: a process needs it a few
 * dozen times, and tests add files. Font packages have a thousand files, so only sources that may have such a key are
 * read.
 */
function findFiles(prefix: string): Map<string, string> {
  const found = new Map<string, string>();
  if (built !== null) {
    const assets = join(String(getEnvironmentData(BUNDLE_DIRECTORY)), "assets");
    for (const name of listFiles(assets)) found.set(name, join(assets, name));
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
    for (const name of listFiles(path)) {
      if (accept === null || accept.test(name)) found.set(key + name, join(path, name));
    }
  }
  return found;
}

/** Relative paths, with "/", of the files below a directory; none if the directory does not exist. */
function listFiles(directory: string): string[] {
  if (!statSync(directory, { throwIfNoEntry: false })?.isDirectory()) return [];
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(directory, join(entry.parentPath, entry.name)).split(sep).join("/"));
}

function missingAsset(key: string): Error {
  return new Error(`no asset "${key}" ships with this build of Assay`);
}
