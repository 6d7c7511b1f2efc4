// The restrictions of the systemd unit without systemd: mounts in a mount namespace, an unprivileged user without
// capabilities, and a filter of system calls, all derived from the unit. installing.test.ts lists which settings of the
// unit are not covered.
//
// Needs root, unshare, setpriv and perl (which can install a filter without a compiler), systemd-analyze for the sets
// of system calls, and the headers of the C library for their numbers.

import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { EXECUTABLE, type Options } from "./executable.ts";

export const PATH = "/usr/sbin:/usr/bin:/sbin:/bin";
const NUMBERS = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h";

/** A user id in the range that systemd uses for dynamic users. */
export const USER = 61_234;

const succeeds = (...command: [string, ...string[]]): boolean =>
  spawnSync(command[0], command.slice(1), { env: { PATH } }).status === 0;

/** The reason why programs cannot be restricted on this machine; null when they can. */
export const obstacle: string | null =
  process.getuid?.() !== 0
    ? "restricting a process needs root"
    : !succeeds("unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt")
      ? "this process may not create a mount namespace"
      : !succeeds("setpriv", "--version") || !succeeds("perl", "-e", "1")
        ? "setpriv or perl is missing"
        : !succeeds("systemd-analyze", "syscall-filter", "@system-service")
          ? "systemd-analyze is missing"
          : !existsSync(NUMBERS)
            ? `${NUMBERS} is missing`
            : null;

/** The values of a setting of a unit, in order. */
export const settings = (unit: string, name: string): string[] =>
  unit.split("\n").flatMap((line) => (line.startsWith(`${name}=`) ? [line.slice(name.length + 1)] : []));

/**
 * The arguments of `start` or `run` for running `assay args` as the service of `unit`. /var/lib/assay is the state
 * directory. `files` are written to /run/files, readable by the service. `before` is a shell command that runs last
 * before the privileges are dropped.
 */
export function restricted(
  unit: string,
  args: readonly string[],
  { files = {}, before = "true" }: { files?: Readonly<Record<string, string>>; before?: string } = {},
): [string[], Options] {
  const writeFiles = Object.keys(files).map(
    (name, index) => `printf %s "$FILE${index}" >/run/files/${name}
    chown ${USER}:${USER} /run/files/${name}; chmod 400 /run/files/${name}`,
  );
  const script = `
    exec 9<"$EXECUTABLE" || exit 90
    mount --make-rprivate / || exit 91
    # PrivateDevices=
    mount -t tmpfs -o mode=755 tmpfs /mnt || exit 92
    for d in null zero full random urandom; do touch /mnt/$d && mount --bind /dev/$d /mnt/$d || exit 92; done
    mount --move /mnt /dev || exit 92
    # PrivateTmp=, ProtectHome=, StateDirectory=, RuntimeDirectory=; the usual mode of a tmpfs allows execution.
    for d in /tmp /var/tmp; do mount -t tmpfs -o mode=1777 tmpfs $d || exit 93; done
    for d in /home /root /run; do mount -t tmpfs -o mode=755 tmpfs $d || exit 93; done
    mkdir /run/files /run/assay || exit 93
    mount -t tmpfs -o mode=755,uid=${USER},gid=${USER} tmpfs /run/assay || exit 93
    ${writeFiles.join("\n    ")}
    mount -t tmpfs tmpfs /var/lib && mkdir /var/lib/assay || exit 94
    mount -t tmpfs -o mode=700,uid=${USER},gid=${USER} tmpfs /var/lib/assay || exit 94
    # ProtectProc=, ProcSubset=
    mount -t proc -o hidepid=invisible,subset=pid proc /proc || exit 95
    # ProtectSystem=strict, ProtectKernelTunables=, ProtectControlGroups=
    while read -r _ _ _ _ point _; do
      case $point in
        /dev/*|/tmp|/var/tmp|/var/lib/assay|/run/assay|/proc*) ;;
        *) mount -o remount,bind,ro "$point" 2>/dev/null ;;
      esac
    done </proc/self/mountinfo
    for f in /probe /usr/probe /etc/probe /var/lib/probe /run/probe; do
      if touch $f 2>/dev/null; then rm $f; exit 96; fi
    done
    ${before}
    umask 077; cd /
    exec setpriv --reuid=${USER} --regid=${USER} --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all -- \
      perl -e '${INSTALL_FILTER}' env -i PATH=${PATH} /proc/self/fd/9 "$@"`;
  const contents = Object.fromEntries(Object.values(files).map((text, index) => [`FILE${index}`, text]));
  return [
    ["-m", "sh", "-c", script, "assay", ...args],
    {
      executable: "/usr/bin/unshare",
      env: { PATH, EXECUTABLE, FILTER: compileFilter(unit).toString("hex"), ...contents },
    },
  ];
}

// prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER) with a struct sock_fprog; perl passes strings as pointers.
const INSTALL_FILTER = [
  'my $code = pack("H*", $ENV{FILTER});',
  'my $program = pack("S x6 P", length($code) / 8, $code);',
  'syscall(157, 22, 2, $program) == 0 or die "seccomp: $!";',
  "exec { $ARGV[0] } @ARGV or die;",
].join(" ");

const [LOAD, EQUAL, RETURN] = [0x20, 0x15, 0x06];
const ALLOW = 0x7fff0000;
const refuseWith = (errno: number): number => 0x00050000 | errno;
const KILL = 0x80000000;
const [EPERM, EAFNOSUPPORT] = [1, 97];
const X86_64 = 0xc000003e;
const ADDRESS_FAMILIES: Readonly<Record<string, number>> = { AF_UNIX: 1, AF_INET: 2, AF_INET6: 10, AF_NETLINK: 16 };

/** Compiles SystemCallFilter= and RestrictAddressFamilies= to the classic BPF that the kernel accepts. */
function compileFilter(unit: string): Buffer {
  const numbers = new Map(
    [...readFileSync(NUMBERS, "utf8").matchAll(/#define __NR_(\w+) (\d+)/g)].map((match) => [
      match[1] as string,
      Number(match[2]),
    ]),
  );
  const allowed = new Set(expandCalls("@default"));
  for (const rule of settings(unit, "SystemCallFilter")) {
    for (const name of rule.replace(/^~/, "").split(" ").flatMap(expandCalls))
      rule.startsWith("~") ? allowed.delete(name) : allowed.add(name);
  }
  const families = settings(unit, "RestrictAddressFamilies")
    .join(" ")
    .split(" ")
    .map((name) => ADDRESS_FAMILIES[name] as number);
  const steps: [number, number, number, number][] = [
    [LOAD, 0, 0, 4],
    [EQUAL, 1, 0, X86_64],
    [RETURN, 0, 0, KILL],
    [LOAD, 0, 0, 0],
    // socket(family, ...): checks its first argument. Other calls skip this part.
    [EQUAL, 0, families.length * 2 + 2, numbers.get("socket") as number],
    [LOAD, 0, 0, 16],
    ...families.flatMap((family): [number, number, number, number][] => [
      [EQUAL, 0, 1, family],
      [RETURN, 0, 0, ALLOW],
    ]),
    [RETURN, 0, 0, refuseWith(EAFNOSUPPORT)],
    ...[...allowed].flatMap((name): [number, number, number, number][] => {
      const number = numbers.get(name);
      return number === undefined
        ? []
        : [
            [EQUAL, 0, 1, number],
            [RETURN, 0, 0, ALLOW],
          ];
    }),
    [RETURN, 0, 0, refuseWith(EPERM)],
  ];
  const program = Buffer.alloc(steps.length * 8);
  steps.forEach(([code, yes, no, value], index) => {
    program.writeUInt16LE(code, index * 8);
    program.writeUInt8(yes, index * 8 + 2);
    program.writeUInt8(no, index * 8 + 3);
    program.writeUInt32LE(value >>> 0, index * 8 + 4);
  });
  return program;
}

/** The system calls that a name stands for: itself, or all members of a set (@...) including its subsets. */
function expandCalls(name: string): string[] {
  if (!name.startsWith("@")) return [name];
  const text = execFileSync("systemd-analyze", ["--no-pager", "syscall-filter", name], {
    encoding: "utf8",
    env: { PATH },
  });
  return text
    .split("\n")
    .slice(1)
    .map((line) => line.trim())
    .filter((line) => /^[@a-z]/.test(line))
    .flatMap(expandCalls);
}
