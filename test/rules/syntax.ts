/** The syntax tree of a TypeScript source. Types become blanks of equal length, so positions stay the same. */
import { stripTypeScriptTypes } from "node:module";
import { parse } from "acorn";
import type { Node } from "acorn";

export type Syntax = Node & {
  id?: (Syntax & { name?: string }) | null;
  name?: string;
  key?: Syntax & { name?: string };
  callee?: Syntax;
  property?: Syntax & { name?: string };
  params?: Syntax[];
  arguments?: Syntax[];
  argument?: Syntax | null;
  body?: Syntax | Syntax[];
  properties?: Syntax[];
  value?: unknown;
};

/** Calls `visit` with every node and the nodes around it, the innermost last. */
export function walk(text: string, visit: (node: Syntax, parents: readonly Syntax[]) => void): void {
  const parents: Syntax[] = [];
  const enter = (value: unknown): void => {
    if (Array.isArray(value)) {
      for (const one of value) enter(one);
      return;
    }
    if (typeof value !== "object" || value === null || typeof (value as Syntax).type !== "string") return;
    const node = value as Syntax;
    visit(node, parents);
    parents.push(node);
    for (const child of Object.values(node)) enter(child);
    parents.pop();
  };
  enter(parse(stripTypeScriptTypes(text), { ecmaVersion: "latest", sourceType: "module" }));
}
