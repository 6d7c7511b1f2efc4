import { open } from "node:fs/promises";

/** Makes the content of a file, or the entries of a directory, durable. */
export async function syncPath(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
