/**
 * Forms: multipart through @koa/multer, with parts that are hashed on their way to the vault's staging area.
 *
 * Invariants: when reading fails, for whatever reason, every byte that was staged for this request is gone before the
 * error is passed on; no part is dropped silently, because a caller who is told "stored" must be able to rely on it; a
 * refusal is answered when it is known. multer itself reports what it finds only after the whole body arrived, so the
 * same events of its parser are watched here, and what multer says in the end is a safety net.
 */
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Readable, Writable } from "node:stream";
import multer from "@koa/multer";
import type { PartFile, StorageEngine } from "@koa/multer";
import type Koa from "koa";
import { AppError, badRequest, fileTooLarge, invalid, tooLarge } from "../../errors.ts";
import {
  ClientGoneError,
  acquireBodyLease,
  sendContinue,
  declaredLength,
  rejectEncodedBody,
  watchPace,
} from "./body.ts";
import type { BodyLimits, BodyIntake } from "./body.ts";
import { SMALL_BODY_BYTES } from "./body-budget.ts";
import type { BodyLease } from "./body-budget.ts";
import type { FormBody, UploadedFile } from "../operation.ts";
import { maxBodyBytes } from "./read-json.ts";

/** What the kit needs of the vault. `token` belongs to the vault. */
export type StagedFile = { readonly digest: string; readonly size: number; readonly token: string };
export type EvidenceStage = {
  /** Rejects with an error whose name is `TooLargeError` past `limit` bytes; leaves nothing behind when it rejects. */
  stage(source: Readable, options: { limit: number }): Promise<StagedFile>;
  publish(staged: readonly StagedFile[]): Promise<void>;
  discard(staged: readonly StagedFile[]): Promise<void>;
};

/** Multipart boundaries and part headers, on top of the parts themselves, bytes. */
const FORM_OVERHEAD_BYTES = 65_536;
/**
 * RFC 2046 allows a boundary 70 characters. The parser's search takes time proportional to its length for every byte.
 */
const MAX_CONTENT_TYPE_CHARS = 256;
const MAX_PART_NAME_CHARS = 100;

/** What one request has brought so far; multer's callbacks find it by their request. */
type Arrival = {
  form: FormBody;
  limits: BodyLimits;
  evidence: EvidenceStage;
  /** The JSON part: bytes when it came as a file, else text. */
  json: Buffer | string | null;
  file: UploadedFile | null;
  seen: Set<string>;
  /** Everything ever staged for this request, also what is still on its way. */
  staging: Promise<StagedFile>[];
  /** The taking of file parts. */
  receiving: Promise<void>[];
  open: Readable[];
  /** Ends the reading with the first error given. */
  fail(error: unknown): void;
};
const arrivals = new WeakMap<IncomingMessage, Arrival>();

/**
 * Bytes that an upload counts for whose file goes to the disk: so many large uploads are read at once as fit into the
 * budget.
 */
const STREAMED_UPLOAD_BYTES = 8 << 20;

const fileLimitOf = (form: FormBody, limits: BodyLimits): number =>
  form.file === null ? 0 : form.file.kind === "memory" ? limits.document : limits.evidence;

/** The most bytes of the JSON part. */
const jsonLimitOf = (form: FormBody, limits: BodyLimits): number => maxBodyBytes(form.bounds, limits.form, limits);

/** The most bytes of a whole form. */
const formLimitOf = (form: FormBody, limits: BodyLimits): number =>
  fileLimitOf(form, limits) + jsonLimitOf(form, limits) + FORM_OVERHEAD_BYTES;

/** 413 for a whole form: where it has a file, that is what makes it large. */
const formTooLarge = (form: FormBody, limits: BodyLimits): AppError =>
  form.file ? fileTooLarge(fileLimitOf(form, limits)) : tooLarge("Request body size", jsonLimitOf(form, limits));

const engine: StorageEngine = {
  _handleFile(request, part, done) {
    const arrival = arrivals.get(request);
    if (!arrival) return done(new Error("upload without a request"));
    const received = receive(arrival, part);
    arrival.receiving.push(received);
    received.then(
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
  claim(arrival, part.fieldname);
  arrival.open.push(part.stream);
  if (part.fieldname === form.part) {
    arrival.json = await buffered(part.stream, jsonLimitOf(form, limits), () => jsonTooLarge(arrival));
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

/** @throws AppError 400 for a part that came before. */
function claim({ seen }: Arrival, name: string): void {
  if (seen.has(name)) throw invalid({ [name]: "The part is given more than once" });
  seen.add(name);
}

const jsonTooLarge = ({ form, limits }: Arrival): AppError =>
  tooLarge(`Part '${form.part}'`, jsonLimitOf(form, limits));

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
  return (
    base
      .replace(/[\u0000-\u001f\u007f]/g, "")
      .slice(0, 255)
      .toWellFormed() || "file"
  );
}

const safeContentType = (type: string): string =>
  /^[a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+$/i.test(type) && type.length <= 100
    ? type.toLowerCase()
    : "application/octet-stream";

type Upload = (ctx: Koa.Context, next: () => Promise<void>) => Promise<void>;
const uploads = new WeakMap<BodyLimits, Map<FormBody, Upload>>();

/** One multer per form and server; what belongs to a single request is in its Arrival. */
function uploadOf(form: FormBody, limits: BodyLimits): Upload {
  let ofServer = uploads.get(limits);
  if (!ofServer) uploads.set(limits, (ofServer = new Map()));
  let upload = ofServer.get(form);
  if (!upload) {
    const names = form.file ? [form.part, form.file.part] : [form.part];
    // Two of a kind pass multer, so that `claim` can name the part that came twice.
    upload = multer({
      storage: engine,
      defParamCharset: "utf8",
      limits: {
        fieldSize: jsonLimitOf(form, limits),
        fieldNameSize: MAX_PART_NAME_CHARS,
        fields: 8,
        files: 4,
        parts: 10,
        headerPairs: 50,
        fieldNestingDepth: 0,
      },
      streamHandler(request, parser) {
        const arrival = arrivals.get(request);
        if (arrival) watch(arrival, request, parser);
        request.pipe(parser);
      },
    }).fields(names.map((name) => ({ name, maxCount: 2 }))) as Upload;
    ofServer.set(form, upload);
  }
  return upload;
}

/**
 * Watches the bytes on their way to the parser and what the parser makes of them. Its listeners come after multer's,
 * whose refusals wait for the whole body, and end the reading at once.
 */
function watch(arrival: Arrival, request: IncomingMessage, parser: Writable): void {
  const { form, limits } = arrival;
  const most = formLimitOf(form, limits);
  // A text with more replacement characters than were sent is not what was sent; storing it would forge evidence.
  const replacements = occurrences(Buffer.from(REPLACEMENT));
  const delimiter = delimiterOf(request.headers["content-type"] ?? "");
  const delimiters = delimiter && occurrences(delimiter);
  // The first delimiter has no line before it to end.
  delimiters?.add(Buffer.from("\r\n"));
  let received = 0;
  let parts = 0;
  request.on("data", (chunk: Buffer) => {
    received += chunk.length;
    if (received > most) arrival.fail(formTooLarge(form, limits));
    if (arrival.json === null) replacements.add(chunk);
    delimiters?.add(chunk);
  });
  parser.on("finish", () => {
    // The parser skips a part whose headers it cannot read. There is one delimiter more than there are parts.
    if (delimiters && parts < delimiters.count() - 1)
      arrival.fail(badRequest("A part of the form has no Content-Disposition header that can be read"));
  });
  const names = form.file ? `'${form.part}' and '${form.file.part}' are` : `'${form.part}' is`;
  const tooMany = (): void => arrival.fail(badRequest(`The form has too many parts: ${names} expected`));
  parser.on("partsLimit", tooMany).on("fieldsLimit", tooMany).on("filesLimit", tooMany);
  parser.on("error", (error) => arrival.fail(error));
  const guarded = (work: () => void): void => {
    try {
      work();
    } catch (error) {
      arrival.fail(error);
    }
  };
  parser.on(
    "field",
    (name: string | undefined, text: string | undefined, { valueTruncated }: { valueTruncated: boolean }) =>
      guarded(() => {
        parts += 1;
        if (expected(arrival, name, "form part") !== "json") throw notAFile(name);
        claim(arrival, form.part);
        if (valueTruncated) throw jsonTooLarge(arrival);
        // The parser knows no such charset, or it replaced what was no character in it.
        if (text === undefined || replacementsIn(text) > replacements.count())
          throw invalid({ [form.part]: "Input should be valid JSON: the text is not UTF-8" });
        arrival.json = text;
      }),
  );
  parser.on("file", (name: string | undefined, stream: Readable, { filename }: { filename?: string }) =>
    guarded(() => {
      parts += 1;
      const kind = expected(arrival, name, "file part");
      if (filename) return;
      // multer drops files without a name. Browsers send an empty one where no file was chosen: only that may be
      // dropped.
      if (kind === "json")
        throw invalid({ [form.part]: "The part has the type of a file but no filename: send it as application/json" });
      stream.on("data", () => arrival.fail(notAFile(name)));
    }),
  );
}

const notAFile = (name: string | undefined): AppError =>
  invalid({ [name ?? "file"]: "The part should be a file: give it a filename" });

/** Which of the two expected parts has this name. @throws AppError 400 for any other. */
function expected({ form }: Arrival, name: string | undefined, what: string): "json" | "file" {
  if (name === undefined || name.length > MAX_PART_NAME_CHARS)
    throw badRequest(`A part of the form has no acceptable name: '${form.part}' is expected`);
  if (name === form.part) return "json";
  if (name === form.file?.part) return "file";
  throw invalid({ [name.toWellFormed()]: `Extra inputs are not permitted [input: ${what}]` });
}

/** Counts how often some bytes occur in a stream, also across its chunks. */
function occurrences(needle: Buffer) {
  let count = 0;
  let rest = Buffer.alloc(0);
  return {
    add(chunk: Buffer): void {
      const bytes = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk;
      let next = 0;
      for (let at = bytes.indexOf(needle); at >= 0; at = bytes.indexOf(needle, next)) {
        count += 1;
        next = at + needle.length;
      }
      rest = Buffer.from(bytes.subarray(Math.max(next, bytes.length - needle.length + 1)));
    },
    count: (): number => count,
  };
}

/** What the parser puts in the place of bytes that are no UTF-8. */
const REPLACEMENT = "\ufffd";

const replacementsIn = (text: string): number => (text.includes(REPLACEMENT) ? text.split(REPLACEMENT).length - 1 : 0);

/** What begins each part and ends the last one; null where the header has none that is simply written. */
function delimiterOf(contentType: string): Buffer | null {
  const [, quoted, bare] = /;\s*boundary=(?:"([^"\\]+)"|([^\s;"]+))/i.exec(contentType) ?? [];
  const boundary = quoted ?? bare;
  return boundary === undefined ? null : Buffer.from(`\r\n--${boundary}`, "latin1");
}

export type FormContent = {
  /** The JSON part, not parsed yet. */
  json: Buffer;
  file: UploadedFile | null;
  /** The staged evidence, to be published or discarded by the caller. */
  staged: StagedFile | null;
  /** Of a large form, to be released by the caller. */
  lease: BodyLease | null;
};

type FormParts = { limits: BodyLimits; evidence: EvidenceStage; intake: BodyIntake };

/**
 * Reads a form: the JSON part as bytes, the file part staged or in memory. A large one waits, unread, until the budget
 * has room for it.
 * @throws AppError 400 for a broken form, a missing, unknown or repeated part; 413 over a limit, at once where
 * Content-Length
 *   already tells; 429 when there is no room for too long; 408 after a stall; ClientGoneError. Nothing stays staged
 *   when it throws.
 */
export async function readForm(
  ctx: Koa.Context,
  form: FormBody,
  { limits, evidence, intake }: FormParts,
): Promise<FormContent> {
  if (!ctx.is("multipart/form-data"))
    throw badRequest(`Content-Type should be multipart/form-data with the part '${form.part}'`);
  if ((ctx.req.headers["content-type"] ?? "").length > MAX_CONTENT_TYPE_CHARS)
    throw badRequest("The multipart form is broken: its boundary is longer than 70 characters");
  rejectEncodedBody(ctx.req);
  if ((declaredLength(ctx.req) ?? 0) > formLimitOf(form, limits)) throw formTooLarge(form, limits);
  const size = declaredLength(ctx.req) ?? Infinity;
  const isLarge = size > SMALL_BODY_BYTES;
  const inMemory = form.file?.kind === "evidence" ? STREAMED_UPLOAD_BYTES : formLimitOf(form, limits);
  const lease = isLarge ? await acquireBodyLease(ctx, intake, Math.min(size, inMemory)) : null;
  try {
    sendContinue(ctx);
    return { ...(await readParts(ctx, form, { limits, evidence, intake }, isLarge)), lease };
  } catch (error) {
    lease?.release();
    throw error;
  }
}

async function readParts(
  ctx: Koa.Context,
  form: FormBody,
  { limits, evidence, intake }: FormParts,
  isLarge: boolean,
): Promise<Omit<FormContent, "lease">> {
  const request = ctx.req;
  let fail: (error: unknown) => void = () => undefined;
  const failed = new Promise<never>((_resolve, reject) => (fail = reject));
  failed.catch(() => undefined);
  const arrival: Arrival = {
    form,
    limits,
    evidence,
    json: null,
    file: null,
    seen: new Set(),
    staging: [],
    receiving: [],
    open: [],
    fail,
  };
  arrivals.set(request, arrival);
  const pace = watchPace(request, limits.stallTimeoutS, {
    isContended: isLarge ? intake.budget.isContended : null,
    fail,
  });
  try {
    const reading = uploadOf(form, limits)(ctx, async () => undefined);
    reading.catch(() => undefined);
    await Promise.race([reading, failed]);
    if (arrival.json === null) throw invalid({ [form.part]: "Field required" });
    const json = typeof arrival.json === "string" ? Buffer.from(arrival.json) : arrival.json;
    const staged = await Promise.all(arrival.staging);
    return { json, file: arrival.file, staged: staged[0] ?? null };
  } catch (error) {
    // Nobody takes the rest from here on: it must not pile up in the parser.
    request.unpipe();
    for (const stream of arrival.open) stream.destroy();
    const received = await Promise.allSettled(arrival.receiving);
    const settled = await Promise.allSettled(arrival.staging);
    await evidence.discard(settled.flatMap((result) => (result.status === "fulfilled" ? [result.value] : [])));
    // A part that is refused stops its stream, and multer may report that sooner than the part its reason.
    const reasons = [
      error,
      ...received.flatMap((result) => (result.status === "rejected" ? [result.reason as unknown] : [])),
    ];
    throw formError(reasons.find((reason) => reason instanceof AppError) ?? error, request);
  } finally {
    pace.stop();
  }
}

/** What the parser and multer complain about, as an error of the contract. */
function formError(error: unknown, request: IncomingMessage): Error {
  if (error instanceof AppError || error instanceof ClientGoneError) return error;
  if (request.destroyed && !request.complete) return new ClientGoneError();
  if (!(error instanceof Error)) return new Error(String(error));
  if (error.name === "MulterError" || COMPLAINTS.test(error.message))
    return badRequest(`The multipart form is broken: ${error.message}`, error);
  return error;
}

/** The parser's errors have no code; these are all its texts. */
const COMPLAINTS =
  /^(?:Unexpected end of (?:form|file)|Malformed part header|Malformed content type|Multipart: Boundary not found)$/;
