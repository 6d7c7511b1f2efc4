// The executable on hardened machines: temporary directories without execution, a file system that cannot be written.
//
// Each case makes its mounts in a mount namespace of its own, where they end with the process. The namespace hides the
// usual temporary directories, and the executable may itself lie below one of them; hence it is opened before the
// mounts and run through that descriptor.

import { spawnSync } from "node:child_process";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { EXECUTABLE, type Options, run, start } from "./executable.ts";

const PATH = "/usr/sbin:/usr/bin:/sbin:/bin";

// Root may make a mount namespace; others may where user namespaces are allowed. A container often allows neither.
const namespace = [["-m"], ["-r", "-m"]].find(
  (flags) =>
    spawnSync("unshare", [...flags, "mount", "-t", "tmpfs", "-o", "noexec", "tmpfs", "/tmp"], { env: { PATH } })
      .status === 0,
);

const test = suite("binary/mounts");
const permitted = namespace === undefined ? test.skip : test;
if (namespace === undefined) console.log("skipped: this process may not make a mount namespace (unshare -m)");

/** How to run `assay args` in a namespace where `script` ran first; /mnt is an ordinary writable directory there. */
function hardened(script: string, args: readonly string[], env: Record<string, string> = {}): [string[], Options] {
  const shell = `exec 9<"$EXECUTABLE" && mount -t tmpfs tmpfs /mnt && mkdir /mnt/home /mnt/data && ${script} && unset EXECUTABLE && exec /proc/self/fd/9 "$@"`;
  return [
    [...(namespace ?? []), "sh", "-c", shell, "assay", ...args],
    { executable: "/usr/bin/unshare", env: { PATH, EXECUTABLE, ...env } },
  ];
}

const SERVE = ["serve", "--data", "/mnt/data", "--listen", "127.0.0.1:0"];
const USUAL = "/tmp /var/tmp /dev/shm";
const mountAll = (options: string, directories: string): string =>
  `for d in ${directories}; do mount -t tmpfs -o ${options} tmpfs $d || exit 99; done`;

async function serves([args, options]: [string[], Options]): Promise<void> {
  const server = await start(args, options);
  const response = await fetch(`${server.url}/ready`);
  await response.arrayBuffer();
  assert.is(response.status, 200);
  assert.equal(await server.stop(), { code: 0, signal: null }, server.output());
}

permitted("/tmp without execution", () => serves(hardened(mountAll("noexec", "/tmp"), SERVE)));

permitted("a read-only home", () => serves(hardened(mountAll("ro", "/mnt/home"), SERVE, { HOME: "/mnt/home" })));

permitted("nothing but the data directory can be written", () =>
  serves(hardened(mountAll("ro", `${USUAL} /mnt/home`), SERVE, { HOME: "/mnt/home" })),
);

permitted("nothing but $ASSAY_NATIVE_DIR allows execution", () =>
  serves(
    hardened(`${mountAll("noexec", `${USUAL} /mnt/data`)} && mkdir /mnt/native`, SERVE, {
      ASSAY_NATIVE_DIR: "/mnt/native",
    }),
  ),
);

permitted("no directory will do: one message that names each with its reason", async () => {
  const [args, options] = hardened(`${mountAll("noexec", `${USUAL} /mnt/data`)} && mount -o remount,ro /tmp`, SERVE, {
    TMPDIR: "/nowhere",
  });
  const result = await run(args, options);
  assert.is(result.code, 1, result.stderr);
  const all = result.stdout + result.stderr;
  for (const [directory, reason] of [
    ["/nowhere", "ENOENT"],
    ["/mnt/data", "failed to map segment"],
    ["/dev/shm", "failed to map segment"],
    ["/var/tmp", "failed to map segment"],
    ["/tmp", "EROFS"],
  ] as const) {
    assert.ok(
      all.split("\n").some((line) => line.startsWith(`  ${directory}: `) && line.includes(reason)),
      `${directory}: ${reason} in\n${all}`,
    );
  }
  assert.match(all, "ASSAY_NATIVE_DIR");
});

test.run();
