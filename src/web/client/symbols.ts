/** Icons are symbols of their page (components/icon.ts): a part of another page brings its own along. */

const DEEP = true;

/** Adds the icons of another page that this one does not have. */
export function addSymbols(page: Document): void {
  const own = document.querySelector("svg[hidden]");
  for (const symbol of page.querySelectorAll("svg[hidden] > symbol"))
    if (document.getElementById(symbol.id) === null) own?.append(document.importNode(symbol, DEEP));
}
