/** The shape of functions: few parameters, no positional booleans, bodies that can be read at once. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { sourceFiles } from "./source.ts";
import { walk } from "./syntax.ts";
import type { Syntax } from "./syntax.ts";

const test = suite("rules/functions");

const MAX_PARAMETERS = 3;
const MAX_LINES = 60;

/** Functions whose parameters a library fixes, or that a hot loop calls: each with its reason. */
const MORE_PARAMETERS: Readonly<Record<string, string>> = {
  "src/auth/account-changes.ts audit": "an audit entry: organization, event, target, detail, in the order of the log",
  "src/workers/sandbox/jq.ts (anonymous)": "system calls of WebAssembly, as WASI declares them",
};

/** Functions that are a table or one long literal. */
const LONGER: Readonly<Record<string, string>> = {
  "src/json/scan.ts add": "the loop over every byte of a body: a call for each byte would dominate its cost",
  "src/audit-packages/pdf/canvas.ts createCanvas": "a factory that returns its page with accessors",
};

const isFunction = ({ type }: Syntax): boolean =>
  /^(?:FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/.test(type);

/** The name of a function, or that of the variable, property or method that holds it. */
function nameOf(node: Syntax, parents: readonly Syntax[]): string {
  const holder = parents.at(-1);
  return node.id?.name ?? holder?.id?.name ?? holder?.key?.name ?? "(anonymous)";
}

/** Whether a function prepares things and returns methods: its last statement returns an object. */
function isFactory({ body }: Syntax): boolean {
  const last = Array.isArray((body as Syntax | undefined)?.body)
    ? ((body as Syntax).body as Syntax[]).at(-1)
    : undefined;
  return last?.type === "ReturnStatement" && last.argument?.type === "ObjectExpression";
}

type Found = { parameters: string[]; booleans: string[]; long: string[] };

function inspect(path: string, text: string): Found {
  const found: Found = { parameters: [], booleans: [], long: [] };
  const lineOf = (position: number): number => text.slice(0, position).split("\n").length;
  walk(text, (node, parents) => {
    if (isFunction(node)) {
      const place = `${path} ${nameOf(node, parents)}`;
      if ((node.params?.length ?? 0) > MAX_PARAMETERS) found.parameters.push(place);
      if (lineOf(node.end) - lineOf(node.start) + 1 > MAX_LINES && !isFactory(node)) found.long.push(place);
    }
    const given = node.type === "CallExpression" || node.type === "NewExpression" ? (node.arguments ?? []) : [];
    if (given.length > 1 && given.some(({ type, value }) => type === "Literal" && typeof value === "boolean"))
      found.booleans.push(`${path}:${lineOf(node.start)}`);
  });
  return found;
}

test("the search finds what it is meant to find, and nothing else", () => {
  const long = `${"\n".repeat(MAX_LINES)}`;
  const text = [
    "const a = (b: number, c: number, d: number, e: number) => f(b, true);",
    "f(true); f({ g: true });",
    `function h() {${long}}`,
    `export function i() {${long} return { j() {} }; }`,
  ].join("\n");
  assert.equal(inspect("x.ts", text), { parameters: ["x.ts a"], booleans: ["x.ts:1"], long: ["x.ts h"] });
});

const found = sourceFiles("src").map(({ path, text }) => inspect(path, text));
const unexpected = (places: readonly string[], allowed: Readonly<Record<string, string>>) => ({
  new: [...new Set(places)].filter((place) => !(place in allowed)),
  gone: Object.keys(allowed).filter((place) => !places.includes(place)),
});

test(`no function has more than ${MAX_PARAMETERS} parameters: the rest are named members of one object`, () => {
  assert.equal(
    unexpected(
      found.flatMap(({ parameters }) => parameters),
      MORE_PARAMETERS,
    ),
    { new: [], gone: [] },
  );
});

test("no call passes true or false by position", () => {
  assert.equal(
    found.flatMap(({ booleans }) => booleans),
    [],
  );
});

test(`no function is longer than ${MAX_LINES} lines but factories, which return their methods`, () => {
  assert.equal(
    unexpected(
      found.flatMap(({ long }) => long),
      LONGER,
    ),
    { new: [], gone: [] },
  );
});

test.run();
