/**
 * The OpenAPI document and the server must agree on which requests are valid. For every generated request whose form is
 * valid JSON: the document accepts what the server accepts, and it refuses what the server refuses because of one
 * field, unless no schema can express that (BEYOND_SCHEMAS).
 */
import * as assert from "uvu/assert";
import { Ajv2020 } from "ajv/dist/2020.js";
import type { ValidateFunction } from "ajv/dist/2020.js";
import type { AssayOperation } from "../../src/api/context.ts";
import { parseQueryParameters } from "../../src/http/query-parameters.ts";
import { FORMATS } from "../../src/http/validate.ts";
import { HUGE } from "./requests.ts";
import type { Draft } from "./requests.ts";

type Json = Record<string, any>;

/**
 * Refusals that no schema can express, by field or by text, each with the reason. The document may accept such
 * requests.
 */
const BEYOND_SCHEMAS: readonly { field?: RegExp; text?: RegExp; reason: string }[] = [
  {
    text: /lone surrogates|nested deeper|finite number|NUL character/,
    reason: "said of all requests in the description of the API",
  },
  {
    text: /does not exist|already exists|archived|is logical|cannot be changed|in the future|must not be later/i,
    reason: "state, or the clock",
  },
  { text: /^There is no such snapshot/, reason: "state" },
  {
    text: /^Only a logical environment includes|^Policies cannot be attached/,
    reason: "depends on the type, which may be stored alone",
  },
  {
    text: /is reserved|valid snapshot expression|valid interval|^Input should be a date or time in UTC/,
    reason: "a word of its own; days that no calendar has; indexes",
  },
  {
    text: /^Input should be a valid (?:number|integer) \[/,
    reason: "how the number is written in the query: schemas speak of values",
  },
  {
    text: /^Exactly one of control, environment and flow|after the end of the period/,
    reason: "what other parameters of the query are",
  },
  { text: /Did you mean '/, reason: "a key that looks like a slip, in a body whose unknown keys are ignored" },
  {
    text: /the type of the attestation that is overridden|which the template expects/,
    reason: "state: the type of what is overridden",
  },
  { text: /^Input should be a time zone such as/, reason: "names of the IANA database" },
  { text: /token of a previous page/, reason: "opaque: only what an answer gave is one" },
  { text: /valid RE2 expression/, reason: "a grammar of its own" },
  { text: /valid URL with scheme and host/, reason: "checked only where the repository has an id and a name too" },
  {
    text: /is not allowed as a target|^The (?:URL|host name|address|port) |should be an e-mail address/,
    reason: "hosts, ports and names: parsed",
  },
  {
    field: /^(?:template|policy)_file$|^type_schema$|^template$/,
    reason: "the content of a file, or a name list that becomes one",
  },
  {
    field: /^(?:policy\.)?files\b|^params$/,
    reason: "paths, the bytes of a bundle, and how deep parameters nest; files come in the JSON or as an archive",
  },
  { text: /The policy is not valid|^policy bundle |gzipped tar archive/, reason: "the content of a bundle" },
  {
    field: /^(?:no_policy|entrypoint|compile|evaluate)$/,
    reason: "what the engine finds in a bundle, by the kind of the failure",
  },
  { field: /^attestation_data\b/, reason: "validated by the schema of its type, and JSON in a text" },
  { field: /^control$/, reason: "required or refused by the type, and client generators know no conditions" },
  { field: /^(?:evaluator|summary)\b/, reason: "jq" },
];

export function createAgreement(published: unknown) {
  const document = published as { paths: Record<string, Record<string, Json>> };
  // Formats of the server's own are defined there; those of the standard appear beside patterns.
  const formats = { ...FORMATS, binary: true, iri: true, "idn-email": true, int64: true, double: true } as const;
  const ajv = new Ajv2020({ strict: false, allErrors: true, formats, ownProperties: true });
  ajv.addSchema(published as object, "document");
  const checks = new Map<string, ValidateFunction>();
  const operations = new Map<string, { operation: Json; pointer: string }>();
  for (const [path, methods] of Object.entries(document.paths))
    for (const [method, operation] of Object.entries(methods))
      operations.set(operation["operationId"] as string, {
        operation,
        pointer: `/paths/${path.replaceAll("~", "~0").replaceAll("/", "~1")}/${method}`,
      });

  const problemAt = (pointer: string, value: unknown): string | null => {
    let check = checks.get(pointer);
    if (!check) checks.set(pointer, (check = ajv.compile({ $ref: `document#${encodeURI(pointer)}` })));
    return check(value) ? null : `${pointer.split("/").slice(-3).join("/")}: ${ajv.errorsText(check.errors)}`;
  };

  /** Why the document refuses a request; null when it accepts it. */
  function refusal({ operation, query, json, file }: Draft): string | null {
    const { operation: described, pointer } = operations.get(operation.id) as { operation: Json; pointer: string };
    const sent = parseQueryParameters(operation.query, query.join("&"));
    for (const [index, parameter] of ((described["parameters"] ?? []) as Json[]).entries()) {
      if (parameter["in"] !== "query") continue;
      const value = sent[parameter["name"]];
      if (value === undefined && !parameter["required"]) continue;
      const problem =
        value === undefined
          ? "required"
          : problemAt(`${pointer}/parameters/${index}/schema`, typed(parameter["schema"], value));
      if (problem) return `${parameter["name"]}: ${problem}`;
    }
    const [type] = Object.keys((described["requestBody"]?.content ?? {}) as Json);
    if (type === undefined) return null;
    if (json === undefined || (json === null && type === "application/json"))
      return described["requestBody"].required ? "a body is required" : null;
    const body =
      type === "application/json"
        ? json
        : { ...partOf(operation, json), ...(file === null ? {} : fileOf(operation, file)) };
    return problemAt(
      `${pointer}/requestBody/content/${type.replace("/", "~1")}/schema`,
      JSON.parse(JSON.stringify(body)),
    );
  }

  return function agree(draft: Draft, { status, text }: { status: number; text: string }): void {
    if (
      !operations.has(draft.operation.id) ||
      draft.leavesOperation ||
      draft.rewrite ||
      Object.keys(draft.headers).length > 0
    )
      return;
    // Sent as a number that JavaScript cannot represent.
    if (JSON.stringify(draft.json)?.includes(HUGE)) return;
    if (status !== 400 && status !== 409 && status !== 404 && status >= 300) return;
    const problem = status === 400 && !draft.query.every((one) => one.length < 2_000) ? "too long" : refusal(draft);
    const sent = `${draft.operation.id}: ${draft.query.join("&")} ${JSON.stringify(draft.json)?.slice(0, 1_500)}`;
    const label = `${sent} returned ${status} ${text.slice(0, 500)}`;
    if (status !== 400) {
      assert.is(problem, null, `stricter than the server: ${label}`);
      return;
    }
    const { errors } = JSON.parse(text) as { errors?: Record<string, string> };
    if (errors === undefined || problem !== null) return;
    const unexplained = Object.entries(errors).filter(
      ([name, one]) =>
        !BEYOND_SCHEMAS.some(({ field, text: words }) => (field?.test(name) ?? true) && (words?.test(one) ?? true)),
    );
    assert.equal(unexplained, [], `less strict than the server: ${label}`);
  };
}

const partOf = ({ body }: AssayOperation, json: unknown): Json => (body.kind === "form" ? { [body.part]: json } : {});
const fileOf = ({ body }: AssayOperation, file: string): Json =>
  body.kind === "form" && body.file ? { [body.file.part]: file } : {};

/** A text of the query as the value that its schema describes. */
function typed(schema: Json, value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => typed((schema["items"] ?? {}) as Json, item));
  const text = value as string;
  if (schema["type"] === "boolean" && /^(?:true|false)$/i.test(text)) return text.toLowerCase() === "true";
  const isNumber = schema["type"] === "integer" || schema["type"] === "number";
  return isNumber && /^[+-]?\d{1,20}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?$/i.test(text) ? Number(text) : text;
}
