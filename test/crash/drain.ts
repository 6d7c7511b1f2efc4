// Waits for the jobs that a kill left behind.
import { setTimeout as sleep } from "node:timers/promises";
import type { DbReader } from "../../src/store/db/types.ts";

/** Jobs must be done this soon after a start: sooner than a lease expires that the start failed to release. */
const DRAIN_TIMEOUT_S = 30;
const POLL_INTERVAL_MS = 10;

/** Waits until no job is left. @returns their number, and problems: a failed job, or jobs left after the timeout */
export async function drain(db: DbReader): Promise<{ jobs: number; problems: string[] }> {
  const left = db.prepare<[], { jobs: number; error: string | null }>(
    "SELECT count(*) AS jobs, max(last_error) AS error FROM jobs",
  );
  const until = Date.now() + DRAIN_TIMEOUT_S * 1_000;
  let first: number | null = null;
  for (;;) {
    const { jobs, error } = left.get() as { jobs: number; error: string | null };
    first ??= jobs;
    if (error !== null) return { jobs: first, problems: [`a job failed: ${error}`] };
    if (jobs === 0) return { jobs: first, problems: [] };
    if (Date.now() > until) return { jobs: first, problems: [`${jobs} jobs are left after ${DRAIN_TIMEOUT_S} s`] };
    await sleep(POLL_INTERVAL_MS);
  }
}
