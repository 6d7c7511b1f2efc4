/** Commands that root runs on the data of a server with a user of its own: all they create belongs to that user. */
import { chownSync, lstatSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startStorage } from "../../evidence/s3-server.ts";
import { place } from "../../upgrades/fixture.ts";
import { DIGESTS, onData } from "./evidence-given.ts";
import { cli, inDirectory } from "../in-process.ts";

const SERVER = 12_345;
const isRoot = process.getuid?.() === 0;
const all = suite("cli/commands/owner");
const test = isRoot ? all : all.skip;
if (!isRoot) console.log("skipped: only root can give files to another user");

/** Everything in a data directory, and the directory itself, that is not of the server. */
const foreignIn = (data: string): string[] =>
  [".", ...(readdirSync(data, { recursive: true }) as string[])].filter(
    (name) => lstatSync(join(data, name)).uid !== SERVER,
  );

function giveToServer(data: string): void {
  for (const name of [".", ...(readdirSync(data, { recursive: true }) as string[])])
    chownSync(join(data, name), SERVER, SERVER);
}

test("backups, changes and locks leave nothing of root", () =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    assert.is((await cli(["init", "--org", "acme", "--user", "ops", "--data", data])).code, 0);
    giveToServer(data);
    for (const argv of [
      ["backup", join(directory, "backup.tar")],
      ["backup", "-"],
      ["user", "create", "ann"],
      ["user", "list"],
      ["verify"],
      ["vacuum"],
      ["doctor", "--listen", "127.0.0.1:0"],
    ]) {
      // Those that a server has not made yet.
      for (const name of ["assay.lock", "evidence.lock", "assay.commits"]) rmSync(join(data, name), { force: true });
      const { code, err } = await cli([...argv, "--data", data]);
      assert.is(code, 0, `${argv.join(" ")}: ${err}`);
      assert.equal(foreignIn(data), [], argv.join(" "));
    }
  }));

test("an upgrade leaves nothing of root", () =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    place(3, data);
    mkdirSync(join(data, "staging"), { recursive: true });
    giveToServer(data);
    assert.is((await cli(["member", "list", "--org", "acme", "--data", data])).code, 0);
    assert.ok(readdirSync(join(data, "backups")).some((name) => name.startsWith("assay-schema-3-")));
    assert.equal(foreignIn(data), []);
  }));

test("evidence that is moved to the directory belongs to the server", async () => {
  const storage = await startStorage();
  try {
    await onData(storage, async ({ directory, place, vault }) => {
      const done = async (...argv: string[]): Promise<void> => {
        const { code, err } = await vault(...argv);
        assert.is(code, 0, `${argv.join(" ")}: ${err}`);
      };
      await done("migrate", "--to", place, "--remove-source");
      rmSync(join(directory, "evidence"), { recursive: true });
      giveToServer(directory);
      // A run that was killed between the creation of a directory and its change of owner.
      mkdirSync(join(directory, "evidence"));
      chownSync(join(directory, "evidence"), SERVER, SERVER);
      mkdirSync(join(directory, "evidence", (DIGESTS[0] as string).slice(0, 2)));
      for (const command of ["copy", "migrate"]) {
        await done(command, "--to", "directory");
        assert.equal(foreignIn(directory), [], command);
      }
      assert.is((readdirSync(join(directory, "evidence"), { recursive: true }) as string[]).length, 2 * DIGESTS.length);
    });
  } finally {
    await storage.stop();
  }
});

all.run();
