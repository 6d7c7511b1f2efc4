/**
 * Links and filters that stay on their page replace its content only, without a new document. Other links load their
 * page: addresses in the frame are relative to the path of the page, so they hold for one path only.
 */
export function boostWithinPage(): void {
  document.addEventListener("htmx:before:init", (event) => {
    const element = event.target;
    if (!staysOnPage(element)) event.preventDefault();
  });
  // A person with a screen reader hears the title of what came; the keyboard goes on where it was.
  document.addEventListener("htmx:after:swap", () => {
    const main = document.getElementById("main");
    if (document.activeElement === document.body) main?.focus({ preventScroll: true });
  });
}

function staysOnPage(element: EventTarget | null): boolean {
  if (element instanceof HTMLAnchorElement)
    return element.pathname === location.pathname && element.hash === "" && !element.hasAttribute("download");
  if (element instanceof HTMLFormElement)
    return element.method === "get" && new URL(element.action).pathname === location.pathname;
  return false;
}
