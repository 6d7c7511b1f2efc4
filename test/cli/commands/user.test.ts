import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { keyDigest } from "../../../src/store/accounts/api-keys.ts";
import { auditOf, cli, countRows, inDirectory, look } from "../in-process.ts";

const test = suite("cli/commands/user");

/** Organization acme with its admin ops. */
const given = (body: (data: string) => Promise<void>): Promise<void> =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    await cli(["init", "--data", data, "--org", "acme", "--user", "ops"]);
    await body(data);
  });

const user = (data: string, ...words: string[]) => cli(["user", ...words, "--data", data]);
const done = (out: string) => ({ code: 0, out, err: "" });

test("creates a user with a personal organization, lists and shows it", () =>
  given(async (data) => {
    const before = auditOf(data).length;
    assert.equal(
      await user(data, "create", "ann", "--email", "Ann@Example.com", "--display-name", "Ann\u00a0B."),
      done("created ann <Ann@Example.com>: Ann\u00a0B.\n"),
    );
    assert.equal(await user(data, "create", "bob"), done("created bob: bob\n"));
    const listed = await user(data, "list");
    assert.equal(
      { ...listed, out: listed.out.replace(/CREATED {15}/, "CREATED  ").replace(/\d{4}-\S+Z/g, "TIME   ") },
      done(
        "USER  CREATED  E-MAIL           NAME\nann   TIME     Ann@Example.com  Ann\u00a0B.\n" +
          "bob   TIME     -                bob\nops   TIME     -                ops\n",
      ),
    );
    await cli(["key", "create", "--user", "ANN@example.com", "--description", "d", "--data", data]);
    await cli(["member", "add", "ann", "--org", "acme", "--role", "member", "--data", data]);
    const { out } = await user(data, "show", "ann@EXAMPLE.com");
    const time = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`;
    const lines = [
      "ann <Ann@Example.com>: Ann\u00a0B\\.",
      `created ${time}, 1 API key, default organization none`,
      "no password, 0 open sessions",
      `member of acme: member since ${time}`,
      `member of ann \\(personal\\): admin since ${time}`,
    ];
    assert.match(out, new RegExp(`^${lines.join("\n")}\n$`));
    assert.equal(auditOf(data).slice(before, before + 3), [
      'user create user.created ann {"display_name":"Ann\u00a0B.","email":"Ann@Example.com"}',
      'user create organization.created ann {"kind":"personal","public":false,"controls":true}',
      'user create member.added ann {"role":"admin"}',
    ]);
    look(data, (store) => assert.is(store.organizations.find("bob")?.kind, "personal"));
  }));

test("--json", () =>
  given(async (data) => {
    const json = async (...words: string[]) => JSON.parse((await user(data, ...words, "--json")).out);
    const made = (await json("create", "ann", "--email", "a@b")).user;
    const { created_at, ...rest } = made;
    assert.equal(rest, { name: "ann", display_name: "ann", email: "a@b" });
    assert.type(created_at, "number");
    assert.equal((await json("list")).users[0], made);
    const { memberships, ...shown } = (await json("show", "ann")).user;
    assert.equal(shown, {
      ...made,
      default_org_name: "",
      active_api_keys: 0,
      has_password: false,
      open_sessions: 0,
      identities: [],
    });
    assert.equal(
      memberships.map(({ since, ...membership }: { since: number }) => membership),
      [{ organization: "ann", kind: "personal", role: "admin" }],
    );
    assert.equal(await json("set", "ann", "--display-name", "Ann"), {
      user: { ...made, display_name: "Ann" },
      outcome: "changed",
    });
    assert.equal(await json("disable", "ann"), {
      user: "ann",
      removed_from: [],
      revoked_api_keys: 0,
      ended_sessions: 0,
      service_accounts: [],
    });
    assert.equal(await user(data, "show", "eve", "--json"), {
      code: 1,
      out: "",
      err: '{"error":"there is no user \\"eve\\"; assay user list lists all"}\n',
    });
  }));

test("changes the display name; history keeps the earlier one", () =>
  given(async (data) => {
    await user(data, "create", "ann", "--email", "a@b", "--display-name", "Ann");
    assert.equal(await user(data, "set", "ann", "--display-name", "Anna"), done("changed ann <a@b>: Anna\n"));
    assert.equal(await user(data, "set", "A@B", "--email", "A@b"), done("changed ann <A@b>: Anna\n"));
    assert.equal(await user(data, "set", "ann", "--no-email"), done("changed ann: Anna\n"));
    const before = countRows(data);
    assert.equal(await user(data, "set", "ann", "--no-email", "--display-name", "Anna"), done("unchanged ann: Anna\n"));
    assert.equal(countRows(data), before);
    assert.equal(await user(data, "set", "ann", "--display-name="), done("changed ann: ann\n"));
    assert.equal(auditOf(data).at(-1), 'user set user.updated ann {"display_name":"","email":null}');
    look(data, (_, db) =>
      assert.is(db.prepare("SELECT user_shown FROM membership_events WHERE user_name = 'ann'").pluck().get(), "Ann"),
    );
  }));

test("a disabled user has neither keys nor memberships, but still exists", () =>
  given(async (data) => {
    await user(data, "create", "ann");
    const key = (await cli(["key", "create", "--user", "ann", "--description", "d", "--data", data])).out.trim();
    await cli(["member", "add", "ann", "--org", "acme", "--role", "admin", "--data", data]);
    look(data, (store) => {
      const userId = store.users.find("ann")?.id as number;
      for (const org of ["acme", "ann"]) {
        const owner = { organizationId: store.organizations.find(org)?.id as number, userId };
        store.views.create(owner, { name: "v", page: "flows", parameters_json: "{}", createdBy: "ann" });
      }
      assert.is(store.views.count({ organizationId: 0, userId }), 2);
    });
    const before = auditOf(data).length;
    assert.equal(await user(data, "disable", "ann"), done("disabled ann: 1 API key revoked, removed from acme\n"));
    look(data, (_, db) => assert.is(db.prepare("SELECT count(*) FROM views").pluck().get(), 0));
    look(data, (store) => assert.is(store.apiKeys.findHolder(keyDigest(key)), null));
    assert.equal(auditOf(data).slice(before), [
      'user disable member.removed ann {"previous_role":"admin"}',
      'user disable api_key.revoked - {"owner":"ann","description":"d"}',
    ]);
    const counted = countRows(data);
    assert.equal(
      await user(data, "disable", "ann"),
      done("disabled ann: 0 API keys revoked, removed from no organization\n"),
    );
    assert.equal(await user(data, "disable", "ops"), {
      code: 1,
      out: "",
      err:
        "assay: 'ops' is the last admin of 'acme': give another member the role admin first, " +
        "or use assay member with --force\n",
    });
    assert.equal(countRows(data), counted);
    assert.equal(
      await user(data, "disable", "ops", "--force"),
      done("disabled ops: 1 API key revoked, removed from acme\n"),
    );
  }));

test("explains an impossible change and changes nothing", () =>
  given(async (data) => {
    await user(data, "create", "ann", "--email", "a@b");
    const before = countRows(data);
    const name = "NAME: give a name of letters, digits and - _ . ~ that begins with a letter or a digit";
    const email = "--email: give an e-mail address";
    const shown = "--display-name: give one line of at most 256 characters";
    const taken = "email: A user, 'ann', with this e-mail address already exists [input: A@B]";
    const table: [string[], number, string[]][] = [
      [["create", "ann"], 1, ["name: A user with this name already exists [input: ann]"]],
      [
        ["create", "acme"],
        1,
        ["name: An organization with this name already exists, and the user needs a personal one [input: acme]"],
      ],
      [["create", "bob", "--email", "A@B"], 1, [taken]],
      [["set", "ops", "--email", "A@B"], 1, [taken]],
      [["set", "eve", "--email", "e@b"], 1, ['there is no user "eve"; assay user list lists all']],
      [["show", "eve@b"], 1, ['there is no user "eve@b"; assay user list lists all']],
      [["disable", "eve"], 1, ['there is no user "eve"; assay user list lists all']],
      [
        ["create", "a b", "--email", "nobody", "--display-name", "a\nb"],
        2,
        [name, shown, email, "see assay help user create"],
      ],
      [["create"], 2, ["argument NAME is missing", "see assay help user create"]],
      [["set", "ann"], 2, ["give --display-name, --email or --no-email", "see assay help user set"]],
      [
        ["set", "ann", "--email", "x@y", "--no-email"],
        2,
        ["--no-email: give it or --email, not both", "see assay help user set"],
      ],
      [["set", "ann", "--email="], 2, [email, "see assay help user set"]],
      [["list", "x"], 2, ['unexpected argument "x"', "see assay help user list"]],
    ];
    for (const [words, code, problems] of table) {
      assert.equal(
        await user(data, ...words),
        { code, out: "", err: problems.map((problem) => `assay: ${problem}\n`).join("") },
        words.join(" "),
      );
    }
    assert.equal(countRows(data), before);
  }));

test.run();
