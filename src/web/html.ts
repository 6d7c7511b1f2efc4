/**
 * Pages as text. What is put into a template is escaped unless it is a piece of HTML itself, so there is no way to
 * forget it. The pages have no script and no style of their own: their policy forbids the browser both.
 */
import type Koa from "koa";
import { readBuildInfo } from "../assets.ts";

/** A piece of HTML. Made by `html` alone. */
export class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

type Value = string | number | Html | readonly Html[] | null;

/** HTML with escaped values; null stands for nothing. */
export function html(strings: TemplateStringsArray, ...values: readonly Value[]): Html {
  return new Html(strings.map((text, index) => text + shown(values[index] ?? null)).join(""));
}

function shown(value: Value): string {
  if (value === null) return "";
  if (value instanceof Html) return value.text;
  if (typeof value === "object") return value.map(({ text }) => text).join("");
  return String(value).replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** Names of files of the pages -> their addresses below the root of the server. */
export type PageFiles = ReadonlyMap<string, string>;

/** From the page of this request to the root of the server, relative: a proxy may put it below a path of its own. */
export function rootOf({ path, originalUrl }: Pick<Koa.Context, "path" | "originalUrl">): string {
  const [asked = ""] = originalUrl.split("?");
  // A base path without a slash behind it: for a browser its last word is no directory.
  if (path === "/" && !asked.endsWith("/")) return `./${asked.slice(asked.lastIndexOf("/") + 1)}/`;
  return "../".repeat(path.split("/").length - 2) || "./";
}

/**
 * In place of, and beside, what every answer has (http/security.ts). Forms send their origin only where the policy lets
 * the browser tell it to this server (Fetch, "append a request Origin header").
 */
const HEADERS: Readonly<Record<string, string>> = {
  "Content-Security-Policy":
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  "Referrer-Policy": "same-origin",
  "Cross-Origin-Opener-Policy": "same-origin",
};

/** Answers with a page. `links` stand at the right of its head. */
export function sendPage(
  ctx: Koa.Context,
  files: PageFiles,
  status: number,
  { title, main, links = [] }: { title: string; main: Html; links?: readonly Html[] },
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

/** Sends the browser on, to a path below the root of the server that begins with a slash. */
export function sendOn(ctx: Koa.Context, path: string): void {
  ctx.set(HEADERS);
  ctx.status = 303;
  ctx.set("Location", `${rootOf(ctx)}${path.slice(1)}`);
  ctx.body = "";
}

/** A message above a form: of something that went wrong unless `isGood`. */
export const message = (text: string | null, isGood = false): Html | null =>
  text === null
    ? null
    : isGood
      ? html`<p class="done" role="status">${text}</p>`
      : html`<p class="problem" role="alert">${text}</p>`;

/** A labelled input. `attributes` are of our own making. */
export const field = (label: string, name: string, attributes: string, hint: string | null = null): Html => html`
  <label for="${name}">${label}</label>
  <input id="${name}" name="${name}" ${new Html(attributes)}${hint === null ? null : html` aria-describedby="${name}-hint"`}>
  ${hint === null ? null : html`<p class="hint" id="${name}-hint">${hint}</p>`}`;

export const hidden = (name: string, value: string): Html =>
  html`<input type="hidden" name="${name}" value="${value}">`;
