/**
 * Passing a large value from a worker thread to the main thread. Posted as it is, the value would be deserialised there
 * in one go, which takes a tenth of a second for values crafted to be slow. Instead it travels as the JSON texts of
 * small pieces, which the main thread parses one by one, yielding to other requests in between.
 */
import { createPace } from "../next-turn.ts";
import { JsonText, stringifyJson } from "../../json/text.ts";

/** The JSON text of a small value, or the parts of a large one; runs of small elements or properties are one piece. */
export type Pieces =
  | string
  | { kind: "text"; text: string }
  | { kind: "list"; runs: (ListRun | Pieces)[] }
  | { kind: "object"; runs: (ObjectRun | [key: string, value: Pieces])[] };
/** JSON text of a list of consecutive elements. */
type ListRun = { elements: string };
/** JSON text of an object with consecutive properties. */
type ObjectRun = { properties: string };

/** Of one piece: a few milliseconds of parsing, whatever it contains. */
const PIECE_CHARS = 32_768;

/**
 * Splits a value into pieces.
 * @param asText top-level properties whose objects and lists stay JSON text; "whole" if the value itself does
 */
export function splitJson(value: unknown, asText: readonly string[] | "whole" = []): Pieces {
  // Stands for a number that 64 bits do not hold: `asSent` has it.
  if (typeof value === "symbol") return "null";
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (value instanceof JsonText || asText === "whole") return { kind: "text", text: stringifyJson(value) };
  return Array.isArray(value) ? splitList(value) : splitObject(value as Record<string, unknown>, asText);
}

function splitList(list: readonly unknown[]): Pieces {
  const runs: (ListRun | Pieces)[] = [];
  let run: string[] = [];
  let length = 0;
  const endRun = (): void => {
    if (run.length > 0) runs.push({ elements: `[${run.join(",")}]` });
    [run, length] = [[], 0];
  };
  for (const item of list) {
    const pieces = splitJson(item);
    if (typeof pieces !== "string" || pieces.length > PIECE_CHARS) {
      endRun();
      runs.push(pieces);
      continue;
    }
    if (length + pieces.length > PIECE_CHARS) endRun();
    run.push(pieces);
    length += pieces.length + 1;
  }
  if (runs.length === 0) return `[${run.join(",")}]`;
  endRun();
  return { kind: "list", runs };
}

function splitObject(object: Record<string, unknown>, asText: readonly string[]): Pieces {
  const runs: (ObjectRun | [string, Pieces])[] = [];
  let run: string[] = [];
  let length = 0;
  const endRun = (): void => {
    if (run.length > 0) runs.push({ properties: `{${run.join(",")}}` });
    [run, length] = [[], 0];
  };
  for (const key of Object.keys(object)) {
    const pieces = splitJson(object[key], asText.includes(key) ? "whole" : []);
    if (typeof pieces !== "string" || pieces.length > PIECE_CHARS) {
      endRun();
      runs.push([key, pieces]);
      continue;
    }
    const property = `${JSON.stringify(key)}:${pieces}`;
    if (length + property.length > PIECE_CHARS) endRun();
    run.push(property);
    length += property.length + 1;
  }
  if (runs.length === 0) return `{${run.join(",")}}`;
  endRun();
  return { kind: "object", runs };
}

/** Rebuilds a value from its pieces, a few milliseconds at a time. */
export async function assembleJson(pieces: Pieces): Promise<unknown> {
  const pace = createPace();
  const parse = async (text: string): Promise<unknown> => {
    await pace();
    return JSON.parse(text);
  };
  const build = async (part: Pieces): Promise<unknown> => {
    if (typeof part === "string") return parse(part);
    if (part.kind === "text") return new JsonText(part.text);
    if (part.kind === "list") {
      const list: unknown[] = [];
      for (const run of part.runs) {
        if (typeof run === "object" && "elements" in run)
          for (const item of (await parse(run.elements)) as unknown[]) list.push(item);
        else list.push(await build(run));
      }
      return list;
    }
    const object: Record<string, unknown> = {};
    for (const run of part.runs) {
      if (Array.isArray(run)) setOwn(object, run[0], await build(run[1]));
      else
        for (const [key, value] of Object.entries((await parse(run.properties)) as object)) setOwn(object, key, value);
    }
    return object;
  };
  return build(pieces);
}

/** Values that are serialised in less than a millisecond, unless they are long texts. */
const MANY_VALUES = 1_000;

/** Whether a value has so many values in it that `stringifyInTurns` should serialise it. */
export const hasManyValues = (value: unknown): boolean => countValues(value, MANY_VALUES) > MANY_VALUES;

/** The number of values in a value; it may end with any number above `limit`. */
function countValues(value: unknown, limit: number): number {
  if (typeof value !== "object" || value === null || value instanceof JsonText) return 1;
  let count = 1;
  for (const part of Array.isArray(value) ? value : Object.values(value)) {
    count += countValues(part, limit - count);
    if (count > limit) return count;
  }
  return count;
}

/** As stringifyJson, a few milliseconds at a time. */
export async function stringifyInTurns(value: unknown): Promise<string> {
  const pace = createPace();
  const write = async (part: unknown): Promise<string> => {
    if (!hasManyValues(part)) return stringifyJson(part);
    const items: string[] = [];
    const isList = Array.isArray(part);
    for (const [key, item] of Object.entries(part as object)) {
      const turn = pace();
      if (turn !== null) await turn;
      if (item === undefined) continue;
      const text = hasManyValues(item) ? await write(item) : stringifyJson(item);
      items.push(isList ? text : `${JSON.stringify(key)}:${text}`);
    }
    return isList ? `[${items.join(",")}]` : `{${items.join(",")}}`;
  };
  return write(value);
}

/** As JSON.parse does: `__proto__` is a key like any other. */
function setOwn(object: Record<string, unknown>, key: string, value: unknown): void {
  if (key === "__proto__")
    Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
  else object[key] = value;
}
