/**
 * Which operations answer a path that several patterns match. The most specific pattern (route-order.ts) answers the
 * methods that it declares. A more general pattern answers the other methods, unless a literal of the specific pattern
 * is not a valid value for the parameter in its place: `environments` is not an action number.
 */
import { Type } from "typebox";
import type { TSchema } from "typebox";
import type { AnyOperation } from "../operation.ts";
import { literalsUnder } from "./route-order.ts";
import { validate } from "../validate.ts";

/** By operation, then by the most specific path: one entry for each pair of overlapping patterns. */
const acceptance = new WeakMap<object, Map<string, boolean>>();

/**
 * Whether an operation whose pattern matches a path also answers it; the path alone decides.
 * @param mostSpecific the first pattern, in route order, that matches the path
 * @param params gives the decoded path parameters; called only if the operation has `matchesParams`
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
  let known = acceptance.get(operation);
  if (known === undefined) acceptance.set(operation, (known = new Map()));
  let isAccepted = known.get(special);
  if (isAccepted === undefined) {
    const shapes = operation.params.properties as Record<string, TSchema>;
    isAccepted = Object.entries(literalsUnder(special, operation.path)).every(([name, literal]) =>
      acceptsValue(shapes[name], literal),
    );
    known.set(special, isAccepted);
  }
  return isAccepted;
}

/**
 * Whether a path parameter can have that value. `x-reserved` lists words that fit the shape but never name anything.
 */
function acceptsValue(shape: TSchema | undefined, literal: string): boolean {
  if (shape === undefined) return false;
  const { "x-reserved": reserved = [] } = shape as { "x-reserved"?: readonly string[] };
  return (
    !reserved.includes(literal) &&
    validate(Type.Object({ value: shape }), { value: literal }, { mode: "coercing", root: "path" }) === null
  );
}
