import { userInfo } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { keyDigest } from "../../../src/store/accounts/api-keys.ts";
import { auditOf, cli, countRows, inDirectory, joinPatterns, look, start } from "../in-process.ts";
import { newSecret } from "../../../src/clock.ts";

const test = suite("cli/commands/member");

/**
 * Organization acme with its admin ops, and user ann (Ann@Example.com), who is not a member. `body` gets the key of
 * ops.
 */
const given = (body: (data: string, key: string) => Promise<void>): Promise<void> =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    const { out } = await cli(["init", "--data", data, "--org", "acme", "--user", "ops"]);
    await cli(["user", "create", "ann", "--email", "Ann@Example.com", "--display-name", "Ann B.", "--data", data]);
    await body(data, out.trim());
  });

const member = (data: string, ...words: string[]) => cli(["member", ...words, "--data", data]);
/** The history names the user of the operating system who ran the command. */
const OPERATOR = `operator (${userInfo().username})`;
const ACME = ["--org", "acme"];
const roleOf = (data: string, user: string) =>
  look(data, (store) =>
    store.organizations.findRole(store.organizations.find("acme")?.id ?? 0, store.users.find(user)?.id ?? 0),
  );
const history = (data: string) =>
  look(data, (_, db) =>
    db
      .prepare(
        `SELECT event_type, user_name, user_shown, role, previous_role, changed_by, source FROM membership_events
       WHERE organization_id = (SELECT id FROM organizations WHERE name = 'acme') ORDER BY id`,
      )
      .raw()
      .all(),
  );
const done = (out: string) => ({ code: 0, out, err: "" });

test("adds, changes, lists and removes members, and records it in the history and the audit log", () =>
  given(async (data) => {
    const before = auditOf(data).length;
    assert.equal(
      await member(data, "add", "ann", ...ACME, "--role", "reader"),
      done("added acme/ann: not a member -> reader\n"),
    );
    assert.equal(await member(data, "add", "ann", ...ACME, "--role", "reader"), done("unchanged acme/ann: reader\n"));
    // By address, regardless of case.
    assert.equal(
      await member(data, "set-role", "ANN@example.COM", ...ACME, "--role", "admin"),
      done("changed acme/ann: reader -> admin\n"),
    );
    assert.equal(
      await member(data, "set-role", "ann", ...ACME, "--role", "admin"),
      done("unchanged acme/ann: admin\n"),
    );
    const { out } = await member(data, "list", ...ACME);
    assert.match(
      out,
      joinPatterns(
        /^USER {2}ROLE {3}SINCE {17}NAME\nann {3}admin {2}\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ {2}Ann/,
        / B\.\nops {3}admin {2}\S+Z {2}ops\n$/,
      ),
    );
    assert.equal(await member(data, "remove", "ann", ...ACME), done("removed acme/ann: admin -> not a member\n"));
    assert.is(roleOf(data, "ann"), null);
    const script = [OPERATOR, "script"];
    assert.equal(history(data), [
      ["added", "ops", "ops", "admin", null, ...script],
      ["added", "ann", "Ann B.", "reader", null, ...script],
      ["changed", "ann", "Ann B.", "admin", "reader", ...script],
      ["removed", "ann", "Ann B.", null, "admin", ...script],
    ]);
    assert.equal(auditOf(data).slice(before), [
      'member add member.added ann {"role":"reader"}',
      'member set-role member.role_changed ann {"role":"admin","previous_role":"reader"}',
      'member remove member.removed ann {"previous_role":"admin"}',
    ]);
  }));

test("keeps the date of the membership when the role changes", () =>
  given(async (data) => {
    const since = () =>
      look(data, (_, db) =>
        db
          .prepare(
            "SELECT m.created_at FROM memberships m JOIN users u ON u.id = m.user_id WHERE u.name = 'ann' ORDER " +
              "BY m.organization_id",
          )
          .pluck()
          .all(),
      );
    await member(data, "add", "ann", ...ACME, "--role", "reader");
    const before = since();
    await member(data, "set-role", "ann", ...ACME, "--role", "member");
    assert.equal(since(), before);
  }));

test("--json", () =>
  given(async (data) => {
    const json = async (...words: string[]) => JSON.parse((await member(data, ...words, ...ACME, "--json")).out);
    const base = { organization: "acme", user: "ann", service_accounts: [] };
    assert.equal(await json("add", "ann", "--role", "member"), {
      ...base,
      outcome: "added",
      role: "member",
      previous_role: null,
    });
    assert.equal(await json("set-role", "ann", "--role", "member"), {
      ...base,
      outcome: "unchanged",
      role: "member",
      previous_role: "member",
    });
    const { organization, members } = await json("list");
    assert.equal(
      {
        organization,
        members: members.map(({ since, ...rest }: { since: number }) => ({ ...rest, since: typeof since })),
      },
      {
        organization: "acme",
        members: [
          { user: "ann", display_name: "Ann B.", email: "Ann@Example.com", role: "member", since: "number" },
          { user: "ops", display_name: "ops", email: null, role: "admin", since: "number" },
        ],
      },
    );
    assert.equal(await json("remove", "ann"), { ...base, outcome: "removed", role: null, previous_role: "member" });
    assert.equal(await member(data, "remove", "ann", ...ACME, "--json"), {
      code: 1,
      out: "",
      err: '{"error":"ann is not a member of acme; assay member add adds a user"}\n',
    });
  }));

test("refuses to remove the last admin without --force, in apply too", () =>
  given(async (data) => {
    await member(data, "add", "ann", ...ACME, "--role", "member");
    const before = countRows(data);
    const problem =
      "assay: 'ops' is the last admin of 'acme': give another member the role admin first, " +
      "or use assay member with --force\n";
    for (const words of [
      ["set-role", "ops", "--role", "member"],
      ["remove", "ops"],
    ]) {
      assert.equal(await member(data, ...words, ...ACME), { code: 1, out: "", err: problem });
    }
    const apply = (text: string) => cli(["apply", "-", "--data", data], { stdin: text });
    const refused = await apply("organizations: [{name: acme, members: [{user: ops, role: reader}]}]");
    assert.equal(refused, {
      code: 1,
      out: "",
      err: [
        "assay: standard input line 1 column 40: organizations[0].members[0]: 'ops' is the last admin of 'acme': " +
          "give another member the role admin first, or use assay member with --force",
        "assay: nothing was applied\n",
      ].join("\n"),
    });
    assert.equal(countRows(data), before);
    assert.is(roleOf(data, "ops"), "admin");
    // One file may hand the role over to another user.
    assert.is(
      (await apply("organizations: [{name: acme, members: [{user: ops, role: reader}, {user: ann, role: admin}]}]"))
        .code,
      0,
    );
    assert.is((await apply("organizations: [{name: acme, members: [{user: ops, role: member}]}]")).code, 0);
    assert.equal(
      await member(data, "set-role", "ann", ...ACME, "--role", "reader", "--force"),
      done("changed acme/ann: admin -> reader\n"),
    );
    assert.equal(
      await member(data, "remove", "ann", ...ACME),
      done("removed acme/ann: reader -> not a member\n"),
      "there is no admin to keep",
    );
    await member(data, "set-role", "ops", ...ACME, "--role", "admin");
    assert.equal(
      await member(data, "remove", "ops", ...ACME, "--force"),
      done("removed acme/ops: admin -> not a member\n"),
    );
  }));

test("explains an impossible change and changes nothing", () =>
  given(async (data) => {
    await member(data, "add", "ann", ...ACME, "--role", "reader");
    const before = countRows(data);
    const role = ["--role", "member"];
    const org = "--org: give the name of an organization";
    const roles = "--role: give admin, member, snapshotter or reader";
    const personal = "'ann' is a personal organization: its user is its only member and always admin";
    const table: [string[], number, string[]][] = [
      [
        ["add", "ann", ...ACME, ...role],
        1,
        ["ann is already a member of acme, with role reader; change it with assay member set-role"],
      ],
      [["add", "eve", ...ACME, ...role], 1, ['there is no user "eve"; assay user list lists all']],
      [
        ["add", "eve@example.com", ...ACME, ...role],
        1,
        ['there is no user "eve@example.com"; assay user list lists all'],
      ],
      [["add", "ann", "--org", "nope", ...role], 1, ['there is no organization "nope"']],
      [["add", "ops", "--org", "ann", ...role], 1, [personal]],
      [["remove", "ann", "--org", "ann", "--force"], 1, [personal]],
      [["set-role", "ann", "--org", "ann", ...role, "--force"], 1, [personal]],
      [["list", "--org", "nope"], 1, ['there is no organization "nope"']],
      [["add", "ann"], 2, [org, roles, "see assay help member add"]],
      [["add", "ann", ...ACME, "--role", "owner"], 2, [roles, "see assay help member add"]],
      [["set-role", "ann", ...ACME], 2, [roles, "see assay help member set-role"]],
      [["remove", "ann"], 2, [org, "see assay help member remove"]],
      [["list"], 2, [org, "see assay help member list"]],
      [["add", ...ACME, ...role], 2, ["argument USER is missing", "see assay help member add"]],
      [["add", "ann", ...ACME, ...role, "--force"], 2, ["unknown option --force", "see assay help member add"]],
    ];
    for (const [words, code, problems] of table) {
      assert.equal(
        await member(data, ...words),
        { code, out: "", err: problems.map((problem) => `assay: ${problem}\n`).join("") },
        words.join(" "),
      );
    }
    assert.equal(countRows(data), before);
  }));

test("lists the live service accounts that a removed member created", () =>
  given(async (data) => {
    await member(data, "add", "ann", ...ACME, "--role", "member");
    look(data, (store) => {
      const organizationId = store.organizations.find("acme")?.id ?? 0;
      const creatingUserId = store.users.find("ann")?.public_id ?? "";
      const create = (name: string, creator: string) =>
        store.serviceAccounts.create({
          organizationId,
          name,
          description: null,
          privilege: "member",
          creatingUserId: creator,
        });
      const key = (serviceAccountId: number) =>
        store.apiKeys.create({ serviceAccountId }, { digest: keyDigest(newSecret()), description: "d", expiresAt: 0 });
      key(create("hers", creatingUserId));
      key(create("not-hers", ""));
      create("without-keys", creatingUserId);
    });
    assert.equal(await member(data, "remove", "ann", ...ACME), {
      code: 0,
      out: "removed acme/ann: member -> not a member\n",
      err: "service accounts that ann created keep working: hers\n",
    });
  }));

test("a running server applies a change with the next request", () =>
  given(async (data, opsKey) => {
    const annKey = (await cli(["key", "create", "--user", "ann", "--description", "d", "--data", data])).out.trim();
    const server = start(["serve", "--data", data, "--listen", "127.0.0.1:0"]);
    const url = /listening on (\S+)/.exec(await server.wrote(/API reference/))?.[1] ?? "";
    const ask = async (path: string, key = annKey, method = "GET") => {
      const response = await fetch(`${url}/api/v2${path}`, { method, headers: { Authorization: `Bearer ${key}` } });
      return { status: response.status, body: (await response.json()) as any };
    };
    const reads = async () => (await ask("/flows/acme")).status;
    assert.is(await reads(), 403);
    await member(data, "add", "ann", ...ACME, "--role", "reader");
    assert.is(await reads(), 200);
    assert.is((await ask("/membership-audit-log/acme")).status, 403);
    await member(data, "set-role", "ann", ...ACME, "--role", "admin");
    assert.is((await ask("/membership-audit-log/acme")).status, 200);
    assert.is((await ask("/user/acme", annKey, "PUT")).status, 200);
    await member(data, "remove", "ann", ...ACME);
    assert.equal(await ask("/flows/acme"), {
      status: 403,
      body: { message: "You don't have permission to access this resource" },
    });
    assert.equal(await ask("/user/default-org"), { status: 200, body: { default_org_name: "" } });
    const { events } = (await ask("/membership-audit-log/acme?search=ann%20b", opsKey)).body;
    assert.equal(
      events.map(({ event_type, user, role, changed_by, source }: any) => [event_type, user, role, changed_by, source]),
      [
        ["removed", "Ann B.", null, OPERATOR, "script"],
        ["changed", "Ann B.", "admin", OPERATOR, "script"],
        ["added", "Ann B.", "reader", OPERATOR, "script"],
      ],
    );
    await cli(["user", "disable", "ann", "--data", data]);
    assert.is((await ask("/user/default-org")).status, 401);
    assert.is((await server.stop()).code, 0);
  }));

test.run();
