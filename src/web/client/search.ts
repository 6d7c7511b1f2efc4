/**
 * The search field: `/` and Ctrl-K focus it, and results appear below it while one types. The results are the search
 * page itself, of which only the list is shown; Enter opens that page.
 */

/** Milliseconds without a keystroke before the server is asked. */
const PAUSE_MS = 180;
const MIN_CHARS = 2;

export function openSearch(): void {
  document.addEventListener("keydown", (event) => {
    const input = document.querySelector<HTMLInputElement>("[data-search]");
    if (!input) return;
    const isTyping =
      event.target instanceof Element && event.target.closest("input, textarea, select, [contenteditable]");
    const isShortcut = (event.key === "k" && (event.ctrlKey || event.metaKey)) || (event.key === "/" && !isTyping);
    if (isShortcut) {
      event.preventDefault();
      input.focus();
      input.select();
    }
  });
  const input = document.querySelector<HTMLInputElement>("[data-search]");
  if (input?.form) suggestIn(input, input.form);
}

function suggestIn(input: HTMLInputElement, form: HTMLFormElement): void {
  const list = document.createElement("div");
  list.className = "suggestions";
  list.id = "suggestions";
  list.hidden = true;
  form.append(list);
  const status = document.createElement("span");
  status.className = "vh";
  status.setAttribute("role", "status");
  form.append(status);
  let timer = 0;
  let asked = 0;
  const close = (): void => {
    list.hidden = true;
  };
  const show = async (): Promise<void> => {
    const text = input.value.trim();
    const turn = ++asked;
    if (text.length < MIN_CHARS) return close();
    const address = new URL(form.action);
    address.searchParams.set("q", text);
    const response = await fetch(address, { headers: { Accept: "text/html" } }).catch(() => null);
    if (turn !== asked || !response?.ok || response.redirected) return;
    const found = new DOMParser().parseFromString(await response.text(), "text/html").querySelector("[data-results]");
    if (turn !== asked || !found) return;
    list.replaceChildren(found);
    list.hidden = false;
    const count = links(list).length;
    status.textContent = count === 1 ? "1 result" : `${count} results`;
  };
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = window.setTimeout(() => void show(), PAUSE_MS);
  });
  form.addEventListener("keydown", (event) => moveFocus(event, { input, list, close }));
  form.addEventListener("focusout", (event) => {
    if (!(event.relatedTarget instanceof Node && form.contains(event.relatedTarget))) close();
  });
}

const links = (list: Element): HTMLAnchorElement[] => [...list.querySelectorAll("a")];

type Parts = { input: HTMLInputElement; list: HTMLElement; close(): void };

/** Arrow keys go through the results, Escape goes back. */
function moveFocus(event: KeyboardEvent, { input, list, close }: Parts): void {
  if (event.key === "Escape") {
    close();
    input.focus();
    return;
  }
  if (list.hidden || (event.key !== "ArrowDown" && event.key !== "ArrowUp")) return;
  event.preventDefault();
  const all: HTMLElement[] = [input, ...links(list)];
  const at = all.indexOf(document.activeElement as HTMLElement);
  const next = (at + (event.key === "ArrowDown" ? 1 : -1) + all.length) % all.length;
  all[next]?.focus();
}
