/** A client for servers that need more than an http URL: TLS, a base path, a Unix socket. */
import { X509Certificate } from "node:crypto";
import { request as httpRequest } from "node:http";
import type { Agent } from "node:http";
import { request as httpsRequest } from "node:https";
import type { RequestOptions } from "node:https";
import { connect } from "node:net";
import type { Socket } from "node:net";
import { connect as tlsConnect } from "node:tls";
import type { TLSSocket } from "node:tls";
import { FIRST, SECOND } from "./certificates.ts";

export type Answer = {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
  body: any;
};
type Asked = {
  path?: string;
  method?: string;
  headers?: Record<string, string>;
  body?: string;
  key?: string;
  agent?: Agent;
};

/** Sends one request to an `http(s)://...` or `unix:/PATH` address, on its own connection unless an agent is given. */
export function ask(
  url: string,
  { path = "/", method = "GET", headers = {}, body, key, agent }: Asked = {},
): Promise<Answer> {
  const target = url.startsWith("unix:")
    ? { socketPath: url.slice("unix:".length) }
    : { host: new URL(url).hostname.replace(/^\[|\]$/g, ""), port: new URL(url).port };
  const all = {
    Host: "assay.example.com",
    ...(key === undefined ? {} : { Authorization: `Bearer ${key}` }),
    ...(body === undefined ? {} : { "Content-Type": "application/json" }),
    ...headers,
  };
  const options: RequestOptions = {
    ...target,
    path,
    method,
    headers: all,
    agent: agent ?? false,
    ca: [FIRST.certificate, SECOND.certificate],
    servername: "assay.example.com",
  };
  return new Promise((resolve, reject) => {
    const request = (url.startsWith("https:") ? httpsRequest : httpRequest)(options, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk)).on("error", reject);
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString();
        const isJson = response.headers["content-type"]?.startsWith("application/json") ?? false;
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text,
          body: isJson ? JSON.parse(text) : null,
        });
      });
    });
    request.on("error", reject).end(body);
  });
}

/** A TLS connection after its handshake. */
export async function dialTls(url: string, options: { maxVersion?: "TLSv1.2" | "TLSv1.1" } = {}): Promise<TLSSocket> {
  const socket = tlsConnect({
    host: "127.0.0.1",
    port: Number(new URL(url).port),
    rejectUnauthorized: false,
    servername: "assay.example.com",
    ...options,
  });
  await new Promise<void>((resolve, reject) => socket.once("secureConnect", resolve).once("error", reject));
  return socket;
}

/** A plain connection. */
export async function dialPlain(url: string): Promise<Socket> {
  const socket = url.startsWith("unix:")
    ? connect(url.slice("unix:".length))
    : connect(Number(new URL(url).port), new URL(url).hostname);
  await new Promise<void>((resolve, reject) => socket.once("connect", resolve).once("error", reject));
  return socket;
}

/** Reads everything until the connection ends or is reset. */
export function allOf(socket: Socket): Promise<string> {
  let text = "";
  socket.on("data", (bytes: Buffer) => (text += bytes.toString()));
  return new Promise((resolve) => socket.on("error", () => undefined).on("close", () => resolve(text)));
}

/** The fingerprint of the certificate that a new connection gets. */
export async function fingerprintAt(url: string): Promise<string> {
  const socket = await dialTls(url);
  const { fingerprint256 } = socket.getPeerCertificate();
  socket.destroy();
  return fingerprint256;
}

export const fingerprintOf = ({ certificate }: { certificate: string }): string =>
  new X509Certificate(certificate).fingerprint256;

/**
 * A request whose body is sent in pieces. `goesOn` resolves when the server asks for the body, after it has authorized
 * the client; `answer` resolves with everything received when the connection ends.
 */
export function slowRequest(socket: Socket, { path, key, body }: { path: string; key: string; body: string }) {
  let received = "";
  const goesOn = new Promise<void>((resolve) =>
    socket.on("data", (bytes: Buffer) => {
      received += bytes.toString();
      if (received.includes("100 Continue")) resolve();
    }),
  );
  const answer = new Promise<string>((resolve) =>
    socket.on("error", () => undefined).on("close", () => resolve(received)),
  );
  socket.write(
    `PUT ${path} HTTP/1.1\r\nHost: assay.example.com\r\nAuthorization: Bearer ${key}\r\n` +
      "Content-Type: application/json\r\n" +
      `Content-Length: ${Buffer.byteLength(body)}\r\nExpect: 100-continue\r\n\r\n`,
  );
  return { answer, goesOn, received: () => received };
}
