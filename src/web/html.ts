/**
 * Pages as HTML text. Values in a template are escaped unless they are HTML themselves, so escaping cannot be
 * forgotten. The pages have no inline scripts or styles: their content security policy forbids both.
 */
import type Koa from "koa";
import { formatCodePoint } from "../domain/text/excerpt.ts";

/** A piece of HTML, created by `html` only. */
export class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** What a template may contain. Null, undefined and false add nothing; a list adds its items one after the other. */
export type Value = string | number | bigint | Html | readonly Value[] | null | undefined | false;

/**
 * Builds HTML and escapes the values. Control characters of a text become visible; those of an attribute stay as they
 * are, because forms send attributes back.
 */
export function html(strings: TemplateStringsArray, ...values: readonly Value[]): Html {
  let text = strings[0] as string;
  for (const [index, value] of values.entries()) {
    const isAttribute = (strings[index] as string).endsWith('="');
    text += (isAttribute ? escaped(value) : shown(value)) + (strings[index + 1] as string);
  }
  return new Html(text);
}

/** The content of a field of several lines, which a form sends back as it is. */
export const editableText = (text: string): Html => new Html(escapedText(text));

function escaped(value: Value): string {
  if (value === null || value === undefined || value === false) return "";
  if (value instanceof Html) return value.text;
  return typeof value === "object" ? value.map(escaped).join("") : escapedText(String(value));
}

function shown(value: Value): string {
  if (Array.isArray(value)) return value.map(shown).join("");
  const isPlain = typeof value !== "string" || !INVISIBLE.test(value);
  return escaped(isPlain ? value : value.replace(new RegExp(INVISIBLE, "g"), pictureOf));
}

const escapedText = (text: string): string =>
  SPECIAL.test(text) ? text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`) : text;

const SPECIAL = /[&<>"']/;

/** Control characters but tab and line ends, and what changes the direction of the text around it. */
const INVISIBLE = /[\0-\x08\v\f\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff]/;

/** The Unicode picture of a control character; `U+202E` for one without a picture. */
function pictureOf(character: string): string {
  const code = character.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return code === 0x7f ? "\u2421" : formatCodePoint(character);
}

/** The relative path from the requested page to the root of the server, which a proxy may serve below another path. */
export function rootOf({ path, originalUrl }: Pick<Koa.Context, "path" | "originalUrl">): string {
  const [requested = ""] = originalUrl.split("?");
  // A base path without a trailing slash: to a browser, its last segment is not a directory.
  if (path === "/" && !requested.endsWith("/")) return `./${requested.slice(requested.lastIndexOf("/") + 1)}/`;
  return "../".repeat(path.split("/").length - 2) || "./";
}

/** The HTML of a `value` attribute. */
export const valueAttribute = (text: string): string => `value="${html`${text}`.text}"`;

/** A labelled input of a sign-in page. `attributes` is HTML and must not contain unescaped values. */
export function field({
  label,
  name,
  attributes,
  hint = null,
}: {
  label: string;
  name: string;
  attributes: string;
  hint?: string | null;
}): Html {
  const describedBy = hint === null ? null : html` aria-describedby="${name}-hint"`;
  return html`
  <label for="${name}">${label}</label>
  <input class="field" id="${name}" name="${name}" ${new Html(attributes)}${describedBy}>
  ${hint === null ? null : html`<p class="hint" id="${name}-hint">${hint}</p>`}`;
}

export const hidden = (name: string, value: string): Html =>
  html`<input type="hidden" name="${name}" value="${value}">`;
