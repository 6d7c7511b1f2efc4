/**
 * Reloads the content of a page when its subject changes on the server, while the page is open and visible. The server
 * sends events; where the stream is refused (by a proxy, or for too many connections), the page asks every half minute.
 */

const POLL_MS = 30_000;
/** Changes that come together reload once. */
const GATHER_MS = 400;

export function followLive(): void {
  const address = document.querySelector<HTMLElement>("[data-live]")?.dataset["live"];
  if (address === undefined) return;
  let gathering = 0;
  const reloadSoon = (): void => {
    clearTimeout(gathering);
    gathering = window.setTimeout(reload, GATHER_MS);
  };
  let polling = 0;
  const poll = (): void => {
    if (polling === 0) polling = window.setInterval(reload, POLL_MS);
  };
  const open = (): EventSource => {
    const source = new EventSource(address);
    source.addEventListener("change", reloadSoon);
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) poll();
    });
    return source;
  };
  let source: EventSource | null = open();
  // A hidden page holds no connection; it is brought up to date when it is visible again.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      source?.close();
      source = null;
    } else if (!source) {
      source = open();
      reloadSoon();
    }
  });
}

/** Not while a person types into the page, or has marked text in it. */
function reload(): void {
  if (document.hidden || isBusy()) return;
  void globalThis.htmx.ajax("GET", location.href, { target: "#page", select: "#page", swap: "outerMorph" });
}

const isBusy = (): boolean => {
  const { activeElement } = document;
  const isTyping = activeElement?.matches("#page input, #page textarea, #page select") ?? false;
  return isTyping || document.getSelection()?.type === "Range";
};

declare global {
  var htmx: {
    ajax(method: string, address: string, options: { target: string; select: string; swap: string }): Promise<void>;
  };
}
