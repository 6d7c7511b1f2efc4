/**
 * Buttons that choose how all pages look in this browser: without scripts the page is loaded again, with them it is
 * brought up to date where it stands.
 */
import { REFRESH } from "./boost.ts";

export function chooseInPlace(): void {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!(form instanceof HTMLFormElement) || !form.closest("[data-in-place]") || event.defaultPrevented) return;
    event.preventDefault();
    const values = Object.fromEntries(new FormData(form));
    void globalThis.htmx.ajax("POST", form.action, { ...REFRESH, values });
  });
}
