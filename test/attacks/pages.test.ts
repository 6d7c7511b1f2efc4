/**
 * Pages of records as large as they may be: what a page shows of them is bounded, and no page holds the main thread.
 * What it leaves out is said, with a link to all of it.
 */
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { attackedServer } from "./attacked.ts";
import { SCHEMA_URL } from "../../src/domain/policy/schema.ts";
import { openCopy } from "../../src/store/db/connection.ts";
import { formRequest, jsonRequest } from "./attack.ts";
import type { AttackRequest } from "./attack.ts";
import { podReport } from "./large-world.ts";
import { MAX_BUSY_MS } from "./loop-delay.ts";
import { SIGNED_IN, signIn } from "./session.ts";
import { send } from "./world.ts";

const MAX_TRIES = 5;
const FINGERPRINT = "7b1f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccd";
const COMMIT = "0f".repeat(20);

const test = suite("attacks/pages");
const attacked = attackedServer(test);
/** The ids of attestations, by name. */
let ids: Readonly<Record<string, string>>;
test.before(async () => {
  for (const { expected, ...request } of largeRecords()) {
    const answer = await send(attacked.server.url, request);
    assert.is(answer?.status, expected, `${request.path}: ${answer?.text.slice(0, 500)}`);
  }
  const db = openCopy(join(attacked.directory, "data", "assay.db"), { readonly: false });
  signIn(db, "member");
  ids = Object.fromEntries(
    db
      .prepare<[], { name: string; public_id: string }>("SELECT name, public_id FROM attestations")
      .all()
      .map(({ name, public_id }) => [name, public_id]),
  );
  db.close();
});

const list = (bytes: number, item: (n: number) => object): object[] => {
  const size = JSON.stringify(item(100_000)).length + 1;
  return Array.from({ length: Math.floor(bytes / size) }, (_, n) => item(n));
};
const component = (n: number): object => ({
  "bom-ref": `pkg:npm/a-${n}`,
  name: `a-${n}`,
  licenses: [{ license: { id: "MIT" } }],
  description: "One of the components that the bill of materials lists",
});
const commit = (length: number): object => ({
  sha1: COMMIT,
  message: "m".repeat(length),
  author: "Ada <ada@example.com>",
  branch: "main",
  timestamp: 1_700_000_000,
  parents: Array.from({ length: 5_000 }, (_, n) => String(n).padStart(40, "0")),
});

/** Records that are as large as today's bounds let them be. */
function* largeRecords(): Generator<AttackRequest & { expected: number }> {
  const { org, flow, trail, memberKey: key } = attacked.world;
  const form = (path: string, json: object, more: Partial<Parameters<typeof formRequest>[3]> = {}) =>
    formRequest("POST", path, key, { json: JSON.stringify(json), ...more });
  const attest = (kind: string, json: object) => ({
    ...form(`/attestations/${org}/${flow}/trail/${trail}/${kind}`, json),
    expected: 201,
  });
  yield {
    ...jsonRequest(
      "POST",
      `/artifacts/${org}/${flow}`,
      key,
      JSON.stringify({
        fingerprint: FINGERPRINT,
        filename: "web",
        git_commit: COMMIT,
        build_url: "https://ci.example.com/1",
        commit_url: "https://git.example.com/1",
        trail_name: trail,
        template_reference_name: "web",
        user_data: { components: list(3_900_000, component) },
        annotations: { notes: list(900_000, (n) => ({ n, text: "x".repeat(200) })) },
        git_commit_info: commit(65_000),
      }),
    ),
    expected: 201,
  };
  for (let n = 0; n < 14; n += 1)
    yield attest("generic", {
      attestation_name: `bom-${n}`,
      is_compliant: true,
      user_data: { components: list(3_900_000, component) },
      git_commit_info: commit(65_000),
      description: "word ".repeat(13_000),
      ...(n % 2 === 0 ? {} : { artifact_fingerprint: FINGERPRINT }),
    });
  yield attest("junit", {
    attestation_name: "tests",
    junit_results: list(7_900_000, (n) => ({
      name: `suite ${n}`,
      failures: 0,
      errors: 0,
      skipped: 0,
      total: 3,
      duration: 0.5,
    })),
  });
  yield attest("junit", {
    attestation_name: "few-tests",
    junit_results: [{ name: "unit", failures: 0, errors: 0, skipped: 0, total: 3, duration: 0.5 }],
  });
  yield attest("pull_request", {
    attestation_name: "reviews",
    git_provider: "github",
    pull_requests: list(7_900_000, (n) => ({
      url: `https://github.com/acme/backend/pull/${n}`,
      state: "MERGED",
      merge_commit: COMMIT,
      title: "t".repeat(2_000),
      approvers: [{ username: "grace", state: "APPROVED" }],
    })),
  });
  yield attest("custom", {
    attestation_name: "licenses",
    type_name: attacked.world.customType,
    attestation_data: { components: list(3_900_000, component) },
  });
  yield attest("system", {
    attestation_name: "decided",
    control: "SOC-1",
    type_name: "decision",
    attestation_data: { is_compliant: true, findings: list(3_900_000, component) },
  });
  yield {
    ...form(
      `/custom-attestation-types/${org}`,
      { name: "strict", description: "" },
      {
        file: {
          part: "type_schema",
          content: JSON.stringify({
            properties: Object.fromEntries(
              Array.from({ length: 120 }, (_, n) => [`p${n}`, { description: "d".repeat(12_000) }]),
            ),
          }),
        },
      },
    ),
    expected: 201,
  };
  const template = `version: 1\n# ${"x".repeat(2_000_000)}\ntrail: { attestations: [{ name: tests, type: junit }] }\n`;
  yield {
    ...formRequest("PUT", `/flows/${org}/template_file`, key, {
      json: JSON.stringify({ name: "documented", description: "" }),
      file: { part: "template_file", content: template },
    }),
    expected: 201,
  };
  yield {
    ...formRequest("PUT", `/policies/${org}`, key, {
      field: "payload",
      json: JSON.stringify({ name: "documented", description: "" }),
      file: {
        part: "policy_file",
        content: `_schema: ${SCHEMA_URL}\n# ${"x".repeat(2_000_000)}\nartifacts: { provenance: { required: true } }\n`,
      },
    }),
    expected: 201,
  };
  const one = JSON.parse(podReport(0, 60_000, 1)) as { artifacts: { digests: object }[] };
  for (const pod of one.artifacts) pod.digests = { web: FINGERPRINT };
  yield {
    ...jsonRequest("PUT", `/environments/${org}/${attacked.world.environment}/report/K8S`, key, JSON.stringify(one)),
    expected: 201,
  };
}

/** What a page must show, and must not. */
type Shown = { path: () => string; shows: readonly string[]; hides?: readonly string[] };

const TRAIL = "/acme/flows/payments/trails/release";
const drawer = (name: string, more = ""): string => `${TRAIL}?attestation_id=${ids[name]}${more}`;
const LEFT_OUT = "are not shown here. Read all of it as JSON";

const PAGES: Readonly<Record<string, Shown>> = {
  "a trail with 70 MB of attestations": {
    path: () => TRAIL,
    shows: [
      "bom-0",
      "tests not in template Compliant junit Too long to be shown here",
      "few-tests not in template Compliant junit 3 passed",
    ],
    hides: ["0 passed", "No pull request"],
  },
  "an attestation with 3.9 MB of user data": {
    path: () => drawer("bom-0"),
    shows: ["The reporter of a generic attestation", `{"components":[{"bom-ref":"pkg:npm/a-0"`, LEFT_OUT],
  },
  "its raw JSON": { path: () => drawer("bom-0", "&view=json"), shows: ['"attestation_name": "bom-0"'] },
  "7.9 MB of unit tests": {
    path: () => drawer("tests"),
    shows: ["A JUnit attestation is compliant if", `[{"name":"suite 0"`, LEFT_OUT],
    hides: ["0 passed", "Passed 0"],
  },
  "7.9 MB of pull requests": {
    path: () => drawer("reviews"),
    shows: ["https://github.com/acme/backend/pull/0", LEFT_OUT],
    hides: ["No pull request"],
  },
  "data of a custom type": { path: () => drawer("licenses"), shows: ["A custom attestation", "a-0", LEFT_OUT] },
  "data of a decision": { path: () => drawer("decided"), shows: ["The reporter of a decision", "SOC-1"] },
  "the artifact": {
    path: () => `/acme/flows/payments/artifacts/${FINGERPRINT}`,
    shows: ["web", `{"components":[{"bom-ref":"pkg:npm/a-0"`, LEFT_OUT],
  },
  "the flow": { path: () => "/acme/flows/payments", shows: ["release"] },
  "all flows": { path: () => "/acme/flows", shows: ["payments", "documented"] },
  "all artifacts": { path: () => "/acme/artifacts", shows: ["web"] },
  "all attestations": { path: () => "/acme/attestations", shows: ["bom-0", "Too long to be shown here"] },
  "a template of 2 MB": { path: () => "/acme/flows/documented?tab=template", shows: ["template.yml"] },
  "its editor": {
    path: () => "/acme/flows/documented?tab=template&ask=edit",
    shows: ["A form takes 1,000,000: change it with the API or the CLI"],
    hides: ["Save template"],
  },
  "a policy of 2 MB": { path: () => "/acme/policies/documented", shows: ["A form takes 1,000,000"] },
  "a schema of 1.6 MB": { path: () => "/acme/attestation-types/strict", shows: ["p0", "The rest is not shown"] },
  "its next version": {
    path: () => "/acme/attestation-types/strict?ask=version",
    shows: ["A form takes 1,000,000: change it with the API or the CLI"],
  },
  "an artifact in 60,000 pods": { path: () => "/acme/environments/production", shows: ["web", "60000"] },
  "its difference to nothing": { path: () => "/acme/env-diff?left=production%231&right=production", shows: ["web"] },
  "why it is as it is": { path: () => "/acme/why?environment=production&snapshot=1", shows: ["web"] },
  "the audit log": { path: () => "/acme/settings/audit-log", shows: ["policy.put"] },
};

/** The text of a page without markup, drawer included. */
const seenIn = (text: string): string =>
  text
    .replace(/<[^>]*>/g, " ")
    .replaceAll("&quot;", '"')
    .replace(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code)))
    .replace(/\s+/g, " ");

for (const [name, { path, shows, hides = [] }] of Object.entries(PAGES))
  test(`${name}: is shown as far as a page goes, without holding the main thread`, async () => {
    let busiest = Infinity;
    for (let turn = 0; turn < MAX_TRIES && busiest > MAX_BUSY_MS; turn += 1) {
      await attacked.server.reset();
      const answer = await fetch(`${attacked.server.url}${path()}`, {
        headers: SIGNED_IN,
        redirect: "manual",
      });
      const text = await answer.text();
      busiest = Math.min(busiest, (await attacked.server.report()).busiest);
      const seen = seenIn(text);
      assert.is(answer.status, 200, seen.slice(0, 1_000));
      for (const part of shows) assert.ok(seen.includes(part), `does not show ${part}: ${seen.slice(0, 9_000)}`);
      for (const part of hides) assert.not.ok(seen.includes(part), `shows ${part}: ${seen.slice(0, 9_000)}`);
      assert.ok(text.length < 4_000_000, `${text.length} characters`);
    }
    assert.ok(busiest <= MAX_BUSY_MS, `${path()} held the main thread for ${busiest.toFixed(0)} ms`);
  });

test.run();
