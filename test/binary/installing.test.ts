// What an operator installs: the systemd service under its restrictions, the root file system of the image, the
// release.
//
// No systemd runs here as the first process, and no container engine. Of the unit this tries: the read-only file system
// with one writable directory, private /tmp and /dev, hidden homes, the restricted /proc, the user without capabilities
// and new privileges, the filter of system calls and of address families. Not tried: the notification of systemd,
// credentials, the socket, and the settings RestrictNamespaces=, RestrictSUIDSGID=, RestrictRealtime=,
// LockPersonality=, PrivateUsers=, ProtectClock=, ProtectHostname=.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, statSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { asking, releaseFiles } from "../../bin/release.ts";
import { createClient, expectStatus } from "./client.ts";
import { EXECUTABLE, inDirectory, run, start } from "./executable.ts";
import { obstacle, PATH, restricted, settings, USER } from "./restricted.ts";

const test = suite("binary/installing");
const confined = obstacle === null ? test : test.skip;
if (obstacle !== null) console.log(`skipped: the service under its restrictions, and the image: ${obstacle}`);

const ask = asking(EXECUTABLE);
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

confined("the service of the unit takes and gives evidence under its restrictions, and stops cleanly", async () => {
  const unit = ask(["systemd"]);
  const [program, ...args] = (settings(unit, "ExecStart")[0] ?? "").split(" ");
  assert.is(program, EXECUTABLE);
  const server = await start(
    ...restricted(unit, [...args, "--listen", "127.0.0.1:0", "--bootstrap", "/run/given/apply.yml"], {
      "apply.yml": APPLY,
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
  // Schemas and jq run in threads, audit packages in another one.
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
  const kept = await json("GET", "/trails/acme/backend/release-1/audit_package");
  assert.equal({ status: kept.status, bytes: kept.bytes.readUInt16BE(0) }, { status: 200, bytes: 0x1f8b });

  // The operator works beside it as root: what that leaves behind must stay the service's.
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
    "everything is the service's and nobody else's",
  );
  assert.equal(await server.stop(), { code: 0, signal: null }, server.output());
});

confined("the restrictions are there: what the unit forbids fails", async () => {
  const unit = ask(["systemd"]);
  const refused = await run(...restricted(unit, ["serve", "--data", "/srv"]));
  assert.equal(
    { code: refused.code, "stderr includes mkdir '/srv/evidence'": refused.stderr.includes("mkdir '/srv/evidence'") },
    { code: 1, "stderr includes mkdir '/srv/evidence'": true },
    refused.stderr,
  );
  // A filter without the sockets of the internet: the same program cannot listen any more.
  const lonely = await run(
    ...restricted(unit.replace("AF_INET AF_INET6 ", ""), [
      "serve",
      "--data",
      "/var/lib/assay",
      "--listen",
      "127.0.0.1:0",
    ]),
  );
  assert.equal([lonely.code, /EAFNOSUPPORT/.test(lonely.stderr)], [1, true], lonely.stderr);
});

confined(
  "systemd can be told of the start: its program gets through the restrictions to the socket that it is given",
  async () => {
    const receiver = `perl -MIO::Socket::UNIX -MSocket -e '
    my $socket = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => "/run/assay/notify") or die; chmod 0777, "/run/assay/notify";
    alarm 20; for (1, 2) { $socket->recv(my $text, 100); print "$text\\n" }' &
    until test -S /run/assay/notify; do kill -0 $! || exit 97; done`;
    const [args, options] = restricted(
      ask(["systemd"]),
      ["NOTIFY_SOCKET=/run/assay/notify", "/usr/bin/systemd-notify", "--ready"],
      {},
      receiver,
    );
    const told = await run(args, { ...options, env: { ...options.env, EXECUTABLE: "/usr/bin/env" } });
    assert.equal(told, { code: 0, signal: null, stdout: "READY=1\nBARRIER=1\n", stderr: "" });
  },
);

// What MemoryDenyWriteExecute= does with a filter, newer kernels do on request (PR_SET_MDWE).
const denied = (command: string) =>
  spawnSync(
    "perl",
    ["-e", "syscall(157, 65, 1, 0, 0, 0) == 0 or exit 99; exec { $ARGV[0] } @ARGV", command, "version"],
    { env: { PATH }, encoding: "utf8" },
  );
const denies = denied("/bin/true").status === 0;
if (!denies) console.log("skipped: this kernel cannot deny writable memory to become executable, or perl is missing");
(denies ? test : test.skip)(
  "without memory that is written and then run it does not start: why the unit leaves MemoryDenyWriteExecute= out",
  () => {
    const { status, signal } = denied(EXECUTABLE);
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

/** The JSON list or the words behind an instruction of a Dockerfile. */
const instruction = (dockerfile: string, name: string): string =>
  new RegExp(`^${name} (.*)$`, "m").exec(dockerfile.replaceAll("\\\n", ""))?.[1] ?? "";

confined("the image: its files are all that the server needs, read-only, as its user, and its health check tells", () =>
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

    // What an engine adds: mount points, /proc, /dev and the volume, with the owner that COPY --chown gives it.
    for (const name of ["proc", "dev", "data"]) mkdirSync(join(image, "root", name));
    const script = `cd "$IMAGE/root" && mount --make-rprivate / && mount --bind . . && cd "$IMAGE/root" && mount -t tmpfs -o uid=${user},gid=${user},mode=700 tmpfs data &&
      mount -t proc proc proc && mount --bind /dev dev && mount -o remount,bind,ro . &&
      exec env -i ${Object.entries(variables)
        .map(([name, value]) => `${name}=${value}`)
        .join(" ")} "$(command -v chroot)" --userspec=${user}:${user} --groups= . "$@"`;
    const chroot = (words: readonly string[]): Parameters<typeof start> => [
      ["-m", "sh", "-c", script, "sh", ...words],
      { executable: "/usr/bin/unshare", env: { PATH, IMAGE: image } },
    ];

    const absent = await run(...chroot(check));
    assert.equal({ code: absent.code, stdout: absent.stdout }, { code: 1, stdout: "" });
    assert.match(absent.stderr, `assay: not ready: http://127.0.0.1:${port}/ready: connect ECONNREFUSED`);
    const server = await start(...chroot(command));
    assert.equal(
      { uid: statSync(`/proc/${server.pid}`).uid, "url endsWith": server.url.endsWith(`:${port}`) },
      { uid: Number(user), "url endsWith": true },
    );
    const healthy = await run(...chroot(check));
    assert.equal(
      { code: healthy.code, stdout: healthy.stdout, stderr: healthy.stderr },
      { code: 0, stdout: "ready\n", stderr: "" },
    );
    assert.equal(await server.stop(), { code: 0, signal: null }, server.output());
  }),
);

test("a release has the executable, what it prints, and checksums of all of it", async () => {
  const executable = readFileSync(EXECUTABLE);
  const files = new Map(releaseFiles(ROOT, executable, ask).map((file) => [file.path, file]));
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

  // Links lead to what is there.
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

test("what the executable says of its parts is so", async () => {
  const { components } = JSON.parse(ask(["sbom"])) as {
    components: { name: string; version: string; components?: { name: string; version: string }[] }[];
  };
  const version = JSON.parse(ask(["version", "--json"])) as { node: string; sqlite: string };
  const named = (name: string) => components.find((component) => component.name === name);
  assert.is(`v${named("node")?.version}`, version.node);
  assert.is(named("better-sqlite3")?.components?.[0]?.version, version.sqlite);
  const texts = ask(["licenses"]);
  for (const heading of [
    "==> koa@",
    "==> better-sqlite3@13.2.0/sqlite@",
    "==> jq-wasm@1.0.1/oniguruma <==",
    "==> node@",
  ])
    assert.match(texts, heading);
});

test.run();
