/**
 * The OpenAPI document in parts that a review reads: `TAG.json` has the operations of a tag and the schemas that no
 * other tag uses, `components.json` what they share, and `document.json` the rest and, in its order, which part has
 * what. Together they are the document to the byte.
 */
type Json = Record<string, unknown>;
type Part = { paths: Record<string, Json>; schemas: Json };

const SHARED = "components.json";
const WHOLE = "document.json";

const textOf = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;
const fileOf = (tag: string): string => `${tag.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-")}.json`;

/** The schemas that a value refers to by name. */
const namesIn = (value: unknown): string[] =>
  [...JSON.stringify(value).matchAll(/"#\/components\/schemas\/(\w+)"/g)].map((match) => match[1] as string);

/** Those, and the ones that their schemas refer to. */
function reachedFrom(value: unknown, schemas: Json): Set<string> {
  const reached = new Set<string>();
  const visit = (names: readonly string[]): void => {
    for (const name of names) {
      if (reached.has(name)) continue;
      reached.add(name);
      visit(namesIn(schemas[name]));
    }
  };
  visit(namesIn(value));
  return reached;
}

/** The parts of a document by the name of their file. */
export function splitDocument(document: Json): Map<string, string> {
  const components = document["components"] as { schemas: Json };
  const { schemas, ...others } = components;
  const parts = new Map<string, Part>();
  const index: Record<string, Record<string, string>> = {};
  for (const [path, item] of Object.entries(document["paths"] as Record<string, Json>)) {
    index[path] = {};
    for (const [method, operation] of Object.entries(item)) {
      const file = fileOf((operation as { tags: [string] }).tags[0]);
      const part = parts.get(file) ?? { paths: {}, schemas: {} };
      parts.set(file, part);
      part.paths[path] = { ...part.paths[path], [method]: operation };
      index[path][method] = file;
    }
  }
  const users = new Map<string, string[]>();
  for (const [file, { paths }] of parts)
    for (const name of reachedFrom(paths, schemas)) users.set(name, [...(users.get(name) ?? []), file]);
  const alsoUsed = reachedFrom({ ...document, paths: null, components: others }, schemas);
  const shared: Json = {};
  const places: Record<string, string> = {};
  for (const [name, schema] of Object.entries(schemas)) {
    const [only, ...further] = users.get(name) ?? [];
    const isShared = only === undefined || further.length > 0 || alsoUsed.has(name);
    places[name] = isShared ? SHARED : only;
    (isShared ? shared : (parts.get(only) as Part).schemas)[name] = schema;
  }
  const files: [string, unknown][] = [
    [WHOLE, { ...document, paths: index, components: { ...components, schemas: places } }],
    [SHARED, { schemas: shared }],
    ...parts,
  ];
  return new Map(files.map(([name, value]) => [name, textOf(value)]));
}

/** The text of the document whose parts these are. @throws Error for a part that is missing */
export function joinDocument(parts: ReadonlyMap<string, string>): string {
  const files = new Map([...parts].map(([file, text]) => [file, JSON.parse(text) as unknown]));
  const read = (file: string): unknown => {
    if (!files.has(file)) throw new Error(`${file} is missing`);
    return files.get(file);
  };
  const partOf = (file: string): Part => read(file) as Part;
  const document = read(WHOLE) as Json;
  const paths = document["paths"] as Record<string, Record<string, string>>;
  const components = document["components"] as { schemas: Record<string, string> };
  const joined = {
    ...document,
    paths: Object.fromEntries(
      Object.entries(paths).map(([path, item]) => [
        path,
        Object.fromEntries(Object.entries(item).map(([method, file]) => [method, partOf(file).paths[path]?.[method]])),
      ]),
    ),
    components: {
      ...components,
      schemas: Object.fromEntries(
        Object.entries(components.schemas).map(([name, file]) => [name, partOf(file).schemas[name]]),
      ),
    },
  };
  return textOf(joined);
}
