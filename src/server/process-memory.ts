/** How much memory the process may use. */
import { totalmem } from "node:os";

/**
 * Bytes that the process may use: the limit of its control group (a container, `MemoryMax` of a unit), or the memory of
 * the machine.
 * @param constrained what Node reports of the limit; 0 or more than the machine has where there is none
 */
export const processMemory = (
  constrained: number = process.constrainedMemory(),
  machine: number = totalmem(),
): number => (constrained > 0 ? Math.min(constrained, machine) : machine);
