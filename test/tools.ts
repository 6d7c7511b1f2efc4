/** Third-party programs that tests use if they are installed: below .build/tools of the checkout, or on PATH. */
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** Path of a program; null if it is not installed, which callers report when they skip. */
export function findTool(name: string): string | null {
  const places = [join(import.meta.dirname, "..", ".build", "tools"), ...(process.env["PATH"] ?? "").split(delimiter)];
  const paths = places.filter((place) => place !== "").map((place) => join(place, name));
  return paths.find(isExecutable) ?? null;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
