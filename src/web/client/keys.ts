/**
 * Keys of one character, and Escape: the page /account/keyboard lists them. They do what links and buttons of the page
 * do, so there is nothing that only they can do. A person can switch off those of one character (WCAG 2.1.4).
 */

import { createDialog } from "./dialog.ts";

/** Milliseconds between `g` and the letter of a place. */
const MAX_PAUSE_MS = 1_500;
const FIELDS = "input, textarea, select, [contenteditable]";
const FIELD = "input:not([type=hidden])";

export function actOnKeys(): void {
  let goAt = Number.NEGATIVE_INFINITY;
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest<HTMLAnchorElement>("[data-go='?']") : null;
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    void showKeyboard(link.href);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return closeDrawer(event);
    if (!actsOnLetters(event)) return;
    const isPlace = event.timeStamp - goAt < MAX_PAUSE_MS;
    goAt = event.key === "g" && !isPlace ? event.timeStamp : Number.NEGATIVE_INFINITY;
    const target = isPlace ? findPlace(event.key) : findTarget(event.key);
    if (!target) return;
    event.preventDefault();
    if (target.matches(FIELDS) || event.key === "j" || event.key === "k") target.focus();
    else {
      target.click();
      // A menu that a key opens takes what is typed next.
      if (target.localName === "summary") target.parentElement?.querySelector<HTMLElement>(FIELD)?.focus();
    }
  });
}

/** Whether a key of one character is meant for the page: not in a field, a dialog, or with another key held. */
export function actsOnLetters(event: KeyboardEvent): boolean {
  if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return false;
  if (event.target instanceof Element && event.target.closest(FIELDS)) return false;
  return document.querySelector("dialog[open], #frame[data-keys=off]") === null;
}

const find = (selector: string): HTMLElement | null => document.querySelector(selector);

const findPlace = (key: string): HTMLElement | null => (/^[a-z]$/.test(key) ? find(`#frame [data-go="${key}"]`) : null);

function findTarget(key: string): HTMLElement | null {
  switch (key) {
    case "j":
    case "k":
      return findNeighbour(key === "j" ? 1 : -1);
    case "f":
      return find("#main .filters :is(input:not([type=hidden]), select)");
    case "n":
      return find("#main .ph .btn-primary");
    case "s":
      return find("#main .save-view > summary");
    case "t":
      return find("#frame [data-time-menu]");
    case "[":
      return find(".nav-switch button");
    case "?":
      return find("#frame [data-go='?']");
    default:
      return null;
  }
}

/** The link of the next or previous row; in a drawer, the button that shows it. */
function findNeighbour(step: 1 | -1): HTMLElement | null {
  const { activeElement } = document;
  const drawer = find(".drawer");
  if (drawer && (activeElement === document.body || drawer.contains(activeElement))) {
    drawer.querySelector<HTMLElement>(`[data-key=${step === 1 ? "next" : "previous"}]`)?.click();
    return null;
  }
  const rows = [...document.querySelectorAll("#main :is(tbody > tr, .rows > li)")];
  const links = rows.flatMap((row) => {
    const link = row.querySelector<HTMLElement>("a[href]");
    return link && link.offsetParent !== null ? [{ row, link }] : [];
  });
  const at = links.findIndex(({ row }) => row.contains(activeElement));
  return links[at === -1 && step === -1 ? links.length - 1 : at + step]?.link ?? null;
}

/** Closes the drawer; from one of its fields, the first time leaves the field only, so that nothing typed is lost. */
function closeDrawer(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing || find("dialog[open]")) return;
  const drawer = find(".drawer");
  const field = event.target instanceof Element ? event.target.closest(FIELDS) : null;
  if (!drawer || (field && !drawer.contains(field))) return;
  event.preventDefault();
  if (field) drawer.focus();
  else drawer.querySelector<HTMLElement>("[data-key=close]")?.click();
}

/** The list of keys is a page, of which a dialog shows a part. */
async function showKeyboard(address: string): Promise<void> {
  const response = await fetch(address, { headers: { Accept: "text/html" } }).catch(() => null);
  const page = response?.ok && !response.redirected ? await response.text() : null;
  const keyboard =
    page === null ? null : new DOMParser().parseFromString(page, "text/html").querySelector("[data-keyboard]");
  if (!keyboard) return location.assign(address);
  if (find("dialog[open]")) return;
  for (const link of keyboard.querySelectorAll("a")) link.href = new URL(link.getAttribute("href") ?? "", address).href;
  const dialog = createDialog("palette palette-keys", "Keyboard");
  dialog.querySelector(".palette-in")?.insertAdjacentHTML("afterbegin", "<h1>Keyboard</h1>");
  // It scrolls in a low window, by keys, too.
  keyboard.querySelector(".keys-cols")?.setAttribute("tabindex", "0");
  dialog.append(keyboard);
  dialog.showModal();
}
