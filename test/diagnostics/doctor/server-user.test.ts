/** As which user a server runs or would run: its process, its unit, the owner of its directory. */
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { renderServiceUnit } from "../../../src/cli/install/systemd-unit.ts";
import { realMachine } from "../../../src/diagnostics/doctor/check.ts";
import type { Machine } from "../../../src/diagnostics/doctor/check.ts";
import {
  checkPermissions,
  checkServerUser,
  standInFor,
  withoutCredentials,
} from "../../../src/diagnostics/doctor/rights.ts";
import type { Become } from "../../../src/diagnostics/doctor/rights.ts";
import { findServerUser, findUnit, parseUnit } from "../../../src/diagnostics/doctor/server-user.ts";

const test = suite("diagnostics/doctor/server-user");
let directory = "";
test.before(() => {
  directory = mkdtempSync(join(tmpdir(), "assay-user-"));
});
test.after(() => rmSync(directory, { recursive: true }));

const FILES: Readonly<Record<string, string>> = {
  "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nassay:x:998:997::/var/lib/assay:/usr/sbin/nologin\n",
  "/etc/group": "root:x:0:\nassay:x:997:\ncerts:x:300:web,assay\nbackup:x:301:\n",
  "/proc/42/status": "Name:\tassay\nUid:\t61000\t61001\t61002\t61003\nGid:\t7\t8\t9\t10\nGroups:\t8 300 \n",
  "/proc/42/cgroup": "0::/system.slice/evidence.service\n",
};
const machineWith = (units: Readonly<Record<string, string>>): Machine => ({
  ...realMachine,
  readText: (path) => FILES[path] ?? null,
  unitText: (name) => units[name] ?? null,
});
/** A unit that serves the directory. */
const unitOf = (...lines: string[]): string =>
  ["[Service]", `ExecStart=/usr/bin/assay serve --data ${directory}`, ...lines, ""].join("\n");

function userOf(units: Readonly<Record<string, string>>, pid: number | null = null) {
  const machine = machineWith(units);
  const server = pid === null ? null : { pid, uid: null };
  return findServerUser(directory, { server, unit: findUnit(directory, server, machine) }, machine);
}

test("a running server has the effective ids and the groups of its process", () => {
  assert.equal(userOf({ "assay.service": unitOf("User=assay") }, 42), {
    uid: 61_001,
    gid: 8,
    groups: [8, 300],
    name: null,
    source: "as which process 42 serves the directory",
  });
});

test("a stopped service has the user of its unit, with the groups of both", () => {
  const unit = unitOf("User=assay", "SupplementaryGroups=backup");
  const expected = { uid: 998, gid: 997, groups: [300, 301], name: "assay", source: "the user of assay.service" };
  assert.equal(userOf({ "assay.service": unit }), expected);
  assert.equal(userOf({ "assay.service": unitOf("User=998", "SupplementaryGroups=backup") }), expected);
  assert.equal(userOf({ "assay.service": unitOf("User=assay", "Group=backup") }).gid, 301);
  assert.is(userOf({ "assay.service": unitOf() }).name, "root");
});

test("without a unit that serves the directory, its owner is the user", () => {
  const { uid } = statSync(directory);
  for (const units of [
    {},
    { "assay.service": unitOf("User=assay").replace(directory, "/var/lib/other") },
    { "assay.service": unitOf("User=nobody-knows") },
  ] as Readonly<Record<string, string>>[]) {
    const user = userOf(units);
    assert.equal({ uid: user.uid, source: user.source }, { uid, source: "the owner of the data directory" });
  }
});

test("a dynamic user has the number of the directory and the groups of the unit", () => {
  const user = userOf({ "assay.service": unitOf("User=assay", "DynamicUser=yes", "SupplementaryGroups=certs backup") });
  assert.is(user.uid, statSync(directory).uid);
  assert.equal(user.groups.slice(-2), [300, 301]);
});

test("the unit of a running server is that of its control group, whatever directory it names", () => {
  const machine = machineWith({ "evidence.service": "[Service]\nUser=assay\n", "assay.service": unitOf() });
  assert.is(findUnit(directory, { pid: 42, uid: null }, machine)?.name, "evidence.service");
  assert.is(findUnit(directory, null, machine)?.name, "assay.service");
  assert.is(findUnit("/var/lib/other", null, machine), null);
});

test("reads what assay systemd writes, with drop-ins", () => {
  const text = renderServiceUnit({
    executable: "/usr/local/bin/assay",
    arguments: ["--log-level", "info"],
    credentials: [{ name: "tls-key", path: "/etc/my certs/50%/key.pem" }],
    group: "certs",
    ownSocket: false,
    writable: [],
    lowPort: false,
    socket: true,
  });
  const unit = parseUnit("assay.service", text);
  assert.equal(unit, {
    name: "assay.service",
    user: null,
    group: null,
    supplementaryGroups: ["certs"],
    hasDynamicUser: true,
    data: "/var/lib/assay",
    credentials: ["/etc/my certs/50%/key.pem"],
    runtimeDirectories: ["/run/assay"],
    hasSocket: true,
  });
  const changed = parseUnit(
    "assay.service",
    `${text}\n[Service]\nExecStart=\nExecStart="/opt/assay" serve \\\n  --data "/srv/my data"\nDynamicUser=no\n` +
      "User=assay\nSupplementaryGroups=\nSupplementaryGroups=backup\n",
  );
  assert.equal(
    { ...changed, credentials: [] },
    {
      ...unit,
      user: "assay",
      supplementaryGroups: ["backup"],
      hasDynamicUser: false,
      data: "/srv/my data",
      credentials: [],
    },
  );
});

test("root takes the place of the server's user in the directory; nobody else does, and a refusal is told", () => {
  const user = { uid: 998, gid: 997, groups: [300], name: "assay", source: "the owner of the data directory" };
  const became: unknown[] = [];
  const become: Become = (one, place) => void became.push({ one, place });
  assert.equal(standInFor(user, "/data", { uid: 0, become }), { user, base: ".", problem: null });
  assert.equal(became.splice(0), [{ one: user, place: "/data" }]);
  assert.equal(standInFor(user, "/data", { uid: 998, become }), { user, base: "/data", problem: null });
  assert.equal(standInFor(user, "/data", { uid: 5, become }), { user, base: "/data", problem: "this is user 5" });
  assert.equal(became, []);
  const refused = standInFor(user, "/data", {
    uid: 0,
    become() {
      throw new Error("EPERM, Operation not permitted");
    },
  });
  assert.equal(checkServerUser(refused), {
    name: "server user",
    level: "warn",
    found:
      "998 (assay), the owner of the data directory, and this process may not become that user " +
      "(EPERM, Operation not permitted): permissions are not checked",
    todo: "run this command as root or as user 998",
  });
  assert.is(checkPermissions("/data", refused), null);
});

test("files that systemd passes as credentials are not those that the service reads", () => {
  const files = ["/etc/a.pem", "/etc/b.pem"].map((path) => ({ option: "tls-key", path, isWritten: false }));
  const unit = parseUnit("assay.service", "LoadCredential=tls-key:/etc/a.pem\n");
  assert.equal(
    withoutCredentials(files, unit).map(({ path }) => path),
    ["/etc/b.pem"],
  );
  assert.equal(withoutCredentials(files, null), files);
});

test.run();
