/** Times: relative ones are kept up to date, absolute ones are shown in the zone of the reader. */

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

const absolute = new Intl.DateTimeFormat("sv-SE", {
  year: "numeric",
  month: "2-digit",
  day: "2-digit",
  hour: "2-digit",
  minute: "2-digit",
});

export function showTimes(root: ParentNode): void {
  for (const element of root.querySelectorAll<HTMLTimeElement>("time[data-absolute]")) {
    const at = Date.parse(element.dateTime);
    if (!Number.isNaN(at)) element.textContent = absolute.format(at);
  }
  refresh(root);
  schedule();
}

/** The head of a printed page says when it was printed, in UTC as all times on paper. */
export function showTimeOfPrinting(): void {
  const now = new Date().toISOString().slice(0, 19).replace("T", " ");
  for (const element of document.querySelectorAll<HTMLElement>("[data-printed]"))
    element.textContent = `Printed ${now} UTC ${element.dataset["printed"]}`;
}

let timer = 0;
function schedule(): void {
  clearInterval(timer);
  timer = window.setInterval(() => refresh(document), MINUTE_MS);
}

/** The same words as on the server (components/time.ts). */
function refresh(root: ParentNode): void {
  const now = Date.now();
  for (const element of root.querySelectorAll<HTMLTimeElement>("time[data-relative]")) {
    const age = now - Date.parse(element.dateTime);
    const text = words(Math.abs(age));
    if (text === null) continue;
    element.textContent =
      text === "" ? (age >= 0 ? "just now" : "in a moment") : age >= 0 ? `${text} ago` : `in ${text}`;
  }
}

/** null for a distance that is shown as a date; empty for less than a minute. */
function words(distance: number): string | null {
  if (distance < MINUTE_MS) return "";
  if (distance < HOUR_MS) return `${Math.floor(distance / MINUTE_MS)} min`;
  if (distance < 2 * DAY_MS) return `${Math.floor(distance / HOUR_MS)} h`;
  return distance < 14 * DAY_MS ? `${Math.floor(distance / DAY_MS)} days` : null;
}
