/** Who reported, or changed the policies or the allowlist. */
export type Actor = { publicId: string; displayName: string };
