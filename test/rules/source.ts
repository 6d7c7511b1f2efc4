/** The source files of a folder, with the modules that each imports. */
import { readFileSync, readdirSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/**
 * `imports`: what the file imports, our own by path from the root. `resolve` gives that path for a relative specifier.
 */
export type SourceFile = { path: string; text: string; imports: string[]; resolve(specifier: string): string };

export function sourceFiles(folder: string): SourceFile[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !name.endsWith(".d.ts"))
    .map((name) => {
      const path = join(folder, name);
      const text = readFileSync(join(ROOT, path), "utf8");
      const specifiers = [
        ...text.matchAll(/^(?:import|export)\b[^;]*?\bfrom "([^"]+)";/gms),
        ...text.matchAll(/^import "([^"]+)";/gm),
        ...text.matchAll(/\bimport\("([^"]+)"\)/g),
      ];
      const resolve = (specifier: string): string => relative(".", normalize(join(dirname(path), specifier)));
      const imports = specifiers.map((match) => {
        const name = match[1] as string;
        return name.startsWith(".") ? resolve(name) : name;
      });
      return { path, text, imports, resolve };
    });
}
