/** What the checks in this directory share: the reporting interface. */

/** `about` names the row or the file, `problem` says what is wrong with it. */
export type Finding = { about: string; problem: string };

/** Receives the results of a check. */
export type Findings = {
  /** Reports damage. */
  damage(about: string, problem: string): void;
  /** Reports something that is worth knowing but not damage. */
  note(about: string, text: string): void;
  /** Adds `amount` to the number of `what` that were checked. */
  count(what: string, amount: number): void;
};

/** Reports damage of one subject. */
export type ReportDamage = (problem: string) => void;

/** Resolves on the next turn of the event loop, so that long work leaves time for signals and the progress bar. */
export const yieldToEventLoop = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Whether SQLite reports that the file itself is damaged. */
export const isDamagedFile = (error: unknown): boolean =>
  /^SQLITE_(CORRUPT|NOTADB|IOERR)/.test(String((error as { code?: unknown } | null)?.code));
