/** Where changes of flags are recorded (semantics 8.6). */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import * as launchDarkly from "../../../src/domain/inbound-webhook/launch-darkly.ts";

const { describeFlagChange } = launchDarkly;
const locateFlagChange = (
  call: Parameters<typeof launchDarkly.locateFlagChange>[0],
  environmentsOf: (flag: string) => readonly string[] = () => [],
) => launchDarkly.locateFlagChange(call, environmentsOf);

const test = suite("domain/inbound-webhook/launch-darkly");
const place = (project: string, environment: string, flag: string) => ({
  project,
  environment,
  flag,
  flow: `launch-darkly-${environment}`,
  trail: flag,
});

test("locates a change once per environment and flag", () => {
  assert.equal(locateFlagChange({ target: { resources: ["proj/web:env/production:flag/new-checkout"] } }), [
    place("web", "production", "new-checkout"),
  ]);
  assert.equal(
    locateFlagChange({
      target: {
        resources: [
          "proj/web;frontend,shop:env/production;critical:flag/new-checkout;temporary",
          "proj/web:env/test:flag/new-checkout",
        ],
      },
      accesses: [{ resource: "proj/web:env/production:flag/new-checkout" }, {}],
    }),
    [place("web", "production", "new-checkout"), place("web", "test", "new-checkout")],
  );
  assert.equal(
    locateFlagChange({
      accesses: [{ resource: "proj/web:env/production:flag/a" }, { resource: "proj/app:env/production:flag/a" }],
    }),
    [place("web", "production", "a"), place("app", "production", "a")],
  );
});

test("locates a change of all environments in those that know the flag", () => {
  const asked: string[] = [];
  const known = (flag: string): string[] => {
    asked.push(flag);
    return flag === "old" ? ["production", "test"] : [];
  };
  const removal = {
    accesses: [{ resource: "proj/web:env/*:flag/old" }, { resource: "proj/web:env/*;critical:flag/unheard-of" }],
    target: { resources: ["proj/web:env/*:flag/old", "proj/web:env/test:flag/old"] },
  };
  assert.equal(locateFlagChange(removal, known), [place("web", "production", "old"), place("web", "test", "old")]);
  assert.equal(asked, ["old", "unheard-of"]);
});

test("locates a change outside all environments nowhere", () => {
  for (const resource of [
    "proj/web:env/*:flag/new",
    "member/5e0f",
    "proj/web:env/production",
    "proj/web:flag/new",
    "",
    ":",
    "env/:flag/x",
    "env/a b:flag/x",
    "env/a:flag/*",
  ])
    assert.equal(locateFlagChange({ target: { resources: [resource] } }), [], resource);
  for (const call of [{}, { target: null, accesses: null }, { target: { resources: null } }])
    assert.equal(locateFlagChange(call), []);
});

test("describes a change in one line", () => {
  const member = { email: "ada@example.com", firstName: "Ada", lastName: "Lovelace" };
  assert.is(
    describeFlagChange({ member, titleVerb: "turned on the flag", name: "New checkout" }, "new-checkout"),
    "Ada Lovelace turned on the flag New checkout",
  );
  assert.is(
    describeFlagChange({ member: { email: "ada@example.com" }, target: { name: "New checkout" } }, "new-checkout"),
    "ada@example.com changed the flag New checkout",
  );
  assert.is(describeFlagChange({}, "new-checkout"), "Someone changed the flag new-checkout");
});

test.run();
