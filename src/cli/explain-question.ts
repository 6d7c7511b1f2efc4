/** The subject of an explanation: a snapshot, or only one fingerprint in it unless `fingerprint` is null. */
export type Question = { organization: string; expression: string; fingerprint: string | null };
