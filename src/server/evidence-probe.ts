/** Whether evidence storage elsewhere answers, for `/readyz` and the metrics, which must not wait for it. */
import type { S3Store } from "../evidence/s3-store.ts";

/** How old an outcome may be before the storage is asked again. */
const MAX_AGE_MS = 30_000;

/**
 * Returns a function that says whether the storage answered the latest probe, null before the first has ended. It
 * starts another probe if that was half a minute ago, and does not wait for it.
 * @param milliseconds a monotonic clock
 */
export function createEvidenceProbe(remote: Pick<S3Store, "probe">, milliseconds: () => number): () => boolean | null {
  let isReachable: boolean | null = null;
  let startedAt: number | null = null;
  return () => {
    const now = milliseconds();
    if (startedAt === null || now - startedAt >= MAX_AGE_MS) {
      startedAt = now;
      remote.probe().then(
        () => void (isReachable = true),
        () => void (isReachable = false),
      );
    }
    return isReachable;
  };
}
