// Sends requests one after the other and measures how long the server itself took: the time in its log line, from the
// head of the request to the end of the response.
import { readFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { KEY } from "./world.ts";

export type Answer = {
  id: string;
  ms: number;
  bytes: number;
  body: Buffer;
  headers: Record<string, string | string[] | undefined>;
};
/** Milliseconds, and the bytes of the last response. `server` is the median. */
export type Times = {
  server: number;
  p99: number;
  client: number;
  least: number;
  most: number;
  count: number;
  bytes: number;
};
export type Ask = (
  method: string,
  path: string,
  body?: Buffer | object | null,
  expect?: number | readonly number[],
) => Promise<Answer>;
export type Timed = (answers: readonly Answer[]) => Promise<Times>;

export const quantile = (sorted: readonly number[], q: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN;
export const sort = (values: readonly number[]): number[] => [...values].sort((a, b) => a - b);
export const median = (values: readonly number[]): number => quantile(sort(values), 0.5);

/**
 * Sends requests with an id, by which their log lines are found.
 * @param options.root what all paths begin with
 * @param options.headers how the requests authenticate
 * @throws Error with the first unexpected response
 */
export function createAsk(
  url: string,
  { root = "/api/v2", headers: own = { Authorization: `Bearer ${KEY}` } as Record<string, string> } = {},
): Ask {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  let count = 0;
  return function ask(method, path, body = null, expect = 200) {
    const bytes = body === null ? null : Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body));
    const id = `bench-${(count += 1)}`;
    const headers = {
      ...own,
      "X-Request-ID": id,
      ...(bytes === null ? {} : { "Content-Type": "application/json", "Content-Length": bytes.length }),
    };
    return new Promise((resolve, reject) => {
      const startedAt = performance.now();
      const sent = request(`${url}${root}${path}`, { method, headers, agent }, (response) => {
        const chunks: Buffer[] = [];
        response.on("error", reject);
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("end", () => {
          const took = performance.now() - startedAt;
          const answer = Buffer.concat(chunks);
          if (![expect].flat().includes(response.statusCode ?? 0))
            reject(
              new Error(`${method} ${path} was answered ${response.statusCode}: ${answer.toString("utf8", 0, 2000)}`),
            );
          resolve({ id, ms: took, bytes: answer.length, body: answer, headers: response.headers });
        });
      });
      // A connection that was idle for seconds may be closed by the server just when it is reused.
      sent.on("error", (error: NodeJS.ErrnoException) =>
        sent.reusedSocket && error.code === "ECONNRESET" ? resolve(ask(method, path, body, expect)) : reject(error),
      );
      sent.end(bytes);
    });
  };
}

/** Finds the server's own times; the log is written a moment after the response. */
export function createTimed(log: string): Timed {
  return async (answers) => {
    const wanted = new Map(answers.map(({ id }) => [id, Number.NaN]));
    for (let attempt = 0; attempt < 50 && [...wanted.values()].some(Number.isNaN); attempt += 1) {
      await sleep(100);
      for (const [, duration, id] of readFileSync(log, "utf8").matchAll(
        /"duration_ms":([\d.]+).*?"request_id":"(bench-\d+)"/g,
      ))
        if (wanted.has(id as string)) wanted.set(id as string, Number(duration));
    }
    const server = sort([...wanted.values()]);
    return {
      server: quantile(server, 0.5),
      p99: quantile(server, 0.99),
      least: server[0] ?? Number.NaN,
      most: server.at(-1) ?? Number.NaN,
      count: server.length,
      client: median(answers.map((answer) => answer.ms)),
      bytes: answers.at(-1)?.bytes ?? 0,
    };
  };
}
