/** Actions: creating, changing and deleting them, test messages, and the log of deliveries. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Role } from "../../src/domain/access.ts";
import { outcome as sendOutcome } from "../../src/notifications/outcome.ts";
import type { Sender } from "../../src/notifications/sender.ts";
import { freshFingerprint, startServer } from "../given.ts";
import { running, runningIn } from "../api/environments/given.ts";
import type { TestServer } from "../given.ts";
import { messageOf, signIn, signInWithRole, visibleText } from "./browser.ts";
import type { Browser, Page } from "./browser.ts";

const test = suite("web/actions");

/** Refuses messages to one host. */
const SENDER: Sender = {
  send: async ({ target_json }) =>
    target_json.includes("broken.example.com")
      ? sendOutcome("refused", "The receiver answered 410 Gone", { status: 410 })
      : sendOutcome("accepted", null, { status: 200 }),
  close: () => undefined,
};

let server: TestServer;
test.before(async () => void (server = await startServer({ sender: SENDER })));
test.after(() => server.stop());

const signedIn = (name: string): Promise<Browser> => signIn(server, name);

type Given = { org: string; key: string; browser: Browser };

/** An organization with two environments and a flow, and its administrator. */
async function given(): Promise<Given> {
  const at = server.given.org({ public: true });
  for (const name of ["prod", "staging"])
    await server.call("PUT", `/environments/${at.org}`, {
      key: at.key,
      body: { name, type: "docker", description: "" },
    });
  await server.given.flow(at, { name: "payments" });
  return { ...at, browser: await signedIn(`${at.org}-admin`) };
}

const member = (org: string, role: Role | null): Promise<Browser> => signInWithRole(server, org, role);

/** Posts a form with repeated fields. */
async function submit(browser: Browser, path: string, fields: readonly (readonly [string, string])[]): Promise<Page> {
  const csrf = await browser.readCsrfToken(path);
  const body = new URLSearchParams([
    ["csrf", csrf],
    ...fields.map(([name, value]) => [name, value] as [string, string]),
  ]);
  return browser.send("POST", path, {
    headers: { "Content-Type": "application/x-www-form-urlencoded", Origin: server.url },
    body: body.toString(),
  });
}

const fieldError = ({ text }: Page, id: string): string | null => {
  const message = new RegExp(`<p class="field-error" id="${id}-error">([\\s\\S]*?)</p>`).exec(text)?.[1];
  return message === undefined ? null : visibleText({ text: message });
};

const ALERTS = [
  ["form", "put"],
  ["kind", "env"],
  ["name", "alerts"],
  ["environments", "prod"],
  ["environments", "staging"],
  ["triggers", "ON_NON_COMPLIANT_ENV"],
  ["triggers", "ON_ALLOWLIST_EXPIRY"],
  ["webhooks", "https://hooks.example.com/a,b"],
  ["slack", ""],
  ["emails", "a@example.com, b@example.com"],
] as const;
const without = (name: string, ...instead: [string, string][]): (readonly [string, string])[] => [
  ...ALERTS.filter(([field]) => field !== name),
  ...instead,
];

const actionsOf = async ({ org, key }: Given): Promise<any[]> =>
  (await server.call("GET", `/actions/${org}`, { key })).body;

test("an action of environments is created and shown", async () => {
  const at = await given();
  const path = `/${at.org}/actions`;
  assert.match(visibleText(await at.browser.get(path)), /No actions yet/);
  const created = await submit(at.browser, `${path}?ask=create`, ALERTS);
  assert.equal([created.status, created.location], [303, `../${at.org}/actions/1?done=created`]);
  const [action] = await actionsOf(at);
  assert.equal(action.environments, ["prod", "staging"]);
  assert.equal(action.triggers, ["ON_NON_COMPLIANT_ENV", "ON_ALLOWLIST_EXPIRY"]);
  assert.equal(
    action.targets.map(({ webhook, emails }: any) => webhook ?? emails),
    ["https://hooks.example.com/a,b", ["a@example.com", "b@example.com"]],
  );
  assert.match(
    visibleText(await at.browser.get(path)),
    /alerts .*The environment becomes non-compliant, an allowlist entry ends .* prod ?, staging/,
  );
  const detail = visibleText(await at.browser.get(`${path}/1`));
  assert.match(detail, /An allowlist entry ends in three days/);
  assert.match(detail, /No messages yet/);
});

test("an action of flows is created from its own form", async () => {
  const at = await given();
  const path = `/${at.org}/actions?ask=create&type=flow`;
  assert.match((await at.browser.get(path)).text, /name="flows" value="payments"/);
  const fields = [
    ["form", "put"],
    ["kind", "flow"],
    ["name", "builds"],
    ["flows", "payments"],
    ["triggers", "ON_STARTED_TRAIL"],
    ["slack", "https://chat.example.com/x"],
  ] as const;
  assert.is((await submit(at.browser, path, fields)).status, 303);
  assert.equal((await actionsOf(at))[0].flows, ["payments"]);
});

test("what is wrong with an action is said at its field, what was typed stays, and nothing is stored", async () => {
  const at = await given();
  const path = `/${at.org}/actions?ask=create`;
  for (const [fields, field] of [
    [without("name", ["name", "a b"]), "name"],
    [without("environments"), "environments"],
    [without("environments", ["environments", "no-such-environment"]), "environments"],
    [without("triggers"), "triggers"],
    [without("webhooks", ["webhooks", "not a url"]), "webhooks"],
    [without("slack", ["slack", "ftp://x"]), "slack"],
    [without("emails", ["emails", "nobody"]), "emails"],
    [without("webhooks").filter(([name]) => name !== "emails"), "webhooks"],
  ] as const) {
    const refused = await submit(at.browser, path, fields);
    assert.is(refused.status, 400, field);
    assert.ok(fieldError(refused, `put-${field}`), `${field}: ${visibleText(refused)}`);
    if (field !== "name") assert.match(refused.text, /name="name"[^>]*value="alerts"/);
    if (field !== "triggers") assert.match(refused.text, /value="ON_ALLOWLIST_EXPIRY" checked/);
  }
  const empty = await submit(
    at.browser,
    path,
    without("environments").filter(([name]) => name !== "name"),
  );
  assert.ok(
    fieldError(empty, "put-name") && fieldError(empty, "put-environments"),
    "all that is missing is said at once",
  );
  assert.match(empty.text, /type="checkbox" [^>]*name="environments" [^>]*aria-invalid="true"/);
  assert.equal(await actionsOf(at), []);
  await submit(at.browser, path, ALERTS);
  const twice = await submit(at.browser, path, without("triggers", ["triggers", "ON_STARTED_ARTIFACT"]));
  assert.match(fieldError(twice, "put-name") ?? "", /already exists/);
  assert.equal((await actionsOf(at))[0].triggers, ["ON_NON_COMPLIANT_ENV", "ON_ALLOWLIST_EXPIRY"]);
});

test("a delivery says what happened, and in which snapshot or trail", async () => {
  const at = await given();
  const put = (kind: string, body: object) =>
    server.call("PUT", `/actions/${at.org}/${kind}`, {
      key: at.key,
      body: { name: kind, targets: [{ type: "EMAIL", emails: ["ann@example.com"] }], ...body },
    });
  await put("environments", { environments: ["prod"], triggers: ["ON_STARTED_ARTIFACT"] });
  await put("flows", { flows: ["payments"], triggers: ["ON_STARTED_TRAIL"] });
  runningIn(server).report(at, "prod", [running("app:1", freshFingerprint())]);
  await server.given.trail(at, { flow: "payments", name: "release-1" });
  await server.settled();
  const shown = async (number: number) => visibleText(await at.browser.get(`/${at.org}/actions/${number}`));
  assert.match(await shown(1), /An artifact starts prod #1 [0-9a-f]/);
  assert.match(await shown(2), /A trail begins payments\/release-1 [0-9a-f]/);
});

test("an action is changed; what the form does not show stays", async () => {
  const at = await given();
  const context = { channel_id: "C1", channel_name: "alerts", team_id: "T1" };
  const targets = [
    { type: "SLACK", webhook: "https://chat.example.com/x", context },
    { type: "PIGEON", loft: 7 },
  ];
  await server.call("PUT", `/actions/${at.org}/environments`, {
    key: at.key,
    body: { name: "alerts", environments: ["prod"], triggers: ["ON_STARTED_ARTIFACT"], targets },
  });
  const path = `/${at.org}/actions/1?ask=edit`;
  assert.match((await at.browser.get(path)).text, /name="environments" value="prod" checked/);
  const fields = [
    ["form", "put"],
    ["name", "another-name"],
    ["environments", "staging"],
    ["triggers", "ON_EXITED_ARTIFACT"],
    ["slack", "https://chat.example.com/x"],
  ] as const;
  assert.is((await submit(at.browser, path, fields)).status, 303);
  const [action, ...more] = await actionsOf(at);
  assert.equal([action.name, action.number, action.environments, more.length], ["alerts", 1, ["staging"], 0]);
  // The hour of the message of every day, in a time zone.
  const daily = (zone: string) =>
    [...fields, ["triggers", "ON_DAILY_CHANGES"], ["daily_at.hour", "7"], ["daily_at.time_zone", zone]] as const;
  assert.is((await submit(at.browser, path, daily("Europe/Berlin"))).status, 303);
  assert.equal((await actionsOf(at))[0].daily_at, { hour: 7, time_zone: "Europe/Berlin" });
  assert.match(visibleText(await at.browser.get(`/${at.org}/actions/1`)), "Every day 07:00 Europe/Berlin");
  const again = await at.browser.get(path);
  assert.match(again.text, /<option value="7" selected>07:00</);
  assert.match(again.text, /name="daily_at.time_zone"[^>]* value="Europe\/Berlin"/);
  const wrong = await submit(at.browser, path, daily("Berlin"));
  assert.is(wrong.status, 400);
  assert.match(fieldError(wrong, "put-daily_at-time_zone") ?? "", /time zone such as Europe\/Berlin|time zone/);
  assert.equal(
    (await actionsOf(at))[0].daily_at,
    { hour: 7, time_zone: "Europe/Berlin" },
    "refused, and nothing changed",
  );
  assert.equal(action.targets[0].context, context);
  assert.equal(action.targets[1], { type: "PIGEON", loft: 7 });
});

test("a test message is sent, a message that failed is sent again, a delivered one is not", async () => {
  const at = await given();
  const path = `/${at.org}/actions/1`;
  await submit(
    at.browser,
    `/${at.org}/actions?ask=create`,
    without("webhooks", ["webhooks", "https://broken.example.com/x"]),
  );
  const sent = await submit(at.browser, path, [["form", "test"]]);
  assert.equal([sent.status, sent.location], [303, `../../${at.org}/actions/1?done=sent`]);
  const deliveries = async (): Promise<any[]> =>
    (await server.call("GET", `/actions/${at.org}/1/deliveries`, { key: at.key })).body.deliveries;
  for (let attempt = 0; attempt < 3; attempt += 1) {
    server.clock.at += 1800;
    server.runner.wake();
    await server.settled();
  }
  const page = visibleText(await at.browser.get(path));
  assert.match(page, /Given up .* 3 attempts The receiver answered 410 Gone .*Retry/);
  assert.match(page, /Delivered /);
  assert.not.match(page, /status 200/);
  const dead = (await deliveries()).find(({ state }) => state === "dead");
  const delivered = (await deliveries()).find(({ state }) => state === "delivered");
  const only = await at.browser.get(`${path}?state=dead`);
  assert.ok(only.text.includes(dead.id));
  assert.not.ok(only.text.includes(delivered.id));
  assert.is(
    (
      await submit(at.browser, path, [
        ["form", "retry"],
        ["delivery", dead.id],
      ])
    ).location,
    `../../${at.org}/actions/1?done=retried`,
  );
  const refused = await submit(at.browser, path, [
    ["form", "retry"],
    ["delivery", delivered.id],
  ]);
  assert.is(refused.status, 400);
  for (const query of ["state=nonsense", "after=nonsense", "done=nonsense"])
    assert.is((await at.browser.get(`${path}?${query}`)).status, 200, query);
  assert.match(
    visibleText(await at.browser.get(`${path}?state=nonsense`)),
    "“nonsense” is not one of the choices, so nothing is filtered by it.",
  );
});

test("an action is deleted after a question", async () => {
  const at = await given();
  await submit(at.browser, `/${at.org}/actions?ask=create`, ALERTS);
  const path = `/${at.org}/actions/1?ask=delete`;
  assert.match(visibleText(await at.browser.get(path)), /Delete this action\?/);
  assert.is((await actionsOf(at)).length, 1);
  assert.is((await submit(at.browser, path, [["form", "delete"]])).status, 303);
  assert.equal(await actionsOf(at), []);
  assert.is((await at.browser.get(`/${at.org}/actions/1`)).status, 404);
});

test("readers see no forms, and forged ones change nothing; outsiders do not see addresses", async () => {
  const at = await given();
  await submit(at.browser, `/${at.org}/actions?ask=create`, ALERTS);
  const path = `/${at.org}/actions/1`;
  const reader = await member(at.org, "reader");
  const page = await reader.get(path);
  assert.is(page.status, 200);
  assert.match(visibleText(page), /https:\/\/hooks\.example\.com/);
  assert.not.match(page.text, /value="(?:test|retry|put|delete)"|ask=(?:edit|delete)/);
  assert.not.match((await reader.get(`/${at.org}/actions?ask=create`)).text, /value="put"/);
  for (const form of ["put", "test", "retry", "delete"])
    assert.is((await submit(reader, path, [...without("form"), ["form", form]])).status, 403, form);
  assert.is((await actionsOf(at)).length, 1);
  const outsider = await (await member(at.org, null)).get(path);
  assert.is(outsider.status, 200);
  assert.not.match(outsider.text, /hooks\.example\.com|example\.com/);
});

test("an action that is not there, and stored markup", async () => {
  const at = await given();
  assert.is((await at.browser.get(`/${at.org}/actions/99`)).status, 404);
  assert.is((await at.browser.get(`/${at.org}/actions/nonsense`)).status, 400);
  await server.call("PUT", `/actions/${at.org}/environments`, {
    key: at.key,
    body: { name: "alerts", environments: ["prod"], triggers: [], targets: [{ type: "<script>alert(1)</script>" }] },
  });
  for (const path of ["actions", "actions/1", "actions/1?ask=edit"])
    assert.not.match((await at.browser.get(`/${at.org}/${path}`)).text, /<script>alert/, path);
  assert.is(messageOf(await at.browser.get(`/${at.org}/actions/1`)), null);
});

test.run();
