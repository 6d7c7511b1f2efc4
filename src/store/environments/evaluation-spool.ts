/**
 * The evaluations of a plan on their way to their rows, in the order of the plan. A plan may have a hundred thousand of
 * them, each with the facts of a trail of any length: all but the latest megabyte wait in a temporary file.
 */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import type { Facts } from "../../domain/compliance/environment.ts";
import { freeBytesSync } from "../db/disk-space.ts";
import { openSpool } from "../spool.ts";
import type { Spool } from "../spool.ts";
import type { TemporaryFiles } from "../db/types.ts";

/**
 * Facts, verdicts and reasons as JSON without line breaks, as evaluations store them. Facts to which deployments will
 * be added are texts only once they were in the file: until then that would be work done twice.
 */
export type EvaluationTexts = { facts: Facts | string; verdictsJson: string; reasonsJson: string };

export type EvaluationSpool = {
  /** @throws the system's error, ENOSPC also where the file would use up the reserve of the disk */
  write(evaluation: EvaluationTexts): void;
  /** All that was written, in that order. */
  read(): Generator<EvaluationTexts, void, undefined>;
  /** Frees the disk space. Nothing may be written or read any more. Further calls do nothing. */
  close(): void;
};

/** Characters that are kept in memory until they are written to the file in one go. */
const MAX_HELD_CHARS = 1 << 20;
/** Estimates for facts that were not written as text: of a flow without its reasons, and of a candidate. */
const FLOW_CHARS = 500;
const CANDIDATE_CHARS = 250;

/** @param files where the file is made, once there is more than memory holds; null keeps everything in memory */
export function createEvaluationSpool(files: TemporaryFiles | null): EvaluationSpool {
  let spool: Spool | null = null;
  /** The ends of the blocks in the file. A block is whole evaluations, one text in a line. */
  const ends: number[] = [];
  let held: EvaluationTexts[] = [];
  let heldChars = 0;

  function writeBlock({ directory, reserveBytes }: TemporaryFiles): void {
    const block = Buffer.from(held.flatMap(linesOf).join("\n"));
    if (freeBytesSync(directory) - block.length < reserveBytes)
      throw Object.assign(new Error("no space is left for the evaluations of a report"), { code: "ENOSPC" });
    spool ??= openSpool(join(directory, `evaluations-${randomUUID()}`));
    spool.write(block);
    ends.push(spool.size);
    [held, heldChars] = [[], 0];
  }

  return {
    write(evaluation) {
      held.push(evaluation);
      heldChars += charsOf(evaluation.facts) + evaluation.verdictsJson.length + evaluation.reasonsJson.length;
      if (files && heldChars > MAX_HELD_CHARS) writeBlock(files);
    },
    *read() {
      let start = 0;
      for (const end of ends) {
        yield* evaluationsOf(readBlock(spool as Spool, start, end).split("\n"));
        start = end;
      }
      yield* held;
    },
    close() {
      spool?.close();
      spool = null;
      held = [];
    },
  };
}

function readBlock(spool: Spool, start: number, end: number): string {
  const block = Buffer.allocUnsafe(end - start);
  let filled = 0;
  for (const part of spool.read(start, end)) {
    block.set(part, filled);
    filled += part.length;
  }
  return block.toString();
}

function charsOf(facts: Facts | string): number {
  if (typeof facts === "string") return facts.length;
  let chars = 0;
  for (const { candidates, reasons } of facts.flows) {
    chars += FLOW_CHARS + candidates.length * CANDIDATE_CHARS;
    for (const reason of reasons) chars += reason.length;
  }
  return chars;
}

/** The facts as their row stores them. */
export const textOfFacts = (facts: Facts | string): string =>
  typeof facts === "string" ? facts : JSON.stringify(facts);

const linesOf = ({ facts, verdictsJson, reasonsJson }: EvaluationTexts): string[] => [
  textOfFacts(facts),
  verdictsJson,
  reasonsJson,
];

function* evaluationsOf(lines: readonly string[]): Generator<EvaluationTexts, void, undefined> {
  for (let index = 0; index < lines.length; index += 3) {
    const [facts, verdictsJson, reasonsJson] = lines.slice(index, index + 3) as [string, string, string];
    yield { facts, verdictsJson, reasonsJson };
  }
}
