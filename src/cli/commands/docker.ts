/** `assay docker`: what `docker build` needs for an image of this executable, without any base image. */
import {
  copyFileSync,
  mkdirSync,
  chmodSync,
  readFileSync,
  readdirSync,
  realpathSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { findPackedExecutable, readAsset } from "../../assets.ts";
import { loadLibrary } from "../data-directory.ts";
import { commandFailure, EXIT } from "../framework.ts";
import type { Command } from "../framework.ts";

/** The user of the image: the one that images without root usually have. */
const USER = 65_532;

/** Where every 64-bit program of glibc looks for its loader, whatever the distribution does with its libraries. */
const LOADER = "/lib64/ld-linux-x86-64.so.2";

const LISTS: Readonly<Record<string, string>> = {
  "etc/passwd": `assay:x:${USER}:${USER}:Assay:/data:/sbin/nologin\n`,
  "etc/group": `assay:x:${USER}:\n`,
  // Names are looked up in files and by DNS; modules for anything else are not there.
  "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
};

export const docker: Command = {
  name: "docker",
  summary: "Write what docker build needs for an image of this executable",
  usage: "DIRECTORY",
  details: [
    "The directory gets a Dockerfile, this executable, and the libraries of the C runtime that it runs on, copied from this",
    "machine; then: docker build --tag assay DIRECTORY. It must be new or empty. See assay help installing.",
  ],
  options: {},
  takesConfig: false,
  positionals: { least: 1, most: 1, names: ["DIRECTORY"] },
  async run(args, io) {
    const executable = findPackedExecutable();
    if (executable === null)
      throw commandFailure(
        "only the built executable can be put into an image, and this runs from a checkout: make image",
      );
    const directory = resolve(io.cwd, args.positionals[0] ?? "");
    mkdirSync(directory, { recursive: true });
    if (readdirSync(directory).length > 0) throw commandFailure(`${directory} is not empty: give a new directory`);

    // The addon is what needs libstdc++.
    loadLibrary(null);
    const libraries = loadedLibraries(readFileSync("/proc/self/maps", "utf8"));
    const root = join(directory, "root");
    place(executable, join(root, "usr/local/bin/assay"), 0o755);
    for (const { from, to } of libraries) place(from, join(root, to), 0o755);
    for (const [name, text] of Object.entries(LISTS)) write(join(root, name), Buffer.from(text));
    makeDirectory(join(root, "tmp"), 0o1777);
    makeDirectory(join(directory, "volumes/data"), 0o700);
    write(join(directory, "Dockerfile"), readAsset("Dockerfile"));

    const shown = libraries.map(({ to }) => to);
    if (args.switches.has("json")) io.stdout(`${JSON.stringify({ directory, libraries: shown })}\n`);
    else
      io.stdout(
        `${[`wrote ${directory}, with the libraries`, ...shown.map((path) => `  ${path}`)].join("\n")}\nnext: docker build --tag assay ${directory}\n`,
      );
    return EXIT.done;
  },
};

export type Library = { readonly from: string; readonly to: string };

/**
 * The shared libraries of a process, from the text of its /proc/self/maps: where each is, and under which path the
 * loader looks for it. That is its directory and its name up to the first number (libstdc++.so.6 of
 * libstdc++.so.6.0.30).
 * @throws a command failure where that name does not lead to the file.
 */
export function loadedLibraries(maps: string, resolved: (path: string) => string = realpathSync): Library[] {
  const paths = new Set([...maps.matchAll(/ (\/\S*\.so(?:\.\d+)*)$/gm)].map((match) => match[1] as string));
  return [...paths].sort().map((from) => {
    const name = /^.*?\.so(?:\.\d+)?/.exec(basename(from))?.[0] ?? basename(from);
    const to = name === basename(LOADER) ? LOADER : join(dirname(from), name);
    if (resolved(to) !== resolved(from))
      throw commandFailure(
        `${from} is loaded, and ${to} is another library: this machine's libraries cannot be copied`,
      );
    return { from, to };
  });
}

function place(from: string, to: string, mode: number): void {
  makeDirectory(dirname(to), 0o755);
  copyFileSync(from, to);
  chmodSync(to, mode);
}

function write(path: string, content: Buffer): void {
  makeDirectory(dirname(path), 0o755);
  writeFileSync(path, content);
  chmodSync(path, 0o644);
}

/** Makes a directory and what is above it; who runs the image must be able to enter them, whatever the umask. */
function makeDirectory(path: string, mode: number): void {
  if (statSync(path, { throwIfNoEntry: false }) === undefined) {
    makeDirectory(dirname(path), 0o755);
    mkdirSync(path);
    chmodSync(path, mode);
  }
}
