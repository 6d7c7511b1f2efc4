/** What changed in a day, as a message of an action: when, to whom, what it says, and only once. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createDailyChanges } from "../../src/notifications/daily-changes.ts";
import { urlsFor } from "../../src/contract/urls.ts";
import type { DailyChangesPayload } from "../../src/store/notifications/daily-changes.ts";
import { openStore } from "../../src/store/index.ts";
import { freshCommit, freshFingerprint, startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { running, runningIn } from "../api/environments/given.ts";
import { actionsIn } from "../api/notifications/receivers.ts";
import type { Sent } from "../api/notifications/receivers.ts";
import { endMailServers, fieldsOf, mailServer } from "./mail-server.ts";

const test = suite("notifications/daily-changes");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(async () => {
  endMailServers();
  await server.stop();
});

type At = { org: string; key: string };
type Json = Record<string, any>;
const DAY = 86_400;
const TESTED = "artifacts:\n  attestations:\n    - {name: tests, type: junit}\n";
const TRIGGERS = ["ON_DAILY_CHANGES"] as const;
const TEAM = { type: "EMAIL", emails: ["team@example.com"] };

/** Lets time pass until the next 06:01 UTC after `days`, when the message is due, and runs what is due. */
async function morning(days = 1): Promise<void> {
  const start = Math.floor((server.clock.at - 6 * 3600) / DAY) * DAY;
  server.clock.at = start + days * DAY + 6 * 3600 + 61;
  await server.settled();
}

/** An organization with an environment, its policy, and a build of `shop` that was not tested. */
async function given({ name = "production" } = {}) {
  const at = server.given.org();
  const world = runningIn(server);
  const env = world.environment(at, { name });
  world.attach(at, env, await server.given.policy(at, { name: "baseline", yaml: TESTED }));
  const flow = await server.given.flow(at, { name: "shop" });
  const repo_info = { id: "17", name: "acme/shop", url: "https://github.com/acme/shop", provider: "github" };
  const build = async (trail: string, isTested: boolean): Promise<string> => {
    const [commit, fingerprint] = [freshCommit(), freshFingerprint()];
    const commit_url = `https://github.com/acme/shop/commit/${commit}`;
    await server.given.artifact(at, { flow, trail, name: "shop", fingerprint, commit, commit_url, repo_info });
    const results = { total: 3, failures: 0, errors: 0, skipped: 0 };
    if (isTested)
      await server.given.attestation(at, {
        flow,
        trail,
        kind: "junit",
        attestation_name: "tests",
        artifact_fingerprint: fingerprint,
        junit_results: [{ name: "all", duration: 1, timestamp: 1, ...results }],
      });
    return fingerprint;
  };
  const tell = actionsIn(server);
  return {
    at,
    env,
    world,
    build,
    action: (more: Json = {}) =>
      tell.action(at, { name: "daily", triggers: TRIGGERS, environments: [env], targets: [TEAM], ...more }),
    sent: (): Promise<Sent[]> => tell.sent(at),
    replace: async (more: Json = {}): Promise<void> => {
      const body = { name: "daily", triggers: TRIGGERS, environments: [env], targets: [TEAM], ...more };
      const { status, text } = await server.call("PUT", `/actions/${at.org}/environments`, { key: at.key, body });
      assert.is(status, 200, text);
    },
    report: (...artifacts: Parameters<typeof running>[]) =>
      world.report(
        at,
        env,
        artifacts.map((one) => running(...one)),
      ),
  };
}
/** The day of the clock as messages name it. */
const today = (): string => {
  const [day, date, month] = new Date(server.clock.at * 1000).toUTCString().replace(",", "").split(" ");
  return `${day} ${Number(date)} ${month}`;
};
const subjectsOf = (all: readonly Sent[]): unknown[] => all.map(({ body }) => body["subject"]);
const jobsOf = ({ org }: At): Json[] =>
  server.db
    .prepare(
      "SELECT j.due_at, j.payload_json FROM jobs j JOIN organizations o ON o.name = ? " +
        "WHERE j.kind = 'daily_changes' AND json_extract(j.payload_json, '$.organization_id') = o.id",
    )
    .all(org) as Json[];

test("tells every morning what changed: verdict, cause, commits, times, and how to stop it", async () => {
  const { at, env, build, action, sent, report } = await given();
  const [good, bad] = [await build("one", true), await build("two", false)];
  report(["shop:1.0", good]);
  await morning();
  await action();
  server.clock.at += 3600;
  report(["shop:1.1", bad], ["redis:7", freshFingerprint()]);
  await morning();
  const [mail, ...others] = await sent();
  assert.equal(others, []);
  assert.equal(
    { type: mail?.type, subject: mail?.subject, target: mail?.target },
    { type: "EMAIL", subject: "daily: DAILY_CHANGES in production", target: { emails: ["team@example.com"] } },
  );
  const why = `http://assay.test/${at.org}/why?environment=${env}&snapshot=2&fingerprint=`;
  const period = "from=2023-11-15T06%3A00%3A00Z&to=2023-11-16T06%3A00%3A00Z&environment=production";
  const page = `http://assay.test/${at.org}/changes?${period}`;
  assert.is(mail?.body["subject"], `production turned non-compliant - ${at.org}, Thu 16 Nov`);
  const text = String(mail?.body["text"])
    .replace(new RegExp(`${bad}`), "BAD")
    .replace(/fingerprint=(?!BAD)[0-9a-f]{64}/, "fingerprint=REDIS")
    .replace(/compare\/[0-9a-f]{40}\.\.\.[0-9a-f]{40}/, "compare/A...B");
  assert.is(
    text,
    `production turned non-compliant
${at.org}, 2023-11-15 06:00 UTC to 2023-11-16 06:00 UTC. 2 verdicts, 1 upgrade, 1 start. All times are UTC.

production - Turned non-compliant - #1 to #2
============================================
✕ shop:1.1 (Wed 15 Nov 07:01)
  tests is missing.
  replaced 1.0, came with 1 commit
  Why it fails: ${why}BAD
  The commit: https://github.com/acme/shop/compare/A...B
✕ redis:7 (Wed 15 Nov 07:01)
  No provenance: not reported to any flow.
  Why it fails: ${why}REDIS

Open all changes: ${page}

Sent every day at 06:00 UTC by action daily (number 1) of organization ${at.org}. Nothing is sent when nothing changed.
Change or stop this message: http://assay.test/${at.org}/actions/1
`,
  );
  const html = mail?.body["html"] as string;
  for (const part of [
    "<b>tests</b> is missing.",
    `href="${page.replaceAll("&", "&amp;")}"`,
    "Turned non-compliant",
    "Wed 15 Nov 07:01",
    `href="http://assay.test/${at.org}/actions/1"`,
  ])
    assert.ok(html.includes(part), part);
  // Mail programs read neither classes nor scripts, and load nothing without asking.
  assert.not.match(html, /class=|<script|<style|<link|<img|src=/);
});

test("sends nothing when nothing changed, and the next message is about the time since the one before", async () => {
  const { build, action, sent, report } = await given();
  const [good, bad] = [await build("one", true), await build("two", false)];
  await morning();
  await action();
  await morning();
  assert.equal(await sent(), []);
  report(["shop:1", good]);
  await morning();
  report(["shop:2", bad]);
  await morning();
  report(["shop:1", good]);
  await morning();
  await morning();
  await morning();
  const words = (await sent()).map(({ body }) => (body["subject"] as string).split(" - ")[0]);
  assert.equal(words, [
    "No environment has another verdict: 1 start",
    "production turned non-compliant",
    "production recovered",
    "production stopped reporting",
  ]);
});

test("sends a day once: over restarts, after a second run of the job, and days without a server together", async () => {
  const { at, action, sent, report } = await given();
  await morning();
  await action();
  report(["odd:1", freshFingerprint()]);
  const [job] = jobsOf(at);
  const payload = JSON.parse(job?.["payload_json"]) as DailyChangesPayload;
  await morning();
  assert.is((await sent()).length, 1);
  // The job of a process that ended before it noted the end of the job, in the next process.
  const again = createDailyChanges({
    store: openStore(server.db, { now: () => server.clock.at, newId: () => "x" }),
    urls: () => urlsFor("http://assay.test"),
    now: () => server.clock.at,
    trustedNow: () => server.clock.at,
  });
  const settle = await again.sendDailyChanges(payload);
  const due = settle();
  assert.is(new Date((due ?? 0) * 1000).toISOString().slice(11, 19), "06:01:00");
  assert.is((await sent()).length, 1);
  report(["odd:2", freshFingerprint()]);
  server.clock.at += 2 * DAY;
  report(["odd:3", freshFingerprint()]);
  await morning(2);
  const mails = await sent();
  assert.is(mails.length, 2);
  assert.match(mails[1]?.body["text"], /2 starts, 2 exits/);
  assert.equal(jobsOf(at).length, 1);
});

test("is sent at the hour of its zone, once a day over both changes of the clocks", async () => {
  const { at, action, replace, sent, report } = await given();
  const zone = { hour: 7, time_zone: "Europe/Berlin" };
  const times: string[] = [];
  /** Lets every hour pass, as the job finds it, until a day; something changes in each of them. */
  const live = async (from: string, to: string): Promise<void> => {
    server.clock.at = Date.parse(from) / 1000;
    await replace({ daily_at: zone });
    const known = (await sent()).length;
    for (let count = known; server.clock.at < Date.parse(to) / 1000; server.clock.at += 3_600) {
      report([`shop:${server.clock.at}`, freshFingerprint()]);
      await server.settled();
      const all = await sent();
      assert.ok(all.length <= count + 1, "one message at a time");
      if (all.length > count) times.push(new Date(server.clock.at * 1000).toISOString().slice(0, 13));
      count = all.length;
    }
  };
  await action();
  await live("2027-03-26T12:01:00Z", "2027-03-29T12:00:00Z");
  assert.equal(times, ["2027-03-27T06", "2027-03-28T05", "2027-03-29T05"]);
  times.length = 0;
  await live("2027-10-29T12:01:00Z", "2027-11-01T12:00:00Z");
  assert.equal(times, ["2027-10-30T05", "2027-10-31T06", "2027-11-01T06"]);
  const [last] = (await sent()).slice(-1);
  assert.match(String(last?.body["text"]), /Sent every day at 07:00 Europe\/Berlin by action daily/);
  assert.is(jobsOf(at).length, 1);
});

test("settings that follow each other within a moment leave one job", async () => {
  const { at, action, sent, report } = await given();
  await morning();
  await action();
  report(["odd:1", freshFingerprint()]);
  const { id: organizationId } = server.store.organizations.find(at.org) as { id: number };
  const row = server.store.actions.findByName(organizationId, "daily");
  assert.ok(row);
  // The clock of the server rises with each reading; this one stands still.
  const still = server.clock.at;
  const { dailyChanges } = openStore(server.db, { now: () => still, newId: () => "x" });
  await server.writer.run(() => {
    for (const hour of [7, 8, 7]) dailyChanges.start(row, { hour, timeZone: "UTC" });
  });
  assert.is(
    new Set(jobsOf(at).map(({ payload_json }) => payload_json)).size,
    4,
    "each job is about a start of its own",
  );
  server.clock.at += 2 * 3_600;
  await server.settled();
  assert.is((await sent()).length, 1);
  await morning();
  assert.is(jobsOf(at).length, 1);
});

test("a change at the end of a day is in the message of that day alone", async () => {
  const { at, env, world, action, sent, report } = await given();
  await morning();
  await action();
  const end = Math.ceil((server.clock.at - 6 * 3_600) / DAY) * DAY + 6 * 3_600;
  // The reading for the snapshot advances the clock by a second.
  server.clock.at = end - 1;
  report(["shop:1", freshFingerprint()]);
  assert.equal(world.times(at, env), [end]);
  await morning(0);
  await morning();
  assert.equal(
    (await sent()).map(({ body }) => / UTC to [^.]* UTC\. (.*)\. All/.exec(body["text"] as string)?.[1]),
    ["1 verdict, 1 start", "1 environment without a report"],
  );
});

test("of one environment, what fails stands first, each newest first", async () => {
  const { build, action, sent, report } = await given();
  const [good, better] = [await build("one", true), await build("two", true)];
  await morning();
  await action();
  const [old, recent] = [freshFingerprint(), freshFingerprint()];
  report(["old:1", old]);
  report(["old:1", old], ["recent:1", recent]);
  report(["old:1", old], ["recent:1", recent], ["shop:1", good]);
  report(["old:1", old], ["recent:1", recent], ["shop:1", good], ["till:1", better]);
  await morning();
  const [mail] = await sent();
  const text = mail?.body["text"] as string;
  const places = ["recent:1 (", "old:1 (", "till 1 to 1 (", "shop:1 started ("].map((row) => text.indexOf(row));
  assert.not.ok(places.includes(-1), text);
  assert.equal(
    [...places].sort((a, b) => a - b),
    places,
    text,
  );
});

test("a target that was deleted while its message was composed gets none", async () => {
  const { at, action, replace, sent, report } = await given();
  await morning();
  await action();
  report(["odd:1", freshFingerprint()]);
  const payload = JSON.parse(jobsOf(at)[0]?.["payload_json"]) as DailyChangesPayload;
  const composing = createDailyChanges({
    store: openStore(server.db, { now: () => server.clock.at, newId: () => "x" }),
    urls: () => urlsFor("http://assay.test"),
    now: () => server.clock.at,
    trustedNow: () => server.clock.at,
  });
  const start = server.clock.at;
  server.clock.at += DAY;
  const settle = await composing.sendDailyChanges(payload);
  server.clock.at = start;
  await replace({ targets: [{ type: "EMAIL", emails: ["other@example.com"] }] });
  server.clock.at = start + DAY;
  settle();
  assert.equal(await sent(), []);
});

test("another hour takes effect at once, and no time is told twice or left out", async () => {
  const { at, action, replace, sent, report } = await given();
  await morning();
  await action();
  const read = async (): Promise<unknown> =>
    (await server.call("GET", `/actions/${at.org}/1`, { key: at.key })).body.daily_at;
  assert.equal(await read(), { hour: 6, time_zone: "UTC" });
  server.clock.at += 60;
  report(["shop:1.0", freshFingerprint()]);
  // It is 06:02: at 08:00 of the same day the next message is due.
  // All at one time: each change has a job of its own, and only the last one goes on.
  for (const hour of [8, 9, 8, 8]) await replace({ daily_at: { hour } });
  assert.equal(await read(), { hour: 8, time_zone: "UTC" });
  server.clock.at += 2 * 3_600;
  await server.settled();
  assert.is((await sent()).length, 1);
  assert.match(String((await sent())[0]?.body["text"]), / 06:00 UTC to [^ ]+ 08:00 UTC\. /);
  await morning();
  assert.is((await sent()).length, 1, "nothing at the old hour");
  assert.is(jobsOf(at).filter(({ due_at: due }) => due > server.clock.at).length, 1);
  await replace();
  assert.equal(await read(), { hour: 6, time_zone: "UTC" });
  await replace({ triggers: ["ON_STARTED_ARTIFACT"] });
  assert.is(await read(), undefined);
});

test("a trigger that was removed sends nothing, one that came back has one job, a deleted action none", async () => {
  const { at, env, action, sent, report } = await given();
  const change = async (triggers: string[]): Promise<void> => {
    const body = { name: "daily", environments: [env], triggers, targets: [TEAM] };
    assert.is((await server.call("PUT", `/actions/${at.org}/environments`, { key: at.key, body })).status, 200);
  };
  await morning();
  await action();
  await change(["ON_COMPLIANT_ENV"]);
  report(["odd:1", freshFingerprint()]);
  await morning();
  assert.equal([await sent(), jobsOf(at)], [[], []]);
  await change([...TRIGGERS]);
  await change(["ON_COMPLIANT_ENV"]);
  await change([...TRIGGERS]);
  report(["odd:2", freshFingerprint()]);
  await morning();
  assert.equal([(await sent()).length, jobsOf(at).length], [1, 1]);
  await server.call("DELETE", `/actions/${at.org}/1`, { key: at.key });
  report(["odd:3", freshFingerprint()]);
  await morning();
  assert.equal([(await sent()).length, jobsOf(at)], [1, []]);
});

test("names only the environments of the action, the worst first, and never members or keys", async () => {
  const { at, env, build, world, action, sent, report } = await given({ name: "a-good" });
  const [bad, other] = [world.environment(at, { name: "z-bad" }), world.environment(at, { name: "other" })];
  world.attach(at, bad, "baseline");
  const good = await build("one", true);
  await morning();
  await action({ environments: [env, bad] });
  report(["shop:1", good]);
  world.report(at, bad, [running("odd:1", freshFingerprint())]);
  world.report(at, other, [running("secret:1", freshFingerprint())]);
  const made = await server.call("POST", `/service-accounts/${at.org}`, {
    key: at.key,
    body: { name: "robot", privilege: "member" },
  });
  assert.is(made.status, 201);
  await morning();
  const [mail] = await sent();
  assert.match(mail?.body["subject"], /^z-bad turned non-compliant - /);
  const text = mail?.body["text"] as string;
  assert.ok(text.indexOf("z-bad - Turned non-compliant") < text.indexOf("a-good - Compliant"), text);
  assert.not.match(text, /other|secret|robot/);
});

test("an artifact that fails is in the message, however many that pass one report started before it", async () => {
  const { build, action, sent, report } = await given();
  const [good, bad] = [await build("one", true), await build("two", false)];
  await morning();
  await action();
  const passing = Array.from({ length: 60 }, (_, n): Parameters<typeof running> => [`passing-${n}:1`, good]);
  report(...passing, ["failing:1", bad]);
  await morning();
  const [mail] = await sent();
  assert.match(String(mail?.body["text"]), "\u2715 failing:1");
});

test("names are text: no markup, no header of their own, whatever their length", async () => {
  const { action, sent, report } = await given();
  await morning();
  await action();
  report(
    [`<img src=x onerror=alert(1)>\r\nBcc: eve@x.example`, freshFingerprint()],
    ["x".repeat(256), freshFingerprint()],
  );
  await morning();
  const [mail] = await sent();
  assert.not.match(mail?.body["html"], /<img/);
  assert.match(mail?.body["html"], /&lt;img src=x onerror=alert\(1\)&gt; Bcc: eve@x.example/);
  assert.not.match(mail?.body["text"], /\nBcc/);
});

test("a day of many changes is cut: rows and sections are counted, and the mail stays below 100 kB", async () => {
  const { at, world, action, sent } = await given();
  const names = Array.from({ length: 12 }, (_, index) => world.environment(at, { name: `env-${index}` }));
  for (const name of names) world.attach(at, name, "baseline");
  await morning();
  await action({ environments: names });
  for (const name of names)
    world.report(
      at,
      name,
      Array.from({ length: 40 }, (_, index) => running(`${"long-".repeat(40)}${index}`, freshFingerprint())),
    );
  await morning();
  const [mail] = await sent();
  assert.match(
    mail?.body["subject"],
    /^env-0 and env-1 and 10 more turned non-compliant|^env-0, env-1 and 10 more turned/,
  );
  assert.match(mail?.body["text"], /and 32 more: http:\/\/assay\.test\//);
  assert.match(mail?.body["text"], /\n2 more environments changed\.\n/);
  assert.ok(Buffer.byteLength(mail?.body["html"]) < 100_000, String(Buffer.byteLength(mail?.body["html"])));
});

test("a chat gets one message, a webhook the address of all changes, in the form of the others", async () => {
  const { at, action, sent, report } = await given();
  await morning();
  await action({
    targets: [
      { type: "SLACK", webhook: "https://chat.example.com/a" },
      { type: "WEBHOOK", webhook: "https://hooks.example.com/a" },
    ],
  });
  report(["odd:1", freshFingerprint()]);
  await morning();
  const [chat, hook] = await sent();
  const subject = "production turned non-compliant";
  assert.match(chat?.body["text"], new RegExp(`^${subject} - ${at.org}, .* - No provenance: not reported to any flow`));
  const { html_url, api_url, timestamp, from, to, ...rest } = (hook as Sent).body;
  assert.equal(rest, { version: "1.0", event_type: "DAILY_CHANGES", org: at.org, description: subject });
  assert.equal([timestamp, Number(to) - Number(from)], [to, DAY]);
  const answer = await server.call("GET", (api_url as string).replace("http://assay.test/api/v2", ""), { key: at.key });
  assert.is(answer.status, 200, answer.text);
  assert.equal((answer.body as Json)["counts"]["started"], 1);
  assert.match(html_url, new RegExp(`^http://assay.test/${at.org}/changes\\?from=`));
});

test("a clock that ran ahead sends nothing about the future, and the next day is in a message", async () => {
  const { at, action, sent, report } = await given();
  await morning();
  await action();
  const id = server.store.actions.findByName(server.store.organizations.find(at.org)?.id ?? 0, "daily")?.id ?? 0;
  server.store.dailyChanges.cover({ id }, server.clock.at + 400 * DAY);
  report(["odd:1", freshFingerprint()]);
  await morning();
  assert.equal(await sent(), []);
  report(["odd:2", freshFingerprint()]);
  await morning();
  assert.is((await sent()).length, 1);
});

test("arrives by SMTP as text and HTML, with the verdict as its subject", async () => {
  const { at, action, sent, report } = await given({ name: "Münster" });
  await morning();
  await action();
  report(["odd:1", freshFingerprint()]);
  await morning();
  const [mail] = await sent();
  const { sender, arrived } = await mailServer();
  const message = server.store.outbox.findFirst(mail?.queue ?? "");
  assert.is(message === null ? null : (await sender.send(message)).result, "accepted");
  const [{ to, text } = { to: [], text: "" }] = arrived;
  assert.equal(to, ["team@example.com"]);
  const fields = fieldsOf(text);
  assert.match(fields["subject"] ?? "", /^=\?UTF-8\?/);
  assert.match(fields["content-type"] ?? "", /^multipart\/alternative/);
  assert.match(text, /Content-Type: text\/plain[\s\S]*Content-Type: text\/html/);
  assert.equal(subjectsOf([mail as Sent]), [`Münster turned non-compliant - ${at.org}, ${today()}`]);
});

test.run();
