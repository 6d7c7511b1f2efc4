/**
 * POST requests to URLs from users. The name is resolved right before each request, every resulting address is checked,
 * and the connection goes to these addresses only: there is no second lookup in which a name server could answer
 * differently. TLS and the Host header still use the name. Proxies from the environment are not used.
 */
import { isIPv6 } from "node:net";
import type { Socket } from "node:net";
import type { Dispatcher } from "undici";
import { createRangeMatcher } from "../domain/network/ip-ranges.ts";
import { findAddressProblem } from "../domain/network/outbound-policy.ts";
import { isInternalName, parseTarget } from "../domain/network/webhook-url.ts";
import type { WebhookTarget } from "../domain/network/webhook-url.ts";
import { dial } from "./dial.ts";
import { abortedOutcome, connectionOutcome, outcome } from "./outcome.ts";
import type { Outcome } from "./outcome.ts";
import type { Resolve } from "./resolver.ts";

type WebhookClientOptions = {
  resolve: Resolve;
  /** The address ranges that the operator allows (webhook-allow). */
  allow: readonly string[];
  /** CA certificates in PEM; null for those of Node. */
  ca: readonly string[] | null;
  /** Epoch seconds. */
  now(): number;
};

type WebhookRequest = { url: string; headers: Readonly<Record<string, string>>; body: string };

/**
 * Time limit of an attempt, from the lookup to the response, redirects included. Receivers answer at once, work later.
 */
export const WEBHOOK_TIMEOUT_S = 15;
/** A receiver that moved has one redirect, http to https another. */
const MAX_REDIRECTS = 3;
/** Bytes read of a response; only the reason of a refusal in it matters. */
const MAX_RESPONSE_BYTES = 65_536;
/** Characters of a response that are stored. */
const MAX_EXCERPT_CHARS = 200;
const MAX_HEADER_BYTES = 16_384;

/** Statuses below 500 that ask for a retry, or mean a passing problem of the receiver (RFC 9110, 8470). */
const RETRYABLE_STATUSES: ReadonlySet<number> = new Set([408, 421, 423, 425, 429]);
/** Redirects that keep method and body. The others turn a POST into a GET, which would lose the message. */
const METHOD_KEEPING_REDIRECTS: ReadonlySet<number> = new Set([307, 308]);

/**
 * Sends a message and returns the outcome. Never rejects. `signal` is aborted with TIMED_OUT or STOPPED (outcome.ts).
 */
export async function postWebhook(
  options: WebhookClientOptions,
  message: WebhookRequest,
  signal: AbortSignal,
): Promise<Outcome> {
  let url = message.url;
  for (let redirects = 0; ; redirects += 1) {
    const target = parseTarget(url, options.allow);
    if (typeof target === "string")
      return redirects === 0
        ? outcome("hopeless", target)
        : outcome("refused", "The receiver redirects to a target that is not allowed", { detail: target });
    const answer = await attempt(options, { target, message, signal });
    if (!("location" in answer)) return answer;
    const next = nextUrl(answer, target, { url, redirects });
    if (typeof next !== "string") return next;
    url = next;
  }
}

type Redirect = { address: string | null; status: number; location: string | null };

/** The URL that a redirect leads to, or the outcome when it must not be followed. */
function nextUrl(
  { address, status, location }: Redirect,
  target: WebhookTarget,
  { url, redirects }: { url: string; redirects: number },
): string | Outcome {
  const refused = (publicError: string): Outcome => outcome("refused", publicError, { address, status });
  if (!METHOD_KEEPING_REDIRECTS.has(status) || location === null)
    return refused(
      `The receiver answered with status ${status}, a redirect that is not followed: name the final address`,
    );
  if (redirects === MAX_REDIRECTS) return refused(`The receiver redirects more than ${MAX_REDIRECTS} times`);
  if (!URL.canParse(location, url)) return refused("The receiver redirects to an invalid address");
  const next = new URL(location, url);
  if (target.url.protocol === "https:" && next.protocol !== "https:")
    return refused("The receiver redirects from https to an unprotected address");
  return next.href;
}

type Attempt = { target: WebhookTarget; message: WebhookRequest; signal: AbortSignal };

/** One request to one target. Never rejects. */
async function attempt(options: WebhookClientOptions, request: Attempt): Promise<Outcome | Redirect> {
  const { target, signal } = request;
  const peer: { name: string; address: string | null } = { name: "receiver", address: null };
  let socket: Socket | null = null;
  let client: Dispatcher | null = null;
  try {
    signal.throwIfAborted();
    const addresses = target.isAddress ? [target.host] : await options.resolve(target.host, signal);
    const problem = problemWith(target, addresses, options.allow);
    if (problem !== null) return notAllowed(target, problem);
    socket = await connectTo(target, { addresses, ca: options.ca, signal });
    peer.address = socket.remoteAddress ?? null;
    // The resolved addresses were checked above; this is the one that is really connected.
    const wrong = findAddressProblem(peer.address ?? "", options.allow);
    if (wrong !== null) return notAllowed(target, `connected to ${peer.address}, which is ${wrong}`);
    client = await createClientOver(socket, originOf(target));
    return await sendOver(client, request, { address: peer.address, now: options.now });
  } catch (error) {
    return signal.aborted ? abortedOutcome(signal.reason, peer, WEBHOOK_TIMEOUT_S) : connectionOutcome(error, peer);
  } finally {
    // The rest of the response is of no interest.
    void client?.destroy().catch(() => undefined);
    socket?.destroy();
  }
}

const notAllowed = ({ host }: WebhookTarget, detail: string): Outcome =>
  outcome("refused", `The addresses of ${host} are not allowed as a target`, { detail });

const originOf = ({ url, host }: WebhookTarget): string =>
  `${url.protocol}//${isIPv6(host) ? `[${host}]` : host}${url.port === "" ? "" : `:${url.port}`}`;

function connectTo(
  { host, url }: WebhookTarget,
  { addresses, ca, signal }: { addresses: readonly string[]; ca: readonly string[] | null; signal: AbortSignal },
): Promise<Socket> {
  const isTls = url.protocol === "https:";
  return dial({ host, port: Number(url.port || (isTls ? 443 : 80)), addresses, tls: isTls ? { ca } : null }, signal);
}

/** Sends the request over an open connection, and classifies the response. */
async function sendOver(
  client: Dispatcher,
  { target: { url }, message: { headers, body }, signal }: Attempt,
  { address, now }: { address: string | null; now(): number },
): Promise<Outcome | Redirect> {
  const path = `${url.pathname}${url.search}`;
  const response = await client.request({ path, method: "POST", headers, body, signal });
  const { statusCode: status } = response;
  const excerpt = await readExcerpt(response.body);
  if (status >= 200 && status < 300) return outcome("accepted", null, { address, status });
  if (status >= 300 && status < 400) return { address, status, location: firstOf(response.headers["location"]) };
  const publicError = `The receiver answered with status ${status}`;
  const more = {
    address,
    status,
    detail: excerpt === "" ? null : excerpt,
    retryAfter: parseRetryAfter(firstOf(response.headers["retry-after"]), now()),
  };
  if (status === 410) return outcome("hopeless", `${publicError}: it wants no more messages`, more);
  const isRetryable = status >= 500 || RETRYABLE_STATUSES.has(status) || status < 200;
  return outcome(isRetryable ? "failed" : "refused", publicError, more);
}

/** An HTTP client that uses this connection and opens no other. Loaded on first use, for servers that send nothing. */
async function createClientOver(socket: Socket, origin: string): Promise<Dispatcher> {
  const { Client } = await import("undici");
  let isTaken = false;
  return new Client(origin, {
    connect: (_, callback) => {
      const isGone = isTaken || socket.destroyed;
      isTaken = true;
      // Asynchronously: the client does not continue when it is called back while it still asks.
      queueMicrotask(() => (isGone ? callback(new Error("the connection was closed"), null) : callback(null, socket)));
    },
    // The signal bounds the whole attempt.
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: MAX_HEADER_BYTES,
  });
}

/**
 * Why none of these addresses may be connected; null when all may. One bad address is enough: which of them a
 * connection reaches would be a matter of chance, and a name with such an answer is a mistake or an attack. An internal
 * name must lie within the operator's ranges with all of its addresses.
 */
function problemWith(
  { host, isAddress }: WebhookTarget,
  addresses: readonly string[],
  allow: readonly string[],
): string | null {
  for (const address of addresses) {
    const problem = findAddressProblem(address, allow);
    if (problem !== null) return `${address} is ${problem}`;
    if (!isAddress && isInternalName(host) && !createRangeMatcher(allow)(address))
      return `${host} is an internal name, and ${address} is not in any range of webhook-allow`;
  }
  return addresses.length === 0 ? "there are none" : null;
}

/** The beginning of a response as one line of text. What cannot be read is left out, because the status is known. */
async function readExcerpt(body: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of body) {
      if (bytes < MAX_EXCERPT_CHARS * 4) chunks.push(chunk.subarray(0, MAX_EXCERPT_CHARS * 4));
      bytes += chunk.length;
      if (bytes > MAX_RESPONSE_BYTES) break;
    }
  } catch {
    // Cut short by the receiver or by the time limit.
  }
  return new TextDecoder()
    .decode(Buffer.concat(chunks))
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim()
    .slice(0, MAX_EXCERPT_CHARS);
}

const firstOf = (value: string | string[] | undefined): string | null =>
  (Array.isArray(value) ? value[0] : value) ?? null;

/** The seconds that a Retry-After header asks for (RFC 9110, 10.2.3); null when it is missing or invalid. */
function parseRetryAfter(text: string | null, now: number): number | null {
  if (text === null) return null;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : Math.max(0, at / 1000 - now);
}
