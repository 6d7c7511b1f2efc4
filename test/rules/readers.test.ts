/** Methods of stores that handlers of reads get (src/store/reader.ts) change nothing. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { READING_VERBS } from "../../src/store/reader.ts";
import { sourceFiles } from "./source.ts";
import { walk } from "./syntax.ts";
import type { Syntax } from "./syntax.ts";

const test = suite("rules/readers");

const isReading = (name: string): boolean =>
  READING_VERBS.some((verb) => name === verb || (name.startsWith(verb) && /^[A-Z]/.test(name.slice(verb.length))));

/** What a function refers to, and whether it runs a statement for its effect. */
type Named = { refersTo: Set<string>; isChange: boolean };

const isFunction = ({ type, init }: Syntax & { init?: Syntax | null }): boolean =>
  type === "FunctionDeclaration" || (type === "VariableDeclarator" && init?.type === "ArrowFunctionExpression");

/** Whether an identifier is only the name of a member: of an object, or after a dot. */
const isMemberName = (node: Syntax, parent: Syntax & { shorthand?: boolean; computed?: boolean }): boolean =>
  (parent.type === "Property" && parent.key === node && !parent.shorthand) ||
  (parent.type === "MemberExpression" && parent.property === node && !parent.computed);

/** The functions of a source by name, and the members of objects with the name of a reading method. */
function namesIn(text: string): { functions: Map<string, Named>; methods: [name: string, method: Named][] } {
  const functions = new Map<string, Named>();
  const methods: [string, Named][] = [];
  const around = new Map<Syntax, Named>();
  walk(text, (node, parents) => {
    const name = isFunction(node) ? node.id?.name : undefined;
    if (name !== undefined) {
      const known = functions.get(name) ?? { refersTo: new Set(), isChange: false };
      functions.set(name, known);
      around.set(node, known);
    }
    const member = node.type === "Property" ? node.key?.name : undefined;
    if (member !== undefined && isReading(member)) {
      const method = { refersTo: new Set<string>(), isChange: false };
      methods.push([member, method]);
      around.set(node, method);
    }
    const { callee } = node;
    const called = callee?.type === "MemberExpression" ? callee.property?.name : undefined;
    const parent = parents.at(-1);
    for (const ancestor of parents) {
      const named = around.get(ancestor);
      if (!named) continue;
      if (called === "run") named.isChange = true;
      if (node.type === "Identifier" && node.name !== undefined && parent && !isMemberName(node, parent))
        named.refersTo.add(node.name);
    }
  });
  return { functions, methods };
}

/** Whether a method leads to a change, in the same file. */
function leadsToChange(method: Named, functions: ReadonlyMap<string, Named>, seen = new Set<Named>()): boolean {
  if (seen.has(method)) return false;
  seen.add(method);
  if (method.isChange) return true;
  return [...method.refersTo].some((name) => {
    const other = functions.get(name);
    return other !== undefined && leadsToChange(other, functions, seen);
  });
}

test("a method whose name says that it reads runs no statement for its effect", () => {
  let count = 0;
  const offences = sourceFiles("src/store").flatMap(({ path, text }) => {
    const { functions, methods } = namesIn(text);
    count += methods.length;
    return methods.flatMap(([name, method]) => (leadsToChange(method, functions) ? [`${path} ${name}`] : []));
  });
  assert.equal(offences, []);
  assert.ok(count > 200, `only ${count} methods were found`);
});

test("a change behind a reading name is found, also through other functions", () => {
  const { functions, methods } = namesIn(`export function store(db) {
    const insert = db.prepare("INSERT INTO a VALUES (?)");
    const write = (value) => void insert.run(value);
    const note = (value) => write(value);
    return { findName: (value) => note(value), listNames: () => db.prepare("SELECT a FROM a").all(), note };
  }`);
  assert.equal(
    methods.map(([name, method]) => [name, leadsToChange(method, functions)]),
    [
      ["findName", true],
      ["listNames", false],
    ],
  );
});

test.run();
