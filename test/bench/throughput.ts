// The lines of lines.ts: requests over 32 connections to the executable, compared with the bare server in alternating
// slices.
import { ms, percent } from "./print.ts";
import type { Line } from "./lines.ts";
import type { Server } from "./processes.ts";
import { interleave } from "./slices.ts";
import type { Extent, Measured } from "./slices.ts";
import { judge } from "./targets.ts";

/** Measures a line and prints it. @returns the figures of Assay */
export async function compare(
  line: Line,
  { baseline, assay }: { baseline: Server; assay: Server },
  extent: Extent,
): Promise<Measured> {
  const sides = [
    { server: baseline, work: line.baseline },
    { server: assay, work: line.assay },
  ];
  const [bare, own] = (await interleave(sides, extent)) as [Measured, Measured];
  console.log(`\n${line.title}`);
  judge(`${line.title}, req/s to bare`, own.perSecond / bare.perSecond, line.ratio);
  judge(`${line.title}, processor time to bare`, bare.all / own.all, line.processor);
  for (const [name, measured] of [["assay", own] as const, ["bare", bare] as const]) {
    console.log(`    ${name.padEnd(6)}${describe(measured)}`);
  }
  console.log(
    `    assay, each request: ${own.calls.toFixed(1)} read and write calls, ` +
      `${(own.written / 1000).toFixed(1)} KB written to storage`,
  );
  return own;
}

/** Throughput and processor time as text. */
export function describe({ perSecond, p50, p99, main, all, driver, beside }: Measured): string {
  const mixed = beside > 0 ? `; ${percent(beside)} of all requests write, processor time is that of both kinds` : "";
  return (
    `${Math.round(perSecond)} req/s (p50 ${ms(p50)}, p99 ${ms(p99)}), processor time ${Math.round(main)} us ` +
    `main thread, ${Math.round(all)} us all threads; driver ${percent(driver)} of a core${mixed}`
  );
}
