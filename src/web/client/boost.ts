import { addSymbols } from "./symbols.ts";

/**
 * Links and filters that stay on their path replace the frame, with everything in it that names the object, but load no
 * new document. Other links load their page: addresses in the frame are relative to the path of the page.
 */
export function boostWithinPage(): void {
  document.addEventListener("htmx:before:init", (event) => {
    if (!staysOnPage(event.target)) event.preventDefault();
  });
  let left = leave();
  document.addEventListener("htmx:before:swap", () => {
    left = leave();
  });
  document.addEventListener("htmx:after:swap", (event) => {
    const { select, swap, text } = (event as CustomEvent<{ ctx: Swap }>).detail.ctx;
    if (select !== REFRESH.select) addSymbols(new DOMParser().parseFromString(text, "text/html"));
    else if (swap !== REFRESH.swap) arrive(left);
  });
}

/** What htmx says about an exchange: the part of the answered page, how it came in, and the answer. */
export type Swap = { select: string; swap: string; text: string; response: { status: number } };

/** The same page is brought up to date: the reader goes on where the eyes and the keyboard are. */
export const REFRESH = { target: "#frame", select: "#frame", swap: "outerMorph" } as const;

type Left = { address: string; field: string | null; hasDrawer: boolean };

const findDrawer = (): HTMLElement | null => document.querySelector(".drawer");

/** What a step leaves behind, as far as the next page continues it. */
const leave = (): Left => ({
  address: location.href,
  field: fieldSelector(document.activeElement),
  hasDrawer: findDrawer() !== null,
});

/**
 * Shows a new page from its top, as a browser does, but keeps the place in a list whose drawer opens, closes or goes on
 * to another row. The keyboard goes on in the field where it was, into a drawer, or back to the row that had opened it;
 * else a person with a screen reader hears what came.
 */
function arrive({ address, field: selector, hasDrawer }: Left): void {
  const drawer = findDrawer();
  if (!drawer && !hasDrawer) window.scrollTo(0, 0);
  const row = drawer ? document.querySelector<HTMLElement>("#main .sel") : hasDrawer ? linkTo(address) : null;
  row?.scrollIntoView({ block: "nearest" });
  if (document.activeElement?.matches("[autofocus]")) return;
  const field = selector === null ? null : document.querySelector<HTMLElement>(selector);
  const next = field ?? drawer ?? row ?? document.getElementById("main");
  next?.focus({ preventScroll: true });
}

const linkTo = (address: string): HTMLElement | null =>
  [...document.querySelectorAll<HTMLAnchorElement>("#main a[href]")].find(({ href }) => href === address) ?? null;

/** Finds the same field again when the content was replaced; null for other elements. */
function fieldSelector(element: Element | null): string | null {
  const isField = element instanceof HTMLInputElement || element instanceof HTMLSelectElement;
  return isField && element.name !== "" ? `#main ${element.localName}[name="${CSS.escape(element.name)}"]` : null;
}

function staysOnPage(element: EventTarget | null): boolean {
  if (element instanceof HTMLAnchorElement)
    return element.pathname === location.pathname && element.hash === "" && !element.hasAttribute("download");
  if (element instanceof HTMLFormElement)
    return element.method === "get" && new URL(element.action).pathname === location.pathname;
  return false;
}
