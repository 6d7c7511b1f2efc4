import { suite } from "uvu";
import * as assert from "uvu/assert";
import { targetIdentityOf, normalizeTargets } from "../../../src/domain/notification/targets.ts";
import type { StoredTarget, Target } from "../../../src/domain/notification/targets.ts";

const test = suite("domain/notification/targets");

test("lowercases hosts and domains, drops a trailing slash, and joins addresses in one target", () => {
  const targets: Target[] = [
    { type: "WEBHOOK", webhook: "https://Hooks.Example.COM:8443/Path/To/", payload_version: "1.0" },
    { type: "EMAIL", emails: ["Ada.L@Example.COM", "bob@example.com"] },
    { type: "SLACK", webhook: "https://Hooks.Slack.com" },
    { type: "EMAIL", emails: ["BOB@example.com", "bob@EXAMPLE.com", "Eve@x.org"] },
  ];
  assert.equal(normalizeTargets(targets), [
    { type: "WEBHOOK", webhook: "https://hooks.example.com:8443/Path/To", payload_version: "1.0" },
    { type: "EMAIL", emails: ["Ada.L@example.com", "bob@example.com", "BOB@example.com", "Eve@x.org"] },
    { type: "SLACK", webhook: "https://hooks.slack.com" },
  ]);
});

test("changes nothing else of an address, and leaves normalized targets unchanged", () => {
  const table: [string, string][] = [
    ["https://x.org/", "https://x.org"],
    ["https://x.org//", "https://x.org/"],
    ["https://x.org/a%2fB?Token=A/", "https://x.org/a%2fB?Token=A/"],
    ["https://x.org/#/", "https://x.org/#/"],
    ["https://X.org:443?A", "https://x.org:443?A"],
    ["HTTPS://X.org/A", "HTTPS://x.org/A"],
  ];
  for (const [given, normalized] of table) {
    assert.equal(normalizeTargets([{ type: "WEBHOOK", webhook: given }]), [{ type: "WEBHOOK", webhook: normalized }]);
    if (!normalized.endsWith("/") || /[?#]/.test(normalized))
      assert.equal(normalizeTargets([{ type: "WEBHOOK", webhook: normalized }]), [
        { type: "WEBHOOK", webhook: normalized },
      ]);
  }
});

test("identifies a target by its address alone", () => {
  const same = (one: StoredTarget, other: StoredTarget): boolean => targetIdentityOf(one) === targetIdentityOf(other);
  const hook = (webhook: string, more = {}): StoredTarget => ({
    type: "WEBHOOK",
    target: { type: "WEBHOOK", webhook, ...more },
  });
  assert.ok(same(hook("a"), hook("a", { payload_version: "1.0" })));
  assert.not.ok(same(hook("a"), hook("b")));
  assert.not.ok(same(hook("a"), { type: "SLACK", target: { type: "SLACK", webhook: "a" } }));
  assert.ok(
    same(
      { type: "EMAIL", target: { type: "EMAIL", emails: ["a"] } },
      { type: "EMAIL", target: { emails: ["a"], type: "EMAIL" } },
    ),
  );
  assert.not.ok(same({ type: null, target: { webhook: "a" } }, { type: null, target: { webhook: "a", x: 1 } }));
});

test.run();
