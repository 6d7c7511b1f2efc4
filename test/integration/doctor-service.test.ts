/** `assay doctor` as root for the service of `assay systemd`, whose dynamic user nothing outside of it can become. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { EXECUTABLE } from "../binary/executable.ts";
import { bootContainer } from "../guide/container.ts";
import { CERTIFICATE, KEY } from "../notifications/certificates.ts";

const all = suite("integration/doctor-service");
const container = await bootContainer();
if (typeof container === "string") console.log(`skipped: assay doctor for a service of systemd: ${container}`);
const test = typeof container === "string" ? all.skip : all;
const shell = typeof container === "string" ? null : container.openShell();
all.after(async () => {
  if (typeof container !== "string") await container.stop();
});

/** Runs lines that must succeed; returns what they print. */
async function run(lines: string): Promise<string> {
  if (shell === null) throw new Error("there is no container");
  const { code, output } = await shell.run(lines);
  assert.is(code, 0, `${lines}\n${output}`);
  return output.trim();
}

const REAL = "/var/lib/private/assay";
const OPTIONS =
  "--listen 127.0.0.1:8001 --config /etc/assay/assay.yaml --tls-cert /etc/assay/cert.pem --tls-key /etc/assay/key.pem";

/** The checks by name, as "level: found", and the number of the server's user. */
async function doctor(): Promise<Record<string, string>> {
  const { checks, server_user } = JSON.parse(await run(`assay doctor ${OPTIONS} --data /var/lib/assay --json || true`));
  return {
    uid: String(server_user?.uid),
    ...Object.fromEntries(
      (checks as { check: string; level: string; found: string }[]).map(({ check, level, found }) => [
        check,
        `${level}: ${found}`,
      ]),
    ),
  };
}

if (typeof container !== "string") {
  container.copy(EXECUTABLE, "/usr/local/bin/assay");
  container.put("/etc/assay/assay.yaml", "log_level: info\n", 0o600);
  container.put("/etc/assay/cert.pem", CERTIFICATE, 0o600);
  container.put("/etc/assay/key.pem", KEY, 0o600);
  await run(`assay init --data /var/lib/assay --org acme --user ops
    assay systemd ${OPTIONS} --output /etc/systemd/system
    systemctl daemon-reload
    systemctl enable --now assay`);
}

test("checks as the dynamic user while the service runs and while it is stopped", async () => {
  const owner = await run(`stat -c %u ${REAL}`);
  assert.is.not(owner, "0");
  const before = await run(`find ${REAL} ! -name '*.lock-journal' -printf '%P %u %g %m\\n' | sort`);
  const running = await doctor();
  const pid = await run("systemctl show assay --property=MainPID --value");
  assert.equal(
    { uid: running["uid"], user: running["server user"] },
    { uid: owner, user: `ok: ${owner}, as which process ${pid} serves the directory: files are checked as this user` },
  );
  assert.match(
    running["permissions"] ?? "",
    new RegExp(`^ok: mode 0700, user ${owner} owns and may use all \\d+ entries$`),
  );
  assert.is(running["database files"], "ok: are those that the server has open");
  // systemd reads them as root.
  assert.is(running["files of options"], undefined);
  assert.is(await run(`find ${REAL} ! -name '*.lock-journal' -printf '%P %u %g %m\\n' | sort`), before);

  await run("systemctl stop assay");
  const stopped = await doctor();
  assert.match(stopped["server user"] ?? "", `ok: ${owner}, the owner of the data directory`);
  assert.match(stopped["permissions"] ?? "", /^ok: /);
  await run("systemctl start assay");
});

test("names what root left in the directory of the service", async () => {
  const owner = await run(`stat -c %u ${REAL}`);
  await run(`chown root ${REAL}/evidence.lock`);
  assert.is(
    (await doctor())["permissions"],
    `fail: these entries do not belong to user ${owner}: evidence.lock (user 0, mode 0600); ` +
      "a command was run as another user",
  );
  await run(`systemctl stop assay
    chown -R --reference=${REAL} ${REAL}
    systemctl start assay`);
  assert.match((await doctor())["permissions"] ?? "", /^ok: /);
});

test("a file that no credential passes must be readable for the user of the service", async () => {
  const owner = await run(`stat -c %u ${REAL}`);
  await run("cp -p /etc/assay/assay.yaml /etc/assay/other.yaml");
  const other = OPTIONS.replace("assay.yaml", "other.yaml");
  const { checks } = JSON.parse(await run(`assay doctor ${other} --data /var/lib/assay --json || true`));
  const { level, found } = checks.find(({ check }: { check: string }) => check === "files of options");
  assert.equal(
    { level, found },
    {
      level: "fail",
      found: `user ${owner} cannot read /etc/assay/other.yaml (--config): it has mode 0600 and belongs to user 0`,
    },
  );
});

all.run();
