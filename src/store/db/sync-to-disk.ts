import { closeSync, fsyncSync, openSync } from "node:fs";
import { onPathSync } from "../../domain/text/system-errors.ts";

/** Makes the content of a file, or the entries of a directory, durable. @throws the system's error */
export function syncToDisk(path: string): void {
  const descriptor = openSync(path, "r");
  try {
    onPathSync(path, () => fsyncSync(descriptor));
  } finally {
    closeSync(descriptor);
  }
}
