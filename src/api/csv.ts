/** Lists as CSV files of any size, for people who look through them in a spreadsheet. */
import { Readable } from "node:stream";
import { formatCsvLine } from "../domain/text/csv.ts";
import { nextTurn } from "../http/next-turn.ts";

/**
 * The stream of an answer: a line with the column names, then the lines. Records are written while they are read, and
 * between two slices the thread serves other requests.
 * @param options.slices reads one slice of records after the other, as lines
 */
export const csvStream = ({
  filename,
  columns,
  slices,
}: {
  filename: string;
  columns: readonly string[];
  slices(): Iterable<string>;
}) => ({
  contentType: "text/csv; charset=utf-8",
  filename,
  open: () => Readable.from(generateText(columns, slices())),
});

async function* generateText(columns: readonly string[], slices: Iterable<string>): AsyncGenerator<string> {
  yield formatCsvLine(columns);
  for (const slice of slices) {
    // Also where a filter leaves nothing of a slice: a disconnected client ends the generator only here.
    yield slice;
    await nextTurn();
  }
}
