/** Programs of others that tests use where they are there: below .build/tools of the checkout, or on PATH. */
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** The path of a program; null where there is none, which the caller tells of when it skips. */
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
