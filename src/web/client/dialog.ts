/** Dialogs over the page. The browser keeps the focus in them, and gives it back when they close. */

/** A dialog with a bar that closes it, in the document, not yet open. It goes when it closes. */
export function createDialog(look: string, label: string): HTMLDialogElement {
  const dialog = document.createElement("dialog");
  dialog.className = look;
  dialog.setAttribute("aria-label", label);
  const close = '<button type="button" class="palette-x"><span class="vh">Close: </span><kbd>Esc</kbd></button>';
  dialog.innerHTML = `<div class="palette-in">${close}</div>`;
  dialog.addEventListener("click", ({ target }) => {
    if (target === dialog || (target as Element).closest(".palette-x")) dialog.close();
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  return dialog;
}
