/** The user or service account that a record names as the author of a report or a change. */
export type Actor = { publicId: string; displayName: string };
