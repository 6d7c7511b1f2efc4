/**
 * Flow templates.
 *
 * Invariants: rows are write-once, because flows and trails point at the text that was in force; a text that was
 * accepted is never refused again: `getParsed` reads what it can of a text that today's grammar does not accept
 * (semantics 2.1).
 */
import { hash } from "node:crypto";
import { MAX_INLINE_DOCUMENT_BYTES } from "../../domain/documents.ts";
import { locateExpectations } from "../../domain/flow-template/lines.ts";
import type { TemplateLines } from "../../domain/flow-template/lines.ts";
import { createLru } from "../../domain/lru.ts";
import { hasMembers, readStoredJson } from "../../domain/stored-json.ts";
import { readStoredText } from "../../domain/flow-template/stored.ts";
import type { Template } from "../../domain/flow-template/template.ts";
import type { Db, SchemaSources } from "../db/types.ts";

type TemplateRow = { id: number; public_id: string; content: string };

/** The source of a parsed template: its stored parsed form if it has one, else the text. */
type ParsedRow = { public_id: string; parsed_json: string | null; content: string | null };

/** Rows whose text is known by its digest: those of the flows that report at a time. */
const MAX_CACHED_DIGESTS = 10_000;
/** Parsed templates in memory, one for each text, however many rows have it ... */
const MAX_CACHED_TEXTS = 500;
/** ... and the characters of these texts; parsed, they take about ten times as many bytes. */
const MAX_CACHED_CHARS = 2 << 20;

/** Templates whose lines are in memory: only explanations need them. */
const MAX_CACHED_LINES = 20;

export function templateStore(db: Db, { newId }: SchemaSources) {
  const byId = db.prepare<[number], TemplateRow>("SELECT id, public_id, content FROM templates WHERE id = ?");
  const publicIdById = db.prepare<[number], string>("SELECT public_id FROM templates WHERE id = ?").pluck();
  const parsedById = db.prepare<[number], ParsedRow>(
    "SELECT public_id, parsed_json, iif(parsed_json IS NULL, content, NULL) AS content FROM templates WHERE id = ?",
  );
  const insert = db.prepare("INSERT INTO templates (public_id, content, parsed_json) VALUES (?, ?, ?)");
  // Keyed by public id, because SQLite reuses the id of a row whose insert was rolled back.
  const digests = createLru<string, string>({ maxEntries: MAX_CACHED_DIGESTS });
  const parsed = createLru<string, Template>({ maxEntries: MAX_CACHED_TEXTS, maxWeight: MAX_CACHED_CHARS });
  const located = createLru<string, TemplateLines>({ maxEntries: MAX_CACHED_LINES });

  /** The template with that id; it must exist. */
  function get(id: number): TemplateRow {
    const row = byId.get(id);
    if (!row) throw new Error(`template ${id} is gone`);
    return row;
  }

  /** The public id of the template with that id, which must exist. Does not read the text, which may be long. */
  function getPublicId(id: number): string {
    const found = publicIdById.get(id);
    if (found === undefined) throw new Error(`template ${id} is gone`);
    return found;
  }

  return {
    get,
    getPublicId,
    /** The text of the template with that id; null where the record is damaged. */
    findText: (id: number): string | null => byId.get(id)?.content ?? null,

    /**
     * The row with exactly this text: `previous` if it has the same text, else a new one. The text must have passed
     * `parseTemplate`. @param parsedJson its parsed form as JSON; null for a text that is quick to parse.
     */
    intern(content: string, previous: number | null = null, parsedJson: string | null = null): TemplateRow {
      const before = previous === null ? undefined : byId.get(previous);
      if (before?.content === content) return before;
      const public_id = newId();
      const id = Number(insert.run(public_id, content, parsedJson).lastInsertRowid);
      return { id, public_id, content };
    },

    /**
     * The parsed template with that id. The value is shared: do not change it. Never refuses a stored text.
     * @param publicId looked up unless given
     */
    getParsed(id: number, publicId = getPublicId(id)): Template {
      const known = digests.get(publicId);
      const cached = known === undefined ? undefined : parsed.get(known);
      if (cached) return cached;
      const row = parsedById.get(id) as ParsedRow;
      const text = row.parsed_json ?? row.content ?? "";
      const digest = hash("sha256", `${row.parsed_json === null ? "text" : "parsed"} ${text}`);
      digests.set(publicId, digest);
      const shared = parsed.get(digest);
      if (shared) return shared;
      const template = parseTemplateRow(row);
      parsed.set(digest, template, text.length);
      return template;
    },

    /**
     * Where the expectations of a template stand in its text; null for a text that takes long to read, unless
     * `keepLines` was given the result.
     */
    findLines(template: TemplateRow): TemplateLines | null {
      const cached = located.get(template.public_id);
      if (cached || Buffer.byteLength(template.content) > MAX_INLINE_DOCUMENT_BYTES) return cached ?? null;
      const lines = locateExpectations(template.content);
      located.set(template.public_id, lines);
      return lines;
    },

    /** Keeps the lines of a template that were found elsewhere. */
    keepLines: (template: TemplateRow, lines: TemplateLines): void => located.set(template.public_id, lines),
  };
}

/** The template of a row, or of one that is not stored. */
export const parseTemplateRow = ({ parsed_json, content }: Pick<ParsedRow, "parsed_json" | "content">): Template =>
  parsed_json === null
    ? readStoredText(content ?? "")
    : readStoredJson(parsed_json, hasMembers<Template>("version", "trail"));
