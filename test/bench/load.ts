// The load driver: HTTP/1.1 over raw sockets with keep-alive, one request at a time on each. Node's own client costs
// about as much per request as the measured servers, and would dominate on a machine with two cores; this one only
// looks for the end of each response. It supports responses with Content-Length, which is all that the measured
// operations return.
import { connect } from "node:net";
import type { Socket } from "node:net";

/** A measurement: where to send, over how many sockets, and what. */
export type Load = {
  /** For instance `http://127.0.0.1:41233`. */
  url: string;
  connections: number;
  /** The bytes of request number n, null when there are no more. Called in the order of sending. */
  next(n: number): Buffer | null;
  /** The expected status. */
  expect: number;
};

export type Outcome = {
  requests: number;
  seconds: number;
  perSecond: number;
  /** Milliseconds from the first byte sent to the last byte received: median and 99th percentile. */
  p50: number;
  p99: number;
  /** That time of every request, in milliseconds, sorted. */
  times: readonly number[];
  /** The share of one core that this process used, 0 to 1. */
  driver: number;
};

/** Sends until `next` returns null, or for `seconds`. @throws Error with the first response of another status */
export async function drive(load: Load, seconds = Number.POSITIVE_INFINITY): Promise<Outcome> {
  const times: number[] = [];
  let sent = 0;
  const cpu = process.cpuUsage();
  const startedAt = performance.now();
  const deadline = startedAt + seconds * 1000;
  const next = (): Buffer | null => (performance.now() < deadline ? load.next(sent++) : null);
  await Promise.all(Array.from({ length: load.connections }, () => converse(load, next, times)));
  const elapsed = (performance.now() - startedAt) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  times.sort((a, b) => a - b);
  const quantile = (q: number): number => times[Math.min(times.length - 1, Math.floor(times.length * q))] ?? Number.NaN;
  return {
    requests: times.length,
    seconds: elapsed,
    perSecond: times.length / elapsed,
    p50: quantile(0.5),
    p99: quantile(0.99),
    times,
    driver: (user + system) / 1e6 / elapsed,
  };
}

/** One socket: request, response, request, response, until there are no more. */
function converse({ url, expect }: Load, next: () => Buffer | null, times: number[]): Promise<void> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    let started = 0;
    let waiting: Buffer | null = null;
    let end = 0;
    const socket: Socket = connect({ host: hostname, port: Number(port), noDelay: true }, send);
    function send(): void {
      const request = next();
      if (request === null) {
        socket.destroy();
        resolve();
        return;
      }
      started = performance.now();
      socket.write(request);
    }
    const fail = (why: string): void => {
      socket.destroy();
      reject(new Error(`${url}: ${why}`));
    };
    socket.on("data", (chunk) => {
      const answer = waiting === null ? chunk : Buffer.concat([waiting, chunk]);
      if (end === 0) {
        const head = answer.indexOf("\r\n\r\n");
        if (head === -1) {
          waiting = answer;
          return;
        }
        const length = /\r\ncontent-length: (\d+)/i.exec(answer.toString("latin1", 0, head + 2))?.[1];
        if (length === undefined) return fail(`no Content-Length in ${answer.toString("latin1", 0, head)}`);
        end = head + 4 + Number(length);
      }
      if (answer.length < end) {
        waiting = answer;
        return;
      }
      if (answer.toString("latin1", 9, 12) !== String(expect)) return fail(answer.toString("utf8", 0, 2000));
      times.push(performance.now() - started);
      waiting = null;
      end = 0;
      send();
    });
    socket.on("error", reject);
    socket.on("close", () => reject(new Error(`${url}: the connection was closed`)));
  });
}

/** The bytes of a GET. */
export const get = (path: string, key: string): Buffer =>
  Buffer.from(`GET ${path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ${key}\r\n\r\n`);

const BOUNDARY = "----------------bench4d5f0c2a9b";

/** The bytes of a multipart request: the JSON as a field, the file, if any, as a part with a filename. */
export function sendForm(
  method: "POST" | "PUT",
  path: string,
  key: string,
  json: { field: string; value: unknown },
  file: { field: string; content: Buffer | string } | null = null,
): Buffer {
  const disposition = `--${BOUNDARY}\r\nContent-Disposition: form-data`;
  const head = `${disposition}; name="${json.field}"\r\n\r\n${JSON.stringify(json.value)}\r\n`;
  const fileHead =
    file &&
    `${disposition}; name="${file.field}"; filename="evidence.bin"\r\n` +
      "Content-Type: application/octet-stream\r\n\r\n";
  const parts = [Buffer.from(head)];
  if (file && fileHead) parts.push(Buffer.from(fileHead), Buffer.from(file.content), Buffer.from("\r\n"));
  parts.push(Buffer.from(`--${BOUNDARY}--\r\n`));
  return sendBody(method, path, key, `multipart/form-data; boundary=${BOUNDARY}`, Buffer.concat(parts));
}

/** The bytes of a request with a JSON body. */
export const sendJson = (method: "POST" | "PUT", path: string, key: string, value: unknown): Buffer =>
  sendBody(method, path, key, "application/json", Buffer.from(JSON.stringify(value)));

function sendBody(method: string, path: string, key: string, type: string, body: Buffer): Buffer {
  const head =
    `${method} ${path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ${key}\r\n` +
    `Content-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), body]);
}
