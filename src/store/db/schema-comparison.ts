/**
 * Compares the objects of a database (tables, indexes, triggers, views) with those that its schema version has. An
 * object more can change what every write does: a trigger may make each new member an admin.
 */
import type { DbReader } from "./types.ts";

/** What differs: `about` is the object, such as "trigger promote", and `problem` says how. */
export type SchemaProblem = { about: string; problem: string };

/** A row of sqlite_schema. `sql` is null for the index that SQLite creates for a UNIQUE or PRIMARY KEY. */
type SchemaObject = { type: string; name: string; tableName: string; sql: string | null };

/** All objects by type and name. Temporary ones belong to a connection and are not among them. */
export const listSchemaObjects = (db: DbReader): SchemaObject[] =>
  db
    .prepare<[], SchemaObject>(
      // A forged row may hold a blob, which SQLite reads as text.
      `SELECT CAST(type AS TEXT) AS type, CAST(name AS TEXT) AS name, CAST(tbl_name AS TEXT) AS tableName,
              CAST(sql AS TEXT) AS sql
       FROM sqlite_schema ORDER BY type, name`,
    )
    .all();

/**
 * Compares two databases' objects, as `listSchemaObjects` returns them. SQLite believes the SQL of a row and not its
 * name, and so a row that names an object a second time is another one.
 */
export function compareSchemas(actual: readonly SchemaObject[], expected: readonly SchemaObject[]): SchemaProblem[] {
  const problems: SchemaProblem[] = [];
  const rest = new Map(expected.map((object) => [nameOf(object), object]));
  for (const object of actual) {
    const about = nameOf(object);
    const known = rest.get(about);
    rest.delete(about);
    if (known !== undefined && !isSame(object, known))
      problems.push({ about, problem: "differs from the definition in this program" });
    if (known === undefined && !isAccepted(object))
      problems.push({ about, problem: "was not created by this program" });
  }
  for (const about of rest.keys()) problems.push({ about, problem: "is missing" });
  return problems;
}

const nameOf = ({ type, name }: SchemaObject): string => `${type} ${name}`;

/** Comments and layout do not count, because a migrated table keeps those of the version that created it. */
function isSame(a: SchemaObject, b: SchemaObject): boolean {
  if (a.tableName !== b.tableName) return false;
  if (a.sql === b.sql) return true;
  return a.sql !== null && b.sql !== null && tokensOf(a.sql) === tokensOf(b.sql);
}

/**
 * The tables of ANALYZE, and those that Litestream creates in a database that it replicates, with its indexes on them.
 * Names and types of columns alone: REFERENCES could forbid the deletion of our rows, and CHECK runs an expression.
 */
const ACCEPTED: readonly RegExp[] = [
  /^CREATE TABLE (?:sqlite_stat[1-4]|_litestream_\w+) \( \w+(?: \w+)?(?: PRIMARY KEY)?(?: , \w+(?: \w+)?)* \)$/,
  /^CREATE INDEX _litestream_\w+ ON _litestream_\w+ \( \w+(?: , \w+)* \)$/,
];

const isAccepted = ({ sql }: SchemaObject): boolean => {
  const definition = tokensOf(sql ?? "");
  return ACCEPTED.some((pattern) => pattern.test(definition));
};

/** A literal and a quoted name are one token each: "--" in them begins no comment. */
const TOKEN = new RegExp(
  [
    /[xX]?'(?:[^']|'')*'/,
    /"(?:[^"]|"")*"/,
    /`(?:[^`]|``)*`/,
    /\[[^\]]*\]/,
    /--[^\n]*/,
    /\/\*[^]*?(?:\*\/|$)/,
    /[\w$\u0080-\uffff]+/,
    /\s+/,
    /[^]/,
  ]
    .map(({ source }) => source)
    .join("|"),
  "g",
);

const tokensOf = (sql: string): string =>
  [...sql.matchAll(TOKEN)]
    .map(([token]) => token)
    .filter((token) => !/^(?:--|\/\*|\s)/.test(token))
    .join(" ");
