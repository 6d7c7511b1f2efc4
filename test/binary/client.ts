// Speaks to a served executable as real clients do: requests are built by hand, byte for byte as these clients send
// them (wire-contract 1.2 and 1.3), because no form library of ours would make their forms.

import * as assert from "uvu/assert";

export type Json = Record<string, any>;
export type Answer = { status: number; body: any; headers: Headers; bytes: Buffer };
export type Method = "GET" | "PUT" | "POST" | "PATCH" | "DELETE";
export type Client = {
  /** JSON: `null` is sent as the four bytes, nothing where there is no body. */
  json(method: Method, path: string, body?: unknown): Promise<Answer>;
  /** A form: the field part without a content type first, then the file as application/octet-stream. */
  form(
    method: Method,
    path: string,
    field: string,
    value: unknown,
    file?: { part: string; name: string; content: Buffer | string },
  ): Promise<Answer>;
};

/** What the requests of a client have in common. `always`: the content type stands on requests without a body too. */
type Dialect = { headers: Record<string, string>; contentType: string; always: boolean };
const DIALECTS = {
  cli: {
    headers: { "User-Agent": "Kosli/v2.11.0", "Accept-Encoding": "gzip" },
    contentType: "application/json; charset=utf-8",
    always: true,
  },
  terraform: {
    headers: { "User-Agent": "terraform-provider-kosli/0.7.0" },
    contentType: "application/json",
    always: false,
  },
  webhook: {
    headers: { "User-Agent": "kosli-admission-webhook", Accept: "application/json" },
    contentType: "application/json",
    always: false,
  },
} satisfies Record<string, Dialect>;

const BOUNDARY = "6f1e0b2c9d8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a";

/** @param url of the server, without the API root */
export function clientOf(url: string, key: string, dialect: keyof typeof DIALECTS = "cli"): Client {
  const { headers, contentType, always } = DIALECTS[dialect];
  async function send(method: Method, path: string, type: string | null, body?: Buffer<ArrayBuffer>): Promise<Answer> {
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
        always || body !== undefined ? contentType : null,
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
          `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${file.part}"; filename="${file.name}"\r\nContent-Type: application/octet-stream\r\n\r\n`,
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

/** The body of an answer that must have that status. */
export async function told(answering: Promise<Answer>, status: number): Promise<any> {
  const { status: actual, body, bytes } = await answering;
  assert.is(actual, status, bytes.toString("utf8", 0, 1000));
  return body;
}
