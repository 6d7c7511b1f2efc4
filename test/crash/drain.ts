// Waiting for what was asked for before a kill.
import { setTimeout as sleep } from "node:timers/promises";
import type { Db } from "../../src/store/db/types.ts";

/**
 * Seconds after a start within which what was asked for before is to be done, less than a lease that the start forgot
 * to end; and between two looks.
 */
const LONGEST_DRAIN = 30;
const LOOK = 0.01;

/**
 * Waits until no job is left. @returns how many there were, and those that failed, or that it did not wait for any
 * longer.
 */
export async function drain(db: Db): Promise<{ jobs: number; problems: string[] }> {
  const left = db.prepare<[], { jobs: number; error: string | null }>(
    "SELECT count(*) AS jobs, max(last_error) AS error FROM jobs",
  );
  const until = Date.now() + LONGEST_DRAIN * 1_000;
  let first: number | null = null;
  for (;;) {
    const { jobs, error } = left.get() as { jobs: number; error: string | null };
    first ??= jobs;
    if (error !== null) return { jobs: first, problems: [`a job failed: ${error}`] };
    if (jobs === 0) return { jobs: first, problems: [] };
    if (Date.now() > until) return { jobs: first, problems: [`${jobs} jobs are left after ${LONGEST_DRAIN} s`] };
    await sleep(LOOK * 1_000);
  }
}
