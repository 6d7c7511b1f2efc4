/**
 * Reloads the content of a page when its subject changes on the server, while the page is open and visible. All pages
 * of a browser share one stream of events (live-stream.ts), in a worker; where a browser has no shared workers, as on
 * many phones, each visible page has its own. Where nothing of the stream arrives (it was refused, or a proxy holds it
 * back), the page is reloaded every half minute instead.
 */
import { REFRESH } from "./boost.ts";
import { createLiveStream } from "./live-stream.ts";

/** Longer than the interval of the server's heartbeat, so that a stream that works is heard in between. */
const SILENCE_MS = 30_000;
/** Changes that come together reload once. */
const GATHER_MS = 400;
/** What the stream sends in place of the version of a subject that is gone. */
const GONE = "";
/** Why a page is reloaded that hears nothing, in place of a version. */
const SILENT = "silent";

export function followLive(): void {
  const page = createPage();
  document.addEventListener("htmx:after:swap", page.swapped);
  document.addEventListener("visibilitychange", page.visibilityChanged);
  window.setInterval(page.intervalPassed, SILENCE_MS);
  page.follow();
}

function createPage() {
  /** What the page follows. It stays while an error is shown in place of the page. */
  let address: string | null = null;
  let port: MessagePort | null = null;
  let isHeard = false;
  let gathering = 0;
  /** The version for which the page is being reloaded, and the one for which it was. */
  let asked: string | null = null;
  let known: string | null = null;

  /** Says what the page follows, and that it is there. A hidden page follows nothing. */
  function follow(): void {
    const shown = shownSubject();
    if (shown) address = new URL(shown["live"] as string, location.href).href;
    if (!port && shown && !document.hidden) {
      port = connect(shown["liveWorker"] as string, connectAgain);
      port.onmessage = ({ data }: MessageEvent<string>) => hear(data);
    }
    port?.postMessage(document.hidden ? null : address);
  }

  function connectAgain(): void {
    port?.postMessage(null);
    port?.close();
    port = null;
    follow();
  }

  function hear(version: string): void {
    isHeard = true;
    clearTimeout(gathering);
    gathering = window.setTimeout(() => {
      if (version !== shownSubject()?.["liveVersion"] && version !== known) reload(version);
    }, GATHER_MS);
  }

  /** Not while a person types, has a menu open or has marked text: the next heartbeat repeats the version. */
  function reload(version: string): void {
    if (address === null || document.hidden || isBusy()) return;
    asked = version;
    void globalThis.htmx.ajax("GET", location.href, REFRESH);
  }

  return {
    follow,
    swapped(): void {
      const isShown = shownSubject() !== undefined;
      // An error is shown until a reload succeeds, unless the subject is gone. Other states of a page may not be live.
      if (!isShown && (asked === null || asked === GONE)) address = null;
      known = isShown ? (asked ?? known) : null;
      asked = null;
      follow();
    },
    visibilityChanged(): void {
      if (!isHeard) reload(SILENT);
      follow();
    },
    intervalPassed(): void {
      if (isHeard) follow();
      else {
        reload(SILENT);
        connectAgain();
      }
      isHeard = false;
    },
  };
}

let hasWorkers = "SharedWorker" in globalThis;

/** The end of a page on a stream. `onFailure`: there is none, but the next one will be. */
function connect(address: string, onFailure: () => void): MessagePort {
  try {
    if (hasWorkers) {
      const worker = new SharedWorker(address);
      worker.onerror = () => {
        hasWorkers = false;
        onFailure();
      };
      return worker.port;
    }
  } catch {
    // A browser that may store nothing for this site refuses.
  }
  const { port1, port2 } = new MessageChannel();
  createLiveStream().join(port2);
  return port1;
}

/** What the page shows, from its attributes. */
const shownSubject = (): DOMStringMap | undefined => document.querySelector<HTMLElement>("#page[data-live]")?.dataset;

const isBusy = (): boolean => {
  const isTyping = document.activeElement?.matches("input, textarea, select") ?? false;
  const hasMenu = document.querySelector("details[data-menu][open]") !== null;
  return isTyping || hasMenu || document.getSelection()?.type === "Range";
};

declare global {
  var htmx: {
    ajax(
      method: string,
      address: string,
      options: { target: string; select: string; swap: string; values?: Readonly<Record<string, unknown>> },
    ): Promise<void>;
  };
}
