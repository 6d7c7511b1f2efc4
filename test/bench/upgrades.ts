// How long the executable takes to upgrade a database of 1,000,000 attestations from every released schema:
// `make bench-upgrades`. Each database is the fixture of that schema with copies of its trails and of everything that
// belongs to them. `--attestations N` sets another number.
import { readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import Database from "better-sqlite3";
import { EXECUTABLE } from "../binary/executable.ts";
import { olderVersions, place } from "../upgrades/fixture.ts";
import { startServer, temporaryDirectory } from "./processes.ts";
import { atMost, judge, printResults } from "./targets.ts";

/** Copies of a fixture's rows get the next ids; no fixture has more. */
const STRIDE = 1_000;
/** Copies that are written at a time, so that rows of all tables lie beside one another, as in a database in use. */
const CHUNK = 500;
const START_TIMEOUT_MS = 10 * 60_000;
const TARGET = atMost(120, 60, " s");

type Table = { name: string; columns: readonly string[] };

/** The condition that selects a row of a table if it belongs to a trail; null for a table of anything else. */
function belongsToTrail({ name, columns }: Table): string | null {
  // They also belong to environments, which are not copied.
  if (name === "deployments") return null;
  if (name === "trails") return "TRUE";
  if (columns.includes("trail_id")) return "trail_id IS NOT NULL";
  if (columns.includes("artifact_id")) return "artifact_id IN (SELECT id FROM artifacts WHERE trail_id IS NOT NULL)";
  return columns.includes("attestation_id") ? "TRUE" : null;
}

/** The value of a column in copy `n` of a row. */
function copied(table: string, column: string): string {
  if (column === "public_id") return `substr(${column}, 1, 28) || printf('%08x', n * ${STRIDE} + id)`;
  if (column === "name" && table === "trails") return `${column} || '-' || n`;
  if (column === "fingerprint" || column === "artifact_fingerprint")
    return `substr(${column}, 1, 56) || printf('%08x', n)`;
  if (column === "id" || column === "attestation_id" || column === "trail_id" || column === "original_id")
    return `${column} + n * ${STRIDE}`;
  // Not above zero: the trail itself.
  if (column === "artifact_id") return `iif(${column} > 0, ${column} + n * ${STRIDE}, ${column})`;
  return column;
}

/** The statement that writes the copies of a chunk of one table. */
function copying(db: Database.Database, table: Table): Database.Statement<[number, number]> | null {
  const condition = belongsToTrail(table);
  if (condition === null) return null;
  const { name, columns } = table;
  db.exec(`CREATE TEMP TABLE seed_${name} AS SELECT * FROM main.${name} WHERE ${condition}`);
  return db.prepare(
    `INSERT INTO main.${name} (${columns.join(", ")})
     SELECT ${columns.map((column) => copied(name, column)).join(", ")} FROM chunk CROSS JOIN seed_${name}
     WHERE n BETWEEN ? AND ?`,
  );
}

/** Copies the trails of a database until it has that many attestations. */
function multiply(path: string, attestations: number): void {
  const db = new Database(path);
  try {
    db.exec("PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF; PRAGMA cache_size = -200000");
    const tables = db
      .prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
      .pluck()
      .all()
      .map((name) => ({
        name,
        columns: db.prepare<[string], string>("SELECT name FROM pragma_table_info(?)").pluck().all(name),
      }));
    const audit = tables.find(({ name }) => name === "audit_log")?.columns.filter((name) => name !== "id") ?? [];
    const count = db.prepare<[], number>("SELECT count(*) FROM attestations").pluck();
    const copies = Math.ceil(attestations / (count.get() as number));
    db.exec(`CREATE TEMP TABLE chunk (n INTEGER PRIMARY KEY);
      WITH RECURSIVE counting(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counting WHERE n < ${copies})
      INSERT INTO chunk SELECT n FROM counting;
      CREATE TEMP TABLE seed_audit AS SELECT ${audit.join(", ")} FROM main.audit_log WHERE operation LIKE 'post_%';`);
    const statements = tables.map((table) => copying(db, table)).filter((statement) => statement !== null);
    statements.push(
      db.prepare(
        `INSERT INTO main.audit_log (${audit.join(", ")}) SELECT ${audit.join(", ")} FROM chunk CROSS JOIN seed_audit
         WHERE n BETWEEN ? AND ?`,
      ),
    );
    const write = db.transaction((from: number) => {
      for (const statement of statements) statement.run(from, from + CHUNK - 1);
    });
    for (let from = 1; from <= copies; from += CHUNK) write(from);
  } finally {
    db.close();
  }
}

/** @throws Error when a row of the database refers to one that does not exist */
function checkReferences(path: string): void {
  const db = new Database(path, { readonly: true });
  const broken = db.pragma("foreign_key_check") as unknown[];
  db.close();
  if (broken.length > 0) throw new Error(`${broken.length} broken references: ${JSON.stringify(broken[0])}`);
}

/** What the server logged of its upgrade: the steps with their times. */
function stepsIn(log: string): string {
  const lines = readFileSync(log, "utf8")
    .split("\n")
    .filter((line) => line.startsWith("{"));
  const entries = lines.map((line) => JSON.parse(line) as { migration?: string; msg: string; duration_ms?: number });
  return entries
    .filter(({ duration_ms }) => duration_ms !== undefined)
    .map(({ migration, msg, duration_ms }) => `${migration ?? msg} ${((duration_ms ?? 0) / 1000).toFixed(1)} s`)
    .join("; ");
}

const { values } = parseArgs({ options: { attestations: { type: "string", default: "1000000" } } });
const root = temporaryDirectory("upgrade-");
for (const schema of olderVersions()) {
  const data = join(root, `schema-${schema}`);
  try {
    place(schema, data);
    const path = join(data, "assay.db");
    multiply(path, Number(values.attestations));
    const bytes = statSync(path).size;
    const startedAt = performance.now();
    const command = [EXECUTABLE, "serve", "--data", data, "--listen", "127.0.0.1:0"];
    const output = join(root, "log");
    const server = await startServer(command, { output, timeoutMs: START_TIMEOUT_MS });
    const seconds = (performance.now() - startedAt) / 1000;
    await server.stop();
    checkReferences(path);
    judge(`upgrade from schema ${schema}, ${(bytes / 1e9).toFixed(1)} GB`, seconds, TARGET, stepsIn(output));
  } finally {
    rmSync(data, { recursive: true, force: true });
  }
}
printResults();
