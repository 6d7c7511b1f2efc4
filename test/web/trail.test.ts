/** The page of a trail, the drawer of an attestation, and the preview of evidence. */
import { gzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { tar } from "../../src/archive/tar.ts";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { signIn, signInWithRole, visibleText } from "./browser.ts";
import type { Browser, Page } from "./browser.ts";

const test = suite("web/trail");

let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

const TEMPLATE = `version: 1
trail:
  attestations:
    - name: review
      type: pull_request
    - name: gate
      type: sonar
  artifacts:
    - name: app
      attestations:
        - name: scan
          type: snyk
`;
const SNYK = {
  snyk_results: {
    tool: { name: "Snyk", version: "1" },
    results: [
      {
        high_count: 1,
        medium_count: 2,
        low_count: 0,
        high: [{ id: "S-1", message: "Overflow <script>in</script> x" }],
      },
    ],
  },
};

const signedIn = (name: string): Promise<Browser> => signIn(server, name);

/** A user with a role in the organization, signed in. */
const member = (org: string, role: "reader" | "member" | null): Promise<Browser> => signInWithRole(server, org, role);

/** A trail whose scan fails and whose gate is missing, and a browser of the administrator. */
async function given() {
  const at = server.given.org();
  const flow = await server.given.flow(at, { template: TEMPLATE });
  const trail = await server.given.trail(at, { flow, description: "Two <b>bold</b> words" });
  const fingerprint = await server.given.artifact(at, { flow, trail, name: "app" });
  const scan = await server.given.attestation(at, { flow, trail, name: "scan", kind: "snyk", fingerprint, ...SNYK });
  const browser = await signedIn(`${at.org}-admin`);
  const path = `/${at.org}/flows/${flow}/trails/${trail}`;
  const drawer = (id: string, more = "") => browser.get(`${path}?attestation_id=${id}${more}`);
  const statusOf = async () => (await server.call("GET", `/trails/${at.org}/${flow}/${trail}`, { key: at.key })).body;
  return { at, flow, trail, fingerprint, scan, browser, path, drawer, statusOf };
}

/** The visible text of the drawer. */
const drawerText = ({ text }: Page): string =>
  visibleText({ text: /<aside class="drawer"[\s\S]*<\/aside>/.exec(text)?.[0] ?? "" });

test("a trail shows its verdict with the reasons, what the template expects, and what happened", async () => {
  const { browser, path } = await given();
  const page = await browser.get(path);
  assert.is(page.status, 200);
  const text = visibleText(page);
  for (const words of [
    "Two <b>bold</b> words",
    "Not compliant, for three reasons",
    "scan fails: 1 high, 2 medium · artifact app",
    "review is missing · the trail, type pull_request",
    "gate is missing · the trail, type sonar",
    "1 of 3 delivered, 1 fails",
    "Expected by the template",
    "scan reported for app : 1 high, 2 medium",
    "Trail begun by",
  ])
    assert.ok(text.includes(words), `${words}\n${text}`);
  assert.match(page.text, /data-live="[^"]*flow=/);
  assert.match(page.text, /audit_package" download/);
});

test("the drawer shows one attestation with its figures, findings, record and place in the checklist", async () => {
  const { drawer, scan } = await given();
  const page = await drawer(scan);
  assert.is(page.status, 200);
  const text = drawerText(page);
  for (const words of [
    "1 of 1",
    "A Snyk attestation is compliant only when every count is zero.",
    "High 1 Medium 2 Low 0",
    "Overflow <script>in</script> x",
    "Reported by",
    "Raw JSON",
  ])
    assert.ok(text.includes(words), `${words}\n${text}`);
  assert.not.ok(page.text.includes("<script>in"));
  assert.match(page.text, /<tr class="sel" aria-current="true">/);
});

test("every kind of attestation has a summary and details of its own", async () => {
  const { at, flow, trail, drawer } = await given();
  const kinds: [kind: string, fields: Record<string, unknown>, words: readonly string[]][] = [
    [
      "junit",
      { junit_results: [{ name: "unit", failures: 2, errors: 0, skipped: 1, total: 1203, duration: 3 }] },
      ["Failed 2 Passed 1,200 Skipped 1", "unit"],
    ],
    [
      "pull_request",
      {
        git_provider: "github",
        pull_requests: [
          {
            url: "https://git.test/acme/pull/17",
            state: "MERGED",
            author: "ada",
            title: "Faster",
            commits: [],
            approvers: [{ username: "grace" }],
          },
        ],
      },
      ["#17 Faster", "merged", "Approved by grace"],
    ],
    [
      "jira",
      {
        jira_results: [
          { issue_id: "PAY-1", issue_url: "https://jira.test/PAY-1", issue_exists: true },
          { issue_id: "PAY-2", issue_url: "https://jira.test/PAY-2", issue_exists: false },
        ],
      },
      ["PAY-1 Exists", "PAY-2 Not found"],
    ],
    [
      "sonar",
      {
        sonar_results: {
          analysedAt: "2026-01-31T12:00:00+0000",
          revision: "0f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112",
          project: { key: "backend", url: "https://sonar.test" },
          qualityGate: {
            name: "way",
            status: "ERROR",
            conditions: [
              { metric: "coverage", operator: "LESS_THAN", errorThreshold: "80", value: "70", status: "ERROR" },
            ],
          },
        },
      },
      ["Quality gate ERROR way", "coverage fails if below 80 70 Failed"],
    ],
    [
      "system",
      { type_name: "decision", control: "SEC-1", attestation_data: { is_compliant: true, board: "three people" } },
      ["Control SEC-1", "Decision Approved", "board three people"],
    ],
    [
      "system",
      {
        name: "bom",
        type_name: "sbom",
        attestation_data: {
          format: "spdx-2.3",
          original_fingerprint: "a".repeat(64),
          document: {
            created_at: null,
            tools: ["syft 1.18.0", "<b>"],
            subject: { name: "app", version: "1.4", purl: "pkg:oci/app@1.4" },
            package_count: 1234,
          },
        },
      },
      [
        "sbom",
        "nothing was checked against the artifact",
        "Format SPDX 2.3",
        "About app 1.4",
        "Package URL pkg:oci/app@1.4",
        "Packages 1,234",
        "Tools syft 1.18.0, <b>",
        "Created not stated",
        "Minimum elements 2 missing Missing Packages CycloneDX 1.6, SPDX 3.0.1, or a later version BSI Time of its",
        "was not read, because no file is attached. This is a warning, not a verdict.",
        "Not known: author of the SBOM,",
      ],
    ],
    ["generic", { is_compliant: false, annotations: { node: "eu-1" } }, ["states its verdict", "node eu-1"]],
  ];
  for (const [kind, fields, words] of kinds) {
    const id = await server.given.attestation(at, {
      flow,
      trail,
      kind,
      name: `${kind}-1`.replace("_", "-"),
      ...fields,
    });
    const text = drawerText(await drawer(id));
    for (const expected of words) assert.ok(text.includes(expected), `${kind}: ${expected}\n${text}`);
  }
});

test("an annotation that is an address is a link, and any other one is text", async () => {
  const { at, flow, trail, drawer } = await given();
  const annotations = { report: "https://load.example/runs/811", script: "javascript:alert(1)" };
  const id = await server.given.attestation(at, { flow, trail, kind: "generic", name: "load", annotations });
  const { text } = await drawer(id);
  assert.match(text, 'href="https://load.example/runs/811"');
  assert.not.match(text, 'href="javascript:');
});

test("a custom attestation shows the rules of its type with what each of them says", async () => {
  const { at, flow, trail, drawer } = await given();
  const created = await server.call("POST", `/custom-attestation-types/${at.org}`, {
    key: at.key,
    form: {
      json: { name: "coverage", evaluator: { content_type: "jq", rules: [".percent > 80", ".percent < 200"] } },
    },
  });
  assert.ok(created.status < 300, created.text);
  const fields = { type_name: "coverage", attestation_data: { percent: 12 } };
  const text = drawerText(
    await drawer(await server.given.attestation(at, { flow, trail, kind: "custom", name: "cov", ...fields })),
  );
  for (const words of ["Non-compliant", ".percent > 80 gives false Fails", ".percent < 200 Holds", '"percent": 12'])
    assert.ok(text.includes(words), `${words}\n${text}`);
});

test("an override needs a reason, changes the verdict, and says who overrode what", async () => {
  const { browser, path, scan, statusOf, drawer } = await given();
  const ask = `${path}?attestation_id=${scan}&ask=override`;
  assert.match((await browser.get(ask)).text, /<select autofocus class="field" id="override-new_compliance_status"/);
  const refused = await browser.submitForm(ask, { form: "override", new_compliance_status: "false", reason: " " });
  assert.is(refused.status, 400);
  assert.match(refused.text, /id="override-reason-error"/);
  assert.match(refused.text, /<option value="false" selected>/);
  assert.is((await statusOf()).compliance_status.artifacts_statuses.app.is_compliant, false);
  assert.match(drawerText(await browser.get(ask)), /If it is compliant .* Trail .* Override/);
  const other = { form: "override", new_compliance_status: "false", reason: "LEG-88", seen: "true" };
  const shown = await browser.submitForm(ask, other);
  assert.is(shown.status, 200, "the panel was about another verdict");
  assert.match(drawerText(shown), /LEG-88 .* If it is non-compliant/);
  assert.is((await statusOf()).compliance_status.artifacts_statuses.app.is_compliant, false);

  const done = await browser.submitForm(ask, { form: "override", new_compliance_status: "true", reason: "LEG-88 <b>" });
  assert.is(done.status, 303);
  assert.match(done.location ?? "", /attestation_id=[^&]+&done=overridden$/);
  assert.is((await statusOf()).compliance_status.artifacts_statuses.app.is_compliant, true);
  const after = await browser.get(new URL(done.location ?? "", `${server.url}${path}`).href);
  for (const words of ["Compliant by override", "Reason LEG-88 <b>", "Before 1 high, 2 medium"])
    assert.ok(drawerText(after).includes(words), drawerText(after));
  assert.ok(visibleText(after).includes("overridden to compliant for app by"), visibleText(after));
  assert.ok(drawerText(await drawer(scan)).includes("The override in force"));
});

test("a reader gets no form, and an override that a reader sends anyway changes nothing", async () => {
  const { at, path, scan, statusOf } = await given();
  const reader = await member(at.org, "reader");
  const ask = `${path}?attestation_id=${scan}&ask=override`;
  const page = await reader.get(ask);
  assert.is(page.status, 200);
  assert.not.ok(/name="form" value="override"|Override/.test(page.text));
  const csrf = await reader.readCsrfToken(path);
  const sent = await reader.post(ask, { csrf, form: "override", new_compliance_status: "true", reason: "mine" });
  assert.is(sent.status, 403);
  assert.is((await statusOf()).compliance_status.artifacts_statuses.app.is_compliant, false);
});

test("a record that a later one replaced says so, and names the later one", async () => {
  const { at, flow, trail, fingerprint, scan, drawer } = await given();
  const clean = { tool: { name: "Snyk", version: "1" }, results: [{ high_count: 0, medium_count: 0, low_count: 0 }] };
  const later = { flow, trail, name: "scan", kind: "snyk", fingerprint, snyk_results: clean };
  const id = await server.given.attestation(at, later);
  const old = drawerText(await drawer(scan, "&ask=override"));
  assert.ok(old.includes("Replaced by a later record") && old.includes("Later record No findings"), old);
  assert.not.ok(old.includes("Override"));
  assert.ok(drawerText(await drawer(id)).includes("Earlier records 1 high, 2 medium"));
});

test("an id that the trail does not have opens a drawer that says so, with the trail that has it", async () => {
  const { at, flow, drawer } = await given();
  assert.ok(drawerText(await drawer("nothing")).includes("No such attestation on this trail"));
  const other = await server.given.trail(at, { flow, name: "elsewhere" });
  const id = await server.given.attestation(at, { flow, trail: other });
  assert.ok(drawerText(await drawer(id)).includes("It was reported to elsewhere"));
});

test("long checklists and histories come in pages, and the page with the open attestation is shown", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const ids: string[] = [];
  for (let n = 0; n < 60; n += 1)
    ids.push(await server.given.attestation(at, { flow, trail, name: `check-${String(n).padStart(2, "0")}` }));
  const browser = await signedIn(`${at.org}-admin`);
  const path = `/${at.org}/flows/${flow}/trails/${trail}`;
  const rows = ({ text }: Page): number => [...text.matchAll(/<td class="lead">/g)].length;
  const first = await browser.get(path);
  assert.is(rows(first), 50);
  assert.ok(visibleText(first).includes("1 to 50 of 60"));
  assert.is(rows(await browser.get(`${path}?page=2`)), 10);
  assert.is(rows(await browser.get(`${path}?page=999999&events=999999&order=sideways&view=none`)), 10);
  const opened = await browser.get(`${path}?attestation_id=${ids[55]}`);
  assert.is(rows(opened), 10);
  assert.ok(drawerText(opened).includes("56 of 60"));
  assert.ok(visibleText(first).includes("check-59 , check-58 and 23 more reported"));
  assert.ok(visibleText(await browser.get(`${path}?order=oldest`)).includes("Trail begun by"));
});

test("a large checklist begins with what fails, and is searched by name and filtered by state", async () => {
  const at = server.given.org();
  const template =
    "version: 1\ntrail:\n  attestations: [{name: review, type: generic}]\n" +
    "  artifacts: [{name: shop, attestations: []}]\n";
  const flow = await server.given.flow(at, { template });
  const trail = await server.given.trail(at, { flow });
  const fingerprint = await server.given.artifact(at, { flow, trail, name: "shop" });
  for (let n = 0; n < 54; n += 1) await server.given.attestation(at, { flow, trail, name: `check-${n}` });
  await server.given.attestation(at, { flow, trail, name: "scan", is_compliant: false, fingerprint });
  const browser = await signedIn(`${at.org}-admin`);
  const path = `/${at.org}/flows/${flow}/trails/${trail}`;
  const names = async (query: string): Promise<string[]> => {
    const { text } = await browser.get(`${path}?${query}`);
    const cells = text.matchAll(/<td class="lead">[\s\S]*?<(a|span) class="t-name"[^>]*>([\s\S]*?)<\/\1>/g);
    return [...cells].map(([, , name = ""]) => visibleText({ text: name }));
  };
  assert.equal((await names("")).slice(0, 3), ["scan", "review", "check-0"]);
  assert.match(visibleText(await browser.get(path)), /All 56 Failing 1 Missing 1 Compliant 54/);
  assert.equal(await names("state=non_compliant"), ["scan"]);
  assert.equal(await names("state=missing"), ["review"]);
  assert.equal(await names("check=CHECK-5"), ["check-5", "check-50", "check-51", "check-52", "check-53"]);
  assert.equal(await names("check=shop"), ["scan"], "by the name of its artifact");
  assert.equal(await names(`check=${fingerprint.slice(0, 7)}`), ["scan"]);
  assert.match(visibleText(await browser.get(`${path}?check=5&state=missing`)), /No check matches .* Clear filters/);
  assert.match(visibleText(await browser.get(`${path}?check=5`)), /All 9 Failing 0 Missing 0 Compliant 9 /);
  assert.equal((await names("by=artifact")).slice(0, 2), ["review", "check-0"]);
  assert.is((await names("by=artifact&page=2")).at(-1), "scan");
});

test("the trail of an archived flow says so, and names the flow that has the name now", async () => {
  const { at, flow, trail, browser } = await given();
  const archived = await server.call("PUT", `/flows/${at.org}/${flow}/archive`, { key: at.key });
  assert.ok(archived.status < 300, archived.text);
  const [name] = server.db
    .prepare("SELECT name FROM flows WHERE name LIKE ? || '-archived-at-%'")
    .pluck()
    .all(flow) as string[];
  const path = `/${at.org}/flows/${name}/trails/${trail}`;
  assert.ok(visibleText(await browser.get(path)).includes("The flow of this trail was archived."));
  await server.given.flow(at, { name: flow });
  assert.ok(visibleText(await browser.get(path)).includes(`Another flow has its name now: ${flow}`));
});

test("a missing trail is a page with status 404, a foreign organization one with 403", async () => {
  const { at, flow, path } = await given();
  const browser = await signedIn(`${at.org}-admin`);
  assert.is((await browser.get(`/${at.org}/flows/${flow}/trails/none`)).status, 404);
  const stranger = await member(server.given.org().org, "member");
  assert.is((await stranger.get(path)).status, 403);
  assert.is((await stranger.get(`${path}/evidence?attestation_id=x`)).status, 403);
});

/** The preview of a file that was reported as evidence. */
async function preview(content: string | Buffer, filename = "file", type = "application/octet-stream") {
  const { at, flow, trail, browser, path, drawer } = await given();
  const file = { name: "attachment_file", filename, content, type };
  const id = await server.given.attestation(at, { flow, trail, name: "with-file", file });
  const shown = await browser.get(`${path}/evidence?attestation_id=${id}`);
  return { shown, drawer: await drawer(id, "&view=evidence") };
}

test("evidence is shown in a sandboxed frame, under a policy that permits nothing but to be framed here", async () => {
  const { shown, drawer } = await preview('{"a":[1,"<script>"]}', "report.json", "application/json");
  assert.is(shown.status, 200);
  const policy = shown.headers.get("Content-Security-Policy") ?? "";
  assert.match(policy, /^sandbox; default-src 'none'; style-src 'sha256-[^']+'; .*frame-ancestors 'self'$/);
  assert.not.match(policy, /script|allow-/);
  assert.is(shown.headers.get("X-Frame-Options"), "SAMEORIGIN");
  assert.is(shown.headers.get("X-Content-Type-Options"), "nosniff");
  assert.ok(shown.text.includes("&#34;a&#34;: [\n    1,\n    &#34;&#60;script&#62;&#34;"), shown.text);
  assert.match(
    drawer.text,
    /<iframe class="evidence" sandbox src="[^"]*evidence\?attestation_id=[^"]+" title="Preview/,
  );
  assert.match(drawerText(drawer), /report\.json 20 bytes Hide/);
});

test("the preview of text is light or dark as the chosen theme, which a sandboxed frame cannot know", async () => {
  const { at, flow, trail, browser, path } = await given();
  const file = { name: "attachment_file", filename: "e.json", content: "{}" };
  const id = await server.given.attestation(at, { flow, trail, file });
  const scheme = async () =>
    /<meta name="color-scheme" content="([^"]+)">/.exec(
      (await browser.get(`${path}/evidence?attestation_id=${id}`)).text,
    )?.[1];
  assert.is(await scheme(), "light dark", "as the system");
  for (const [theme, expected] of [
    ["dark-high-contrast", "dark"],
    ["light-colorblind", "light"],
  ] as const) {
    await browser.submitForm("/preferences", { theme, next: path }, path);
    assert.is(await scheme(), expected, theme);
  }
});

test("a page that pretends to be a report is shown as its source", async () => {
  const { shown } = await preview("<!doctype html><script>alert(1)</script>", "report.html", "text/html");
  assert.not.ok(shown.text.includes("<script>"));
  assert.ok(shown.text.includes("&#60;script&#62;alert(1)"));
});

test("images are sent as what their bytes are, whatever the client called them", async () => {
  const png = Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), Buffer.alloc(20, 1)]);
  const { shown } = await preview(png, "picture.html", "text/html");
  assert.match(shown.text, `<img alt="picture.html" src="data:image/png;base64,${png.toString("base64")}">`);
  assert.match(shown.text, "background:Canvas", "the theme is seen beside it");
  const drawing = await preview('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>', "d.svg");
  assert.match(drawing.shown.text, '<img alt="d.svg" src="data:image/svg+xml;base64,');
  assert.not.match(drawing.shown.text, "<script>");
  assert.match(
    drawing.shown.headers.get("Content-Security-Policy") ?? "",
    /^sandbox; default-src 'none'; style-src 'sha256-[^']+'; img-src data:; base-uri 'none'/,
  );
});

test("of an archive the files are listed, also with long names", async () => {
  const long = `${"deep/".repeat(40)}log.txt`;
  const entry = (name: string, text: string) => ({ name, size: text.length, mtime: 0, content: [Buffer.from(text)] });
  const archive = Buffer.concat([...tar([entry("report/unit.xml", "<a/>"), entry(long, "x".repeat(2000))])]);
  for (const content of [gzipSync(archive), archive]) {
    const { shown } = await preview(content, "evidence.tgz");
    const text = visibleText({ text: shown.text.replace(/[\s\S]*<body>/, "") });
    assert.is(text, `2 files File Size report/unit.xml 4 bytes ${long} 2 KB`);
  }
});

test("what cannot be shown says so: bytes, an empty file, a damaged archive, no evidence", async () => {
  const textOf = async (content: string | Buffer) =>
    visibleText({ text: (await preview(content)).shown.text.replace(/[\s\S]*<body>/, "") });
  assert.is(
    await textOf(Buffer.from([0, 1, 2, 255])),
    "This is not text, an image or a tar archive. Download it to look at it.",
  );
  assert.match(await textOf(gzipSync("not a tar archive")), /^This compressed file is not a tar archive/);
  assert.match(await textOf(Buffer.from([0x1f, 0x8b, 8, 0, 1])), /^This compressed file is not a tar archive/);
  const { browser, path, scan } = await given();
  const none = await browser.get(`${path}/evidence?attestation_id=${scan}`);
  assert.is(none.status, 404);
  assert.match(none.text, /has no evidence file/);
});

test("of a long text the first part is shown", async () => {
  const { shown } = await preview(`${"ä".repeat(300_000)}`, "log.txt", "text/plain");
  assert.ok(shown.text.includes("The first 256 KB of 586 KB."));
  assert.ok(shown.text.length < 300_000);
  assert.not.ok(shown.text.includes("�"));
});

test("a preview of JSON shows what is in the file: all digits, repeated keys, their order", async () => {
  const { at, flow, trail, browser, path } = await given();
  const content = '{"10":9007199254740993,"2":1.0,"a":1,"a":2}';
  const file = { name: "attachment_file", filename: "e.json", content };
  const id = await server.given.attestation(at, { flow, trail, file });
  const { text } = await browser.get(`${path}/evidence?attestation_id=${id}`);
  assert.match(visibleText({ text }).replace(/\s+/g, " "), '{ "10": 9007199254740993, "2": 1.0, "a": 1, "a": 2 }');
});

test("the raw JSON of a record is shown as text", async () => {
  const { drawer, scan } = await given();
  const text = drawerText(await drawer(scan, "&view=json"));
  assert.ok(text.includes('"attestation_type": "snyk"') && text.includes("Summary"), text);
});

test("what was reported is shown with the digits and in the order in which it was sent", async () => {
  const { at, flow, trail, browser, path } = await given();
  const { org, key } = at;
  const data = '{"n":9007199254740993,"10":1.0,"2":{"b":1e400}}';
  await server.call("POST", `/custom-attestation-types/${org}`, {
    key,
    form: { json: { name: "any", summary: [{ name: "Summary of n", expression: ".n" }] } },
  });
  const fields = `"user_data":${data},"annotations":{"10":"ten","2":"two"},"attestation_data":${data}`;
  const json = `{"attestation_name":"exact","type_name":"any",${fields}}`;
  await server.call("POST", `/attestations/${org}/${flow}/trail/${trail}/custom`, { key, form: { json } });
  await server.call("POST", `/attestations/${org}/${flow}/trail/${trail}/system`, {
    key,
    form: {
      json:
        `{"attestation_name":"decided","type_name":"decision","control":"C",` +
        `"attestation_data":{"is_compliant":true,"n":9007199254740993}}`,
    },
  });
  const { data: found } = (await server.call("GET", `/attestations/${org}?per_page=2`, { key })).body;
  const idOf = (name: string): string =>
    found.find((one: { attestation_name: string }) => one.attestation_name === name).attestation_id;
  const indented = '{ "n": 9007199254740993, "10": 1.0, "2": { "b": 1e400 } }';
  const squeezed = (page: Page): string => drawerText(page).replace(/\s+/g, " ");
  const shown = squeezed(await browser.get(`${path}?attestation_id=${idOf("exact")}`));
  assert.is(shown.split(indented).length, 3, shown);
  assert.match(shown, /Summary of n ?9007199254740993/);
  assert.match(shown, /10 ?ten ?2 ?two/);
  const raw = squeezed(await browser.get(`${path}?attestation_id=${idOf("exact")}&view=json`));
  assert.is(raw.split(indented).length, 3, raw);
  assert.match(squeezed(await browser.get(`${path}?attestation_id=${idOf("decided")}`)), /n ?9007199254740993/);
});

test.run();
