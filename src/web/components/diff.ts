/** The difference of two texts: the lines that are gone and new, with some around them. */
import { countChanges, diffLines } from "../../domain/text/line-diff.ts";
import type { DiffLine } from "../../domain/text/line-diff.ts";
import { html } from "../html.ts";
import type { Html } from "../html.ts";
import { yamlLine } from "./code.ts";
import { card, padded } from "./layout.ts";
import { formatNumber } from "./state.ts";

/** Lines that are shown around each change. */
const CONTEXT = 3;
/** Lines of a difference that are shown. */
const MAX_LINES = 1_000;
const MAX_LINE_CHARS = 1_000;

/** @param label names the difference for screen readers */
export function textDiff(lines: readonly DiffLine[], label: string): Html {
  const isNear = new Uint8Array(lines.length);
  for (const [at, { kind }] of lines.entries())
    if (kind !== "same") isNear.fill(1, Math.max(0, at - CONTEXT), at + CONTEXT + 1);
  const rows: Html[] = [];
  let folded = 0;
  const closeFold = (): void => {
    if (folded > 0) rows.push(foldedLine(folded));
    folded = 0;
  };
  for (const [at, line] of lines.entries()) {
    if (rows.length >= MAX_LINES) {
      rows.push(html`<li class="fold">${formatNumber(lines.length - at)} more lines are not shown</li>`);
      folded = 0;
      break;
    }
    if (isNear[at] === 0) {
      folded += 1;
      continue;
    }
    closeFold();
    rows.push(diffLine(line));
  }
  closeFold();
  return html`<div class="code diff" tabindex="0" role="region" aria-label="${label}"><ol>${rows}</ol></div>`;
}

/** `3 lines added, 1 removed`; `No line changed`. */
export function changeSummary(lines: readonly DiffLine[]): string {
  const { added, removed } = countChanges(lines);
  if (added === 0 && removed === 0) return "No line changed";
  const count = (number: number, what: string): string | null => (number === 0 ? null : `${number} ${what}`);
  const first = added === 1 ? "line added" : "lines added";
  const alone = removed === 1 ? "line removed" : "lines removed";
  return [count(added, first), count(removed, added === 0 ? alone : "removed")]
    .filter((one) => one !== null)
    .join(", ");
}

const MARKS = { same: "", gone: "-", new: "+" } as const;
const WORDS = { same: null, gone: "Removed: ", new: "Added: " } as const;

function diffLine({ kind, old, now, text }: DiffLine): Html {
  const word = WORDS[kind] && html`<span class="vh">${WORDS[kind]}</span>`;
  const numbers = html`<span>${old}</span><span>${now}</span><span aria-hidden="true">${MARKS[kind]}</span>`;
  const look = kind === "same" ? null : html` class="${kind}"`;
  return html`<li${look}>${numbers}<span>${word}${yamlLine(text.slice(0, MAX_LINE_CHARS))}</span></li>`;
}

const foldedLine = (count: number): Html =>
  html`<li class="fold">${formatNumber(count)} ${count === 1 ? "line is" : "lines are"} the same</li>`;

/** The draft in an editor and the text that it would replace. */
export type Draft = { text: string; base: string; baseName: string };

/** What a draft changes. */
export function draftDiff({ text, base, baseName }: Draft): Html {
  const lines = diffLines(base, text);
  const hasChanges = lines.some(({ kind }) => kind !== "same");
  return card({
    id: "h-draft",
    title: `Changes since ${baseName}`,
    note: hasChanges && changeSummary(lines),
    body: hasChanges
      ? textDiff(lines, `The draft compared with ${baseName}`)
      : padded(html`<p class="muted">The draft is the same as ${baseName}.</p>`),
  });
}
