/**
 * Statements that SQLite compiles on their first use. The stores prepare 800 statements for each connection and a
 * process uses a fraction of them: compiling all took 26 ms of each start, and seven megabytes. That all of them
 * compile is tested (test/store/statements.test.ts).
 */
import type { ColumnDefinition, Database, RunResult, Statement } from "better-sqlite3";

/** @param compile prepares the statement; its error, for wrong SQL or a closed database, is thrown on the first use. */
export function lazyStatement(source: string, compile: () => Statement<unknown[]>): Statement<unknown[]> {
  return new LazyStatement(source, compile);
}

class LazyStatement implements Statement<unknown[]> {
  readonly source: string;
  readonly #compile: () => Statement<unknown[]>;
  #statement: Statement<unknown[]> | null = null;
  #plucks = false;

  constructor(source: string, compile: () => Statement<unknown[]>) {
    this.source = source;
    this.#compile = compile;
  }

  #compiled(): Statement<unknown[]> {
    if (this.#statement !== null) return this.#statement;
    const statement = this.#compile();
    if (this.#plucks) statement.pluck();
    this.#statement = statement;
    return statement;
  }

  run(...values: unknown[]): RunResult {
    return this.#compiled().run(...values);
  }

  get(...values: unknown[]): unknown {
    return this.#compiled().get(...values);
  }

  all(...values: unknown[]): unknown[] {
    return this.#compiled().all(...values);
  }

  /**
   * The query begins with the first row that is asked for. SQLite would begin it at once, and the connection could not
   * write until its last row was read: an iterator that is not used would never end.
   */
  *iterate(...values: unknown[]): IterableIterator<unknown> {
    yield* this.#compiled().iterate(...values);
  }

  pluck(on = true): this {
    if (this.#statement === null) this.#plucks = on;
    else this.#statement.pluck(on);
    return this;
  }

  bind(...values: unknown[]): this {
    this.#compiled().bind(...values);
    return this;
  }

  expand(on = true): this {
    this.#compiled().expand(on);
    return this;
  }

  raw(on = true): this {
    this.#compiled().raw(on);
    return this;
  }

  safeIntegers(on = true): this {
    this.#compiled().safeIntegers(on);
    return this;
  }

  columns(): ColumnDefinition[] {
    return this.#compiled().columns();
  }

  get database(): Database {
    return this.#compiled().database;
  }

  get reader(): boolean {
    return this.#compiled().reader;
  }

  get readonly(): boolean {
    return this.#compiled().readonly;
  }

  get busy(): boolean {
    return this.#compiled().busy;
  }
}
