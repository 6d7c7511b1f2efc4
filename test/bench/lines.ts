// The kinds of requests whose throughput is compared with the bare server, with their targets.
import { get, sendJson } from "./load.ts";
import type { Work } from "./slices.ts";
import { atLeast } from "./targets.ts";
import type { Target } from "./targets.ts";
import { ENVIRONMENT, TRAILS, artifactPath, assertPath, attestation, read, report, trailPath } from "./world.ts";

/** `ratio` is that of requests per second to the bare server, `processor` that of processor time of all threads. */
export type Line = {
  title: string;
  ratio: Target | null;
  processor: Target | null;
  baseline: Work;
  assay: Work;
};

/** Of these connections write while the others read. */
const WRITERS = 4;
const ATTACHMENT_BYTES = 1024;

const attachment = Buffer.alloc(ATTACHMENT_BYTES, "e");
let lastAttachment = 0;
/** Unique content: an upload of existing content costs no file. */
function freshAttachment(): Buffer {
  attachment.write(`${++lastAttachment} `);
  return attachment;
}

let lastQuestion = 0;
/**
 * An assert in scope environment under a new address with one of a few meanings: letters are written literally or as
 * %XX, so that the answer is not found in a cache.
 */
export function freshQuestion(): Buffer {
  const spelling = Math.floor(++lastQuestion / TRAILS);
  const environment = [...ENVIRONMENT]
    .map((letter, place) => ((spelling >> place) & 1 ? `%${letter.charCodeAt(0).toString(16)}` : letter))
    .join("");
  return read(assertPath(lastQuestion % TRAILS, { environment }));
}

const NAMES = ["unit-tests", "review", "scan", "pull-request"] as const;
const nameOf = (n: number): string => NAMES[Math.floor(n / TRAILS) % NAMES.length] ?? "review";

/** Reads of one resource, and what the bare server reads for each. */
export const BARE_READ: Work = { expect: 200, next: (n) => get(`/rows/row-${n % 1000}`, "none") };
const BARE_WRITE: Work = {
  expect: 201,
  next: (n) => sendJson("POST", "/rows", "none", report(n % TRAILS, nameOf(n))),
};
/** A generic attestation of 1 KB: round all trails, under one of four names. */
export const WRITE: Work = { expect: 201, next: (n) => attestation(n % TRAILS, nameOf(n), null) };
/** ... with an attachment of 1 KB. */
export const WRITE_WITH_FILE: Work = {
  expect: 201,
  next: (n) => attestation(n % TRAILS, nameOf(n), freshAttachment()),
};

const reading = (pathOf: (trail: number) => string): Work => ({
  expect: 200,
  next: (n) => read(pathOf(n % TRAILS)),
});
export const TRAIL_READ = reading(trailPath);
/** The other single reads, by their name in the tables. */
export const READS: Readonly<Record<string, Work>> = {
  "artifact by fingerprint": reading(artifactPath),
  "assert, scope flow": reading((trail) => assertPath(trail, null)),
  "assert, scope policy": reading((trail) => assertPath(trail, { policy: "production" })),
  "assert, scope environment": reading((trail) => assertPath(trail, { environment: ENVIRONMENT })),
};

const withWriters = (work: Work, writes: Work): Work => ({ ...work, beside: { ...writes, connections: WRITERS } });

/** In the order of measurement: nothing has been written when the first ones are. */
export const LINES: readonly Line[] = [
  ...Object.entries(READS).map(([title, assay]) => ({
    title: `${title}, nothing written`,
    ratio: title.startsWith("artifact") ? atLeast(0.5, 0.7) : atLeast(0.4, 0.7),
    processor: null,
    baseline: BARE_READ,
    assay,
  })),
  {
    title: "attestation",
    ratio: atLeast(0.4, 0.55),
    processor: atLeast(0.35, 0.5),
    baseline: BARE_WRITE,
    assay: WRITE,
  },
  {
    title: "attestation with 1 KB of evidence",
    ratio: atLeast(0.3, 0.5),
    processor: null,
    baseline: BARE_WRITE,
    assay: WRITE_WITH_FILE,
  },
  ...Object.entries(READS).map(([title, assay]) => ({
    title: `${title}, beside ${WRITERS} that write`,
    ratio: atLeast(0.45, 0.7),
    processor: null,
    baseline: withWriters(BARE_READ, BARE_WRITE),
    assay: withWriters(assay, WRITE),
  })),
];
