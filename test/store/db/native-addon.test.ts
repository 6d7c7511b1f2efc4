import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { copyDirectories, loadAddon, loadPrivateCopy } from "../../../src/store/db/native-addon.ts";

const addon = suite<{ directory: string }>("store/db/native-addon");

addon.before.each((context) => {
  context.directory = mkdtempSync(join(tmpdir(), "assay-test-"));
});
addon.after.each(({ directory }) => rmSync(directory, { recursive: true, force: true }));

/** The result of a worker that requests the write lock while the main thread holds it. */
function askInWorker(mode: "shared" | "copied" | "worker-only", directory: string): string {
  const probe = join(import.meta.dirname, "addon-probe.ts");
  const result = spawnSync(process.execPath, [probe, mode, join(directory, "probe.db")], { encoding: "utf8" });
  assert.is(result.stderr, "");
  return result.stdout.trim();
}

addon("a worker does not get the write lock that the main thread holds", ({ directory }) => {
  assert.is(askInWorker("shared", directory), "SQLITE_BUSY");
});

addon("nor does it when both use the unlinked private copy", ({ directory }) => {
  assert.is(askInWorker("copied", directory), "SQLITE_BUSY");
  assert.equal(
    readdirSync(directory).filter((name) => name.startsWith(".assay-native")),
    [],
  );
});

addon("a worker refuses to load what the main thread did not load", ({ directory }) => {
  assert.is(
    askInWorker("worker-only", directory),
    "Error: the main thread must load the SQLite addon before it starts a worker that opens a database",
  );
});

addon("is loaded once", () => {
  assert.is(loadAddon(), loadAddon(tmpdir()));
});

addon("directories are tried in order, each once, unset ones not at all", () => {
  assert.equal(copyDirectories({}, null), ["/dev/shm", "/var/tmp", "/tmp"]);
  assert.equal(copyDirectories({ ASSAY_NATIVE_DIR: "/n", TMPDIR: "/tmp", XDG_RUNTIME_DIR: "" }, "/data"), [
    "/n",
    "/tmp",
    "/data",
    "/dev/shm",
    "/var/tmp",
  ]);
});

addon(
  "an image that cannot be loaded is refused with every directory and its reason, and leaves nothing",
  ({ directory }) => {
    const [empty, missing] = [join(directory, "empty"), join(directory, "missing")];
    mkdirSync(empty);
    assert.throws(
      () => loadPrivateCopy(Buffer.from("not an addon"), [missing, empty]),
      (error: Error) => {
        const [first, second, third, fourth, last] = error.message.split("\n");
        assert.is(
          first,
          "cannot load the built-in SQLite library: it must be written to a directory that is writable " +
            "and not mounted noexec.",
        );
        assert.is(second, "These were tried:");
        assert.ok(third?.startsWith(`  ${missing}: it, or a directory above it, does not exist (ENOENT)`), third);
        assert.ok(fourth?.startsWith(`  ${empty}: /proc/self/fd/`) && fourth.endsWith("file too short"), fourth);
        assert.is(last, "Set ASSAY_NATIVE_DIR to a directory that will do; nothing stays in it.");
        return true;
      },
    );
    assert.equal(readdirSync(empty), []);
  },
);

addon.run();
