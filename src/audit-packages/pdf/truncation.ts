/** A list that was cut never looks complete: a warning says what part of it the report shows. */
import type { Sample } from "../report.ts";
import type { Sheet } from "./sheet.ts";

/** `items`: plural noun; `file`: the member of the package that has the whole list. */
type CutList = { shown: number; total: number; part: "first" | "last"; items: string; file: string };

export function warnIfCut(sheet: Sheet, { shown, total, part, items, file }: CutList): void {
  if (shown < total)
    sheet.warning(`Only the ${part} ${shown} of ${total} ${items} are shown`, [
      `${file} in the audit package has the complete list.`,
    ]);
}

/** The same for a sample, which keeps the last items. */
export const warnIfSampled = (
  sheet: Sheet,
  { items: shown, total }: Sample<unknown>,
  list: { items: string; file: string },
): void => warnIfCut(sheet, { ...list, shown: shown.length, total, part: "last" });
