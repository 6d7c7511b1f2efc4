/** Menus are `details` elements, which need no script to open. Escape closes them, and losing the focus does. */
export function closeMenus(): void {
  const openMenus = (): HTMLDetailsElement[] => [
    ...document.querySelectorAll<HTMLDetailsElement>("details[data-menu][open]"),
  ];
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of openMenus()) {
      event.preventDefault();
      const hadFocus = menu.contains(document.activeElement);
      menu.open = false;
      if (hadFocus) menu.querySelector("summary")?.focus();
    }
  });
  // A menu with a form is opened to fill it in.
  document.addEventListener(
    "toggle",
    ({ target }) => {
      if (target instanceof HTMLDetailsElement && target.open && target.matches("[data-menu]"))
        target.querySelector<HTMLElement>("input:not([type=hidden])")?.focus();
    },
    { capture: true },
  );
  document.addEventListener("focusout", (event) => {
    const menu = event.target instanceof Element ? event.target.closest("details[data-menu]") : null;
    // Without a next element, the window lost the focus, or a click fell on something that takes none.
    if (
      menu instanceof HTMLDetailsElement &&
      event.relatedTarget instanceof Node &&
      !menu.contains(event.relatedTarget)
    )
      menu.open = false;
  });
  document.addEventListener("click", (event) => {
    for (const menu of openMenus()) if (event.target instanceof Node && !menu.contains(event.target)) menu.open = false;
  });
}
