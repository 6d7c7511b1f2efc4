/** Numbers and times as people read them, in the report and in README.txt. */
import { describeNoDate, isCalendarTime } from "../domain/time.ts";

/** `2026-01-31 12:00:00 UTC`. @param seconds epoch seconds */
export const formatTime = (seconds: number): string =>
  isCalendarTime(seconds)
    ? `${new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`
    : describeNoDate(seconds);

/** Bytes in the largest decimal unit that fits. */
export function formatBytes(bytes: number): string {
  if (bytes < 1_000) return `${bytes} bytes`;
  const [unitBytes, unit] = bytes < 1e6 ? [1e3, "kB"] : bytes < 1e9 ? [1e6, "MB"] : [1e9, "GB"];
  return `${(bytes / unitBytes).toFixed(1)} ${unit}`;
}

/** A count with its noun, for nouns whose plural ends in "s". */
export const pluralize = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;
