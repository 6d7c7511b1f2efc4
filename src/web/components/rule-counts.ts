/** How many rules of a policy fail or hold, counted in one way on all pages. */

/** A rule as explanations and asserts have it; `satisfied` is null where it does not apply. */
type CountedRule = { rule: { definition: object }; satisfied: boolean | null };

/** Whether a rule demands anything: policies also list what they do not require. */
export const isInForce = ({ rule: { definition } }: CountedRule): boolean =>
  !("required" in definition) || definition.required === true;

/** `2 of 6 rules fail`, `4 of 4 rules hold`. @param rules those in force */
export function countRules(rules: readonly CountedRule[]): string {
  const failing = rules.filter(({ satisfied }) => satisfied === false).length;
  const holding = rules.filter(({ satisfied }) => satisfied === true).length;
  const noun = rules.length === 1 ? "rule" : "rules";
  if (rules.length === 0) return "no rules";
  if (failing > 0) return `${failing} of ${rules.length} ${noun} ${failing === 1 ? "fails" : "fail"}`;
  if (holding === 0) return rules.length === 1 ? "its rule does not apply" : `none of ${rules.length} rules applies`;
  return `${holding} of ${rules.length} ${noun} ${holding === 1 ? "holds" : "hold"}`;
}
