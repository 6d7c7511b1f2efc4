// The restrictions of the systemd unit without systemd: mounts in a namespace of their own, another user without
// capabilities, and a filter of system calls, made of what the unit says. What the unit asks for beyond that is listed
// in installing.test.ts.
//
// Needs root, unshare, setpriv and perl (which alone can install a filter without a compiler), systemd-analyze for the
// sets of system calls, and the headers of the C library for their numbers.

import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { EXECUTABLE, type Options } from "./executable.ts";

export const PATH = "/usr/sbin:/usr/bin:/sbin:/bin";
const NUMBERS = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h";

/** A user of the range from which systemd takes dynamic ones. */
export const USER = 61_234;

const works = (...command: [string, ...string[]]): boolean =>
  spawnSync(command[0], command.slice(1), { env: { PATH } }).status === 0;

/** Why a program cannot be restricted here; null where it can. */
export const obstacle: string | null =
  process.getuid?.() !== 0
    ? "only root can take everything away from a process"
    : !works("unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt")
      ? "this process may not make a mount namespace"
      : !works("setpriv", "--version") || !works("perl", "-e", "1")
        ? "setpriv or perl is missing"
        : !works("systemd-analyze", "syscall-filter", "@system-service")
          ? "systemd-analyze is missing"
          : !existsSync(NUMBERS)
            ? `${NUMBERS} is missing`
            : null;

/** The values of a setting of a unit, in their order. */
export const settings = (unit: string, name: string): string[] =>
  unit.split("\n").flatMap((line) => (line.startsWith(`${name}=`) ? [line.slice(name.length + 1)] : []));

/**
 * How to run `assay args` as the service of `unit`: /var/lib/assay is the state directory, and `files` are put into
 * /run/given. What `args` name there is theirs to read. `before` is a line of shell that runs last, still as root.
 */
export function restricted(
  unit: string,
  args: readonly string[],
  files: Readonly<Record<string, string>> = {},
  before = "true",
): [string[], Options] {
  const script = `
    exec 9<"$EXECUTABLE" || exit 90
    mount --make-rprivate / || exit 91
    # PrivateDevices=
    mount -t tmpfs -o mode=755 tmpfs /mnt && for d in null zero full random urandom; do touch /mnt/$d && mount --bind /dev/$d /mnt/$d || exit 92; done
    mount --move /mnt /dev || exit 92
    # PrivateTmp=, ProtectHome=, StateDirectory=, RuntimeDirectory=; the usual mode of a tmpfs allows execution.
    for d in /tmp /var/tmp; do mount -t tmpfs -o mode=1777 tmpfs $d || exit 93; done
    for d in /home /root /run; do mount -t tmpfs -o mode=755 tmpfs $d || exit 93; done
    mkdir /run/given /run/assay && mount -t tmpfs -o mode=755,uid=${USER},gid=${USER} tmpfs /run/assay || exit 93
    ${Object.keys(files)
      .map(
        (name, index) =>
          `printf %s "$FILE${index}" >/run/given/${name}; chown ${USER}:${USER} /run/given/${name}; chmod 400 /run/given/${name}`,
      )
      .join("\n    ")}
    mount -t tmpfs tmpfs /var/lib && mkdir /var/lib/assay && mount -t tmpfs -o mode=700,uid=${USER},gid=${USER} tmpfs /var/lib/assay || exit 94
    # ProtectProc=, ProcSubset=
    mount -t proc -o hidepid=invisible,subset=pid proc /proc || exit 95
    # ProtectSystem=strict, ProtectKernelTunables=, ProtectControlGroups=
    while read -r _ _ _ _ point _; do
      case $point in /dev/*|/tmp|/var/tmp|/var/lib/assay|/run/assay|/proc*) ;; *) mount -o remount,bind,ro "$point" 2>/dev/null ;; esac
    done </proc/self/mountinfo
    for f in /probe /usr/probe /etc/probe /var/lib/probe /run/probe; do if touch $f 2>/dev/null; then rm $f; exit 96; fi; done
    ${before}
    umask 077; cd /
    exec setpriv --reuid=${USER} --regid=${USER} --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all -- \
      perl -e '${INSTALL_FILTER}' env -i PATH=${PATH} /proc/self/fd/9 "$@"`;
  const given = Object.fromEntries(Object.values(files).map((text, index) => [`FILE${index}`, text]));
  return [
    ["-m", "sh", "-c", script, "assay", ...args],
    { executable: "/usr/bin/unshare", env: { PATH, EXECUTABLE, FILTER: filterOf(unit).toString("hex"), ...given } },
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
const refuse = (errno: number): number => 0x00050000 | errno;
const KILL = 0x80000000;
const [EPERM, EAFNOSUPPORT] = [1, 97];
const X86_64 = 0xc000003e;
const FAMILIES: Readonly<Record<string, number>> = { AF_UNIX: 1, AF_INET: 2, AF_INET6: 10, AF_NETLINK: 16 };

/** The filter of SystemCallFilter= and RestrictAddressFamilies=, in the classic BPF that the kernel takes. */
function filterOf(unit: string): Buffer {
  const numbers = new Map(
    [...readFileSync(NUMBERS, "utf8").matchAll(/#define __NR_(\w+) (\d+)/g)].map((match) => [
      match[1] as string,
      Number(match[2]),
    ]),
  );
  const allowed = new Set(callsOf("@default"));
  for (const rule of settings(unit, "SystemCallFilter")) {
    for (const name of rule.replace(/^~/, "").split(" ").flatMap(callsOf))
      rule.startsWith("~") ? allowed.delete(name) : allowed.add(name);
  }
  const families = settings(unit, "RestrictAddressFamilies")
    .join(" ")
    .split(" ")
    .map((name) => FAMILIES[name] as number);
  const steps: [number, number, number, number][] = [
    [LOAD, 0, 0, 4],
    [EQUAL, 1, 0, X86_64],
    [RETURN, 0, 0, KILL],
    [LOAD, 0, 0, 0],
    // socket(family, ...): its first argument; what is behind it is skipped for other calls.
    [EQUAL, 0, families.length * 2 + 2, numbers.get("socket") as number],
    [LOAD, 0, 0, 16],
    ...families.flatMap((family): [number, number, number, number][] => [
      [EQUAL, 0, 1, family],
      [RETURN, 0, 0, ALLOW],
    ]),
    [RETURN, 0, 0, refuse(EAFNOSUPPORT)],
    ...[...allowed].flatMap((name): [number, number, number, number][] => {
      const number = numbers.get(name);
      return number === undefined
        ? []
        : [
            [EQUAL, 0, 1, number],
            [RETURN, 0, 0, ALLOW],
          ];
    }),
    [RETURN, 0, 0, refuse(EPERM)],
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

/** The system calls of a name: of a set (@...) all of them, those of its subsets too. */
function callsOf(name: string): string[] {
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
    .flatMap(callsOf);
}
