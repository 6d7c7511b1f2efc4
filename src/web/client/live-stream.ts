/**
 * One stream of `GET /live` for several pages. Each page is a message port: it says which address it follows, null for
 * none while it is hidden, and is sent the version of its subject whenever there is news, and with every heartbeat. An
 * empty version means that the subject is gone. Runs in the worker that all pages of a browser share, or in the page.
 */

/** The server refuses to follow more (web/live.ts); further pages hear nothing, and reload themselves. */
const MAX_ADDRESSES = 25;
/** Proxies accept request lines of 8 KB by default. */
const MAX_QUERY_CHARS = 6_000;
/** Pages that come together, as when a window is restored, open one stream. */
const GATHER_MS = 50;
/** Longer than the interval of the server's heartbeat: a stream that is silent for so long is opened anew. */
const SILENCE_MS = 30_000;
/** Pages say every half minute that they are there, at most every minute where the browser slows them down. */
const MAX_ABSENCE_MS = 100_000;

type Page = { address: string; seenAt: number };

export function createLiveStream() {
  const pages = new Map<MessagePort, Page>();
  /** Of the addresses in the stream, as far as they are known. */
  const versions = new Map<string, string>();
  let inStream: readonly string[] = [];
  let source: EventSource | null = null;
  let heardAt = 0;
  let gathering: ReturnType<typeof setTimeout> | undefined;

  /** The addresses of the pages that are there, those that came first. */
  function listAddresses(): string[] {
    for (const [port, { seenAt }] of pages) if (Date.now() - seenAt > MAX_ABSENCE_MS) pages.delete(port);
    let chars = 0;
    return [...new Set([...pages.values()].map(({ address }) => address))]
      .slice(0, MAX_ADDRESSES)
      .filter((address) => (chars += address.length) <= MAX_QUERY_CHARS);
  }

  function notify(port: MessagePort, { address }: Page): void {
    const version = versions.get(address);
    if (version !== undefined) port.postMessage(version);
  }

  function open(): void {
    source?.close();
    versions.clear();
    inStream = listAddresses();
    const [first, ...others] = inStream;
    if (first === undefined) return;
    heardAt = Date.now();
    source = new EventSource([first, ...others.map((address) => new URL(address).search.slice(1))].join("&"));
    source.addEventListener("version", ({ data }: MessageEvent<string>) => {
      heardAt = Date.now();
      const [place, version = ""] = data.split(" ");
      const changed = inStream[Number(place)] as string;
      versions.set(changed, version);
      for (const [port, page] of pages) if (page.address === changed) notify(port, page);
    });
    source.addEventListener("alive", () => {
      heardAt = Date.now();
      if (listAddresses().length === 0) open();
      for (const [port, page] of pages) notify(port, page);
    });
  }

  function follow(port: MessagePort, address: string | null): void {
    const before = pages.get(port)?.address;
    if (address === null) pages.delete(port);
    else pages.set(port, { address, seenAt: Date.now() });
    const addresses = listAddresses();
    // An address that no page follows any more stays until the next stream, unless it was the last one.
    const isSilent = Date.now() - heardAt >= SILENCE_MS;
    if (addresses.length > 0 && !isSilent && addresses.every((one) => inStream.includes(one))) {
      if (address !== null && address !== before) notify(port, { address, seenAt: 0 });
      return;
    }
    clearTimeout(gathering);
    gathering = setTimeout(open, addresses.length === 0 ? 0 : GATHER_MS);
  }

  return {
    /** Lets the page at the other end of a port say what it follows. */
    join(port: MessagePort): void {
      port.onmessage = ({ data }: MessageEvent<string | null>) => follow(port, data);
    },
  };
}
