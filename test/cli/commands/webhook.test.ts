import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { auditOf, cli, countRows, inDirectory, joinPatterns, look } from "../in-process.ts";

const test = suite("cli/commands/webhook");
const given = (body: (data: string) => Promise<void>): Promise<void> =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    await cli(["init", "--data", data, "--org", "acme", "--user", "ops"]);
    await body(data);
  });
const webhook = (data: string, ...words: string[]) => cli(["webhook", ...words, "--org", "acme", "--data", data]);
const ADDRESS = ["--base-url", "https://assay.example.com", "--base-path", "/x"];
const inUse = (data: string, kind: "sonar" | "launch-darkly") =>
  look(data, (store) => store.inboundWebhooks.findEnabled(store.organizations.find("acme")?.id ?? 0, kind));

test("enables, lists, rotates and disables a webhook, and prints each secret once", () =>
  given(async (data) => {
    const made = await webhook(data, "enable", "sonar", "--flow-name", "name", "--flow-prefix", "sonar-", ...ADDRESS);
    const [, id = "", secret = ""] =
      joinPatterns(
        /^address: https:\/\/assay\.example\.com\/x\/api\/v2\/webhooks\/sonar\/([\w-]{43})\n/,
        /secret: {2}([\w-]{43})\n$/,
      ).exec(made.out) ?? [];
    assert.equal([made.code, made.err, id === "", secret === ""], [0, "", false, false]);
    const hook = inUse(data, "sonar");
    assert.equal(
      { public_id: hook?.public_id, secret: hook?.secret, settings_json: hook?.settings_json },
      { public_id: id, secret, settings_json: '{"from":"name","prefix":"sonar-","suffix":""}' },
    );
    const account = look(data, (store) => store.serviceAccounts.get(hook?.service_account_id ?? 0));
    assert.equal(
      { name: account.name, privilege: account.privilege, for_webhook: account.for_webhook },
      { name: "sonar-webhook", privilege: "member", for_webhook: 1 },
    );

    const again = await webhook(data, "enable", "sonar", ...ADDRESS);
    assert.equal(again, {
      code: 0,
      err: "",
      out:
        "the sonar webhook of acme is already enabled; its address and secret have not changed\n" +
        `https://assay.example.com/x/api/v2/webhooks/sonar/${id}\n`,
    });
    assert.equal(
      { secret: inUse(data, "sonar")?.secret, settings_json: inUse(data, "sonar")?.settings_json },
      { secret, settings_json: '{"from":"key","prefix":"","suffix":""}' },
    );

    assert.equal(await webhook(data, "list", ...ADDRESS), {
      code: 0,
      err: "",
      out: `KIND   LAST CALL  ADDRESS\nsonar  never      https://assay.example.com/x/api/v2/webhooks/sonar/${id}\n`,
    });
    const rotated = await webhook(data, "rotate-secret", "sonar");
    assert.is(rotated.out, `secret: ${inUse(data, "sonar")?.secret}\n`);
    assert.is.not(inUse(data, "sonar")?.secret, secret);

    assert.equal(await webhook(data, "disable", "sonar"), {
      code: 0,
      out: "disabled the sonar webhook of acme\n",
      err: "",
    });
    assert.is(inUse(data, "sonar"), null);
    assert.is((await webhook(data, "list")).out, "KIND   LAST CALL  ADDRESS\nsonar  never      disabled\n");
    for (const word of ["disable", "rotate-secret"])
      assert.equal(await webhook(data, word, "sonar"), {
        code: 1,
        out: "",
        err: "assay: acme has no enabled sonar webhook; assay webhook enable sonar creates one\n",
      });
    assert.equal(auditOf(data).slice(-5), [
      'webhook enable service_account.created sonar-webhook {"privilege":"member","for_webhook":true}',
      "webhook enable webhook.enabled sonar " +
        '{"settings":{"from":"name","prefix":"sonar-","suffix":""},"service_account":"sonar-webhook"}',
      'webhook enable webhook.updated sonar {"settings":{"from":"key","prefix":"","suffix":""}}',
      "webhook rotate-secret webhook.secret_rotated sonar {}",
      "webhook disable webhook.disabled sonar {}",
    ]);

    const second = JSON.parse((await webhook(data, "enable", "sonar", "--json")).out);
    assert.equal(Object.keys(second), [
      "kind",
      "path",
      "settings",
      "created_at",
      "disabled_at",
      "last_received_at",
      "secret",
    ]);
    assert.is.not(second.path, `/api/v2/webhooks/sonar/${id}`);
    assert.is(
      look(data, (store) => store.serviceAccounts.get(inUse(data, "sonar")?.service_account_id ?? 0)).name,
      "sonar-webhook-2",
    );
    const listed = JSON.parse((await webhook(data, "list", "--json")).out);
    assert.equal(
      listed.webhooks.map(({ kind, disabled_at, secret: shown }: Record<string, unknown>) => [
        kind,
        disabled_at !== null,
        shown,
      ]),
      [
        ["sonar", true, undefined],
        ["sonar", false, undefined],
      ],
    );
  }));

test("prints the address with the public URL of the server, wherever that is configured", () =>
  given(async (data) => {
    const file = join(data, "assay.yaml");
    writeFileSync(file, "base_url: https://of.file.example\n");
    const address = async (argv: string[], env: Record<string, string> = {}) => {
      const { out, err } = await cli(["webhook", "enable", "sonar", "--org", "acme", "--data", data, ...argv], { env });
      return [/^(\S+)\/api\/v2\/webhooks\/sonar\/[\w-]{43}$/m.exec(out)?.[1], err];
    };
    await webhook(data, "enable", "sonar");
    const hint =
      "base-url is not set, so the address is derived from the listen address: give the server's --base-url URL\n";
    assert.equal(await address([]), ["http://127.0.0.1:8001", hint]);
    assert.equal(await address(["--listen", "0.0.0.0:80", "--tls-cert", "c.pem"]), ["https://localhost:80", hint]);
    assert.equal(await address([], { ASSAY_BASE_URL: "https://of.variable.example/" }), [
      "https://of.variable.example",
      "",
    ]);
    assert.equal(await address(["--config", file]), ["https://of.file.example", ""]);
  }));

test("explains mistakes and changes nothing", () =>
  given(async (data) => {
    await cli(["apply", "-", "--data", data], { stdin: "organizations: [{name: ops, kind: personal}]" });
    const before = countRows(data);
    const help = (command: string): string => `assay: see assay help webhook ${command}\n`;
    const cases: [string[], number, string][] = [
      [
        ["enable", "jenkins", "--org", "acme"],
        2,
        `assay: there is no webhook "jenkins": give sonar or launch-darkly\n${help("enable")}`,
      ],
      [["enable", "sonar"], 2, `assay: --org: give the name of an organization\n${help("enable")}`],
      [["enable", "sonar", "--org", "nobody"], 1, 'assay: there is no organization "nobody"\n'],
      [
        ["enable", "sonar", "--org", "ops"],
        1,
        "assay: Personal organizations have no service accounts, which webhooks need\n",
      ],
      [
        ["enable", "launch-darkly", "--org", "acme", "--flow-prefix", "x"],
        2,
        "assay: --flow-prefix: only the sonar webhook has this option\nassay: see assay help webhook enable\n",
      ],
      [
        ["enable", "sonar", "--org", "acme", "--flow-name", "id"],
        2,
        "assay: --flow-name: give key or name\nassay: see assay help webhook enable\n",
      ],
      [
        ["enable", "sonar", "--org", "acme", "--flow-suffix", "a b"],
        2,
        "assay: --flow-suffix: give up to 100 letters, digits and . - _ ~\nassay: see assay help webhook enable\n",
      ],
    ];
    for (const [words, code, err] of cases)
      assert.equal(await cli(["webhook", ...words, "--data", data]), { code, out: "", err }, words.join(" "));
    assert.equal(countRows(data), before);
  }));

test.run();
