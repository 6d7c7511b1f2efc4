/** Artifacts that were reported without a commit. */

/** Git's own id for "no commit". */
export const NO_COMMIT = "0".repeat(40);

/**
 * The commit of an artifact as the API shows it; null: it was reported without one. Clients of the contract fail on
 * null and on an empty text, so that is git's id for no commit (wire-contract 5).
 */
export const shownCommit = (sha: string | null): string => sha ?? NO_COMMIT;
