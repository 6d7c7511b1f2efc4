// The lines of lines.ts: requests over 32 connections to the executable, compared with the bare server in alternating
// slices.
import { ms, percent } from "./print.ts";
import { BARE_READ, READS, TRAIL_READ, WRITE } from "./lines.ts";
import type { Line } from "./lines.ts";
import { drive } from "./load.ts";
import type { Server } from "./processes.ts";
import { CONNECTIONS, interleave } from "./slices.ts";
import type { Extent, Measured, Work } from "./slices.ts";
import { atLeast, atMost, judge } from "./targets.ts";
import { SMALL_FLOWS, TRAILS, spreadAttestation } from "./world.ts";

/** Single reads that follow a write to their trail, by the names of their lines for `--only`. */
export const UNCACHED: Readonly<Record<string, Work>> = Object.fromEntries(
  Object.entries({ ...READS, trail: TRAIL_READ }).map(([name, work]) => [`${name}, trail just rewritten`, work]),
);

/** @returns a function that writes an attestation to each trail, and waits for all of them */
export function createRewriter(url: string): () => Promise<unknown> {
  let written = 0;
  return () => {
    const last = written + TRAILS;
    const next = (): Buffer | null => (written < last ? WRITE.next(written++) : null);
    return drive({ url, connections: CONNECTIONS, expect: WRITE.expect, next });
  };
}

/** The name of a line for `--only`. */
export const SPREAD = `attestation over ${SMALL_FLOWS} flows`;

/** Measures a line and prints it. */
export async function compare(
  line: Line,
  { baseline, assay }: { baseline: Server; assay: Server },
  extent: Extent,
): Promise<void> {
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
  if (line.assay === WRITE) judge("attestation, written to storage", own.written / 1000, atMost(40, 20, " KB"));
  console.log(
    `    assay, each request: ${own.calls.toFixed(1)} read and write calls, ` +
      `${(own.written / 1000).toFixed(1)} KB written to storage`,
  );
}

/** The same attestations into one flow of a thousand trails, and into a thousand flows of one trail each. */
export async function compareSpread(server: Server, extent: Extent): Promise<void> {
  const into = (over: "small flows" | "large flow"): Work => ({
    expect: 201,
    next: (n) => spreadAttestation(n, over),
  });
  const [one, many] = (await interleave(
    [
      { server, work: into("large flow") },
      { server, work: into("small flows") },
    ],
    extent,
  )) as [Measured, Measured];
  console.log(`\n${SPREAD}`);
  judge(`${SPREAD}, processor time to one flow`, many.all / one.all, atMost(1.15, 1.05, "x"));
  console.log(`    one flow   ${describe(one)}\n    many flows ${describe(many)}`);
}

/**
 * Single reads that no cache can answer, because their trails were written since: each slice reads every trail or
 * artifact once, and before it, unmeasured, an attestation is written to each trail. The reads have slices of their own
 * so that their processor time needs no subtraction.
 */
export async function compareUncached(
  { baseline, assay }: { baseline: Server; assay: Server },
  rounds: number,
  only: RegExp,
): Promise<void> {
  const before = createRewriter(assay.url);
  for (const [title, work] of Object.entries(UNCACHED)) {
    if (!only.test(title)) continue;
    const [bare, own] = (await interleave(
      [
        { server: baseline, work: BARE_READ },
        { server: assay, work, before },
      ],
      { rounds, requests: TRAILS },
    )) as [Measured, Measured];
    console.log(`\n${title}`);
    judge(`${title}, main thread to bare`, bare.main / own.main, atLeast(0.25, 0.4));
    console.log(`    assay ${describe(own)}\n    bare  ${describe(bare)}`);
  }
}

/** Throughput and processor time as text. */
export function describe({ perSecond, p50, p99, main, all, driver, beside }: Measured): string {
  const mixed = beside > 0 ? `; ${percent(beside)} of all requests write, processor time is that of both kinds` : "";
  return (
    `${Math.round(perSecond)} req/s (p50 ${ms(p50)}, p99 ${ms(p99)}), processor time ${Math.round(main)} us ` +
    `main thread, ${Math.round(all)} us all threads; driver ${percent(driver)} of a core${mixed}`
  );
}
