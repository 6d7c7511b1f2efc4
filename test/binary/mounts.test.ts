// The executable on hardened machines: temporary directories mounted noexec, read-only file systems.
//
// Each test mounts in its own mount namespace, where the mounts end with the process. The namespace hides the usual
// temporary directories, and the executable may itself be below one of them; so it is opened before mounting and run
// through that descriptor.

import { spawnSync } from "node:child_process";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { EXECUTABLE, type Options, run, start } from "./executable.ts";

const PATH = "/usr/sbin:/usr/bin:/sbin:/bin";

// Root may create a mount namespace; other users may where user namespaces are allowed. Containers often allow neither.
const namespace = [["-m"], ["-r", "-m"]].find(
  (flags) =>
    spawnSync("unshare", [...flags, "mount", "-t", "tmpfs", "-o", "noexec", "tmpfs", "/tmp"], { env: { PATH } })
      .status === 0,
);

const test = suite("binary/mounts");
const testMounts = namespace === undefined ? test.skip : test;
if (namespace === undefined) console.log("skipped: this process may not create a mount namespace (unshare -m)");

/**
 * The arguments for running `assay args` in a namespace after `script`; /mnt is an ordinary writable directory there.
 */
function inNamespace(script: string, args: readonly string[], env: Record<string, string> = {}): [string[], Options] {
  const shell = `exec 9<"$EXECUTABLE" && mount -t tmpfs tmpfs /mnt && mkdir /mnt/home /mnt/data && ${script} &&
    unset EXECUTABLE && exec /proc/self/fd/9 "$@"`;
  return [
    [...(namespace ?? []), "sh", "-c", shell, "assay", ...args],
    { executable: "/usr/bin/unshare", env: { PATH, EXECUTABLE, ...env } },
  ];
}

const SERVE = ["serve", "--data", "/mnt/data", "--listen", "127.0.0.1:0"];
const TEMPORARY = "/tmp /var/tmp /dev/shm";
const mountAll = (options: string, directories: string): string =>
  `for d in ${directories}; do mount -t tmpfs -o ${options} tmpfs $d || exit 99; done`;

async function expectServes([args, options]: [string[], Options]): Promise<void> {
  const server = await start(args, options);
  const response = await fetch(`${server.url}/ready`);
  await response.arrayBuffer();
  assert.is(response.status, 200);
  assert.equal(await server.stop(), { code: 0, signal: null }, server.output());
}

testMounts("serves with /tmp mounted noexec", () => expectServes(inNamespace(mountAll("noexec", "/tmp"), SERVE)));

testMounts("serves with a read-only home", () =>
  expectServes(inNamespace(mountAll("ro", "/mnt/home"), SERVE, { HOME: "/mnt/home" })),
);

testMounts("serves when only the data directory is writable", () =>
  expectServes(inNamespace(mountAll("ro", `${TEMPORARY} /mnt/home`), SERVE, { HOME: "/mnt/home" })),
);

testMounts("serves when only $ASSAY_NATIVE_DIR allows execution", () =>
  expectServes(
    inNamespace(`${mountAll("noexec", `${TEMPORARY} /mnt/data`)} && mkdir /mnt/native`, SERVE, {
      ASSAY_NATIVE_DIR: "/mnt/native",
    }),
  ),
);

testMounts("when no directory is usable it fails with one message that names each directory and reason", async () => {
  const [args, options] = inNamespace(
    `${mountAll("noexec", `${TEMPORARY} /mnt/data`)} && mount -o remount,ro /tmp`,
    SERVE,
    {
      TMPDIR: "/nowhere",
    },
  );
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
