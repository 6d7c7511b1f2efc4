/** Detecting network file systems from mountinfo texts of kernels, and refusing to start on them. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { runServer } from "../../../src/cli/commands/serve.ts";
import { parseArguments } from "../../../src/cli/args.ts";
import type { Io } from "../../../src/cli/framework.ts";
import {
  checkFileSystem,
  isNetworkFileSystem,
  findMount,
  findDirectoryMount,
  NetworkFileSystemError,
  refuseNetworkFileSystem,
} from "../../../src/diagnostics/doctor/file-system.ts";
import { inDirectory } from "../../cli/in-process.ts";

const test = suite("diagnostics/doctor/file-system");

const MOUNTS = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
25 22 0:22 / /proc rw,nosuid shared:9 - proc proc rw
40 22 0:40 / /srv rw,relatime shared:20 - nfs4 filer.example.com:/export rw,vers=4.2,addr=10.0.0.9
41 40 254:16 / /srv/local rw,relatime shared:21 - xfs /dev/vdb rw
42 22 0:42 / /mnt/with\\040blank rw - cifs //filer/share rw
43 22 0:43 / /home/ada rw shared:30 - fuse.sshfs ada@host:/home rw
44 22 254:32 / /readonly ro,relatime shared:31 - ext4 /dev/vdc rw
45 22 0:45 / /twice rw - tmpfs tmpfs rw
46 22 0:46 / /twice rw - 9p share rw
47 22 0:47 / /broken rw - ext4 /dev/vdd ro
48 22 0:48 / /disk rw - fuseblk /dev/vde rw
`;

test("finds the longest mount that contains a path, and the last of several at one point", () => {
  const type = (path: string): string | undefined => findMount(MOUNTS, path)?.type;
  assert.equal(
    [
      "/",
      "/var/lib/assay",
      "/srv",
      "/srv/data",
      "/srv/local/data",
      "/srvlocal",
      "/mnt/with blank/x",
      "/home/ada/data",
      "/twice/x",
    ].map(type),
    ["ext4", "ext4", "nfs4", "nfs4", "xfs", "ext4", "cifs", "fuse.sshfs", "9p"],
  );
  assert.equal(findMount(MOUNTS, "/srv/data"), {
    point: "/srv",
    type: "nfs4",
    source: "filer.example.com:/export",
    readOnly: false,
  });
  assert.is(findMount(MOUNTS, "/readonly/x")?.readOnly, true);
  assert.is(findMount(MOUNTS, "/broken/x")?.readOnly, true, "the options of the file system count too");
  assert.is(findMount("", "/x"), null);
  assert.is(findMount("nonsense\n- - -\n", "/x"), null);
});

test("recognizes network file systems by their type", () => {
  for (const type of [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "fuse",
    "fuse.sshfs",
    "fuse.glusterfs",
    "fuse.s3fs",
    "9p",
    "ceph",
    "afs",
    "lustre",
    "glusterfs",
  ])
    assert.ok(isNetworkFileSystem(type), type);
  for (const type of ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "fuseblk", "f2fs", "nfsd"])
    assert.not.ok(isNetworkFileSystem(type), type);
});

/** A machine on which every path is on a file system of that type. */
const on = (type: string, options = "rw") => ({
  readText: (path: string) =>
    path === "/proc/self/mountinfo" ? `22 1 0:1 / / ${options} - ${type} source rw\n` : null,
  fileSystemSpace: () => null,
});
const withMagic = (type: number) => ({
  readText: () => null,
  fileSystemSpace: () => ({ type, size: 0, free: 0, files: 0, freeFiles: 0 }),
});

test("without mountinfo, uses the magic number of statfs", () => {
  assert.is(findDirectoryMount("/", withMagic(0x6969))?.type, "nfs");
  assert.is(findDirectoryMount("/", withMagic(0xff534d42 | 0))?.type, "cifs", "also where the number came with a sign");
  assert.is(findDirectoryMount("/", withMagic(0xef53)), null);
});

test("doctor reports read-only, network and ephemeral file systems", () => {
  const says = (type: string, mode: "refuse" | "allow" = "refuse", options = "rw") => {
    const { level, found } = checkFileSystem("/var/lib/assay", mode, on(type, options));
    return `${level}: ${found}`;
  };
  assert.is(says("ext4"), "ok: ext4 at / from source");
  assert.is(says("nfs4"), "fail: nfs4 at / from source is a network file system: the server refuses to start on it");
  assert.match(
    says("nfs4", "allow"),
    /^warn: nfs4 at \/ from source is a network file system, which --network-filesystem allow accepts$/,
  );
  assert.match(says("ext4", "refuse", "ro"), /^fail: .* is mounted read-only$/);
  assert.match(says("overlay"), /^warn: overlay at \/ from source belongs to a container/);
  assert.match(says("tmpfs"), /^warn: tmpfs at \/ from source is in memory/);
  assert.is(checkFileSystem("/", "refuse", { readText: () => null, fileSystemSpace: () => null }).level, "warn");
});

test("a directory that does not exist yet is on the file system of its nearest parent", () => {
  refuseNetworkFileSystem("/no/such/place", "refuse", on("ext4"));
  refuseNetworkFileSystem("/no/such/place", "allow", on("nfs"));
  assert.throws(
    () => refuseNetworkFileSystem("/no/such/place", "refuse", on("nfs")),
    (error: Error) =>
      error instanceof NetworkFileSystemError &&
      /^the data directory \/no\/such\/place is on a network file system \(nfs at \/ from source\)/.test(error.message),
  );
});

test("a server refuses to start on a network file system, and leaves nothing behind", () =>
  inDirectory(async (home) => {
    const data = join(home, "data");
    const io = {
      stdout: () => undefined,
      stderr: () => undefined,
      env: {},
      cwd: home,
      onCrash: () => undefined,
      onSignal: () => undefined,
      pid: 1,
      forget: () => undefined,
      stopRequested: () => Promise.resolve("SIGTERM"),
    } as unknown as Io;
    const accepts = { options: {}, takesConfig: true, positionals: { min: 0, max: 0, names: [] } };
    const args = (...more: string[]) =>
      parseArguments(["--data", data, "--listen", "127.0.0.1:0", ...more], accepts).args;
    await runServer(args(), io, { checkResponses: false, machine: on("nfs4") }).then(
      () => assert.unreachable("it should not start"),
      (error: unknown) => assert.instance(error, NetworkFileSystemError),
    );
    assert.not.ok(existsSync(data));
    assert.is(
      await runServer(args("--network-filesystem", "allow"), io, { checkResponses: false, machine: on("nfs4") }),
      0,
    );
    assert.ok(existsSync(join(data, "assay.db")));
  }));

test.run();
