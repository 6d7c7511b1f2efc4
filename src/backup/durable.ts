import { open } from "node:fs/promises";
import { onPath } from "../domain/text/system-errors.ts";

/** Makes the content of a file, or the entries of a directory, durable. */
export async function syncPath(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await onPath(path, handle.sync());
  } finally {
    await handle.close();
  }
}
