import { openStore } from "../../store/index.ts";
import type { Store } from "../../store/index.ts";
import type { Db } from "../../store/db/types.ts";

/** `about` names the row or the file, `problem` says what is wrong with it. */
export type Finding = { about: string; problem: string };

/** Takes what a check says. */
export type Findings = {
  /** Damage. */
  damage(about: string, problem: string): void;
  /** Nothing wrong, but worth knowing. */
  note(about: string, text: string): void;
  /** So many more of `what` were looked at. */
  count(what: string, count: number): void;
};

/** A store of which only the reading parts are used: neither clock nor ids are ever asked for. */
export const openReadOnlyStore = (db: Db): Store => openStore(db, { now: () => 0, newId: () => "" });

/** What went wrong while a row was read or judged, in words. */
export const errorMessage = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Runs on the event loop's next turn, so that long work leaves room for signals and for what is shown meanwhile. */
export const yieldToEventLoop = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Whether SQLite says that it cannot make sense of the file. */
export const isDamagedFile = (error: unknown): boolean =>
  /^SQLITE_(CORRUPT|NOTADB|IOERR)/.test(String((error as { code?: unknown } | null)?.code));
