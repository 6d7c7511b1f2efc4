/** Sends reads to the packaged executable as reads.ts says, and reports what went wrong. */
import { request as send } from "node:http";
import type { ClientRequest } from "node:http";
import { MALLOC_SETTINGS } from "../../src/cli/malloc.ts";
import { EXECUTABLE, start } from "../binary/executable.ts";
import { giveUpAfter } from "../patience.ts";
import type { Running } from "../binary/executable.ts";
import type { MemoryGroup } from "./cgroup.ts";
import type { LargeWorld, Read } from "./large-world.ts";
import { startProber } from "./prober.ts";

/** How long one read may take, in parallel with others, and how long those that are not read may take to begin. */
const MAX_READ_S = 120;
const MAX_BEGIN_S = 5;
/** How long the budget may take to be empty after all connections were closed. */
const MAX_RELEASE_S = 30;

export type Attacked = { data: string; keys: LargeWorld["keys"]; group: MemoryGroup };

type Plan = {
  reads: readonly Read[];
  /** How often each is sent by a client that does not read, and in parallel by one that does. */
  unread: number;
  parallel: number;
  /** How long `/readyz` may take, in milliseconds. */
  maxReadyMs: number;
  print(line: string): void;
};

export async function attackReads(attacked: Attacked, plan: Plan): Promise<{ problems: string[]; summary: string }> {
  const { group } = attacked;
  const problems: string[] = [];
  const counts = new Map<string, number>();
  let server = await startLimited(attacked);
  let prober = startProber({ url: `${server.url}/readyz`, pid: server.pid });
  let slowest = 0;
  for (const read of plan.reads) {
    const startedAt = performance.now();
    const name = describeRead(read);
    const found = await attackWith(server, attacked, { read, plan });
    for (const status of found.statuses) counts.set(status, (counts.get(status) ?? 0) + 1);
    const ready = await prober.slowest();
    slowest = Math.max(slowest, ready);
    problems.push(...found.problems);
    if (ready > plan.maxReadyMs) problems.push(`${name}: /readyz took ${ready.toFixed(0)} ms`);
    const ended = await hasEnded(server);
    const took = performance.now() - startedAt;
    plan.print(
      `${name}: ${countsText(found.statuses)}; ready ${ready.toFixed(0)} ms, at most ` +
        `${mb(group.peak())} MB so far, ${took.toFixed(0)} ms${ended ? `; DIED: ${ended}` : ""}`,
    );
    if (!ended) continue;
    problems.push(`${name}: the server ended: ${ended}\n${server.output().slice(-600)}`);
    await prober.stop();
    server = await startLimited(attacked);
    prober = startProber({ url: `${server.url}/readyz`, pid: server.pid });
  }
  await prober.stop();
  const held = await readHeldBytes(server);
  if (held !== 0) problems.push(`afterwards ${held} bytes of the memory budget are still held`);
  const peak = mb(group.peak());
  await server.stop();
  const answers = [...counts].map(([status, count]) => `${count} x ${status}`).join(", ");
  return { problems, summary: `at most ${peak} MB, /readyz within ${slowest.toFixed(0)} ms, answers ${answers}` };
}

/** With the beginning of the body, which names the change that is previewed. */
export const describeRead = ({ operation, path, body = "" }: Read): string =>
  [operation, path, body.slice(0, 80)].filter(Boolean).join(" ");

const mb = (bytes: number | null): string => (bytes === null ? "?" : (bytes / 1_048_576).toFixed(0));

function countsText(statuses: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const status of statuses) counts.set(status, (counts.get(status) ?? 0) + 1);
  return [...counts].map(([status, count]) => `${count} x ${status}`).join(", ");
}

const METRICS_KEY = "attack-metrics-0123456789";

/** The shell enters the group and then becomes the server, so that all of its memory is counted. */
export const startLimited = ({ data, group }: Attacked): Promise<Running> =>
  start(
    [
      ...["-c", `echo $$ > "$0" && exec "$@"`, group.entry, EXECUTABLE, "serve", "--data", data],
      ...["--listen", "127.0.0.1:0", "--log-level", "error"],
    ],
    { executable: "/bin/sh", env: { ...MALLOC_SETTINGS, ASSAY_METRICS_KEY: METRICS_KEY } },
  );

/** How the process ended; null while it runs. */
export async function hasEnded(server: Running): Promise<string | null> {
  const running = new Promise<null>((resolve) => setTimeout(resolve, 20, null));
  const exit = await Promise.race([server.exited, running]);
  return exit && (exit.signal ?? `exit code ${exit.code}`);
}

async function attackWith(
  server: Running,
  { keys }: Attacked,
  { read, plan }: { read: Read; plan: Plan },
): Promise<{ problems: string[]; statuses: string[] }> {
  const url = `${server.url}/api/v2${read.path}`;
  const { body } = read;
  const whole = { url, key: keys.admin, body };
  const key = body === undefined ? keys.reader : keys.admin;
  const unread = Array.from({ length: plan.unread }, () => openUnread({ url, key, body }));
  await Promise.race([
    Promise.all(unread.map(({ began }) => began)),
    new Promise<void>((resolve) => void giveUpAfter(MAX_BEGIN_S, () => resolve())),
  ]);
  const answers = await Promise.all(Array.from({ length: plan.parallel }, () => readWhole(whole)));
  for (const { request } of unread) request.destroy();
  const valid = new Set(["200", "429", BUSY]);
  // What a read on its own gets, such as the 404 of something that does not exist here, it may get in a crowd, too.
  if (body === undefined && answers.some((status) => !valid.has(status))) valid.add(await readWhole(whole));
  const wrong = answers.filter((status) => !valid.has(status) || status === "broken" || status === "500");
  return {
    problems: [...new Set(wrong)].map((status) => `${describeRead(read)}: answered ${status}`),
    statuses: answers,
  };
}

/** A request: a POST with `body`, which is JSON, else a GET. */
type Asked = { url: string; key: string; body?: string | undefined };

function open({ url, key, body }: Asked): ClientRequest {
  const headers = { Authorization: `Bearer ${key}` };
  if (body === undefined) return send(url, { agent: false, headers });
  return send(url, { method: "POST", agent: false, headers: { ...headers, "Content-Type": "application/json" } });
}

/** Asks without reading more than one buffer. `began`: the first bytes arrived, or the connection ended. */
export function openUnread(asked: Asked): { request: ClientRequest; began: Promise<void> } {
  const request = open(asked);
  const began = new Promise<void>((resolve) => {
    request.once("response", () => resolve()).once("error", () => resolve());
  });
  request.on("error", () => undefined);
  request.end(asked.body);
  return { request, began };
}

/** The status of a server that has too much to do and says when to ask again. */
const BUSY = "503 with Retry-After";

/** The status of an answer that is read to its end; `broken` if the connection ended before that, or too late. */
function readWhole(asked: Asked): Promise<string> {
  return new Promise((resolve) => {
    const request = open(asked);
    const stopWaiting = giveUpAfter(MAX_READ_S, () => request.destroy());
    const settle = (status: string): void => {
      stopWaiting();
      resolve(status);
    };
    request.once("response", (response) => {
      response.resume();
      const { statusCode, headers } = response;
      const status = statusCode === 503 && headers["retry-after"] !== undefined ? BUSY : String(statusCode);
      response.once("close", () => settle(response.complete ? status : "broken"));
      response.on("error", () => undefined);
    });
    request.once("error", () => settle("broken"));
    request.end(asked.body);
  });
}

/** Bytes of the budget in use, once it is empty, or after a while. */
export async function readHeldBytes(server: Running): Promise<number> {
  let isOver = false;
  const stopWaiting = giveUpAfter(MAX_RELEASE_S, () => (isOver = true));
  for (;;) {
    const text = await fetch(`${server.url}/metrics`, { headers: { Authorization: `Bearer ${METRICS_KEY}` } }).then(
      (answer) => answer.text(),
    );
    const values = [...text.matchAll(/^assay_memory_budget_held_bytes\{.*\} (\d+)$/gm)].map(([, value]) =>
      Number(value),
    );
    const held = values.length === 3 ? values.reduce((sum, value) => sum + value, 0) : Number.NaN;
    if (held === 0 || isOver) {
      stopWaiting();
      return held;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
