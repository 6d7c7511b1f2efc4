import { mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { keyDigest } from "../../../src/store/accounts/api-keys.ts";
import { lockDirectory } from "../../../src/store/db/data-directory-lock.ts";
import { auditOf, cli, countRows, inDirectory, look } from "../in-process.ts";

const test = suite("cli/commands/init");

test("creates the organization, its admin, a personal organization and a key, and prints only the key to stdout", () =>
  inDirectory(async (directory) => {
    const data = join(directory, "deep", "data");
    const { code, out, err } = await cli([
      "init",
      "--data",
      data,
      "--org",
      "acme",
      "--user",
      "ops",
      "--email",
      "ops@example.com",
      "--display-name",
      "Operations",
    ]);
    assert.is(code, 0, err);
    assert.match(out, /^[\w-]{43}\n$/);
    assert.is(err, `created organization acme with admin ops in ${data}; this API key is not shown again:\n`);
    assert.is(statSync(data).mode & 0o777, 0o700);
    assert.equal(readdirSync(data).sort(), ["assay.commits", "assay.db", "assay.lock", "evidence", "staging"]);
    look(data, (store) => {
      const user = store.users.find("ops");
      assert.is(store.apiKeys.findHolder(keyDigest(out.trim()))?.user_id, user?.id);
      assert.equal(
        { display_name: user?.display_name, email: user?.email },
        { display_name: "Operations", email: "ops@example.com" },
      );
      assert.equal(
        store.organizations
          .list()
          .map(({ id, name, kind, is_public, controls_enabled }) => [
            name,
            kind,
            is_public,
            controls_enabled,
            store.organizations.findRole(id, user?.id ?? 0),
          ]),
        [
          ["acme", "shared", 0, 1, "admin"],
          ["ops", "personal", 0, 1, "admin"],
        ],
      );
    });
    assert.equal(auditOf(data), [
      'init user.created ops {"display_name":"Operations","email":"ops@example.com"}',
      'init organization.created ops {"kind":"personal","public":false,"controls":true}',
      'init member.added ops {"role":"admin"}',
      'init organization.created acme {"kind":"shared","public":false,"controls":true}',
      'init member.added ops {"role":"admin"}',
      'init api_key.created - {"user":"ops","key_id":ID,"description":"first key","expires_at":0}',
    ]);
  }));

test("--json prints one object", () =>
  inDirectory(async (data) => {
    const { code, out, err } = await cli(["init", "--json", "--data", data, "--org", "acme", "--user", "ops"]);
    assert.is(code, 0, err);
    const { key, ...rest } = JSON.parse(out);
    assert.equal(rest, { organization: "acme", user: "ops" });
    assert.match(key, /^[\w-]{43}$/);
    assert.is(err, "");
  }));

test("refuses to run twice", () =>
  inDirectory(async (data) => {
    await cli(["init", "--data", data, "--org", "acme", "--user", "ops"]);
    const before = countRows(data);
    for (const org of ["acme", "other"]) {
      assert.equal(await cli(["init", "--data", data, "--org", org, "--user", "eve"]), {
        code: 1,
        out: "",
        err: `assay: ${data} is already set up; see assay help apply and assay help key\n`,
      });
    }
    assert.equal(countRows(data), before);
  }));

test("does not create the schema while another process uses the directory", () =>
  inDirectory(async (data) => {
    const lock = lockDirectory(data);
    const refused = await cli(["init", "--data", data, "--org", "acme", "--user", "ops"]);
    assert.equal({ code: refused.code, out: refused.out }, { code: 4, out: "" });
    assert.match(refused.err, `assay: the data directory ${data} is in use by another Assay process`);
    lock.release();
    assert.is((await cli(["init", "--data", data, "--org", "acme", "--user", "ops"])).code, 0);
  }));

test("reports all mistakes at once and creates no directory", () =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    const name = "give a name of letters, digits and - _ . ~ that begins with a letter or a digit";
    const table: [string[], string[]][] = [
      [[], [`--org: ${name}`, `--user: ${name}`]],
      [
        ["--org", "a b", "--user", "", "--email", "x", "--display-name", "a\tb"],
        [
          `--org: ${name}`,
          `--user: ${name}`,
          "--email: give an e-mail address",
          "--display-name: give one line of at most 256 characters",
        ],
      ],
      [
        ["--org", "ops", "--user", "ops"],
        ["--org: the name is reserved for the personal organization of the user, give another one"],
      ],
    ];
    for (const [options, problems] of table) {
      const { code, out, err } = await cli(["init", "--data", data, ...options]);
      assert.is(code, 2);
      assert.is(out, "");
      assert.equal(
        err.trimEnd().split("\n"),
        [...problems, "see assay help init"].map((problem) => `assay: ${problem}`),
      );
    }
    assert.equal(readdirSync(directory), []);
  }));

test("resolves the data directory from every source and refuses unusable ones", () =>
  inDirectory(async (directory) => {
    const set = ["--org", "acme", "--user", "ops"];
    const missing =
      "assay: data is not set: give the path of a directory with --data DIRECTORY or ASSAY_DATA or the key data " +
      "of the configuration file\n";
    assert.equal(await cli(["init", ...set]), { code: 2, out: "", err: missing });

    // Relative to the working directory; the command ignores mistakes in server options.
    writeFileSync(join(directory, "assay.yml"), "data: from-file\n");
    const surroundings = { cwd: directory, env: { ASSAY_CONFIG: "assay.yml", ASSAY_LISTEN: "nonsense" } };
    assert.is((await cli(["init", ...set], surroundings)).code, 0);
    assert.is((await cli(["init", ...set], { cwd: directory, env: { ASSAY_DATA: "from-variable" } })).code, 0);
    assert.is(
      (await cli(["init", ...set, "--data", "from-flag"], { cwd: directory, env: { ASSAY_DATA: "from-variable" } }))
        .code,
      0,
    );
    assert.equal(readdirSync(directory).sort(), ["assay.yml", "from-file", "from-flag", "from-variable"]);

    assert.match(
      (await cli(["init", ...set, "--config", join(directory, "none.yml")])).err,
      /^assay: cannot read .*none\.yml: it, or a directory above it, does not exist \(ENOENT\)/,
    );
    writeFileSync(join(directory, "file"), "");
    const inTheWay = await cli(["init", ...set, "--data", join(directory, "file")]);
    assert.is(inTheWay.code, 1);
    assert.is(
      inTheWay.err,
      `assay: cannot create the directory ${join(directory, "file")}: something else has that name (EEXIST); ` +
        "move it away, or give another path\n",
    );

    const foreign = join(directory, "foreign");
    mkdirSync(foreign);
    writeFileSync(join(foreign, "assay.db"), "not a database at all ".repeat(20));
    const refused = await cli(["init", ...set, "--data", foreign]);
    assert.is(refused.code, 1);
    assert.is(
      refused.err,
      `assay: ${join(foreign, "assay.db")} is not a database of Assay: it is not an SQLite database\n`,
    );
  }));

test.run();
