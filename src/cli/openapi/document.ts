/** Reads an OpenAPI document from a file, in JSON or YAML, and resolves its references. */
import { isMap, isScalar, isSeq } from "yaml";
import { decodePathPart } from "../../domain/network/urls.ts";
import { truncate } from "../../domain/text/excerpt.ts";
import { OPERATOR_FILE, readYaml } from "../../domain/text/yaml.ts";
import { isObject } from "../../domain/stored-json.ts";
import { MAX_JSON_DEPTH, scanWhole } from "../../json/scan.ts";
import { findRepeatedKey } from "../../json/walk.ts";
import { CommandError } from "../command.ts";

export type JsonObject = Record<string, unknown>;

/**
 * An OpenAPI document. `name` is how messages call it. In version 3.0, `nullable` counts and what stands beside a
 * reference does not.
 */
export type ApiDocument = { name: string; root: JsonObject; is30: boolean };

/** References in a row, each of which leads to the next: more is a circle. */
const MAX_HOPS = 100;
const MAX_QUOTED_CHARS = 200;

/**
 * Parses the text of an OpenAPI 3 document.
 * @throws CommandError that names the file and says what to do
 */
export function parseApiDocument(text: string, name: string): ApiDocument {
  const root = /^\s*\{/.test(text) ? parseJsonText(text, name) : parseYamlText(text, name);
  if (isObject(root) && "swagger" in root)
    throw new CommandError(`${name} is a document of Swagger ${root["swagger"]}: convert it to OpenAPI 3 first`);
  const version = isObject(root) ? root["openapi"] : undefined;
  if (!isObject(root) || typeof version !== "string")
    throw new CommandError(`${name} is not an OpenAPI document: it has no field \`openapi\` with a version`);
  if (!/^3\.[012]\.\d+/.test(version))
    throw new CommandError(
      `${name}: OpenAPI version ${JSON.stringify(truncate(version, 20))} is not supported, give 3.0, 3.1 or 3.2`,
    );
  if (!isObject(root["paths"] ?? {})) throw new CommandError(`${name}: \`paths\` is not a mapping`);
  return { name, root, is30: version.startsWith("3.0.") };
}

function parseJsonText(text: string, name: string): unknown {
  const bounds = { values: Infinity, containers: Infinity, scalars: Infinity, keys: Infinity, names: Infinity };
  if (scanWhole(Buffer.from(text), bounds).problem !== null)
    throw new CommandError(`${name} is nested deeper than ${MAX_JSON_DEPTH} levels`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    throw new CommandError(`${name} is not valid JSON: ${truncate(problem, MAX_QUOTED_CHARS)}`);
  }
  const repeated = findRepeatedKey(text);
  if (repeated)
    throw new CommandError(`${name}: the key ${quotePointer(repeated)} is given more than once in one object`);
  return value;
}

const quotePointer = (path: readonly (string | number)[]): string =>
  JSON.stringify(truncate(path.map((key) => `/${key}`).join(""), MAX_QUOTED_CHARS));

function parseYamlText(text: string, name: string): unknown {
  const { root, problems } = readYaml(text, OPERATOR_FILE);
  if (problems.length > 0)
    throw new CommandError(problems.map(({ line, column, text: problem }) => `${name}:${line}:${column}: ${problem}`));
  return toValue(root);
}

/** The value of a node of a plain YAML file, which has neither aliases nor tags. */
function toValue(node: unknown): unknown {
  if (isSeq(node)) return node.items.map(toValue);
  if (isMap(node))
    return Object.fromEntries(
      node.items.map(({ key, value }) => [String(isScalar(key) ? key.value : key), toValue(value)]),
    );
  return isScalar(node) ? node.value : null;
}

/**
 * Follows the references of an object to the one that they lead to.
 * @throws CommandError for a reference that leads nowhere, into another file or in a circle
 */
export function resolveReference(document: ApiDocument, value: JsonObject): JsonObject {
  let found = value;
  for (let hops = 0; typeof found["$ref"] === "string"; hops += 1) {
    const reference = found["$ref"];
    const quoted = JSON.stringify(truncate(reference, MAX_QUOTED_CHARS));
    if (hops === MAX_HOPS) throw new CommandError(`${document.name}: the reference ${quoted} leads to itself`);
    if (!reference.startsWith("#"))
      throw new CommandError(`${document.name}: ${quoted} is a reference to another file: bundle all into one file`);
    const target = findTarget(document.root, reference);
    if (!isObject(target)) throw new CommandError(`${document.name}: the reference ${quoted} leads to no object`);
    found = target;
  }
  return found;
}

function findTarget(root: JsonObject, reference: string): unknown {
  let found: unknown = root;
  for (const step of reference.replace(/^#\/?/, "").split("/")) {
    if (step === "" && found === root) break;
    const key = decodePathPart(step).replaceAll("~1", "/").replaceAll("~0", "~");
    const members: object | null = typeof found === "object" ? found : null;
    if (members === null || !Object.hasOwn(members, key)) return undefined;
    found = (members as JsonObject)[key];
  }
  return found;
}
