/**
 * Large bodies take their bytes from the memory budget (../memory/memory-budget.ts). Such a body is not read until
 * there is room for it: until then its bytes wait in the network, in the client's memory instead of ours. Small bodies
 * are exempt.
 */
export type { BodyBudget, MemoryLease as BodyLease } from "../memory/memory-budget.ts";

/** A body up to this size is read immediately; nearly all bodies are far smaller. */
export const SMALL_BODY_BYTES = 65_536;
