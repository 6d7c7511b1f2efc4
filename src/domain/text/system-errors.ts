/**
 * Errors of the operating system about files, and of SQLite about its database, in words: what was attempted, on which
 * path, why it failed, and what to do. Everything that an operator reads about a file goes through here.
 */

/** Why, as the end of a sentence, and what the operator can do. */
type Reason = readonly [why: string, remedy: string];

const CHECK_PATH = "check the path";
const FREE_SPACE = "free some space, or use another disk";
const CHECK_DISK = "check the disk and the kernel log (dmesg)";
const CHECK_OWNER = "check the owner and the mode of it and of the directories above it";

const SYSTEM_REASONS: Readonly<Record<string, Reason>> = {
  EACCES: ["this user has no permission", CHECK_OWNER],
  EAGAIN: ["it is in use at the moment", "try again"],
  EBUSY: ["it is in use", "stop what uses it, or give another path"],
  EDQUOT: ["the disk quota of this user is used up", "free some space, or raise the quota"],
  EEXIST: ["something else has that name", "move it away, or give another path"],
  EFBIG: [
    "the file would be larger than this file system or this process may have",
    "use another disk, or raise ulimit -f",
  ],
  EINVAL: ["the file system does not support this", "use another path"],
  EIO: ["the disk reported an input or output error", CHECK_DISK],
  EISDIR: ["it is a directory", "give the path of a file"],
  ELOOP: ["the path leads through too many symbolic links", CHECK_PATH],
  EMFILE: ["this process has too many open files", "raise its limit (LimitNOFILE= of a unit, or ulimit -n)"],
  EMLINK: ["it has too many links", "use another path"],
  ENAMETOOLONG: ["the path, or a name in it, is too long", "give a shorter one"],
  ENFILE: ["this machine has too many open files", "raise the limit fs.file-max"],
  ENODEV: ["its device is not there", CHECK_DISK],
  ENOENT: ["it, or a directory above it, does not exist", CHECK_PATH],
  ENOMEM: ["the machine has no memory left", "free some memory"],
  ENOSPC: ["no space is left on the disk", FREE_SPACE],
  ENOTDIR: ["a part of the path is not a directory", CHECK_PATH],
  ENOTEMPTY: ["the directory is not empty", "move its content away, or give another path"],
  ENOTSUP: ["the file system does not support this", "use another path"],
  ENXIO: ["its device is not there", CHECK_DISK],
  EOPNOTSUPP: ["the file system does not support this", "use another path"],
  EPERM: [
    "the system does not permit it",
    `${CHECK_OWNER}, its attributes (lsattr), and the restrictions of the service`,
  ],
  EROFS: ["the file system is mounted read-only", "mount it for writing, or give another path"],
  ESTALE: ["the network file system has lost it", "mount it again"],
  ETXTBSY: ["the program in it is running", "stop it first"],
  EXDEV: ["both are on different file systems", "put them on one"],
};

/** By the primary code of SQLite; damage has errors of its own. */
const SQLITE_REASONS: Readonly<Record<string, Reason>> = {
  SQLITE_BUSY: ["another process is writing to it", "try again"],
  SQLITE_CANTOPEN: ["it, or a file beside it, cannot be opened", CHECK_OWNER],
  SQLITE_FULL: SYSTEM_REASONS["ENOSPC"] as Reason,
  SQLITE_IOERR: ["the disk reported an error, or has no space left", `free some space, or ${CHECK_DISK}`],
  SQLITE_LOCKED: ["another connection is writing to it", "try again"],
  SQLITE_NOMEM: SYSTEM_REASONS["ENOMEM"] as Reason,
  SQLITE_PERM: SYSTEM_REASONS["EACCES"] as Reason,
  SQLITE_READONLY: ["this user may only read it, or its directory", `${CHECK_OWNER}, or use the user of the server`],
};

/** System calls on files -> what they attempt, before the path. Others, such as `connect`, are not about files. */
const ATTEMPTS: Readonly<Record<string, string>> = {
  access: "access",
  chmod: "change the mode of",
  chown: "change the owner of",
  close: "close",
  copyfile: "copy",
  fchmod: "change the mode of",
  fchown: "change the owner of",
  fdatasync: "write to",
  fstat: "examine",
  fsync: "write to",
  ftruncate: "shorten",
  futime: "change the times of",
  lchown: "change the owner of",
  link: "link",
  lstat: "examine",
  mkdir: "create the directory",
  mkdtemp: "create the directory",
  open: "open",
  opendir: "list",
  read: "read",
  readlink: "read the link",
  realpath: "examine",
  rename: "rename",
  rm: "remove",
  rmdir: "remove the directory",
  scandir: "list",
  stat: "examine",
  statfs: "examine the file system of",
  symlink: "create the link",
  unlink: "remove",
  utime: "change the times of",
  write: "write to",
};

type SystemError = { code?: unknown; syscall?: unknown; path?: unknown; dest?: unknown };

const withCode = ([why, remedy]: Reason, code: string): string => `${why} (${code}); ${remedy}`;

/** The reason of an error of the system or of SQLite; null for others. Ours have such codes too, but no `syscall`. */
function findReason(error: unknown): string | null {
  const { code, syscall } = (error ?? {}) as SystemError;
  if (typeof code !== "string" || (typeof syscall !== "string" && !code.startsWith("SQLITE_"))) return null;
  const reason = SYSTEM_REASONS[code] ?? SQLITE_REASONS[/^SQLITE_[A-Z]+/.exec(code)?.[0] ?? ""];
  return reason === undefined ? null : withCode(reason, code);
}

/**
 * Why an operation on a file or a database failed, and what to do, as the rest of a sentence that names both:
 * `cannot read NAME: ...`. For any other error its message.
 */
export const causeOf = (error: unknown): string => findReason(error) ?? textOf(error);

/** What an operator reads about an error: a sentence about the file or database, or the message of any other error. */
export function messageOf(error: unknown): string {
  const { code, syscall, path, dest } = (error ?? {}) as SystemError;
  const reason = findReason(error);
  if (reason === null) return textOf(error);
  if (String(code).startsWith("SQLITE_"))
    return `cannot use the database${typeof path === "string" ? ` ${path}` : ""}: ${reason}`;
  const attempt = ATTEMPTS[String(syscall)];
  if (attempt === undefined) return textOf(error);
  const target = typeof dest === "string" ? ` to ${dest}` : "";
  return `cannot ${attempt} ${typeof path === "string" ? path : "a file"}${target}: ${reason}`;
}

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/**
 * Adds the path to an error that has none: of a call on a descriptor, or of SQLite. Returns the error, for a `throw`.
 */
export function withPath(error: unknown, path: string): unknown {
  if (error instanceof Error && findReason(error) !== null && !("path" in error)) Object.assign(error, { path });
  return error;
}

/** `withPath` for a promise. */
export const onPath = <T>(path: string, work: Promise<T>): Promise<T> =>
  work.catch((error: unknown) => {
    throw withPath(error, path);
  });

/** `withPath` for synchronous work. */
export function onPathSync<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw withPath(error, path);
  }
}
