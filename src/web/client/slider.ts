/** Sliders that submit their form when they were moved; without scripts a button does. */
export function submitSliders(): void {
  document.addEventListener("change", (event) => {
    const input = event.target;
    if (input instanceof HTMLInputElement && input.matches("[data-submit]")) input.form?.requestSubmit();
  });
}
