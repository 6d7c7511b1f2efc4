/** Requests that a client sends ahead on one connection. */
import { createServer } from "node:http";
import type { RequestListener, Server } from "node:http";
import { connect } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { serveOneByOne } from "../../src/server/one-by-one.ts";
import { until } from "../patience.ts";

const test = suite("server/one-by-one");
const servers: Server[] = [];
test.after.each(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Opens a connection to a server with that listener. */
async function dialServer(handle: RequestListener, maxWaiting?: number) {
  const server = createServer(serveOneByOne(handle, maxWaiting === undefined ? {} : { maxWaiting }));
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const dial = (): Socket => {
    const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
    return socket.on("error", () => undefined);
  };
  return { dial, socket: dial() };
}

const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;
const range = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

test("answers thousands in order, and lets others in between", async () => {
  const COUNT = 5_000;
  let [running, most, turns] = [0, 0, 0];
  const { socket } = await dialServer((request, response) => {
    running += 1;
    most = Math.max(most, running);
    response.once("close", () => (running -= 1));
    response.end(`[${request.url}]`);
  });
  let isOver = false;
  void (async () => {
    while (!isOver) {
      await turn();
      turns += 1;
    }
  })();
  let received = "";
  socket.on("data", (bytes: Buffer) => (received += bytes.toString()));
  socket.write(
    range(COUNT)
      .map((n) => get(`/${n}`))
      .join(""),
  );
  await until("the last answer came", () => received.endsWith(`[/${COUNT - 1}]`));
  isOver = true;
  assert.equal(
    [...received.matchAll(/\[\/(\d+)\]/g)].map(([, n]) => Number(n)),
    range(COUNT),
  );
  assert.is(most, 1);
  assert.ok(turns >= COUNT - 10, `${turns} turns of the event loop`);
  socket.destroy();
});

test("a client that does not read is not served, nor read, any further", async () => {
  let served = 0;
  const body = Buffer.alloc(1 << 20);
  const { socket } = await dialServer((_, response) => {
    served += 1;
    response.end(body);
  });
  // Far more than the buffers of the sockets hold.
  let written = 0;
  let isFull = false;
  const requests = Buffer.from(get("/").repeat(10_000));
  for (let n = 0; n < 200 && !isFull; n += 1) {
    isFull = await new Promise<boolean>((resolve) => {
      const timer = setTimeout(() => resolve(true), 500);
      socket.write(requests, () => {
        clearTimeout(timer);
        resolve(false);
      });
    });
    if (!isFull) written += requests.length;
  }
  assert.ok(isFull, `the server took ${written} bytes of requests`);
  assert.ok(served < 50, `${served} requests were served`);
  socket.destroy();
});

test("serves a body that was sent ahead", async () => {
  const { socket } = await dialServer((request, response) => {
    let size = 0;
    request.on("data", (bytes: Buffer) => (size += bytes.length)).on("end", () => response.end(`[${size}]`));
  });
  let received = "";
  socket.on("data", (bytes: Buffer) => (received += bytes.toString()));
  const post = (size: number): string =>
    `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${size}\r\n\r\n${"x".repeat(size)}`;
  const sizes = [10, 300_000, 0, 1_000_000, 7];
  socket.write(sizes.map(post).join(""));
  await until("the last answer came", () => received.includes("[7]"));
  assert.equal(
    [...received.matchAll(/\[(\d+)\]/g)].map(([, size]) => Number(size)),
    sizes,
  );
  socket.destroy();
});

test("closes a connection that sends more than may wait, and keeps the others", async () => {
  const held: (() => void)[] = [];
  const { socket, dial } = await dialServer((_, response) => void held.push(() => response.end("done")), 10);
  let isClosed = false;
  socket.on("close", () => (isClosed = true)).resume();
  const other = dial();
  let received = "";
  other.on("data", (bytes: Buffer) => (received += bytes.toString()));
  other.write(get("/"));
  await until("one request is served", () => held.length === 1);
  socket.write(get("/").repeat(12));
  await until("the connection was closed", () => isClosed);
  other.write(get("/"));
  held[0]?.();
  await until("three requests are served", () => held.length === 3);
  held[2]?.();
  await until("both answers came", () => received.split("done").length === 3);
  other.destroy();
});

test.run();
