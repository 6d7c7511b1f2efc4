/** `assay docker`: writes the build context of an image of this executable, without any base image. */
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
import { onPathSync } from "../../domain/text/system-errors.ts";
import { createDirectory } from "../../store/db/directories.ts";
import { loadSqlite } from "../data-directory.ts";
import { CommandError, EXIT } from "../framework.ts";
import type { Command } from "../framework.ts";

/** The user of the image: the usual id in rootless images. */
const USER = 65_532;

/** The loader path in every 64-bit glibc program, independent of the distribution's library directories. */
const LOADER = "/lib64/ld-linux-x86-64.so.2";

const LISTS: Readonly<Record<string, string>> = {
  "etc/passwd": `assay:x:${USER}:${USER}:Assay:/data:/sbin/nologin\n`,
  "etc/group": `assay:x:${USER}:\n`,
  // Name lookup by files and DNS only: the image contains no other NSS modules.
  "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
};

export const docker: Command = {
  name: "docker",
  summary: "Write a Docker build context for an image of this executable",
  usage: "DIRECTORY",
  details: [
    "Writes a Dockerfile, this executable, and its C runtime libraries copied from this machine to DIRECTORY, which " +
      "must be missing or empty. See assay help installing.",
    "Then run: docker build --tag assay DIRECTORY",
  ],
  options: {},
  takesConfig: false,
  positionals: { min: 1, max: 1, names: ["DIRECTORY"] },
  async run(args, io) {
    const executable = findPackedExecutable();
    if (executable === null)
      throw new CommandError(
        "this program runs from a checkout, and an image needs the built executable: run make image",
      );
    const directory = resolve(io.cwd, args.positionals[0] ?? "");
    createDirectory(directory);
    if (readdirSync(directory).length > 0) throw new CommandError(`${directory} is not empty: give a new directory`);

    // Loaded so that libstdc++, which only the addon needs, is in the list.
    loadSqlite(null);
    const libraries = listLoadedLibraries(readFileSync("/proc/self/maps", "utf8"));
    const root = join(directory, "root");
    copyFile(executable, join(root, "usr/local/bin/assay"), 0o755);
    for (const { from, to } of libraries) copyFile(from, join(root, to), 0o755);
    for (const [name, text] of Object.entries(LISTS)) writePublicFile(join(root, name), Buffer.from(text));
    makeDirectory(join(root, "tmp"), 0o1777);
    makeDirectory(join(directory, "volumes/data"), 0o700);
    writePublicFile(join(directory, "Dockerfile"), readAsset("Dockerfile"));

    const paths = libraries.map(({ to }) => to);
    if (args.switches.has("json")) io.stdout(`${JSON.stringify({ directory, libraries: paths })}\n`);
    else {
      io.stdout(`wrote ${directory}, with the libraries\n${paths.map((path) => `  ${path}\n`).join("")}`);
      io.stdout(`next: docker build --tag assay ${directory}\n`);
    }
    return EXIT.done;
  },
};

type Library = { readonly from: string; readonly to: string };

/**
 * Parses the shared libraries of a process from its /proc/self/maps: the file of each, and the path where the loader
 * looks for it. That is its directory and its name up to the first number (libstdc++.so.6 for libstdc++.so.6.0.30).
 * @throws CommandError when that path leads to another file
 */
export function listLoadedLibraries(maps: string, resolved: (path: string) => string = realpathSync): Library[] {
  const paths = new Set([...maps.matchAll(/ (\/\S*\.so(?:\.\d+)*)$/gm)].map((match) => match[1] as string));
  return [...paths].sort().map((from) => {
    const name = /^.*?\.so(?:\.\d+)?/.exec(basename(from))?.[0] ?? basename(from);
    const to = name === basename(LOADER) ? LOADER : join(dirname(from), name);
    if (resolved(to) !== resolved(from))
      throw new CommandError(
        `${from} is loaded, but ${to} is a different library: the libraries of this machine cannot be copied`,
      );
    return { from, to };
  });
}

function copyFile(from: string, to: string, mode: number): void {
  makeDirectory(dirname(to), 0o755);
  copyFileSync(from, to);
  chmodSync(to, mode);
}

function writePublicFile(path: string, content: Buffer): void {
  makeDirectory(dirname(path), 0o755);
  onPathSync(path, () => writeFileSync(path, content));
  chmodSync(path, 0o644);
}

/** Creates a directory and its parents. Sets their mode explicitly, because the umask would hide them in the image. */
function makeDirectory(path: string, mode: number): void {
  if (statSync(path, { throwIfNoEntry: false }) === undefined) {
    makeDirectory(dirname(path), 0o755);
    mkdirSync(path);
    chmodSync(path, mode);
  }
}
