/**
 * The stores without their methods that write: what handlers of reads get. A method reads if its name begins with one
 * of these verbs, of which none may lead to a change (test/rules/readers.test.ts).
 *
 * Left out: a second set of stores, since one resource has one file, and a check at run time, since PRAGMA query_only
 * would be two statements more for each read.
 */
import { openStore } from "./index.ts";
import type { Store } from "./index.ts";
import type { Db, DbReader, SchemaSources } from "./db/types.ts";

export const READING_VERBS = [
  "compare",
  "compute",
  "contentSize",
  "count",
  "explain",
  "find",
  "get",
  "has",
  "is",
  "iterate",
  "keepLines", // what a thread found, in memory
  "list",
  "notFound",
  "parse",
  "plan",
  "preview",
  "read",
  "require",
  "resolve",
  "search",
  "select",
  "size",
  "summarize",
  "terms",
  "time",
  "version",
  "with",
] as const;
type ReadingName = `${(typeof READING_VERBS)[number]}${Capitalize<string>}`;
type Reading<S> = { readonly [K in keyof S as K extends ReadingName ? K : never]: S[K] };

export type StoreReader = { readonly [K in keyof Store]: Reading<Store[K]> };

/** Without time and ids, which reads of one moment do not need. */
const NO_SOURCES: SchemaSources = { now: () => 0, newId: () => "" };

/** Opens the stores over a connection for reads. */
export const openReader = (db: DbReader, sources = NO_SOURCES): StoreReader => openStore(db as Db, sources);
