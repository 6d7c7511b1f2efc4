/**
 * The one adapter between what clients send about Rego policies and evaluations, and what the operations take
 * (newer-clients 5.4): no public text says how clients newer than v2.43.1 spell it.
 */
import { isObject } from "../../domain/stored-json.ts";

const RESPELLED_ROOT = /^\/rego_policies(?=\/|$)/;

/** A path below the API in the spelling of the operations. */
export const respellPath = (path: string): string => path.replace(RESPELLED_ROOT, "/rego-policies");

const PINNED = /^(?<identifier>[^@]+)@v?(?<version>\d+)$/;
const VERSION = /^v?(?<number>[1-9]\d{0,14})$/;

/** A version as an integer; what is not one stays, for the validation to name. */
function parseVersion(value: unknown): unknown {
  const number = typeof value === "string" ? VERSION.exec(value)?.groups?.["number"] : undefined;
  return number === undefined ? value : Number(number);
}

/** The number of a version in a path or query: `2` or `v2`; null for anything else. */
export function parseVersionText(text: string): number | null {
  const value = parseVersion(text);
  return typeof value === "number" ? value : null;
}

/** `ID@vN` as its parts. Where `version` is another one, it becomes a text that the validation refuses. */
function splitPinned(policy: Record<string, unknown>): Record<string, unknown> {
  const { identifier } = policy;
  const pinned = typeof identifier === "string" ? PINNED.exec(identifier)?.groups : undefined;
  const [named, given] = [parseVersion(pinned?.["version"]), parseVersion(policy["version"])];
  const isOne = named === undefined || given === undefined || named === given;
  const version = isOne ? (given ?? named) : `${named} in the identifier, ${given} in the version`;
  return {
    ...policy,
    ...(pinned ? { identifier: pinned["identifier"] } : {}),
    ...(version === undefined ? {} : { version }),
  };
}

/** `[{path, content}]` as an object by path; anything else stays. A repeated path stays a list, which is refused. */
function toFileMap(files: unknown): unknown {
  if (!Array.isArray(files)) return files;
  const entries = files.map((file: unknown) =>
    isObject(file) && typeof file["path"] === "string" ? ([file["path"], file["content"]] as const) : null,
  );
  if (entries.includes(null)) return files;
  const paths = new Set(entries.map((entry) => entry?.[0]));
  return paths.size === entries.length ? Object.fromEntries(entries as (readonly [string, unknown])[]) : files;
}

/** The body of a request for an evaluation in the spelling of the API. */
export function normalizeEvaluationRequest(body: Record<string, unknown>): Record<string, unknown> {
  const { policy = {} } = body;
  if (!isObject(policy)) return body;
  const { files, ...inPolicy } = policy;
  const { rest, above } = takeAbove(body, inPolicy);
  if (body["policy"] === undefined && above["identifier"] === undefined) return body;
  const others = splitPinned({ ...above, ...inPolicy });
  return { ...rest, policy: { ...others, ...(files === undefined ? {} : { files: toFileMap(files) }) } };
}

const POLICY_KEYS = ["identifier", "version"] as const;

/** What stands above the policy instead of in it. What is another one in the policy stays, and is refused. */
function takeAbove(body: Record<string, unknown>, policy: Record<string, unknown>) {
  const rest = { ...body };
  const above: Record<string, unknown> = {};
  for (const key of POLICY_KEYS) {
    const value = body[key];
    if (value === undefined || ![undefined, value].includes(policy[key])) continue;
    above[key] = value;
    delete rest[key];
  }
  return { rest, above };
}

/** The body of a publication in the spelling of the API. */
export const normalizePublication = (body: Record<string, unknown>): Record<string, unknown> =>
  body["files"] === undefined ? body : { ...body, files: toFileMap(body["files"]) };
