/**
 * The editor of policies and templates: a text area that works without scripts. Its form has two buttons: one stores
 * the text, the other (`do=preview`) only checks it. The script (client/editor.ts) makes an editor of the text area. It
 * submits the form as the second button does while a person types, and takes the result from the answered page.
 */
import type { SourceProblem } from "../../errors.ts";
import { editableText, html } from "../html.ts";
import type { Html, Value } from "../html.ts";
import { textProblemInWords } from "../page/field-words.ts";
import type { Fields } from "../page/fields.ts";
import type { RefusedForm, Visit } from "../page/page.ts";
import { sourceCode } from "./code.ts";
import { hiddenField, problemBox, withFocus } from "./forms.ts";
import { icon } from "./icon.ts";
import { card, padded } from "./layout.ts";
import { formatNumber } from "./state.ts";

/** Id of the form, for buttons outside of it. */
const FORM_ID = "editor";

/** What the editor completes. */
export type Completions = {
  /** Name of a key, empty for the text as a whole -> the keys below it. */
  keys: Readonly<Record<string, readonly string[]>>;
  /** Name of a key -> its values. */
  values: Readonly<Record<string, readonly string[]>>;
  /** Names of flows, in expressions; null where the text has no expressions. */
  flows: readonly string[] | null;
};

type EditorOptions = {
  /** Name of the form in the page's `forms`, and of the field with the text. */
  form: string;
  field: string;
  /** Heading: the name of the file. */
  title: string;
  label: string;
  value: string;
  /** Mistakes of the text that was submitted. */
  problems: readonly SourceProblem[];
  /** What the draft is compared with; null for a new text. */
  base: { text: string; name: string } | null;
  completions: Completions;
  /** `YAML, policy schema v1`. */
  language: string;
  /** Fields above the text, and below it. */
  above?: Value;
  below?: Value;
  /** The result of the check: `editorResult`. */
  result: Html;
  /** The buttons below the text; `cancel` leads away, where there is something to leave. */
  buttons: { submit: string; cancel: { href: string; text: string } | null };
  rows?: number;
};

/** A longer text is changed by the API: a check reads no more than that either. */
const MAX_EDITED_CHARS = 1_000_000;

/** In place of the editor: nothing may store a text of which the person saw a part. */
const tooLong = ({ title, label, value }: EditorOptions): Html =>
  card({
    id: "h-editor",
    title,
    body: html`${padded(tooLongNote(value))}${sourceCode({ text: value, label })}`,
  });

/** Says why a text cannot be changed in a form; null for one that can. */
export const tooLongNote = ({ length }: string): Html | null =>
  length > MAX_EDITED_CHARS
    ? html`<p>This text has ${formatNumber(length)} characters. A form takes ${formatNumber(
        MAX_EDITED_CHARS,
      )}: change it with the API or the CLI.</p>`
    : null;

/** The form with the editor, and beside it what a check says. */
export function editorForm(visit: Visit, options: EditorOptions): Html {
  if (tooLongNote(options.value)) return tooLong(options);
  const { form, field, label, value, problems, completions, base, above, below, result, buttons } = options;
  const refused = visit.refused?.form === form ? visit.refused : null;
  const query = visit.query.toString();
  const action = `${visit.to.path(visit.path.slice(1))}${query === "" ? "" : `?${query}`}`;
  const text = refused ? refused.fields.text(field) : value;
  const warnings = refused?.warnings ?? [];
  const found = [...problems.map(withKind("error")), ...warnings.map(withKind("warning"))];
  const error = problems.length === 0 ? (refused?.errors[field] ?? null) : null;
  // Enter in a field presses the first button of a form, which would be that of the check.
  const first = html`<button type="submit" name="do" value="save" hidden></button>`;
  const hidden = html`${hiddenField("csrf", visit.csrf)}${hiddenField("form", form)}${first}`;
  const note = problemBox(refused?.message || null);
  // A browser drops the first line feed of a text area.
  const area = html`<textarea class="field mono editor-text" id="editor-text" name="${field}" rows="${
    options.rows ?? 24
  }" aria-label="${label}" aria-describedby="editor-hint" spellcheck="false" wrap="off"${
    (error !== null || problems.length > 0) && html` aria-invalid="true"`
  } data-editor-text>
${editableText(text)}</textarea>`;
  const data = html`data-completions="${JSON.stringify(completions)}" data-base="${base?.text}" data-base-name="${
    base?.name
  }" data-problems="${problemsJson(problems, warnings)}"`;
  const isOpened = refused ? html`${above}`.text.includes('aria-invalid="true"') : visit.query.has("ask");
  const state = [
    problems.length > 0 && errorSign(countText(problems.length, "error")),
    warnings.length > 0 && warningSign(countText(warnings.length, "warning")),
  ];
  return html`<form class="editor-form" id="${FORM_ID}" method="post" action="${action}" data-editor ${data}>
${hidden}${note}
<div class="cols-editor"><div class="stack">${isOpened ? withFocus(above) : above}
<section class="card" aria-labelledby="h-editor"><div class="card-h"><h2 id="h-editor">${options.title}</h2>
<template data-editor-error>${errorSign("")}</template><template data-editor-warning>${warningSign("")}</template>
<span class="row" data-editor-state>${state}</span><span class="sub right" data-editor-changes></span></div>
${found.length > 0 && html`<div data-editor-fallback>${markedSource(text, found)}</div>`}${area}${
  error !== null && html`<p class="field-error">${icon("alert-fill", "12")}${error}</p>`
}<div class="card-f"><span class="row" data-editor-marks>${found.map(positionLink)}</span><span
class="right" id="editor-hint">${options.language}</span></div></section>
${below}</div>
<div class="editor-side">${result}</div>${formButtons(buttons)}</div></form>`;
}

/** The script switches the button that stores the text off while the text has errors. */
const formButtons = ({ submit, cancel }: EditorOptions["buttons"]): Html =>
  html`<div class="form-do"><button class="btn btn-primary" type="submit" name="do" value="save" data-editor-save>${
    submit
  }</button>${cancel && html`<a class="btn btn-quiet" href="${cancel.href}">${cancel.text}</a>`}</div>`;

/** The button that checks the text, and stores nothing. */
export const previewButton = (text: string, kind: "" | "small" = ""): Html =>
  html`<button class="btn${kind === "small" && " btn-s"}" type="submit" name="do" value="preview"
form="${FORM_ID}" formnovalidate>${text}</button>`;

/** Whether a submitted form asks for the check only. */
export const asksForPreview = (fields: Fields): boolean => fields.text("do") === "preview";

/** Whether a form is shown with the result of its check: neither stored nor refused. */
export const isChecked = (form: RefusedForm | null): boolean =>
  form !== null && asksForPreview(form.fields) && form.message === null && Object.keys(form.errors).length === 0;

/** What an editor's form submitted, for the page that shows the result of its check. */
export const typedForm = (
  visit: Visit,
  form: string,
  typed: Pick<RefusedForm, "fields" | "problems" | "warnings">,
): Visit =>
  Object.create(visit, {
    refused: { value: { ...typed, form, errors: {}, message: null } satisfies RefusedForm },
  });

/** What a check found in a text: its mistakes, and what would be stored all the same. */
type Found = { problems: readonly SourceProblem[]; warnings: readonly SourceProblem[] };

/** The result of a check. The script takes it from the page, and from the data what was found in the checked text. */
export const editorResult = (body: Value, { problems, warnings }: Found = { problems: [], warnings: [] }): Html =>
  html`<div class="stack" id="editor-result" data-problems="${problemsJson(problems, warnings)}">${body}</div>`;

type Kind = "error" | "warning";
type Mark = SourceProblem & { kind: Kind };
const withKind =
  (kind: Kind) =>
  (problem: SourceProblem): Mark => ({ ...problem, message: textProblemInWords(problem), kind });

const problemsJson = (problems: readonly SourceProblem[], warnings: readonly SourceProblem[]): string =>
  JSON.stringify(
    [...problems.map(withKind("error")), ...warnings.map(withKind("warning"))].map(
      ({ line, column, message, kind }) => ({ line, column, message, kind }),
    ),
  );

const errorSign = (text: Value): Html => html`<span class="st bad">${icon("x-circle-fill")}${text}</span>`;
const warningSign = (text: Value): Html => html`<span class="st wait">${icon("alert")}${text}</span>`;
const countText = (count: number, kind: Kind): string => (count === 1 ? `1 ${kind}` : `${count} ${kind}s`);

const MAX_LISTED_WARNINGS = 5;

/** The warnings of a check in its result; nothing without any. */
export const warningList = (warnings: readonly SourceProblem[]): Value =>
  warnings.length > 0 &&
  html`<div class="why why-wait gap-t">${icon("alert")}<div><p>${countText(warnings.length, "warning")}. The text would
be stored all the same.</p><ul>${warnings
    .slice(0, MAX_LISTED_WARNINGS)
    .map((one) => html`<li><span data-line="${one.line}">line ${one.line}</span>: ${textProblemInWords(one)}</li>`)}${
    warnings.length > MAX_LISTED_WARNINGS && html`<li>and ${warnings.length - MAX_LISTED_WARNINGS} more</li>`
  }</ul></div></div>`;

const markedSource = (text: string, found: readonly Mark[]): Html =>
  sourceCode({
    text,
    label: found.some(({ kind }) => kind === "error") ? "The text with its errors" : "The text with its warnings",
    messages: found.map(({ line, column, message, kind }) => ({
      line,
      text: html`<b>Line ${line}, column ${column}</b> ${message}`,
      isWarning: kind === "warning",
    })),
  });

const positionLink = ({ line, column, kind }: Mark): Html =>
  html`<a class="${kind === "error" ? "bad" : "wait"} num" href="#L${line}" aria-label="${line}:${column}, ${
    kind
  } in line ${line}, column ${column}">${line}:${column}</a>`;
