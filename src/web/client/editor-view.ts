/**
 * CodeMirror with the look of the pages. It lives in a shadow root: there its style sheets are adopted, which the
 * content security policy of the pages permits; in the document they would be inline styles, which it forbids.
 */
import { autocompletion, closeBrackets, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { indentUnit, syntaxTree } from "@codemirror/language";
import { lintKeymap, setDiagnostics } from "@codemirror/lint";
import { EditorState, RangeSetBuilder, StateEffect, StateField } from "@codemirror/state";
import type { Range, Text } from "@codemirror/state";
import {
  Decoration,
  EditorView as CodeMirror,
  highlightActiveLineGutter,
  keymap,
  lineNumbers,
  showPanel,
  ViewPlugin,
  WidgetType,
} from "@codemirror/view";
import type { DecorationSet, Panel, ViewUpdate } from "@codemirror/view";
import { countChanges, diffLines } from "../../domain/text/line-diff.ts";
import { completeNames } from "./editor-completion.ts";
import type { KnownNames } from "./editor-completion.ts";
import { theme } from "./editor-theme.ts";

/** A mistake of the text, or what is stored all the same and probably one; line and column from 1. */
export type Problem = { line: number; column: number; message: string; kind: "error" | "warning" };
export type EditorView = {
  showProblems(problems: readonly Problem[]): void;
  /** Moves the cursor to a place, and the keyboard into the editor. */
  goTo(place: { line: number; column: number }): void;
  focus(): void;
};

/** Longer texts are not compared while a person types. */
const MAX_COMPARED_CHARS = 200_000;

/** @param area the text area that the editor replaces; it keeps the text for the form */
export function createEditor(form: HTMLFormElement, area: HTMLTextAreaElement, onChange: () => void): EditorView {
  const host = document.createElement("div");
  host.className = "editor-host";
  const root = host.attachShadow({ mode: "open" });
  const completions = JSON.parse(form.dataset["completions"] ?? "{}") as KnownNames;
  const base = form.dataset["baseName"] ? (form.dataset["base"] ?? "") : null;
  const changes = form.querySelector<HTMLElement>("[data-editor-changes]");
  const view = new CodeMirror({
    root,
    parent: root,
    state: EditorState.create({
      doc: area.value,
      extensions: [
        lineNumbers(),
        highlightActiveLineGutter(),
        history(),
        closeBrackets(),
        yaml(),
        indentUnit.of("  "),
        EditorState.tabSize.of(2),
        autocompletion({ override: [completeNames(completions)], icons: false }),
        keymap.of([...completionKeymap, ...lintKeymap, ...historyKeymap, ...defaultKeymap, indentWithTab]),
        colours,
        messages,
        replaceOnInput,
        showPanel.of(helpPanel),
        theme,
        base === null ? [] : changedLines(base),
        CodeMirror.contentAttributes.of({
          "aria-label": area.getAttribute("aria-label") ?? "",
          "aria-describedby": "keys",
          tabindex: "0",
        }),
        CodeMirror.updateListener.of((update) => {
          if (!update.docChanged) return;
          area.value = update.state.doc.toString();
          tellChanges();
          onChange();
        }),
      ],
    }),
  });
  area.hidden = true;
  area.after(host);
  // To the page, a key in a shadow root looks like a key outside of a field.
  host.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey) event.stopPropagation();
  });
  tellChanges();

  function tellChanges(): void {
    const text = view.state.doc.toString();
    if (!changes || base === null || text.length > MAX_COMPARED_CHARS) return;
    const { added, removed } = countChanges(diffLines(base, text));
    const isSame = added === 0 && removed === 0;
    changes.textContent = isSame ? "" : `+${added} −${removed} lines since ${form.dataset["baseName"]}`;
  }

  const positionOf = ({ line, column }: { line: number; column: number }): number => {
    const { from, length } = view.state.doc.line(Math.min(Math.max(line, 1), view.state.doc.lines));
    return from + Math.min(Math.max(column - 1, 0), length);
  };
  return {
    showProblems(problems) {
      const { doc } = view.state;
      const diagnostics = problems.map((problem) => {
        const from = positionOf(problem);
        return { from, to: wordEnd(doc, from), severity: problem.kind, message: problem.message };
      });
      view.dispatch(setDiagnostics(view.state, diagnostics), { effects: setProblems.of(problems) });
    },
    goTo(place) {
      view.dispatch({ selection: { anchor: positionOf(place) }, scrollIntoView: true });
      view.focus();
    },
    focus: () => view.focus(),
  };
}

/**
 * Replaces selected text itself. A browser would keep its look by an inline style, which the content security policy of
 * the pages forbids and complains about.
 */
const replaceOnInput = CodeMirror.domEventHandlers({
  beforeinput({ inputType, data, isComposing }, view) {
    if (inputType !== "insertText" || data === null || isComposing || view.state.selection.main.empty) return false;
    const change = view.state.replaceSelection(data);
    view.dispatch(change, { userEvent: "input.type", scrollIntoView: true });
    return true;
  },
});

/** What the keyboard does, below the text. */
function helpPanel(): Panel {
  const dom = document.createElement("p");
  dom.id = "keys";
  dom.className = "cm-help";
  dom.textContent = "Tab indents. Press Escape, then Tab, to leave the editor. Ctrl-Space completes.";
  return { dom };
}

/** The end of the word at a position, for the line under it. */
function wordEnd(doc: Text, from: number): number {
  const { to } = doc.lineAt(from);
  const word = /^[^\s:,[\]{}]+/.exec(doc.sliceString(from, to))?.[0].length ?? 0;
  return Math.min(from + Math.max(word, 1), to);
}

const setProblems = StateEffect.define<readonly Problem[]>();

class Message extends WidgetType {
  readonly problem: Problem;
  constructor(problem: Problem) {
    super();
    this.problem = problem;
  }
  override eq({ problem }: Message): boolean {
    const { line, column, message, kind } = this.problem;
    return problem.line === line && problem.column === column && problem.message === message && problem.kind === kind;
  }
  toDOM(): HTMLElement {
    const { line, column, message } = this.problem;
    const place = document.createElement("b");
    place.textContent = `Line ${line}, column ${column}`;
    const text = document.createElement("div");
    text.append(place, ` ${message}`);
    const box = document.createElement("div");
    box.className = `cm-message cm-message-${this.problem.kind}`;
    box.append(text);
    return box;
  }
}

/** Each problem below its line. They move with the text until the next check. */
const messages = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(shown, transaction) {
    const moved = shown.map(transaction.changes);
    const effect = transaction.effects.find((one) => one.is(setProblems));
    if (!effect) return moved;
    const { doc } = transaction.state;
    const widgets = (effect.value as readonly Problem[]).map((problem): Range<Decoration> => {
      const { to } = doc.line(Math.min(Math.max(problem.line, 1), doc.lines));
      return Decoration.widget({ widget: new Message(problem), block: true, side: 1 }).range(to);
    });
    return Decoration.set(widgets.sort((one, other) => one.from - other.from));
  },
  provide: (field) => CodeMirror.decorations.from(field),
});

const LOOKS: Readonly<Record<string, Decoration>> = Object.fromEntries(
  ["key", "string", "constant", "comment", "expression"].map((name) => [
    name,
    Decoration.mark({ class: `cm-${name}` }),
  ]),
);

/** As on the other pages (components/code.ts): keys, values, expressions, comments. */
const colours = ViewPlugin.fromClass(
  class {
    decorations: DecorationSet;
    constructor(view: CodeMirror) {
      this.decorations = colour(view);
    }
    update({ view, docChanged, viewportChanged, startState, state }: ViewUpdate): void {
      if (docChanged || viewportChanged || syntaxTree(startState) !== syntaxTree(state))
        this.decorations = colour(view);
    }
  },
  { decorations: (plugin) => plugin.decorations },
);

function colour(view: CodeMirror): DecorationSet {
  const found = new RangeSetBuilder<Decoration>();
  for (const { from, to } of view.visibleRanges)
    syntaxTree(view.state).iterate({
      from,
      to,
      enter({ name, from: start, to: end, node }) {
        const look = lookOf(
          name,
          node.parent?.name ?? "",
          view.state.doc.sliceString(start, Math.min(end, start + 64)),
        );
        const [first, last] = [Math.max(start, from), Math.min(end, to)];
        if (look && last > first) found.add(first, last, LOOKS[look] as Decoration);
      },
    });
  return found.finish();
}

function lookOf(name: string, parent: string, text: string): string | null {
  if (name === "Comment") return "comment";
  if (name === "BlockLiteralContent") return "string";
  if (name !== "Literal" && name !== "QuotedLiteral") return null;
  if (parent === "Key") return "key";
  if (text.startsWith("${{")) return "expression";
  return /^(?:true|false|null|-?\d+(?:\.\d+)?)$/.test(text) ? "constant" : "string";
}

const NEW_LINE = Decoration.line({ class: "cm-new" });

/** Marks the lines that the text in force does not have. */
function changedLines(base: string) {
  const mark = (doc: Text): DecorationSet => {
    if (doc.length > MAX_COMPARED_CHARS) return Decoration.none;
    const lines = diffLines(base, doc.toString()).filter(({ kind }) => kind === "new");
    return Decoration.set(lines.map(({ now }) => NEW_LINE.range(doc.line(now as number).from)));
  };
  return StateField.define<DecorationSet>({
    create: ({ doc }) => mark(doc),
    update: (shown, { docChanged, newDoc }) => (docChanged ? mark(newDoc) : shown),
    provide: (field) => CodeMirror.decorations.from(field),
  });
}
