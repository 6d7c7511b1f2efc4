/**
 * YAML files written by an operator: the configuration and the apply file.
 *
 * Such a file is data only. Everything in YAML that can expand, point elsewhere or change the meaning of a plain value is
 * refused with its place, so that what the operator reads is what the program reads.
 */
import { Composer, isAlias, isMap, isScalar, LineCounter, Lexer, Parser, visit } from "yaml";
import type { ParsedNode } from "yaml";

/** A place in a text; lines and columns count from 1. */
export type Place = { line: number; column: number };

export type YamlProblem = Place & { text: string };

type Placed = { range?: readonly [number, number, number] | null | undefined };

/** A YAML text that was read: `root` is null when it is empty or broken; `place` says where a node begins. */
export type YamlText = {
  root: ParsedNode | null;
  problems: YamlProblem[];
  place: (node: Placed | null) => Place;
};

// Operators' files are pages, not megabytes; real ones nest five levels deep. The reader works by recursion, so the
// depth is checked on the tokens, before it sees them.
const YAML_LIMIT = 1_048_576;
const YAML_DEPTH = 64;
const YAML_ERRORS = 20;

/**
 * Reads the YAML of a file that an operator wrote: one document of plain mappings, lists and scalars. Refuses more than
 * 1,048,576 characters, more than 64 levels, several documents, directives, tags, anchors and aliases (so nothing can expand) and keys
 * given twice; each with its place. Never throws, and takes time proportional to the text.
 */
export function readYaml(text: string): YamlText {
  const lines = new LineCounter();
  const problems: YamlProblem[] = [];
  const at = (offset: number): Place => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  const place: YamlText["place"] = (node) => at(node?.range?.[0] ?? 0);
  const broken = (offset: number, problem: string): YamlText => {
    problems.push({ ...at(offset), text: problem });
    return { root: null, problems, place };
  };

  if (text.length > YAML_LIMIT) return broken(0, "the file is longer than 1,048,576 characters");
  const parser = new Parser(lines.addNewLine);
  const tokens = [];
  let errors = 0;
  lines.addNewLine(0);
  for (const lexeme of new Lexer().lex(text)) {
    for (const token of parser.next(lexeme)) {
      tokens.push(token);
      if (token.type === "error") errors += 1;
    }
    if (parser.stack.length > YAML_DEPTH) return broken(parser.offset, `more than ${YAML_DEPTH} levels deep`);
    if (errors >= YAML_ERRORS) break;
  }
  for (const token of parser.end()) tokens.push(token);

  let documents = 0;
  for (const token of tokens) {
    if (token.type === "directive") problems.push({ ...at(token.offset), text: "directives (%) are not supported" });
    if (token.type === "document" && ++documents === 2) {
      problems.push({ ...at(token.offset), text: "a second document begins here, one file holds one document" });
    }
  }
  // Keys are compared below: the reader's own check takes quadratic time.
  const composer = new Composer({ uniqueKeys: false, stringKeys: true, version: "1.2", logLevel: "silent" });
  const [document] = composer.compose(tokens);
  if (!document) return { root: null, problems, place };
  if (document.errors.length > 0) {
    for (const { pos, message } of document.errors.slice(0, YAML_ERRORS)) {
      // What follows the colon is a piece of the file, which may be a secret.
      problems.push({ ...at(pos[0]), text: message.replace(/(?<! ): .*$/s, "") });
    }
    return { root: null, problems, place };
  }
  visit(document, {
    Node: (_, node) => {
      // The name is not repeated: a key that somebody forgot to quote may begin with any of these characters.
      const sign = isAlias(node) ? "aliases (*)" : node.anchor ? "anchors (&)" : node.tag ? "tags (!)" : null;
      if (sign) problems.push({ ...place(node), text: `${sign} are not supported, put quotes around a text` });
      if (!isMap(node)) return;
      const seen = new Map<unknown, number>();
      for (const { key } of node.items) {
        if (!isScalar(key)) continue;
        const { line } = place(key);
        const earlier = seen.get(key.value);
        if (earlier === undefined) seen.set(key.value, line);
        else {
          const name = JSON.stringify(shorten(String(key.value)));
          problems.push({ ...place(key), text: `the key ${name} stands in line ${earlier} already` });
        }
      }
    },
  });
  const { contents } = document;
  return { root: isScalar(contents) && contents.value === null ? null : contents, problems, place };
}

function shorten(text: string): string {
  return text.length > 100 ? `${text.slice(0, 100)}...` : text;
}
