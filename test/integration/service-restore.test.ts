/**
 * `assay restore --service` under a real systemd, with the unit of `assay systemd`: what it replaces, what it says is
 * lost, and that each refusal leaves the directory in place and the service as it was.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { EXECUTABLE } from "../binary/executable.ts";
import { bootContainer } from "../guide/container.ts";
import { findUnprinted } from "../guide/instructions.ts";

const test = suite("integration/service-restore");

const container = await bootContainer();
if (typeof container === "string") console.log(`skipped: assay restore --service in a Debian of its own: ${container}`);
const testService = typeof container === "string" ? test.skip : test;
const shell = typeof container === "string" ? null : container.openShell();
test.after(async () => {
  if (typeof container !== "string") await container.stop();
});

/** Runs lines that must succeed; returns what they print. */
async function run(lines: string): Promise<string> {
  if (shell === null) throw new Error("there is no container");
  const { code, output } = await shell.run(lines);
  assert.is(code, 0, `${lines}\n${output}`);
  return output.trim();
}

/** Runs one command, whatever becomes of it. */
async function attempt(command: string): Promise<{ code: number; output: string }> {
  const output = await run(`code=0; ${command} || code=$?; echo "code $code"`);
  const [, text = "", code] = /^([^]*)code (\d+)$/.exec(output) ?? [];
  return { code: Number(code), output: text.trim() };
}

const REAL = "/var/lib/private/assay";
const RESTORE = "assay restore /root/backup.tar --service assay --data /var/lib/assay";

/**
 * What a refusal must not change: the process, the directories, the owners, the content of the database. The journal of
 * a lock is there while the server takes it.
 */
const state = (): Promise<string> =>
  run(`systemctl show assay --property=ActiveState,MainPID; stat -c '%A %u %g %N' /var/lib/assay /var/lib/private/*
    find ${REAL} ! -name '*.lock-journal' -printf '%P %u %m\\n' | sort; sha256sum ${REAL}/assay.db | cut -c1-64`);

/** Removes what earlier tests moved aside, and adds two changes to what the backup has. */
const addChanges = (): Promise<string> =>
  run(`rm -rf ${REAL}.*
    for name in one two; do assay key create --user ops --description $name --data /var/lib/assay; done`);

if (typeof container !== "string") {
  container.copy(EXECUTABLE, "/usr/local/bin/assay");
  await run(`assay init --data /var/lib/assay --org acme --user ops
    assay systemd --listen 127.0.0.1:8001 --base-url https://assay.example.com --output /etc/systemd/system
    systemctl daemon-reload
    systemctl enable --now assay
    assay backup /root/backup.tar --data /var/lib/assay
    chmod 0644 /root/backup.tar`);
}

testService(
  "replaces the data of the running service, and says what was lost and where the earlier data are",
  async () => {
    await addChanges();
    const { code, output } = await attempt(RESTORE);
    assert.is(code, 0, output);
    const expected = [
      `restored ${REAL} as of 2026-01-02T03:04:05Z, from a backup of Assay 0.1.0`,
      "schema 5, 182340 rows, 0 evidence files: all counts and hashes verified (9.4 s)",
      "lost: 2 changes, the last at 2026-01-02T03:05:05Z, 60 seconds after the backup",
      `the earlier directory is ${REAL}.before-restore-20260102T030405Z: keep it until nothing is missing`,
      "the service assay runs on the restored data; it was stopped for 1.3 s",
      "verified: all quick checks passed; all of it took 4.2 s",
    ];
    assert.is(findUnprinted(expected.join("\n"), output), null, output);
    assert.match(output, /^lost: 2 changes, /m);
    assert.is(
      await run("systemctl is-active assay; curl -sf http://127.0.0.1:8001/ready; echo; readlink /var/lib/assay"),
      "active\nOK\nprivate/assay",
    );
    assert.is(await run(`find ${REAL} ! -user "$(stat -c %u ${REAL})" | wc -l; stat -c %a ${REAL}`), "0\n700");
    assert.is(
      await run("assay verify --data /var/lib/assay >/dev/null; ls /var/lib/private | grep -c before-restore"),
      "1",
    );
    assert.is(await run("assay key list --user ops --data /var/lib/assay | grep -c ' one\\b\\| two\\b' || true"), "0");
  },
);

testService("the same as JSON, while systemd starts the service again after a crash", async () => {
  await addChanges();
  await run(`systemctl kill --signal=KILL assay
    until [ "$(systemctl show assay --property=NRestarts --value)" -gt 0 ]; do sleep 0.1; done`);
  const { code, output } = await attempt(`${RESTORE} --json`);
  assert.is(code, 0, output);
  const { lost, moved_to, down_seconds, damage, directory } = JSON.parse(output);
  assert.equal({ changes: lost.changes, damage, directory }, { changes: 2, damage: 0, directory: REAL });
  assert.match(moved_to, /^\/var\/lib\/private\/assay\.before-restore-/);
  assert.ok(lost.seconds >= 0 && down_seconds > 0, output);
});

testService("a service that is stopped, and has nothing to lose, is started on the restored data", async () => {
  await run(`rm -rf ${REAL}.*; systemctl stop assay`);
  const { code, output } = await attempt(RESTORE);
  assert.is(code, 0, output);
  assert.match(output, "lost: nothing: the earlier directory has no change after the backup\n");
  assert.is(await run("systemctl is-active assay"), "active");
});

testService("what a killed run left is removed, wherever it was killed", async () => {
  await run(`rm -rf ${REAL}.*; assay restore /root/backup.tar --data ${REAL}.restored`);
  const first = await attempt(RESTORE);
  assert.is(first.code, 0, first.output);
  // Killed between the two renames: the earlier directory is aside, and the link leads nowhere.
  await run(`systemctl stop assay; rm -rf ${REAL}.*; mv ${REAL} ${REAL}.before-restore-20260102T030405Z
    assay restore /root/backup.tar --data ${REAL}.restored`);
  const second = await attempt(RESTORE);
  assert.is(second.code, 0, second.output);
  assert.match(second.output, "lost: unknown, because there was no earlier directory\n");
  assert.is(
    await run("ls /var/lib/private; systemctl is-active assay"),
    "assay\nassay.before-restore-20260102T030405Z\nactive",
  );
});

testService("a socket that would start the service is stopped and started with it", async () => {
  await run(`rm -rf ${REAL}.*; systemctl stop assay
    assay systemd --socket --listen 127.0.0.1:8001 --base-url https://assay.example.com --output /etc/systemd/system
    systemctl daemon-reload; systemctl start assay.socket assay`);
  const { code, output } = await attempt(RESTORE);
  assert.is(code, 0, output);
  assert.is(
    await run("systemctl is-active assay assay.socket; curl -sf http://127.0.0.1:8001/ready"),
    "active\nactive\nOK",
  );
  await run(`systemctl stop assay.socket assay; rm /etc/systemd/system/assay.socket
    assay systemd --listen 127.0.0.1:8001 --base-url https://assay.example.com --output /etc/systemd/system
    systemctl daemon-reload; systemctl start assay`);
});

const REFUSALS: readonly (readonly [what: string, command: string, code: number, words: string])[] = [
  ["a unit that does not exist", RESTORE.replace("service assay", "service asay"), 1, "there is no unit asay.service"],
  [
    "a unit of another program",
    RESTORE.replace("service assay", "service dbus"),
    4,
    `uses ${REAL}, and it is not that of dbus.service: stop it first`,
  ],
  [
    "another directory",
    RESTORE.replace("--data /var/lib/assay", "--data /srv/assay"),
    1,
    "there is no directory /srv/private: start assay.service once, or create it (mode 0700)",
  ],
  [
    "a user who is not root",
    `setpriv --reuid 65534 --clear-groups ${RESTORE.replace("/root/", "/tmp/")}`,
    1,
    "--service needs root",
  ],
  [
    "an archive that is not there",
    RESTORE.replace("backup.tar", "none.tar"),
    1,
    "cannot read /root/none.tar: it, or a directory above it, does not exist (ENOENT)",
  ],
  [
    "a damaged archive",
    `head -c 300000 /root/backup.tar >/root/cut.tar; ${RESTORE.replace("backup.tar", "cut.tar")}`,
    5,
    "/root/cut.tar is damaged or is not a backup: it is cut off after 300000 bytes",
  ],
  [
    "a directory in the way",
    `mkdir ${REAL}.restored; touch ${REAL}.restored/mine; ${RESTORE}; code=$?; rm -r ${REAL}.restored; (exit $code)`,
    1,
    `${REAL}.restored is in the way, and no restore left it; move it away`,
  ],
];
for (const [what, command, expected, words] of REFUSALS)
  testService(`${what} is refused, and nothing changes`, async () => {
    const before = await state();
    // A subshell, so that what fails in it ends nothing else.
    const { code, output } = await attempt(`bash -c '${command}' 2>&1`);
    assert.equal({ code, says: output.includes(words) }, { code: expected, says: true }, output);
    assert.is(await state(), before);
  });

testService("a service that does not start on the restored data gets the earlier directory back and runs", async () => {
  await addChanges();
  // The restored directory has no backups/.
  await run(`mkdir -p ${REAL}/backups; chown --reference=${REAL} ${REAL}/backups
    mkdir -p /etc/systemd/system/assay.service.d
    printf '[Service]\\nExecStartPre=test -e /var/lib/assay/backups\\n' >/etc/systemd/system/assay.service.d/fail.conf
    systemctl daemon-reload`);
  const { code, output } = await attempt(RESTORE);
  assert.is(code, 1, output);
  assert.match(
    output,
    /systemctl start assay\.service failed: .*; the earlier directory is in place again, and assay\.service runs on it/,
  );
  assert.is(await run("ls /var/lib/private; systemctl is-active assay"), "assay\nactive");
  assert.is(await run("assay key list --user ops --data /var/lib/assay | grep -c ' one\\b\\| two\\b'"), "2");
  await run("rm -r /etc/systemd/system/assay.service.d; systemctl daemon-reload");
});

testService(
  "a directory that another process uses after the stop is not exchanged, and the service is as it was",
  async () => {
    // With this the server survives the stop of its unit.
    await run(`rm -rf ${REAL}.*; mkdir -p /etc/systemd/system/assay.service.d
    printf '[Service]\\nKillMode=none\\nExecStop=true\\n' >/etc/systemd/system/assay.service.d/stays.conf
    systemctl daemon-reload`);
    const { code, output } = await attempt(RESTORE);
    assert.is(code, 4, output);
    assert.match(output, "is in use by another Assay process");
    assert.match(output, /the earlier directory is in place again/);
    assert.is(await run("ls /var/lib/private"), "assay");
    await run(`rm -r /etc/systemd/system/assay.service.d; systemctl daemon-reload
    systemctl stop assay || true; fuser -k -TERM ${REAL}/assay.db || true
    until ! fuser -s ${REAL}/assay.db; do sleep 0.1; done
    systemctl reset-failed assay || true; systemctl start assay`);
  },
);

testService("a server that runs without systemd is not stopped, and nothing is restored", async () => {
  await run(`systemctl stop assay; assay serve --data ${REAL} --listen 127.0.0.1:8001 >/root/served 2>&1 & 
    until grep -q 'listening on' /root/served; do sleep 0.1; done`);
  const { code, output } = await attempt(RESTORE);
  assert.is(code, 4, output);
  assert.match(
    output,
    /process \d+ uses \/var\/lib\/private\/assay, and it is not that of assay\.service: stop it first/,
  );
  assert.is(await run("ls /var/lib/private; curl -sf http://127.0.0.1:8001/ready"), "assay\nOK");
  await run(`kill %1; wait %1 || true; chown -R --reference=${REAL} ${REAL}; systemctl start assay`);
});

testService("a mount point, and a second directory, are refused with what to do", async () => {
  await run(`systemctl stop assay; mv ${REAL} /root/kept; mkdir ${REAL}
    mount -t tmpfs tmpfs ${REAL}; cp -a /root/kept/. ${REAL}/`);
  const mounted = await attempt(RESTORE);
  assert.equal(mounted, {
    code: 1,
    output:
      `assay: ${REAL} is a mount point, which cannot be moved aside: stop assay.service, mount an empty disk there, ` +
      "and restore into it without --service",
  });
  await run(`umount ${REAL}; rmdir ${REAL}; mv /root/kept ${REAL}; rm /var/lib/assay; cp -a ${REAL} /var/lib/assay`);
  const twice = await attempt(RESTORE);
  assert.equal(twice, {
    code: 1,
    output:
      `assay: there are two directories, /var/lib/assay and ${REAL}: systemd starts no service with both; ` +
      "move one away",
  });
  assert.is(
    await run(`rm -r /var/lib/assay; systemctl start assay; systemctl is-active assay; ls /var/lib/private`),
    "active\nassay",
  );
});

test.run();
