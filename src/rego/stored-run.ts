/** What the engine is given for a stored evaluation: the first time, and in every replay (newer-clients 7.3). */
import type { RegoEvaluationRow } from "../store/policies/rego-evaluations.ts";
import { unpackBundle } from "./bundle-archive.ts";
import type { RegoDocuments } from "./documents.ts";
import type { RegoFiles } from "../domain/rego/bundle.ts";
import type { RegoQuestion } from "./types.ts";

/**
 * Stored bundle, input and parameters, with the time and the seed of the request.
 * @throws Error for what cannot be read, and for an evaluation without an input
 */
export async function readOrder(
  documents: Pick<RegoDocuments, "read">,
  row: RegoEvaluationRow,
): Promise<{ files: RegoFiles; question: RegoQuestion }> {
  if (row.input_digest === null || row.input_bytes === null)
    throw new Error(`evaluation ${row.public_id} has no input`);
  return {
    files: await unpackBundle(await documents.read(row.bundle_digest)),
    question: {
      // Unpacked it may have 32 MB, for which only the engine takes memory.
      input: { packed: await documents.read(row.input_digest), bytes: row.input_bytes },
      params: row.params_json,
      timeNs: toNanoseconds(row.requested_at),
      seed: row.public_id,
    },
  };
}

/** Epoch seconds as nanoseconds. Microseconds are all that a double holds of today's times. */
export const toNanoseconds = (seconds: number): bigint => BigInt(Math.round(seconds * 1e6)) * 1_000n;
