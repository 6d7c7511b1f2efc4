/** Rendered messages: complete chat and mail bodies, and the escaping of hostile names. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { urlsFor } from "../../../src/contract/urls.ts";
import {
  renderForTarget,
  composeEventMessage,
  composeSnapshotMessage,
} from "../../../src/domain/notification/render.ts";
import { composeExpiryMessage, buildExpiryPayload } from "../../../src/domain/notification/key-expiry.ts";
import {
  MAX_LINES,
  renderChatBody,
  renderMessage,
  renderMail,
} from "../../../src/domain/notification/chat-and-mail.ts";
import { createArtifactEvent, createEnvironmentEvent } from "../../../src/domain/notification/event.ts";
import type { ArtifactEvent, SnapshotRef } from "../../../src/domain/notification/event.ts";
import { buildWebhookPayload } from "../../../src/domain/notification/webhook.ts";

const test = suite("domain/notification/render");
const links = urlsFor("https://assay.example.com");
const snapshot: SnapshotRef = { org: "acme", environment: "prod", index: 42, compliant: false };
const sender = { org: "acme", action: "alerts", number: 7 };
const AT = 1_700_000_000.75;
const started = (name: string): ArtifactEvent => ({
  name,
  fingerprint: "f".repeat(64),
  annotation: "started-non-compliant",
  was: 0,
  now: 2,
  compliant: false,
  provenance: null,
  member: null,
});
const PAGE = "https://assay.example.com/acme/environments/prod/42";

test("renders a change of an environment's verdict as webhook, chat message and mail", () => {
  const event = createEnvironmentEvent("ON_NON_COMPLIANT_ENV", { at: AT, snapshot, nonCompliant: 3, failing: [] });
  const message = () => composeEventMessage(event, sender, links);
  const payload = () => buildWebhookPayload(event, links);
  assert.equal(renderForTarget({ type: "WEBHOOK", webhook: "https://x.org" }, payload, message), {
    type: "WEBHOOK",
    webhook: "https://x.org",
    body: {
      version: "1.0",
      timestamp: "1700000000",
      org: "acme",
      environment: "prod",
      event_type: "NON_COMPLIANT_ENV",
      description: "Environment prod is non-compliant: 3 artifacts are not compliant",
      snapshot: {
        index: "42",
        status: "non-compliant",
        html_url: PAGE,
        api_url: "https://assay.example.com/api/v2/snapshots/acme/prod/42",
      },
    },
  });
  assert.equal(renderForTarget({ type: "SLACK", webhook: "https://x.org" }, payload, message), {
    type: "SLACK",
    webhook: "https://x.org",
    body: {
      text: "prod: non-compliant - Environment prod is non-compliant: 3 artifacts are not compliant",
      blocks: [
        { type: "section", text: { type: "mrkdwn", text: "*prod: non-compliant*" } },
        {
          type: "section",
          text: { type: "mrkdwn", text: "• Environment prod is non-compliant: 3 artifacts are not compliant" },
        },
        { type: "context", elements: [{ type: "mrkdwn", text: `<${PAGE}|Snapshot 42 of prod>` }] },
      ],
    },
  });
  assert.equal(renderForTarget({ type: "EMAIL", emails: ["a@x.org"] }, payload, message), {
    type: "EMAIL",
    emails: ["a@x.org"],
    subject: "prod: non-compliant",
    text:
      `prod: non-compliant\n\n- Environment prod is non-compliant: 3 artifacts are not compliant\n\nSnapshot ` +
      `42 of prod: ${PAGE}\n\nSent by action alerts (number 7) of organization acme.\n`,
    html: [
      "<!doctype html><html><body>",
      "<h3>prod: non-compliant</h3>",
      "<ul><li>Environment prod is non-compliant: 3 artifacts are not compliant</li></ul>",
      `<p><a href="${PAGE}">Snapshot 42 of prod</a></p>`,
      "<p><small>Sent by action alerts (number 7) of organization acme.</small></p>",
      "</body></html>",
    ].join("\n"),
  });
});

test("a message to people begins with what decided", () => {
  const why = "snyk-container fails: 1 high; sonar-gate is missing";
  const failing = [
    { name: "web:2", why },
    { name: "damaged", why: "" },
  ];
  const event = createEnvironmentEvent("ON_NON_COMPLIANT_ENV", { at: AT, snapshot, nonCompliant: 30, failing });
  const { heading, lines, omitted } = composeEventMessage(event, sender, links);
  assert.is(heading, `${why} - prod: non-compliant`);
  assert.equal({ lines, omitted }, { lines: [`${why} - web:2`, "damaged"], omitted: 28 });
  assert.is(
    buildWebhookPayload(event, links)["description"],
    "Environment prod is non-compliant: 30 artifacts are not compliant",
  );
  const events = [
    { ...started("api"), compliant: true },
    { ...started("web"), why },
  ];
  const summary = composeSnapshotMessage({ trigger: "ON_STARTED_ARTIFACT", events, total: 2, snapshot }, sender, links);
  assert.is(summary.heading, `${why} - prod: artifact started (2)`);
  assert.equal(summary.lines, [
    "api started running (2 instances, compliant)",
    `${why} - web started running (2 instances, non-compliant)`,
  ]);
  const long = [{ name: "web", why: "x".repeat(500) }];
  const cut = createEnvironmentEvent("ON_NON_COMPLIANT_ENV", { at: AT, snapshot, nonCompliant: 1, failing: long });
  assert.match(
    composeEventMessage(cut, sender, links).heading,
    /^x{90}\.\.\. - prod: non-compliant$/,
    "which environment",
  );
});

test("escapes user texts so that they make no markup, mention, link or header", () => {
  const hostile =
    `<img src=x onerror="alert('1')">&<!channel><https://evil.test|click>\r\nBcc: ` + `eve@evil.test\u2028*bold*`;
  const event = createArtifactEvent(started(hostile), AT, snapshot);
  const message = composeEventMessage(event, { ...sender, action: hostile }, links);
  const chat = JSON.stringify(renderChatBody(message));
  assert.not.match(chat, /<!channel>|<https:\/\/evil|<img/);
  assert.match(chat, /&lt;!channel&gt;&lt;https:\/\/evil\.test\|click&gt; Bcc: eve@evil/);
  const { subject, text, html } = renderMail(message);
  assert.not.match(subject, /[\r\n]/);
  assert.not.match(html, /<img|<!channel|'1'|onerror="/);
  assert.match(html, /&lt;img src=x onerror=&quot;alert\(&#39;1&#39;\)&quot;&gt;&amp;&lt;!channel&gt;/);
  assert.is(text.split("\n").filter((line) => line.startsWith("Bcc:")).length, 0);
  const subjects = renderMail(
    renderMessage({ heading: "a\r\nBcc: x@y.z", lines: [], link: { url: PAGE, text: "x" }, footer: "f" }),
  ).subject;
  assert.is(subjects, "a Bcc: x@y.z");
  // Webhooks get the text unescaped.
  assert.is((buildWebhookPayload(event, links)["artifact"] as { name: string }).name, hostile);
});

test("limits the lines and texts of a message, and counts the omitted lines", () => {
  const events = Array.from({ length: MAX_LINES }, (_, n) => started(`app-${n}`));
  const message = composeSnapshotMessage(
    { trigger: "ON_STARTED_ARTIFACT", events, total: 10_000, snapshot },
    sender,
    links,
  );
  assert.equal(
    { heading: message.heading, "lines.length": message.lines.length, omitted: message.omitted },
    { heading: "prod: artifact started (10000)", "lines.length": 20, omitted: 9_980 },
  );
  assert.is(message.lines[0], "app-0 started running (2 instances, non-compliant)");
  const [, lines] = (renderChatBody(message) as { blocks: { text: { text: string } }[] }).blocks;
  assert.match(lines?.text.text ?? "", /• and 9980 more$/);
  for (const character of ["x", "&"]) {
    const long = composeSnapshotMessage(
      {
        trigger: "ON_STARTED_ARTIFACT",
        events: Array.from({ length: 20 }, () => started(character.repeat(4_000))),
        total: 30,
        snapshot,
      },
      sender,
      links,
    );
    const text = (renderChatBody(long) as { blocks: { text: { text: string } }[] }).blocks[1]?.text.text ?? "";
    assert.ok(text.length <= 3_000, `${text.length}: what a block of a chat message may have`);
    const shown = text.split("\n");
    assert.ok(shown.length > 2, "some lines fit");
    assert.is(shown.at(-1), `• and ${30 - (shown.length - 1)} more`);
  }
});

test("names the member environment and the build flow of an event", () => {
  const provenance = {
    flow: "build",
    state: "COMPLIANT",
    fingerprint: "f".repeat(64),
    commit: "c",
    commitUrl: "",
    buildUrl: "",
    artifactId: "id",
    selector: {},
  };
  const message = composeSnapshotMessage(
    {
      trigger: "ON_SCALED_ARTIFACT",
      events: [{ ...started("web"), annotation: "updated-provenance", member: "eu", provenance }],
      total: 1,
      snapshot,
    },
    sender,
    links,
  );
  assert.equal(
    { heading: message.heading, lines: message.lines },
    { heading: "prod: artifact changed", lines: ["web in eu has new provenance (non-compliant), built by build"] },
  );
});

test("a webhook names no commit by git's own id for it, because every value is a text", () => {
  const provenance = {
    flow: "build",
    state: "COMPLIANT",
    fingerprint: "f".repeat(64),
    commit: null,
    commitUrl: "",
    buildUrl: "",
    artifactId: "id",
    selector: {},
  };
  const event = createArtifactEvent({ ...started("web"), provenance }, AT, snapshot);
  const payload: any = buildWebhookPayload(event, links);
  assert.is(payload.artifact.provenance.commit, "0".repeat(40));
});

test("renders warnings of expiring keys", () => {
  const key = {
    id: "k-1",
    description: "CI <main>",
    expires_at: 1_700_000_000 + 3 * 86_400,
    holder: "ci-bot",
    org: "acme",
  };
  assert.equal(buildExpiryPayload(key, 1_700_000_000), {
    version: "1.0",
    timestamp: "1700000000",
    org: "acme",
    event_type: "API_KEY_EXPIRY",
    description:
      "The API key of service account ci-bot in organization acme (CI <main>) expires in 3 days, on 2023-11-17 " +
      "22:13 UTC",
    api_key: { id: "k-1", description: "CI <main>", service_account: "ci-bot", expires_at: "1700259200" },
  });
  const mine = composeExpiryMessage(
    { ...key, org: null, expires_at: 1_700_050_000 },
    1_700_000_000,
    "https://assay.example.com",
  );
  assert.equal(
    { heading: mine.heading, "lines[0]": mine.lines[0] },
    {
      heading: "Your API key expires soon",
      "lines[0]": "Your API key (CI <main>) expires in 1 day, on 2023-11-15 12:06 UTC",
    },
  );
  assert.match(renderMail(mine).html, /\(CI &lt;main&gt;\)/);
});

test.run();
