/**
 * Bodies that report are open at the top (newer-clients 3.2): a key that this server does not know is ignored and
 * counted, because one new key of a new client must not stop every pipeline. What looks like a slip of a person's
 * script is refused: it would bind evidence elsewhere.
 */
import type { TSchema } from "typebox";
import { clientOf } from "../../domain/network/client.ts";
import type { UnknownInput } from "../../domain/network/client.ts";
import { excerpt } from "../../domain/text/excerpt.ts";
import { findMistypedName } from "../../domain/text/near-names.ts";
import { invalid } from "../../errors.ts";
import type { FieldErrors } from "../../errors.ts";
import { IGNORES_UNKNOWN, MAX_UNKNOWN_KEYS } from "../schema.ts";

/** Characters of a name that are kept; no known key is that long. */
const MAX_KEY_CHARS = 64;

const knownKeysOf = (schema: TSchema): Record<string, unknown> =>
  (schema as { properties?: Record<string, unknown> }).properties ?? {};

/** The name as it is shown and stored: on one line, and short. */
export const excerptName = (name: string): string => excerpt(name, MAX_KEY_CHARS).slice(0, MAX_KEY_CHARS);

/**
 * Removes the keys of a body that its shape does not know, if the shape is open.
 * @param root what errors call the body as a whole
 * @returns the names of these keys (`excerptName`)
 * @throws AppError 400 for more of them than any client sends
 */
export function dropUnknownKeys(schema: TSchema, value: unknown, root: string): string[] {
  const isOpen = (schema as { [IGNORES_UNKNOWN]?: boolean })[IGNORES_UNKNOWN] === true;
  if (!isOpen || typeof value !== "object" || value === null || Array.isArray(value)) return [];
  const known = knownKeysOf(schema);
  const unknown = Object.keys(value).filter((key) => !Object.hasOwn(known, key));
  if (unknown.length > MAX_UNKNOWN_KEYS)
    throw invalid({ [root]: `Object should have at most ${MAX_UNKNOWN_KEYS} unknown keys` });
  for (const key of unknown) delete (value as Record<string, unknown>)[key];
  return unknown.map(excerptName);
}

/** What to say about ignored keys that look like a slip: those one or two letters away from a known key. */
export function findSlips(schema: TSchema, ignored: readonly string[]): FieldErrors | null {
  const known = Object.keys(knownKeysOf(schema));
  const slips = ignored.flatMap((key) => {
    const meant = findMistypedName(key, known);
    return meant === null ? [] : [[key, `Extra inputs are not permitted. Did you mean '${meant}'?`] as const];
  });
  return slips.length === 0 ? null : Object.fromEntries(slips);
}

/**
 * Refuses ignored keys that look like a slip, unless the Kosli CLI sent them: a program does not mistype.
 * @throws AppError 400 that names the key that was probably meant
 */
export function refuseSlips(schema: TSchema, ignored: readonly string[], userAgent: string | undefined): void {
  if (ignored.length === 0 || clientOf(userAgent).isKosli) return;
  const slips = findSlips(schema, ignored);
  if (slips) throw invalid(slips);
}

/** What is counted of the request that an ignored key came with. */
type KeySender = {
  membership: { organizationId: number } | null;
  operationId: string;
  userAgent?: string | undefined;
};

/** Counts keys that an operation ignored. @param keys as `dropUnknownKeys` returns them */
export function noteIgnoredKeys(
  note: (input: UnknownInput) => void,
  { membership, operationId, userAgent }: KeySender,
  keys: readonly string[],
): void {
  if (keys.length === 0) return;
  const client = clientOf(userAgent).name;
  const organizationId = membership?.organizationId ?? null;
  for (const name of keys) note({ organizationId, client, kind: "key", operation: operationId, name });
}
