/** @throws RangeError unless `start` and `end` (inclusive; undefined: to the end) are byte offsets in this order */
export function assertRange(start: number, end: number | undefined): void {
  if (!isOffset(start) || (end !== undefined && (!isOffset(end) || end < start)))
    throw new RangeError(`bytes ${start} to ${end ?? "the end"} are not a range`);
}

const isOffset = (value: number): boolean => Number.isSafeInteger(value) && value >= 0;

/**
 * A range of a file up to this size is sent only after the whole file was compared with its digest: a hundredth of a
 * second, once while the file stays the same. Ranges of larger files are not checked.
 */
export const MAX_CHECKED_RANGE_BYTES = 4 * 1_048_576;
