import type Database from "better-sqlite3";

export type Db = Database.Database;

/** Time and ids come in from outside, so that tests decide them. */
export type SchemaSources = {
  /** Epoch seconds, with fraction. */
  now(): number;
  /** A new public id, 8-4-4-4-8 hex. */
  newId(): string;
  /** The user of the operating system who runs this process; absent where nobody is named by it. */
  osUser?(): string;
};
