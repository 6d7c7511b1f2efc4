/**
 * Reloads the content of a page when its subject changes on the server, while the page is open and visible. The server
 * sends events. Where nothing of the stream arrives (it was refused, or a proxy holds it back), the page is reloaded
 * every half minute instead.
 */

/** Longer than the interval of the server's heartbeat, so that a stream that works is heard in between. */
const SILENCE_MS = 30_000;
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
  let isHeard = false;
  const open = (): EventSource => {
    const source = new EventSource(address);
    source.addEventListener("alive", () => {
      isHeard = true;
    });
    source.addEventListener("change", reloadSoon);
    return source;
  };
  let source: EventSource | null = open();
  window.setInterval(() => {
    if (!isHeard) reload();
    isHeard = false;
  }, SILENCE_MS);
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
