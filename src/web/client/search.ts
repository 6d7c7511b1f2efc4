/**
 * The search field: `/` and Ctrl-K focus it, and results appear below it while one types. The results are the search
 * page itself, of which only the list is shown. A combobox with a list box (ARIA Authoring Practices 1.2): the focus
 * stays in the field, arrow keys choose a result, Enter opens it. Enter without a choice opens the only result, or the
 * page with all of them.
 */
import { addSymbols } from "./symbols.ts";

/** Milliseconds without a keystroke before the server is asked. */
const PAUSE_MS = 150;
const MIN_CHARS = 2;

export function openSearch(): void {
  document.addEventListener("keydown", (event) => {
    const input = document.querySelector<HTMLInputElement>("[data-search]");
    if (!input || input.offsetParent === null) return;
    const isTyping =
      event.target instanceof Element && event.target.closest("input, textarea, select, [contenteditable]");
    const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
    const isShortcut =
      (event.key === "k" && (event.ctrlKey || event.metaKey)) || (event.key === "/" && isPlain && !isTyping);
    if (!isShortcut) return;
    event.preventDefault();
    input.focus();
    input.select();
  });
  document.addEventListener("focusin", ({ target }) => {
    if (target instanceof HTMLInputElement && target.matches("[data-search]") && target.form)
      suggestIn(target, target.form);
  });
}

/** Suggests in a field while it has the focus. Without it, the field is as the server sent it. */
function suggestIn(input: HTMLInputElement, form: HTMLFormElement): void {
  const left = new AbortController();
  const list = document.createElement("div");
  list.className = "suggestions";
  list.id = "suggestions";
  list.hidden = true;
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Results");
  const status = document.createElement("span");
  status.className = "vh";
  status.setAttribute("role", "status");
  form.append(list, status);
  const roles = {
    role: "combobox",
    "aria-autocomplete": "list",
    "aria-controls": list.id,
    "aria-expanded": "false",
  };
  for (const [name, value] of Object.entries(roles)) input.setAttribute(name, value);
  const box = createBox(input, list);
  let timer = 0;
  let asked = 0;
  /** Shows what the text of the field matches; an answer that a later question overtook is dropped. */
  const show = async (): Promise<void> => {
    const text = input.value.trim();
    const turn = ++asked;
    if (text.length < MIN_CHARS) return box.close();
    const address = new URL(form.action);
    address.searchParams.set("q", text);
    address.searchParams.set("suggest", "1");
    const response = await fetch(address, { headers: { Accept: "text/html" } }).catch(() => null);
    const page = response?.ok && !response.redirected ? await response.text() : null;
    if (turn !== asked || page === null || document.activeElement !== input) return;
    const count = box.fill(new DOMParser().parseFromString(page, "text/html"), address);
    status.textContent = count === 0 ? "No results" : count === 1 ? "1 result" : `${count} results`;
  };
  const type = (): void => {
    clearTimeout(timer);
    timer = window.setTimeout(() => void show(), PAUSE_MS);
  };
  input.addEventListener("input", type, left);
  input.addEventListener("keydown", (event) => box.onKey(event), left);
  const leave = (): void => {
    asked++;
    clearTimeout(timer);
    box.close();
    for (const name of Object.keys(roles)) input.removeAttribute(name);
    list.remove();
    status.remove();
    left.abort();
  };
  input.addEventListener("blur", leave, left);
  // A click on a result must not take the focus, which would close the list before the click arrives.
  list.addEventListener("mousedown", (event) => event.preventDefault());
}

/** The list below the field, and the choice in it. */
function createBox(input: HTMLInputElement, list: HTMLElement) {
  let options: HTMLAnchorElement[] = [];
  /** The text that the list belongs to. */
  let text = "";
  let chosen = -1;

  function choose(index: number): void {
    options[chosen]?.setAttribute("aria-selected", "false");
    chosen = index;
    const option = options[chosen];
    if (!option) {
      input.removeAttribute("aria-activedescendant");
      return;
    }
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", option.id);
  }

  function open(isOpen: boolean): void {
    list.hidden = !isOpen;
    input.setAttribute("aria-expanded", String(isOpen));
    choose(-1);
  }

  return {
    close: (): void => open(false),
    /** Shows the results of a search page. @returns how many there are */
    fill(page: Document, address: URL): number {
      const found = page.querySelector("[data-results]");
      text = input.value.trim();
      list.replaceChildren(found ?? "");
      addSymbols(page);
      options = [...list.querySelectorAll("a")];
      for (const [index, option] of options.entries()) describe(option, index, address);
      for (const section of list.querySelectorAll("section")) describeGroup(section);
      open(options.length > 0);
      return options.length;
    },
    onKey(event: KeyboardEvent): void {
      if (event.isComposing) return;
      const { key } = event;
      if (key === "Escape" && !list.hidden) {
        event.preventDefault();
        open(false);
        return;
      }
      if (key === "Enter" && !list.hidden) {
        const option =
          options[chosen] ?? (options.length === 1 && text === input.value.trim() ? options[0] : undefined);
        if (!option) return;
        event.preventDefault();
        option.click();
        return;
      }
      if ((key !== "ArrowDown" && key !== "ArrowUp") || options.length === 0) return;
      event.preventDefault();
      if (list.hidden) open(true);
      // One more place than there are options: the field itself, without a choice.
      const places = options.length + 1;
      choose(((chosen + 1 + (key === "ArrowDown" ? 1 : -1) + places) % places) - 1);
    },
  };
}

/** Makes a link an option. Its address is relative to the page that it came from. */
function describe(option: HTMLAnchorElement, index: number, address: URL): void {
  option.href = new URL(option.getAttribute("href") ?? "", address).href;
  option.id = `suggestion-${index}`;
  option.tabIndex = -1;
  option.setAttribute("role", "option");
  option.setAttribute("aria-selected", "false");
}

/** Makes a section with its heading and list a group of options. */
function describeGroup(section: Element): void {
  const heading = section.querySelector("h2");
  section.setAttribute("role", "group");
  section.removeAttribute("aria-labelledby");
  section.setAttribute("aria-label", heading?.textContent ?? "");
  heading?.removeAttribute("id");
  for (const part of section.querySelectorAll("h2, ul, li, .card-h")) part.setAttribute("role", "presentation");
}
