import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { RenderedMessage } from "../../../src/domain/notification/render.ts";
import type { DeliveryOutcome } from "../../../src/store/notifications/outbox.ts";
import { endReceivers, receiver } from "../../notifications/given.ts";
import { auditOf, cli, inDirectory, look, start } from "../in-process.ts";

const test = suite("cli/commands/deliveries");

const T = 1_700_000_000;
type Made = {
  org: string;
  n: string;
  fate?: DeliveryOutcome["state"];
  action?: number;
  error?: string;
  message?: RenderedMessage;
};

/**
 * A data directory with the organizations acme and other, and the actions deploys (number 1) and alarms (2) of acme
 * with a target each.
 */
const given = (body: (data: string, make: (made: Made) => string) => Promise<void>): Promise<void> =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    await cli(["init", "--data", data, "--org", "acme", "--user", "ops"]);
    await cli(["apply", "-", "--data", data], { stdin: "organizations: [{name: other}]" });
    look(data, (store, db) => {
      const organization = store.organizations.find("acme")?.id;
      for (const [number, name] of [
        [1, "deploys"],
        [2, "alarms"],
      ] as const) {
        const id = db
          .prepare(
            "INSERT INTO actions (organization_id, number, name, kind, triggers_json, created_by, created_at, " +
              "last_modified_at) VALUES (?, ?, ?, 'env', '[]', '', 0, 0)",
          )
          .run(organization, number, name).lastInsertRowid;
        db.prepare(
          "INSERT INTO notification_targets (id, organization_id, action_id, position, type, target_json, " +
            "secret) VALUES (?, ?, ?, 0, 'WEBHOOK', '{}', 'target-secret')",
        ).run(number, organization, id);
      }
    });
    await body(
      data,
      ({ org, n, fate = "waiting", action = null, error = "The receiver answered with status 500: down", message }) =>
        look(data, (store, db) => {
          const queue = action === null ? `queue ${n}` : `target ${action}`;
          const subject = `subject ${n}`;
          const hook: RenderedMessage = {
            type: "WEBHOOK",
            webhook: "https://ann:pw@hooks.example:8443/secret/path?token=x",
            body: { n },
          };
          store.outbox.add({
            organizationId: store.organizations.find(org)?.id as number,
            queue,
            targetId: action,
            subject,
            message: message ?? hook,
          });
          const row = db
            .prepare<[], { id: number; public_id: string }>(
              "SELECT id, public_id FROM deliveries ORDER BY id DESC LIMIT 1",
            )
            .get() as { id: number; public_id: string };
          db.prepare("UPDATE deliveries SET created_at = ?, due_at = ? WHERE id = ?").run(
            T + row.id,
            T + row.id,
            row.id,
          );
          const how: DeliveryOutcome =
            fate === "waiting" ? { state: "waiting", dueAt: T + 3600, left: null } : { state: fate };
          if (fate !== "waiting") {
            const attempt = {
              startedAt: T + 60,
              seconds: 1.25,
              address: "192.0.2.1",
              status: fate === "delivered" ? 200 : 500,
              error: fate === "delivered" ? null : error,
            };
            store.outbox.recordAttempt({ id: row.id, target_id: action }, attempt, {
              outcome: how,
              publicError: attempt.error,
            });
          }
          return row.public_id;
        }),
    );
  });

const listed = async (data: string, ...words: string[]): Promise<string[]> => {
  const { code, out, err } = await cli(["deliveries", "list", ...words, "--json", "--data", data]);
  assert.is(code, 0, err);
  return (JSON.parse(out) as { deliveries: { subject: string }[] }).deliveries.map(({ subject }) =>
    subject.replace("subject ", ""),
  );
};
const statesOf = (data: string): unknown[] =>
  look(data, (_, db) => db.prepare("SELECT subject, state, attempts FROM deliveries ORDER BY id").raw().all());

test("list shows each message on one line, newest first, without webhook paths", () =>
  given(async (data, make) => {
    const ids = [
      make({ org: "acme", n: "a", fate: "delivered" }),
      make({ org: "acme", n: "b", fate: "dead", action: 1, error: "no\n\u001b[31manswer" }),
      make({
        org: "other",
        n: "c",
        message: { type: "EMAIL", emails: ["ann@x.example", "bob@x.example"], subject: "s", text: "t", html: "h" },
      }),
    ];
    assert.equal(await cli(["deliveries", "list", "--data", data]), {
      code: 0,
      err: "",
      out: [
        `${"ID".padEnd(32)}  CREATED               STATE      ORGANIZATION  SUBJECT    TO                        ` +
          "              ATTEMPTS  NEXT ATTEMPT  LAST ERROR",
        `${ids[2]}  2023-11-14T22:13:23Z  waiting    other         subject c  EMAIL ann@x.example, bob@x.example ` +
          "     0         -             -",
        `${ids[1]}  2023-11-14T22:13:22Z  dead       acme          subject b  WEBHOOK ` +
          "https://hooks.example:8443/...  1         -             no\\u000a\\u001b[31manswer",
        `${ids[0]}  2023-11-14T22:13:21Z  delivered  acme          subject a  WEBHOOK ` +
          "https://hooks.example:8443/...  1         -             -",
        "",
      ].join("\n"),
    });
    const { out } = await cli(["deliveries", "list", "--json", "--data", data]);
    assert.equal(JSON.parse(out).deliveries[1], {
      id: ids[1],
      organization: "acme",
      action: "deploys",
      subject: "subject b",
      type: "WEBHOOK",
      to: "https://hooks.example:8443/...",
      queue: "target 1",
      state: "dead",
      attempts: 1,
      created_at: T + 2,
      next_attempt_at: null,
      finished_at: T + 61.25,
      last_error: "no\n\u001b[31manswer",
    });
    assert.not.match(out, /secret|token=|:pw@/);
  }));

test("list filters and pages", () =>
  given(async (data, make) => {
    make({ org: "acme", n: "a", fate: "delivered" });
    const b = make({ org: "acme", n: "b", fate: "dead", action: 1 });
    make({ org: "acme", n: "c", fate: "dead", action: 2 });
    make({ org: "acme", n: "d", action: 2 });
    make({ org: "other", n: "e", fate: "dead" });
    assert.equal(await listed(data), ["e", "d", "c", "b", "a"]);
    assert.equal(await listed(data, "--org", "acme"), ["d", "c", "b", "a"]);
    assert.equal(await listed(data, "--state", "dead"), ["e", "c", "b"]);
    assert.equal(await listed(data, "--state", "delivered", "--org", "acme"), ["a"]);
    assert.equal(await listed(data, "--state", "dead", "--org", "acme"), ["c", "b"]);
    assert.equal(await listed(data, "--org", "acme", "--action", "alarms"), ["d", "c"]);
    assert.equal(await listed(data, "--org", "acme", "--action", "alarms", "--state", "dead"), ["c"]);
    assert.equal(await listed(data, "--limit", "2"), ["e", "d"]);
    assert.equal(await listed(data, "--before", b), ["a"]);
  }));

test("show prints the message and every attempt, but no secret", () =>
  given(async (data, make) => {
    const id = make({ org: "acme", n: "a", fate: "dead", action: 1 });
    assert.equal(await cli(["deliveries", "show", id, "--data", data]), {
      code: 0,
      err: "",
      out: `delivery:     ${id}
organization: acme
action:       deploys
subject:      subject a
to:           WEBHOOK https://hooks.example:8443/...
queue:        target 1
state:        dead
created:      2023-11-14T22:13:21Z
finished:     2023-11-14T22:14:21Z
last error:   The receiver answered with status 500: down
message:      {"n":"a"}
attempts:
  2023-11-14T22:14:20Z  192.0.2.1, status 500, 1.3 s: The receiver answered with status 500: down
`,
    });
    const shown = JSON.parse((await cli(["deliveries", "show", id, "--json", "--data", data])).out);
    assert.equal(
      { message: shown.message, log: shown.log },
      {
        message: { n: "a" },
        log: [
          {
            started_at: T + 60,
            seconds: 1.25,
            address: "192.0.2.1",
            status: 500,
            error: "The receiver answered with status 500: down",
          },
        ],
      },
    );
    assert.not.match(JSON.stringify(shown), /secret|token=|:pw@/);
    const waiting = make({ org: "acme", n: "b" });
    const { out } = await cli(["deliveries", "show", waiting, "--data", data]);
    assert.match(out, "next attempt: 2023-11-14T22:13:22Z, or after the messages before it in its queue\n");
    assert.match(out, "attempts:     none\n");
  }));

test("retry queues dead letters again, single ones or all of an action", () =>
  given(async (data, make) => {
    const a = make({ org: "acme", n: "a", fate: "dead", action: 1 });
    const b = make({ org: "acme", n: "b", fate: "dead", action: 2 });
    const c = make({ org: "acme", n: "c", fate: "dead", action: 2 });
    make({ org: "other", n: "d", fate: "dead" });
    look(data, (_, db) => db.exec("DELETE FROM jobs; DELETE FROM delivery_queues"));
    assert.equal(await cli(["deliveries", "retry", a, a, "--data", data]), { code: 0, out: `retried ${a}\n`, err: "" });
    const outcome = await cli(["deliveries", "retry", "--org", "acme", "--action", "alarms", "--json", "--data", data]);
    assert.equal(JSON.parse(outcome.out), { retried: [c, b] });
    assert.equal(statesOf(data), [
      ["subject a", "waiting", 0],
      ["subject b", "waiting", 0],
      ["subject c", "waiting", 0],
      ["subject d", "dead", 1],
    ]);
    assert.equal(
      look(data, (_, db) => db.prepare("SELECT payload_json FROM jobs ORDER BY id").pluck().all()),
      ['{"queue":"target 1"}', '{"queue":"target 2"}'],
    );
    assert.equal(
      auditOf(data).slice(-3),
      [a, c, b].map((id, n) => `deliveries retry delivery.retried ${id} {"subject":"subject ${"acb"[n]}"}`),
    );
    assert.equal(await cli(["deliveries", "retry", "--org", "acme", "--data", data]), {
      code: 0,
      out: "there are no dead messages\n",
      err: "",
    });
  }));

test("retries and purges many dead letters in several short transactions", () =>
  given(async (data, make) => {
    make({ org: "acme", n: "a", fate: "dead", action: 1 });
    const columns =
      "organization_id, queue, target_id, has_target, subject, type, target_json, message_json, state, attempts, " +
      "created_at, waiting_since, due_at, finished_at, last_error";
    look(data, (_, db) =>
      db.exec(
        `WITH RECURSIVE counter (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counter WHERE n < 250)
         INSERT INTO deliveries (public_id, ${columns}) SELECT 'copy-' || n, ${columns} FROM deliveries, counter`,
      ),
    );
    const commits = (): number =>
      look(data, (_, db) => db.prepare("SELECT number FROM commit_number").pluck().get()) as number;
    const count = (state: string): unknown =>
      look(data, (_, db) => db.prepare("SELECT count(*) FROM deliveries WHERE state = ?").pluck().get(state));
    let before = commits();
    const retried = await cli(["deliveries", "retry", "--org", "acme", "--json", "--data", data]);
    assert.is(JSON.parse(retried.out).retried.length, 251);
    assert.is(count("waiting"), 251);
    assert.is(commits() - before, 3);
    look(data, (_, db) => db.exec("UPDATE deliveries SET state = 'dead', finished_at = 1"));
    before = commits();
    const purged = await cli(["deliveries", "purge", "--org", "acme", "--json", "--data", data]);
    assert.is(JSON.parse(purged.out).purged.length, 251);
    assert.is(count("dead"), 0);
    assert.is(commits() - before, 3);
  }));

test("purge deletes dead letters with their attempts", () =>
  given(async (data, make) => {
    const a = make({ org: "acme", n: "a", fate: "dead", action: 1 });
    make({ org: "acme", n: "b", fate: "dead" });
    make({ org: "other", n: "c", fate: "dead" });
    make({ org: "acme", n: "d", fate: "delivered" });
    assert.equal(await cli(["deliveries", "purge", a, "--data", data]), { code: 0, out: `purged ${a}\n`, err: "" });
    assert.is((await cli(["deliveries", "purge", "--org", "acme", "--data", data])).code, 0);
    assert.equal(statesOf(data), [
      ["subject c", "dead", 1],
      ["subject d", "delivered", 1],
    ]);
    assert.is(
      look(data, (_, db) => db.prepare("SELECT count(*) FROM delivery_attempts").pluck().get()),
      2,
    );
    assert.equal(auditOf(data).at(-2), `deliveries purge delivery.purged ${a} {"subject":"subject a"}`);
  }));

test("changes all selected messages or none", () =>
  given(async (data, make) => {
    const dead = make({ org: "acme", n: "a", fate: "dead" });
    const waiting = make({ org: "acme", n: "b" });
    const delivered = make({ org: "acme", n: "c", fate: "delivered" });
    const before = [statesOf(data), auditOf(data)];
    for (const [words, error] of [
      [
        ["retry", dead, delivered],
        `${delivered} is delivered: only dead or waiting messages can be retried; nothing was changed`,
      ],
      [["purge", dead, waiting], `${waiting} is waiting: only dead messages can be purged; nothing was changed`],
      [["retry", dead, "none"], 'there is no message "none"; see assay deliveries list'],
      [["show", "none"], 'there is no message "none"; see assay deliveries list'],
      [["list", "--before", "none"], 'there is no message "none"; see assay deliveries list'],
      [["retry", "--org", "nobody"], 'there is no organization "nobody"'],
      [["purge", "--org", "acme", "--action", "nothing"], 'acme has no action "nothing"'],
    ] as const) {
      assert.equal(
        await cli(["deliveries", ...words, "--data", data]),
        { code: 1, out: "", err: `assay: ${error}\n` },
        words.join(" "),
      );
    }
    assert.equal([statesOf(data), auditOf(data)], before);
  }));

test("reports wrong usage before opening the data", async () => {
  for (const [words, problem] of [
    [["list", "--state", "gone"], "--state: give waiting, delivered or dead"],
    [["list", "--limit", "0"], "--limit: give a number from 1 to 1000"],
    [["list", "--action", "x"], "--action: give --org too, because an action belongs to an organization"],
    [["retry"], "select messages by their IDs, or all dead letters with --org"],
    [["purge", "id", "--org", "acme"], "select messages by their IDs, or all dead letters with --org"],
  ] as const) {
    const { code, err } = await cli(["deliveries", ...words, "--data", "/nowhere"]);
    assert.equal({ code, err }, { code: 2, err: `assay: ${problem}\nassay: see assay help deliveries ${words[0]}\n` });
  }
});

test("a running server sends retried messages to allowed targets", () =>
  given(async (data, make) => {
    const { received, url, until } = await receiver(204);
    const body = { n: "a" };
    const id = make({
      org: "acme",
      n: "a",
      fate: "dead",
      action: 1,
      message: { type: "WEBHOOK", webhook: url("localhost", "/path"), body },
    });
    const server = start(["serve", "--data", data, "--listen", "127.0.0.1:0", "--webhook-allow", "127.0.0.0/8,::1"]);
    await server.wrote(/listening on/);
    assert.is((await cli(["deliveries", "retry", id, "--data", data])).code, 0);
    await until(() => received.length === 1);
    await server.wrote(/"outcome":"delivered"/);
    const forbidden = make({ org: "acme", n: "b", message: { type: "WEBHOOK", webhook: "http://10.0.0.1/", body } });
    await server.wrote(new RegExp(`"delivery":"${forbidden}".*The address 10.0.0.1 is not allowed`));
    const mailed = make({
      org: "acme",
      n: "c",
      message: { type: "EMAIL", emails: ["ann@x.example"], subject: "s", text: "t", html: "h" },
    });
    await server.wrote(new RegExp(`"delivery":"${mailed}".*No mail server is configured`));
    assert.is((await server.stop()).code, 0);
    assert.equal(
      received.map(({ headers, body: text }) => [
        headers["x-assay-delivery"],
        /^t=\d+,v1=[0-9a-f]{64}$/.test(String(headers["x-assay-signature"])),
        text,
      ]),
      [[id, true, '{"n":"a"}']],
    );
    assert.equal(statesOf(data), [
      ["subject a", "delivered", 1],
      ["subject b", "dead", 1],
      ["subject c", "dead", 1],
    ]);
    endReceivers();
  }));

test("a server resends a message interrupted by its stop, and stops at once when idle", () =>
  given(async (data, make) => {
    let slow = true;
    const { received, url, until } = await receiver((_, response) => void (slow || response.end()));
    const words = ["serve", "--data", data, "--listen", "127.0.0.1:0", "--webhook-allow", "127.0.0.1"];
    const id = make({ org: "acme", n: "a", message: { type: "SLACK", webhook: url("127.0.0.1"), body: { n: "a" } } });
    const first = start(words);
    await until(() => received.length === 1);
    assert.is((await first.stop()).code, 0);
    assert.equal(statesOf(data), [["subject a", "waiting", 0]]);
    slow = false;
    const second = start(words);
    await second.wrote(new RegExp(`"delivery":"${id}".*"outcome":"delivered"`));
    assert.is((await second.stop()).code, 0);
    assert.is(received.length, 2);
    endReceivers();
  }));

test("serve refuses an incomplete mail configuration and an invalid CA bundle", () =>
  inDirectory(async (directory) => {
    const serve = (...words: string[]) =>
      cli(["serve", "--data", join(directory, "data"), "--listen", "127.0.0.1:0", ...words]);
    assert.equal(await serve("--smtp-url", "smtp://u:hunter2@mail"), {
      code: 2,
      out: "",
      err: "assay: smtp-url and smtp-from belong together: give --smtp-from ADDRESS or ASSAY_SMTP_FROM too\n",
    });
    assert.match((await serve("--smtp-from", "a@b.example")).err, "give --smtp-url URL or ASSAY_SMTP_URL too");
    const wrong = await serve("--smtp-url", "smtp://u:hunter2@mail:x", "--smtp-from", "a@b.example");
    assert.match(wrong.err, "smtp-url (flag --smtp-url): the given value is not accepted");
    assert.not.match(wrong.err, "hunter2");
    const file = join(directory, "ca.pem");
    writeFileSync(file, "no certificate");
    assert.match((await serve("--ca-file", file)).err, `${file} holds no certificate in PEM form`);
    writeFileSync(file, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    assert.match((await serve("--ca-file", file)).err, `${file}: certificate 1 cannot be read`);
    assert.match((await serve("--ca-file", join(directory, "none"))).err, "cannot read");
  }));

test.run();
