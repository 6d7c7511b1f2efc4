/**
 * Which operations answer a path that several patterns match. The most specific pattern (route-order.ts) has it for the
 * methods that it takes. A more general one goes on to answer for the others, unless the path has a literal of the
 * specific pattern in a place where the general one has a parameter, and that literal can be no value of the parameter:
 * `environments` is no action number.
 */
import { Type } from "typebox";
import type { TSchema } from "typebox";
import type { AnyOperation } from "./operation.ts";
import { literalsUnder } from "./route-order.ts";
import { validate } from "./validate.ts";

/**
 * By operation, then by the most specific path. There are as many entries as there are overlapping pairs of patterns.
 */
const accepted = new WeakMap<object, Map<string, boolean>>();

/**
 * Whether an operation answers a path that its pattern matches, as far as the path alone decides.
 * @param mostSpecific the first pattern, in route order, that matches the path
 * @param params the decoded parameters of this operation in the path; only looked at where the operation asks for them
 */
export function canAnswer<Context>(
  operation: AnyOperation<Context>,
  mostSpecific: string,
  params: () => Readonly<Record<string, string>>,
): boolean {
  if (operation.path !== mostSpecific && !acceptsLiterals(operation, mostSpecific)) return false;
  return operation.matchesParams?.(params()) ?? true;
}

function acceptsLiterals<Context>(operation: AnyOperation<Context>, special: string): boolean {
  let known = accepted.get(operation);
  if (known === undefined) accepted.set(operation, (known = new Map()));
  let isAccepted = known.get(special);
  if (isAccepted === undefined) {
    const shapes = operation.params.properties as Record<string, TSchema>;
    isAccepted = Object.entries(literalsUnder(special, operation.path)).every(([name, literal]) =>
      canBe(shapes[name], literal),
    );
    known.set(special, isAccepted);
  }
  return isAccepted;
}

/**
 * Whether a parameter of the path can have that value. `x-reserved` lists words that its shape lets pass and nothing is
 * called.
 */
function canBe(shape: TSchema | undefined, literal: string): boolean {
  if (shape === undefined) return false;
  const { "x-reserved": reserved = [] } = shape as { "x-reserved"?: readonly string[] };
  return (
    !reserved.includes(literal) &&
    validate(Type.Object({ value: shape }), { value: literal }, { mode: "coercing", root: "path" }) === null
  );
}
