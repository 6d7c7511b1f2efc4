// What the machine achieves with the same components and nothing else: Koa and better-sqlite3, without routes, keys,
// validation, log or audit. `node baseline.ts DIRECTORY BYTES` serves a table of a thousand rows whose responses have
// about BYTES bytes:
//
//   GET /rows/N   one row by an indexed text, as JSON
//   POST /rows    one row from a JSON body, inserted in the transaction that all requests of this turn of the event
//                 loop share, with a durable COMMIT (WAL, synchronous=FULL)
//
// Assay is measured against this program, run by the same Node on the same disk.
import { join } from "node:path";
import type { AddressInfo } from "node:net";
import Database from "better-sqlite3";
import Koa from "koa";

const directory = process.argv[2] ?? ".";
const bytes = Number(process.argv[3] ?? 1000);

const db = new Database(join(directory, "baseline.db"));
db.pragma("journal_mode = WAL");
db.pragma("synchronous = FULL");
db.exec(
  `CREATE TABLE rows (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, state TEXT NOT NULL,
                      created_at REAL NOT NULL, detail TEXT NOT NULL) STRICT`,
);
db.exec(
  `CREATE TABLE reports (id INTEGER PRIMARY KEY, name TEXT NOT NULL, created_at REAL NOT NULL,
                         detail TEXT NOT NULL) STRICT`,
);
const fill = db.prepare("INSERT INTO rows (name, state, created_at, detail) VALUES (?, 'COMPLIANT', ?, ?)");
db.transaction(() => {
  // The other fields of a response take about a hundred bytes.
  for (let n = 0; n < 1000; n += 1) fill.run(`row-${n}`, Date.now() / 1000, "d".repeat(Math.max(0, bytes - 100)));
})();

const read = db.prepare("SELECT id, name, state, created_at, detail FROM rows WHERE name = ?");
const insert = db.prepare("INSERT INTO reports (name, created_at, detail) VALUES (?, ?, ?)");
const begin = db.prepare("BEGIN IMMEDIATE");
const commit = db.prepare("COMMIT");

type Job = { name: string; detail: string; done: () => void };
let queue: Job[] = [];

function flush(): void {
  const batch = queue;
  queue = [];
  begin.run();
  for (const { name, detail } of batch) insert.run(name, Date.now() / 1000, detail);
  commit.run();
  for (const { done } of batch) done();
}

function store(name: string, detail: string): Promise<void> {
  return new Promise((done) => {
    if (queue.length === 0) setImmediate(flush);
    queue.push({ name, detail, done });
  });
}

async function bodyOf(request: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}

const app = new Koa();
app.use(async (ctx) => {
  if (ctx.method === "GET") {
    ctx.body = read.get(ctx.path.slice("/rows/".length)) as object;
    return;
  }
  const report = JSON.parse(await bodyOf(ctx.req)) as { attestation_name: string };
  await store(report.attestation_name, JSON.stringify(report));
  ctx.status = 201;
  ctx.body = { stored: true };
});
const server = app.listen(0, "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
