/** Source text of policies and templates: numbered lines with anchors, coloured, with marked lines and messages. */
import { html } from "../html.ts";
import type { Html, Value } from "../html.ts";
import { icon } from "./icon.ts";

export type Mark = {
  /** Lines from 1, both included. */
  from: number;
  to: number;
  /** `cause`: why something fails; `new`: added since the version before. */
  kind: "cause" | "new";
};

type LineMessage = { line: number; text: Value; isWarning?: boolean };

/** Lines of a text that are shown; the rest is a download. */
const MAX_LINES = 2_000;
const MAX_LINE_CHARS = 1_000;

/** @param label names the text for screen readers @param anchor prefix of the ids of its lines: L gives L1, L2 */
export function sourceCode({
  text,
  label,
  marks = [],
  messages = [],
  anchor = "L",
}: {
  text: string;
  label: string;
  marks?: readonly Mark[];
  messages?: readonly LineMessage[];
  anchor?: string;
}): Html {
  const lines = text.replace(/\n$/, "").split("\n");
  const kindOf = (line: number): string | null => {
    const mark = marks.find(({ from, to }) => line >= from && line <= to);
    return mark ? (mark.kind === "cause" ? "hit" : "new") : null;
  };
  const items = lines.slice(0, MAX_LINES).map((line, index) => {
    const number = index + 1;
    const look = kindOf(number);
    const own = messages.filter((message) => message.line === number);
    return html`<li id="${anchor}${number}"${look && html` class="${look}"`}><span>${number}</span><span>${yamlLine(
      line.slice(0, MAX_LINE_CHARS),
    )}</span></li>${own.map(messageLine)}`;
  });
  const rest =
    lines.length > MAX_LINES && html`<li class="msg">${lines.length - MAX_LINES} more lines are not shown.</li>`;
  return html`<div class="code" tabindex="0" role="region" aria-label="${label}"><ol>${items}${rest}</ol></div>`;
}

const messageLine = ({ text, isWarning = false }: LineMessage): Html =>
  html`<li class="msg${isWarning && " msg-wait"}">${icon(
    isWarning ? "alert" : "x-circle-fill",
  )}<span>${text}</span></li>`;

/** Groups: indentation and list marks, a key, the colon, the value. */
const YAML_LINE = /^(\s*(?:- +)*)(?:("[^"]*"|'[^']*'|[^\s#:'"][^#:]*?)(:)(?=\s|$))?(.*)$/;

/** One line of YAML with its keys, values, expressions and comments coloured. Approximate: only the parser knows. */
export function yamlLine(line: string): Html {
  if (/^\s*#/.test(line)) return html`<span class="c">${line}</span>`;
  const [, indent = "", key, colon = "", value = ""] = YAML_LINE.exec(line) ?? [];
  const name = key === undefined ? null : html`<span class="k">${key}</span>`;
  return html`${indent}${name}${colon}${yamlValue(value)}`;
}

function yamlValue(value: string): Value {
  const [, space = "", text = "", comment = ""] = /^(\s*)(.*?)(\s+#.*)?$/.exec(value) ?? [];
  const kind = text.startsWith("${{") ? "x" : /^(?:true|false|null|-?\d+(?:\.\d+)?)$/.test(text) ? "n" : "s";
  return html`${space}${text !== "" && html`<span class="${kind}">${text}</span>`}${
    comment !== "" && html`<span class="c">${comment}</span>`
  }`;
}
