/**
 * A Debian booted by systemd-nspawn from a debootstrap, in which tests run commands as root: the machine of an
 * operator, with a systemd of its own. The tree of the debootstrap is kept in .build/; what a container writes is in
 * memory and ends with it.
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { giveUpAfter } from "../patience.ts";
import { findTool } from "../tools.ts";

const SUITE = "bookworm";
/** What the pages use besides Assay, and what a server has anyway. */
const PACKAGES = [
  "systemd",
  "systemd-sysv",
  "dbus",
  "ca-certificates",
  "curl",
  "openssl",
  "procps",
  "psmisc",
  "iproute2",
];
const BUILD = join(import.meta.dirname, "..", "..", ".build", "guide");
const ROOT = join(BUILD, `${SUITE}-${createHash("sha256").update(PACKAGES.join()).digest("hex").slice(0, 12)}`);

/** Of a boot, which takes seconds. */
const MAX_BOOT_S = 120;
/** Of one look at a container. */
const MAX_LOOK_MS = 60_000;
/** Of a download; the runner ends a group that is silent for longer (group-watch.ts). */
const DEBOOTSTRAP_TIMEOUT_MS = 240_000;
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

export type Container = {
  /** Writes a file; its directories are created. */
  put(path: string, content: string | Uint8Array, mode?: number): void;
  /** Copies a file or a directory of this machine. */
  copy(from: string, to: string): void;
  /** Opens a shell as root, which keeps its directory and variables from one `run` to the next. */
  openShell(): Shell;
  stop(): Promise<void>;
};

export type Shell = {
  /**
   * Runs lines until one fails. `code` is that of the line that failed, which also ends the shell; 0 otherwise. A shell
   * that has ended throws an Error.
   */
  run(lines: string): Promise<{ code: number; output: string }>;
  close(): void;
};

/** Boots a container; a text says why this machine cannot. */
export async function bootContainer(): Promise<Container | string> {
  if (process.getuid?.() !== 0) return "only root can boot a container";
  if (findTool("systemd-nspawn") === null) return "there is no systemd-nspawn (systemd-container)";
  const problem = existsSync(ROOT) ? null : buildRoot();
  if (problem !== null) return problem;
  const tree = linkRoot();
  const groups = findControlGroups().map((group) => join(group, `assay-guide-${process.pid}`));
  const child = spawn(
    "sh",
    [
      ...["-c", ENTER_GROUPS, "sh", String(groups.length), ...groups],
      ...["setpriv", "--pdeathsig", "KILL", "systemd-nspawn", "--quiet", `--directory=${tree}`, "--volatile=overlay"],
      ...[`--machine=assay-guide-${process.pid}`, "--hostname=assay", "--boot", "--register=no", "--keep-unit"],
      ...["--private-network", "--console=pipe"],
    ],
    { stdio: ["ignore", "pipe", "pipe"], env: { PATH } },
  );
  child.on("exit", () => {
    rmSync(tree, { recursive: true, force: true });
    for (const group of groups) spawnSync("find", [group, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";"]);
  });
  const output = collectOutput(child);
  const leader = await waitForBoot(child);
  if (leader !== null) return createContainer(child, leader);
  child.kill("SIGKILL");
  return `systemd-nspawn boots no container here: ${output().trim().slice(-300) || "it says nothing"}`;
}

/**
 * Enters control groups of its own, then becomes the command that follows them. systemd-nspawn makes the group of its
 * container in the one it runs in: in a shared one, a container's systemd stops the services of another.
 */
const ENTER_GROUPS = `count=$1; shift
  while [ "$count" -gt 0 ]; do
    mkdir -p "$1" && echo $$ >"$1/cgroup.procs"; shift; count=$((count - 1))
  done
  exec "$@"`;

/** The directories of this process's groups that systemd uses: of version 2, and of its own hierarchy in version 1. */
function findControlGroups(): string[] {
  const mounts = new Map<string, string>();
  for (const line of readFileSync("/proc/mounts", "utf8").split("\n")) {
    const [, directory = "", type, options = ""] = line.split(" ");
    if (type === "cgroup2") mounts.set("", directory);
    if (type === "cgroup" && options.split(",").includes("name=systemd")) mounts.set("name=systemd", directory);
  }
  return readFileSync("/proc/self/cgroup", "utf8")
    .split("\n")
    .flatMap((line) => {
      const [, name = "-", ...path] = line.split(":");
      const mount = mounts.get(name);
      return mount === undefined ? [] : [join(mount, path.join(":"))];
    });
}

/** Makes the tree; a text says why that is impossible. */
function buildRoot(): string | null {
  if (findTool("debootstrap") === null) return "there is no debootstrap";
  mkdirSync(BUILD, { recursive: true });
  // Another test may make it at the same time.
  const script = `test -e "$ROOT" || {
    rm -rf "$ROOT.partial"
    debootstrap --variant=minbase --include=${PACKAGES.join()} ${SUITE} "$ROOT.partial" && mv "$ROOT.partial" "$ROOT"
  }`;
  const { status, stdout, error } = spawnSync("flock", [join(BUILD, "lock"), "sh", "-c", script], {
    encoding: "utf8",
    timeout: DEBOOTSTRAP_TIMEOUT_MS,
    env: { PATH, ROOT, DEBIAN_FRONTEND: "noninteractive" },
  });
  if (status === 0) return null;
  rmSync(`${ROOT}.partial`, { recursive: true, force: true });
  return `debootstrap cannot install Debian: ${error?.message ?? stdout.trim().split("\n").slice(-2).join("; ")}`;
}

/**
 * A tree of hard links to the one that was made, because a tree is that of one container at a time. Its files are only
 * read. Removes those of processes that were killed.
 */
function linkRoot(): string {
  for (const name of readdirSync(BUILD)) {
    const pid = /^tree-(\d+)$/.exec(name)?.[1];
    if (pid !== undefined && !existsSync(`/proc/${pid}`)) rmSync(join(BUILD, name), { recursive: true, force: true });
  }
  const tree = join(BUILD, `tree-${process.pid}`);
  rmSync(tree, { recursive: true, force: true });
  execFileSync("cp", ["-al", ROOT, tree]);
  return tree;
}

/** The process id of the container's first process once it has booted; null where that takes too long or fails. */
async function waitForBoot(child: ChildProcess): Promise<number | null> {
  let isOver = false;
  const stopWaiting = giveUpAfter(MAX_BOOT_S, () => (isOver = true));
  while (!isOver && child.exitCode === null && child.signalCode === null) {
    // setpriv becomes systemd-nspawn, whose only child is the first process of the container.
    const leader = childrenOf(child.pid ?? 0)[0];
    const state = leader === undefined ? "" : readInside(leader, ["systemctl", "is-system-running", "--wait"]);
    if (leader !== undefined && /^(running|degraded)$/.test(state)) {
      stopWaiting();
      return leader;
    }
    await sleep(100);
  }
  return null;
}

function childrenOf(pid: number): number[] {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
    return text.split(" ").filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

const inside = (leader: number, words: readonly string[]): string[] => ["-t", String(leader), "-a", ...words];

const readInside = (leader: number, words: readonly string[]): string =>
  spawnSync("nsenter", inside(leader, words), {
    encoding: "utf8",
    timeout: MAX_LOOK_MS,
    env: { PATH },
  }).stdout?.trim() ?? "";

function createContainer(child: ChildProcess, leader: number): Container {
  return {
    put(path, content, mode = 0o644) {
      const target = join(`/proc/${leader}/root`, path);
      mkdirSync(dirname(target), { recursive: true });
      writeFileSync(target, content);
      chmodSync(target, mode);
    },
    copy: (from, to) => cpSync(from, join(`/proc/${leader}/root`, to), { recursive: true }),
    openShell: () => openShell(leader),
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, "exit");
      execFileSync("nsenter", inside(leader, ["systemctl", "poweroff", "--force", "--force"]), { env: { PATH } });
      await ended;
    },
  };
}

const END = "@@end of the lines";

function openShell(leader: number): Shell {
  const shell = spawn(
    "nsenter",
    inside(leader, ["env", "-i", `PATH=${PATH}`, "HOME=/root", "LANG=C.UTF-8", "bash", "--norc", "-e"]),
    { stdio: ["pipe", "pipe", "pipe"], env: { PATH } },
  );
  const output = collectOutput(shell);
  shell.stdin.on("error", () => undefined);
  shell.stdin.write(`exec 2>&1; cd /root; trap 'echo "failed: $BASH_COMMAND"' ERR\n`);
  let read = 0;
  return {
    run: (lines) =>
      new Promise((resolve, reject) => {
        if (shell.exitCode !== null || shell.signalCode !== null)
          return reject(new Error("the shell ended before, when a line failed"));
        const finish = (code: number, end: number): void => {
          shell.stdout.off("data", look);
          shell.off("close", close);
          const text = output().slice(read, end);
          read = end + END.length + 1;
          resolve({ code, output: text });
        };
        const close = (code: number | null): void => finish(code ?? 1, output().length);
        const look = (): void => {
          const end = output().indexOf(`${END}\n`, read);
          if (end >= 0) finish(0, end);
        };
        shell.stdout.on("data", look);
        shell.on("close", close);
        // The commands do not read the lines that follow them.
        shell.stdin.write(`{\n${lines}\n} </dev/null\necho '${END}'\n`);
      }),
    close: () => void shell.kill("SIGKILL"),
  };
}

function collectOutput(child: ChildProcess): () => string {
  const pieces: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (piece: Buffer) => void pieces.push(piece));
  return () => Buffer.concat(pieces).toString();
}
