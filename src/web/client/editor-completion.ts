/** Completion in policies and templates: keys where the cursor is, names that the organization has, and expressions. */
import { insertCompletionText, startCompletion } from "@codemirror/autocomplete";
import type { Completion, CompletionContext, CompletionResult, CompletionSource } from "@codemirror/autocomplete";
import type { Text } from "@codemirror/state";

/** As the page gives them: see components/editor.ts. */
export type KnownNames = {
  keys: Readonly<Record<string, readonly string[]>>;
  values: Readonly<Record<string, readonly string[]>>;
  flows: readonly string[] | null;
};

/** The language of conditions. */
const WORDS: readonly Completion[] = [
  { label: "flow.name", detail: "name of the flow" },
  { label: "flow.tags.", detail: "tag of the flow" },
  { label: "artifact.name", detail: "name of the artifact" },
  { label: "artifact.fingerprint", detail: "its SHA-256 fingerprint" },
  { label: "exists(", detail: "whether a value is there" },
  { label: "matches(", detail: "regular expression" },
  ...["and", "or", "not", "in", "true", "false"].map((label) => ({ label, type: "keyword" })),
];

export const completeNames =
  ({ keys, values, flows }: KnownNames): CompletionSource =>
  (context) => {
    const line = context.state.doc.lineAt(context.pos);
    const before = line.text.slice(0, context.pos - line.from);
    if (flows && isInExpression(before)) return inExpression(context, before, flows);
    const [, indent = "", , key = "", typed = ""] = /^(\s*)(- +)*([\w-]+):\s+(["'\w.:*/~-]*)$/.exec(before) ?? [];
    if (key !== "") return offer(context, typed, valuesAt(key, { values, hasFlows: flows !== null, indent }));
    const [, , start] = /^((?:\s|- )*)([\w-]*)$/.exec(before) ?? [];
    if (start === undefined) return null;
    const column = before.length - start.length;
    const known = keys[parentKey(context.state.doc, line.number, column)] ?? [];
    return offer(
      context,
      start,
      known.map((label) => ({ label, apply: insertKey })),
    );
  };

/** Inserts a key, and offers its values. */
const insertKey: Exclude<Completion["apply"], string | undefined> = (view, { label }, ...[from, to]) => {
  view.dispatch(insertCompletionText(view.state, `${label}: `, from, to));
  startCompletion(view);
};

type Known = Pick<KnownNames, "values"> & { hasFlows: boolean; indent: string };

function valuesAt(key: string, { values, hasFlows }: Known): Completion[] {
  if (key === "if" && hasFlows) return [{ label: "${{ }}", apply: "${{ ", detail: "condition" }];
  return (values[key] ?? []).map((label) => ({ label }));
}

function offer(context: CompletionContext, typed: string, options: readonly Completion[]): CompletionResult | null {
  if (options.length === 0 || (typed === "" && !context.explicit && !isAfterColon(context))) return null;
  return { from: context.pos - typed.length, options, validFor: /^[\w.:*/~"'-]*$/ };
}

/** A value is offered as soon as the space after its key is typed. */
const isAfterColon = ({ state, pos }: CompletionContext): boolean => state.sliceDoc(pos - 2, pos) === ": ";

const isInExpression = (before: string): boolean => before.lastIndexOf("${{") > before.lastIndexOf("}}");

function inExpression(context: CompletionContext, before: string, flows: readonly string[]): CompletionResult | null {
  const quoted = /flow\.name\s*(?:==|!=|in)[^"']*(?:["'][^"']*["'][^"']*)*["']([^"']*)$/.exec(before)?.[1];
  if (quoted !== undefined)
    return {
      from: context.pos - quoted.length,
      options: flows.map((label) => ({ label, detail: "flow" })),
      validFor: /^[\w.~-]*$/,
    };
  if (/["'][^"']*$/.test(before.replace(/(["'])[^"']*\1/g, ""))) return null;
  const typed = /[\w.]*$/.exec(before)?.[0] ?? "";
  if (typed === "" && !context.explicit) return null;
  return { from: context.pos - typed.length, options: WORDS, validFor: /^[\w.]*$/ };
}

/** The key that a line belongs to: of the nearest line above that is indented less. Empty for the text as a whole. */
function parentKey(doc: Text, number: number, column: number): string {
  let limit = column;
  for (let at = number - 1; at >= 1 && limit > 0; at -= 1) {
    const { text } = doc.line(at);
    const [, space = "", dashes = "", key] = /^(\s*)((?:- +)*)([\w-]+):/.exec(text) ?? [];
    if (key === undefined) continue;
    const start = space.length + dashes.length;
    if (start >= limit) {
      // The first key of an item stands behind a dash: the item belongs to what is above the dash.
      if (dashes !== "" && start === limit) limit = space.length + 1;
      continue;
    }
    return key;
  }
  return "";
}
