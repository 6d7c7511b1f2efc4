/** The search of an organization as a part of a page: on its own page, and where something was not found. */
import { html } from "../html.ts";
import type { Html } from "../html.ts";
import type { Links } from "../page/links.ts";
import { icon } from "./icon.ts";

/** Characters that a search takes. */
const MAX_CHARS = 256;

/** A field with its button, which leads to the page of the results. */
export const searchField = (to: Links, text: string, { hasFocus = false }: { hasFocus?: boolean } = {}): Html =>
  html`<form class="filters search-page" role="search" method="get" action="${to.search()}" data-hx-boost="false"
aria-label="Search the organization"><span class="search">${icon("search")}<input type="search" name="q"
aria-label="Commit, fingerprint or name" placeholder="Commit, fingerprint or name" value="${text.slice(0, MAX_CHARS)}"
maxlength="${MAX_CHARS}" autocomplete="off"${hasFocus && html` autofocus`}></span><button class="btn"
type="submit">Search</button></form>`;
