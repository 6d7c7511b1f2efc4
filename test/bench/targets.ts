// What the measurements are judged by. Nothing fails: each value is printed beside its target, and at the end all of
// them in one table.
import { reached } from "./print.ts";

/** Two limits in the unit of the value, the second one for those who want more. */
export type Target = {
  bound: "at least" | "at most";
  reach: number;
  stretch: number;
  /** Printed behind the numbers. */
  unit: string;
};

export const atLeast = (reach: number, stretch: number): Target => ({ bound: "at least", reach, stretch, unit: "" });
export const atMost = (reach: number, stretch: number, unit: string): Target => ({
  bound: "at most",
  reach,
  stretch,
  unit,
});

const results: { title: string; value: string; target: string }[] = [];

/** Formats a value: two digits behind the point below ten, one below a hundred. */
export const number = (value: number): string => value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);

/** Prints a value beside its target, if it has one, and keeps it for the table at the end. */
export function judge(title: string, value: number, target: Target | null, detail = ""): void {
  const unit = target?.unit ?? "";
  const text = `${number(value)}${unit}`;
  results.push({ title, value: text, target: target ? describe(value, target) : "" });
  console.log(`  ${title.padEnd(72)} ${text.padStart(10)}  ${target ? describe(value, target) : ""}`.trimEnd());
  if (detail !== "") console.log(`      ${detail}`);
}

/** A result without a number: why it is missing. */
export function skip(title: string, reason: string): void {
  results.push({ title, value: "skipped", target: reason });
  console.log(`  ${title}: skipped, ${reason}`);
}

function describe(value: number, { bound, reach, stretch, unit }: Target): string {
  const meets = (limit: number): boolean => (bound === "at least" ? value >= limit : value <= limit);
  const verdict = meets(stretch) ? "reached, and the further one" : reached(meets(reach));
  return `${bound} ${reach}${unit} (${stretch}): ${verdict}`;
}

/** Prints all values of this run again, one line each. */
export function printResults(): void {
  if (results.length === 0) return;
  console.log("\nAll values; a target is followed by a further one in brackets");
  for (const { title, value, target } of results)
    console.log(`  ${title.padEnd(72)} ${value.padStart(10)}  ${target}`.trimEnd());
}
