import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { auditOf, cli, countRows, inDirectory, look } from "./in-process.ts";

const test = suite("cli/service-account");

const given = (body: (data: string) => Promise<void>): Promise<void> =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    await cli(["init", "--data", data, "--org", "acme", "--user", "ops"]);
    await body(data);
  });
const account = (data: string, ...words: string[]) => cli(["service-account", ...words, "--data", data]);
const ACME = ["--org", "acme"];

test("creates an account, gives it a key, lists it, and deletes it with its keys", () =>
  given(async (data) => {
    const before = auditOf(data).length;
    const made = await account(
      data,
      "create",
      "ci-bot",
      ...ACME,
      "--privilege",
      "member",
      "--description",
      "Reports builds",
    );
    const hint = "it has no key yet: assay key create --org acme --service-account ci-bot\n";
    assert.equal(made, { code: 0, out: "created acme/ci-bot: member\n", err: hint });
    const plain = JSON.parse((await account(data, "create", "plain", ...ACME, "--json")).out);
    assert.equal(
      { ...plain.service_account, created_at: 0 },
      {
        name: "plain",
        description: null,
        privilege: "reader",
        created_at: 0,
        for_webhook: false,
        active_api_keys: 0,
      },
    );

    const key = ["--org", "acme", "--service-account", "ci-bot", "--data", data];
    const { out: text } = await cli(["key", "create", ...key, "--description", "ci"]);
    const works = (): boolean =>
      look(
        data,
        (_, db) => db.prepare("SELECT count(*) FROM api_keys WHERE service_account_id IS NOT NULL").pluck().get() === 1,
      );
    assert.ok(works() && text !== "");
    const listed = await account(data, "list", ...ACME);
    assert.equal(
      listed.out
        .replace(/CREATED {15}/, "CREATED  ")
        .replace(/\d{4}-\S+Z/g, "TIME   ")
        .split("\n"),
      [
        "NAME    PRIVILEGE  KEYS  CREATED  DESCRIPTION",
        "ci-bot  member     1     TIME     Reports builds",
        "plain   reader     0     TIME     -",
        "",
      ],
    );
    const { service_accounts: shown } = JSON.parse((await account(data, "list", ...ACME, "--json")).out);
    assert.equal(
      shown.map(({ name, active_api_keys }: Record<string, unknown>) => ({ name, active_api_keys })),
      [
        { name: "ci-bot", active_api_keys: 1 },
        { name: "plain", active_api_keys: 0 },
      ],
    );

    assert.equal(await account(data, "delete", "ci-bot", ...ACME), {
      code: 0,
      out: "deleted acme/ci-bot: 1 API key revoked\n",
      err: "",
    });
    assert.not(works());
    assert.equal(JSON.parse((await account(data, "delete", "plain", ...ACME, "--json")).out), {
      organization: "acme",
      deleted: "plain",
      revoked_api_keys: 0,
    });
    const at = "/api/v2/service-accounts/acme";
    assert.equal(
      auditOf(data)
        .slice(before)
        .map((line) => line.replace(/"keys":\["[\w-]+"\]/, '"keys":[ID]')),
      [
        `service-account create service_account.created ${at} {"account":"ci-bot","privilege":"member"}`,
        `service-account create service_account.created ${at} {"account":"plain","privilege":"reader"}`,
        'key create api_key.created - {"account":"ci-bot","key_id":ID,"description":"ci","expires_at":0}',
        `service-account delete service_account.deleted ${at}/ci-bot ` +
          '{"account":"ci-bot","privilege":"member","keys":[ID]}',
        `service-account delete service_account.deleted ${at}/plain {"account":"plain","privilege":"reader","keys":[]}`,
      ],
    );
  }));

test("explains an impossible change and changes nothing", () =>
  given(async (data) => {
    await cli(["webhook", "enable", "sonar", ...ACME, "--data", data]);
    await account(data, "create", "ci", ...ACME);
    const before = countRows(data);
    const see = (command: string): string => `see assay help service-account ${command}`;
    const name = "NAME: give a name of 1 to 64 letters, digits and hyphens";
    const org = "--org: give the name of an organization";
    const table: [string[], number, string[]][] = [
      [["create", "ci", ...ACME], 1, ["name: A service account with this name already exists [input: ci]"]],
      [["create", "ci", "--org", "nobody"], 1, ['there is no organization "nobody"']],
      [["create", "ci", "--org", "ops"], 1, ["Personal organizations cannot have service accounts"]],
      [
        ["create", "a b", "--privilege", "king", "--description", "x".repeat(513)],
        2,
        [
          name,
          org,
          "--privilege: give admin, member, snapshotter or reader",
          "--description: give at most 512 characters",
          see("create"),
        ],
      ],
      [["create", "x".repeat(65), ...ACME], 2, [name, see("create")]],
      [["list"], 2, [org, see("list")]],
      [["delete", "ci"], 2, [org, see("delete")]],
      [
        ["delete", "nope", ...ACME],
        1,
        ['Service account not found: acme has no "nope"; assay service-account create nope --org acme creates one'],
      ],
      [
        ["delete", "a b", ...ACME],
        1,
        ['Service account not found: acme has no "a b"; assay service-account create NAME --org acme creates one'],
      ],
      [
        ["delete", "sonar-webhook", ...ACME],
        1,
        ["Service account 'sonar-webhook' is in use by incoming webhooks (sonar): disable them first"],
      ],
    ];
    for (const [words, code, lines] of table) {
      assert.equal(
        await account(data, ...words),
        { code, out: "", err: lines.map((line) => `assay: ${line}\n`).join("") },
        words.join(" "),
      );
    }
    assert.equal(countRows(data), before);
  }));

test.run();
