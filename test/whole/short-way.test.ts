/** The short way of a request (src/http/short-way.ts) and the long one give the same answers, byte by byte. */
import { connect } from "node:net";
import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { operations } from "../../src/api/index.ts";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { faultFor } from "./faults.ts";
import { valid, write } from "./requests.ts";
import type { Draft } from "./requests.ts";
import { createWorld } from "./world.ts";
import type { World } from "./world.ts";

const test = suite("whole/short-way");

/** Requests for each operation, of which every third has a fault. */
const RUNS = 6;

let world: World;
let ways: readonly [TestServer, TestServer];
test.before(async () => {
  world = await createWorld();
  const start = (allTheLongWay: boolean) =>
    startServer({
      from: world.image,
      allTheLongWay,
      newId: (now) => now.toString(16).padStart(28, "0"),
    });
  ways = [await start(false), await start(true)];
});
test.after(async () => {
  for (const server of ways) await server.stop();
  await world.stop();
});

/** The bytes of a request, with an id and a closing connection. */
function bytesOf(draft: Draft, id: string, variant: ReturnType<typeof vary>): Buffer {
  const { target, headers, body, ...written } = write(draft, world);
  const method = variant.method ?? written.method;
  const common = { Host: "assay.test", "X-Request-ID": id, Connection: "close", "Accept-Encoding": "gzip" };
  const all = { ...common, ...headers, ...variant.headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  const head = Buffer.from(`${method} ${target} HTTP/1.1\r\n${lines.join("")}\r\n`, "latin1");
  return body ? Buffer.concat([head, body]) : head;
}

/** Everything that a server sends for a request, until it closes the connection, without the date. */
function exchange(server: TestServer, bytes: Buffer): Promise<string> {
  const { hostname, port } = new URL(server.url);
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = connect({ host: hostname, port: Number(port) }, () => socket.write(bytes));
    socket.on("data", (chunk) => chunks.push(chunk));
    socket.on("end", () =>
      resolve(
        Buffer.concat(chunks)
          .toString("latin1")
          .replace(/\r\nDate: [^\r]*/, ""),
      ),
    );
    socket.on("error", reject);
  });
}

/** The log lines of a request, without what differs between two runs. */
const linesOf = (server: TestServer, id: string): unknown[] =>
  server.lines
    // Each of the two has a directory of its own, which errors of the system name.
    .map((line) => JSON.parse(line.replace(/assay-test-\w+/g, "assay-test")) as Record<string, unknown>)
    .filter((line) => line["request_id"] === id)
    .map(({ time: _time, duration_ms: _duration, ...line }) => line)
    // On a busy machine one of the two may be slow.
    .map((line) => (line["msg"] === "slow request" ? { ...line, level: "info", msg: "request" } : line));

/** Parts of answers that differ between two runs of one server: random ids, secrets and what is made of them. */
const NEVER_THE_SAME = new Set([
  "get_audit_package",
  "download_trail_audit_package",
  "download_trail_audit_pdf",
  "download_audit_binder",
]);
const withoutRandomness = (text: string): string =>
  text.replace(/"(?:key|secret|api_key|value|new_key)":"[\w-]{43}"/g, '"secret"').replace(/[\w-]{43}/g, "secret-of-43");

/** Variants of a read: without its body, with a current copy, and of a few bytes. */
function vary(draft: Draft, n: number): { method?: string; headers: Record<string, string> } {
  if (draft.operation.method !== "GET") return { headers: {} };
  if (n === 3) return { method: "HEAD", headers: {} };
  if (n === 4) return { headers: { "If-None-Match": "*" } };
  return { headers: n === 1 ? { Range: "bytes=1-3" } : {} };
}

for (const operation of operations.filter(({ status }) => status !== "removed"))
  test(operation.id, async () => {
    const drafts = fc.sample(valid(operation, world), { seed: 21, numRuns: RUNS });
    const faults = fc.sample(
      faultFor({
        takesBody: operation.body.kind !== "none",
        takesQuery: Object.keys(operation.query.properties).length > 0,
      }),
      { seed: 4, numRuns: RUNS },
    );
    for (const [n, draft] of drafts.entries()) {
      const sent = n % 3 === 2 ? (faults[n]?.(draft) ?? draft) : draft;
      const id = `${operation.id}-${n}`;
      const bytes = bytesOf(sent, id, vary(draft, n));
      const answers: string[] = [];
      for (const server of ways) {
        answers.push(withoutRandomness(await exchange(server, bytes)));
        await server.settled();
      }
      const [short, long] = answers;
      if (!NEVER_THE_SAME.has(operation.id)) assert.is(short, long, bytes.toString("latin1").slice(0, 2000));
      assert.equal(linesOf(ways[0], id), linesOf(ways[1], id));
    }
  });

test.run();
