import { suite } from "uvu";
import * as assert from "uvu/assert";
import { chooseLoginName, parseGroups, parsePerson, resolveRoles } from "../../../src/domain/login/identity.ts";
import { parseNextPath } from "../../../src/domain/login/next-path.ts";
import { normalizePassword, findPasswordProblem } from "../../../src/domain/login/password.ts";

const test = suite("domain/login/login");

test("normalizes a password to one form", () => {
  for (const [text, form] of [
    ["plain", "plain"],
    ["Zu\u0308rich", "Zürich"],
    ["a\u00a0b\u3000c", "a b c"],
    ["ﬁ", "ﬁ"],
    [" a ", " a "],
    ["", null],
    ["a\tb", null],
    ["a\u0000", null],
    ["\ud800", null],
    ["é".repeat(512), "é".repeat(512)],
    ["é".repeat(513), null],
  ] as const)
    assert.is(normalizePassword(text), form, JSON.stringify(text));
});

test("requires a long password that differs from the login name", () => {
  for (const [text, problem] of [
    ["correct horse battery", null],
    ["aaaaaaaaaaaa", null],
    ["🔑".repeat(12), null],
    ["x".repeat(1024), null],
    ["🔑".repeat(11), "a password must have at least 12 characters"],
    ["x".repeat(1025), "a password must have at most 1024 bytes and no control characters"],
    ["ANNE.EXAMPLE", "a password must differ from the login name"],
  ] as const)
    assert.is(findPasswordProblem(text, "anne.example"), problem, text.slice(0, 20));
});

test("accepts only paths on this server", () => {
  for (const [text, path] of [
    ["/account", "/account"],
    ["/api/v2/doc/?a=b#/c", "/api/v2/doc/?a=b#/c"],
    ["/a/../b", "/b"],
    ["/", "/"],
    ["/%2f/x", "/%2f/x"],
    ["/http://evil", "/http://evil"],
    [null, null],
    ["", null],
    ["account", null],
    ["//evil", null],
    ["/\\evil", null],
    ["\\\\evil", null],
    ["/a\\b", null],
    ["/\n/evil", null],
    ["/.//evil", null],
    ["/..//evil", null],
    ["/a/..//evil", null],
    ["https://evil", null],
    ["javascript:x", null],
    ["/é", null],
    ["/a b", null],
    [`/${"x".repeat(2000)}`, null],
  ] as const)
    assert.is(parseNextPath(text), path, String(text).slice(0, 30));
});

test("grants the strongest role of all groups, or none", () => {
  const mapping = [
    { group: "a", organization: "acme", role: "reader" },
    { group: "b", organization: "acme", role: "admin" },
    { group: "c", organization: "acme", role: "member" },
    { group: "a", organization: "beta", role: "snapshotter" },
  ] as const;
  for (const [groups, roles] of [
    [
      [],
      [
        ["acme", null],
        ["beta", null],
      ],
    ],
    [
      ["a"],
      [
        ["acme", "reader"],
        ["beta", "snapshotter"],
      ],
    ],
    [
      ["c", "a"],
      [
        ["acme", "member"],
        ["beta", "snapshotter"],
      ],
    ],
    [
      ["a", "b", "c"],
      [
        ["acme", "admin"],
        ["beta", "snapshotter"],
      ],
    ],
    [
      ["A", "x"],
      [
        ["acme", null],
        ["beta", null],
      ],
    ],
  ] as const)
    assert.equal([...resolveRoles(groups, mapping)], roles);
  assert.equal([...resolveRoles(["a"], [])], []);
});

test("makes an unused login name from the provider's claims", () => {
  const taken = new Set(["ann", "ann-2", "user"]);
  for (const [names, name] of [
    [["bob"], "bob"],
    [["Bob.B@example.com"], "Bob.B"],
    [["ann"], "ann-3"],
    [["", "bob"], "bob"],
    [["@x", "bob@x"], "bob"],
    [["Zoë Müller"], "Zoe-Muller"],
    [["../.."], "user-2"],
    [["李"], "user-2"],
    [[], "user-2"],
    [["x".repeat(100)], "x".repeat(64)],
    [["DOMAIN\\bob"], "DOMAIN-bob"],
    [["-bob-"], "bob"],
  ] as const)
    assert.is(
      chooseLoginName(names, (one) => taken.has(one)),
      name,
      names.join(),
    );
});

test("refuses an empty subject", () => {
  for (const subject of ["", " ", "\t\n"]) {
    const read = () => parsePerson({ preferred_username: "ann" }, { issuer: "i", subject, groupsClaim: "groups" });
    assert.throws(read, /the sub claim of the ID token is empty/);
  }
});

test("reads claims of any shape", () => {
  assert.equal(
    parsePerson(
      { preferred_username: "ann", name: "Ann", email: "a@b", groups: ["x", 1, "y"] },
      { issuer: "i", subject: "s", groupsClaim: "groups" },
    ),
    { issuer: "i", subject: "s", names: ["ann", "a@b"], displayName: "Ann", email: "a@b", groups: ["x", "y"] },
  );
  assert.equal(
    parsePerson(
      { preferred_username: 1, name: "A\nB", email: "a@b", email_verified: false },
      { issuer: "i", subject: "s", groupsClaim: "roles" },
    ),
    { issuer: "i", subject: "s", names: ["a@b"], displayName: "", email: null, groups: [] },
  );
  assert.equal(
    {
      "groupsOf one": parseGroups("one"),
      "groupsOf(null)": parseGroups(null),
      "groupsOf({ a: 1 })": parseGroups({ a: 1 }),
      "groupsOf undefined": parseGroups(undefined),
    },
    { "groupsOf one": ["one"], "groupsOf(null)": [], "groupsOf({ a: 1 })": [], "groupsOf undefined": [] },
  );
});

test.run();
