/** The look of the editor, from the tokens of the pages: it follows every theme without knowing any. */
import { EditorView } from "@codemirror/view";

/** A block between lines must not have margins: CodeMirror measures its height without them. */
const AROUND_MESSAGE = { padding: "2px 16px 4px 0" };
const MESSAGE = {
  padding: "4px 8px",
  borderRadius: "var(--r1)",
  background: "var(--bgColor-danger-muted)",
  font: "var(--t-caption)",
  lineHeight: "20px",
  whiteSpace: "normal",
  overflowWrap: "anywhere",
  maxWidth: "560px",
};

const TOOLTIP = {
  border: "1px solid var(--borderColor-default)",
  borderRadius: "var(--r2)",
  background: "var(--bgColor-default)",
  color: "var(--fgColor-default)",
  boxShadow: "var(--shadow-floating-small)",
};

const underline = (colour: string) => ({
  backgroundImage: "none",
  textDecoration: `underline wavy var(${colour})`,
  textUnderlineOffset: "4px",
});

export const theme = EditorView.theme({
  "&": { color: "var(--fgColor-default)", background: "transparent", maxHeight: "70vh" },
  "&.cm-focused": { outline: "2px solid var(--borderColor-accent-emphasis)", outlineOffset: "-2px" },
  ".cm-scroller": { font: "var(--t-code)", fontVariantLigatures: "none", overflow: "auto", minHeight: "240px" },
  ".cm-content": { padding: "8px 0", caretColor: "var(--fgColor-default)" },
  ".cm-line": { padding: "0 16px 0 0" },
  ".cm-gutters": { background: "transparent", color: "var(--fgColor-muted)", border: "0" },
  ".cm-lineNumbers .cm-gutterElement": { minWidth: "48px", padding: "0 16px 0 0" },
  ".cm-activeLineGutter": { background: "transparent" },
  "&.cm-focused .cm-activeLineGutter": { color: "var(--fgColor-default)" },
  ".cm-help": { margin: "0", padding: "4px 16px", font: "var(--t-caption)", color: "var(--fgColor-muted)" },
  ".cm-new": { background: "var(--bgColor-success-muted)" },
  ".cm-message": AROUND_MESSAGE,
  ".cm-message > div": MESSAGE,
  ".cm-message-warning > div": { background: "var(--bgColor-attention-muted)" },
  ".cm-key": { color: "var(--prettylights-syntax-entityTag)" },
  ".cm-string": { color: "var(--prettylights-syntax-string)" },
  ".cm-constant": { color: "var(--prettylights-syntax-constant)" },
  ".cm-comment": { color: "var(--prettylights-syntax-comment)" },
  ".cm-expression": { color: "var(--prettylights-syntax-keyword)" },
  ".cm-lintRange-error": underline("--fgColor-danger"),
  ".cm-lintRange-warning": underline("--fgColor-attention"),
  ".cm-tooltip": TOOLTIP,
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { font: "var(--t-code)", maxHeight: "240px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "4px 12px", minHeight: "24px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": {
    background: "var(--bgColor-accent-muted)",
    color: "var(--fgColor-default)",
  },
  ".cm-completionDetail": { color: "var(--fgColor-muted)", fontStyle: "normal", marginLeft: "12px" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "600" },
  ".cm-diagnostic": { padding: "8px 12px", font: "var(--t-dense)", borderLeft: "0" },
  ".cm-panels": { background: "var(--bgColor-default)", color: "var(--fgColor-default)" },
  ".cm-panels-bottom": { borderTop: "1px solid var(--borderColor-muted)" },
  ".cm-panel.cm-panel-lint ul [aria-selected]": { background: "var(--bgColor-accent-muted)" },
});
