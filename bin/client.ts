// Builds what browsers load for the web pages: scripts, the style sheet, fonts and icons, into .build/client/. The
// server embeds the directory (src/assets.ts). The build takes a fifth of a second, so tests run it every time.

import { build } from "esbuild";
import type { Metafile, Plugin } from "esbuild";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ICON_NAMES } from "../src/web/components/icon-names.ts";

/** File name -> where the font comes from. The style sheet names the same files. */
const FONTS: Readonly<Record<string, string>> = {
  "inter-latin.woff2": "@fontsource-variable/inter/files/inter-latin-wght-normal.woff2",
  "inter-latin-ext.woff2": "@fontsource-variable/inter/files/inter-latin-ext-wght-normal.woff2",
  "mono-latin.woff2": "@fontsource/jetbrains-mono/files/jetbrains-mono-latin-400-normal.woff2",
  "mono-latin-ext.woff2": "@fontsource/jetbrains-mono/files/jetbrains-mono-latin-ext-400-normal.woff2",
};

/** Name of a theme in the pages -> the file of @primer/primitives, and whether its ground is dark. */
const THEMES: readonly { name: string; file: string; isDark: boolean }[] = [
  { name: "light", file: "light", isDark: false },
  { name: "dark", file: "dark", isDark: true },
  { name: "light-high-contrast", file: "light-high-contrast", isDark: false },
  { name: "dark-high-contrast", file: "dark-high-contrast", isDark: true },
  { name: "light-colorblind", file: "light-colorblind", isDark: false },
  { name: "dark-colorblind", file: "dark-colorblind", isDark: true },
];

/** The files whose licences the client carries, and what esbuild read. */
export type ClientBuild = { metafiles: Metafile[]; packageFiles: string[] };

/** Builds the client of the checkout at `root`. Depends only on the files of the checkout. */
export async function buildClient(root: string): Promise<ClientBuild> {
  const source = join(root, "src", "web", "client");
  const target = join(root, ".build", "client");
  mkdirSync(target, { recursive: true });
  const metafiles: Metafile[] = [];
  const contents = new Map<string, Buffer | string>();
  for (const [entry, outfile] of [
    ["app.ts", "app.js"],
    ["editor.ts", "editor.js"],
    ["live-worker.ts", "live-worker.js"],
    ["styles/assay.css", "assay.css"],
  ] as const) {
    const { metafile, outputFiles } = await build({
      metafile: true,
      write: false,
      absWorkingDir: root,
      entryPoints: [join(source, entry)],
      outfile: join(target, outfile),
      bundle: true,
      minify: true,
      legalComments: "none",
      format: "iife",
      target: ["chrome111", "firefox128", "safari16.4"],
      charset: "utf8",
      preserveSymlinks: true,
      external: Object.keys(FONTS),
      plugins: [themeTokens(root)],
      logLevel: "warning",
    });
    metafiles.push(metafile);
    for (const { contents: bytes } of outputFiles) contents.set(outfile, Buffer.from(bytes));
  }
  const packageFiles = [join(root, "node_modules", "@primer", "primitives", "package.json")];
  for (const [name, from] of Object.entries(FONTS)) {
    const path = join(root, "node_modules", from);
    contents.set(name, readFileSync(path));
    packageFiles.push(path);
  }
  const icons = join(root, "node_modules", "@primer", "octicons", "build", "data.json");
  contents.set("icons.json", JSON.stringify(pickIcons(icons)));
  packageFiles.push(icons);
  replaceFiles(target, contents);
  return { metafiles, packageFiles };
}

const PARTIAL = ".partial";

/**
 * Makes a directory contain exactly these files. Each is replaced at once, and only if it changes: tests that run at
 * the same time read them.
 */
function replaceFiles(directory: string, contents: ReadonlyMap<string, Buffer | string>): void {
  for (const name of readdirSync(directory))
    if (!contents.has(name) && !name.endsWith(PARTIAL)) rmSync(join(directory, name), { force: true });
  for (const [name, content] of contents) {
    const path = join(directory, name);
    const bytes = Buffer.from(content);
    if (existsSync(path) && readFileSync(path).equals(bytes)) continue;
    const partial = join(directory, `${name}.${process.pid}${PARTIAL}`);
    writeFileSync(partial, bytes);
    renameSync(partial, path);
  }
}

type IconData = Record<string, { heights: Record<string, { path: string }> }>;

/** Name -> the SVG paths at 16 pixels. @throws Error for a name that the package does not have. */
function pickIcons(path: string): Record<string, string> {
  const data = JSON.parse(readFileSync(path, "utf8")) as IconData;
  return Object.fromEntries(
    ICON_NAMES.map((name) => {
      const paths = data[name]?.heights["16"]?.path;
      if (paths === undefined) throw new Error(`@primer/octicons has no icon "${name}" of 16 pixels`);
      return [name, paths];
    }),
  );
}

const TOKENS_SHEET = "assay-themes.css";

/**
 * Provides the style sheet with the colours of every theme. The packages define hundreds of tokens; only those that our
 * sheets use are taken.
 */
function themeTokens(root: string): Plugin {
  return {
    name: "theme-tokens",
    setup(builder) {
      builder.onResolve({ filter: /^assay-themes\.css$/ }, () => ({ path: TOKENS_SHEET, namespace: "themes" }));
      builder.onLoad({ filter: /.*/, namespace: "themes" }, () => ({ contents: themeSheet(root), loader: "css" }));
    },
  };
}

function themeSheet(root: string): string {
  const used = usedTokens(join(root, "src", "web", "client", "styles"));
  const blocks = THEMES.map(({ name, file, isDark }) => {
    const values = tokenValues(root, file, used);
    return { name, isDark, body: `color-scheme:${isDark ? "dark" : "light"};${values}` };
  });
  const [light, dark] = blocks as [(typeof blocks)[number], (typeof blocks)[number]];
  // Paper is light: a dark theme prints with the colours of the light one of its kind.
  return [
    `:root{${light.body}}`,
    `@media screen and (prefers-color-scheme:dark){:root:not([data-theme]){${dark.body}}}`,
    ...blocks.slice(1).map(({ name, isDark, body }) => {
      const own = `:root[data-theme="${name}"]`;
      const onPaper = `:root[data-theme="${name.replace("light", "dark")}"]`;
      return isDark ? `@media screen{${own}{${body}}}` : `${own},${onPaper}{${body}}`;
    }),
  ].join("\n");
}

/** The custom properties that our sheets use and do not define. */
function usedTokens(directory: string): string[] {
  const sheets = readSheets(directory);
  const own = new Set([...sheets.matchAll(/(--[\w-]+)\s*:/g)].map(([, name]) => name as string));
  const used = new Set([...sheets.matchAll(/var\((--[\w-]+)/g)].map(([, name]) => name as string));
  return [...used].filter((name) => !own.has(name)).sort();
}

const readSheets = (directory: string): string =>
  readdirSync(directory)
    .map((name) => readFileSync(join(directory, name), "utf8"))
    .join("\n");

/** The declarations of the named tokens in a theme, references to other tokens resolved. */
function tokenValues(root: string, theme: string, names: readonly string[]): string {
  const themes = join(root, "node_modules", "@primer", "primitives", "dist", "css", "functional", "themes");
  const text = readFileSync(join(themes, `${theme}.css`), "utf8").replace(/\/\*[\s\S]*?\*\//g, "");
  const values = new Map<string, string>();
  for (const [, name, value] of text.matchAll(/(--[\w-]+):\s*([^;]+);/g))
    if (!values.has(name as string)) values.set(name as string, (value as string).trim());
  const resolve = (value: string): string =>
    value.replace(/var\((--[\w-]+)\)/g, (all, name: string) => {
      const inner = values.get(name);
      return inner === undefined ? all : resolve(inner);
    });
  return names
    .map((name) => {
      const value = values.get(name);
      if (value === undefined) throw new Error(`the theme "${theme}" of @primer/primitives has no token ${name}`);
      return `${name}:${resolve(value)};`;
    })
    .join("");
}
