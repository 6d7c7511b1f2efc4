/**
 * Finds the parts of a YAML text by their keys. A search descends only where it is sent, so aliases cannot loop; they
 * can multiply, so a walk over lists in lists has to be bounded by its caller.
 */
import { isMap, isScalar, isSeq } from "yaml";
import type { Node, Pair } from "yaml";
import type { YamlText } from "./yaml.ts";

/** A key and its value, aliases not resolved. */
export type YamlEntry = Pair<Node, Node | null>;

/** The entry of a mapping with this key; null without one, and for a node that is not a mapping. */
export function findEntry(source: YamlText, node: Node | null, key: string): YamlEntry | null {
  const map = node && source.resolve(node);
  if (!isMap(map)) return null;
  return (
    (map.items as YamlEntry[]).find((entry) => {
      const name = source.resolve(entry.key);
      return isScalar(name) && name.value === key;
    }) ?? null
  );
}

/** The value of a mapping under this key, its alias resolved; null without one. */
export function memberOf(source: YamlText, node: Node | null, key: string): Node | null {
  const value = findEntry(source, node, key)?.value;
  return value ? source.resolve(value) : null;
}

/** The items of the list under this key, aliases not resolved; none for anything else. */
export function nodesOf(source: YamlText, node: Node | null, key: string): readonly Node[] {
  const list = memberOf(source, node, key);
  return isSeq(list) ? (list.items as Node[]) : [];
}
