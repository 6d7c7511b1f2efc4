/**
 * Template texts. Rows are write-once: flows and trails point at the text that was in force, so nothing here updates or
 * deletes. A text that was once accepted is never refused again: `parsed` reads what it can of a text that the grammar
 * of today would not take (semantics 2.1: stored ones still load).
 */
import { parse } from "yaml";
import { parseTemplate } from "../../domain/flow-template/template.ts";
import type { Template, TemplateAttestation } from "../../domain/flow-template/template.ts";
import type { Db, SchemaSources } from "../db/types.ts";

export type TemplateRow = { id: number; public_id: string; content: string };

/** What is parsed: the stored form where there is one, else the text. */
type ParsedRow = { public_id: string; parsed_json: string | null; content: string | null };

/**
 * Parsed templates kept at hand. Rows never change, so entries never go stale; 200 cover the flows that report at one
 * time, and even templates of thousands of entries then stay within some tens of megabytes.
 */
const MAX_CACHED_TEMPLATES = 200;

export function templateStore(db: Db, { newId }: SchemaSources) {
  const byId = db.prepare<[number], TemplateRow>("SELECT id, public_id, content FROM templates WHERE id = ?");
  const publicId = db.prepare<[number], string>("SELECT public_id FROM templates WHERE id = ?").pluck() as {
    get(id: number): string | undefined;
  };
  const parsedById = db.prepare<[number], ParsedRow>(
    "SELECT public_id, parsed_json, iif(parsed_json IS NULL, content, NULL) AS content FROM templates WHERE id = ?",
  );
  const insert = db.prepare("INSERT INTO templates (public_id, content, parsed_json) VALUES (?, ?, ?)");
  // Least recently used first: a Map keeps the order of insertion. By public id, because the key of a row whose insert
  // was rolled back is given to another text.
  const cache = new Map<string, Template>();

  /** The template with that key; it must exist. */
  function get(id: number): TemplateRow {
    const row = byId.get(id);
    if (!row) throw new Error(`template ${id} is gone`);
    return row;
  }

  /** The public id of the template with that key, which must exist; its text, which may be long, is not read. */
  function publicIdOf(id: number): string {
    const found = publicId.get(id);
    if (found === undefined) throw new Error(`template ${id} is gone`);
    return found;
  }

  return {
    get,
    getPublicId: publicIdOf,

    /**
     * The row that holds exactly `content`: the row `previous` when its text is the same, else a new one. The text must
     * have passed `parseTemplate`. @param parsedJson its template as JSON text; null for a text that is quickly parsed
     */
    intern(content: string, previous: number | null = null, parsedJson: string | null = null): TemplateRow {
      const before = previous === null ? undefined : byId.get(previous);
      if (before?.content === content) return before;
      const public_id = newId();
      const id = Number(insert.run(public_id, content, parsedJson).lastInsertRowid);
      return { id, public_id, content };
    },

    /** What the template with that key expects. The value is shared: do not change it. Never refuses a stored text. */
    getParsed(id: number): Template {
      const key = publicIdOf(id);
      const known = cache.get(key);
      const template = known ?? read(parsedById.get(id) as ParsedRow);
      // Entered anew, so that the Map's order is the order of use.
      if (known) cache.delete(key);
      else if (cache.size >= MAX_CACHED_TEMPLATES) cache.delete(cache.keys().next().value as string);
      cache.set(key, template);
      return template;
    },
  };
}

const read = ({ parsed_json, content }: ParsedRow): Template =>
  parsed_json === null ? readStoredText(content ?? "") : (JSON.parse(parsed_json) as Template);

/** The template of a text that was accepted once, by whatever bounds and grammar there were then. Never throws. */
export const readStoredText = (content: string): Template => parseTemplate(content, true).template ?? salvage(content);

/** What can be read of a text that the grammar refuses; the empty template where nothing can. Never throws. */
export function salvage(content: string): Template {
  const template: Template = { version: 1, trail: { attestations: [], artifacts: [] } };
  let root: unknown;
  try {
    // Aliases are bounded, because a text of a few lines may stand for billions of entries.
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
    // Without a type nothing is known about what was meant, so anything may fill the slot.
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
