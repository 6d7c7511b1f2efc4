/** Fixtures of the delivery tests: scripted receivers, manual timers, and a fake resolver. */
import { createServer } from "node:http";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo, Server } from "node:net";
import type { Timer } from "../../src/domain/time.ts";
import { createSender } from "../../src/notifications/sender.ts";
import type { OutboundMessage, SenderOptions } from "../../src/notifications/sender.ts";
import { CERTIFICATE, KEY } from "./certificates.ts";

/** The time in these tests, in epoch seconds. */
export const NOW = 1_700_000_000.5;

export type Received = {
  method: string;
  url: string;
  headers: IncomingMessage["headers"];
  body: string;
  servername: string | null;
};
/** Answers a request; `count` is 1 for the first. */
export type Script = (request: Received, response: ServerResponse, count: number) => void;

const servers = new Set<Server>();

/** A real receiver on an address of this machine. `received` lists the requests, `connections` counts connections. */
export async function receiver(script: Script | number = 200, { address = "127.0.0.1", secure = false } = {}) {
  const received: Received[] = [];
  const seen = { connections: 0, open: 0 };
  const waiting: (() => void)[] = [];
  const listener: RequestListener = (request, response) => {
    const chunks: Buffer[] = [];
    request.on("error", () => undefined);
    response.on("error", () => undefined);
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const { servername } = request.socket as { servername?: string | false };
      const one = {
        method: request.method ?? "",
        url: request.url ?? "",
        headers: request.headers,
        body: Buffer.concat(chunks).toString(),
        servername: servername || null,
      };
      received.push(one);
      if (typeof script === "number") response.writeHead(script).end();
      else script(one, response, received.length);
      for (const tell of waiting.splice(0)) tell();
    });
  };
  const server = secure ? createSecureServer({ key: KEY, cert: CERTIFICATE }, listener) : createServer(listener);
  servers.add(server);
  server.on("connection", (socket) => {
    seen.connections += 1;
    seen.open += 1;
    socket.once("close", () => {
      seen.open -= 1;
      for (const tell of waiting.splice(0)) tell();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, address, resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    received,
    seen,
    url: (host: string, path = "/hook") => `${secure ? "https" : "http"}://${host}:${port}${path}`,
    /** Resolves when the condition holds; checked after each request and each closed connection. */
    async until(holds: () => boolean): Promise<void> {
      while (!holds()) await new Promise<void>((resolve) => waiting.push(resolve));
    },
  };
}

/** Stops all receivers. Call it in `after`. */
export function endReceivers(): void {
  for (const server of servers) {
    server.close();
    (server as { closeAllConnections?(): void }).closeAllConnections?.();
  }
  servers.clear();
}

/** A timer that rings when the test says so. */
export function bell() {
  const rings = new Map<() => void, number>();
  return {
    timer: ((seconds, ring) => {
      rings.set(ring, seconds);
      return () => void rings.delete(ring);
    }) as Timer,
    /** Seconds of all pending timers. */
    waiting: () => [...rings.values()],
    ring(): void {
      for (const ring of [...rings.keys()]) ring();
    },
  };
}

/** Resolves names to the given addresses. Of several lists each is returned once, and the last one from then on. */
export function names(table: Record<string, readonly string[] | readonly (readonly string[])[]>) {
  const lookups: string[] = [];
  return {
    lookups,
    resolve: async (host: string): Promise<readonly string[]> => {
      lookups.push(host);
      const answers = table[host];
      if (!answers)
        throw Object.assign(new Error(`queryA ENOTFOUND ${host}`), { code: "ENOTFOUND", syscall: "queryA" });
      if (answers.length === 0 || typeof answers[0] === "string") return answers as string[];
      const times = lookups.filter((name) => name === host).length;
      return (answers as string[][])[Math.min(times, answers.length) - 1] ?? [];
    },
  };
}

/** A sender that may connect to 127.0.0.1, the address of hooks.assay.example and mail.assay.example, and no other. */
export function given(options: Partial<SenderOptions> = {}) {
  const clock = bell();
  const known = names({
    "hooks.assay.example": ["127.0.0.1"],
    "mail.assay.example": ["127.0.0.1"],
    "other.example": ["127.0.0.1"],
  });
  const sender = createSender({
    resolve: known.resolve,
    now: () => NOW,
    timer: clock.timer,
    allow: ["127.0.0.1/32"],
    mail: null,
    ca: null,
    version: "1.2.3",
    ...options,
  });
  return { sender, bell: clock, lookups: known.lookups };
}

/** A message as stored. */
export const webhook = (
  url: string,
  fields: Partial<OutboundMessage> & { body?: Record<string, unknown> } = {},
): OutboundMessage => {
  const { body = { event_type: "STARTED_ARTIFACT", text: "Größe" }, ...rest } = fields;
  return {
    public_id: "d-1",
    type: "WEBHOOK",
    target_json: JSON.stringify({ webhook: url }),
    message_json: JSON.stringify(body),
    secret: null,
    ...rest,
  };
};

export const email = (
  emails: readonly string[],
  fields: { subject?: string; text?: string; html?: string } = {},
): OutboundMessage => ({
  public_id: "d-1",
  type: "EMAIL",
  secret: null,
  target_json: JSON.stringify({ emails }),
  message_json: JSON.stringify({
    subject: "prod: started",
    text: "An artifact started",
    html: "<p>An artifact started</p>",
    ...fields,
  }),
});
