// What an operator installs: the systemd service under its restrictions, the root file system of the image, the
// release.
//
// systemd is not the first process here, and there is no container engine. Of the unit this tests: the read-only file
// system with one writable directory, private /tmp and /dev, hidden homes, the restricted /proc, the unprivileged user
// without capabilities or new privileges, and the filters of system calls and address families. It does not test
// notification of systemd, credentials, the socket, or the settings RestrictNamespaces=, RestrictSUIDSGID=,
// RestrictRealtime=, LockPersonality=, PrivateUsers=, ProtectClock= and ProtectHostname=.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, statSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createRunner, releaseFiles } from "../../bin/release.ts";
import { createClient, expectStatus } from "../binary/client.ts";
import { EXECUTABLE, inDirectory, run, start } from "../binary/executable.ts";
import { obstacle, PATH, restricted, settings, USER } from "../binary/restricted.ts";

const test = suite("integration/installing");
const testRestricted = obstacle === null ? test : test.skip;
if (obstacle !== null) console.log(`skipped: tests of the restricted service and of the image: ${obstacle}`);

/** Runs a command of the executable and returns what it prints. */
const readOutput = createRunner(EXECUTABLE);
const ROOT = join(import.meta.dirname, "..", "..");
const KEY = "ci-key-of-the-installed-service-0123456789";
const APPLY = `
organizations:
  - name: acme
    service_accounts: [{name: ci-bot, privilege: admin, api_keys: [{description: ci, key: "${KEY}"}]}]
users: [{name: ops}]
`;
const EVIDENCE = Buffer.alloc(3_000_000, "evidence ");
const SUITES = [{ name: "unit", failures: 0, errors: 0, skipped: 0, total: 1, duration: 1 }];

testRestricted("the service stores and serves evidence under the unit's restrictions, and stops cleanly", async () => {
  const unit = readOutput(["systemd"]);
  const [program, ...args] = (settings(unit, "ExecStart")[0] ?? "").split(" ");
  assert.is(program, EXECUTABLE);
  const server = await start(
    ...restricted(unit, [...args, "--listen", "127.0.0.1:0", "--bootstrap", "/run/files/apply.yml"], {
      files: { "apply.yml": APPLY },
    }),
  );
  const status = readFileSync(`/proc/${server.pid}/status`, "utf8");
  for (const line of [
    `Uid:\t${USER}`,
    "CapEff:\t0000000000000000",
    "CapBnd:\t0000000000000000",
    "NoNewPrivs:\t1",
    "Seccomp:\t2",
  ])
    assert.match(status, line);

  const { json, form } = createClient(server.url, KEY);
  await expectStatus(json("PUT", "/flows/acme", { name: "backend", description: "", visibility: "private" }), 201);
  await expectStatus(form("PUT", "/trails/acme/backend", "data_json", { name: "release-1" }), 201);
  const file = { part: "attachment_file", name: "report.txt", content: EVIDENCE };
  await expectStatus(
    form(
      "POST",
      "/attestations/acme/backend/trail/release-1/junit",
      "data_json",
      { attestation_name: "tests", junit_results: SUITES },
      file,
    ),
    201,
  );
  // Schemas and jq run in threads of their own, and so do audit packages.
  const type = { name: "coverage", description: "", evaluator: { content_type: "jq", rules: [".line > 80"] } };
  await expectStatus(form("POST", "/custom-attestation-types/acme", "data_json", type), 201);
  await expectStatus(
    form("POST", "/attestations/acme/backend/trail/release-1/custom", "data_json", {
      attestation_name: "cover",
      type_name: "coverage",
      attestation_data: { line: 81 },
    }),
    201,
  );
  const [record] = await expectStatus(json("GET", "/attestations/acme/backend/trail/release-1/tests"), 200);
  const back = await json("GET", new URL(record._links.evidence.href).pathname.replace("/api/v2", ""));
  assert.is(back.bytes.equals(EVIDENCE), true);
  const auditPackage = await json("GET", "/trails/acme/backend/release-1/audit_package");
  assert.equal(
    { status: auditPackage.status, magic: auditPackage.bytes.readUInt16BE(0) },
    { status: 200, magic: 0x1f8b },
  );

  // The operator runs commands as root while it serves: the files they write must still belong to the service.
  const inside = (...command: string[]) =>
    spawnSync("nsenter", ["-t", String(server.pid), "-m", ...command], { env: { PATH }, encoding: "utf8" });
  const created = inside(
    `/proc/${server.pid}/exe`,
    "key",
    "create",
    "--user",
    "ops",
    "--description",
    "laptop",
    "--data",
    "/var/lib/assay",
    "--json",
  );
  assert.is(created.status, 0, created.stderr);
  const owners = inside("find", "/var/lib/assay", "-printf", "%U %m %P\n").stdout.trim().split("\n");
  assert.ok(owners.length > 5, owners.join("\n"));
  assert.equal(
    owners.filter((line) => !line.startsWith(`${USER} `) || !/^\d+ [2467]00 /.test(line)),
    [],
    "every file belongs to the service and is accessible to nothing else",
  );
  assert.equal(await server.stop(), { code: 0, signal: null }, server.output());
});

testRestricted("what the unit forbids fails under the restrictions", async () => {
  const unit = readOutput(["systemd"]);
  const refused = await run(...restricted(unit, ["serve", "--data", "/srv"]));
  assert.equal(
    { code: refused.code, namesDirectory: refused.stderr.includes("cannot create the directory /srv/evidence: ") },
    { code: 1, namesDirectory: true },
    refused.stderr,
  );
  // With a filter that allows no internet sockets the same program cannot listen.
  const filtered = await run(
    ...restricted(unit.replace("AF_INET AF_INET6 ", ""), [
      "serve",
      "--data",
      "/var/lib/assay",
      "--listen",
      "127.0.0.1:0",
    ]),
  );
  assert.is(filtered.code, 1, filtered.stderr);
  assert.match(filtered.stderr, "EAFNOSUPPORT");
});

testRestricted("systemd-notify reaches the notification socket through the restrictions", async () => {
  const receiver = `perl -MIO::Socket::UNIX -MSocket -e '
    my $socket = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => "/run/assay/notify") or die;
    chmod 0777, "/run/assay/notify";
    alarm 20; for (1, 2) { $socket->recv(my $text, 100); print "$text\\n" }' &
    until test -S /run/assay/notify; do kill -0 $! || exit 97; done`;
  const [args, options] = restricted(
    readOutput(["systemd"]),
    ["NOTIFY_SOCKET=/run/assay/notify", "/usr/bin/systemd-notify", "--ready"],
    { before: receiver },
  );
  const notified = await run(args, { ...options, env: { ...options.env, EXECUTABLE: "/usr/bin/env" } });
  assert.equal(notified, { code: 0, signal: null, stdout: "READY=1\nBARRIER=1\n", stderr: "" });
});

// What MemoryDenyWriteExecute= does with a filter, newer kernels do on request: prctl(PR_SET_MDWE).
const runDenied = (command: string) =>
  spawnSync(
    "perl",
    ["-e", "syscall(157, 65, 1, 0, 0, 0) == 0 or exit 99; exec { $ARGV[0] } @ARGV", command, "version"],
    { env: { PATH }, encoding: "utf8" },
  );
const canDeny = runDenied("/bin/true").status === 0;
if (!canDeny)
  console.log("skipped: this kernel cannot deny memory that is written and then executed, or perl is missing");
(canDeny ? test : test.skip)(
  "it cannot start where written memory may not be executed, so the unit omits MemoryDenyWriteExecute=",
  () => {
    const { status, signal } = runDenied(EXECUTABLE);
    assert.is.not(status, 0);
    assert.is.not(signal, null, "V8 ends the process");
  },
);

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** The arguments of an instruction of a Dockerfile, as written. */
const instruction = (dockerfile: string, name: string): string =>
  new RegExp(`^${name} (.*)$`, "m").exec(dockerfile.replaceAll("\\\n", ""))?.[1] ?? "";

testRestricted(
  "the image has every file that the server needs, runs read-only as its user, and its health check works",
  () =>
    inDirectory(async (directory) => {
      const image = join(directory, "image");
      const made = await run(["docker", image, "--json"]);
      assert.is(made.code, 0, made.stderr);
      const { libraries } = JSON.parse(made.stdout) as { libraries: string[] };
      assert.ok(libraries.includes("/lib64/ld-linux-x86-64.so.2"), made.stdout);
      assert.ok(
        libraries.some((path) => path.endsWith("/libstdc++.so.6")),
        made.stdout,
      );
      const again = await run(["docker", image]);
      assert.equal(
        { code: again.code, stderr: again.stderr },
        { code: 1, stderr: `assay: ${image} is not empty: give a new directory\n` },
      );

      const dockerfile = readFileSync(join(image, "Dockerfile"), "utf8");
      assert.is(dockerfile, readFileSync(join(ROOT, "bin", "Dockerfile"), "utf8"));
      const [user] = instruction(dockerfile, "USER").split(":");
      const env = instruction(dockerfile, "ENV")
        .trim()
        .split(/\s+/)
        .map((pair) => pair.split("=") as [string, string]);
      const port = await freePort();
      const variables = Object.fromEntries(env.map(([name, value]) => [name, value.replace(/:8001$/, `:${port}`)]));
      const command = [
        ...JSON.parse(instruction(dockerfile, "ENTRYPOINT")),
        ...JSON.parse(instruction(dockerfile, "CMD")),
      ] as string[];
      const check = JSON.parse(/^HEALTHCHECK .*CMD (.*)$/m.exec(dockerfile)?.[1] ?? "") as string[];

      // What a container engine adds: mount points, /proc, /dev, and the volume with the owner that COPY --chown sets.
      for (const name of ["proc", "dev", "data"]) mkdirSync(join(image, "root", name));
      const assignments = Object.entries(variables).map(([name, value]) => `${name}=${value}`);
      const script = `cd "$IMAGE/root" && mount --make-rprivate / && mount --bind . . && cd "$IMAGE/root" &&
      mount -t tmpfs -o uid=${user},gid=${user},mode=700 tmpfs data &&
      mount -t proc proc proc && mount --bind /dev dev && mount -o remount,bind,ro . &&
      exec env -i ${assignments.join(" ")} "$(command -v chroot)" --userspec=${user}:${user} --groups= . "$@"`;
      const chroot = (words: readonly string[]): Parameters<typeof start> => [
        ["-m", "sh", "-c", script, "sh", ...words],
        { executable: "/usr/bin/unshare", env: { PATH, IMAGE: image } },
      ];

      const absent = await run(...chroot(check));
      assert.equal({ code: absent.code, stdout: absent.stdout }, { code: 1, stdout: "" });
      assert.match(absent.stderr, `assay: not ready: http://127.0.0.1:${port}/ready: connect ECONNREFUSED`);
      const server = await start(...chroot(command));
      assert.equal(
        { uid: statSync(`/proc/${server.pid}`).uid, port: Number(new URL(server.url).port) },
        { uid: Number(user), port },
      );
      const healthy = await run(...chroot(check));
      assert.equal(
        { code: healthy.code, stdout: healthy.stdout, stderr: healthy.stderr },
        { code: 0, stdout: "ready\n", stderr: "" },
      );
      assert.equal(await server.stop(), { code: 0, signal: null }, server.output());
    }),
);

test("a release has the executable, the files that it prints, and checksums of all of them", async () => {
  const executable = readFileSync(EXECUTABLE);
  const files = new Map(releaseFiles(ROOT, executable, readOutput).map((file) => [file.path, file]));
  const text = (path: string): string => files.get(path)?.content.toString() ?? "";
  assert.equal(
    [...files.values()].filter((file) => file.executable).map(({ path }) => path),
    ["assay"],
  );
  assert.equal(
    [...files.values()].filter(({ content }) => content.length === 0).map(({ path }) => path),
    [],
  );
  for (const path of [
    "assay.service",
    "socket/assay.service",
    "socket/assay.socket",
    "assay.1",
    "completions/assay.bash",
    "completions/_assay",
    "completions/assay.fish",
    "sbom.cdx.json",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "guide/installing.md",
  ])
    assert.ok(files.has(path), path);
  assert.equal(settings(text("assay.service"), "ExecStart"), ["/usr/local/bin/assay serve --data /var/lib/assay"]);

  const sums = new Map(
    text("SHA256SUMS")
      .trimEnd()
      .split("\n")
      .map((line) => [line.slice(66), line.slice(0, 64)]),
  );
  assert.equal([...sums.keys()], [...files.keys()].filter((path) => path !== "SHA256SUMS").sort());
  for (const [path, sum] of sums)
    assert.is(
      createHash("sha256")
        .update(files.get(path)?.content ?? "")
        .digest("hex"),
      sum,
      path,
    );

  // Relative links of the README lead to files of the release.
  const links = [...text("README.md").matchAll(/\]\((?!https?:)([^)#]+)/g)].map((match) => match[1] as string);
  assert.ok(links.length > 5);
  assert.equal(
    links.filter((link) => !files.has(link)),
    [],
  );
  const topics = readdirSync(join(ROOT, "src", "guide"));
  assert.equal(
    topics.filter((name) => text(`guide/${name}`) !== readFileSync(join(ROOT, "src", "guide", name), "utf8")),
    [],
  );
});

test("the SBOM and the licences list the versions that the executable contains", async () => {
  const { components } = JSON.parse(readOutput(["sbom"])) as {
    components: { name: string; version: string; components?: { name: string; version: string }[] }[];
  };
  const version = JSON.parse(readOutput(["version", "--json"])) as { node: string; sqlite: string };
  const named = (name: string) => components.find((component) => component.name === name);
  assert.is(`v${named("node")?.version}`, version.node);
  assert.is(named("better-sqlite3")?.components?.[0]?.version, version.sqlite);
  const texts = readOutput(["licenses"]);
  for (const heading of [
    "==> koa@",
    "==> better-sqlite3@13.2.0/sqlite@",
    "==> jq-wasm@1.0.1/oniguruma <==",
    "==> node@",
  ])
    assert.match(texts, heading);
});

test.run();
