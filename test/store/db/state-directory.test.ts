/** Directories as systemd lays them out for a service with a dynamic user, by every command that meets them. */
import { mkdirSync, readdirSync, renameSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { findMissingTarget, findPrivateDirectory } from "../../../src/store/db/state-directory.ts";
import { cli, inDirectory } from "../../cli/in-process.ts";

const test = suite("store/db/state-directory");

/** A data directory below private/, the link to it, and a backup of it. */
const installed = (
  body: (paths: { home: string; link: string; real: string; backup: string }) => Promise<void>,
): Promise<void> =>
  inDirectory(async (home) => {
    const [link, real, backup] = [join(home, "assay"), join(home, "private", "assay"), join(home, "backup.tar")];
    mkdirSync(join(home, "private"), { mode: 0o700 });
    assert.is((await cli(["init", "--data", real, "--org", "acme", "--user", "ops"])).code, 0);
    symlinkSync("private/assay", link);
    assert.is((await cli(["backup", backup, "--data", link])).code, 0);
    await body({ home, link, real, backup });
  });

const doctor = async (data: string): Promise<string> =>
  (await cli(["doctor", "--data", data, "--listen", "127.0.0.1:0"])).out.replace(/ +/g, " ");

test("a link to the directory of the service is that directory", () =>
  installed(async ({ link }) => {
    assert.equal(
      { missing: findMissingTarget(link), second: findPrivateDirectory(link) },
      { missing: null, second: null },
    );
    assert.match(await doctor(link), new RegExp(`^ok data directory ${link}\n`));
  }));

test("a link to a directory that was moved away is named with its target, and nothing is created", () =>
  installed(async ({ home, link, real, backup }) => {
    renameSync(real, `${real}.damaged`);
    const words =
      `assay: ${link} is a link to ${real}, which does not exist: move the data back to ${real}, ` +
      `or restore a backup into it with --data ${real}\n`;
    for (const command of [
      ["restore", backup],
      ["verify"],
      ["backup", join(home, "more.tar")],
      ["member", "list", "--org", "acme"],
      ["init", "--org", "acme", "--user", "ops"],
      ["serve", "--listen", "127.0.0.1:0"],
    ])
      assert.equal(
        await cli([...command, "--data", link]).then(({ code, out, err }) => ({ code, out, err })),
        { code: 1, out: "", err: words },
        command.join(" "),
      );
    assert.match(
      await doctor(link),
      `FAIL data directory ${link} is a link to ${real}, which does not exist\n ` +
        `-> move the data back to ${real}, or restore a backup into it: see assay help restore\n`,
    );
    assert.equal(readdirSync(home).sort(), ["assay", "backup.tar", "private"]);
    assert.equal(readdirSync(join(home, "private")), ["assay.damaged"]);
    const restored = await cli(["restore", backup, "--data", real]);
    assert.is(restored.code, 0, restored.err);
    assert.is((await cli(["verify", "--data", link])).code, 0);
  }));

test("a second directory beside the one below private/ is not restored, and doctor finds one that exists", () =>
  installed(async ({ home, link, real, backup }) => {
    renameSync(link, `${link}.damaged`);
    const refused = await cli(["restore", backup, "--data", link]);
    assert.equal(
      { code: refused.code, err: refused.err },
      {
        code: 1,
        err:
          `assay: the data of the service are in ${real}, and systemd starts no service with a second directory ` +
          `${link}: move ${real} aside and restore with --data ${real}\n`,
      },
    );
    assert.equal(readdirSync(home).sort(), ["assay.damaged", "backup.tar", "private"]);
    assert.match(
      await doctor(link),
      `FAIL data directory there is no ${link}; the data of the service are in ${real}\n`,
    );
    assert.is((await cli(["init", "--data", link, "--org", "acme", "--user", "ops"])).code, 0);
    assert.match(
      await doctor(link),
      `FAIL data directory there are two directories, ${link} and ${real}: systemd starts no service with both\n`,
    );
  }));

test("a directory called private that holds something else is none of the service", () =>
  inDirectory(async (home) => {
    mkdirSync(join(home, "private", "assay"), { recursive: true });
    assert.is(findPrivateDirectory(join(home, "assay")), null, "empty");
    assert.is(findPrivateDirectory(join(home, "other")), null);
    assert.is(findMissingTarget(join(home, "other")), null);
  }));

test.run();
