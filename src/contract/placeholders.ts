/** The mark of a list item whose record cannot be shown. */
export const UNREADABLE = "This record is damaged and cannot be shown. Tell the operator of the server its name";

/** Thrown while a row is presented that no longer fits into the answer; its placeholder says so. */
export class AnswerFullError extends Error {
  readonly mark = "The list is too long to show this record: ask for smaller pages, or read the record alone";
}

/**
 * Presents the rows of a list; a row that cannot be presented becomes a placeholder, so that it never fails the list
 * (semantics 9).
 * @param placeholder gets the text that says why the record is not shown
 */
export function presentEach<Row, Item>(
  rows: Iterable<Row>,
  present: (row: Row) => Item,
  placeholder: (row: Row, mark: string) => Item,
): Item[] {
  return Array.from(rows, (row) => {
    try {
      return present(row);
    } catch (error) {
      return placeholder(row, error instanceof AnswerFullError ? error.mark : UNREADABLE);
    }
  });
}
