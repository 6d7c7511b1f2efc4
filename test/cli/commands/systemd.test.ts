import { spawnSync } from "node:child_process";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { renderServiceUnit, renderSocketUnit } from "../../../src/cli/install/systemd-unit.ts";
import { cli, inDirectory } from "../in-process.ts";

const test = suite("cli/commands/systemd");

const analyze = (...args: string[]) => spawnSync("systemd-analyze", ["--no-pager", ...args], { encoding: "utf8" });
const analyzed = analyze("--version").status === 0 ? test : test.skip;
if (analyze("--version").status !== 0) console.log("skipped: units are not verified without systemd-analyze");

/** Returns the unit of a valid command line. */
async function unit(...args: string[]): Promise<string> {
  const { code, out, err } = await cli(["systemd", ...args]);
  assert.equal({ code, err }, { code: 0, err: "" });
  return out;
}

const settings = (text: string, name: string): string[] =>
  text.split("\n").flatMap((line) => (line.startsWith(`${name}=`) ? [line.slice(name.length + 1)] : []));

const refused = async (args: readonly string[], ...messages: string[]): Promise<void> =>
  assert.equal(await cli(["systemd", ...args]), {
    code: 2,
    out: "",
    err: messages.map((message) => `assay: ${message}\n`).join(""),
  });

const SEE = "see assay help systemd";

test("hardens the unit without breaking V8, and does not restart after permanent errors", async () => {
  const text = await unit();
  const expected = {
    Type: "notify",
    NotifyAccess: "all",
    ExecStart: "/usr/local/bin/assay serve --data /var/lib/assay",
    ExecReload: "/bin/kill -HUP $MAINPID",
    Restart: "on-failure",
    RestartPreventExitStatus: "2 3 4 5",
    TimeoutStopSec: "60",
    DynamicUser: "yes",
    StateDirectory: "assay",
    StateDirectoryMode: "0700",
    RuntimeDirectory: "assay",
    UMask: "0077",
    LimitNOFILE: "65536",
    ProtectSystem: "strict",
    ProtectHome: "yes",
    PrivateTmp: "yes",
    PrivateDevices: "yes",
    NoNewPrivileges: "yes",
    CapabilityBoundingSet: "",
    PrivateUsers: "yes",
    RestrictAddressFamilies: "AF_INET AF_INET6 AF_UNIX",
    RestrictNamespaces: "yes",
    LockPersonality: "yes",
    ProtectKernelTunables: "yes",
    ProtectKernelModules: "yes",
    ProtectKernelLogs: "yes",
    ProtectProc: "invisible",
  };
  for (const [name, value] of Object.entries(expected)) assert.equal(settings(text, name), [value], name);
  assert.equal(settings(text, "SystemCallFilter"), ["@system-service", "~@privileged @resources", "setpriority"]);
  for (const name of [
    "MemoryDenyWriteExecute",
    "NoExecPaths",
    "LoadCredential",
    "AmbientCapabilities",
    "ReadWritePaths",
    "SupplementaryGroups",
    "Requires",
  ])
    assert.equal(settings(text, name), [], name);
  assert.match(text, "# No MemoryDenyWriteExecute=: V8");
});

test("passes options to the service with spaces, quotes, dollar and percent signs intact", async () => {
  await inDirectory(async (directory) => {
    const config = join(directory, "assay.yaml");
    writeFileSync(config, "oidc_issuer: https://login.example.com\noidc_client_secret: keep-this\n");
    const made = await unit(
      "--config",
      config,
      "--base-url",
      "https://assay.example.com/100%25",
      "--oidc-client-id",
      'a\\b "$prod"',
      "--executable",
      "/opt/assay-1%/assay",
    );
    assert.equal(settings(made, "ExecStart"), [
      "/opt/assay-1%%/assay serve --data /var/lib/assay --base-url https://assay.example.com/100%%25 " +
        "--config ${CREDENTIALS_DIRECTORY}/config " +
        '--oidc-client-id "a\\\\b \\"$$prod\\""',
    ]);
    assert.equal(settings(made, "LoadCredential"), [`config:${config}`]);
    assert.not.match(made, "keep-this");
  });
});

test("passes files as credentials, also those of the configuration file; a group reads TLS files in place", () =>
  inDirectory(async (directory) => {
    const config = join(directory, "assay.yaml");
    writeFileSync(
      config,
      "tls_cert: /etc/assay/cert.pem\ntls_key: /etc/assay/my key.pem\nbackup_every: 24h\n" +
        "backup_directory: /srv/backups\n",
    );
    const { code, out: made, err } = await cli(["systemd", "--config", config]);
    assert.equal(
      { code, err },
      {
        code: 0,
        err:
          "assay: the service has a user of its own, which may not write to /srv/backups: give --group NAME, and let " +
          "that group write there (chgrp NAME /srv/backups; chmod g+rwx /srv/backups)\n",
      },
    );
    assert.equal(settings(made, "LoadCredential"), [
      `config:${config}`,
      "tls-cert:/etc/assay/cert.pem",
      "tls-key:/etc/assay/my\\x20key.pem",
    ]);
    assert.match(
      settings(made, "ExecStart")[0] ?? "",
      "--tls-cert ${CREDENTIALS_DIRECTORY}/tls-cert --tls-key ${CREDENTIALS_DIRECTORY}/tls-key",
    );
    assert.equal(settings(made, "ReadWritePaths"), ["/srv/backups"]);
    const grouped = await unit("--config", config, "--group", "ssl-cert");
    assert.equal(settings(grouped, "LoadCredential"), [`config:${config}`]);
    assert.equal(settings(grouped, "SupplementaryGroups"), ["ssl-cert"]);
    assert.match(
      settings(grouped, "ExecStart")[0] ?? "",
      '--tls-cert /etc/assay/cert.pem --tls-key "/etc/assay/my key.pem"',
    );
  }));

test("grants the capability for a port below 1024, unless systemd binds it", async () => {
  const low = await unit("--listen", "0.0.0.0:443");
  assert.equal(
    {
      "settings CapabilityBoundingSet": settings(low, "CapabilityBoundingSet"),
      "settings AmbientCapabilities": settings(low, "AmbientCapabilities"),
      "settings PrivateUsers": settings(low, "PrivateUsers"),
    },
    {
      "settings CapabilityBoundingSet": ["CAP_NET_BIND_SERVICE"],
      "settings AmbientCapabilities": ["CAP_NET_BIND_SERVICE"],
      "settings PrivateUsers": [],
    },
  );
  const { units } = JSON.parse((await cli(["systemd", "--listen", "[::1]:443", "--socket", "--json"])).out);
  assert.equal(Object.keys(units), ["assay.service", "assay.socket"]);
  assert.equal(settings(units["assay.service"], "CapabilityBoundingSet"), [""]);
  assert.equal(
    {
      "settings Requires": settings(units["assay.service"], "Requires"),
      "settings Also": settings(units["assay.service"], "Also"),
    },
    { "settings Requires": ["assay.socket"], "settings Also": ["assay.socket"] },
  );
  assert.equal(settings(units["assay.socket"], "ListenStream"), ["[::1]:443"]);
  assert.equal(settings(units["assay.socket"], "SocketMode"), []);
  const both = await unit("--socket");
  assert.match(both, /^# assay\.service\n\[Unit\]\n[^]*\n# assay\.socket\n\[Unit\]\n/);
  assert.equal(settings(both, "ListenStream"), ["127.0.0.1:8001"]);
});

test("gives a Unix socket its group, through the service or the socket unit", () => {
  const settingsOfUnit = { executable: "/bin/assay", arguments: [], credentials: [], writable: [], lowPort: false };
  const own = renderServiceUnit({ ...settingsOfUnit, group: "www-data", ownSocket: true, socket: false });
  assert.equal(
    { "settings Group": settings(own, "Group"), "settings SupplementaryGroups": settings(own, "SupplementaryGroups") },
    { "settings Group": ["www-data"], "settings SupplementaryGroups": [] },
  );
  const handed = renderSocketUnit("/run/assay.sock", "www-data");
  assert.equal(
    ["ListenStream", "SocketMode", "SocketGroup"].map((name) => settings(handed, name)),
    [["/run/assay.sock"], ["0660"], ["www-data"]],
  );
  assert.equal(settings(renderSocketUnit("/run/assay.sock", null), "SocketMode"), ["0666"]);
});

test("ignores the variables of this shell", async () => {
  const { out } = await cli(["systemd"], { env: { ASSAY_LISTEN: "0.0.0.0:80", ASSAY_NONSENSE: "1" } });
  assert.equal(
    {
      "settings ExecStart": settings(out, "ExecStart"),
      "settings CapabilityBoundingSet": settings(out, "CapabilityBoundingSet"),
    },
    {
      "settings ExecStart": ["/usr/local/bin/assay serve --data /var/lib/assay"],
      "settings CapabilityBoundingSet": [""],
    },
  );
});

test("refuses options that a unit cannot contain", async () => {
  await refused(
    ["--smtp-url", "smtp://u:p@mail.example.com", "--metrics-key", "0123456789abcdef"],
    "--smtp-url, --metrics-key: every user of the machine can read a unit; write the secret to a file and name " +
      "that with --config FILE",
    "smtp-url and smtp-from belong together: give --smtp-from ADDRESS or ASSAY_SMTP_FROM too",
    SEE,
  );
  await refused(
    ["--data", "/srv/assay"],
    "--data: the service always uses /var/lib/assay; to use another disk, mount it at /var/lib/private/assay",
    SEE,
  );
  await refused(["--group", "a b"], '--group: "a b" is not a valid group name', SEE);
  await refused(
    ["--socket", "--listen", "localhost:80"],
    "--listen: a socket unit accepts no host names: give an IP address instead of localhost",
  );
  await refused(["--socket", "--listen", "127.0.0.1:0"], "--listen: a socket unit needs a port");
  for (const path of ["assay", "/opt/my assay", "/opt/$HOME/assay", ""]) {
    await refused(
      ["--executable", path],
      `--executable: ${JSON.stringify(path)} is not accepted, give an absolute path without spaces, quotes, $ ` +
        "and backslashes",
      SEE,
    );
  }
  await refused(
    ["--tls-cert", "/etc/cert.pem"],
    "tls-cert and tls-key belong together: give --tls-key FILE or ASSAY_TLS_KEY too",
  );
  const missing = await cli(["systemd", "--config", "/nonexistent.yaml"]);
  assert.equal({ code: missing.code, out: missing.out }, { code: 1, out: "" });
  assert.match(missing.err, "cannot read /nonexistent.yaml");
});

test("warns of an executable that the service cannot access", async () => {
  const { code, err } = await cli(["systemd", "--executable", "/home/ops/assay"]);
  assert.equal(
    { code, err },
    {
      code: 0,
      err:
        "assay: the service cannot access /home/ops/assay: copy it to /usr/local/bin/assay and give --executable " +
        "/usr/local/bin/assay\n",
    },
  );
});

test("--output writes units that every user can read", () =>
  inDirectory(async (directory) => {
    const { code, out } = await cli(["systemd", "--socket", "--output", "units"], { cwd: directory });
    assert.is(code, 1, "the directory must be there");
    assert.is(out, "");
    const made = await cli(["systemd", "--socket", "--output", "."], { cwd: directory });
    assert.equal(
      { code: made.code, out: made.out },
      { code: 0, out: `${directory}/assay.service\n${directory}/assay.socket\n` },
    );
    assert.is(statSync(join(directory, "assay.service")).mode & 0o777, 0o644);
    assert.equal(
      JSON.parse((await cli(["systemd", "--json"])).out).units["assay.service"],
      readFileSync(join(directory, "assay.service"), "utf8")
        .replace(/Requires=.*\nAfter=assay.*\n/, "")
        .replace("Also=assay.socket\n", ""),
    );
  }));

analyzed("systemd has no complaint about the units, and rates the exposure low", () =>
  inDirectory(async (directory) => {
    writeFileSync(join(directory, "assay.yaml"), "tls_cert: /etc/assay/cert.pem\ntls_key: /etc/assay/my key.pem\n");
    for (const args of [
      [],
      ["--socket"],
      ["--listen", "0.0.0.0:443", "--config", join(directory, "assay.yaml"), "--smtp-tls", "off"],
      ["--group", "root"],
    ]) {
      const made = await cli(["systemd", "--executable", process.execPath, "--output", directory, ...args]);
      assert.is(made.code, 0, made.err);
      const verified = analyze("verify", ...made.out.trim().split("\n"));
      assert.equal({ status: verified.status, stderr: verified.stderr }, { status: 0, stderr: "" }, args.join(" "));
    }
    await cli(["systemd", "--output", directory]);
    // 15 means 1.5 of 10: the rest are the network, the notification and a device that the clock protection
    // adds.
    const rated = analyze("security", "--offline=true", "--threshold=15", join(directory, "assay.service"));
    assert.is(rated.status, 0, rated.stdout.split("\n").slice(-3).join("\n"));
  }),
);

test.run();
