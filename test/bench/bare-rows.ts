// Serves rows of the large database with nothing in between: `node bare-rows.ts DATABASE`
//
//   GET /TABLE?ids=1,2,3   these rows of the table with all their columns, as JSON
//
// The lists of lists.ts are compared with the same rows read here.
import type { AddressInfo } from "node:net";
import Database from "better-sqlite3";
import Koa from "koa";

const db = new Database(process.argv[2] ?? "", { readonly: true });
const statements = new Map<string, Database.Statement<[string], object>>();

function rows(table: string, ids: readonly number[]): object[] {
  let statement = statements.get(table);
  if (!statement) {
    const columns = db.prepare<[string], string>("SELECT name FROM pragma_table_info(?)").pluck().all(table);
    statement = db.prepare(
      `SELECT ${columns.join(", ")} FROM ${table} WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id DESC`,
    );
    statements.set(table, statement);
  }
  return statement.all(JSON.stringify(ids));
}

const app = new Koa();
app.use((ctx) => {
  ctx.body = rows(ctx.path.slice(1), String(ctx.query["ids"]).split(",").map(Number));
});
const server = app.listen(0, "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
