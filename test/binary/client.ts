// An HTTP client for a running executable. It builds requests byte for byte as the real clients send them
// (wire-contract
// 1.2 and 1.3), because Node's FormData would encode the forms differently.

import * as assert from "uvu/assert";

export type Json = Record<string, any>;
export type ApiResponse = { status: number; body: any; headers: Headers; bytes: Buffer };
export type Method = "GET" | "PUT" | "POST" | "PATCH" | "DELETE";
export type Client = {
  /** Sends JSON. A `null` body is sent as those four bytes, an undefined one not at all. */
  json(method: Method, path: string, body?: unknown): Promise<ApiResponse>;
  /** Sends a form: first the field's part, without a content type, then the file as application/octet-stream. */
  form(
    method: Method,
    path: string,
    field: string,
    value: unknown,
    file?: { part: string; name: string; content: Buffer | string },
  ): Promise<ApiResponse>;
};

/** What all requests of one client program have in common. */
type Dialect = {
  headers: Record<string, string>;
  contentType: string;
  /** Whether requests without a body have the content type too. */
  alwaysTyped: boolean;
};
const DIALECTS = {
  cli: {
    headers: { "User-Agent": "Kosli/v2.11.0", "Accept-Encoding": "gzip" },
    contentType: "application/json; charset=utf-8",
    alwaysTyped: true,
  },
  terraform: {
    headers: { "User-Agent": "terraform-provider-kosli/0.7.0" },
    contentType: "application/json",
    alwaysTyped: false,
  },
  webhook: {
    headers: { "User-Agent": "kosli-admission-webhook", Accept: "application/json" },
    contentType: "application/json",
    alwaysTyped: false,
  },
} satisfies Record<string, Dialect>;

const BOUNDARY = "6f1e0b2c9d8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a";

/** @param url base URL of the server, without the API root */
export function createClient(url: string, key: string, dialect: keyof typeof DIALECTS = "cli"): Client {
  const { headers, contentType, alwaysTyped } = DIALECTS[dialect];
  async function send(
    method: Method,
    path: string,
    type: string | null,
    body?: Buffer<ArrayBuffer>,
  ): Promise<ApiResponse> {
    const response = await fetch(`${url}/api/v2${path}`, {
      method,
      headers: { ...headers, Authorization: `Bearer ${key}`, ...(type === null ? {} : { "Content-Type": type }) },
      redirect: "error",
      ...(body ? { body } : {}),
    });
    const bytes = Buffer.from(await response.arrayBuffer());
    const isJson =
      response.headers.get("Content-Type")?.startsWith("application/json") &&
      !response.headers.has("Content-Disposition");
    return {
      status: response.status,
      body: isJson ? JSON.parse(bytes.toString()) : null,
      headers: response.headers,
      bytes,
    };
  }
  return {
    json: (method, path, body) =>
      send(
        method,
        path,
        alwaysTyped || body !== undefined ? contentType : null,
        body === undefined ? undefined : Buffer.from(JSON.stringify(body)),
      ),
    form(method, path, field, value, file) {
      const parts = [
        `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${field}"\r\n\r\n`,
        JSON.stringify(value),
        "\r\n",
      ];
      if (file)
        parts.push(
          `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${file.part}"; filename="${file.name}"\r\n`,
          "Content-Type: application/octet-stream\r\n\r\n",
        );
      const body = [
        ...parts.map((part) => Buffer.from(part)),
        ...(file ? [Buffer.from(file.content), Buffer.from("\r\n")] : []),
        Buffer.from(`--${BOUNDARY}--\r\n`),
      ];
      return send(method, path, `multipart/form-data; boundary=${BOUNDARY}`, Buffer.concat(body));
    },
  };
}

/** The body of a response; fails unless the response has this status. */
export async function expectStatus(response: Promise<ApiResponse>, status: number): Promise<any> {
  const { status: actual, body, bytes } = await response;
  assert.is(actual, status, bytes.toString("utf8", 0, 1000));
  return body;
}
