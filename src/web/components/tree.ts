/**
 * A tree that explains a verdict: each node has a state, a kind and a sentence, and what it rests on below it. Nodes
 * are `details` elements, so that a tree opens and closes without scripts; links stand beside a `summary`, never in it.
 */
import { html } from "../html.ts";
import type { Html, Value } from "../html.ts";
import { icon } from "./icon.ts";
import { stateIcon } from "./state.ts";
import type { ShownState } from "./state.ts";

/** A node of the tree, or a note in its place: "12 more rules hold". */
export type TreeNode =
  | { note: Value }
  | {
      state: ShownState;
      /** What screen readers say for the icon, where it is not the usual word: "Satisfied". */
      word?: string;
      /** In one short word what it is: "Policy", "Rule", "Fact". */
      kind: string;
      /** The sentence, without links. */
      text: Value;
      sub?: Value;
      /** Links or numbers at the right. */
      right?: Value;
      /** Whether it is one of the causes, which are tinted. */
      isCause?: boolean;
      isOpen?: boolean;
      children?: readonly TreeNode[];
    };

/** @param className for another width of the column with the kinds */
export const tree = (nodes: readonly TreeNode[], className = ""): Html =>
  html`<div class="card-b tree${className && ` ${className}`}"><ul>${nodes.map(treeItem)}</ul></div>`;

function treeItem(node: TreeNode): Html {
  if ("note" in node) return html`<li><div class="node node-note">${node.note}</div></li>`;
  const { children = [], right, isCause, isOpen } = node;
  const look = html`class="node${isCause && " cause"}"`;
  const side = right && html`<span class="node-r">${right}</span>`;
  if (children.length === 0) return html`<li><div ${look}>${inside(node, null)}</div>${side}</li>`;
  const below = html`<ul>${children.map(treeItem)}</ul>`;
  return html`<li><details${isOpen && html` open`}><summary ${look}>${inside(
    node,
    CHEVRON,
  )}</summary>${below}</details>${side}</li>`;
}

// A no-break space keeps the mark beside the last word.
const CHEVRON = html`&#160;<span class="chev">${icon("chevron-down", "12")}</span>`;

const inside = ({ state, word, kind, text, sub }: Exclude<TreeNode, { note: Value }>, mark: Html | null): Html =>
  html`${stateIcon(state, word)}<span class="kind">${kind}</span><div class="node-t"><b>${text}${mark}</b>${
    sub && html`<span class="sub">${sub}</span>`
  }</div>`;
