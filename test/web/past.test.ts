/** Time travel: pages as of a moment in the past show what was stored then, and nothing can be changed there. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { freshFingerprint, startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { running, runningIn } from "../api/environments/given.ts";
import { signIn, signInWithRole, visibleText } from "./browser.ts";
import type { Browser, Page } from "./browser.ts";

const test = suite("web/past");
let server: TestServer;
let world: ReturnType<typeof runningIn>;
test.before(async () => {
  server = await startServer();
  world = runningIn(server);
});
test.after(() => server.stop());

const POLICY = "artifacts:\n  provenance:\n    required: true\n";
const pass = (seconds: number): number => (server.clock.at += seconds);
const text = (seconds: number): string => new Date(seconds * 1000).toISOString();

/** production fails until the artifact is allowed; then a second environment is created. */
async function story() {
  const at = server.given.org();
  const browser = await signIn(server, `${at.org}-admin`);
  const fingerprint = freshFingerprint();
  const born = pass(60);
  const production = world.environment(at, { name: "production" });
  await server.given.policy(at, { name: "baseline", yaml: POLICY });
  world.attach(at, production, "baseline");
  pass(3_600);
  world.report(at, production, [running("shell:1", fingerprint)]);
  const failing = pass(3_600);
  world.allow(at, production, fingerprint);
  pass(3_600);
  world.environment(at, { name: "staging" });
  await server.given.policy(at, { name: "baseline", yaml: `${POLICY}# second\n` });
  const end = pass(3_600);
  return { at, browser, fingerprint, born, failing, end };
}
type Story = Awaited<ReturnType<typeof story>>;

const show = async (browser: Browser, path: string, status = 200): Promise<Page> => {
  const page = await browser.get(path);
  assert.is(page.status, status, `${path}: ${visibleText(page)}`);
  return page;
};
const then = ({ at, browser, failing }: Story, path = "", status = 200): Promise<Page> =>
  show(browser, `/${at.org}${path}${path.includes("?") ? "&" : "?"}at=${text(failing)}`, status);

/** The addresses in a page that lead to pages of the organization. */
const linksOf = ({ text: page }: Page, org: string): string[] =>
  [...page.matchAll(/<a [^>]*href="([^"]*)"/g)]
    .map(([, href = ""]) => href.replace(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code))))
    .filter((href) => new RegExp(`^(?:\\.\\./|\\./)*${org}(?:[/?]|$)`).test(href));

const PATHS = [
  "",
  "/environments",
  "/environments/production",
  "/environments/production?tab=policies",
  "/environments/production?tab=log",
  "/environments/production/1",
  "/why?environment=production&snapshot=1",
  "/artifacts",
  "/policies",
  "/policies/baseline",
  "/flows",
  "/search?q=shell",
] as const;

test("every page of the mode says the moment, and every link of it keeps the moment", async () => {
  const given = await story();
  const moment = encodeURIComponent(text(given.failing).replace(":00.000Z", "Z").replace(".000Z", "Z"));
  for (const path of PATHS) {
    const page = await then(given, path);
    const shown = visibleText(page);
    const band = visibleText({ text: /<aside class="asof"[\s\S]*?<\/aside>/.exec(page.text)?.[0] ?? "" });
    assert.match(band, /You are viewing \S+ as of \w{3} \d+ \w{3} \d{4}, \d\d:\d\d/, path);
    for (const words of ["Day before", "Day after", "Compare with now", "Back to now"]) assert.match(band, words, path);
    const leaving = linksOf(page, given.at.org).filter((href) => !href.includes(`at=${moment}`));
    // To now: the band, the menu, what is not kept. To other days: the band and the menu.
    for (const href of leaving)
      assert.ok(
        /[?&]at=/.test(href) ||
          page.text.includes(`href="${href.replaceAll("&", "&#38;")}">Back to now`) ||
          /env-diff|changes\?from=/.test(href) ||
          /Show it as of now/.test(shown),
        `${path}: ${href}`,
      );
    for (const [form] of page.text.matchAll(/<form\b[^>]*>/g))
      assert.ok(/method="get"/.test(form) || /action="[^"]*preferences"/.test(form), `${path}: ${form}`);
    for (const [whole] of page.text.matchAll(/<form\b[^>]*method="get"[\s\S]*?<\/form>/g))
      assert.match(whole, 'name="at"', path);
    assert.not.match(page.text, /data-relative|data-absolute|data-live=/, path);
    assert.not.match(shown, /\d (?:min|h) ago/, path);
  }
});

test("the overview shows what failed then, by its stored verdict", async () => {
  const given = await story();
  const shown = visibleText(await then(given));
  assert.match(shown, "One artifact was running that a policy refused.");
  assert.match(shown, /Failing then 1 .*shell\s?:1 in production #1/);
  assert.match(shown, "Why then?");
  assert.match(shown, /production Docker 1 policy Non-compliant/);
  assert.match(shown, "Rules in force baseline production v1");
  assert.match(shown, "Environments 1, now 2");
  assert.match(shown, "Failing 1, now 0");
  assert.not.match(shown, "staging");
  const present = visibleText(await show(given.browser, `/${given.at.org}`));
  assert.not.match(present, "Failing then");
  assert.match(present, "staging");
});

test("the overview says which environment was evaluated with an older version of a policy", async () => {
  const { at, browser } = await story();
  const other = world.environment(at, { name: "other" });
  world.attach(at, other, "baseline");
  world.report(at, other, [running("shell:1", freshFingerprint())]);
  const moment = pass(3_600);
  pass(60);
  const shown = visibleText(await show(browser, `/${at.org}?at=${text(moment)}`));
  assert.match(shown, /Rules in force baseline (?:production \(v1\) , other|other , production \(v1\)) v2/);
});

test("an environment is that of its snapshot in force, and its later snapshots did not exist", async () => {
  const given = await story();
  const shown = visibleText(await then(given, "/environments/production"));
  assert.match(shown, "production #1 Non-compliant in force then");
  assert.match(shown, "Artifacts that ran");
  assert.not.match(shown, /reported \d|Allow it|Settings/);
  assert.match(visibleText(await show(given.browser, `/${given.at.org}/environments/production`)), "production #2");
  assert.match(
    visibleText(await then(given, "/environments/production?tab=policies")),
    "Policies in force then as evaluated in #1 baseline v1",
  );
  const log = visibleText(await then(given, "/environments/production?tab=log"));
  assert.match(log, /#1 report of \S+ Non-compliant 1 ran, 1 failed 1 h /);
  assert.not.match(log, /#2|This tab is as of now/);
  assert.match(visibleText(await then(given, "/environments/production/2")), "Snapshot #2 was taken after that moment");
  assert.match(visibleText(await then(given, "/environments/production/-1")), "production #1 ");
  assert.match(visibleText(await then(given, "/environments/staging")), "staging did not exist then");
  await then(given, "/environments/absent", 404);
  const before = await show(given.browser, `/${given.at.org}/environments/production?at=${text(given.born + 60)}`);
  assert.match(visibleText(before), "There was no snapshot yet");
});

test("the tabs of an environment have what was stored until then", async () => {
  const given = await story();
  const tab = async (name: string, more = ""): Promise<string> =>
    visibleText(await then(given, `/environments/production?tab=${name}${more}`));
  const events = await tab("events");
  assert.match(events, /shell ?:1 started in #1/);
  assert.not.match(events, "#2");
  assert.match(await tab("events", "&days=1"), /started in #1/);
  // Both snapshots are on the list of now.
  const present = visibleText(await show(given.browser, `/${given.at.org}/environments/production?tab=events`));
  assert.match(present, /became compliant in #2/);
  pass(10 * 86_400);
  given.browser = await signIn(server, `${given.at.org}-admin`);
  assert.match(await tab("events", "&days=1"), /started in #1/, "a period counts back from the moment");
  assert.match(await tab("diff"), "production has 1 snapshot.");
  assert.match(await tab("diff", "&left=production%231&right=production%232"), "production has 1 snapshot.");
  assert.match(await tab("diff", "&left=production%231&right=production"), /#1 .*No verdict|Same|no change/i);
  assert.match(await tab("deployments"), "No deployments in the last 30 days");
  for (const name of ["events", "log", "diff", "deployments"])
    assert.not.match(await tab(name), /as of now: |Not kept/);
  const before = `/${given.at.org}/environments/production?tab=events&at=${text(given.born + 60)}`;
  assert.match(visibleText(await show(given.browser, before)), "There was no snapshot yet");
});

test("what changed ends at the moment, from which its period counts", async () => {
  const given = await story();
  pass(20 * 86_400);
  given.browser = await signIn(server, `${given.at.org}-admin`);
  const changes = async (query: string): Promise<string> => visibleText(await then(given, `/changes${query}`));
  const end = text(given.failing).slice(0, 16).replace("T", " ");
  for (const query of ["", "?from=12hours", `?from=12hours&to=${text(given.end)}`]) {
    const shown = await changes(query);
    assert.match(shown, `to ${end} UTC`);
    assert.match(shown, "shell");
    assert.not.match(shown, /Subscribe|Nothing changed in staging/);
  }
  assert.match(await changes("?from=30mins"), "Nothing changed");
  assert.match(await changes("?from=yesterday"), "These changes cannot be shown");
  assert.match(await changes(`?from=${text(given.end)}`), /Nothing changed|cannot be shown/);
});

test("the period of an audit binder ends at the moment, unless the address says another end", async () => {
  const given = await story();
  const end = text(given.failing).slice(0, 16).replace("T", " ");
  const binder = async (more: string): Promise<string> =>
    visibleText(await then(given, `/audit-binder?environment=production${more}`));
  assert.match(await binder(""), new RegExp(`to ${end}, UTC`));
  assert.match(await binder(""), "The period ends at that moment. The page tells it as it is known now.");
  assert.match(await binder(`&to=${text(given.end)}`), "This page shows the present.");
  assert.not.match(await binder(`&to=${text(given.end)}`), new RegExp(`to ${end}, UTC`));
});

test("artifacts of the past are searched and filtered by the verdict of then", async () => {
  const given = await story();
  const flow = await server.given.flow(given.at);
  await server.given.trail(given.at, { flow, name: "release" });
  for (const [name, fingerprint] of [
    ["shell", given.fingerprint],
    ["tool", freshFingerprint()],
  ] as const)
    await server.given.artifact(given.at, { flow, trail: "release", name, filename: name, fingerprint });
  const moment = text(pass(60));
  pass(60);
  const list = async (query: string): Promise<string> =>
    visibleText(await show(given.browser, `/${given.at.org}/artifacts?at=${moment}${query}`));
  assert.match(await list(""), /All 2 Non-compliant 0 Unknown 0 Compliant 1 Ran nowhere 1 .*2 artifacts/);
  assert.match(await list("&search=SHE"), /1 artifact .*shell/);
  assert.match(await list("&state=NOT-RUNNING"), /1 artifact .*tool .*nowhere/);
  assert.match(await list("&search=nothing"), /No artifact matches/);
  assert.match(await list("&state=bogus"), /2 artifacts/);
});

test("the time is asked for on the page that a person is on, or on the overview where nothing is kept", async () => {
  const { at, browser } = await story();
  const menuOf = async (path: string): Promise<string> => {
    const { text: page } = await show(browser, `/${at.org}${path}`);
    return /<details class="when-menu"[\s\S]*?<form method="get" action="([^"]*)"/.exec(page)?.[1] ?? "";
  };
  assert.match(await menuOf("/environments/production?tab=log"), /\/environments\/production$/);
  assert.match(await menuOf("/policies"), /\/policies$/);
  for (const path of ["/flows", "/settings/members", "/controls"])
    assert.match(await menuOf(path), new RegExp(`/${at.org}$`), path);
  const asked = await show(browser, `/${at.org}/search?time=1`);
  assert.match(visibleText(asked), "Which moment? Show everything as of");
  assert.match(asked.text, new RegExp(`action="[^"]*/${at.org}"`));
  const commands = await show(browser, `/${at.org}/search?q=${encodeURIComponent("> go to a")}`);
  assert.match(commands.text, /href="[^"]*search\?time=1"/);
  assert.not.match(visibleText(commands), /in which environment/);
});

test("the list of environments has those of then with their states", async () => {
  const given = await story();
  const shown = visibleText(await then(given, "/environments"));
  assert.match(shown, /production Docker baseline v1 Non-compliant 1 ran, 1 failed #1/);
  assert.not.match(shown, /staging|New environment/);
  assert.match(visibleText(await then(given, "/environments?state=COMPLIANT")), "No environment matches");
  assert.match(
    visibleText(await show(given.browser, `/${given.at.org}/environments?at=${text(given.born - 30)}`)),
    "No environment existed then",
  );
});

test("why is answered from the stored explanation of then", async () => {
  const given = await story();
  const shown = visibleText(
    await then(given, `/why?environment=production&snapshot=-1&fingerprint=${given.fingerprint}`),
  );
  assert.match(shown, "Why is shell:1 Non-compliant");
  assert.match(shown, "in production #1");
  assert.not.match(shown, /Re-evaluate /);
  const later = await then(given, `/why?environment=production&snapshot=2&fingerprint=${given.fingerprint}`);
  assert.match(visibleText(later), "Snapshot #2 was taken after that moment");
  assert.match(visibleText(await then(given, "/why?flow=f&trail=t")), "No history");
});

test("policies have their versions of then", async () => {
  const given = await story();
  assert.match(visibleText(await then(given, "/policies")), /baseline v1 production/);
  const shown = visibleText(await then(given, "/policies/baseline"));
  assert.match(shown, "baseline v1 then");
  assert.match(shown, "Version 1 the latest then");
  assert.match(shown, /In force then .*production/);
  assert.not.match(shown, /second|Save as version|Edit/);
  assert.match(
    visibleText(await then(given, "/policies/baseline?version=2")),
    "Version 2 was stored after that moment",
  );
  const before = await show(given.browser, `/${given.at.org}/policies?at=${text(given.born - 30)}`);
  assert.match(visibleText(before), "No policy existed then");
});

test("an artifact shows where it ran then", async () => {
  const given = await story();
  const { at, browser } = given;
  await server.given.flow(at, { name: "payments" });
  await server.given.trail(at, { flow: "payments", name: "release-1" });
  const fingerprint = freshFingerprint();
  await server.given.artifact(at, {
    flow: "payments",
    trail: "release-1",
    name: "app",
    filename: "app:1",
    fingerprint,
  });
  const reported = pass(60);
  world.report(at, "production", [running("app:1", fingerprint)]);
  const ran = pass(60);
  world.report(at, "production", []);
  pass(60);
  const of = async (path: string, moment: number) =>
    visibleText(await show(browser, `/${at.org}${path}?at=${text(moment)}`));
  const page = `/flows/payments/artifacts/${fingerprint}`;
  assert.match(await of("/artifacts", reported), /app :1 .*nowhere/);
  assert.match(await of("/artifacts", ran), /app :1 .*production/);
  assert.match(await of("/artifacts", given.failing), "No artifact had been reported");
  assert.match(await of(page, reported), "It had not run anywhere yet.");
  const shown = await of(page, ran);
  assert.match(shown, /Verdicts then .*production Docker, ran in #3 /);
  assert.match(shown, "Where it ran");
  assert.not.match(shown, /Would fail|Audit package/);
  assert.match(await of(page, given.failing), "The artifact was reported after that moment.");
});

test("a page whose facts have no history says so, and leads to the present", async () => {
  const given = await story();
  const page = await then(given, "/settings/members");
  assert.match(visibleText(page), "No history What this page shows is stored only as it is now.");
  const [, href = ""] =
    /<a class="btn" href="([^"]*)">[^<]*<svg[^>]*>.{0,80}<\/svg>Show it as of now/.exec(page.text) ?? [];
  assert.not.match(href, "at=");
});

test("a form that is submitted to the past changes nothing", async () => {
  const given = await story();
  const address = `/${given.at.org}/environments`;
  const form = await show(given.browser, `${address}?ask=create`);
  const [, csrf = ""] = /name="csrf" value="([^"]+)"/.exec(form.text) ?? [];
  const fields = { csrf, form: "create", name: "late", type: "K8S", description: "", included_environments: "" };
  const refused = await given.browser.post(`${address}?at=${text(given.failing)}`, fields);
  assert.is(refused.status, 409, visibleText(refused));
  assert.match(visibleText(refused), "This form was sent from a page of the past, where nothing can be changed.");
  assert.is((await given.browser.get(`${address}/late`)).status, 404);
  // Not even with a text that names no moment.
  assert.is((await given.browser.post(`${address}?at=nonsense`, fields)).status, 409);
  assert.is((await given.browser.get(`${address}/late`)).status, 404);
  assert.is((await given.browser.post(address, fields)).status, 303);
});

test("what names no moment is said at the field, and nothing of the present is shown", async () => {
  const given = await story();
  for (const wrong of ["yesterday", "2001-02-30", "production#9", "2999-01-01", "x".repeat(400)]) {
    const page = await show(given.browser, `/${given.at.org}?at=${encodeURIComponent(wrong)}`, 400);
    assert.match(page.text, /name="at" value="[^"]+"[^>]* aria-invalid="true"/, wrong);
    assert.match(visibleText(page), "Show the present");
    assert.not.match(visibleText(page), /Failing (?:now|then)/);
  }
  // Empty is the present.
  assert.match(visibleText(await show(given.browser, `/${given.at.org}?at=`)), "Failing now");
});

test("links have the time that an expression meant when it was asked", async () => {
  const given = await story();
  const page = await show(given.browser, `/${given.at.org}?at=production%231`);
  const [taken = 0] = world.times(given.at, "production");
  const minute = new Date(taken * 1000).toISOString().slice(0, 16);
  assert.ok(page.text.includes(`at=${encodeURIComponent(minute)}`), minute);
  assert.not.match(page.text, /href="[^"]*at=production/);
});

test("the reader's rights are those of now", async () => {
  const given = await story();
  const reader = await signInWithRole(server, given.at.org, "reader");
  const path = `/${given.at.org}?at=${text(given.failing)}`;
  assert.match(visibleText(await show(reader, path)), "Failing then");
  const stranger = await signIn(server, `${server.given.org().org}-admin`);
  const page = await show(stranger, path, 403);
  assert.not.match(visibleText(page), /production|baseline/);
});

test.run();
