// The layout of the output.
export const percent = (share: number): string => `${Math.round(share * 100)}%`;
export const reached = (good: boolean): string => (good ? "reached" : "missed");
export const ms = (value: number): string => `${value.toFixed(1)} ms`;
export const kilobytes = (bytes: number): string => `${(bytes / 1000).toFixed(1)} KB`;

export const row = (cells: readonly (string | number)[]): void =>
  console.log(cells.map((cell, index) => (index === 0 ? String(cell).padEnd(27) : String(cell).padStart(10))).join(""));

/**
 * A line of the runtime part: the measurement, and whether it reached its target, if any. `detail` is printed below.
 */
export function figure(
  title: string,
  value: string,
  detail: string,
  target: { text: string; good: boolean } | null = null,
): void {
  console.log(
    title.padEnd(52) + value.padStart(12) + (target ? `${target.text.padStart(14)}  ${reached(target.good)}` : ""),
  );
  if (detail !== "") console.log(`    ${detail}`);
}
