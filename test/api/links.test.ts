/**
 * URLs that pages may render as links: http and https, for repositories also git's remotes; never a script.
 */
import { createHmac } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { fresh, freshCommit, freshFingerprint, startServer } from "../given.ts";
import type { Answer, TestServer } from "../given.ts";

const test = suite("api/links");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string; flow: string };
const SCRIPTS = [
  "javascript:alert(1)",
  "JavaScript:alert(1)",
  " javascript:alert(1)",
  "java\tscript:alert(1)",
  "\u0001javascript:alert(1)",
  "javascript://example.com/%0aalert(1)",
  "data:text/html,<script>alert(1)</script>",
  "vbscript:msgbox(1)",
];
/** Neither scripts nor links. */
const OTHERS = ["ftp://example.com/x", "file:///etc/passwd", "mailto:a@example.com", "ssh://git@example.com/x"];
const WEB = [
  "https://example.com/x?y#z",
  "HTTP://example.com",
  "",
  "www.example.com",
  "ci.example.com:8080/17",
  "job 17",
];
const REMOTES = [
  ...WEB,
  "ssh://git@example.com/acme/app.git",
  "git@example.com:acme/app.git",
  "git://example.com/app",
  "/srv/git/app.git",
  "work:acme/app",
];
const web = (value: string): string => `Input should be an http or https URL [input: ${shown(value)}]`;
const remote = (value: string): string =>
  `Input should be the URL of a repository or commit: http, https, ssh, or as user@host:path [input: ${shown(value)}]`;
const shown = (value: string): string =>
  value.replace(/[\u0000-\u001f]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

async function place(): Promise<At> {
  const at = server.given.org();
  return { ...at, flow: await server.given.flow(at) };
}
const trail = (at: At, fields: object): Promise<Answer> =>
  server.call("PUT", `/trails/${at.org}/${at.flow}`, { key: at.key, form: { json: { name: fresh("t"), ...fields } } });
const artifact = (at: At, fields: object): Promise<Answer> =>
  server.call("POST", `/artifacts/${at.org}/${at.flow}`, {
    key: at.key,
    body: {
      fingerprint: freshFingerprint(),
      filename: "a",
      git_commit: freshCommit(),
      build_url: "",
      commit_url: "",
      trail_name: fresh("t"),
      ...fields,
    },
  });
const attestation =
  (kind: string, payload: object) =>
  (at: At, fields: object): Promise<Answer> =>
    server.call("POST", `/attestations/${at.org}/${at.flow}/trail/${fresh("t")}/${kind}`, {
      key: at.key,
      form: { json: { attestation_name: "a", ...payload, ...fields } },
    });
const generic = attestation("generic", { is_compliant: true });
const control = (at: At, fields: object): Promise<Answer> =>
  server.call("POST", `/controls/${at.org}`, { key: at.key, body: { identifier: fresh("C"), name: "c", ...fields } });
const flow = (at: At, fields: object): Promise<Answer> =>
  server.call("PUT", `/flows/${at.org}`, {
    key: at.key,
    body: { name: fresh("f"), description: "", template: ["artifact"], ...fields },
  });

const SHA = "1".repeat(40);
const pullRequest = (url: string, commits: object[] = []) => ({
  git_provider: "github",
  pull_requests: [{ url, state: "MERGED", author: "", commits }],
});
const refused = (errors: Record<string, string>) => ({
  status: 400,
  body: { message: "Input payload validation failed", errors },
});

for (const [field, send, fields] of [
  ["origin_url", trail, (url: string) => ({ origin_url: url })],
  ["external_urls.log.href", trail, (url: string) => ({ external_urls: { log: { href: url } } })],
  ["build_url", artifact, (url: string) => ({ build_url: url })],
  ["commit_url", artifact, (url: string) => ({ commit_url: url })],
  ["external_urls.log.href", artifact, (url: string) => ({ external_urls: { log: { href: url } } })],
  ["origin_url", generic, (url: string) => ({ origin_url: url })],
  ["external_urls.log.href", generic, (url: string) => ({ external_urls: { log: { href: url } } })],
  ["links.wiki", control, (url: string) => ({ links: { wiki: url } })],
  ["pull_requests.0.url", attestation("pull_request", {}), (url: string) => pullRequest(url)],
  [
    "jira_results.0.issue_url",
    attestation("jira", {}),
    (url: string) => ({ jira_results: [{ issue_id: "A-1", issue_url: url, issue_exists: true }] }),
  ],
  [
    "sonar_results.project.url",
    attestation("sonar", {}),
    (url: string) => ({ sonar_results: { analysedAt: "2026-01-31", revision: SHA, project: { key: "k", url } } }),
  ],
] as const)
  test(`${field} accepts http and https only (${Object.keys(fields("")).join(", ")})`, async () => {
    const at = await place();
    for (const url of [...SCRIPTS, ...OTHERS]) {
      const { status, body } = await send(at, fields(url));
      assert.equal({ status, body }, refused({ [field]: web(url) }));
    }
    for (const url of WEB) assert.ok((await send(at, fields(url))).status < 300, url);
  });

for (const [field, send, fields] of [
  ["repo_url", artifact, (url: string) => ({ repo_url: url })],
  ["repo_url", flow, (url: string) => ({ repo_url: url })],
  ["git_commit_info.url", trail, (url: string) => ({ git_commit_info: { sha1: SHA, url } })],
  [
    "pull_requests.0.commits.0.url",
    attestation("pull_request", {}),
    (url: string) => pullRequest("", [{ sha1: SHA, url }]),
  ],
] as const)
  test(`${field} ${send === flow ? "of a flow " : ""}accepts the remotes that git accepts, and no script`, async () => {
    const at = await place();
    for (const url of SCRIPTS) {
      const { status, body } = await send(at, fields(url));
      assert.equal({ status, body }, refused({ [field]: remote(url) }));
    }
    for (const url of REMOTES) assert.ok((await send(at, fields(url))).status < 300, url);
  });

test("refuses a script as the URL of a scan from a webhook", async () => {
  const at = server.given.org();
  const hook = server.given.webhook(at.org, "sonar");
  const project = { key: "web", url: "javascript:alert(1)" };
  const text = JSON.stringify({ analysedAt: "2026-01-31", revision: SHA, project });
  const signature = createHmac("sha256", hook.secret).update(text).digest("hex");
  const headers = { "Content-Type": "application/json", "X-Sonar-Webhook-HMAC-SHA256": signature };
  const { status, body } = await server.call("POST", `/webhooks/sonar/${hook.id}`, { raw: text, headers });
  assert.equal({ status, errors: body.errors }, { status: 400, errors: { "project.url": web("javascript:alert(1)") } });
});

test("an older record keeps its URL and stays readable", async () => {
  const at = await place();
  assert.is((await trail(at, { name: "old", origin_url: "https://ci.example.com/1" })).status, 201);
  server.db.prepare("UPDATE trails SET origin_url = 'javascript:alert(1)' WHERE name = 'old'").run();
  const { status, body } = await server.call("GET", `/trails/${at.org}/${at.flow}/old`, { key: at.key });
  assert.equal({ status, origin_url: body.origin_url }, { status: 200, origin_url: "javascript:alert(1)" });
  assert.is((await trail(at, { name: "old", description: "still updated" })).status, 200);
});

test.run();
