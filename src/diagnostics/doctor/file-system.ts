/**
 * On what kind of file system a directory lies. A database on a network file system is lost sooner or later: the locks
 * that keep two processes from writing at once, and the memory that they share beside the log, do not reach over a
 * network, and a sync may end before anything is on a disk. So the server does not start there unless the operator
 * takes that on.
 */
import type { Check, Machine } from "./check.ts";
import { nearestExisting, fail, realMachine, ok, warn } from "./check.ts";

/** From /proc/self/mountinfo (proc(5)): `type` such as ext4 or nfs4, `source` such as a device or HOST:/PATH. */
export type Mount = { point: string; type: string; source: string; readOnly: boolean };

const NETWORK_TYPES = new Set([
  "nfs",
  "nfs4",
  "cifs",
  "smb3",
  "smbfs",
  "ncpfs",
  "9p",
  "ceph",
  "afs",
  "coda",
  "glusterfs",
  "lustre",
  "beegfs",
  "gpfs",
  "pvfs2",
  "orangefs",
  "ocfs2",
  "gfs2",
  "vboxsf",
  "vmhgfs",
  "prl_fs",
  "davfs",
]);

/** Whether files of that type lie on another machine, or behind a process that may do with them what it likes. */
export const isNetworkFileSystem = (type: string): boolean =>
  NETWORK_TYPES.has(type) || type === "fuse" || type.startsWith("fuse.");

/** By statfs(2), for where there is no mountinfo; FUSE cannot be told from a local file system in user space by it. */
const NETWORK_MAGIC: Readonly<Record<number, string>> = {
  0x6969: "nfs",
  0x517b: "smbfs",
  0xff534d42: "cifs",
  0xfe534d42: "smb3",
  0x564c: "ncpfs",
  0x01021997: "9p",
  0x00c36400: "ceph",
  0x5346414f: "afs",
  0x6b414653: "afs",
  0x73757245: "coda",
  0x0bd00bd0: "lustre",
  0x47504653: "gpfs",
  0x7461636f: "ocfs2",
  0x01161970: "gfs2",
  0x786f4256: "vboxsf",
  0xbacbacbc: "vmhgfs",
  0x65735546: "fuse",
};

/**
 * The mount on which `path` (absolute, without links) lies; null where the text does not say. Of mounts over each other
 * the last counts.
 */
export function findMount(mountinfo: string, path: string): Mount | null {
  let found: Mount | null = null;
  for (const line of mountinfo.split("\n")) {
    const [front = "", back] = line.split(" - ");
    const fields = front.split(" ");
    const [type, source, superOptions] = back?.split(" ") ?? [];
    const [point, options] = [fields[4], fields[5]];
    if (point === undefined || options === undefined || type === undefined) continue;
    const mount: Mount = {
      point: unescaped(point),
      type,
      source: unescaped(source ?? ""),
      readOnly: [options, superOptions ?? ""].some((list) => list.split(",").includes("ro")),
    };
    const holds = mount.point === "/" || path === mount.point || path.startsWith(`${mount.point}/`);
    if (holds && (!found || mount.point.length >= found.point.length)) found = mount;
  }
  return found;
}

/** Blanks and the like are written as \040. */
const unescaped = (text: string): string =>
  text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));

/** The mount on which a directory lies, or will lie once it is made; null where nobody can tell. */
export function findDirectoryMount(
  directory: string,
  { readText: text, fileSystemSpace: space }: Pick<Machine, "readText" | "fileSystemSpace">,
): Mount | null {
  const path = nearestExisting(directory);
  const told = findMount(text("/proc/self/mountinfo") ?? "", path);
  if (told) return told;
  // Negative where the number does not fit into 32 bits with a sign.
  const type = NETWORK_MAGIC[(space(path)?.type ?? 0) >>> 0];
  return type === undefined ? null : { point: path, type, source: "", readOnly: false };
}

/** The data directory lies on a network file system, and nobody allowed that. */
export class NetworkFileSystemError extends Error {
  readonly code = "NETWORK_FILE_SYSTEM";
  constructor(directory: string, mount: Mount) {
    super(
      `the data directory ${directory} lies on a network file system (${describeMount(mount)}), where locks and syncs do not hold what a database needs: ` +
        "move it to a local disk; see assay help troubleshooting for what --network-filesystem allow means",
    );
    this.name = "NetworkFileSystemError";
  }
}

/** For the start of a server. @throws NetworkFileSystemError */
export function refuseNetworkFileSystem(
  directory: string,
  mode: "refuse" | "allow",
  seen: Pick<Machine, "readText" | "fileSystemSpace"> = realMachine,
): void {
  const mount = findDirectoryMount(directory, seen);
  if (mode === "refuse" && mount && isNetworkFileSystem(mount.type)) throw new NetworkFileSystemError(directory, mount);
}

/** Gone when the machine, or the container, is. */
const EPHEMERAL: Readonly<Record<string, string>> = {
  tmpfs: "is in memory: everything is gone after a restart of the machine",
  ramfs: "is in memory: everything is gone after a restart of the machine",
  overlay: "belongs to a container: everything is gone with it",
};

export function checkFileSystem(
  directory: string,
  mode: "refuse" | "allow",
  seen: Pick<Machine, "readText" | "fileSystemSpace">,
): Check {
  const name = "file system";
  const mount = findDirectoryMount(directory, seen);
  if (!mount) return warn(name, "its type cannot be told", "make sure that the data directory lies on a local disk");
  if (mount.readOnly)
    return fail(
      name,
      `${describeMount(mount)} is mounted read-only`,
      "mount it to be written to; after an error of the disk the kernel mounts it so, see the system's log",
    );
  if (isNetworkFileSystem(mount.type)) {
    return mode === "allow"
      ? warn(
          name,
          `${describeMount(mount)} is a network file system, which --network-filesystem allow accepts`,
          "move the data directory to a local disk: locks and syncs of network file systems lose databases",
        )
      : fail(
          name,
          `${describeMount(mount)} is a network file system: the server does not start on it`,
          "move the data directory to a local disk",
        );
  }
  const fleeting = EPHEMERAL[mount.type];
  return fleeting === undefined
    ? ok(name, describeMount(mount))
    : warn(name, `${describeMount(mount)} ${fleeting}`, "give --data a directory on a disk, in a container a volume");
}

const describeMount = ({ type, point, source }: Mount): string =>
  `${type} at ${point}${source === "" || source === type || source === "none" ? "" : ` from ${source}`}`;
