import type Database from "better-sqlite3";

interface ReadStatement<P extends unknown[], R> {
  get(...values: P): R | undefined;
  all(...values: P): R[];
  iterate(...values: P): IterableIterator<R>;
  pluck(): ReadStatement<P, R>;
}

type ReadPragma = "page_count" | "page_size" | "user_version" | `integrity_check(${number})`;

/** A connection for reads: its statements do not run changes. Every connection is one, so what takes one only reads. */
export interface DbReader {
  prepare<P extends unknown[] | object = unknown[], R = unknown>(
    source: string,
  ): P extends unknown[] ? ReadStatement<P, R> : ReadStatement<[P], R>;
  pragma(source: ReadPragma, options?: { simple?: boolean }): unknown;
  /** Runs all reads of the function in one transaction. */
  transaction<A extends unknown[], T>(work: (...values: A) => T): (...values: A) => T;
  close(): unknown;
}

/** A connection for reads and writes. */
export type Db = Database.Database;

/** How a list is sorted, and the part of it to read; null: all of it. */
export type ListOptions<Order> = { order: Order; window: { limit: number; offset: number } | null };

/** Where temporary files are made, and the bytes of its disk that they leave free. */
export type TemporaryFiles = { directory: string; reserveBytes: number };

/** Sources of time and ids, passed in so that tests control them. */
export type SchemaSources = {
  /** Epoch seconds, with fraction. */
  now(): number;
  /** A new public id, 8-4-4-4-8 hex. */
  newId(): string;
  /** The operating system's user who runs this process; absent where its name is not recorded. */
  osUser?(): string;
  /** For what may be larger than memory allows; without them it stays in memory. */
  temporaryFiles?: TemporaryFiles;
};

/** Decides whether writes are accepted, and is notified of storage failures. */
export type WriteGuard = {
  /** @throws the error for the client when writes are refused. */
  ensureWritable(): void;
  reportFailure(error: unknown): void;
  /** Looks at the files of the database. @returns why no commit may be acknowledged any more; null if it may */
  checkFiles(): string | null;
};
