/**
 * The file system of a directory. A database on a network file system is lost sooner or later: the locks that keep two
 * processes from writing at once, and the memory that they share beside the log, do not work across a network, and a
 * sync may return before the data is on a disk. So the server refuses to start there unless the operator accepts that.
 */
import type { Check, Machine } from "./check.ts";
import { nearestExisting, fail, realMachine, ok, warn } from "./check.ts";

/** From /proc/self/mountinfo (proc(5)): `type` such as ext4 or nfs4, `source` such as a device or HOST:/PATH. */
type Mount = { point: string; type: string; source: string; readOnly: boolean };

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

/** Whether files on that type are on another machine, or behind a user-space process that may handle them freely. */
export const isNetworkFileSystem = (type: string): boolean =>
  NETWORK_TYPES.has(type) || type === "fuse" || type.startsWith("fuse.");

/** Types by statfs(2), where there is no mountinfo. They do not distinguish network from local FUSE file systems. */
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

/** The mount that contains `path` (absolute, without links); the last one of several at the same point. */
export function findMount(mountinfo: string, path: string): Mount | null {
  let best: Mount | null = null;
  for (const line of mountinfo.split("\n")) {
    const [front = "", back] = line.split(" - ");
    const fields = front.split(" ");
    const [type, source, superOptions] = back?.split(" ") ?? [];
    const [point, options] = [fields[4], fields[5]];
    if (point === undefined || options === undefined || type === undefined) continue;
    const mount: Mount = {
      point: decodeOctal(point),
      type,
      source: decodeOctal(source ?? ""),
      readOnly: [options, superOptions ?? ""].some((list) => list.split(",").includes("ro")),
    };
    const contains = mount.point === "/" || path === mount.point || path.startsWith(`${mount.point}/`);
    if (contains && (!best || mount.point.length >= best.point.length)) best = mount;
  }
  return best;
}

/** mountinfo escapes blanks and the like as \040. */
const decodeOctal = (text: string): string =>
  text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));

/** The mount that contains a directory, or will contain it once it is created; null where it is unknown. */
export function findDirectoryMount(
  directory: string,
  { readText, fileSystemSpace }: Pick<Machine, "readText" | "fileSystemSpace">,
): Mount | null {
  const path = nearestExisting(directory);
  const mount = findMount(readText("/proc/self/mountinfo") ?? "", path);
  if (mount) return mount;
  // The number is negative where it does not fit into 31 bits.
  const type = NETWORK_MAGIC[(fileSystemSpace(path)?.type ?? 0) >>> 0];
  return type === undefined ? null : { point: path, type, source: "", readOnly: false };
}

/** The data directory is on a network file system, which the configuration does not allow. */
export class NetworkFileSystemError extends Error {
  readonly code = "NETWORK_FILE_SYSTEM";
  constructor(directory: string, mount: Mount) {
    super(
      `the data directory ${directory} is on a network file system (${describeMount(mount)}), ` +
        "whose locks and syncs are not reliable enough for a database: move it to a local disk; " +
        "see assay help troubleshooting for what --network-filesystem allow means",
    );
    this.name = "NetworkFileSystemError";
  }
}

/** Called at the start of a server. @throws NetworkFileSystemError */
export function refuseNetworkFileSystem(
  directory: string,
  mode: "refuse" | "allow",
  machine: Pick<Machine, "readText" | "fileSystemSpace"> = realMachine,
): void {
  const mount = findDirectoryMount(directory, machine);
  if (mode === "refuse" && mount && isNetworkFileSystem(mount.type)) throw new NetworkFileSystemError(directory, mount);
}

/** File systems whose content is lost with the machine's power or with the container. */
const EPHEMERAL: Readonly<Record<string, string>> = {
  tmpfs: "is in memory: a restart of the machine deletes everything",
  ramfs: "is in memory: a restart of the machine deletes everything",
  overlay: "belongs to a container: removing the container deletes everything",
};

export function checkFileSystem(
  directory: string,
  mode: "refuse" | "allow",
  machine: Pick<Machine, "readText" | "fileSystemSpace">,
): Check {
  const name = "file system";
  const mount = findDirectoryMount(directory, machine);
  if (!mount) return warn(name, "its type is unknown", "make sure that the data directory is on a local disk");
  if (mount.readOnly)
    return fail(
      name,
      `${describeMount(mount)} is mounted read-only`,
      "mount it read-write; the kernel remounts a file system read-only after a disk error, see the system log",
    );
  if (isNetworkFileSystem(mount.type)) {
    return mode === "allow"
      ? warn(
          name,
          `${describeMount(mount)} is a network file system, which --network-filesystem allow accepts`,
          "move the data directory to a local disk: the locks and syncs of network file systems destroy databases",
        )
      : fail(
          name,
          `${describeMount(mount)} is a network file system: the server refuses to start on it`,
          "move the data directory to a local disk",
        );
  }
  const loss = EPHEMERAL[mount.type];
  return loss === undefined
    ? ok(name, describeMount(mount))
    : warn(name, `${describeMount(mount)} ${loss}`, "set --data to a directory on a disk; in a container, on a volume");
}

function describeMount({ type, point, source }: Mount): string {
  const hasSource = source !== "" && source !== type && source !== "none";
  return `${type} at ${point}${hasSource ? ` from ${source}` : ""}`;
}
