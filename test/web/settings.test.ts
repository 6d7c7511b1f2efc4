/** The settings of an organization: each form with its refusals, secrets that are shown once, and roles. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Role } from "../../src/domain/access.ts";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { createBrowser, messageOf, signIn, visibleText } from "./browser.ts";
import type { Browser, Page } from "./browser.ts";

const test = suite("web/settings");

let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type Given = { org: string; key: string; browser: Browser };

/** An organization, and a browser in which its administrator is signed in. */
async function given(): Promise<Given> {
  const at = server.given.org();
  return { ...at, browser: await signedIn(`${at.org}-admin`) };
}

const signedIn = (name: string): Promise<Browser> => signIn(server, name);

/** A user with a role in the organization, signed in. */
async function member(org: string, role: Role | null): Promise<{ browser: Browser; name: string; key: string }> {
  const key = server.given.user(org, role);
  const { name } = server.db.prepare("SELECT name FROM users ORDER BY id DESC LIMIT 1").get() as { name: string };
  return { browser: await signedIn(name), name, key };
}

/** Submits a form of a page, to the page itself. */
const submit = (browser: Browser, path: string, fields: Record<string, string>): Promise<Page> =>
  browser.submitForm(path, fields);

const fieldError = ({ text }: Page, id: string): string | null => {
  const message = new RegExp(`<p class="field-error" id="${id}-error">([\\s\\S]*?)</p>`).exec(text)?.[1];
  return message === undefined ? null : visibleText({ text: message });
};
const secretIn = ({ text }: Page): string | null => /<div class="secret"><code>([^<]*)<\/code>/.exec(text)?.[1] ?? null;
const outcome = ({ status, location }: Page): [number, string | null] => [status, location];
const read = async (at: { key: string }, path: string): Promise<any> =>
  (await server.call("GET", path, { key: at.key })).body;

test("the navigation shows a role what it may read", async () => {
  const { org } = await given();
  for (const [role, entries] of [
    ["admin", "Organization Members Service accounts Webhooks Retention Clients Audit log"],
    ["member", "Organization Service accounts Webhooks"],
    ["snapshotter", "Organization Service accounts Webhooks"],
    ["reader", "Organization Webhooks"],
  ] as const) {
    const { browser } = await member(org, role);
    const { status, text } = await browser.get(`/${org}/settings/general`);
    const nav = /<nav class="nav" aria-label="Settings">([\s\S]*?)<\/nav>/.exec(text)?.[1] ?? "";
    assert.equal([status, visibleText({ text: nav })], [200, entries], role);
    const expected = role === "admin" ? 200 : 403;
    for (const path of ["members", "retention", "clients", "audit-log"])
      assert.is((await browser.get(`/${org}/settings/${path}`)).status, expected, `${role} ${path}`);
    assert.is((await browser.get(`/${org}/settings/service-accounts`)).status, role === "reader" ? 403 : 200);
  }
});

const SETTINGS = {
  is_public: true,
  controls_enabled: false,
  evaluations_enabled: false,
  decisions_need_published_policy: false,
};

test("admins change the settings of the organization; others see no form, and a forged one is refused", async () => {
  const at = await given();
  const path = `/${at.org}/settings/general`;
  const settings = () => read(at, `/organizations/${at.org}/settings`);
  assert.equal(outcome(await submit(at.browser, path, { form: "settings", is_public: "yes" })), [
    303,
    "../settings/general?done=saved".replace("../settings", `../../${at.org}/settings`),
  ]);
  assert.equal(await settings(), SETTINGS);
  assert.is(messageOf(await at.browser.get(`${path}?done=saved`)), "Saved.");
  const { browser } = await member(at.org, "member");
  assert.not.match((await browser.get(path)).text, /name="is_public"/);
  const forged = await submit(browser, path, { form: "settings", controls_enabled: "yes" });
  assert.is(forged.status, 403);
  assert.equal(await settings(), SETTINGS);
  assert.is((await submit(browser, path, { form: "choose" })).status, 303);
  assert.match(visibleText(await browser.get(path)), /organization that opens first/);
});

test("a member is added, gets another role, and is removed after a question", async () => {
  const at = await given();
  const path = `/${at.org}/settings/members`;
  const { name } = await member((await given()).org, "reader");
  const wrong = await submit(at.browser, `${path}?ask=add`, { form: "add", user: "nobody-here", role: "member" });
  assert.is(wrong.status, 400);
  assert.match(fieldError(wrong, "add-user") ?? "", /'nobody-here' not found: check the login name/);
  assert.match(wrong.text, /name="user"[^>]*value="nobody-here"/, "what was typed stays");
  assert.is((await submit(at.browser, `${path}?ask=add`, { form: "add", user: name, role: "member" })).status, 303);
  const roleOf = async (): Promise<string | undefined> =>
    (await read(at, `/members/${at.org}`)).data.find(({ user }: { user: string }) => user === name)?.role;
  assert.is(await roleOf(), "member");
  const question = await at.browser.get(`${path}?ask=role&user=${name}&role=member`);
  assert.match(question.text, /<option value="member" selected>/);
  assert.is(
    (await submit(at.browser, `${path}?ask=role&user=${name}`, { form: "role", user: name, role: "reader" })).status,
    303,
  );
  assert.is(await roleOf(), "reader");
  assert.match(
    visibleText(await at.browser.get(`${path}?ask=remove&user=${name}`)),
    /Remove this member\? .* loses access/,
  );
  assert.is(await roleOf(), "reader", "a question changes nothing");
  assert.is((await submit(at.browser, `${path}?ask=remove&user=${name}`, { form: "remove", user: name })).status, 303);
  assert.is(await roleOf(), undefined);
  for (const ask of ["role", "remove"]) {
    const late = await at.browser.get(`${path}?ask=${ask}&user=${name}`);
    assert.match(visibleText(late), new RegExp(`${name} is not a member`));
    assert.not.match(late.text, /name="form" value="(?:role|remove)"/, "a new role would make a new member");
  }
});

test("members are searched by name", async () => {
  const at = await given();
  const { name } = await member(at.org, "reader");
  const path = `/${at.org}/settings/members`;
  const found = visibleText(await at.browser.get(`${path}?search=${name.toUpperCase()}`));
  assert.match(found, /1 member Clear filters/);
  assert.match(found, name);
  assert.not.match(found, `${at.org}-admin`);
  assert.match(visibleText(await at.browser.get(`${path}?search=not-there`)), "No member matches");
  assert.match(visibleText(await at.browser.get(path)), "2 members");
});

test("the last administrator stays, and the page says why", async () => {
  const at = await given();
  const name = `${at.org}-admin`;
  const path = `/${at.org}/settings/members`;
  for (const fields of [
    { form: "role", user: name, role: "reader" },
    { form: "remove", user: name },
  ]) {
    const refused = await submit(at.browser, `${path}?ask=${fields.form}&user=${name}`, fields as never);
    assert.is(refused.status, 400);
    assert.match(messageOf(refused) ?? "", /is the last admin of/);
  }
});

test("a new user gets a password that is shown once", async () => {
  const at = await given();
  const path = `/${at.org}/settings/members?ask=add`;
  const fields = { form: "create", name: `${at.org}-grace`, display_name: "Grace <b>", email: "", role: "member" };
  const taken = await submit(at.browser, path, { ...fields, name: `${at.org}-admin`, email: "not an address" });
  assert.is(taken.status, 400);
  assert.match(fieldError(taken, "create-email") ?? "", /./);
  const created = await submit(at.browser, path, fields);
  assert.equal([created.status, created.headers.get("Cache-Control")], [200, "no-store"]);
  const password = secretIn(created) ?? "";
  assert.ok(password.length > 20);
  assert.match(created.text, /<h1><bdi>Grace &#60;b&#62;<\/bdi><\/h1>/);
  assert.not.ok((await at.browser.get(`/${at.org}/settings/members`)).text.includes(password));
  assert.is((await createBrowser(server.url).login(fields.name, password)).status, 303);
  const again = await submit(at.browser, path, fields);
  assert.match(fieldError(again, "create-name") ?? "", /already exists/);
  assert.match(again.text, /name="display_name"[^>]*value="Grace &#60;b&#62;"/);
});

test("whoever is removed leaves service accounts, which the page names", async () => {
  const at = await given();
  const leaver = await member(at.org, "member");
  await server.call("POST", `/service-accounts/${at.org}`, {
    key: leaver.key,
    body: { name: "ci-left", privilege: "member" },
  });
  await server.call("POST", `/service-accounts/${at.org}/ci-left/api-keys`, {
    key: leaver.key,
    body: { description: "pool" },
  });
  const path = `/${at.org}/settings/members?ask=remove&user=${leaver.name}`;
  const removed = await submit(at.browser, path, { form: "remove", user: leaver.name });
  assert.is(removed.status, 200);
  assert.match(visibleText(removed), /is removed\. Service accounts of this person keep working ci-left/);
});

test("a service account is created, described and deleted; a wrong name is refused at its field", async () => {
  const at = await given();
  const path = `/${at.org}/settings/service-accounts`;
  assert.match(visibleText(await at.browser.get(path)), /No service accounts yet/);
  const fields = { form: "create", name: "ci bot", description: "Builds", privilege: "member" };
  const wrong = await submit(at.browser, `${path}?ask=create`, fields);
  assert.is(wrong.status, 400);
  assert.ok(fieldError(wrong, "create-name"));
  assert.match(wrong.text, /name="description"[^>]*value="Builds"/);
  const created = await submit(at.browser, `${path}?ask=create`, { ...fields, name: "ci-bot" });
  assert.equal(outcome(created), [303, `../../${at.org}/settings/service-accounts/ci-bot?done=created`]);
  assert.match(visibleText(await at.browser.get(path)), /ci-bot Builds member 0 never/);
  const own = `${path}/ci-bot`;
  assert.is((await submit(at.browser, own, { form: "describe", description: "", privilege: "reader" })).status, 303);
  const { description, privilege } = await read(at, `/service-accounts/${at.org}/ci-bot`);
  assert.equal([description, privilege], [null, "reader"]);
  const long = await submit(at.browser, own, { form: "describe", description: "x".repeat(600), privilege: "reader" });
  assert.is(long.status, 400);
  assert.ok(fieldError(long, "describe-description"));
  assert.match(visibleText(await at.browser.get(`${own}?ask=delete`)), /Delete this service account\? .* 0 valid keys/);
  assert.is((await submit(at.browser, `${own}?ask=delete`, { form: "delete" })).status, 303);
  assert.is((await at.browser.get(own)).status, 404);
});

test("a key is shown once with what to paste; it is rotated and revoked", async () => {
  const at = await given();
  await server.call("POST", `/service-accounts/${at.org}`, {
    key: at.key,
    body: { name: "ci-bot", privilege: "member" },
  });
  const path = `/${at.org}/settings/service-accounts/ci-bot`;
  const keys = () => read(at, `/service-accounts/${at.org}/ci-bot/api-keys`);
  for (const [fields, field] of [
    [{ description: "", expires_at: "90" }, "description"],
    [{ description: "pool", expires_at: "1000000" }, "expires_at"],
    [{ description: "pool", expires_at: "" }, "expires_at"],
  ] as const) {
    const refused = await submit(at.browser, path, { form: "create_key", ...fields });
    assert.is(refused.status, 400);
    assert.ok(fieldError(refused, `create_key-${field}`), field);
  }
  assert.equal(await keys(), []);
  const created = await submit(at.browser, path, { form: "create_key", description: "pool <1>", expires_at: "90" });
  const key = secretIn(created) as string;
  assert.equal([created.status, created.headers.get("Cache-Control")], [200, "no-store"]);
  assert.match(
    visibleText(created),
    new RegExp(`export KOSLI_HOST=http://assay\\.test export KOSLI_ORG=${at.org} export KOSLI_API_TOKEN=${key}`),
  );
  assert.match(
    visibleText(created),
    /GitHub Actions .*KOSLI_API_TOKEN: \$\{\{ secrets\.KOSLI_API_TOKEN \}\}.*GitLab CI/,
  );
  assert.match(created.text, /pool &#60;1&#62;/);
  assert.is((await server.call("GET", `/flows/${at.org}`, { key })).status, 200);
  const reloaded = await at.browser.get(path);
  assert.not.ok(reloaded.text.includes(key), "a reload does not show it");
  const [{ id, expires_at, created_at }] = await keys();
  assert.ok(Math.abs(expires_at - created_at - 90 * 86_400) < 60);

  const ask = `${path}?ask=rotate&key=${id}`;
  assert.match(visibleText(await at.browser.get(ask)), /Rotate this key\?/);
  const refused = await submit(at.browser, ask, {
    form: "rotate_key",
    key: id,
    grace_period_hours: "0",
    expires_at: "same",
  });
  assert.is(refused.status, 400);
  assert.ok(fieldError(refused, "rotate_key-grace_period_hours"));
  assert.is((await keys()).length, 1);
  const rotated = await submit(at.browser, ask, {
    form: "rotate_key",
    key: id,
    grace_period_hours: "48",
    expires_at: "same",
  });
  const next = secretIn(rotated) as string;
  assert.is(rotated.status, 200);
  assert.is.not(next, key);
  assert.match(visibleText(rotated), /replaced, still works/);
  assert.not.ok((await at.browser.get(path)).text.includes(next));
  const [old, fresh] = await keys();
  assert.is(fresh.expires_at, old.expires_at);

  const revoke = `${path}?ask=revoke&key=${fresh.id}`;
  assert.match(visibleText(await at.browser.get(revoke)), /Revoke this key\? .* cannot be restored/);
  const revoked = await submit(at.browser, revoke, { form: "revoke_key", key: fresh.id });
  assert.equal(outcome(revoked), [303, `../../../${at.org}/settings/service-accounts/ci-bot?done=revoked`]);
  assert.is((await server.call("GET", `/flows/${at.org}`, { key: next })).status, 401);
  assert.match(visibleText(await at.browser.get(revoke)), /This key is no longer valid/);
});

test("members manage the service accounts that they created, and no others", async () => {
  const at = await given();
  await server.call("POST", `/service-accounts/${at.org}`, {
    key: at.key,
    body: { name: "of-admin", privilege: "reader" },
  });
  const { browser } = await member(at.org, "member");
  const path = `/${at.org}/settings/service-accounts`;
  const form = await browser.get(`${path}?ask=create`);
  assert.not.match(form.text, /<option value="admin"/, "no role above the own one");
  const raised = await submit(browser, `${path}?ask=create`, {
    form: "create",
    name: "too-much",
    description: "",
    privilege: "admin",
  });
  assert.is(raised.status, 403);
  await submit(browser, `${path}?ask=create`, {
    form: "create",
    name: "of-member",
    description: "",
    privilege: "member",
  });
  const own = await browser.get(`${path}/of-member`);
  assert.match(own.text, /value="create_key"/);
  assert.not.match(own.text, /name="privilege"/, "only admins change privileges");
  const foreign = await browser.get(`${path}/of-admin`);
  assert.is(foreign.status, 200);
  assert.not.match(foreign.text, /value="(?:create_key|describe)"|ask=delete/);
  for (const fields of [
    { form: "create_key", description: "mine", expires_at: "90" },
    { form: "describe", description: "mine" },
    { form: "delete" },
  ]) {
    const refused = await submit(browser, `${path}/of-admin`, fields as never);
    assert.is(refused.status, 403, fields.form);
  }
  assert.equal(await read(at, `/service-accounts/${at.org}/of-admin/api-keys`), []);
});

test("keys that expire soon are marked", async () => {
  const at = await given();
  await server.call("POST", `/service-accounts/${at.org}`, {
    key: at.key,
    body: { name: "ci-bot", privilege: "member" },
  });
  const path = `/${at.org}/settings/service-accounts`;
  await submit(at.browser, `${path}/ci-bot`, { form: "create_key", description: "short", expires_at: "7" });
  assert.match(visibleText(await at.browser.get(path)), /Keys expiring soon .* ci-bot short in 6 days/);
  assert.match((await at.browser.get(`${path}/ci-bot`)).text, /<span class="st wait" title="Expires soon">/);
});

test("a webhook is accepted, its secret is shown once, replaced, and it is turned off", async () => {
  const at = await given();
  const path = `/${at.org}/settings/webhooks`;
  const hooks = () => read(at, `/inbound-webhooks/${at.org}`);
  const fields = { form: "put_sonar", kind: "sonar", flow_name: "key", flow_prefix: "", flow_suffix: "" };
  const wrong = await submit(at.browser, path, { ...fields, flow_prefix: "a b" });
  assert.is(wrong.status, 400);
  assert.ok(fieldError(wrong, "put_sonar-flow_prefix"));
  assert.equal(await hooks(), []);
  const created = await submit(at.browser, path, fields);
  const secret = secretIn(created) as string;
  assert.equal([created.status, created.headers.get("Cache-Control")], [200, "no-store"]);
  const [hook] = await hooks();
  assert.ok(created.text.includes(hook.url));
  const reloaded = await at.browser.get(path);
  assert.ok(reloaded.text.includes(hook.url));
  assert.not.ok(reloaded.text.includes(secret));
  assert.is((await submit(at.browser, path, { ...fields, flow_prefix: "sonar-" })).status, 303);
  assert.is((await hooks())[0].settings.flow_prefix, "sonar-");
  const replaced = await submit(at.browser, `${path}?ask=rotate&kind=sonar`, { form: "rotate", kind: "sonar" });
  assert.is(replaced.status, 200);
  assert.is.not(secretIn(replaced), secret);
  assert.match(visibleText(await at.browser.get(`${path}?ask=remove&kind=sonar`)), /Turn off webhooks of SonarQube\?/);
  assert.is((await hooks()).length, 1);
  assert.is((await submit(at.browser, `${path}?ask=remove&kind=sonar`, { form: "remove", kind: "sonar" })).status, 303);
  assert.equal(await hooks(), []);
  const { browser } = await member(at.org, "member");
  assert.not.match((await browser.get(path)).text, /SonarQube/);
  assert.is((await submit(browser, path, fields)).status, 403);
  assert.equal(await hooks(), []);
});

test("recipients of warnings are replaced and restored; each wrong address is refused at its field", async () => {
  const at = await given();
  const path = `/${at.org}/settings/webhooks`;
  const config = () => read(at, `/notification-config/${at.org}/api_key_expiry`);
  const fields = { form: "warn", webhooks: "", slack: "", emails: "" };
  assert.ok(fieldError(await submit(at.browser, path, fields), "warn-webhooks"));
  const wrong = await submit(at.browser, path, {
    ...fields,
    webhooks: "https://hooks.example.com/a",
    slack: "http://chat.example.com/b",
    emails: "not-an-address",
  });
  assert.is(wrong.status, 400);
  assert.is(fieldError(wrong, "warn-webhooks"), null);
  assert.match(fieldError(wrong, "warn-slack") ?? "", /https/);
  assert.ok(fieldError(wrong, "warn-emails"));
  assert.match(wrong.text, /not-an-address<\/textarea>/);
  assert.equal((await config()).targets, []);
  const right = { ...fields, webhooks: "https://hooks.example.com/a", emails: "a@example.com\nb@example.com" };
  assert.is((await submit(at.browser, path, right)).status, 303);
  assert.equal(
    (await config()).targets.map(({ type }: { type: string }) => type),
    ["WEBHOOK", "EMAIL"],
  );
  assert.match(visibleText(await at.browser.get(path)), /E-mail a@example\.com, b@example\.com/);
  assert.is((await submit(at.browser, path, { form: "warn_defaults" })).status, 303);
  assert.equal((await config()).targets, []);
});

test("retention rules are set, changed and removed", async () => {
  const at = await given();
  const flow = await server.given.flow(at);
  const path = `/${at.org}/settings/retention`;
  const rules = () => read(at, `/retention/${at.org}/rules`);
  const rule = { form: "rule", flow: "", trails_after_days: "730", evidence_after_days: "180" };
  for (const [fields, field] of [
    [{ trails_after_days: "soon" }, "trails_after_days"],
    [{ trails_after_days: "0" }, "trails_after_days"],
    [{ flow: "no-such-flow" }, "flow"],
  ] as const) {
    const refused = await submit(at.browser, `${path}?ask=rule`, { ...rule, ...fields });
    assert.is(refused.status, 400, field);
    assert.ok(fieldError(refused, `rule-${field}`), field);
    assert.match(refused.text, /name="evidence_after_days"[^>]*value="180"/);
  }
  const order = await submit(at.browser, `${path}?ask=rule`, { ...rule, evidence_after_days: "800" });
  assert.match(messageOf(order) ?? "", /Files are deleted before their trails/);
  assert.equal(await rules(), []);
  await submit(at.browser, `${path}?ask=rule`, rule);
  await submit(at.browser, `${path}?ask=rule`, { ...rule, flow, trails_after_days: "", evidence_after_days: "" });
  assert.equal(await rules(), [
    { flow: null, trails_after_days: 730, evidence_after_days: 180 },
    { flow, trails_after_days: null, evidence_after_days: null },
  ]);
  const page = visibleText(await at.browser.get(path));
  assert.match(page, /The organization .* 180 days 730 days .* never never/);
  assert.match((await at.browser.get(`${path}?ask=new-rule`)).text, /name="flow" maxlength="\d+"/);
  assert.match((await at.browser.get(`${path}?ask=rule&flow=`)).text, /name="trails_after_days"[^>]*value="730"/);
  assert.is(
    (await submit(at.browser, `${path}?ask=remove-rule&flow=${flow}`, { form: "remove_rule", flow })).status,
    303,
  );
  assert.is((await rules()).length, 1);
  const late = visibleText(await at.browser.get(`${path}?ask=remove-rule&flow=${flow}`));
  assert.not.match(late, /Remove this retention rule/, "there is none any more");
  assert.match(late, /Legal holds/);
});

test("legal holds are placed and released after a question", async () => {
  const at = await given();
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const path = `/${at.org}/settings/retention`;
  const holds = async () => (await read(at, `/retention/${at.org}/holds?with_released=true`)).holds;
  for (const [fields, field] of [
    [{ flow: "no-such-flow", trail: "", reason: "case" }, "flow"],
    [{ flow, trail: "no-such-trail", reason: "case" }, "trail"],
    [{ flow, trail: "", reason: "" }, "reason"],
  ] as const) {
    const refused = await submit(at.browser, `${path}?ask=hold`, { form: "hold", ...fields });
    assert.is(refused.status, 400, field);
    assert.ok(fieldError(refused, `hold-${field}`), field);
  }
  assert.equal(await holds(), []);
  await submit(at.browser, `${path}?ask=hold`, { form: "hold", flow, trail, reason: "case <117>" });
  const [hold] = await holds();
  assert.equal([hold.flow, hold.trail, hold.reason], [flow, trail, "case <117>"]);
  assert.match((await at.browser.get(path)).text, /case &#60;117&#62;/);
  const ask = `${path}?ask=release&hold=${hold.id}`;
  assert.match(visibleText(await at.browser.get(ask)), /Release this legal hold\?/);
  assert.is((await submit(at.browser, ask, { form: "release", hold: hold.id })).status, 303);
  assert.match(messageOf(await submit(at.browser, ask, { form: "release", hold: hold.id })) ?? "", /already released/);
  assert.match(visibleText(await at.browser.get(path)), /There is no hold in force/);
  assert.match(visibleText(await at.browser.get(`${path}?holds=all&after=nonsense`)), /case <117>/);
});

test("the audit log filters, goes on to older entries, and links its CSV with the filters", async () => {
  const at = await given();
  for (let number = 0; number < 30; number += 1)
    await server.call("POST", `/service-accounts/${at.org}`, {
      key: at.key,
      body: { name: `bot-${number}`, privilege: "reader" },
    });
  const path = `/${at.org}/settings/audit-log`;
  const first = await at.browser.get(`${path}?event=service_account&actor=${at.org.toUpperCase()}`);
  assert.is(first.status, 200);
  assert.is(first.text.match(/<tr class="has-detail">/g)?.length, 25);
  const csv =
    /href="\.\.\/\.\.\/(api\/v2\/audit-log\/[^"]*csv\?[^"]*)"/.exec(first.text)?.[1]?.replaceAll("&#38;", "&") ?? "";
  const file = await at.browser.get(`/${csv}`);
  assert.equal(
    [file.status, file.text.split("\n").filter((line) => line.includes("service_account.created")).length],
    [200, 30],
  );
  const older = /href="[^"]*\?([^"]*after=[^"]*)"/.exec(first.text)?.[1]?.replaceAll("&#38;", "&") ?? "";
  const second = await at.browser.get(`${path}?${older}`);
  assert.is(second.text.match(/<tr class="has-detail">/g)?.length, 5);
  for (const query of [
    "event=%3Cscript%3E",
    "from=yesterday",
    "to=2026-99-99",
    "after=nonsense",
    "page=999999",
    "tab=x",
  ])
    assert.is((await at.browser.get(`${path}?${query}`)).status, 200, query);
  assert.match(visibleText(await at.browser.get(`${path}?to=2001-01-01`)), /No change matches/);
  assert.match(visibleText(await at.browser.get(`${path}?tab=memberships&search=admin`)), /admin added as admin/);
});

test("the audit log says what happened to which object, with links, and what was there before", async () => {
  const at = await given();
  const flow = await server.given.flow(at, { name: "shop" });
  const trail = await server.given.trail(at, { flow, name: "one" });
  await server.given.attestation(at, { flow, trail, name: "scan", is_compliant: false });
  const path = `/${at.org}/settings/audit-log`;
  await server.call("POST", `/attestations/${at.org}/${flow}/trail/${trail}/override`, {
    key: at.key,
    body: {
      attestation_name: "scan",
      reason: "accepted",
      new_compliance_status: true,
      original_attestation_type: "generic",
    },
  });
  await server.call("PUT", `/flows/${at.org}/${flow}/rename`, { key: at.key, body: { new_name: "store" } });
  const page = await at.browser.get(path);
  const text = visibleText(page);
  assert.match(text, /Flow renamed store Name: shop → store/);
  assert.match(text, /Attestation overridden scan in shop \/ one/);
  assert.match(text, /Trail begun one in shop/);
  assert.match(page.text, /href="[^"]*\/flows\/shop\/trails\/one\?attestation_id=/);
  assert.match(page.text, /href="[^"]*\/flows\/store"/);
  assert.not.match(
    text.replaceAll(/Details of [a-z_.]+ \{[^}]*\}/g, ""),
    /\/api\/v2\//,
    "no path where a name is known",
  );
});

test("personal organizations say what they do not have", async () => {
  const at = server.given.org({ kind: "personal" });
  const browser = await signedIn(`${at.org}-admin`);
  const shown = async (path: string) => visibleText(await browser.get(`/${at.org}/settings/${path}`));
  assert.match(await shown("service-accounts"), /A personal organization has no service accounts/);
  assert.match(await shown("webhooks"), /A personal organization accepts no webhooks/);
  assert.match(await shown("members"), /its user as the only member/);
});

test("a page of the settings that is far beyond the end, and one of a foreign organization", async () => {
  const at = await given();
  const other = await given();
  for (const path of ["members", "service-accounts", "retention"])
    assert.is((await at.browser.get(`/${at.org}/settings/${path}?page=999999`)).status, 200, path);
  for (const path of ["general", "members", "service-accounts", "webhooks", "retention", "audit-log"])
    assert.is((await at.browser.get(`/${other.org}/settings/${path}`)).status, 403, path);
});

test.run();
