/**
 * The files that pages load: style sheet, scripts, fonts. Each has a digest of its content in its name, so a browser
 * keeps it forever and never has an old one. Files are read on the first request.
 */
import { readTextAsset } from "../../assets.ts";
import { loadFile, loadText } from "../served-file.ts";
import type { Served } from "../served-file.ts";

/** Where the files lie, below the root of the server. */
export const FILES_ROOT = "/ui/";

const FONTS = ["inter-latin.woff2", "inter-latin-ext.woff2", "mono-latin.woff2", "mono-latin-ext.woff2"] as const;
const SCRIPTS = ["app.js", "editor.js"] as const;
const WORKER = "live-worker.js";
/** It connects to the stream of changes, and does nothing else. */
const WORKER_POLICY = "default-src 'none'; connect-src 'self'";
export type FileName =
  | (typeof FONTS)[number]
  | (typeof SCRIPTS)[number]
  | typeof WORKER
  | "assay.css"
  | "icon.svg"
  | "prefetch.json";

export type PageFiles = {
  /** The path of a file below the root of the server, without a leading slash. */
  pathOf(name: FileName): string;
  /** The file at a path of the server; undefined if there is none. */
  find(path: string): Served | undefined;
};

/** Pages that a browser fetches as soon as a person points at their links; never anything that changes a record. */
const PREFETCH = JSON.stringify({
  prefetch: [{ where: { selector_matches: "a[data-prefetch], .nav a, .crumbs a" }, eagerness: "moderate" }],
});

export function createPageFiles(): PageFiles {
  const files = new Map<string, Served>();
  const paths = new Map<string, string>();
  const add = (name: string, { address, file }: { address: string; file: Served }): void => {
    files.set(address, file);
    paths.set(name, `${FILES_ROOT.slice(1)}${address}`);
  };
  const load = (): void => {
    if (files.size > 0) return;
    for (const name of FONTS) add(name, loadFile(name, `ui/client/${name}`));
    for (const name of SCRIPTS) add(name, loadFile(name, `ui/client/${name}`));
    const worker = loadFile(WORKER, `ui/client/${WORKER}`);
    add(WORKER, { ...worker, file: { ...worker.file, policy: WORKER_POLICY } });
    // The sheet lies beside the fonts, so their addresses are their names.
    const sheet = FONTS.reduce(
      (text, name) => text.replaceAll(name, (paths.get(name) as string).slice(FILES_ROOT.length - 1)),
      readTextAsset("ui/client/assay.css"),
    );
    add("assay.css", loadText("assay.css", sheet));
    add("icon.svg", loadFile("icon.svg", "ui/reference/icon.svg"));
    add("prefetch.json", loadText("prefetch.json", PREFETCH));
  };
  return {
    pathOf(name) {
      load();
      return paths.get(name) as string;
    },
    find(path) {
      load();
      return files.get(path.slice(FILES_ROOT.length));
    },
  };
}
