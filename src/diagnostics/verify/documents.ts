/**
 * Large templates and policies against their texts: what is evaluated is the stored form, and what people read is the
 * text.
 */
import { parsePolicy } from "../../domain/policy/document.ts";
import { serializePolicy } from "../../domain/policy/stored.ts";
import { readStoredText } from "../../store/flows/templates.ts";
import { yieldToEventLoop } from "./check.ts";
import type { Findings } from "./check.ts";
import type { Db } from "../../store/db/types.ts";

type DocumentRow = { about: string; text: string; parsed_json: string };
type Table = { what: string; ids: string; byId: string; parsedOf(text: string): string | null };

const TABLES: readonly Table[] = [
  {
    what: "large templates",
    ids: "SELECT id FROM templates WHERE parsed_json IS NOT NULL",
    byId: "SELECT 'template ' || public_id AS about, content AS text, parsed_json FROM templates WHERE id = ?",
    parsedOf: (text) => JSON.stringify(readStoredText(text)),
  },
  {
    what: "large policies",
    ids: "SELECT id FROM policy_versions WHERE parsed_json IS NOT NULL",
    byId: `SELECT 'version ' || v.version || ' of policy ' || p.name || ' (' || p.id || ')' AS about, v.policy_yaml AS text, v.parsed_json
           FROM policy_versions v JOIN policies p ON p.id = v.policy_id WHERE v.id = ?`,
    parsedOf(text) {
      const { policy } = parsePolicy(text, { isStored: true });
      return policy && serializePolicy(policy);
    },
  },
];

/** Reads the text of every template and policy that has a stored form, which takes up to a second for each. */
export async function checkDocuments(db: Db, { damage: found, count: looked }: Findings): Promise<void> {
  for (const { what, ids, byId, parsedOf } of TABLES) {
    const read = db.prepare<[number], DocumentRow>(byId);
    const keys = db.prepare<[], number>(ids).pluck().all() as number[];
    for (const key of keys) {
      const row = read.get(key);
      if (row && parsedOf(row.text) !== row.parsed_json)
        found(row.about, "its stored form, which is evaluated, is not what its text says");
      await yieldToEventLoop();
    }
    if (keys.length > 0) looked(what, keys.length);
  }
}
