import { suite } from "uvu";
import * as assert from "uvu/assert";
import * as names from "../../src/domain/names.ts";

const { matches } = names;
const test = suite("domain/names");

const sha = "0123456789abcdef0123456789abcdef01234567";
const fingerprint = `${sha}0123456789abcdef01234567`;

const table: [string, string, string[], string[]][] = [
  ["flow", names.FLOW_NAME, ["a", "9", "a.b-c_d~e"], ["", ".a", "-a", "a b", "a/b", "a\n", "ä"]],
  ["user", names.USER_NAME, ["mia.w-1"], ["mia@x", ""]],
  ["display name", names.USER_DISPLAY_NAME, ["", "Mia Wé 1"], ["a\n", "a\u0000", "a\u0085"]],
  ["e-mail", names.USER_EMAIL, ["mia@acme.example"], ["mia", "@x", "a@", "a@b@c", "a b@c"]],
  ["view", names.VIEW_NAME, ["Failing flows", "é"], ["", " a", "a ", "a\nb"]],
  ["organization", names.ORGANIZATION_NAME, ["acme-inc"], ["acme inc"]],
  ["trail", names.TRAIL_NAME, [sha, "v1.2.3~rc_1"], ["~a", "a+b", "a\n"]],
  ["policy", names.POLICY_NAME, ["prod~1"], ["_prod", "a:b"]],
  ["custom type", names.CUSTOM_TYPE_NAME, ["coverage.v2"], ["custom:a", ""]],
  ["environment", names.ENVIRONMENT_NAME, ["prod.eu-1_a"], ["prod~1", "_a"]],
  ["control", names.CONTROL_IDENTIFIER, ["~RCTL-1.2"], ["a b", "a_b/c"]],
  ["action", names.ACTION_NAME, ["a/b~c"], ["/a"]],
  ["service account", names.SERVICE_ACCOUNT_NAME, ["-ci-"], ["a_b", "", "a.b"]],
  ["attestation", names.ATTESTATION_NAME, ["-a_b,c"], ["a.b", "a b", "", "a\n"]],
  ["reference", names.REFERENCE_NAME, ["__proto__", "a-b"], ["a,b", "a.b", ""]],
  ["tag key", names.TAG_KEY, ["a~b.c"], ["-a", "a b"]],
  ["annotation key", names.ANNOTATION_KEY, ["_a-B1"], ["a.b", ""]],
  ["url label", names.URL_LABEL, ["any thing/é"], ["a.b", "a=b", ""]],
  [
    "fingerprint",
    names.FINGERPRINT,
    [fingerprint],
    [fingerprint.toUpperCase(), fingerprint.slice(1), `${fingerprint}0`, `${fingerprint}\n`],
  ],
  ["fingerprint prefix", names.FINGERPRINT_PREFIX, ["abcde", fingerprint], ["abcd", "ABCDE", `${fingerprint}0`]],
  ["commit", names.COMMIT_SHA, [sha], [sha.slice(1), `${sha}0`, "HEAD"]],
  [
    "id",
    names.PUBLIC_ID,
    ["01234567-89ab-cdef-0123-456789ab"],
    ["01234567-89ab-cdef-0123-456789abcdef", "01234567-89AB-cdef-0123-456789ab"],
  ],
];

for (const [what, pattern, good, bad] of table) {
  test(`${what}: accepts valid names and nothing else`, () => {
    for (const text of good) assert.ok(matches(pattern, text), text);
    for (const text of bad) assert.not(matches(pattern, text), JSON.stringify(text));
  });
}

test("compiles every pattern in the unicode mode of schema validation, and lists it in the table", () => {
  const patterns = Object.values(names).filter((value) => typeof value === "string");
  for (const pattern of patterns) assert.ok(new RegExp(pattern, "u"));
  assert.equal(new Set(patterns), new Set(table.map(([, pattern]) => pattern)));
});

test("spells the patterns as refusals print them", () => {
  assert.is(names.FLOW_NAME, "^[a-zA-Z0-9][a-zA-Z0-9\\.\\-_~]*$");
  assert.is(names.TRAIL_NAME, "^[a-zA-Z0-9][a-zA-Z0-9\\-_.~]*$");
  assert.is(names.POLICY_NAME, "^[a-zA-Z0-9][a-zA-Z0-9\\-_\\.~]*$");
  assert.is(names.ENVIRONMENT_NAME, "^[a-zA-Z0-9][a-zA-Z0-9\\.\\-_]*$");
  assert.is(names.CONTROL_IDENTIFIER, "^[a-zA-Z0-9\\-._~]+$");
  assert.is(names.ATTESTATION_NAME, "^[a-zA-Z0-9\\-_,]+$");
  assert.is(names.REFERENCE_NAME, "^[a-zA-Z0-9\\-_]+$");
  assert.is(names.FINGERPRINT, "^[a-f0-9]{64}$");
});

test("matches every pattern quickly on a long text", () => {
  const long = `${"a-".repeat(500_000)}!`;
  for (const [, pattern] of table) matches(pattern, long);
});

test.run();
