/** What systemd hands over and is told. Its own programs are used where they are. */
import { spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createLogger } from "../../src/log.ts";
import { createSdNotifier, inheritedSockets } from "../../src/server/sd-notify.ts";
import { inDirectory, start } from "../cli/in-process.ts";
import { FIRST } from "./certificates.ts";
import { canReceive, startReceiver } from "./receiver.ts";

const test = suite("server/systemd");

test("sockets are taken only by the process that they are for", () => {
  assert.equal(inheritedSockets({ LISTEN_PID: "77", LISTEN_FDS: "1" }, 77), [{ fd: 3 }]);
  assert.equal(inheritedSockets({ LISTEN_PID: "77", LISTEN_FDS: "3" }, 77), [{ fd: 3 }, { fd: 4 }, { fd: 5 }]);
  for (const env of [
    {},
    { LISTEN_PID: "78", LISTEN_FDS: "1" },
    { LISTEN_FDS: "1" },
    { LISTEN_PID: "77" },
    { LISTEN_PID: "77", LISTEN_FDS: "0" },
    { LISTEN_PID: "77", LISTEN_FDS: "-1" },
    { LISTEN_PID: "77", LISTEN_FDS: "1.5" },
    { LISTEN_PID: "77", LISTEN_FDS: "999" },
    { LISTEN_PID: "77", LISTEN_FDS: "" },
    { LISTEN_PID: "077", LISTEN_FDS: "1" },
  ])
    assert.is(inheritedSockets(env, 77), null, JSON.stringify(env));
});

test("what systemd says in the environment is for the server alone: nothing that it starts believes in it", () =>
  inDirectory(async (data) => {
    const env = {
      LISTEN_PID: "1",
      LISTEN_FDS: "1",
      LISTEN_FDNAMES: "a",
      NOTIFY_SOCKET: join(data, "nobody"),
      ASSAY_LOG_LEVEL: "fatal",
    };
    const server = start(["serve", "--data", data, "--listen", "127.0.0.1:0"], { env });
    await server.wrote(/API reference/);
    assert.equal(server.env(), { ASSAY_LOG_LEVEL: "fatal" });
    assert.is((await server.stop()).code, 0, "a socket where nobody is does not hold up the end");
  }));

const logTo = (lines: string[]) =>
  createLogger({ level: "info", destination: { write: (line) => void lines.push(line) } });

/** A program in place of systemd-notify: a shell script with `body`. */
function withProgram(body: string, use: (program: string, directory: string) => Promise<void>): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "assay-notify-"));
  const program = join(directory, "notify");
  writeFileSync(program, `#!/bin/sh\n${body}\n`);
  chmodSync(program, 0o755);
  return use(program, directory).finally(() => rmSync(directory, { recursive: true, force: true }));
}

test("systemd-notify is started with the state, the number of the process and nothing of the environment but the socket", () =>
  withProgram('printf "%s|" "$@" >>"$(dirname "$0")/told"; env >>"$(dirname "$0")/env"', async (program, directory) => {
    const lines: string[] = [];
    const notifier = createSdNotifier({
      socket: "/run/x",
      pid: 42,
      logger: logTo(lines),
      programs: [join(directory, "missing"), program],
    });
    notifier.ready("listening on a; $(reboot)");
    notifier.reloading();
    notifier.ready("again");
    notifier.stopping();
    notifier.ready("too late");
    await notifier.told();
    const told = spawnSync("cat", [join(directory, "told")], { encoding: "utf8" }).stdout.replace(/USEC=\d+/, "USEC=n");
    assert.is(
      told,
      "--pid=42|READY=1|STATUS=listening on a; $(reboot)|--pid=42|RELOADING=1|MONOTONIC_USEC=n|--pid=42|READY=1|STATUS=again|--pid=42|STOPPING=1|STATUS=stopping: running requests may end|",
    );
    const env = spawnSync("cat", [join(directory, "env")], { encoding: "utf8" }).stdout;
    assert.match(env, "NOTIFY_SOCKET=/run/x");
    assert.not.match(env, "HOME=");
    assert.equal(lines, []);
  }));

test("without the program, or when it fails, the log says so and the server goes on", () =>
  withProgram("echo no >&2; exit 1", async (program, directory) => {
    const lines: string[] = [];
    const without = createSdNotifier({
      socket: "/run/x",
      pid: 42,
      logger: logTo(lines),
      programs: [join(directory, "missing")],
    });
    without.ready("x");
    await without.told();
    assert.match(lines.join(), '"level":"warn"');
    assert.match(lines.join(), "systemd waits to be told of the start, but systemd-notify is not here");
    const failing = createSdNotifier({ socket: "/run/x", pid: 42, logger: logTo(lines), programs: [program] });
    failing.ready("x");
    await failing.told();
    assert.match(lines.at(-1) ?? "", "systemd could not be told");
    const silent = createSdNotifier({
      socket: undefined,
      pid: 42,
      logger: logTo(lines),
      programs: [join(directory, "missing")],
    });
    silent.ready("x");
    await silent.told();
    assert.is(lines.length, 2, "outside of systemd nobody is told, and that is no warning");
  }));

if (!canReceive)
  console.log(
    "skipped: the whole way to a socket of systemd wants /usr/bin/systemd-notify and python3, which are not here",
  );
const withSystemd = canReceive ? test : test.skip;

withSystemd(
  "the whole way: a server tells its start, its reload and its end, in this order, through systemd-notify to a real socket",
  () =>
    inDirectory(async (directory) => {
      const path = join(directory, "notify.sock");
      const receiver = await startReceiver(path);
      try {
        writeFileSync(join(directory, "tls.crt"), FIRST.certificate);
        writeFileSync(join(directory, "tls.key"), FIRST.key, { mode: 0o600 });
        const tls = ["--tls-cert", join(directory, "tls.crt"), "--tls-key", join(directory, "tls.key")];
        const server = start(["serve", "--data", join(directory, "data"), "--listen", "127.0.0.1:0", ...tls], {
          env: { NOTIFY_SOCKET: path },
        });
        const url = /listening on (\S+)/.exec(await server.wrote(/API reference/))?.[1];
        await receiver.heard(1);
        server.signal("SIGHUP");
        await receiver.heard(3);
        assert.equal(await server.stop().then(({ code, err }) => [code, /"level":"(?:warn|error)"/.test(err)]), [
          0,
          false,
        ]);
        const pid = `MAINPID=${process.pid}`;
        assert.equal(receiver.messages(), [
          [pid, "READY=1", `STATUS=listening on ${url}`],
          [pid, "MONOTONIC_USEC=n", "RELOADING=1"],
          [pid, "READY=1", `STATUS=listening on ${url}`],
          [pid, "STATUS=stopping: running requests may end", "STOPPING=1"],
        ]);
      } finally {
        receiver.stop();
      }
    }),
);

test.run();
