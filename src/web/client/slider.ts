/** Sliders that submit their form when they were moved; without scripts a button does. */

/** Arrow keys move a slider step by step: the form waits until the hand rests. */
const PAUSE_MS = 500;

export function submitSliders(): void {
  let timer = 0;
  document.addEventListener("change", (event) => {
    const input = event.target;
    if (!(input instanceof HTMLInputElement && input.matches("[data-submit]"))) return;
    clearTimeout(timer);
    timer = window.setTimeout(() => input.form?.requestSubmit(), PAUSE_MS);
  });
}
