/** Bundles of requests: their shape, their limits, and what the engine says about them. */
import { Type } from "typebox";
import { findBundleSizeProblem, findPathProblems } from "../../domain/rego/bundle.ts";
import type { RegoFiles } from "../../domain/rego/bundle.ts";
import { AppError, badRequest, invalid, unavailable } from "../../errors.ts";
import { RECORD_BOUNDS } from "../../http/operation.ts";
import type { BundleReport } from "../../rego/types.ts";
import { PoolClosedError, QueueFullError } from "../../workers/pool.ts";
import type { ReadingContext } from "../context.ts";

/** Sources as JSON text take up to six times their bytes; real ones take a tenth more. */
export const BUNDLE_BOUNDS = { ...RECORD_BOUNDS, bytes: 8 << 20, asText: [], keeps: { exact: [], counted: [] } };

export const Files = Type.Record(Type.String(), Type.String(), {
  minProperties: 1,
  description:
    "The source of each file by its path, which is relative, with `/` and without `..`. At most 100 files and " +
    "1,048,576 bytes of paths and sources",
});

/**
 * Checks paths and size of a bundle.
 * @param field path of the files in the body, for errors
 * @throws AppError 400 (newer-clients 4.4)
 */
export function requireValidBundle(files: RegoFiles, field: string): void {
  const entries = Object.entries(files);
  const bytes = entries.reduce((sum, [path, source]) => sum + Buffer.byteLength(path) + Buffer.byteLength(source), 0);
  const problem = findBundleSizeProblem(entries.length, bytes);
  if (problem !== null) throw badRequest(problem);
  const problems = new Map(findPathProblems(entries.map(([path]) => path)));
  for (const [path, source] of entries)
    if (!source.isWellFormed() || source.includes("\0")) problems.set(path, "The source is not valid text");
  if (problems.size > 0)
    throw invalid(Object.fromEntries([...problems].map(([path, text]) => [`${field}.${path.toWellFormed()}`, text])));
}

/**
 * What the engine finds in a bundle.
 * @throws AppError 400 `The policy is not valid`, with the engine's text by the kind of failure (newer-clients 5.3);
 *   unavailable when too many others are checked
 */
export async function checkBundle(context: ReadingContext, files: RegoFiles): Promise<BundleReport> {
  const outcome = await context.rego.check(files, { lane: context.principal.publicId }).catch((error: unknown) => {
    throw error instanceof QueueFullError || error instanceof PoolClosedError
      ? unavailable("Too many policies are being checked. Please try again", 5, error)
      : error;
  });
  if (outcome.ok) return outcome.value;
  const { kind, message } = outcome.error;
  throw new AppError("invalid", "The policy is not valid", { fields: { [kind]: message } });
}
