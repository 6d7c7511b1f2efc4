import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { keyDigest } from "../../../src/store/accounts/api-keys.ts";
import { auditOf, cli, countRows, inDirectory, look } from "../in-process.ts";

const test = suite("cli/commands/key");

/** A directory with user ops (one key), organization acme and its service account ci. */
const given = (body: (data: string) => Promise<void>): Promise<void> =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    await cli(["init", "--data", data, "--org", "acme", "--user", "ops"]);
    await cli(["apply", "-", "--data", data], {
      stdin: "organizations: [{name: acme, service_accounts: [{name: ci, privilege: member}]}]",
    });
    await body(data);
  });

const USER = ["--user", "ops"];
const ACCOUNT = ["--org", "acme", "--service-account", "ci"];

test("creates a key and prints only that, lists it and revokes it", () =>
  given(async (data) => {
    for (const [owner, name] of [
      [USER, "ops"],
      [ACCOUNT, "acme/ci"],
    ] as const) {
      const made = await cli(["key", "create", ...owner, "--description", "ci job", "--data", data]);
      assert.is(made.code, 0, made.err);
      assert.match(made.out, /^[\w-]{43}\n$/);
      const id = /^API key ([0-9a-f-]{32}) of (\S+), never expires; it is not shown again\n$/.exec(made.err);
      assert.is(id?.[2], name);
      const works = () => look(data, (store) => store.apiKeys.findHolder(keyDigest(made.out.trim())) !== null);
      assert.ok(works());

      const listed = await cli(["key", "list", ...owner, "--data", data]);
      assert.is(listed.out.split("\n")[0], `${"ID".padEnd(32)}  CREATED               EXPIRES  LAST USED  DESCRIPTION`);
      const [keyId = "", created = "", ...rest] = (listed.out.split("\n").at(-2) ?? "").split(/ {2,}/);
      assert.equal({ keyId, rest }, { keyId: id?.[1], rest: ["never", "never", "ci job"] });
      assert.match(created, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
      assert.not.match(listed.out, made.out.trim());

      assert.equal(await cli(["key", "revoke", id?.[1] ?? "", ...owner, "--data", data]), {
        code: 0,
        out: `revoked ${id?.[1]}: ci job\n`,
        err: "",
      });
      assert.not(works());
      assert.not.match((await cli(["key", "list", ...owner, "--data", data])).out, id?.[1] ?? "-");
      assert.equal(await cli(["key", "revoke", id?.[1] ?? "", ...owner, "--data", data]), {
        code: 1,
        out: "",
        err: `assay: API key not found: ${name} has no valid key "${id?.[1]}"; see assay key list\n`,
      });
    }
    assert.equal(auditOf(data).slice(-4), [
      'key create api_key.created - {"user":"ops","key_id":ID,"description":"ci job","expires_at":0}',
      'key revoke api_key.revoked - {"user":"ops","key_id":ID,"description":"ci job"}',
      'key create api_key.created - {"account":"ci","key_id":ID,"description":"ci job","expires_at":0}',
      'key revoke api_key.revoked - {"account":"ci","key_id":ID,"description":"ci job"}',
    ]);
  }));

test("--json", () =>
  given(async (data) => {
    const made = JSON.parse(
      (
        await cli([
          "key",
          "create",
          ...ACCOUNT,
          "--description",
          "d",
          "--expires-at",
          "4102444800",
          "--json",
          "--data",
          data,
        ])
      ).out,
    );
    const { key, ...row } = made;
    assert.match(key, /^[\w-]{43}$/);
    const { id, created_at, ...rest } = row;
    assert.equal(rest, { description: "d", expires_at: 4_102_444_800, last_used_at: 0 });
    assert.type(created_at, "number");
    assert.equal(JSON.parse((await cli(["key", "list", ...ACCOUNT, "--json", "--data", data])).out), { keys: [row] });
    assert.equal(JSON.parse((await cli(["key", "revoke", id, ...ACCOUNT, "--json", "--data", data])).out), {
      revoked: id,
    });
    assert.equal(JSON.parse((await cli(["key", "list", ...ACCOUNT, "--json", "--data", data])).out), { keys: [] });
    assert.equal(await cli(["key", "list", "--user", "eve", "--json", "--data", data]), {
      code: 1,
      out: "",
      err: '{"error":"there is no user \\"eve\\"; assay user list lists all"}\n',
    });
  }));

test("accepts every form of expiry", () =>
  given(async (data) => {
    const now = Date.now() / 1000;
    const table: [string[], number][] = [
      [["--expires-at", "0"], 0],
      [["--expires-at", "4102444800"], 4_102_444_800],
      [["--expires-at", "2099-12-31T23:59:59Z"], 4_102_444_799],
      [["--expires-at", "2099-12-31T23:59:59+01:00"], 4_102_441_199],
      [["--expires-in", "90d"], now + 90 * 86_400],
      [["--expires-in", "30m"], now + 1800],
      [["--expires-in", "2w"], now + 2 * 604_800],
      [["--expires-in", "1h30m"], now + 5400],
      [["--expires-in", "1d12h"], now + 129_600],
      [["--expires-in", "3600s"], now + 3600],
    ];
    for (const [options, expected] of table) {
      const { code, out, err } = await cli([
        "key",
        "create",
        ...USER,
        "--description",
        "d",
        ...options,
        "--json",
        "--data",
        data,
      ]);
      assert.is(code, 0, err);
      const { expires_at } = JSON.parse(out);
      assert.ok(
        Number.isInteger(expires_at) && Math.abs(expires_at - expected) < 60,
        `${options.join(" ")}: ${expires_at}`,
      );
    }
  }));

test("lists the expiry and escapes control characters", () =>
  given(async (data) => {
    await cli([
      "key",
      "create",
      ...ACCOUNT,
      "--description",
      "a\u001b[31m\nb",
      "--expires-at",
      "2099-12-31T23:59:59Z",
      "--data",
      data,
    ]);
    const { out } = await cli(["key", "list", ...ACCOUNT, "--data", data]);
    assert.match(out, /\n[0-9a-f-]{32} {2}\S{20} {2}2099-12-31T23:59:59Z {2}never {6}a\\u001b\[31m\\u000ab\n$/);
  }));

test("reports all usage mistakes with exit code 2 and creates nothing", () =>
  given(async (data) => {
    const before = countRows(data);
    const owner = "name the owner of the key with --user, or with both --org and --service-account";
    const description = "--description: give a text of 1 to 256 characters";
    const duration = "--expires-in: give a duration such as 90d, 24h or 1h30m, ending before the year 2100";
    const time =
      "--expires-at: give whole epoch seconds up to 4102444800 (0 is never) or a time like 2030-12-31T23:59:59Z";
    const past = "--expires-at: this time is in the past";
    const d = ["--description", "d"];
    const table: [string[], string[]][] = [
      [[], [owner, description]],
      [["--org", "acme", ...d], [owner]],
      [["--service-account", "ci", ...d], [owner]],
      [[...USER, ...ACCOUNT, ...d], [owner]],
      [[...USER, "--org", "acme", ...d], [owner]],
      [[...USER, "--description", ""], [description]],
      [[...USER, "--description", "x".repeat(257)], [description]],
      [
        [...USER, ...d, "--expires-in", "1d", "--expires-at", "4102444800"],
        ["--expires-in: give it or --expires-at, not both"],
      ],
      ...["", "0d", "-1d", "1h1d", "1 d", "1", "1y", "1.5d", "36500d", "99999999999d"].map(
        (text): [string[], string[]] => [[...USER, ...d, `--expires-in=${text}`], [duration]],
      ),
      ...[
        "",
        "soon",
        "-1",
        "4102444801",
        "1e9",
        "2099-02-30T00:00:00Z",
        "2099-13-01T00:00:00Z",
        "2030-01-01",
        "2030-01-01T00:00:00",
      ].map((text): [string[], string[]] => [[...USER, ...d, `--expires-at=${text}`], [time]]),
      ...["1", "1700000000", "2001-01-01T00:00:00Z"].map((text): [string[], string[]] => [
        [...USER, ...d, `--expires-at=${text}`],
        [past],
      ]),
    ];
    for (const [options, problems] of table) {
      const { code, out, err } = await cli(["key", "create", ...options, "--data", data]);
      assert.equal(
        { code, out, err },
        {
          code: 2,
          out: "",
          err: [...problems, "see assay help key create"].map((problem) => `assay: ${problem}\n`).join(""),
        },
        options.join(" "),
      );
    }
    assert.is(
      (await cli(["key", "revoke", ...USER, "--data", data])).err,
      "assay: argument ID is missing\nassay: see assay help key revoke\n",
    );
    assert.equal(countRows(data), before);
  }));

test("names missing users, accounts and keys with exit code 1", () =>
  given(async (data) => {
    const before = countRows(data);
    const table: [string[], string][] = [
      [["--user", "eve"], 'there is no user "eve"; assay user list lists all'],
      [["--org", "nope", "--service-account", "ci"], 'there is no organization "nope"'],
      [
        ["--org", "acme", "--service-account", "nope"],
        'Service account not found: acme has no "nope"; assay service-account create nope --org acme creates one',
      ],
    ];
    for (const [owner, problem] of table) {
      for (const argv of [
        ["key", "create", "--description", "d"],
        ["key", "list"],
        ["key", "revoke", "x"],
      ]) {
        assert.equal(await cli([...argv, ...owner, "--data", data]), { code: 1, out: "", err: `assay: ${problem}\n` });
      }
    }
    // The id of another owner's key.
    const { keys } = JSON.parse((await cli(["key", "list", ...USER, "--json", "--data", data])).out);
    assert.is((await cli(["key", "revoke", keys[0].id, ...ACCOUNT, "--data", data])).code, 1);
    assert.equal(countRows(data), before);
    assert.is(
      look(data, (store) => store.apiKeys.listByOwner({ userId: 1 })[0]?.revoked_at),
      null,
    );

    const hint =
      "give another with --data (assay dev keeps its own in .assay-dev of its working directory), or create one with " +
      "assay serve, assay dev, assay init or assay apply";
    const none = join(data, "none");
    assert.equal(await cli(["key", "list", ...USER, "--data", none]), {
      code: 1,
      out: "",
      err: `assay: there is no data directory ${none}; ${hint}\n`,
    });
    const empty = join(data, "staging");
    assert.equal(await cli(["key", "list", ...USER, "--data", empty]), {
      code: 1,
      out: "",
      err: `assay: ${empty} is not a data directory: it contains no assay.db; ${hint}\n`,
    });
  }));

test.run();
