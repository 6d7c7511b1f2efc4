/** Answers for what never becomes a request: bytes that are not HTTP, and requests that do not arrive in time. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import { AppError } from "../errors.ts";
import type { ErrorCode } from "../errors.ts";
import { socketAddress } from "./client-address.ts";
import { SECURITY_HEADERS, TRANSPORT_SECURITY } from "./security-headers.ts";

type Refusal = { status: number; reason: string; message: string };

/** By the error code of Node's HTTP parser. */
const REFUSALS: Record<string, Refusal> = {
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: 408,
    reason: "Request Timeout",
    message: "The request did not arrive in time",
  },
  HPE_HEADER_OVERFLOW: {
    status: 431,
    reason: "Request Header Fields Too Large",
    message: "The address and the headers of the request are too long",
  },
  HPE_CHUNK_EXTENSIONS_OVERFLOW: {
    status: 413,
    reason: "Content Too Large",
    message: "The chunk extensions of the request are too long",
  },
};
const NOT_HTTP: Refusal = { status: 400, reason: "Bad Request", message: "The request is not valid HTTP" };

/** For log and metrics. `code`: error code of Node's parser. `bytes`: size of the answer's body. */
export type MalformedRequest = { status: number; code: string; client: string; bytes: number };

/**
 * Answers bytes that are not HTTP, or a request that came too late, in the form of every other refusal. A request gets
 * exactly one answer: if one is on its way already, the connection ends with it and no second one follows.
 * @param options.answer the latest answer on this connection
 * @param options.onRefusal called with an answer to something that never became a request; returns its request id. A
 *   request that breaks off in its body is a request and has its own log line.
 */
export function answerMalformedRequest({
  error,
  socket,
  answer,
  onRefusal,
}: {
  error: Error & { code?: string };
  socket: Duplex;
  answer: ServerResponse | null;
  onRefusal: (refusal: MalformedRequest) => string;
}): void {
  if (error.code === "ECONNRESET" || !socket.writable) return void socket.destroy();
  const pending = answer && !answer.writableFinished ? answer : null;
  if (pending) {
    if (pending.headersSent) return void socket.destroy();
    // The request was complete; the malformed bytes came after it.
    if (pending.req.complete) return void pending.setHeader("Connection", "close");
  }
  const { status, reason, message } = REFUSALS[error.code ?? ""] ?? NOT_HTTP;
  const body = JSON.stringify({ message });
  const [client, isSecure] =
    socket instanceof Socket ? [socketAddress(socket), socket instanceof TLSSocket] : ["unknown", false];
  const id = pending
    ? String(pending.getHeader("X-Request-ID"))
    : onRefusal({ status, code: error.code ?? "unknown", client, bytes: Buffer.byteLength(body) });
  const headers = [
    ["Connection", "close"],
    ["Content-Type", "application/json; charset=utf-8"],
    ["Content-Length", Buffer.byteLength(body)],
    ["X-Request-ID", id],
    ...SECURITY_HEADERS,
    ...(isSecure ? [TRANSPORT_SECURITY] : []),
  ];
  const head = headers.map((header) => header.join(": "));
  socket.end(`HTTP/1.1 ${status} ${reason}\r\n${head.join("\r\n")}\r\n\r\n${body}`, () => socket.destroy());
}

/**
 * Refuses a request whose head a proxy in front may have understood in another way: without exactly one Host header
 * (RFC 9112, 3.2), with more than one Authorization header (RFC 9110, 5.3), or with a version that Node's parser takes
 * and this server does not speak (RFC 9110, 15.6.6).
 * @throws AppError 400 or 505, after which the connection is closed
 */
export function requireClearHead({ rawHeaders, httpVersion }: IncomingMessage): void {
  if (httpVersion !== "1.1" && httpVersion !== "1.0")
    throw refusal("http_version", `This server speaks HTTP/1.1, not HTTP/${httpVersion}`);
  let hosts = 0;
  let authorizations = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? "";
    if (/^host$/i.test(name)) hosts += 1;
    else if (/^authorization$/i.test(name)) authorizations += 1;
  }
  if (authorizations > 1)
    throw refusal("invalid", `The request has ${authorizations} Authorization headers: send at most one`);
  if (hosts === 1 || (hosts === 0 && httpVersion === "1.0")) return;
  const found = hosts === 0 ? "no Host header" : `${hosts} Host headers`;
  throw refusal("invalid", `The request has ${found}: send exactly one`);
}

const refusal = (code: ErrorCode, message: string): AppError =>
  new AppError(code, message, { headers: { Connection: "close" } });

/**
 * The target of a request as a path with its query. Scheme and authority of an absolute target (RFC 9112, 3.2.2) are
 * dropped unparsed: they need not be valid, and parsing `http://[` throws.
 */
export function pathOf(target: string): string {
  const path = target.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, "");
  return path.startsWith("/") ? path : `/${path}`;
}
