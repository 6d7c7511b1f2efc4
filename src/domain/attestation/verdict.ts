/** The verdict on one report. `reasons` are in plain English and empty exactly when the report is compliant. */
export type AttestationVerdict = { isCompliant: boolean; reasons: string[] };

/** The verdict that follows from the reasons against a report: compliant without any. */
export function verdictFromReasons(reasons: string[]): AttestationVerdict {
  return { isCompliant: reasons.length === 0, reasons };
}

/** A count with its noun, for reasons: `1 failure`, `2 failures`. */
export function formatCount(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
