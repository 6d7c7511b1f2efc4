// Enough of a server to build and test the executable: one database, GET /ready, `version`.

import Database from "better-sqlite3";
import Koa from "koa";
import { mkdirSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { buildInfo } from "./assets.ts";
import { loadAddon } from "./store/addon.ts";

function openDatabase(file: string, dataDirectory: string | null): Database.Database {
  return new Database(file, { nativeBinding: loadAddon(dataDirectory) as unknown as string });
}

function version(): void {
  const { version, commit } = buildInfo();
  const sqlite = openDatabase(":memory:", null).prepare("SELECT sqlite_version()").pluck().get();
  console.log(`assay ${version}\ncommit ${commit ?? "unknown"}\nnode ${process.version}\nsqlite ${sqlite}`);
}

function serve(data: string, listen: string): void {
  mkdirSync(data, { recursive: true, mode: 0o700 });
  const database = openDatabase(join(data, "assay.db"), data);
  database.exec("PRAGMA journal_mode = WAL");
  const app = new Koa();
  app.use((context) => {
    if (context.path === "/ready") context.body = { ready: database.prepare("SELECT 1").pluck().get() === 1 };
  });
  const [host, port] = [listen.slice(0, listen.lastIndexOf(":")), Number(listen.slice(listen.lastIndexOf(":") + 1))];
  const server = app.listen(port, host, () => {
    console.log(`listening on http://${host}:${(server.address() as AddressInfo).port}`);
  });
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.once(signal, () => {
      server.close(() => database.close());
      server.closeAllConnections();
    });
  }
}

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { data: { type: "string", default: ".assay-dev" }, listen: { type: "string", default: "127.0.0.1:8001" } },
});
try {
  if (positionals[0] === "version") version();
  else serve(values.data, values.listen);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
