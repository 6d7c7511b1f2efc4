/** systemd's socket activation and notifications. Its own programs are used where they are installed. */
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

test("only the intended process takes inherited sockets", () => {
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

test("no child process gets systemd's variables from the environment", () =>
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
    assert.is((await server.stop()).code, 0, "an unanswered notification does not delay the stop");
  }));

const logTo = (lines: string[]) =>
  createLogger({ level: "info", destination: { write: (line) => void lines.push(line) } });

/** Uses a fake systemd-notify: a shell script with `body`. */
function withProgram(body: string, use: (program: string, directory: string) => Promise<void>): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "assay-notify-"));
  const program = join(directory, "notify");
  writeFileSync(program, `#!/bin/sh\n${body}\n`);
  chmodSync(program, 0o755);
  return use(program, directory).finally(() => rmSync(directory, { recursive: true, force: true }));
}

test("starts systemd-notify with the state, the process id, and only the socket in its environment", () =>
  withProgram(
    'printf "%s|" "$@" >>"$(dirname "$0")/calls"; env >>"$(dirname "$0")/env"',
    async (program, directory) => {
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
      await notifier.flushed();
      const calls = spawnSync("cat", [join(directory, "calls")], { encoding: "utf8" }).stdout.replace(
        /USEC=\d+/,
        "USEC=n",
      );
      assert.is(
        calls,
        "--pid=42|READY=1|STATUS=listening on a; " +
          "$(reboot)|--pid=42|RELOADING=1|MONOTONIC_USEC=n|--pid=42|READY=1|STATUS=again|--pid=42|STOPPING=1|" +
          "STATUS=stopping: waiting for running requests|",
      );
      const env = spawnSync("cat", [join(directory, "env")], { encoding: "utf8" }).stdout;
      assert.match(env, "NOTIFY_SOCKET=/run/x");
      assert.not.match(env, "HOME=");
      assert.equal(lines, []);
    },
  ));

test("logs a missing or failing program, and the server continues", () =>
  withProgram("echo no >&2; exit 1", async (program, directory) => {
    const lines: string[] = [];
    const without = createSdNotifier({
      socket: "/run/x",
      pid: 42,
      logger: logTo(lines),
      programs: [join(directory, "missing")],
    });
    without.ready("x");
    await without.flushed();
    assert.match(lines.join(), '"level":"warn"');
    assert.match(
      lines.join(),
      "systemd-notify is not installed: systemd waits for a start notification that cannot be sent",
    );
    const failing = createSdNotifier({ socket: "/run/x", pid: 42, logger: logTo(lines), programs: [program] });
    failing.ready("x");
    await failing.flushed();
    assert.match(lines.at(-1) ?? "", "systemd could not be notified; the server continues");
    const before = lines.length;
    failing.reloading();
    failing.stopping();
    await failing.flushed();
    assert.is(lines.length, before, "systemd ends systemd-notify together with a server that it stops");
    const silent = createSdNotifier({
      socket: undefined,
      pid: 42,
      logger: logTo(lines),
      programs: [join(directory, "missing")],
    });
    silent.ready("x");
    await silent.flushed();
    assert.is(lines.length, 2, "without systemd there is no notification, and no warning");
  }));

if (!canReceive)
  console.log("skipped: notifying a real socket needs /usr/bin/systemd-notify and python3, which are not installed");
const withSystemd = canReceive ? test : test.skip;

withSystemd("a server notifies a real socket of its start, reload and stop, in this order", () =>
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
        [pid, "STATUS=stopping: waiting for running requests", "STOPPING=1"],
      ]);
    } finally {
      receiver.stop();
    }
  }),
);

test.run();
