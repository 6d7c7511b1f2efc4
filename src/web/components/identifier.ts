/** Identifiers: seven characters in a monospaced font, the whole value in the title, and a button that copies it. */
import { NO_COMMIT } from "../../domain/commit.ts";
import { html } from "../html.ts";
import type { Html } from "../html.ts";
import type { Links } from "../page/links.ts";
import { icon } from "./icon.ts";

const SHORT_CHARS = 7;

/** A button that copies a text; hidden where scripts do not run. @param what names it: "fingerprint 9c1e5d0" */
export const copyButton = (text: string, what: string): Html =>
  html`<button class="copy" type="button" data-copy="${text}" aria-label="Copy ${what}">${icon("copy")}</button>`;

/** A fingerprint. @param href of its page, where nothing beside it names the artifact */
export function fingerprint(value: string, href?: string): Html {
  const short = value.slice(0, SHORT_CHARS);
  const copy = copyButton(value, `fingerprint ${short}`);
  const shown =
    href === undefined
      ? html`<span title="sha256:${value}">${short}</span>`
      : html`<a class="id" href="${href}" title="sha256:${value}">${short}</a>`;
  return html`<span class="id">${shown}${copy}</span>`;
}

/** The name of an artifact with its tag in grey. */
export function artifactName(name: string): Html {
  const [, base = name, version = ""] = /^(.+?)(:[^:/]+)?$/s.exec(name) ?? [];
  return html`<bdi>${base}${version !== "" && html`<span class="muted">${version}</span>`}</bdi>`;
}

/** A snapshot, by its environment and number. */
export const snapshotLink = (to: Links, environment: string, index: number): Html =>
  html`<a href="${to.snapshot(environment, index)}"><span><bdi>${environment}</bdi> <span
class="snapshot-no">#${index}</span></span></a>`;

/** A commit; a link where its address is known and safe. An artifact may have been reported without one. */
export function commit(sha: string | null | undefined, url?: string | null): Html {
  if (sha === NO_COMMIT) return html`<span class="muted">no commit</span>`;
  if (!sha) return html`<span class="muted">–</span>`;
  const short = sha.slice(0, SHORT_CHARS);
  return url && isWebAddress(url)
    ? html`<a class="id" href="${url}" title="${sha}" rel="noopener noreferrer">${short}</a>`
    : html`<span class="id" title="${sha}">${short}</span>`;
}

/** Whether an address that a client reported may be a link: http and https only. */
export const isWebAddress = (url: string): boolean => /^https?:\/\/[^\s]+$/i.test(url) && URL.canParse(url);

/** The name of the author of a commit, who stands there as `Name <address>`. */
export const authorName = (author: string): string => author.split(" <")[0] ?? "";

const MAX_UNBROKEN_CHARS = 40;

/** An e-mail address, which breaks before its @ rather than at hyphens. */
export const emailAddress = (address: string): Html =>
  html`<bdi>${address
    .split(/(?=@)/)
    .map(
      (part, at) =>
        html`${at > 0 && html`<wbr>`}<span${part.length <= MAX_UNBROKEN_CHARS && html` class="nowrap"`}>${part}</span>`,
    )}</bdi>`;

/** A link to an address that a client reported; its text where it may not be one. */
export const reportedLink = (url: string | null | undefined, text: string, className = ""): Html =>
  url && isWebAddress(url)
    ? html`<a${className && html` class="${className}"`} href="${url}" rel="noopener noreferrer">${text}</a>`
    : html`${text}`;

/** A link to a build, `Build 88043` where its address ends in a number. */
export function buildLink(url: string): Html {
  const [, number] = /\/(\d+)\/?$/.exec(url) ?? [];
  return reportedLink(url, number === undefined ? "Build" : `Build ${number}`);
}
