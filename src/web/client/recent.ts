/**
 * The records that were opened last in this browser, for the palette: their names and paths, by person and organization
 * (`#page` says whose page it is, and what it shows). They are kept until the person signs out.
 */

const KEY = "assay-recent";
/** Of one person in one organization; and people and organizations. */
const MAX_PLACES = 6;
const MAX_LISTS = 12;

type Place = { path: string; icon: string; name: string; detail: string };
type Lists = Record<string, Place[]>;

export function rememberPlaces(): void {
  remember();
  document.addEventListener("htmx:after:swap", remember);
  document.addEventListener("submit", ({ target }) => {
    if (target instanceof HTMLFormElement && target.action.endsWith("/logout")) localStorage.removeItem(KEY);
  });
}

/** What is kept; nothing where the browser keeps nothing, or keeps something else. */
function readLists(): Lists {
  try {
    return Object(JSON.parse(localStorage.getItem(KEY) ?? "{}")) as Lists;
  } catch {
    return {};
  }
}

const page = (): DOMStringMap => document.getElementById("page")?.dataset ?? {};

/** The latest ones first, without the page that is shown. */
function listPlaces(): Place[] {
  const places = readLists()[page()["of"] ?? ""] ?? [];
  return places.filter(({ path }) => path !== location.pathname);
}

function remember(): void {
  const { of, place, name, detail = "" } = page();
  if (of === undefined || place === undefined || name === undefined) return;
  const lists = readLists();
  const path = location.pathname;
  const others = (lists[of] ?? []).filter((one) => one.path !== path);
  // Keys are in the order in which they were added: those that were not used for longest come first.
  delete lists[of];
  lists[of] = [{ path, icon: place, name, detail }, ...others].slice(0, MAX_PLACES + 1);
  for (const key of Object.keys(lists).slice(0, -MAX_LISTS)) delete lists[key];
  try {
    localStorage.setItem(KEY, JSON.stringify(lists));
  } catch {
    // A browser that keeps nothing has no recent places.
  }
}

/** Fills the section of the search page that is empty on the server; `section` goes where there is nothing. */
export function fillRecent(section: HTMLElement): void {
  const places = listPlaces().slice(0, MAX_PLACES);
  const [row] = section.querySelectorAll("li");
  if (!row || places.length === 0) {
    section.remove();
    return;
  }
  for (const { path, icon, name, detail } of places) {
    const item = row.cloneNode(DEEP) as HTMLElement;
    item.querySelector("a")?.setAttribute("href", new URL(path, location.origin).pathname);
    item.querySelector("use")?.setAttribute("href", `#i-${icon}`);
    const [label, more] = item.querySelectorAll(".name, .sub");
    if (label) label.textContent = name;
    if (more) more.textContent = detail;
    row.before(item);
  }
  row.remove();
  section.hidden = false;
}

const DEEP = true;
