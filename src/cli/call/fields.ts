/**
 * The fields of an operation as options of `assay call`: those of the path, the query and the body, and its file. A
 * name in snake_case becomes a flag in kebab-case.
 */
import type { AssayOperation } from "../../api/context.ts";
import type { CallInput } from "../../http/in-process.ts";
import { JsonText, parseExact } from "../../json/text.ts";
import { truncate } from "../../domain/text/excerpt.ts";
import type { Args, CommandOption } from "../args.ts";
import { readText } from "../command-config.ts";
import { CommandError, EXIT } from "../command.ts";
import type { Io } from "../command.ts";

/**
 * The kinds of values: `text` as it is, `number` and `boolean` by their JSON, `list` a text for each use of the flag,
 * `json` JSON, `secret` a text that is never on the command line, `file` the name of a file.
 */
type FieldKind = "text" | "number" | "boolean" | "list" | "json" | "secret" | "file";

type Field = {
  flag: string;
  /** As the operation calls it. */
  name: string;
  place: "params" | "query" | "body" | "file";
  kind: FieldKind;
  required: boolean;
  words: readonly string[] | null;
  description: string;
};

type Shape = {
  type?: string;
  enum?: readonly unknown[];
  const?: unknown;
  anyOf?: readonly Shape[];
  items?: Shape;
  description?: string;
  default?: unknown;
  properties?: Record<string, Shape>;
  required?: readonly string[];
  "x-secret"?: boolean;
  "x-unpublished"?: boolean;
};

/** The whole body in a file, for what flags are too narrow for. */
export const BODY_FLAG = "body";

/** All fields, those of the path first. */
export function callFieldsOf({ params, query, body }: AssayOperation): Field[] {
  const fields = new Map<string, Field>();
  const add = (place: Field["place"], { properties = {}, required = [] }: Shape): void => {
    for (const [name, shape] of Object.entries(properties)) {
      if (fields.has(name) || shape["x-unpublished"] === true) continue;
      const isRequired = place === "params" || (required.includes(name) && !("default" in shape));
      fields.set(name, fieldOf(name, shape, { place, required: isRequired }));
    }
  };
  add("params", params as Shape);
  // A body that says the same as the query has the clearer shape.
  if (body.kind !== "none") add("body", body.schema as Shape);
  add("query", query as Shape);
  if (body.kind === "form" && body.file !== null) {
    const { part, description } = body.file;
    fields.set(part, {
      ...fieldOf(part, {}, { place: "file", required: false }),
      kind: "file",
      description,
    });
  }
  return [...fields.values()];
}

function fieldOf(name: string, shape: Shape, at: Pick<Field, "place" | "required">): Field {
  const inner = shape.anyOf?.find((one) => one.type !== "null") ?? shape;
  const words = inner.enum?.filter((word) => typeof word === "string") ?? null;
  const description = shape.description ?? inner.description ?? `Field ${name}`;
  return {
    ...at,
    flag: name.replaceAll("_", "-"),
    name,
    kind: shape["x-secret"] === true ? "secret" : kindOf(shape),
    words,
    description: description.replaceAll("`", "").replace(/\.$/, ""),
  };
}

function kindOf(shape: Shape): FieldKind {
  const kinds = new Set((shape.anyOf ?? [shape]).filter(({ type }) => type !== "null").map(kindOfOne));
  const [only = "json"] = kinds;
  return kinds.size === 1 ? only : "json";
}

function kindOfOne({ type, items, enum: words, const: value }: Shape): FieldKind {
  if (type === "string" || words?.every((word) => typeof word === "string") || typeof value === "string") return "text";
  if (type === "integer" || type === "number") return "number";
  if (type === "boolean") return "boolean";
  return type === "array" && items !== undefined && kindOf(items) === "text" ? "list" : "json";
}

const PLACEHOLDERS: Readonly<Record<FieldKind, string>> = {
  text: "TEXT",
  number: "NUMBER",
  boolean: "true|false",
  list: "TEXT",
  json: "JSON",
  secret: "@FILE",
  file: "FILE",
};
const HINTS: Readonly<Partial<Record<FieldKind, string>>> = {
  list: "; repeatable",
  json: "; @FILE and - read it from a file and from standard input",
  secret: "; - reads it from the first line of standard input",
};

const placeholderOf = ({ kind, words }: Pick<Field, "kind" | "words">): string =>
  words ? words.join("|") : PLACEHOLDERS[kind];

/** The fields as options of the command. */
export const optionsOf = (fields: readonly Field[]): Record<string, CommandOption> =>
  Object.fromEntries(
    fields.map(({ flag, kind, words, description, required }) => [
      flag,
      {
        kind: "text",
        placeholder: placeholderOf({ kind, words }),
        repeatable: kind === "list",
        description: `${description}${HINTS[kind] ?? ""}${required ? " (required)" : ""}`,
      },
    ]),
  );

/** The problems of the given values, and the required ones that are missing. */
export function findFieldProblems(fields: readonly Field[], args: Args, io: Pick<Io, "env">): string[] {
  const hasBody = args.texts.has(BODY_FLAG);
  return fields.flatMap((field) => {
    const { flag, kind, place, required } = field;
    const values = valuesOf(field, args, io);
    if (place === "body" && hasBody)
      return values.length > 0 ? [`--${flag}: give it or --${BODY_FLAG}, which has the whole body`] : [];
    if (values.length === 0) return required ? [`--${flag} is missing`] : [];
    return values.flatMap((text) => {
      const problem = findValueProblem(kind, text);
      return problem === null ? [] : [`--${flag}: ${problem}`];
    });
  });
}

function findValueProblem(kind: FieldKind, text: string): string | null {
  const quoted = JSON.stringify(truncate(text, 100));
  if (kind === "secret")
    return /^(@.|-$)/.test(text)
      ? null
      : "a secret on the command line is visible to other users of the machine, give @FILE or -";
  if (kind === "number") return text === "null" || isJson(text, "number") ? null : `${quoted} is not a number`;
  if (kind === "boolean")
    return ["true", "false", "null"].includes(text) ? null : `${quoted} is not accepted, give true or false`;
  if (kind === "json" && !/^(@.|-$)/.test(text))
    return isJson(text) ? null : `${quoted} is not JSON; a text needs quotes of its own, like '"text"'`;
  return null;
}

function isJson(text: string, type?: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return type === undefined || typeof value === type;
  } catch {
    return false;
  }
}

/** KOSLI_ORG names the organization where no flag does, as it does for the clients of the API. */
function valuesOf({ flag, name, place }: Field, { texts }: Args, { env }: Pick<Io, "env">): readonly string[] {
  const given = texts.get(flag);
  if (given) return given;
  const preset = name === "org" && place === "params" ? env["KOSLI_ORG"] : undefined;
  return preset ? [preset] : [];
}

/** What a call brings; `fileName` of the file part. */
export type FieldInput = {
  params: Record<string, string>;
  query: Record<string, string | string[]>;
  /** undefined for a call without a body. */
  body: unknown;
  /** The flag and the name of the file part; null without one. */
  file: string | null;
};

/** Reads the values that `findFieldProblems` accepted. @throws CommandError for files that cannot be read */
export async function readCallFields(
  operation: AssayOperation,
  { fields, args, io }: { fields: readonly Field[]; args: Args; io: Io },
): Promise<FieldInput> {
  const input: FieldInput = { params: {}, query: {}, body: undefined, file: null };
  const body: Record<string, unknown> = {};
  for (const field of fields) {
    const values = valuesOf(field, args, io);
    const [text] = values;
    if (text === undefined) continue;
    if (field.place === "params") input.params[field.name] = text;
    else if (field.place === "query") input.query[field.name] = field.kind === "list" ? [...values] : text;
    else if (field.place === "file") input.file = text;
    else body[field.name] = field.kind === "list" ? values : await readValue(field, text, io);
  }
  const name = args.texts.get(BODY_FLAG)?.[0];
  if (name !== undefined) input.body = readJson(`--${BODY_FLAG}`, await readText(io, name));
  else if (Object.keys(body).length > 0 || (operation.body.kind === "json" && !operation.body.optional))
    input.body = body;
  else if (operation.body.kind === "form") input.body = body;
  return input;
}

async function readValue({ kind, flag }: Field, text: string, io: Io): Promise<unknown> {
  if (kind === "text") return text;
  if (kind !== "json" && kind !== "secret") return readJson(`--${flag}`, text);
  const isRead = text === "-" || text.startsWith("@");
  const read = isRead ? await readText(io, text === "-" ? "-" : text.slice(1)) : text;
  return kind === "secret" ? (read.split(/\r?\n/, 1)[0] ?? "") : readJson(`--${flag}`, read);
}

/** A JSON value to the digit. */
function readJson(flag: string, text: string): unknown {
  try {
    JSON.parse(text);
  } catch (error) {
    throw new CommandError(`${flag}: this is not JSON: ${(error as Error).message}`, EXIT.usage);
  }
  const value = parseExact(text);
  return value instanceof JsonText ? value : (value as CallInput<never>["body"]);
}

/** The words of a usage line: the required fields, then OPTIONS. */
export const usageOf = (fields: readonly Field[]): string =>
  [
    ...fields
      .filter(({ required }) => required)
      .map(({ flag, kind, words }) => `--${flag} ${placeholderOf({ kind, words })}`),
    "[OPTIONS]",
  ].join(" ");
