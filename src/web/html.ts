/**
 * Pages as HTML text. Values in a template are escaped unless they are HTML themselves, so escaping cannot be
 * forgotten. The pages have no inline scripts or styles: their content security policy forbids both.
 */
import type Koa from "koa";
import { readBuildInfo } from "../assets.ts";

/** A piece of HTML, created by `html` only. */
export class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

type Value = string | number | Html | readonly Html[] | null;

/** Builds HTML and escapes the values; null adds nothing. */
export function html(strings: TemplateStringsArray, ...values: readonly Value[]): Html {
  return new Html(strings.map((text, index) => text + escaped(values[index] ?? null)).join(""));
}

function escaped(value: Value): string {
  if (value === null) return "";
  if (value instanceof Html) return value.text;
  if (typeof value === "object") return value.map(({ text }) => text).join("");
  return String(value).replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** File names of the pages -> their paths below the root of the server. */
export type PageFiles = ReadonlyMap<string, string>;

/** The relative path from the requested page to the root of the server, which a proxy may serve below another path. */
export function rootOf({ path, originalUrl }: Pick<Koa.Context, "path" | "originalUrl">): string {
  const [requested = ""] = originalUrl.split("?");
  // A base path without a trailing slash: to a browser, its last segment is not a directory.
  if (path === "/" && !requested.endsWith("/")) return `./${requested.slice(requested.lastIndexOf("/") + 1)}/`;
  return "../".repeat(path.split("/").length - 2) || "./";
}

/**
 * Headers that replace or extend those of every response (http/security-headers.ts). Browsers send the Origin of a form
 * only under a referrer policy that permits it (Fetch, "append a request Origin header").
 */
const HEADERS: Readonly<Record<string, string>> = {
  "Content-Security-Policy":
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  "Referrer-Policy": "same-origin",
  "Cross-Origin-Opener-Policy": "same-origin",
};

/** Answers with a page. `links` appear on the right of its header. */
export function sendPage(
  ctx: Koa.Context,
  files: PageFiles,
  { status, title, main, links = [] }: { status: number; title: string; main: Html; links?: readonly Html[] },
): void {
  const root = rootOf(ctx);
  const file = (name: string): string => `${root}${files.get(name) ?? ""}`;
  ctx.set(HEADERS);
  ctx.status = status;
  ctx.type = "text/html; charset=utf-8";
  ctx.body = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>${title} - Assay</title>
<link rel="icon" type="image/svg+xml" href="${file("icon.svg")}">
<link rel="stylesheet" href="${file("house.css")}">
<link rel="stylesheet" href="${file("pages.css")}">
</head>
<body>
<header class="bar">
  <h1><strong>Assay</strong> ${title}</h1>
  <span class="version">${readBuildInfo().version}</span>
  <nav aria-label="Pages">${links}<a href="${root}api/v2/doc/">API reference</a></nav>
</header>
<main class="page">
${main}
</main>
</body>
</html>
`.text;
}

/** Redirects the browser to a path below the root of the server, which begins with a slash. */
export function redirectTo(ctx: Koa.Context, path: string): void {
  ctx.set(HEADERS);
  ctx.status = 303;
  ctx.set("Location", `${rootOf(ctx)}${path.slice(1)}`);
  ctx.body = "";
}

/** An error message above a form; null for no message. */
export const problemBox = (text: string | null): Html | null =>
  text === null ? null : html`<p class="problem" role="alert">${text}</p>`;

/** A message about something that succeeded; null for no message. */
export const successBox = (text: string | null): Html | null =>
  text === null ? null : html`<p class="done" role="status">${text}</p>`;

/** The HTML of a `value` attribute. */
export const valueAttribute = (text: string): string => `value="${html`${text}`.text}"`;

/** A labelled input. `attributes` is HTML and must not contain unescaped values. */
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
  <input id="${name}" name="${name}" ${new Html(attributes)}${describedBy}>
  ${hint === null ? null : html`<p class="hint" id="${name}-hint">${hint}</p>`}`;
}

export const hidden = (name: string, value: string): Html =>
  html`<input type="hidden" name="${name}" value="${value}">`;
