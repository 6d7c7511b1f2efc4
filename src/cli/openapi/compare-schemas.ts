/**
 * Compares a schema of our document with one of another document, in one direction. In a request, ours must accept what
 * theirs accepts; in a response, ours must promise what theirs promises. A parameter is part of a request that is
 * written as text: it cannot be null, `7` may be a number or a text, and one value is a list too.
 */
import { CommandError } from "../command.ts";
import { comparePromises, compareRestrictions, wordsOf } from "./compare-values.ts";
import type { ShapePair } from "./compare-values.ts";
import type { JsonType, SchemaShape, ShapeReader } from "./shape.ts";

export type SchemaUse = "request" | "parameter" | "response";
/** `path` leads from the schema to the place: `/field`, `[]` for items, `/{key}` for fields that are not listed. */
type SchemaDifference = {
  path: string;
  problem: string;
  kind?: keyof typeof WEIGHTS;
};

/**
 * Kinds of differences that count apart, with their weight when it is decided which alternatives of two schemas are the
 * same shape. Words of which none is known on the other side tell shapes apart.
 */
const WEIGHTS = { words: 1_000, field: 20, null: 1, default: 1 } as const;

type At = { use: SchemaUse; depth: number };

/** Of one schema; the rest would hide what to look at first. */
const MAX_DIFFERENCES = 1_000;
/** Pairs of alternatives that are compared: a second of work, and a hundred times what a large document needs. */
const MAX_COMPARISONS = 1_000_000;
/** Schemas within each other, counted with the references between them. */
const MAX_DEPTH = 200;

/** Fields, items, bounds and values of pairs of schemas. `limits`: bounds count where theirs has none. */
export function createSchemaComparison(readers: Readers, { limits }: { limits: boolean }) {
  const known: Record<SchemaUse, Known> = { request: new Map(), parameter: new Map(), response: new Map() };
  let comparisons = 0;

  function compare(ours: unknown, theirs: unknown, at: At): SchemaDifference[] {
    const [mine, other] = [readers.ours.identify(ours), readers.theirs.identify(theirs)];
    let results = known[at.use].get(mine);
    if (!results) known[at.use].set(mine, (results = new Map()));
    const before = results.get(other);
    if (before) return before;
    if (at.depth > MAX_DEPTH) return [{ path: "", problem: "is nested too deeply to be compared" }];
    // Within itself, a pair is taken as equal: the differences are found where it is compared.
    results.set(other, []);
    const found = compareAlternatives(readers.ours.shapesOf(mine), readers.theirs.shapesOf(other), at);
    results.set(other, found);
    return found;
  }

  function compareAlternatives(
    ours: readonly SchemaShape[],
    theirs: readonly SchemaShape[],
    at: At,
  ): SchemaDifference[] {
    const best = (pairs: readonly ShapePair[]): SchemaDifference[] =>
      findFewest(pairs.map((pair) => comparePair(pair, at)));
    const within = {
      request: () => compareAccepted(ours, splitByWords(ours, theirs, readers), best),
      parameter: () => compareAccepted(openLists(ours, theirs), readAsText(ours, theirs), best),
      response: () => compareGiven(ours, theirs, best),
    }[at.use]();
    const all = [...within, ...compareDefaults(ours, theirs)];
    const distinct = [...new Map(all.map((one) => [`${one.path} ${one.problem}`, one])).values()];
    return distinct.length <= MAX_DIFFERENCES
      ? distinct
      : [...distinct.slice(0, MAX_DIFFERENCES), { path: "", problem: "has more differences, which are not shown" }];
  }

  /** The items of lists in place of the lists, where theirs is one value. */
  function openLists(ours: readonly SchemaShape[], theirs: readonly SchemaShape[]): readonly SchemaShape[] {
    if (theirs.some(({ type }) => type === "array")) return ours;
    return ours.flatMap((one) => (one.type === "array" ? readers.ours.shapesOf(one.items) : [one]));
  }

  function comparePair(pair: ShapePair, { use, depth }: At): SchemaDifference[] {
    if (++comparisons > MAX_COMPARISONS)
      throw new CommandError("the documents have too many alternatives in schemas to be compared");
    const within: Compare = (ours, theirs, step) =>
      compare(ours, theirs, { use, depth: depth + 1 }).map((one) => ({ ...one, path: `${step}${one.path}` }));
    if (pair.theirs.type === "any" || pair.ours.type === "any") return [];
    const { type } = pair.theirs;
    const differences = (use === "response" ? comparePromises(pair) : compareRestrictions(pair, { limits })).map(
      (one) => here(one),
    );
    if (type === "array") return [...differences, ...within(pair.ours.items, pair.theirs.items, "[]")];
    if (type !== "object") return differences;
    return [...differences, ...(use === "response" ? compareOutput(pair, within) : compareInput(pair, within))];
  }

  return {
    /** The differences of two schemas, which may be absent. */
    compare: (ours: unknown, theirs: unknown, use: SchemaUse): SchemaDifference[] =>
      compare(ours, theirs, { use, depth: 0 }),
  };
}

export type SchemaComparison = ReturnType<typeof createSchemaComparison>;
type Readers = { ours: ShapeReader; theirs: ShapeReader };
type Known = Map<object, Map<object, SchemaDifference[]>>;
type Compare = (ours: unknown, theirs: unknown, step: string) => SchemaDifference[];
type Best = (pairs: readonly ShapePair[]) => SchemaDifference[];

const here = (problem: string, kind?: SchemaDifference["kind"]): SchemaDifference => ({
  path: "",
  problem,
  ...(kind === undefined ? {} : { kind }),
});

/**
 * An object of theirs for each word of the field that tells the objects of ours apart. Otherwise each word but one
 * would count as refused.
 */
function splitByWords(
  ours: readonly SchemaShape[],
  theirs: readonly SchemaShape[],
  readers: Readers,
): readonly SchemaShape[] {
  const objects = ours.filter(({ type }) => type === "object");
  if (objects.length < 2) return theirs;
  const wordsIn = (reader: ShapeReader, schema: unknown): string[] => listValues(reader.shapesOf(schema)) ?? [];
  const [first] = objects;
  const name = [...(first?.fields.keys() ?? [])].find((field) => {
    const words = objects.flatMap(({ fields }) => wordsIn(readers.ours, fields.get(field)));
    return words.length > 1 && new Set(words).size === words.length;
  });
  return theirs.flatMap((one) => {
    const schema = name === undefined ? undefined : one.fields.get(name);
    const words = schema === undefined ? [] : wordsIn(readers.theirs, schema);
    if (one.type !== "object" || name === undefined || words.length < 2) return [one];
    return words.map((word): SchemaShape => {
      const only = { allOf: [schema, { const: JSON.parse(word) as unknown }] };
      return { ...one, fields: new Map([...one.fields, [name, only]]) };
    });
  });
}

/** Numbers and words of theirs as texts, where ours is a text; never null. */
function readAsText(ours: readonly SchemaShape[], theirs: readonly SchemaShape[]): readonly SchemaShape[] {
  const isOurs = (type: JsonType | "any"): boolean => ours.some((one) => isWithin(type, one.type));
  return theirs
    .filter(({ type }) => type !== "null")
    .map((one) =>
      ["boolean", "integer", "number"].includes(one.type) && !isOurs(one.type) && isOurs("string")
        ? { ...one, type: "string", values: one.values?.map((value) => JSON.stringify(value)) ?? null, bounds: {} }
        : one,
    );
}

/** The list whose differences weigh least. */
function findFewest(lists: readonly SchemaDifference[][]): SchemaDifference[] {
  const weigh = (list: readonly SchemaDifference[]): number =>
    list.reduce((sum, { kind }) => sum + (kind ? WEIGHTS[kind] : 1), 0);
  return lists.reduce((few, one) => (weigh(one) < weigh(few) ? one : few), lists[0] ?? []);
}

/** Whether every value of a type is also one of another type. */
const isWithin = (type: JsonType | "any", wider: JsonType | "any"): boolean =>
  wider === "any" || type === wider || (type === "integer" && wider === "number");

const typesOf = (shapes: readonly SchemaShape[]): (JsonType | "any")[] => [...new Set(shapes.map(({ type }) => type))];

/** Request: each value that theirs accepts is accepted by ours. */
function compareAccepted(ours: readonly SchemaShape[], theirs: readonly SchemaShape[], best: Best): SchemaDifference[] {
  if (theirs.some(({ type }) => type === "any"))
    return ours.some(({ type }) => type === "any") ? [] : [here(`accepts only ${wordsOf(typesOf(ours))} (there: any)`)];
  return typesOf(theirs).flatMap((type) => {
    const [mine, others] = [ours.filter((one) => isWithin(type, one.type)), theirs.filter((one) => one.type === type)];
    const integers = ours.filter((one) => type === "number" && one.type === "integer");
    if (mine.length === 0)
      return [
        here(
          integers.length > 0 ? "accepts only integers" : `does not accept ${type}`,
          type === "null" ? type : undefined,
        ),
      ];
    const listed = others.flatMap(({ values }) => values ?? []);
    const refused = listed.filter((value) => !mine.some((one) => takesValue(one, value)));
    return [
      ...(refused.length > 0
        ? [here(`does not accept ${wordsOf(refused)}`, refused.length === listed.length ? "words" : undefined)]
        : []),
      ...others
        .filter(({ values }) => values === null)
        .flatMap((other) => best(mine.map((one) => ({ ours: one, theirs: other })))),
    ];
  });
}

/** Whether a shape of ours takes a value, as far as values, patterns and lengths of texts say. */
function takesValue({ values, excluded, patterns, bounds }: SchemaShape, text: string): boolean {
  if (values !== null) return values.includes(text);
  if (excluded.includes(text)) return false;
  if (!text.startsWith('"')) return true;
  const value = JSON.parse(text) as string;
  return value.length <= (bounds.maxLength ?? Infinity) && patterns.every((pattern) => matchesPattern(pattern, value));
}

function matchesPattern(pattern: string, value: string): boolean {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true;
  }
}

/** Response: each value that ours gives is one that theirs allows, and each kind of structure of theirs is given. */
function compareGiven(ours: readonly SchemaShape[], theirs: readonly SchemaShape[], best: Best): SchemaDifference[] {
  if (theirs.some(({ type }) => type === "any")) return [];
  const further = typesOf(ours).filter((type) => !theirs.some((other) => isWithin(type, other.type)));
  return [
    ...further.map((type) => here(type === "any" ? "may be of any type" : `may be ${type}`)),
    ...typesOf(theirs).flatMap((type) => {
      const [mine, others] = [
        ours.filter((one) => isWithin(one.type, type)),
        theirs.filter((one) => one.type === type),
      ];
      const isStructure = type === "array" || type === "object";
      if (mine.length === 0) return isStructure && !further.includes("any") ? [here(`is never ${type}`)] : [];
      return [
        ...compareGivenValues(mine, others),
        ...mine.flatMap((one) => best(others.map((other) => ({ ours: one, theirs: other })))),
        ...(isStructure ? others.flatMap((other) => best(mine.map((one) => ({ ours: one, theirs: other })))) : []),
      ];
    }),
  ];
}

function compareGivenValues(ours: readonly SchemaShape[], theirs: readonly SchemaShape[]): SchemaDifference[] {
  const [mine, others] = [listValues(ours), listValues(theirs)];
  if (mine === null || others === null) return [];
  const further = mine.filter((value) => !others.includes(value));
  const missing = others.filter((value) => !mine.includes(value));
  return [
    ...(further.length > 0 ? [here(`may be ${wordsOf(further)}`)] : []),
    ...(missing.length > 0
      ? [here(`is never ${wordsOf(missing)}`, missing.length === others.length ? "words" : undefined)]
      : []),
  ];
}

/** The only values of several shapes; null if one of them has others. */
function listValues(shapes: readonly SchemaShape[]): string[] | null {
  return shapes.every(({ values }) => values !== null) ? shapes.flatMap(({ values }) => values ?? []) : null;
}

/** An empty list and null are the same as none. */
function compareDefaults(ours: readonly SchemaShape[], theirs: readonly SchemaShape[]): SchemaDifference[] {
  const [mine, other] = [ours, theirs].map((shapes) => shapes.find((one) => one.default !== null)?.default ?? null);
  if (!other || other === "null" || other === "[]" || mine === other) return [];
  return [here(mine ? `has the default ${mine} (there: ${other})` : `has no default (there: ${other})`, "default")];
}

const missingField = (name: string): SchemaDifference => ({ path: `/${name}`, problem: "is missing", kind: "field" });

/** The default says what an absent field means, so a field that is required has none. */
const withoutDefault = (found: readonly SchemaDifference[], isRequired: boolean, name: string): SchemaDifference[] =>
  found.filter(({ kind, path }) => !(isRequired && kind === "default" && path === `/${name}`));

/** Fields of a request. */
function compareInput({ ours, theirs }: ShapePair, within: Compare): SchemaDifference[] {
  const fields = [...theirs.fields].flatMap(([name, schema]) => {
    if (ours.fields.has(name))
      return withoutDefault(within(ours.fields.get(name), schema, `/${name}`), ours.required.has(name), name);
    if (typeof ours.further === "object") return within(ours.further, schema, `/${name}`);
    return ours.further === "open" ? [] : [missingField(name)];
  });
  const required = [...ours.required].filter((name) => !theirs.required.has(name));
  const more = theirs.further === "closed" ? [] : compareFurtherInput(ours, theirs, within);
  return [
    ...fields,
    ...required.map((name): SchemaDifference => {
      const isKnown = theirs.fields.has(name);
      const problem = `is required (there: ${isKnown ? "optional" : "unknown"})`;
      return { path: `/${name}`, problem, ...(isKnown ? {} : { kind: "field" }) };
    }),
    ...more,
  ];
}

/** Fields that theirs accepts without listing them. */
function compareFurtherInput(ours: SchemaShape, theirs: SchemaShape, within: Compare): SchemaDifference[] {
  if (ours.further === "closed") return [here("accepts no further fields (there: open)")];
  if (typeof ours.further !== "object") return [];
  return within(ours.further, typeof theirs.further === "object" ? theirs.further : true, "/{key}");
}

/** Fields of a response. */
function compareOutput({ ours, theirs }: ShapePair, within: Compare): SchemaDifference[] {
  const fields = [...theirs.fields].flatMap(([name, schema]) => {
    if (!ours.fields.has(name)) return [missingField(name)];
    const mayBeAbsent = theirs.required.has(name) && !ours.required.has(name);
    return [
      ...(mayBeAbsent ? [{ path: `/${name}`, problem: "may be absent (there: required)" }] : []),
      ...withoutDefault(within(ours.fields.get(name), schema, `/${name}`), ours.required.has(name), name),
    ];
  });
  const [mine, other] = [ours.further, theirs.further];
  const more = typeof other === "object" && typeof mine === "object" ? within(mine, other, "/{key}") : [];
  return [...fields, ...more];
}
