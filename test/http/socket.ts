/** A client that can do everything wrong: it sends raw bytes and returns answers as they were sent. */
import { connect } from "node:net";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { TestServer } from "../given.ts";
import { until } from "../patience.ts";

export type RawAnswer = { status: number; headers: Record<string, string>; text: string; body: any };

export type Wire = Awaited<ReturnType<typeof dial>>;

/** Opens a connection to a server. Answers are read in order; reading one that cannot come any more rejects. */
export async function dial(url: string) {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  let received = Buffer.alloc(0);
  let over: string | null = null;
  let wake: () => void = () => undefined;
  socket.on("data", (chunk) => {
    received = Buffer.concat([received, chunk]);
    wake();
  });
  const ended = (why: string) => () => {
    over ??= why;
    wake();
  };
  socket
    .on("end", ended("closed"))
    .on("error", (error: Error & { code?: string }) => ended(error.code ?? "error")())
    .on("close", ended("closed"));
  // The end of the connection also wakes a sender that waits.
  let drained: () => void = () => undefined;
  socket.on("drain", () => drained()).on("close", () => drained());
  await new Promise<void>((resolve, reject) => socket.once("connect", resolve).once("error", reject));

  const wait = (): Promise<void> => new Promise((resolve) => (wake = resolve));

  function take(): RawAnswer | null {
    const end = received.indexOf("\r\n\r\n");
    if (end < 0) return null;
    const [first = "", ...lines] = received.subarray(0, end).toString("latin1").split("\r\n");
    const headers = Object.fromEntries(
      lines.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]),
    );
    const status = Number(first.split(" ")[1]);
    const length = status === 100 ? 0 : Number(headers["content-length"]);
    const start = end + 4;
    if (!(received.length >= start + length)) return null;
    const text = received.subarray(start, start + length).toString("utf8");
    received = received.subarray(start + length);
    return {
      status,
      headers,
      text,
      body: headers["content-type"]?.startsWith("application/json") ? JSON.parse(text) : null,
    };
  }

  return {
    socket,
    /** Queues bytes; resolves when there is room for more, or the connection has ended. */
    send(bytes: string | Buffer): Promise<void> {
      if (over !== null || socket.destroyed || socket.write(bytes)) return Promise.resolve();
      return new Promise((resolve) => (drained = resolve));
    },
    /** Half-closes: no more bytes will come. */
    finish: () => void socket.end(),
    /** Disconnects immediately. */
    vanish: () => void socket.destroy(),
    async answer(): Promise<RawAnswer> {
      for (;;) {
        const answer = take();
        if (answer) return answer;
        if (over !== null) throw new Error(`no answer: ${over}, with ${received.length} bytes received`);
        await wait();
      }
    },
    /** Resolves with `closed`, or the error's code, when the connection has ended. */
    async closed(): Promise<string> {
      while (over === null) await wait();
      socket.destroy();
      return over;
    },
    isOver: (): boolean => over !== null,
  };
}

/** Head of a request below the API root; a path with `//` starts at the host root. */
export function head(method: string, path: string, headers: Record<string, string | number>): string {
  const lines = Object.entries({ Host: "assay.test", ...headers }).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${path.startsWith("//") ? path.slice(1) : `/api/v2${path}`} HTTP/1.1\r\n${lines.join("")}\r\n`;
}

/** One request over a connection of its own. */
export async function exchange(url: string, bytes: string | Buffer): Promise<RawAnswer> {
  const wire = await dial(url);
  try {
    await wire.send(bytes);
    return await wire.answer();
  } finally {
    wire.vanish();
  }
}

export const chunk = (bytes: string | Buffer): Buffer =>
  Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), Buffer.from(bytes), Buffer.from("\r\n")]);

export const BOUNDARY = "----assay-test-boundary";

/** One part of a form, from raw header lines and content. */
export const part = (lines: string, content: string | Buffer): Buffer =>
  Buffer.concat([Buffer.from(`--${BOUNDARY}\r\n${lines}\r\n\r\n`), Buffer.from(content), Buffer.from("\r\n")]);
export const field = (name: string, content: string | Buffer, more = ""): Buffer =>
  part(`Content-Disposition: form-data; name="${name}"${more}`, content);
export const file = (name: string, filename: string, content: string | Buffer): Buffer =>
  part(
    `Content-Disposition: form-data; name="${name}"; filename="${filename}"\r\nContent-Type: application/octet-stream`,
    content,
  );
export const CLOSING = Buffer.from(`--${BOUNDARY}--\r\n`);

/** A statement that counts the rows of every table. */
const countStatements = new WeakMap<TestServer["db"], { get(): unknown }>();
function countRows({ db }: TestServer): Record<string, number> {
  let statement = countStatements.get(db);
  if (!statement) {
    const tables = db
      .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
      .pluck()
      .all() as string[];
    statement = db.prepare(`SELECT ${tables.map((table) => `(SELECT count(*) FROM ${table}) AS ${table}`).join(", ")}`);
    countStatements.set(db, statement);
  }
  return statement.get() as Record<string, number>;
}

/** What a server has stored: rows of every table, and staged files. */
export const holdingsWithoutEvidence = (server: TestServer) => ({
  rows: countRows(server),
  staging: readdirSync(join(server.directory, "staging")).sort(),
});

/** As above, with the evidence files, whose 256 directories take milliseconds. */
export function holdings(server: TestServer) {
  const files = (name: string): string[] =>
    readdirSync(join(server.directory, name), { withFileTypes: true })
      .flatMap((entry) =>
        entry.isDirectory()
          ? readdirSync(join(server.directory, name, entry.name)).map((inner) => `${entry.name}/${inner}`)
          : [entry.name],
      )
      .sort();
  return { ...holdingsWithoutEvidence(server), evidence: files("evidence") };
}

/** The log line of a request that carried this X-Request-ID. */
export const logged = (server: TestServer, requestId: string): Promise<Record<string, any>> =>
  until(`the log line of ${requestId}`, () =>
    server.lines
      .map((line) => JSON.parse(line) as Record<string, any>)
      .find((line) => line["request_id"] === requestId && line["status"] !== undefined),
  );
