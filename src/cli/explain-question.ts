/** What an explanation is about: a snapshot, and one fingerprint of it unless `fingerprint` is null. */
export type Question = { organization: string; expression: string; fingerprint: string | null };
