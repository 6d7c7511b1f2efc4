/** @throws RangeError unless `start` and `end` (inclusive; undefined: to the end) are byte offsets in this order */
export function assertRange(start: number, end: number | undefined): void {
  if (!isOffset(start) || (end !== undefined && (!isOffset(end) || end < start)))
    throw new RangeError(`bytes ${start} to ${end ?? "the end"} are not a range`);
}

const isOffset = (value: number): boolean => Number.isSafeInteger(value) && value >= 0;
