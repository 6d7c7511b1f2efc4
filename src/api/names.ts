/** Lists of names in request bodies. */
import { excerpt } from "../domain/text/excerpt.ts";
import { AppError, invalid } from "../errors.ts";
import { MAX_TEXT_CHARS } from "../contract/shapes.ts";

/** Wrong names that one error message lists: more than a page helps no reader. */
const MAX_PROBLEMS = 20;

/**
 * Resolves a list of names to keys, in the given order; several names of one record give its key once.
 * @param requireKey the key of the record with that name
 * @throws AppError invalid on `field`, with the messages of the AppErrors that `requireKey` threw
 */
export function resolveNames(field: string, names: readonly string[], requireKey: (name: string) => number): number[] {
  const keys = new Set<number>();
  const problems: string[] = [];
  for (const name of new Set(names)) {
    if (problems.length === MAX_PROBLEMS) break;
    try {
      keys.add(requireKey(name));
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      problems.push(excerpt(`${error.message} [input: ${name}]`, MAX_TEXT_CHARS));
    }
  }
  if (problems.length > 0) throw invalid({ [field]: problems.join("; ") });
  return [...keys];
}
