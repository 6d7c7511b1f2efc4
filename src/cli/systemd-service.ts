/** A systemd service, as `systemctl` shows and changes it. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { CommandError, EXIT } from "./framework.ts";

/** `name` ends in ".service". `sockets` are active units that start the service when a client connects. */
export type Service = {
  name: string;
  /** Whether it runs, or systemd is about to start it again. */
  isActive: boolean;
  /** Whether it runs and, if its type lets it say so, is ready. */
  isReady: boolean;
  /** Whether its user exists only while it runs. */
  hasDynamicUser: boolean;
  /** The user of the unit; null for root. */
  user: string | null;
  mainPid: number | null;
  sockets: readonly string[];
};

const NAME = /^[A-Za-z0-9:_@.-]{1,200}$/;
const PROPERTIES = ["LoadState", "ActiveState", "MainPID", "User", "DynamicUser", "TriggeredBy"];

/** A problem of the name of a unit; null for a name that systemd takes. */
export const describeServiceNameProblem = (name: string): string | null =>
  NAME.test(name) ? null : `--service: ${JSON.stringify(name.slice(0, 100))} is not the name of a unit`;

/** @param name with or without ".service" @throws CommandError where there is no such unit, or no systemd */
export async function readService(name: string): Promise<Service> {
  const unit = name.endsWith(".service") ? name : `${name}.service`;
  const text = await runSystemctl(["show", `--property=${PROPERTIES.join(",")}`, unit]);
  const values = new Map(text.split("\n").map((line) => line.split(/=(.*)/s, 2) as [string, string]));
  const stateOf = (property: string): string => values.get(property) ?? "";
  if (stateOf("LoadState") !== "loaded")
    throw new CommandError(
      `there is no unit ${unit} that can be started (systemctl says ${stateOf("LoadState") || "nothing"}): ` +
        "--service takes the name of the service that serves the directory",
    );
  return {
    name: unit,
    isActive: ["active", "activating", "reloading"].includes(stateOf("ActiveState")),
    isReady: ["active", "reloading"].includes(stateOf("ActiveState")),
    hasDynamicUser: stateOf("DynamicUser") === "yes",
    user: stateOf("User") || null,
    mainPid: Number(stateOf("MainPID")) || null,
    sockets: await listActive(
      stateOf("TriggeredBy")
        .split(" ")
        .filter((one) => one.endsWith(".socket")),
    ),
  };
}

async function listActive(units: readonly string[]): Promise<string[]> {
  const active: string[] = [];
  for (const unit of units) {
    const state = await runSystemctl(["show", "--property=ActiveState", "--value", unit]);
    if (state.trim() === "active") active.push(unit);
  }
  return active;
}

/** Stops the service, and before it the sockets that would start it again. @throws CommandError */
export const stopService = async ({ name, sockets }: Service): Promise<unknown> =>
  runSystemctl(["stop"].concat(sockets, name));

/** Starts the sockets and the service; resolves once the service says that it is ready. @throws CommandError */
export async function startService({ name, sockets }: Service): Promise<void> {
  // A service that failed a few times in a row is not started before this.
  await runSystemctl(["reset-failed", name]).catch(() => undefined);
  await runSystemctl(["start"].concat(sockets, name));
}

/** Starts what was active when the service was read. @throws CommandError */
export async function resumeService(service: Service): Promise<void> {
  if (service.isActive) await startService(service);
  else if (service.sockets.length > 0) await runSystemctl(["start"].concat(service.sockets));
}

/** @returns what it prints @throws CommandError with what it says */
async function runSystemctl(words: readonly string[]): Promise<string> {
  try {
    // In a group of its own, because Ctrl-C is for the command that waits for it.
    const run = promisify(execFile)("systemctl", ["--no-pager", "--no-ask-password", ...words], {
      env: { ...process.env, LC_ALL: "C" },
    });
    return (await run).stdout;
  } catch (error) {
    const { code, stderr } = error as { code?: unknown; stderr?: string };
    if (code === "ENOENT") throw new CommandError("there is no systemctl: --service works with systemd only");
    const said = (stderr ?? "").trim().split("\n")[0] ?? "";
    throw new CommandError(`systemctl ${words.join(" ")} failed: ${said || String(code)}`, EXIT.failed);
  }
}
