/**
 * Request bodies: JSON with a limit, and multipart through @koa/multer with parts that are hashed on their way to the
 * vault's staging area. Invariant: when reading fails, for whatever reason, every byte that was staged for this request is
 * gone before the error is passed on.
 */
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import multer from "@koa/multer";
import type { PartFile, StorageEngine } from "@koa/multer";
import type Koa from "koa";
import { AppError, badRequest, fileTooLarge, invalid, requestTimeout, tooLarge } from "../errors.ts";
import type { FormBody, UploadedFile } from "./operation.ts";
import { findUnstorable } from "./validate.ts";

export type BodyLimits = {
  /** Plain JSON bodies, bytes. */
  json: number;
  /** The JSON part of a form, bytes. */
  form: number;
  /** Files kept in memory: templates, policies, schemas; bytes (fixed by the contract). */
  document: number;
  /** Evidence attachments, bytes. */
  evidence: number;
  /** A body of which nothing arrives for this many seconds is given up. */
  stall: number;
};

/** What the kit needs of the vault. `token` belongs to the vault. */
export type StagedFile = { readonly digest: string; readonly size: number; readonly token: string };
export type EvidenceStage = {
  /** Rejects with an error whose name is `TooLargeError` past `limit` bytes; leaves nothing behind when it rejects. */
  stage(source: Readable, options: { limit: number }): Promise<StagedFile>;
  publish(staged: readonly StagedFile[]): Promise<void>;
  discard(staged: readonly StagedFile[]): Promise<void>;
};

/** The client went away before its request was complete: nobody is left to answer. */
export class ClientGoneError extends Error {
  constructor() {
    super("the client closed the connection before its request was complete");
    this.name = "ClientGoneError";
  }
}

/** Multipart boundaries and part headers, on top of the parts themselves, bytes. */
const FORM_OVERHEAD = 65_536;

const declaredLength = (request: IncomingMessage): number | null => {
  const text = request.headers["content-length"];
  return text === undefined ? null : Number(text);
};

/** Whether the request brings any body at all. */
export const hasBody = (request: IncomingMessage): boolean =>
  request.headers["transfer-encoding"] !== undefined || (declaredLength(request) ?? 0) > 0;

/**
 * The JSON value of the body; `undefined` when there is none.
 * @throws AppError 400 for text that is not JSON in UTF-8, 413 over the limit, 408 after a stall; ClientGoneError.
 */
export async function readJson(ctx: Koa.Context, limits: BodyLimits): Promise<unknown> {
  if (!hasBody(ctx.req)) return undefined;
  refuseEncoded(ctx.req);
  if ((declaredLength(ctx.req) ?? 0) > limits.json) throw tooLarge("Request body size", limits.json);
  announce(ctx);
  const bytes = await collect(ctx.req, limits.json, limits.stall, () => tooLarge("Request body size", limits.json));
  return bytes.length === 0 ? undefined : parseJson(bytes, "body");
}

/** JSON in UTF-8. A field named `what` is blamed for what is wrong. */
function parseJson(bytes: Buffer | string, what: string): unknown {
  let value: unknown;
  try {
    const text = typeof bytes === "string" ? bytes : new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    value = JSON.parse(text);
  } catch (error) {
    const reason = error instanceof SyntaxError ? jsonReason(error) : "the text is not UTF-8";
    throw invalid({ [what]: `Input should be valid JSON: ${reason}` });
  }
  const problem = findUnstorable(value);
  if (problem) throw invalid({ [problem[0] || what]: problem[1] });
  return value;
}

/** The parser's reason without the excerpt of the input that V8 puts into some messages. */
function jsonReason(error: SyntaxError): string {
  const position = /at position \d+(?: \(line \d+ column \d+\))?/.exec(error.message);
  return position ? `unexpected character ${position[0]}` : "the text ends early or is malformed";
}

function refuseEncoded(request: IncomingMessage): void {
  const encoding = request.headers["content-encoding"];
  if (encoding !== undefined && encoding.toLowerCase() !== "identity")
    throw badRequest(`Content-Encoding '${encoding.slice(0, 50)}' is not supported for request bodies. Send the body uncompressed`);
}

/** Tells a client that waits (`Expect: 100-continue`) that its body is wanted. */
function announce(ctx: Koa.Context): void {
  if (ctx.req.headers.expect?.toLowerCase() === "100-continue" && !ctx.res.headersSent) ctx.res.writeContinue();
}

const stalled = (seconds: number): AppError =>
  requestTimeout(`The request body did not arrive in time: nothing was received for ${seconds} seconds`);

/** All bytes of a stream, at most `limit`. */
function collect(source: IncomingMessage, limit: number, stallSeconds: number, over: () => AppError): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const stop = (): void => {
      source.removeListener("data", onData).removeListener("end", onEnd).removeListener("error", onGone).removeListener("close", onGone);
      source.setTimeout(0);
    };
    const fail = (error: Error): void => {
      stop();
      source.resume();
      reject(error);
    };
    const onData = (chunk: Buffer): void => {
      size += chunk.length;
      if (size > limit) fail(over());
      else chunks.push(chunk);
    };
    const onEnd = (): void => {
      stop();
      resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, size));
    };
    const onGone = (): void => fail(new ClientGoneError());
    source.on("data", onData).on("end", onEnd).on("error", onGone).on("close", onGone);
    source.setTimeout(stallSeconds * 1000, () => fail(stalled(stallSeconds)));
  });
}

export type FormContent = {
  json: unknown;
  file: UploadedFile | null;
  /** The staged evidence, to be published or discarded by the caller. */
  staged: StagedFile | null;
};

/** What one request has brought so far; the storage engine finds it by its request. */
type Arrival = {
  form: FormBody;
  limits: BodyLimits;
  evidence: EvidenceStage;
  file: UploadedFile | null;
  jsonFile: Buffer | null;
  seen: Set<string>;
  /** Everything ever staged for this request, also what is still on its way. */
  staging: Promise<StagedFile>[];
  open: Readable[];
  fail(error: Error): void;
};
const arrivals = new WeakMap<IncomingMessage, Arrival>();

const engine: StorageEngine = {
  _handleFile(request, part, done) {
    const arrival = arrivals.get(request);
    if (!arrival) return done(new Error("upload without a request"));
    receive(arrival, part).then(
      () => done(null, {}),
      (error: Error) => {
        arrival.fail(error);
        done(error);
      },
    );
  },
  // Staged files are dropped by readForm itself, once, after everything has settled.
  _removeFile: (_request, _file, done) => done(null),
};

/** Takes one file part. */
async function receive(arrival: Arrival, part: PartFile): Promise<void> {
  const { form, limits } = arrival;
  if (arrival.seen.has(part.fieldname)) throw invalid({ [part.fieldname]: "The part is given more than once" });
  arrival.seen.add(part.fieldname);
  arrival.open.push(part.stream);
  if (part.fieldname === form.part) {
    arrival.jsonFile = await buffered(part.stream, limits.form, () => tooLarge(`Part '${form.part}'`, limits.form));
    return;
  }
  const description = { filename: safeFilename(part.originalname), contentType: safeContentType(part.mimetype) };
  if (form.file?.kind === "memory") {
    const bytes = await buffered(part.stream, limits.document, () => fileTooLarge(limits.document));
    const digest = createHash("sha256").update(bytes).digest("hex");
    arrival.file = { ...description, size: bytes.length, bytes, digest };
    return;
  }
  const staging = arrival.evidence.stage(part.stream, { limit: limits.evidence });
  arrival.staging.push(staging);
  try {
    const { digest, size } = await staging;
    arrival.file = { ...description, size, bytes: Buffer.alloc(0), digest };
  } catch (error) {
    throw error instanceof Error && error.name === "TooLargeError" ? fileTooLarge(limits.evidence) : error;
  }
}

async function buffered(source: Readable, limit: number, over: () => AppError): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of source as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > limit) throw over();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, size);
}

/** The client's file name without directories, control characters or broken Unicode; only ever shown, never opened. */
function safeFilename(name: string): string {
  const base = name.toWellFormed().split(/[/\\]/).at(-1) ?? "";
  return base.replace(/[\u0000-\u001f\u007f]/g, "").slice(0, 255) || "file";
}

const safeContentType = (type: string): string =>
  /^[a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+$/i.test(type) && type.length <= 100 ? type.toLowerCase() : "application/octet-stream";

type Upload = (ctx: Koa.Context, next: () => Promise<void>) => Promise<void>;
const uploads = new WeakMap<FormBody, Upload>();

/** One multer per form; what belongs to a single request is in its Arrival. */
function uploadOf(form: FormBody, limits: BodyLimits): Upload {
  let upload = uploads.get(form);
  if (!upload) {
    const names = form.file ? [form.part, form.file.part] : [form.part];
    // Two of a kind pass multer, so that readForm can name the part that came twice.
    upload = multer({
      storage: engine,
      defParamCharset: "utf8",
      limits: { fieldSize: limits.form, fieldNameSize: 100, fields: 8, files: 4, parts: 10, headerPairs: 50, fieldNestingDepth: 0 },
    }).fields(names.map((name) => ({ name, maxCount: 2 }))) as Upload;
    uploads.set(form, upload);
  }
  return upload;
}

/**
 * Reads a form: the JSON part as a value, the file part staged or in memory.
 * @throws AppError 400 for a broken form, a missing, unknown or repeated part; 413 over a limit, at once where Content-Length
 *   already tells; 408 after a stall; ClientGoneError. Nothing stays staged when it throws.
 */
export async function readForm(ctx: Koa.Context, form: FormBody, limits: BodyLimits, evidence: EvidenceStage): Promise<FormContent> {
  const fileLimit = form.file === null ? 0 : form.file.kind === "memory" ? limits.document : limits.evidence;
  if (!ctx.is("multipart/form-data"))
    throw badRequest(`Content-Type should be multipart/form-data with the part '${form.part}'`);
  refuseEncoded(ctx.req);
  if ((declaredLength(ctx.req) ?? 0) > fileLimit + limits.form + FORM_OVERHEAD)
    throw form.file ? fileTooLarge(fileLimit) : tooLarge("Request body size", limits.form);
  announce(ctx);

  const request = ctx.req;
  let failFirst: (error: Error) => void = () => undefined;
  // multer answers a refusal only after the whole body has arrived; this promise answers at once.
  const failed = new Promise<never>((_resolve, reject) => (failFirst = reject));
  failed.catch(() => undefined);
  const arrival: Arrival = {
    form, limits, evidence,
    file: null, jsonFile: null, seen: new Set(), staging: [], open: [],
    fail: (error) => failFirst(error),
  };
  arrivals.set(request, arrival);
  request.setTimeout(limits.stall * 1000, () => arrival.fail(stalled(limits.stall)));
  try {
    const reading = uploadOf(form, limits)(ctx, async () => undefined);
    reading.catch(() => undefined);
    await Promise.race([reading, failed]);
    const json = formJson(ctx.request as { body?: Record<string, unknown> }, arrival);
    const staged = await Promise.all(arrival.staging);
    return { json, file: arrival.file, staged: staged[0] ?? null };
  } catch (error) {
    for (const stream of arrival.open) stream.destroy();
    const settled = await Promise.allSettled(arrival.staging);
    await evidence.discard(settled.flatMap((result) => (result.status === "fulfilled" ? [result.value] : [])));
    throw formError(error, request, form, limits);
  } finally {
    request.setTimeout(0);
  }
}

/** The JSON value of the form after all parts are in. */
function formJson(request: { body?: Record<string, unknown> }, arrival: Arrival): unknown {
  const { form } = arrival;
  for (const [name, value] of Object.entries(request.body ?? {})) {
    if (name === form.file?.part) throw invalid({ [name]: "The part should be a file: give it a filename" });
    if (name !== form.part) throw invalid({ [name]: "Extra inputs are not permitted [input: form part]" });
    if (typeof value !== "string" || arrival.jsonFile !== null) throw invalid({ [name]: "The part is given more than once" });
  }
  const text = arrival.jsonFile ?? (request.body?.[form.part] as string | undefined);
  if (text === undefined) throw invalid({ [form.part]: "Field required" });
  return parseJson(text, form.part);
}

/** multer's own errors and busboy's nameless ones as errors of the contract. */
function formError(error: unknown, request: IncomingMessage, form: FormBody, limits: BodyLimits): Error {
  if (error instanceof AppError || error instanceof ClientGoneError) return error;
  if (request.destroyed && !request.complete) return new ClientGoneError();
  const { code, field, message } = error as { code?: string; field?: string; message?: string };
  switch (code) {
    case "LIMIT_FIELD_VALUE":
      return tooLarge(`Part '${field ?? form.part}'`, limits.form);
    case "LIMIT_PART_COUNT":
    case "LIMIT_FILE_COUNT":
    case "LIMIT_FIELD_COUNT":
      return badRequest(`The form has too many parts: '${form.part}'${form.file ? ` and '${form.file.part}'` : ""} are expected`);
    case "LIMIT_UNEXPECTED_FILE":
      return invalid({ [field ?? "file"]: "Extra inputs are not permitted [input: file part]" });
    case "LIMIT_FIELD_KEY":
    case "LIMIT_FIELD_NESTING":
    case "INVALID_FIELD_NAME":
    case "MISSING_FIELD_NAME":
      return badRequest(`A part of the form has no acceptable name: '${form.part}' is expected`);
    default:
      // busboy and its parser: "Unexpected end of form", "Boundary not found", "Malformed part header", ...
      if (error instanceof Error && code === undefined && FORM_COMPLAINTS.test(message ?? ""))
        return badRequest(`The multipart form is broken: ${message}`, error);
      return error instanceof Error ? error : new Error(String(error));
  }
}

const FORM_COMPLAINTS = /form|boundary|part header|multipart|content[- ]type|content type/i;
