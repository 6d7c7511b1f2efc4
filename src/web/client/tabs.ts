/** On a phone a row of tabs is wider than its window: the current one comes into view, with some of the one before. */
const NEIGHBOUR_PX = 48;

export function showCurrentTabs(): void {
  for (const tab of document.querySelectorAll<HTMLElement>(":is(.tabs, .states) > [aria-current]")) {
    const row = tab.parentElement as HTMLElement;
    row.scrollLeft = tab.offsetLeft - row.offsetLeft - NEIGHBOUR_PX;
  }
}
