import { readFileSync } from "node:fs";

/** The priority of a thread of Linux, as in "PID/task/TID": the lower the number, the sooner it runs. */
export const priorityOf = (thread: string): number =>
  // The 19th field; the second one is a name that may have spaces.
  Number(readFileSync(`/proc/${thread}/stat`, "latin1").split(") ")[1]?.split(" ")[16]);
