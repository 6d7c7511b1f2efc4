/**
 * Checks that hold for every response, whatever was requested: its status is declared, its body has the declared shape,
 * and refusals have the contract's form.
 */
import * as assert from "uvu/assert";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import type { ValidateFunction } from "ajv/dist/2020.js";
import { DOCUMENT } from "../../src/api/openapi-document.ts";
import { operations } from "../../src/api/index.ts";
import type { AssayOperation } from "../../src/api/context.ts";
import { openApiDocument } from "../../src/http/openapi/document.ts";
import { SECURITY_HEADERS } from "../../src/http/security-headers.ts";
import type { Received, Written } from "./requests.ts";

type Answers = Record<string, { content?: Record<string, unknown>; $ref?: string }>;
type Document = {
  components: { responses: Answers };
  paths: Record<string, Record<string, { operationId: string; responses: Answers }>>;
};

/** @param published the document as the server publishes it */
export function createResponseCheck(published: unknown) {
  // Unlisted operations are in no published document; a document of their own describes them.
  const asListed = ({ status: _status, ...rest }: AssayOperation): AssayOperation => rest as AssayOperation;
  const unlisted = openApiDocument(operations.filter(({ status }) => status === "unlisted").map(asListed), {
    ...DOCUMENT,
    serverUrl: "-",
  });
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  (addFormats as unknown as (ajv: Ajv2020) => void)(ajv);
  ajv.addSchema(published as object, "published");
  ajv.addSchema(unlisted, "unlisted");
  const checks = new Map<string, ValidateFunction>();
  const declared = new Map<string, { answers: Answers; at: string }>();
  for (const [name, document] of [
    ["published", published],
    ["unlisted", unlisted],
  ] as const) {
    const { paths, components } = document as Document;
    // Refusals that many operations share are components.
    const whole = (answer: Answers[string]): Answers[string] =>
      components.responses[answer.$ref?.split("/").at(-1) ?? ""] ?? answer;
    for (const [path, methods] of Object.entries(paths))
      for (const [method, { operationId, responses }] of Object.entries(methods)) {
        const entries = Object.entries(responses).map(([status, answer]) => [status, whole(answer)] as const);
        const answers = Object.fromEntries(entries);
        const place = `${path.replaceAll("~", "~0").replaceAll("/", "~1")}/${method}`;
        declared.set(operationId, { answers, at: `${name}#/paths/${place}/responses` });
      }
  }

  function shapeProblem(id: string, status: number, type: string, body: unknown): string | null {
    const { at } = declared.get(id) as { at: string };
    const pointer = `${at}/${status}/content/${type.replaceAll("/", "~1")}/schema`;
    let check = checks.get(pointer);
    if (!check) checks.set(pointer, (check = ajv.compile({ $ref: encodeURI(pointer).replace(/^([^#]+)%23/, "$1#") })));
    return check(body) ? null : ajv.errorsText(check.errors);
  }

  return function checkResponse(
    { draft: { operation, leavesOperation }, method, target }: Written,
    { status, headers, text }: Received,
  ): void {
    const label = `${operation.id}: ${method} ${target.slice(0, 300)} returned ${status} ${text.slice(0, 600)}`;
    assert.ok(status < 500, label);
    assert.ok(headers["x-request-id"], `no X-Request-ID: ${label}`);
    for (const [name, value] of SECURITY_HEADERS)
      if (name !== "Cache-Control") assert.is(headers[name.toLowerCase()], value, `${name}: ${label}`);
    const type = String(headers["content-type"] ?? "").split(";")[0] as string;
    const isRead = (method === "GET" || method === "HEAD") && status < 400;
    // A feed reader keeps what it wants; nothing on the way there may.
    const forReads = type === "application/atom+xml" ? "private, no-store" : "private, no-cache";
    assert.is(headers["cache-control"], isRead ? forReads : "no-store", `Cache-Control: ${label}`);
    assert.is(
      /^W\/"[\w-]{22}"$/.test(String(headers["etag"])),
      isRead && (status === 304 || type === "application/json") && !headers["content-disposition"],
      `ETag: ${label}`,
    );
    if (status >= 400) refusal(status, type, text, label);
    // Another operation may have responded; in tests, the server itself checks the shape of successes.
    if (leavesOperation) return;
    const answer = declared.get(operation.id)?.answers[status];
    assert.ok(answer !== undefined || status === 431, `undeclared status: ${label}`);
    if (status >= 400 || status === 206) return;
    assert.ok(
      answer?.content === undefined || type in answer.content || "*/*" in answer.content,
      `undeclared content type ${type}: ${label}`,
    );
    if (type === "application/json") assert.is(shapeProblem(operation.id, status, type, JSON.parse(text)), null, label);
  };

  function refusal(status: number, type: string, text: string, label: string): void {
    // Requests whose head Node cannot parse are refused before there is a content type.
    assert.is(type, "application/json", label);
    const body = JSON.parse(text) as { message?: unknown; errors?: unknown };
    const { message, errors, ...more } = body;
    assert.ok(typeof message === "string" && message.length > 0, `no message: ${label}`);
    assert.equal(more, {}, `more than the contract's fields: ${label}`);
    if (!("errors" in body)) return;
    assert.is(status, 400, `errors outside a 400: ${label}`);
    const texts = Object.values(errors as object);
    assert.ok(texts.length > 0 && texts.every((one) => typeof one === "string" && one.length > 0), `errors: ${label}`);
  }
}
