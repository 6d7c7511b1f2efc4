/** `assay action secret`: secrets that only the operator may see. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { auditOf, cli, inDirectory, look } from "../in-process.ts";

const test = suite("cli/commands/action");

/** A data directory with an organization, an action with two webhooks and one mail, and one configured webhook. */
function given(body: (data: string) => Promise<void>): Promise<void> {
  return inDirectory(async (data) => {
    await cli(["init", "--org", "acme", "--user", "ada", "--data", data]);
    look(data, (store) => {
      const organizationId = (store.organizations.find("acme") as { id: number }).id;
      let made = 0;
      const newSecret = (): string => `secret-${(made += 1)}`;
      const hook = (webhook: string) => ({ type: "WEBHOOK" as const, target: { type: "WEBHOOK" as const, webhook } });
      const targets = [
        hook("https://a.org"),
        { type: "EMAIL" as const, target: { type: "EMAIL" as const, emails: ["a@b.org"] } },
        hook("https://b.org/\u001b[31m"),
      ];
      store.actions.create(
        organizationId,
        { kind: "env", name: "alerts", triggers: [], places: [], targets, newSecret },
        { user: "ada", fromChat: false },
      );
      store.actions.create(
        organizationId,
        { kind: "env", name: "mails", triggers: [], places: [], targets: targets.slice(1, 2), newSecret },
        { user: "ada", fromChat: false },
      );
      store.notificationTargets.replace(
        { organizationId, notificationType: "api_key_expiry" },
        [hook("https://c.org")],
        newSecret,
      );
    });
    await body(data);
  });
}

test("shows the secrets of an action or a notification type in the order of the targets", () =>
  given(async (data) => {
    const before = auditOf(data);
    assert.equal(await cli(["action", "secret", "acme", "1", "--data", data]), {
      code: 0,
      out: "secret-1  https://a.org\nsecret-2  https://b.org/\\u001b[31m\n",
      err: "",
    });
    assert.equal(await cli(["action", "secret", "acme", "api_key_expiry", "--json", "--data", data]), {
      code: 0,
      out: '{"webhooks":[{"webhook":"https://c.org","secret":"secret-3"}]}\n',
      err: "",
    });
    assert.equal(await cli(["action", "secret", "acme", "2", "--data", data]), {
      code: 0,
      out: "",
      err: "none of the targets is a WEBHOOK\n",
    });
    assert.equal(auditOf(data), before);
  }));

test("--rotate replaces the secrets and writes audit entries without them", () =>
  given(async (data) => {
    const before = auditOf(data).length;
    const { webhooks } = JSON.parse(
      (await cli(["action", "secret", "acme", "1", "--rotate", "--json", "--data", data])).out,
    );
    assert.equal(
      webhooks.map(({ webhook }: { webhook: string }) => webhook),
      ["https://a.org", "https://b.org/\u001b[31m"],
    );
    for (const { secret } of webhooks) assert.match(secret, /^[\w-]{43}$/);
    assert.is.not(webhooks[0].secret, webhooks[1].secret);
    assert.equal(JSON.parse((await cli(["action", "secret", "acme", "1", "--json", "--data", data])).out), {
      webhooks,
    });
    assert.equal(auditOf(data).slice(before), [
      'action secret action.secret_rotated 1 {"target":1}',
      'action secret action.secret_rotated 1 {"target":3}',
    ]);
    assert.match((await cli(["action", "secret", "acme", "api_key_expiry", "--data", data])).out, /^secret-3 /);
  }));

test("names missing objects and explains wrong usage", () =>
  given(async (data) => {
    const table: [string[], number, string][] = [
      [["nope", "1"], 1, 'there is no organization "nope"'],
      [["acme", "9"], 1, "Action '9' does not exist in organization 'acme'"],
      [
        ["acme", "alerts"],
        2,
        '"alerts" is neither the number of an action nor a notification type: give a number or api_key_expiry',
      ],
      [
        ["acme", "01"],
        2,
        '"01" is neither the number of an action nor a notification type: give a number or api_key_expiry',
      ],
      [["acme"], 2, "argument NUMBER is missing"],
    ];
    for (const [words, code, problem] of table) {
      const outcome = await cli(["action", "secret", ...words, "--data", data]);
      assert.equal(
        { code: outcome.code, out: outcome.out, "err[0]": outcome.err.split("\n")[0] },
        { code, out: "", "err[0]": `assay: ${problem}` },
      );
    }
  }));

test.run();
