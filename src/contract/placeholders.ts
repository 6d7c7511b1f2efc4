/** Lists survive damaged records: an item that cannot be presented becomes a marked placeholder (semantics 9). */

/** Marks a placeholder of a damaged record. */
export const UNREADABLE = "This record is damaged and cannot be shown. Tell the operator of the server its name";

/** Thrown while presenting a row that no longer fits into the response; its placeholder gives the reason. */
export class ResponseFullError extends Error {
  readonly reason = "The list is too long to show this record: ask for smaller pages, or read the record alone";
}

/**
 * Presents the rows of a list; a row whose presentation fails becomes a placeholder.
 * @param placeholder gets the text that says why the record is not shown
 */
export function presentEach<Row, Item>(
  rows: Iterable<Row>,
  present: (row: Row) => Item,
  placeholder: (row: Row, reason: string) => Item,
): Item[] {
  return Array.from(rows, (row) => {
    try {
      return present(row);
    } catch (error) {
      return placeholder(row, reasonOf(error));
    }
  });
}

/** What a placeholder says of the error that its record caused. */
export const reasonOf = (error: unknown): string => (error instanceof ResponseFullError ? error.reason : UNREADABLE);
