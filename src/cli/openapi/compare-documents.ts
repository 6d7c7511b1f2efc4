/**
 * Compares our OpenAPI document with another one of the same API: what the other has that ours lacks, closes or
 * requires. Texts, examples, deprecations, callbacks and webhooks are not compared.
 */
import { isObject } from "../../domain/stored-json.ts";
import { CommandError } from "../command.ts";
import { createSchemaComparison } from "./compare-schemas.ts";
import type { SchemaComparison, SchemaUse } from "./compare-schemas.ts";
import { compareSecurity } from "./compare-security.ts";
import { resolveReference } from "./document.ts";
import type { ApiDocument, JsonObject } from "./document.ts";
import { createShapeReader } from "./shape.ts";

/** `operation` is method and path; `place` is empty for an operation as a whole. */
export type ApiDifference = { operation: string; place: string; problem: string };

/** An operation with what its path says of all its methods. */
type Operation = { method: string; path: string; parameters: Parameter[]; value: JsonObject };
type Parameter = { in: string; name: string; value: JsonObject };

type Comparison = { ours: ApiDocument; theirs: ApiDocument } & SchemaComparison;
type Found = Omit<ApiDifference, "operation">;

const METHODS = ["get", "put", "post", "delete", "options", "head", "patch", "trace", "query"];
/** Far more than anyone reads. */
const MAX_API_DIFFERENCES = 100_000;
/** Header parameters that OpenAPI ignores, because other parts of a document describe them. */
const IGNORED_HEADERS: readonly string[] = ["accept", "content-type", "authorization"];

/**
 * Finds the differences, sorted by path, method and place.
 * @param options.limits whether a limit of ours is a difference where the other document has none
 * @throws CommandError for a document that cannot be compared
 */
export function compareApiDocuments(
  ours: ApiDocument,
  theirs: ApiDocument,
  { limits }: { limits: boolean },
): ApiDifference[] {
  const readers = { ours: createShapeReader(ours), theirs: createShapeReader(theirs) };
  const comparison: Comparison = { ours, theirs, ...createSchemaComparison(readers, { limits }) };
  const find = indexOperations(ours);
  const differences: (ApiDifference & { path: string })[] = [];
  for (const their of listOperations(theirs)) {
    const our = find(their);
    const path = our?.path ?? their.path;
    const operation = `${their.method.toUpperCase()} ${path}`;
    const found = our ? compareOperations(our, their, comparison) : [{ place: "", problem: "is missing" }];
    for (const one of found) differences.push({ path, operation, ...one });
    if (differences.length > MAX_API_DIFFERENCES)
      throw new CommandError(`${theirs.name} has more than ${MAX_API_DIFFERENCES} differences: is it of another API?`);
  }
  return differences
    .sort((a, b) => compareTexts([a.path, a.operation, a.place, a.problem], [b.path, b.operation, b.place, b.problem]))
    .map(({ operation, place, problem }) => ({ operation, place, problem }));
}

/** One line: operation, place and problem. */
export const lineOfDifference = ({ operation, place, problem }: ApiDifference): string =>
  `${operation}: ${place === "" ? "" : `${place}: `}${problem}`;

function compareTexts(one: readonly string[], other: readonly string[]): number {
  const index = one.findIndex((text, place) => text !== other[place]);
  return index < 0 ? 0 : (one[index] as string) < (other[index] as string) ? -1 : 1;
}

/** The objects by name in a field, with references resolved. */
function membersOf(document: ApiDocument, value: unknown): [string, JsonObject][] {
  return Object.entries(isObject(value) ? value : {}).flatMap(([name, one]) =>
    isObject(one) ? [[name, resolveReference(document, one)] as [string, JsonObject]] : [],
  );
}

const listOf = (value: unknown): JsonObject[] => (Array.isArray(value) ? value.filter(isObject) : []);

function listOperations(document: ApiDocument): Operation[] {
  return membersOf(document, document.root["paths"]).flatMap(([path, item]) =>
    METHODS.flatMap((method) => {
      const value = item[method];
      if (!isObject(value)) return [];
      // A parameter of an operation takes the place of one with its name in the path.
      const all = [...listOf(item["parameters"]), ...listOf(value["parameters"])]
        .map((one) => resolveReference(document, one))
        .map((one): Parameter => ({ in: String(one["in"]), name: String(one["name"]), value: one }));
      const parameters = [...new Map(all.map((one) => [`${one.in} ${one.name}`, one])).values()];
      return [{ method, path, parameters, value }];
    }),
  );
}

/** Finds the operation of a document that has the path of another one, whatever its parameters are called. */
function indexOperations(document: ApiDocument): (other: Operation) => Operation | undefined {
  const byPath = new Map(listOperations(document).map((one) => [keyOf(one.method, one.path), one]));
  const [prefix] = listOf(document.root["servers"]).map(pathOfServer);
  return ({ method, path }) =>
    byPath.get(keyOf(method, path)) ??
    (prefix && path.startsWith(`${prefix}/`) ? byPath.get(keyOf(method, path.slice(prefix.length))) : undefined);
}

const keyOf = (method: string, path: string): string => `${method} ${path.replace(/\{[^}]*\}/g, "{}")}`;

/** The path of a server's URL without a slash at the end. Another document may have it in its paths. */
function pathOfServer({ url }: JsonObject): string {
  return String(url)
    .replace(/^[a-z][a-z0-9+.-]*:\/\/[^/]*/i, "")
    .replace(/\/+$/, "");
}

function compareOperations(our: Operation, their: Operation, comparison: Comparison): Found[] {
  return [
    ...compareParameters(our, their, comparison),
    ...compareBodies(our.value, their.value, comparison),
    ...compareResponses(our.value, their.value, comparison),
    ...compareSecurity(
      { document: comparison.ours, operation: our.value },
      { document: comparison.theirs, operation: their.value },
    ),
  ];
}

const isSameParameter = (one: Parameter, other: Parameter): boolean =>
  one.in === other.in &&
  (one.in === "header" ? one.name.toLowerCase() === other.name.toLowerCase() : one.name === other.name);

const placeOfParameter = ({ in: location, name }: Parameter): string =>
  location === "header" || location === "cookie" ? `${location} ${name}` : `${location} parameter ${name}`;

/** Parameters in the path are paired by their order, because their names are not sent. */
function compareParameters(our: Operation, their: Operation, comparison: Comparison): Found[] {
  const names = [our, their].map(({ path }) => [...path.matchAll(/\{([^}]*)\}/g)].map(([, name]) => name as string));
  const nameOf = (name: string): string => names[0]?.[names[1]?.indexOf(name) ?? -1] ?? name;
  const ignored = ({ in: location, name }: Parameter): boolean =>
    location === "header" && IGNORED_HEADERS.includes(name.toLowerCase());
  const theirs = their.parameters
    .filter((one) => !ignored(one))
    .map((one) => (one.in === "path" ? { ...one, name: nameOf(one.name) } : one));
  const found = theirs.flatMap((other) => {
    const mine = our.parameters.find((one) => isSameParameter(one, other));
    const place = placeOfParameter(other);
    return mine
      ? compareParameter(mine, other, comparison).map(({ path, problem }) => ({ place: `${place}${path}`, problem }))
      : [{ place, problem: "is missing" }];
  });
  const demanded = our.parameters.filter(
    (one) =>
      one.value["required"] === true && one.in !== "path" && !theirs.some((other) => isSameParameter(one, other)),
  );
  return [
    ...found,
    ...demanded.map((one) => ({ place: placeOfParameter(one), problem: "is required (there: unknown)" })),
  ];
}

function compareParameter(our: Parameter, their: Parameter, { compare }: Comparison) {
  const [mine, other] = [our.value, their.value];
  const [style, there] = [styleOf(our), styleOf(their)];
  return [
    ...(mine["required"] === true && other["required"] !== true
      ? [{ path: "", problem: "is required (there: optional)" }]
      : []),
    ...(style === there ? [] : [{ path: "", problem: `is written in the style ${style} (there: ${there})` }]),
    ...compare(schemaOf(mine), schemaOf(other), "parameter"),
  ];
}

/** The schema of a parameter or header, which may be that of its only media type. */
function schemaOf(value: JsonObject): unknown {
  const [content] = Object.values(isObject(value["content"]) ? value["content"] : {});
  return isObject(content) ? content["schema"] : value["schema"];
}

/** How a list or an object is written. */
function styleOf({ in: location, value }: Parameter): string {
  const style = String(value["style"] ?? (["query", "cookie"].includes(location) ? "form" : "simple"));
  return `${style}${(value["explode"] ?? style === "form") ? ", exploded" : ""}`;
}

function compareBodies(our: JsonObject, their: JsonObject, comparison: Comparison): Found[] {
  const [[, mine] = [], [, other] = []] = (
    [
      [comparison.ours, our],
      [comparison.theirs, their],
    ] as const
  ).map(([document, { requestBody }]) => membersOf(document, { requestBody })[0]);
  const place = "request body";
  const isRequired = mine?.["required"] === true && other?.["required"] !== true;
  return [
    ...(isRequired ? [{ place, problem: `is required (there: ${other ? "optional" : "none"})` }] : []),
    ...(other && !mine ? [{ place, problem: "is missing" }] : []),
    ...(other && mine ? compareContents(place, { mine, other, use: "request" }, comparison) : []),
  ];
}

/** Media types and their schemas. A body without any is a body without content. */
function compareContents(
  place: string,
  { mine, other, use }: { mine: JsonObject; other: JsonObject; use: SchemaUse },
  { ours, theirs, compare }: Comparison,
): Found[] {
  const [own, there] = [membersOf(ours, mine["content"]), membersOf(theirs, other["content"])];
  return there.flatMap(([type, { schema }]) => {
    const named = there.length > 1 ? `${place} ${type}` : place;
    const found = own.find(([one]) => coversType(one, type));
    if (!found) return [{ place, problem: `has no media type ${type}` }];
    const isForm = /^(?:multipart\/|application\/x-www-form-urlencoded)/i.test(type);
    return (
      compare(found[1]["schema"], schema, use)
        // A part of a form cannot be null.
        .filter(({ kind, path }) => !(isForm && kind === "null" && /^\/[^/]*$/.test(path)))
        .map(({ path, problem }) => ({ place: path === "" ? named : `${named} ${path}`, problem }))
    );
  });
}

/** Whether a media type, which may be a range, includes another one. Parameters such as charset do not count. */
function coversType(range: string, type: string): boolean {
  const [one = "", other = ""] = [range, type].map((text) => text.replace(/;.*$/s, "").trim().toLowerCase());
  return one === other || one === "*/*" || (one.endsWith("/*") && other.startsWith(one.slice(0, -1)));
}

function compareResponses(our: JsonObject, their: JsonObject, comparison: Comparison): Found[] {
  const ourResponses = new Map(membersOf(comparison.ours, our["responses"]));
  return membersOf(comparison.theirs, their["responses"]).flatMap(([status, other]) => {
    const place = `response ${status}`;
    const mine = ourResponses.get(status) ?? ourResponses.get(status.replace(/^(\d)\d\d$/, "$1XX"));
    if (!mine) return [{ place, problem: "is missing" }];
    return [
      ...compareContents(place, { mine, other, use: "response" }, comparison),
      ...compareHeaders(place, { mine, other }, comparison),
    ];
  });
}

function compareHeaders(
  place: string,
  { mine, other }: { mine: JsonObject; other: JsonObject },
  { ours, theirs, compare }: Comparison,
): Found[] {
  const ourHeaders = new Map(membersOf(ours, mine["headers"]).map(([name, value]) => [name.toLowerCase(), value]));
  return membersOf(theirs, other["headers"])
    .filter(([name]) => name.toLowerCase() !== "content-type")
    .flatMap(([name, header]) => {
      const found = ourHeaders.get(name.toLowerCase());
      const named = `${place} header ${name}`;
      if (!found) return [{ place: named, problem: "is missing" }];
      return compare(schemaOf(found), schemaOf(header), "response").map(({ path, problem }) => ({
        place: `${named}${path}`,
        problem,
      }));
    });
}
