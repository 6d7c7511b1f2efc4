/** What evaluations and published versions call the engine: its version, and what was built from it. */
import { readEngineFacts } from "./engine-module.ts";

let name: string | null = null;

/** `opa v1.22.3 sha256:...`: equal names, equal engines. Reads an asset with the first call. */
export function engineName(): string {
  if (name === null) {
    const { opa, sha256 } = readEngineFacts();
    name = `opa ${opa} sha256:${sha256}`;
  }
  return name;
}
