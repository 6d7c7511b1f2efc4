/** What a judge says of one report. `reasons` is plain English, empty exactly when the report is compliant. */
export type AttestationVerdict = { isCompliant: boolean; reasons: string[] };

/** A judgement that is compliant unless there are reasons against it. */
export function verdictFromReasons(reasons: string[]): AttestationVerdict {
  return { isCompliant: reasons.length === 0, reasons };
}

/** `1 failure`, `2 failures`: a count with its noun, for reasons. */
export function formatCount(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
