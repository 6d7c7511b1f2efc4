import { suite } from "uvu";
import * as assert from "uvu/assert";
import { keepsAdmin, canGrant, ROLES } from "../../src/domain/access.ts";
import type { Role } from "../../src/domain/access.ts";

const test = suite("domain/access");

test("lets a principal grant at most its own role", () => {
  const granted = (holder: Role) => ROLES.filter((wanted) => canGrant(holder, wanted));
  assert.equal(ROLES.map(granted), [
    ["admin", "member", "snapshotter", "reader"],
    ["member", "snapshotter", "reader"],
    ["snapshotter", "reader"],
    ["reader"],
  ]);
});

test("reports a change that would remove the last admin", () => {
  const members = (text: string) =>
    text
      .split(" ")
      .filter(Boolean)
      .map((word) => ({ name: word.split(":")[0] as string, role: word.split(":")[1] as Role }));
  const changes = (text: string) =>
    new Map(members(text).map(({ name, role }) => [name, (role as string) === "-" ? null : role] as const));
  const table: [string, string, boolean][] = [
    ["a:admin", "", true],
    ["a:admin", "a:-", false],
    ["a:admin", "a:member", false],
    ["a:admin b:reader", "a:-", false],
    ["a:admin b:admin", "a:-", true],
    ["a:admin b:admin", "a:- b:reader", false],
    ["a:admin b:reader", "a:member b:admin", true],
    ["a:admin", "a:- c:admin", true],
    ["a:admin", "a:admin", true],
    ["", "", true],
    ["b:reader", "b:-", true],
    ["b:reader", "", true],
  ];
  for (const [before, after, hasAdmin] of table)
    assert.is(keepsAdmin(members(before), changes(after)), hasAdmin, `${before} / ${after}`);
});

test.run();
