/**
 * Forms. A form submits to its own page, which calls an operation; the field names are those of the operation, so its
 * errors appear at their fields. Bounds and hints of a field come from the shape that the operation declares.
 */
import { editableText, Html, html } from "../html.ts";
import type { Value } from "../html.ts";
import type { Visit } from "../page/page.ts";
import { icon } from "./icon.ts";
import { copyButton } from "./identifier.ts";

/** A JSON schema, as far as forms need it. */
type Shape = {
  properties?: Record<string, Shape>;
  required?: readonly string[];
  description?: string;
  maxLength?: number;
  minLength?: number;
  minimum?: number;
  maximum?: number;
  enum?: readonly string[];
  anyOf?: readonly Shape[];
};

/** An operation whose body a form fills in. */
type Target = { body: { schema?: unknown } };

type FormVisit = Pick<Visit, "refused" | "csrf" | "to" | "path" | "query">;

type FormOptions = {
  /** Name of the form in the page's `forms`. */
  name: string;
  /** Text of its button. */
  submit: Value;
  fields: Value;
  isDanger?: boolean;
  /** Not the main thing to do on its page, which has one primary button. */
  isSecondary?: boolean;
  /** Where "Cancel" leads; no such link without it. */
  cancel?: string;
  /** A small form in a row, without a box around its button. */
  isInline?: boolean;
  /** Puts the buttons somewhere else than in a box below the fields, such as into a panel. */
  within?: (buttons: Html) => Html;
};

/** An error message above a form or in place of a list; null for no message. */
export const problemBox = (text: string | null): Html | null =>
  text === null ? null : html`<p class="problem" role="alert">${icon("alert-fill")}<span>${text}</span></p>`;

/** A form of this page. What was refused is shown above it, with what was typed. */
export function formOf(
  visit: FormVisit,
  { name, submit, fields, isDanger, isSecondary, cancel, isInline, within }: FormOptions,
): Html {
  const refused = visit.refused?.form === name ? visit.refused : null;
  const query = visit.query.toString();
  const action = `${visit.to.path(visit.path.slice(1))}${query === "" ? "" : `?${query}`}`;
  const problem = problemBox(refused?.message || null);
  const look = isDanger ? " btn-danger" : isInline ? " btn-s" : isSecondary ? "" : " btn-primary";
  const buttons = html`<button class="btn${look}" type="submit">${submit}</button>${
    cancel !== undefined && html`<a class="btn btn-quiet" href="${cancel}">Cancel</a>`
  }`;
  const isWrong = refused !== null && (refused.message !== null || Object.keys(refused.errors).length > 0);
  const isOpened = refused ? isWrong : visit.query.has("ask") && !isInline && !isSecondary;
  return html`<form class="${isInline ? "row" : "form"}" method="post" action="${action}">${hiddenField(
    "csrf",
    visit.csrf,
  )}<input type="hidden" name="form" value="${name}">${problem}${isOpened ? withFocus(fields) : fields}${
    isInline ? buttons : within ? within(buttons) : html`<div class="form-do">${buttons}</div>`
  }</form>`;
}

/** Fields of a form that opens: the focus is in the first one that is wrong, else in the first one. */
export function withFocus(fields: Value): Html {
  const { text } = html`${fields}`;
  const first = text.includes(WRONG)
    ? /<(input|select|textarea) (?=[^>]* aria-invalid="true")/
    : /<(input|select|textarea) (?![^>]*type="hidden")(?![^>]* hidden\b)/;
  return new Html(text.replace(first, "<$1 autofocus "));
}

const WRONG = ' aria-invalid="true"';

/** The page for a form that rows repeat, without what was refused: their list says that once. */
export const withoutRefusal = ({ csrf, to, path, query }: Omit<FormVisit, "refused">): FormVisit => ({
  csrf,
  to,
  path,
  query,
  refused: null,
});

type FieldOptions = {
  /** The form that the field is part of. */
  form: string;
  /** Its name in the operation. */
  name: string;
  label: string;
  /** What it contains before anything is typed. */
  value?: string | number | null;
  hint?: Value;
  /** Gives bounds and, where `hint` is missing, the hint. */
  of?: Target;
  isRequired?: boolean;
  isMono?: boolean;
  placeholder?: string;
  type?: "text" | "number" | "password" | "url" | "email";
  autocomplete?: string;
};

type Prepared = {
  id: string;
  value: string;
  error: string | null;
  hint: Value;
  attributes: Html;
  described: Html | null;
};

function prepare(visit: Pick<Visit, "refused">, options: FieldOptions): Prepared {
  const { form, name, of: target } = options;
  const shape = shapeAt(target?.body.schema as Shape | undefined, name);
  const refused = visit.refused?.form === form ? visit.refused : null;
  const id = `${form}-${name.replaceAll(".", "-")}`;
  const error = refused?.errors[name] ?? null;
  const hint = options.hint ?? shape.of?.description;
  const isRequired = options.isRequired ?? shape.isRequired;
  const ids = [hint ? `${id}-hint` : null, error === null ? null : `${id}-error`].filter(Boolean).join(" ");
  return {
    id,
    value: refused ? refused.fields.text(name) : String(options.value ?? ""),
    error,
    hint,
    attributes: html`id="${id}" name="${name}"${isRequired && html` required`}${
      shape.of?.maxLength !== undefined && html` maxlength="${shape.of.maxLength}"`
    }${options.placeholder !== undefined && html` placeholder="${options.placeholder}"`}${
      options.autocomplete !== undefined && html` autocomplete="${options.autocomplete}"`
    }${error !== null && html` aria-invalid="true"`}`,
    described: ids === "" ? null : html` aria-describedby="${ids}"`,
  };
}

/** The shape of a property, and whether it must be there. `a.b` is a property of a property. */
function shapeAt(schema: Shape | undefined, name: string): { of: Shape | null; isRequired: boolean } {
  let shape: Shape | undefined = schema;
  let isRequired = true;
  for (const part of name.split(".")) {
    const parent: Shape | undefined = shape?.properties ? shape : shape?.anyOf?.find(({ properties }) => properties);
    isRequired &&= parent?.required?.includes(part) ?? false;
    shape = parent?.properties?.[part];
  }
  if (!shape) return { of: null, isRequired: false };
  const branch = shape.anyOf?.find(({ maxLength, enum: words }) => maxLength !== undefined || words !== undefined);
  return { of: { ...branch, ...shape }, isRequired };
}

const around = ({ id, error, hint }: Prepared, label: string, input: Html): Html =>
  html`<div class="form-field"><label for="${id}">${label}</label>${input}${
    error !== null && html`<p class="field-error" id="${id}-error">${icon("alert-fill", "12")}${error}</p>`
  }${hint && html`<p class="hint" id="${id}-hint">${hint}</p>`}</div>`;

/** One line of text. */
export function textField(visit: Pick<Visit, "refused">, options: FieldOptions): Html {
  const prepared = prepare(visit, options);
  const { value, attributes, described } = prepared;
  const look = html`class="field${options.isMono && " mono"}"`;
  const type = options.type ?? "text";
  const input = html`<input ${look} type="${type}" ${attributes}${described} value="${value}">`;
  return around(prepared, options.label, input);
}

/** Several lines of text. @param options.rows lines that are visible */
export function textArea(visit: Pick<Visit, "refused">, options: FieldOptions & { rows?: number }): Html {
  const prepared = prepare(visit, options);
  const { value, attributes, described } = prepared;
  // A browser drops the first line feed of a text area.
  const look = html`class="field${options.isMono && " mono"}" rows="${options.rows ?? 3}"`;
  const input = html`<textarea ${look} ${attributes}${described}>
${editableText(value)}</textarea>`;
  return around(prepared, options.label, input);
}

/** One of several words. */
export function selectField(
  visit: Pick<Visit, "refused">,
  options: FieldOptions & { choices: readonly { value: string; text: string }[] },
): Html {
  const prepared = prepare(visit, options);
  const { value, attributes, described } = prepared;
  const input = html`<select class="field" ${attributes}${described}>${options.choices.map(
    (choice) =>
      html`<option value="${choice.value}"${choice.value === value && html` selected`}>${choice.text}</option>`,
  )}</select>`;
  return around(prepared, options.label, input);
}

/** A box to check. @param options.value what is sent if it is checked */
export function checkbox(
  visit: Pick<Visit, "refused">,
  options: Omit<FieldOptions, "value"> & { value?: string; isChecked: boolean; isInvalid?: boolean },
): Html {
  const { form, name, label, value = "yes", isChecked, isInvalid } = options;
  const refused = visit.refused?.form === form ? visit.refused : null;
  const checked = refused ? refused.fields.list(name).includes(value) : isChecked;
  const id = `${form}-${name.replaceAll(".", "-")}-${value}`;
  const hint = options.hint && html`<p class="hint" id="${id}-hint">${options.hint}</p>`;
  const state = html`${checked && html` checked`}${isInvalid && html` aria-invalid="true"`}`;
  return html`<div class="form-check"><input type="checkbox" id="${id}" name="${name}" value="${value}"${state}${
    hint && html` aria-describedby="${id}-hint"`
  }><div><label for="${id}">${label}</label>${hint}</div></div>`;
}

/** A value that a person does not see. */
export const hiddenField = (name: string, value: string): Html =>
  html`<input type="hidden" name="${name}" value="${value}">`;

/** A secret that is shown only now. `what` names it: "API key". */
export const secretBox = ({
  title,
  secret,
  what,
  more,
}: {
  title: string;
  secret: string;
  what: string;
  more?: Value;
}): Html =>
  html`<div class="why why-ok">${icon("key")}<div><h2>${title}</h2>
<p>This is the only time that the ${what} is shown. Store it now.</p>
<div class="secret"><code>${secret}</code>${copyButton(secret, `the ${what}`)}</div>${more}</div></div>`;
