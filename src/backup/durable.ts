/** What a file holds, and what a directory lists, is on the disk when these resolve. */
import { open } from "node:fs/promises";

export async function syncPath(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
