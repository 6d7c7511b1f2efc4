/**
 * A small schema language for operators' YAML files. A schema is a `Reader`: it converts a YAML node to a value and
 * records every mistake with its position, so that one run reports all of them.
 */
import { isAlias, isMap, isScalar, isSeq } from "yaml";
import { joinAlternatives } from "../args.ts";
import { truncate } from "../../domain/text/excerpt.ts";
import type { SourcePosition } from "../../domain/text/source-position.ts";

/** The state of one parse: `refuse` records a mistake. */
export type Reading = { place(node: unknown): SourcePosition; refuse(place: SourcePosition, problem: string): void };

/**
 * Converts a YAML node to a value. Refuses an invalid node and returns `blank` for it, so that parsing continues and
 * finds further mistakes; the plan is discarded then. Blank texts are empty, which the checks for duplicates ignore.
 * `where` names the node: organizations[0].members[1].role. `absent` holds the default of an optional field.
 */
type Reader<T> = {
  read(reading: Reading, node: unknown, where: string): T;
  blank: T;
  absent?: { value: T };
};

/** Returns `value` for a field that is absent, has no value, or is an empty text. */
export function unlessEmpty(reader: Reader<string>, value: string): Reader<string> {
  return {
    ...reader,
    read(reading, node, where) {
      const isEmpty = isScalar(node) && (node.value === null || node.value === "");
      return isEmpty ? value : reader.read(reading, node, where);
    },
    absent: { value },
  };
}

/** A field that may be absent, and then has this value. */
export function optional<T>(reader: Reader<T>, absent: { value: NoInfer<T> }): Reader<T> {
  return { ...reader, absent };
}

export function nullable<T>(reader: Reader<T>): Reader<T | null> {
  return {
    blank: null,
    read: (reading, node, where) => (isScalar(node) && node.value === null ? null : reader.read(reading, node, where)),
  };
}

type ScalarRules<T> = {
  /** Converts a value; null refuses it. */
  accept(value: unknown): T | null;
  /** Describes the accepted values, for messages. */
  accepts: string;
  blank: T;
  /** Keeps the value out of messages. */
  isSecret?: boolean;
};

/** A single value. */
export function scalar<T>({ accept, accepts, blank, isSecret = false }: ScalarRules<T>): Reader<T> {
  return {
    blank,
    read(reading, node, where) {
      if (isAlias(node)) return blank;
      const place = reading.place(node);
      if (isMap(node) || isSeq(node)) {
        reading.refuse(place, `${where}: one value is expected, give ${accepts}`);
        return blank;
      }
      const value = isScalar(node) ? node.value : null;
      const accepted = value === null ? null : accept(value);
      if (accepted !== null) return accepted;
      const problem =
        value === null ? "there is no value" : `${isSecret ? "this value" : describeValue(node)} is not accepted`;
      reading.refuse(place, `${where}: ${problem}, give ${accepts}`);
      return blank;
    },
  };
}

/** A text. A number is refused and not converted: 010 and 1e3 would change. */
export function text(
  isAccepted: (value: string) => boolean,
  accepts: string,
  { isSecret = false } = {},
): Reader<string> {
  const accept = (value: unknown): string | null => (typeof value === "string" && isAccepted(value) ? value : null);
  return scalar({ accept, accepts, blank: "", isSecret });
}

/** One of several words. */
export function choice<T extends string>(words: readonly [T, ...T[]]): Reader<T> {
  const accept = (value: unknown): T | null => words.find((word) => word === value) ?? null;
  return scalar<T>({ accept, accepts: joinAlternatives(words), blank: words[0] });
}

/** A list whose items have distinct identities; an empty identity is not compared. */
export function list<T extends { place: SourcePosition }>(
  reader: Reader<T>,
  identity: (item: T) => string,
): Reader<readonly T[]> {
  return {
    blank: [],
    read(reading, node, where) {
      if (isAlias(node)) return [];
      if (!isSeq(node)) {
        reading.refuse(reading.place(node), `${where}: a list is expected`);
        return [];
      }
      const seen = new Map<string, number>();
      return node.items.map((element, index) => {
        const item = reader.read(reading, element, `${where}[${index}]`);
        const id = identity(item);
        const earlier = seen.get(id);
        if (id !== "" && earlier !== undefined) {
          reading.refuse(item.place, `${where}[${index}]: ${quote(id)} is already declared in line ${earlier}`);
        } else seen.set(id, item.place.line);
        return item;
      });
    },
  };
}

/** A mapping with exactly these fields; `build` converts it. */
export function record<T extends object, R = T>(
  fields: { readonly [K in keyof T]: Reader<T[K]> },
  build: (values: T, place: SourcePosition) => R,
): Reader<R> {
  const readers = new Map<string, Reader<unknown>>(Object.entries(fields));
  const known = [...readers.keys()].join(", ");
  const blanks = [...readers].map(([key, { absent, blank }]) => [key, absent ? absent.value : blank] as const);
  const blankAt = (place: SourcePosition): R => build(Object.fromEntries(blanks) as T, place);
  return {
    blank: blankAt({ line: 1, column: 1 }),
    read(reading, node, where) {
      const place = reading.place(node);
      if (isAlias(node)) return blankAt(place);
      if (!isMap(node)) {
        reading.refuse(place, `${where === "" ? "the file" : where}: a mapping with ${known} is expected`);
        return blankAt(place);
      }
      const inside = where === "" ? "" : `${where}.`;
      const values = new Map(blanks);
      const given = new Set<string>();
      for (const { key, value } of node.items) {
        const field = isScalar(key) ? String(key.value) : "";
        const reader = readers.get(field);
        if (!reader)
          reading.refuse(reading.place(key), `${inside}${truncate(field, 100)}: unknown key, known are ${known}`);
        else if (value === null) reading.refuse(reading.place(key), `${inside}${field}: there is no value`);
        else if (!given.has(field)) values.set(field, reader.read(reading, value, `${inside}${field}`));
        given.add(field);
      }
      for (const [field, reader] of readers) {
        if (!given.has(field) && reader.absent === undefined) reading.refuse(place, `${inside}${field}: it is missing`);
      }
      return build(Object.fromEntries(values) as T, place);
    },
  };
}

export function quote(text: string): string {
  return truncate(JSON.stringify(text), 100);
}

/** A text in quotes; a number or a word as it was typed: 1e400 is not infinite, and 010 is not 10. */
function describeValue(node: unknown): string {
  if (!isScalar(node) || typeof node.value === "string") return quote(isScalar(node) ? String(node.value) : "");
  return truncate(node.source ?? String(node.value), 100);
}
