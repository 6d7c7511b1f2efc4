/**
 * POST to a URL that a user named. The name is looked up just before each request, every address that comes back is
 * judged, and the connection is made to these addresses and no others: there is no second look-up in which a name
 * server could say something else. TLS and the Host header go by the name all the same. Proxies of the environment are
 * not used.
 */
import { isIPv6 } from "node:net";
import type { Socket } from "node:net";
import type { Dispatcher } from "undici";
import { holderOf } from "../domain/network/ip-ranges.ts";
import { addressProblem } from "../domain/network/outbound-policy.ts";
import { isInternalName, readTarget } from "../domain/network/webhook-url.ts";
import type { WebhookTarget } from "../domain/network/webhook-url.ts";
import { dial } from "./dial.ts";
import { aborted, outcome, unreached } from "./outcome.ts";
import type { Outcome } from "./outcome.ts";
import type { Resolve } from "./resolver.ts";

export type HttpParts = {
  resolve: Resolve;
  /** The operator's ranges (webhook-allow). */
  allow: readonly string[];
  /** Certificates of authorities in PEM; those of Node unless given. */
  ca: readonly string[] | null;
  /** Epoch seconds. */
  now(): number;
};

export type Post = { url: string; headers: Readonly<Record<string, string>>; body: string };

/**
 * Seconds for a message, from the look-up to the answer, redirects included. Receivers of webhooks answer at once and
 * work later.
 */
export const HTTP_SECONDS = 15;
/** Redirects that are followed: a receiver that moved has one, http to https another. */
const MOST_REDIRECTS = 3;
/** Bytes of an answer that are read at most; nothing in it matters but the reason of a refusal. */
const MOST_BYTES = 65_536;
/** Characters of an answer that are kept. */
const KEPT_CHARACTERS = 200;
const MOST_HEADER_BYTES = 16_384;

/** Not now (RFC 9110, 8470): asked to come again, or trouble of the receiver that passes. */
const PASSING: ReadonlySet<number> = new Set([408, 421, 423, 425, 429]);
/** Redirects that keep method and body. The others make a GET of a POST, and the message would be lost on the way. */
const KEEPS_BODY: ReadonlySet<number> = new Set([307, 308]);

/** Sends, and says how that went. Never rejects. `signal` is aborted with LATE or STOPPED (outcome.ts). */
export async function post(parts: HttpParts, message: Post, signal: AbortSignal): Promise<Outcome> {
  let url = message.url;
  for (let redirects = 0; ; redirects += 1) {
    const target = readTarget(url, parts.allow);
    if (typeof target === "string")
      return redirects === 0
        ? outcome("hopeless", target)
        : outcome("refused", "The receiver redirects to a target that is not allowed", { detail: target });
    const answer = await request(parts, target, message, signal);
    if (!("location" in answer)) return answer;
    const { address, status, location } = answer;
    const refused = (told: string): Outcome => outcome("refused", told, { address, status });
    if (!KEEPS_BODY.has(status) || location === null)
      return refused(
        `The receiver answered with status ${status}, a redirect that is not followed: name the final address`,
      );
    if (redirects === MOST_REDIRECTS) return refused(`The receiver redirects more than ${MOST_REDIRECTS} times`);
    if (!URL.canParse(location, url)) return refused("The receiver redirects to no valid address");
    const next = new URL(location, url);
    if (target.url.protocol === "https:" && next.protocol !== "https:")
      return refused("The receiver redirects from https to an unprotected address");
    url = next.href;
  }
}

type Redirect = { address: string | null; status: number; location: string | null };

/** One request to one place. */
async function request(
  parts: HttpParts,
  target: WebhookTarget,
  { headers, body }: Post,
  signal: AbortSignal,
): Promise<Outcome | Redirect> {
  const { host, url } = target;
  let address: string | null = null;
  let socket: Socket | null = null;
  let client: Dispatcher | null = null;
  try {
    signal.throwIfAborted();
    const addresses = target.isAddress ? [host] : await parts.resolve(host, signal);
    const problem = problemWith(target, addresses, parts.allow);
    if (problem !== null)
      return outcome("refused", `The addresses of ${host} are not allowed as a target`, { detail: problem });

    const isSecure = url.protocol === "https:";
    socket = await dial(
      { host, port: Number(url.port || (isSecure ? 443 : 80)), addresses, tls: isSecure ? { ca: parts.ca } : null },
      signal,
    );
    address = socket.remoteAddress ?? null;
    // What was looked up was judged already; this is the address that is called in fact.
    const wrong = addressProblem(address ?? "", parts.allow);
    if (wrong !== null)
      return outcome("refused", `The addresses of ${host} are not allowed as a target`, {
        detail: `connected to ${address}, which is ${wrong}`,
      });
    client = await clientOver(
      socket,
      `${url.protocol}//${isIPv6(host) ? `[${host}]` : host}${url.port === "" ? "" : `:${url.port}`}`,
    );
    const response = await client.request({
      path: `${url.pathname}${url.search}`,
      method: "POST",
      headers,
      body,
      signal,
    });
    const { statusCode: status } = response;
    const text = await beginningOf(response.body);
    if (status >= 200 && status < 300) return outcome("accepted", null, { address, status });
    if (status >= 300 && status < 400) return { address, status, location: single(response.headers["location"]) };
    const told = `The receiver answered with status ${status}`;
    const more = {
      address,
      status,
      detail: text === "" ? null : text,
      retryAfter: secondsOf(single(response.headers["retry-after"]), parts.now()),
    };
    if (status === 410) return outcome("hopeless", `${told}: it wants no more messages`, more);
    return outcome(status >= 500 || PASSING.has(status) || status < 200 ? "failed" : "refused", told, more);
  } catch (error) {
    return signal.aborted
      ? aborted(signal.reason, "receiver", HTTP_SECONDS, { address })
      : unreached(error, "receiver", { address });
  } finally {
    // Nobody waits for the rest of an answer.
    void client?.destroy().catch(() => undefined);
    socket?.destroy();
  }
}

/**
 * HTTP over a connection, and over no other. Loaded only now, so that a server that sends nothing does not carry it.
 */
async function clientOver(socket: Socket, origin: string): Promise<Dispatcher> {
  const { Client } = await import("undici");
  let isTaken = false;
  return new Client(origin, {
    connect: (_, callback) => {
      const isGone = isTaken || socket.destroyed;
      isTaken = true;
      // In its own time: a client that is told while it asks does not go on.
      queueMicrotask(() => (isGone ? callback(new Error("the connection was closed"), null) : callback(null, socket)));
    },
    // The signal bounds all of it.
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: MOST_HEADER_BYTES,
  });
}

/**
 * Why none of these addresses may be called. One that may not be is enough: which of them a connection ends at would be
 * a matter of luck, and a name that answers so is either a mistake or an attack. An internal name must lie in the
 * operator's ranges with all of its addresses.
 */
function problemWith(
  { host, isAddress }: WebhookTarget,
  addresses: readonly string[],
  allow: readonly string[],
): string | null {
  for (const address of addresses) {
    const problem = addressProblem(address, allow);
    if (problem !== null) return `${address} is ${problem}`;
    if (!isAddress && isInternalName(host) && !holderOf(allow)(address))
      return `${host} is an internal name, and ${address} lies in no range of webhook-allow`;
  }
  return addresses.length === 0 ? "there are none" : null;
}

/**
 * The beginning of an answer as one line of text; what cannot be read of it is left out, because the status is known.
 */
async function beginningOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of body) {
      if (bytes < KEPT_CHARACTERS * 4) chunks.push(chunk.subarray(0, KEPT_CHARACTERS * 4));
      bytes += chunk.length;
      if (bytes > MOST_BYTES) break;
    }
  } catch {
    // Cut short, by the receiver or by the end of the time.
  }
  return new TextDecoder()
    .decode(Buffer.concat(chunks))
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim()
    .slice(0, KEPT_CHARACTERS);
}

const single = (value: string | string[] | undefined): string | null =>
  (Array.isArray(value) ? value[0] : value) ?? null;

/** Seconds of a Retry-After header (RFC 9110, 10.2.3); null for what is none. */
function secondsOf(text: string | null, now: number): number | null {
  if (text === null) return null;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : Math.max(0, at / 1000 - now);
}
