/**
 * Says when the server does not answer, and marks what is shown as old: verdicts lose their colour, words stay. Only
 * requests that fail are noticed: a page that is not live asks for nothing by itself.
 */
import { REFRESH } from "./boost.ts";
import type { Swap } from "./boost.ts";

const RETRY_S = 10;
/** What proxies answer in place of a server that is away. */
const AWAY: readonly number[] = [502, 503, 504];

export function noticeAbsence(): void {
  let answeredAt = Date.now();
  let isAway = false;
  let left = 0;
  let timer = 0;

  function leave(): void {
    if (isAway) return;
    isAway = true;
    left = RETRY_S;
    timer = window.setInterval(() => {
      if (left > 0) left--;
      else void retry();
      show();
    }, 1000);
    show();
  }

  function show(): void {
    const frame = document.getElementById("frame");
    const band = frame?.querySelector<HTMLElement>("[data-away]");
    frame?.classList.toggle("stale-data", isAway);
    if (!band) return;
    band.hidden = !isAway;
    if (!isAway) return;
    const minutes = Math.floor((Date.now() - answeredAt) / 60_000);
    write(band, "since", `${new Date(answeredAt).toISOString().slice(11, 19)} UTC`);
    write(band, "age", minutes < 1 ? "less than a minute" : minutes === 1 ? "1 minute" : `${minutes} minutes`);
    write(band, "left", left > 0 ? `retrying in ${left} s` : "retrying");
  }

  /** Brings the page up to date; whether that works shows whether the server is there again. */
  async function retry(): Promise<void> {
    left = RETRY_S;
    await globalThis.htmx.ajax("GET", location.href, REFRESH);
  }

  document.addEventListener("htmx:error", ({ detail }) => {
    if ((detail as { ctx?: unknown }).ctx) leave();
  });
  document.addEventListener("htmx:before:swap", (event) => {
    const { select, text, response } = (event as CustomEvent<{ ctx: Swap }>).detail.ctx;
    // The answer of something else than this server has no frame: it would leave an empty page.
    if (select !== REFRESH.select || text.includes('id="frame"')) return;
    event.preventDefault();
    if (AWAY.includes(response.status)) leave();
    else location.reload();
  });
  document.addEventListener("htmx:after:swap", () => {
    answeredAt = Date.now();
    isAway = false;
    clearInterval(timer);
    show();
  });
  window.addEventListener("offline", leave);
  window.addEventListener("online", () => isAway && void retry());
  document.addEventListener("click", ({ target }) => {
    if (target instanceof Element && target.closest("[data-away] button")) void retry();
  });
}

function write(band: Element, name: string, text: string): void {
  const element = band.querySelector(`[data-away-${name}]`);
  if (element) element.textContent = text;
}
