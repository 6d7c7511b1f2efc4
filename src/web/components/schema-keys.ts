/** The keys of a text, from the JSON Schema that the server publishes for it. */

type Schema = {
  properties?: Readonly<Record<string, Schema>>;
  items?: Schema;
  anyOf?: readonly Schema[];
  $ref?: string;
  $defs?: Readonly<Record<string, Schema>>;
};

/**
 * The keys below each key; those of the text as a whole have an empty name. Two keys of one name have the keys of both.
 */
export function schemaKeys(schema: object): Record<string, string[]> {
  const root = schema as Schema;
  const keys = new Map<string, Set<string>>();
  const seen = new Set<string>();
  const visit = (name: string, one: Schema): void => {
    if (one.$ref !== undefined) {
      const part = one.$ref.replace("#/$defs/", "");
      const place = `${name} ${part}`;
      const target = root.$defs?.[part];
      if (target && !seen.has(place)) {
        seen.add(place);
        visit(name, target);
      }
    }
    if (one.items) visit(name, one.items);
    for (const branch of one.anyOf ?? []) visit(name, branch);
    for (const [key, value] of Object.entries(one.properties ?? {})) {
      const own = keys.get(name) ?? new Set();
      keys.set(name, own.add(key));
      visit(key, value);
    }
  };
  visit("", root);
  return Object.fromEntries([...keys].map(([name, own]) => [name, [...own]]));
}
