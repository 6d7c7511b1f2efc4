/** Lists survive damaged records: an item that cannot be presented becomes a marked placeholder (semantics 9). */
import { LargeAnswerError } from "../http/answers/large-answers.ts";

/** Marks a placeholder of a damaged record. */
export const UNREADABLE = "This record is damaged and cannot be shown. Tell the operator of the server its name";

/** Thrown while presenting a row that no longer fits into the response; its placeholder gives the reason. */
export class ResponseFullError extends Error {
  readonly reason = "The list is too long to show this record: ask for smaller pages, or read the record alone";
}

/** An answer that is too large for the main thread is made elsewhere: none of its records is damaged. */
export function rethrowLarge(error: unknown): void {
  if (error instanceof LargeAnswerError) throw error;
}

/** As presentOneByOne, all of them at once. */
export const presentEach = <Row, Item>(
  rows: Iterable<Row>,
  present: (row: Row) => Item,
  placeholder: (row: Row, reason: string) => Item,
): Item[] => [...presentOneByOne(rows, present, placeholder)];

/**
 * Presents the rows of a list while it is written; a row whose presentation fails becomes a placeholder.
 * @param placeholder gets the text that says why the record is not shown
 */
export function* presentOneByOne<Row, Item>(
  rows: Iterable<Row>,
  present: (row: Row) => Item,
  placeholder: (row: Row, reason: string) => Item,
): Generator<Item, void, undefined> {
  for (const row of rows) {
    let item: Item;
    try {
      item = present(row);
    } catch (error) {
      rethrowLarge(error);
      item = placeholder(row, reasonOf(error));
    }
    yield item;
  }
}

/** What a placeholder says of the error that its record caused. */
export const reasonOf = (error: unknown): string => (error instanceof ResponseFullError ? error.reason : UNREADABLE);
