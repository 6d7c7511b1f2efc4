/** Errors about files and databases in words: what was attempted, where, why, and what to do. */
import { mkdirSync, mkdtempSync, openSync, readFileSync, renameSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { messageOf, onPath, onPathSync, causeOf, withPath } from "../../../src/domain/text/system-errors.ts";

const test = suite("domain/text/system-errors");
let directory = "";
test.before(() => {
  directory = mkdtempSync(join(tmpdir(), "assay-errors-"));
  writeFileSync(join(directory, "file"), "");
});
test.after(() => rmSync(directory, { recursive: true }));

const errorOf = (work: () => unknown): unknown => {
  try {
    work();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
};
/** An error as Node makes them. */
const systemError = (code: string, syscall: string, more: object = {}): Error =>
  Object.assign(new Error(`${code}: bare words, ${syscall}`), { code, syscall, ...more });

test("errors of Node name the attempt, the path, the reason and a remedy", () => {
  const at = (name: string): string => join(directory, name);
  for (const [work, expected] of [
    [() => mkdirSync(at("file")), `cannot create the directory ${at("file")}: something else has that name (EEXIST)`],
    [() => openSync(at("none/x"), "r"), `cannot open ${at("none/x")}: it, or a directory above it, does not exist`],
    [() => openSync(at("file/x"), "r"), `cannot open ${at("file/x")}: a part of the path is not a directory (ENOTDIR)`],
    [
      () => openSync(at("x".repeat(300)), "r"),
      `: the path, or a name in it, is too long (ENAMETOOLONG); give a shorter`,
    ],
    [
      () => renameSync(at("none"), at("other")),
      `cannot rename ${at("none")} to ${at("other")}: it, or a directory above it, does not exist (ENOENT); check`,
    ],
    [
      () => onPathSync("/a", () => readFileSync(directory)),
      "cannot read /a: it is a directory (EISDIR); give the path of",
    ],
  ] as const) {
    const message = messageOf(errorOf(work));
    assert.ok(message.includes(expected), message);
  }
});

for (const [code, expected] of [
  ["ENOSPC", "no space is left on the disk (ENOSPC); free some space, or use another disk"],
  ["EDQUOT", "the disk quota of this user is used up (EDQUOT); free some space, or raise the quota"],
  [
    "EACCES",
    "this user has no permission (EACCES); check the owner and the mode of it and of the directories above it",
  ],
  ["EROFS", "the file system is mounted read-only (EROFS); mount it for writing, or give another path"],
  ["EIO", "the disk reported an input or output error (EIO); check the disk and the kernel log (dmesg)"],
  ["EMFILE", "this process has too many open files (EMFILE); raise its limit (LimitNOFILE= of a unit, or ulimit -n)"],
  ["EXDEV", "both are on different file systems (EXDEV); put them on one"],
] as const)
  test(`has words for ${code}`, () => {
    const error = systemError(code, "open", { path: "/data/a" });
    assert.is(causeOf(error), expected);
    assert.is(messageOf(error), `cannot open /data/a: ${expected}`);
  });

test("every code has a reason without its name, and a remedy", () => {
  for (const code of ["EPERM", "ENOTEMPTY", "EFBIG", "ELOOP", "EBUSY", "ENODEV", "ESTALE", "ENFILE", "EINVAL"]) {
    const message = messageOf(systemError(code, "write", { path: "/data/a" }));
    assert.match(message, new RegExp(`^cannot write to /data/a: [^;]*[a-z][^;]* \\(${code}\\); [a-z]`));
  }
});

test("errors of SQLite name the database", () => {
  const error = withPath(
    Object.assign(new Error("database or disk is full"), { code: "SQLITE_FULL" }),
    "/data/assay.db",
  );
  assert.is(
    messageOf(error),
    "cannot use the database /data/assay.db: no space is left on the disk (SQLITE_FULL); free some space, or use " +
      "another disk",
  );
  assert.match(
    messageOf(Object.assign(new Error("disk I/O error"), { code: "SQLITE_IOERR_SHMSIZE" })),
    /^cannot use the database: the disk reported an error, or has no space left \(SQLITE_IOERR_SHMSIZE\); free/,
  );
});

test("an error without a path gets that of the descriptor, and one with a path keeps it", async () => {
  const full = errorOf(() => onPathSync("/data/a", () => writeSync(-1, "x")));
  assert.instance(full, Error);
  const error = withPath(systemError("ENOSPC", "write"), "/data/a");
  assert.match(messageOf(error), /^cannot write to \/data\/a: no space/);
  assert.match(messageOf(withPath(error, "/other")), /^cannot write to \/data\/a: /);
  assert.match(messageOf(systemError("ENOSPC", "write")), /^cannot write to a file: no space/);
  const rejected = await onPath("/data/b", Promise.reject(systemError("EIO", "read"))).catch((failure) => failure);
  assert.match(messageOf(rejected), /^cannot read \/data\/b: the disk reported/);
});

test("other errors keep their message", () => {
  for (const error of [
    new Error("in words"),
    systemError("ECONNREFUSED", "connect", { address: "127.0.0.1" }),
    systemError("EACCES", "listen"),
    // Errors of ours have such codes and a message in words.
    Object.assign(new Error("in words"), { code: "ENOENT" }),
    Object.assign(new Error("in words"), { code: "SQLITE_CONSTRAINT" }),
  ]) {
    assert.is(messageOf(error), error.message);
    if (!("syscall" in error)) assert.is(causeOf(withPath(error, "/data/a")), error.message);
  }
  assert.is(messageOf("text"), "text");
  assert.is(messageOf(null), "null");
  assert.is(causeOf(undefined), "undefined");
});

test.run();
