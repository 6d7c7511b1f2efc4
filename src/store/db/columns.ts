/**
 * The columns of a table, written once: a literal of names and types, from which both the row type and the select list
 * follow.
 *
 *     const ROLE = { id: number, name: string, ended_at: orNull(number) };
 *     type RoleRow = RowOf<typeof ROLE>;
 *     db.prepare<[number], RoleRow>(`SELECT ${selectList(ROLE)} FROM roles WHERE id = ?`);
 *
 * Left out: rows that a join or an expression makes, which have a type and SQL of their own, and a query builder. SQL
 * is read as SQL.
 */

/** The type of a column in rows. Only the type checker uses it. */
type Column<T> = { readonly type?: T };

export const number: Column<number> = {};
export const string: Column<string> = {};
export const flag: Column<0 | 1> = {};
/** A text of which only some occur. */
export const stringOf = <T extends string>(): Column<T> => ({});
export const orNull = <T>(column: Column<T>): Column<T | null> => column;

export type Columns = Readonly<Record<string, Column<unknown>>>;
export type RowOf<C extends Columns> = { -readonly [K in keyof C]: C[K] extends Column<infer T> ? T : never };

/** The columns in the order of the literal. */
export const namesOf = <C extends Columns>(columns: C) => Object.keys(columns) as (keyof C & string)[];

/** The select list for a query. @param alias that of the table in the query */
export const selectList = (columns: Columns, alias?: string): string =>
  namesOf(columns)
    .map((name) => (alias === undefined ? name : `${alias}.${name}`))
    .join(", ");
