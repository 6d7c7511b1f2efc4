/** Everything a caller sends has a bound: no body takes a text, list or object of any length. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { operations } from "../../src/api/index.ts";
import {
  MAX_ANNOTATIONS,
  MAX_EXTERNAL_URLS,
  MAX_FREE_FORM_BYTES,
  MAX_RESULTS_BYTES,
  MAX_TEXT_CHARS,
  MAX_URL_CHARS,
} from "../../src/contract/shapes.ts";
import { MAX_TAGS } from "../../src/store/db/tags.ts";
import { ROOT } from "./source.ts";

const test = suite("rules/bounds");

type Shape = Record<string, unknown> & {
  type?: string | string[];
  properties?: Record<string, Shape>;
  patternProperties?: Record<string, Shape>;
  additionalProperties?: boolean | Shape;
  items?: Shape;
};

/** A pattern of counted characters alone, such as that of a fingerprint: it bounds the text as maxLength would. */
const FIXED_LENGTH = /^\^(?:\[[^\]]+\]\{\d+\}|-)+\$$/;

/**
 * The places below a shape that take any number of characters, items or keys; those below a bound in bytes have one.
 */
function unboundedIn(shape: Shape, place: string): string[] {
  if ("x-max-bytes" in shape || "enum" in shape || "const" in shape) return [];
  const types = [shape.type ?? []].flat();
  const union = ["anyOf", "oneOf", "allOf"].flatMap((keyword) => (shape[keyword] as Shape[] | undefined) ?? []);
  const more = typeof shape.additionalProperties === "object" ? [shape.additionalProperties] : [];
  const maps = [...Object.values(shape.patternProperties ?? {}), ...more];
  const isOpen = types.includes("object") && (shape.additionalProperties !== false || maps.length > 0);
  return [
    ...(types.includes("string") && !("maxLength" in shape) && !FIXED_LENGTH.test(String(shape["pattern"]))
      ? [`${place}: a text without maxLength`]
      : []),
    ...(types.includes("array") && !("maxItems" in shape) ? [`${place}: a list without maxItems`] : []),
    ...(isOpen && !("maxProperties" in shape) ? [`${place}: an open object without maxProperties or x-max-bytes`] : []),
    ...(types.length === 0 && union.length === 0 ? [`${place}: anything, without x-max-bytes`] : []),
    ...Object.entries(shape.properties ?? {}).flatMap(([name, inner]) => unboundedIn(inner, `${place}.${name}`)),
    ...maps.flatMap((inner) => unboundedIn(inner, `${place}.*`)),
    ...(shape.items ? unboundedIn(shape.items, `${place}[]`) : []),
    ...union.flatMap((inner) => unboundedIn(inner, place)),
  ];
}

test("every text, list and object of every body has a maximum", () => {
  const bodies = operations.flatMap(({ id, body }) =>
    body.kind === "none" ? [] : [{ id, schema: body.schema as unknown as Shape }],
  );
  assert.ok(bodies.length > 30);
  assert.equal(
    bodies.flatMap(({ id, schema }) => unboundedIn(schema, id)),
    [],
  );
});

test("the search for missing bounds finds each kind of them", () => {
  const shape: Shape = {
    type: "object",
    additionalProperties: false,
    properties: {
      text: { type: "string" },
      list: { type: "array", items: { type: "string" } },
      any: {},
      nested: { type: "object", properties: {} },
      map: { type: "object", maxProperties: 3, patternProperties: { "^.*$": {} } },
      union: { anyOf: [{ type: "null" }, { type: "array", maxItems: 2 }, { type: "string" }] },
      fine: { type: "string", maxLength: 3 },
      digest: { type: "string", pattern: "^[a-f0-9]{64}$" },
      name: { type: "string", pattern: "^[a-z]+$" },
      free: { "x-max-bytes": 3 },
      word: { type: "string", enum: ["a"] },
    },
  };
  assert.equal(unboundedIn(shape, "x"), [
    "x.text: a text without maxLength",
    "x.list: a list without maxItems",
    "x.list[]: a text without maxLength",
    "x.any: anything, without x-max-bytes",
    "x.nested: an open object without maxProperties or x-max-bytes",
    "x.map.*: anything, without x-max-bytes",
    "x.union: a text without maxLength",
    "x.name: a text without maxLength",
  ]);
});

test("the guide names the bounds that hold", () => {
  const guide = readFileSync(join(ROOT, "src/guide/limits.md"), "utf8");
  const row = (what: string): string => guide.split("\n").find((line) => line.startsWith(`| ${what}`)) ?? "";
  assert.match(row("`user_data`, `attestation_data`"), `| ${MAX_FREE_FORM_BYTES / 1_048_576}MB of JSON each |`);
  assert.match(row("pull requests"), `| ${MAX_RESULTS_BYTES / 1_048_576}MB of JSON`);
  assert.match(row("annotations"), `| ${MAX_ANNOTATIONS} of an attestation, together`);
  assert.match(row("external URLs"), `| ${MAX_EXTERNAL_URLS}, together`);
  assert.match(row("tags"), `| ${MAX_TAGS}, each value ${MAX_URL_CHARS} characters |`);
  assert.match(row("texts"), `| ${MAX_TEXT_CHARS} characters |`);
});

test.run();
