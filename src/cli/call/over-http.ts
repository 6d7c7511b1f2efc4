/** Sends the call of an operation to a server, with an API key. */
import { request as requestHttp } from "node:http";
import type { IncomingMessage } from "node:http";
import { request as requestHttps } from "node:https";
import { basename } from "node:path";
import { getCACertificates } from "node:tls";
import type { AssayOperation } from "../../api/context.ts";
import { stringifyJson } from "../../json/text.ts";
import { CommandError } from "../command.ts";
import type { FieldInput } from "./fields.ts";

/** A server that says nothing for this long does not answer; the slowest operations answer within seconds. */
const TIMEOUT_MS = 120_000;
/** A refusal is shorter; a longer body comes from another program. */
const MAX_REFUSAL_BYTES = 65_536;

type Server = { url: URL; key: string | null; authorities: readonly string[] };
/** The file part, read. */
type FilePart = { name: string; bytes: Uint8Array<ArrayBuffer> } | null;

/** Whether a text is the address of a server: http or https, with a base path or without. */
export function parseServerUrl(text: string): URL | null {
  const url = URL.canParse(text) ? new URL(text) : null;
  return url !== null && /^https?:$/.test(url.protocol) && url.username + url.search + url.hash === "" ? url : null;
}

/** The answer of a call that succeeded. @throws CommandError with the words of a refusal, or why there is no answer */
export async function sendCall(
  operation: AssayOperation,
  { server, input, file }: { server: Server; input: FieldInput; file: FilePart },
): Promise<IncomingMessage> {
  const { type, bytes } = await encodeBody(operation, input, file);
  const url = addressOf(operation, server.url, input);
  const response = await send(url, {
    method: operation.method,
    ca: [...getCACertificates("default"), ...server.authorities],
    headers: {
      "User-Agent": "assay",
      ...(server.key === null ? {} : { Authorization: `Bearer ${server.key}` }),
      ...(type === null ? {} : { "Content-Type": type, "Content-Length": bytes.length }),
    },
    bytes,
  });
  if ((response.statusCode ?? 0) < 300) return response;
  throw new CommandError(describeRefusal(response.statusCode ?? 0, await readStart(response)));
}

function addressOf({ path }: AssayOperation, base: URL, { params, query }: FieldInput): URL {
  const filled = path.replace(/\{(\w+)(\*?)\}/g, (_, name: string, rest: string) => {
    const value = params[name] ?? "";
    return rest === "" ? encodeURIComponent(value) : value.split("/").map(encodeURIComponent).join("/");
  });
  const url = new URL(base);
  url.pathname = `${base.pathname.replace(/\/$/, "")}/api/v2${filled}`;
  for (const [name, value] of Object.entries(query))
    for (const one of [value].flat()) url.searchParams.append(name, one);
  return url;
}

async function encodeBody(
  { body }: AssayOperation,
  input: FieldInput,
  file: FilePart,
): Promise<{ type: string | null; bytes: Uint8Array }> {
  if (body.kind === "none" || input.body === undefined) return { type: null, bytes: new Uint8Array() };
  const text = stringifyJson(input.body);
  if (body.kind === "json") return { type: "application/json", bytes: Buffer.from(text) };
  const form = new FormData();
  form.set(body.part, new Blob([text], { type: "application/json" }));
  if (file && body.file) form.set(body.file.part, new Blob([file.bytes]), basename(file.name));
  const encoded = new Response(form);
  return { type: encoded.headers.get("Content-Type"), bytes: new Uint8Array(await encoded.arrayBuffer()) };
}

type Request = { method: string; headers: Record<string, string | number>; bytes: Uint8Array; ca: string[] };

function send(url: URL, { method, headers, bytes, ca }: Request): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const settings = { method, headers, timeout: TIMEOUT_MS, agent: false as const };
    const request = url.protocol === "https:" ? requestHttps(url, { ...settings, ca }) : requestHttp(url, settings);
    request.on("error", (error: Error & { code?: string }) =>
      reject(new CommandError(`${url.origin} does not answer: ${error.message || error.code}; --url names the server`)),
    );
    request.on("timeout", () => request.destroy(new Error(`no response within ${TIMEOUT_MS / 1000} s`)));
    request.on("response", resolve);
    request.end(bytes);
  });
}

async function readStart(response: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of response.setEncoding("utf8")) {
    text += String(chunk);
    if (text.length > MAX_REFUSAL_BYTES) break;
  }
  return text;
}

/** The problems that a refusal names: one for each field, or its message. */
function describeRefusal(status: number, text: string): string[] {
  try {
    const { message, errors } = JSON.parse(text) as { message?: unknown; errors?: Record<string, string> };
    if (errors && typeof errors === "object")
      return Object.entries(errors).map(([field, problem]) => `${field}: ${problem}`);
    if (typeof message === "string") return [`${message} (status ${status})`];
  } catch {
    // Not from a server of this API, or cut.
  }
  return [`the server refuses with status ${status}: ${JSON.stringify(text.slice(0, 200))}`];
}
