/** The stored texts of flow templates: one that was accepted is never refused again (semantics 2.1). */
import { parse } from "yaml";
import { parseTemplate } from "./template.ts";
import type { Template, TemplateAttestation } from "./template.ts";

/** Parses a text that was once accepted, under whatever limits and grammar applied then. Never throws. */
export const readStoredText = (content: string): Template =>
  parseTemplate(content, { isStored: true }).template ?? salvage(content);

/** Reads what can be read of a text that the grammar refuses; an empty template when nothing can. Never throws. */
function salvage(content: string): Template {
  const template: Template = { version: 1, trail: { attestations: [], artifacts: [] } };
  let root: unknown;
  try {
    // Aliases are limited, because a text of a few lines can expand to billions of entries.
    root = parse(content, { schema: "core", uniqueKeys: false, logLevel: "silent", maxAliasCount: 1_000 });
  } catch {
    return template;
  }
  const trail = member(root, "trail");
  template.trail.attestations = attestationsOf(trail);
  for (const artifact of listOf(trail, "artifacts")) {
    const name = member(artifact, "name");
    if (typeof name === "string") template.trail.artifacts.push({ name, attestations: attestationsOf(artifact) });
  }
  return template;
}

function attestationsOf(owner: unknown): TemplateAttestation[] {
  return listOf(owner, "attestations").flatMap((item) => {
    const name = member(item, "name");
    const type = member(item, "type");
    // Without a type the intent is unknown, so any type fills the slot.
    return typeof name === "string" ? [{ name, type: typeof type === "string" ? type : "*" }] : [];
  });
}

function listOf(owner: unknown, key: string): unknown[] {
  const list = member(owner, key);
  return Array.isArray(list) ? list : [];
}

const member = (owner: unknown, key: string): unknown =>
  typeof owner === "object" && owner !== null && Object.hasOwn(owner, key)
    ? (owner as Record<string, unknown>)[key]
    : undefined;
