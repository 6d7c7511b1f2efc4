/** Lists of names in bodies. */
import { excerpt } from "../domain/text/excerpt.ts";
import { AppError, invalid } from "../errors.ts";
import { TEXT_LENGTH } from "../contract/shapes.ts";

/** Of wrong names no more are told: an answer is a page. */
const MOST_PROBLEMS = 20;

/**
 * What a list of names stands for, in the order given; several names of one thing are that thing once.
 * @param keyOf the key of what has a name. @throws AppError invalid on `field` with the texts of all AppErrors of
 * `keyOf`.
 */
export function keysNamed(field: string, names: readonly string[], keyOf: (name: string) => number): number[] {
  const keys = new Set<number>();
  const problems: string[] = [];
  for (const name of new Set(names)) {
    if (problems.length === MOST_PROBLEMS) break;
    try {
      keys.add(keyOf(name));
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      problems.push(excerpt(`${error.message} [input: ${name}]`, TEXT_LENGTH));
    }
  }
  if (problems.length > 0) throw invalid({ [field]: problems.join("; ") });
  return [...keys];
}
