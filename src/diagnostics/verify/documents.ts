/** Compares large templates and policies, whose stored form is evaluated, with the texts that people read. */
import { readStoredText } from "../../domain/flow-template/stored.ts";
import { parsePolicy } from "../../domain/policy/document.ts";
import { serializePolicy } from "../../domain/policy/stored.ts";
import type { DbReader } from "../../store/db/types.ts";
import { yieldToEventLoop } from "./check.ts";
import type { Findings } from "./check.ts";

type DocumentRow = { about: string; text: string; parsed_json: string };
type Table = { what: string; ids: string; byId: string; parse(text: string): string | null };

const TABLES: readonly Table[] = [
  {
    what: "large templates",
    ids: "SELECT id FROM templates WHERE parsed_json IS NOT NULL",
    byId: "SELECT 'template ' || public_id AS about, content AS text, parsed_json FROM templates WHERE id = ?",
    parse: (text) => JSON.stringify(readStoredText(text)),
  },
  {
    what: "large policies",
    ids: "SELECT id FROM policy_versions WHERE parsed_json IS NOT NULL",
    byId: `SELECT 'version ' || pv.version || ' of policy ' || pol.name || ' (' || pol.id || ')' AS about,
                  pv.policy_yaml AS text, pv.parsed_json
           FROM policy_versions pv JOIN policies pol ON pol.id = pv.policy_id WHERE pv.id = ?`,
    parse(text) {
      const { policy } = parsePolicy(text, { isStored: true });
      return policy && serializePolicy(policy);
    },
  },
];

/** Parses the text of every template and policy that has a stored form, which takes up to a second each. */
export async function checkDocuments(db: DbReader, { damage, count }: Findings): Promise<void> {
  for (const { what, ids, byId, parse } of TABLES) {
    const read = db.prepare<[number], DocumentRow>(byId);
    const keys = db.prepare<[], number>(ids).pluck().all();
    for (const key of keys) {
      const row = read.get(key);
      if (row && parse(row.text) !== row.parsed_json)
        damage(row.about, "its stored form, which is evaluated, does not match its text");
      await yieldToEventLoop();
    }
    if (keys.length > 0) count(what, keys.length);
  }
}
