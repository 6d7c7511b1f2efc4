/** What never becomes a request: bytes that are no HTTP, and requests that do not arrive in time. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import { AppError } from "../errors.ts";
import { socketAddress } from "./client-address.ts";
import { SECURITY_HEADERS, TRANSPORT_SECURITY } from "./security-headers.ts";

const BROKEN: Record<string, readonly [line: string, message: string]> = {
  ERR_HTTP_REQUEST_TIMEOUT: ["408 Request Timeout", "The request did not arrive in time"],
  HPE_HEADER_OVERFLOW: [
    "431 Request Header Fields Too Large",
    "The address and the headers of the request are too long",
  ],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ["413 Content Too Large", "The chunk extensions of the request are too long"],
};

/** `code`: node's word for what is wrong. `bytes`: of the answer's body. */
export type MalformedRequest = { status: number; code: string; client: string; bytes: number };

/**
 * Answers what is no HTTP, or came too late, in the form of all other refusals. `answer` is the latest one of the
 * connection. Each request gets one answer: where one is on its way already, the connection ends with it, and no second
 * one follows. `refusing` is told of an answer to what never became a request, and gives its id; what breaks off in its
 * body is a request, with a line of its own in the log.
 */
export function answerMalformedRequest(
  error: Error & { code?: string },
  socket: Duplex,
  answer: ServerResponse | null,
  refusing: (refusal: MalformedRequest) => string,
): void {
  if (error.code === "ECONNRESET" || !socket.writable) return void socket.destroy();
  const begun = answer && !answer.writableFinished ? answer : null;
  if (begun) {
    if (begun.headersSent) return void socket.destroy();
    // The request was whole; what is broken are the bytes after it.
    if (begun.req.complete) return void begun.setHeader("Connection", "close");
  }
  const [line, message] = BROKEN[error.code ?? ""] ?? ["400 Bad Request", "The request is not valid HTTP"];
  const body = JSON.stringify({ message });
  const [client, isSecure] =
    socket instanceof Socket ? [socketAddress(socket), socket instanceof TLSSocket] : ["unknown", false];
  const id = begun
    ? String(begun.getHeader("X-Request-ID"))
    : refusing({
        status: Number.parseInt(line, 10),
        code: error.code ?? "unknown",
        client,
        bytes: Buffer.byteLength(body),
      });
  const headers = [
    ["Connection", "close"],
    ["Content-Type", "application/json; charset=utf-8"],
    ["Content-Length", Buffer.byteLength(body)],
    ["X-Request-ID", id],
    ...SECURITY_HEADERS,
    ...(isSecure ? [TRANSPORT_SECURITY] : []),
  ];
  const head = headers.map((header) => header.join(": "));
  socket.end(`HTTP/1.1 ${line}\r\n${head.join("\r\n")}\r\n\r\n${body}`, () => socket.destroy());
}

/**
 * Refuses a request that does not name one host, as RFC 9112 (3.2) has it: with two of them a proxy may have looked at
 * the other one.
 * @throws AppError 400, after which the connection is closed.
 */
export function requireOneHost({ rawHeaders, httpVersion }: IncomingMessage): void {
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) if (/^host$/i.test(rawHeaders[index] ?? "")) hosts += 1;
  if (hosts === 1 || (hosts === 0 && httpVersion === "1.0")) return;
  const found = hosts === 0 ? "no Host header" : `${hosts} Host headers`;
  throw new AppError("invalid", `The request has ${found}: send exactly one`, { headers: { Connection: "close" } });
}

/**
 * The target of a request as a path with its query. What stands before the path of an absolute one (RFC 9112, 3.2.2)
 * plays no part here, and it need not be an address at all: parsing `http://[` throws.
 */
export function pathOf(target: string): string {
  const path = target.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, "");
  return path.startsWith("/") ? path : `/${path}`;
}
