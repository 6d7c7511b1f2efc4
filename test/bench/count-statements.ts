// Loaded into a server of this checkout before its code (`--import`): counts the SQL statements that its main thread
// executes. The parent sends "reset", and receives the numbers by SQL text since then for "report".
import { isMainThread } from "node:worker_threads";
import Database from "better-sqlite3";

/** How often each SQL text was executed. */
export type StatementCounts = Readonly<Record<string, number>>;

const EXECUTING = ["run", "get", "all", "iterate"] as const;
type Executing = Record<(typeof EXECUTING)[number], (this: { source: string }, ...values: unknown[]) => unknown>;

let counts = new Map<string, number>();
const count = (text: string): void => void counts.set(text, (counts.get(text) ?? 0) + 1);

/** The class of statements is reachable only from a statement, so it is changed when the first one is prepared. */
function countFromTheFirst(): void {
  type Method = (this: unknown, text: string) => unknown;
  const { prototype } = Database as unknown as { prototype: { prepare: Method; exec: Method } };
  let counting = false;
  const { prepare, exec } = prototype;
  prototype.prepare = function (this: unknown, text: string) {
    const statement = prepare.call(this, text) as object;
    if (counting) return statement;
    counting = true;
    const methods = Object.getPrototypeOf(statement) as Executing;
    for (const name of EXECUTING) {
      const execute = methods[name];
      methods[name] = function (...values) {
        count(this.source);
        return execute.apply(this, values);
      };
    }
    return statement;
  };
  prototype.exec = function (this: unknown, text: string) {
    count(text);
    return exec.call(this, text);
  };
}

if (isMainThread && process.send) {
  countFromTheFirst();
  process.on("message", (message) => {
    if (message === "reset") counts = new Map();
    process.send?.(Object.fromEntries(counts));
  });
  process.channel?.unref();
}
