/**
 * The palette: Ctrl-K, `/`, or the search field of the top bar open a dialog in which one types a name, a fingerprint,
 * a commit, a place or a command. What it lists is a part of the search page, so it has what the person may do, and
 * nothing else. A combobox with a list box (ARIA Authoring Practices 1.2): the focus stays in the field, arrow keys
 * choose, Enter opens what is chosen, once the list of what was typed is there. A command that needs an environment
 * lists them first.
 */
import { createDialog } from "./dialog.ts";
import { actsOnLetters } from "./keys.ts";
import { fillRecent } from "./recent.ts";
import { addSymbols } from "./symbols.ts";

const PROMPT = "Search or jump to";
/** Milliseconds without a keystroke before the server is asked. */
const PAUSE_MS = 120;

export function openPalette(): void {
  document.addEventListener("keydown", (event) => {
    const isControl = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey;
    if (!isControl && !(event.key === "/" && actsOnLetters(event))) return;
    if (open("")) event.preventDefault();
  });
  // The field stays a field without the palette: it opens with the first character, or with a click.
  for (const type of ["click", "input"])
    document.addEventListener(type, (event) => {
      const opener = event.target instanceof Element ? event.target.closest("[data-search]") : null;
      if (!opener || (event instanceof MouseEvent && (event.ctrlKey || event.metaKey || event.shiftKey))) return;
      if (open(opener instanceof HTMLInputElement ? opener.value : "")) event.preventDefault();
    });
}

/** @returns false where nothing can be searched: outside of an organization, or below another dialog */
function open(text: string): boolean {
  const search = document.querySelector<HTMLFormElement>("form:has([data-search])");
  if (!search || document.querySelector("dialog[open]")) return false;
  const field = search.querySelector<HTMLInputElement>("[data-search]");
  createPalette(search.action, text).showModal();
  if (field && text !== "") field.value = field.defaultValue;
  return true;
}

function buildPalette(address: string, text: string) {
  const dialog = createDialog("palette", PROMPT);
  dialog.querySelector(".palette-in")?.insertAdjacentHTML(
    "afterbegin",
    `<svg class="i" aria-hidden="true"><use href="#i-search"/></svg><form method="get"><input type="text" name="q"
role="combobox" aria-autocomplete="list" aria-controls="palette-list" aria-expanded="true" aria-label="${PROMPT}"
placeholder="${PROMPT}…" maxlength="256" autocomplete="off" spellcheck="false" autofocus><input
type="hidden" name="choose" disabled></form>`,
  );
  dialog.insertAdjacentHTML(
    "beforeend",
    `<div class="palette-list" id="palette-list" role="listbox" aria-label="Results"></div>
<p class="palette-f" aria-hidden="true"><span><kbd>↑</kbd><kbd>↓</kbd> choose</span><span><kbd>↵</kbd> open</span>
<span><kbd>Ctrl</kbd><kbd>↵</kbd> new tab</span><span class="right"><kbd>&gt;</kbd> commands and pages</span></p>
<p class="vh" role="status"></p>`,
  );
  const find = <E extends Element>(selector: string): E => dialog.querySelector(selector) as E;
  const input = find<HTMLInputElement>("input");
  find<HTMLFormElement>("form").action = address;
  input.value = text;
  const choice = find<HTMLInputElement>("[name=choose]");
  return {
    dialog,
    input,
    choice,
    list: find<HTMLElement>(".palette-list"),
    status: find<HTMLElement>("[role=status]"),
  };
}

function createPalette(address: string, text: string): HTMLDialogElement {
  const { dialog, input, choice, list: box, status } = buildPalette(address, text);
  const list = createList(input, box);
  let timer = 0;
  let asked = 0;
  /** Enter was pressed before the list of what was typed was there. */
  let isAwaited = false;

  const show = async (): Promise<void> => {
    const turn = ++asked;
    const wanted = input.value.trim();
    const url = new URL(address);
    const parameters = { q: wanted, suggest: "1", ...(choice.disabled ? {} : { choose: choice.value }) };
    url.search = new URLSearchParams(parameters).toString();
    const response = await fetch(url, { headers: { Accept: "text/html" } }).catch(() => null);
    const page = response?.ok && !response.redirected ? await response.text() : null;
    if (turn !== asked || !dialog.open) return;
    const found = page === null ? null : new DOMParser().parseFromString(page, "text/html");
    const results = found?.querySelector<HTMLElement>("[data-results]")?.dataset["results"] ?? "";
    list.fill(found, { text: wanted, address: url });
    status.textContent = results;
    if (isAwaited && found === null) input.form?.submit();
    else if (isAwaited && results !== "No results") list.open({});
    isAwaited = false;
  };
  const choose = (next: string | null): void => {
    choice.disabled = next === null;
    choice.value = next ?? "";
    input.value = "";
    input.placeholder = next === null ? `${PROMPT}…` : "In which environment?";
    list.fill(null, { text: "", address: new URL(address) });
    void show();
  };
  const showSoon = (pause: number): void => {
    clearTimeout(timer);
    timer = window.setTimeout(() => void show(), pause);
  };
  input.addEventListener("input", () => {
    isAwaited = false;
    showSoon(PAUSE_MS);
  });
  input.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "Backspace" && input.value === "" && !choice.disabled) choose(null);
    else if (event.key !== "Enter") list.onKey(event);
    else {
      event.preventDefault();
      isAwaited = !list.isOf(input.value.trim());
      if (isAwaited) showSoon(0);
      else list.open(event);
    }
  });
  takeClicks(dialog, choose);
  void show();
  return dialog;
}

/**
 * Commands that need an environment ask for it in the palette, and the one that needs a time in the menu of the page;
 * other links lead where they lead.
 */
function takeClicks(dialog: HTMLDialogElement, choose: (command: string) => void): void {
  dialog.addEventListener("click", (event) => {
    const option = (event.target as Element).closest<HTMLAnchorElement>("a[role=option]");
    const asked = option && new URL(option.href).searchParams;
    const menu = asked?.has("time") === true ? document.querySelector<HTMLElement>("#frame [data-time-menu]") : null;
    const command = asked?.get("choose");
    if (menu && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      // A click outside of a menu closes it.
      event.stopPropagation();
      dialog.close();
      menu.click();
      return;
    }
    if (!command || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    choose(command);
  });
  // A click on a result must not take the focus from the field.
  dialog.addEventListener("mousedown", (event) => {
    if ((event.target as Element).closest("a[role=option]")) event.preventDefault();
  });
}

/** The list below the field, and the choice in it. The first one is chosen, so that Enter always does something. */
function createList(input: HTMLInputElement, list: HTMLElement) {
  let options: HTMLAnchorElement[] = [];
  /** The text that the list belongs to. */
  let listed: string | null = null;
  let chosen = 0;

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

  return {
    /** Shows the list of a search page; an empty one if the page did not come. */
    fill(page: Document | null, { text, address }: { text: string; address: URL }): void {
      if (page) addSymbols(page);
      list.replaceChildren(page?.querySelector("[data-results]") ?? "");
      const recent = list.querySelector<HTMLElement>("[data-recent]");
      if (recent) fillRecent(recent);
      options = [...list.querySelectorAll("a")];
      for (const [index, option] of options.entries()) describe(option, index, address);
      for (const section of list.querySelectorAll("section")) describeGroup(section);
      list.scrollTop = 0;
      listed = page ? text : null;
      // Not the link to all results of the first kind.
      choose(
        Math.max(
          0,
          options.findIndex((option) => !option.matches(".more")),
        ),
      );
    },
    /** Whether the list belongs to a text. */
    isOf: (text: string): boolean => listed === text,
    /** Opens what is chosen, in another tab with Ctrl. */
    open({ ctrlKey = false, metaKey = false }: Partial<Pick<KeyboardEvent, "ctrlKey" | "metaKey">>): void {
      options[chosen]?.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, ctrlKey, metaKey }));
    },
    onKey(event: KeyboardEvent): void {
      const { key } = event;
      if ((key !== "ArrowDown" && key !== "ArrowUp") || options.length === 0) return;
      event.preventDefault();
      choose((chosen + (key === "ArrowDown" ? 1 : -1) + options.length) % options.length);
    },
  };
}

/** Makes a link an option. Its address is relative to the page that it came from. */
function describe(option: HTMLAnchorElement, index: number, address: URL): void {
  option.href = new URL(option.getAttribute("href") ?? "", address).href;
  option.id = `option-${index}`;
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
  for (const part of section.querySelectorAll("h2, p, ul, li, .card-h, .empty"))
    part.setAttribute("role", "presentation");
}
