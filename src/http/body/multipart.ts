/**
 * Multipart forms. A small one is collected and cut into its parts (plain-form.ts). Large ones, chunked ones and those
 * written in an unusual way go through @koa/multer; their evidence is hashed and staged while it arrives.
 *
 * Invariants:
 * - If reading fails, for whatever reason, every byte staged for this request is discarded before the error is thrown.
 * - No part is dropped silently: a client that gets "stored" must be able to rely on it.
 * - A refusal of a large form is answered as soon as it is known. multer reports errors only after the whole body has
 *   arrived, so the events of its parser are watched here, and multer's own errors are a safety net.
 */
import { hash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import type { Writable } from "node:stream";
import multer from "@koa/multer";
import type { FormStream, PartFile, StorageEngine } from "@koa/multer";
import type Koa from "koa";
import { AppError, badRequest, fileTooLarge, invalid, tooLarge } from "../../errors.ts";
import {
  acquireBodyLease,
  sendContinue,
  declaredLength,
  readAll,
  receiveWhole,
  rejectEncodedBody,
  watchPace,
} from "./body.ts";
import type { BodyLimits, BodyIntake } from "./body.ts";
import { SMALL_BODY_BYTES } from "./body-budget.ts";
import type { BodyLease } from "./body-budget.ts";
import type { FormBody, UploadedFile } from "../operation.ts";
import { assignParts, describeFile, formTooLarge, isSmallEvidence, maxFormBytes, maxJsonBytes } from "./form-parts.ts";
import { toFormError } from "./form-errors.ts";
import type { EvidenceStage, SmallFile, StagedFile } from "./evidence-stage.ts";
import { parsePlainForm } from "./plain-form.ts";
import { REPLACEMENT, countReplacements, createPartScan, parseDelimiter } from "./multipart-scan.ts";
import type { PartScan } from "./multipart-scan.ts";

/**
 * RFC 2046 allows a boundary of 70 characters. The parser searches for it at every byte, in time proportional to its
 * length.
 */
const MAX_CONTENT_TYPE_CHARS = 256;
const MAX_PART_NAME_CHARS = 100;

const NO_BYTES = Buffer.alloc(0);

/** What has arrived of one form; multer's callbacks find it by their request. */
type Upload = {
  form: FormBody;
  limits: BodyLimits;
  evidence: EvidenceStage;
  /** The JSON part: bytes if it was sent as a file, else text. */
  json: Buffer | string | null;
  file: UploadedFile | null;
  small: SmallFile | null;
  /** Names of the parts so far. */
  names: Set<string>;
  /** Everything ever staged for this request, finished or not. */
  staging: Promise<StagedFile>[];
  /** The handling of each file part. */
  receiving: Promise<void>[];
  streams: Readable[];
  /** Ends the reading; the first error counts. */
  fail(error: unknown): void;
};
const uploads = new WeakMap<FormStream, Upload>();

/** A form up to this size is collected before it is parsed. */
const SMALL_FORM_BYTES = 262_144;

/** What an upload to disk counts against the body budget, which so bounds the number of concurrent large uploads. */
const STREAMED_UPLOAD_BYTES = 8 << 20;

const engine: StorageEngine = {
  _handleFile(request, part, done) {
    const upload = uploads.get(request);
    if (!upload) return done(new Error("upload without a request"));
    const received = receiveFile(upload, part);
    upload.receiving.push(received);
    received.then(
      () => done(null, {}),
      (error: Error) => {
        upload.fail(error);
        done(error);
      },
    );
  },
  // readParts discards staged files itself, once, after everything has settled.
  _removeFile: (_request, _file, done) => done(null),
};

/** Reads one part that was sent as a file: the JSON, a file in memory, or evidence to stage. */
async function receiveFile(upload: Upload, part: PartFile): Promise<void> {
  const { form, limits } = upload;
  claimPart(upload, part.fieldname);
  upload.streams.push(part.stream);
  if (part.fieldname === form.part) {
    upload.json = await readAll(part.stream, maxJsonBytes(form, limits), () => jsonTooLarge(upload));
    return;
  }
  const description = describeFile(part.originalname, part.mimetype);
  if (form.file?.kind === "memory") {
    const bytes = await readAll(part.stream, limits.document, () => fileTooLarge(limits.document));
    upload.file = { ...description, size: bytes.length, bytes, isStaged: false, digest: hash("sha256", bytes) };
    return;
  }
  const staging = upload.evidence.stage(part.stream, { limit: limits.evidence });
  upload.staging.push(staging);
  try {
    const { digest, size, content } = await staging;
    if (content && isSmallEvidence(size, limits)) upload.small = { digest, content };
    upload.file = { ...description, size, bytes: NO_BYTES, isStaged: upload.small === null, digest };
  } catch (error) {
    throw error instanceof Error && error.name === "TooLargeError" ? fileTooLarge(limits.evidence) : error;
  }
}

/** @throws AppError 400 for a part that is repeated. */
function claimPart({ names }: Upload, name: string): void {
  if (names.has(name)) throw invalid({ [name]: "The part is given more than once" });
  names.add(name);
}

const jsonTooLarge = ({ form, limits }: Upload): AppError =>
  tooLarge(`Part '${form.part}'`, maxJsonBytes(form, limits));

type FormParser = ReturnType<ReturnType<typeof multer>["fields"]>;
const parsers = new WeakMap<BodyLimits, Map<FormBody, FormParser>>();

/** One multer per form and server; the state of a single request is in its Upload. */
function parserOf(form: FormBody, limits: BodyLimits): FormParser {
  let parsersOfServer = parsers.get(limits);
  if (!parsersOfServer) parsers.set(limits, (parsersOfServer = new Map()));
  let parser = parsersOfServer.get(form);
  if (!parser) {
    const names = form.file ? [form.part, form.file.part] : [form.part];
    // multer lets two parts of a name pass, so that `claimPart` can name the one that is repeated.
    parser = multer({
      storage: engine,
      defParamCharset: "utf8",
      limits: {
        fieldSize: maxJsonBytes(form, limits),
        fieldNameSize: MAX_PART_NAME_CHARS,
        fields: 8,
        files: 4,
        parts: 10,
        headerPairs: 50,
        fieldNestingDepth: 0,
      },
      streamHandler(request, sink) {
        const upload = uploads.get(request);
        if (upload) watchParser(upload, request, sink);
        request.pipe(sink);
      },
    }).fields(names.map((name) => ({ name, maxCount: 2 })));
    parsersOfServer.set(form, parser);
  }
  return parser;
}

/**
 * Watches the bytes on their way to the parser, and the parser's events, and ends the reading at the first problem.
 * multer's own listeners would report it only after the whole body.
 */
function watchParser(upload: Upload, request: FormStream, parser: Writable): void {
  const { form, limits } = upload;
  const maxBytes = maxFormBytes(form, limits);
  const delimiter = parseDelimiter(request.headers["content-type"] ?? "");
  if (delimiter === null) {
    upload.fail(
      badRequest(
        "The multipart form is broken: its Content-Type has no boundary that every reader understands in the same way",
      ),
    );
    return;
  }
  const scan = createPartScan(delimiter, Buffer.from(REPLACEMENT));
  let received = 0;
  request.on("data", (chunk: Buffer) => {
    received += chunk.length;
    if (received > maxBytes) upload.fail(formTooLarge(form, limits));
    scan.add(chunk);
  });
  const names = form.file ? `'${form.part}' and '${form.file.part}' are` : `'${form.part}' is`;
  const tooManyParts = (): void => upload.fail(badRequest(`The form has too many parts: ${names} expected`));
  parser.on("partsLimit", tooManyParts).on("fieldsLimit", tooManyParts).on("filesLimit", tooManyParts);
  parser.on("error", (error) => upload.fail(error));
  watchParts(upload, parser, scan);
}

/** Watches what the parser makes of the parts. */
function watchParts(upload: Upload, parser: Writable, scan: PartScan): void {
  const { form } = upload;
  let parts = 0;
  const guarded = (work: () => void): void => {
    try {
      work();
    } catch (error) {
      upload.fail(error);
    }
  };
  parser.on(
    "field",
    (name: string | undefined, text: string | undefined, { valueTruncated }: { valueTruncated: boolean }) =>
      guarded(() => {
        parts += 1;
        if (classifyPart(upload, name, "form part") !== "json") throw notAFile(name);
        claimPart(upload, form.part);
        if (valueTruncated) throw jsonTooLarge(upload);
        // The parser does not know the charset, or it replaced bytes that are not characters. A text with more
        // replacement characters than were sent is not what was sent; storing it would forge evidence.
        if (text === undefined || countReplacements(text) > scan.occurrencesIn(parts))
          throw invalid({ [form.part]: "Input should be valid JSON: the text is not UTF-8" });
        upload.json = text;
      }),
  );
  parser.on("file", (name: string | undefined, stream: Readable, { filename }: { filename?: string }) =>
    guarded(() => {
      parts += 1;
      const kind = classifyPart(upload, name, "file part");
      if (filename) return;
      // multer drops files without a name. Browsers send an empty one if no file was chosen; only that may be dropped.
      if (kind === "json")
        throw invalid({ [form.part]: "The part has the type of a file but no filename: send it as application/json" });
      stream.on("data", () => upload.fail(notAFile(name)));
    }),
  );
  parser.on("finish", () => {
    // The parser skips a part whose headers it cannot parse. There is one more delimiter than there are parts.
    if (parts < scan.delimiters() - 1)
      upload.fail(badRequest("A part of the form has no Content-Disposition header that can be read"));
  });
}

const notAFile = (name: string | undefined): AppError =>
  invalid({ [name ?? "file"]: "The part should be a file: give it a filename" });

/** Whether a part is the JSON or the file of the form. @throws AppError 400 for any other. */
function classifyPart({ form }: Upload, name: string | undefined, what: string): "json" | "file" {
  if (name === undefined || name.length > MAX_PART_NAME_CHARS)
    throw badRequest(`A part of the form has no acceptable name: '${form.part}' is expected`);
  if (name === form.part) return "json";
  if (name === form.file?.part) return "file";
  throw invalid({ [name.toWellFormed()]: `Extra inputs are not permitted [input: ${what}]` });
}

type FormContent = {
  /** The unparsed JSON part. */
  json: Buffer;
  file: UploadedFile | null;
  /** Small evidence, which the caller writes to the database. */
  small: SmallFile | null;
  /** Other evidence, which the caller publishes or discards. */
  staged: StagedFile | null;
  /** Of a large form; the caller releases it. */
  lease: BodyLease | null;
};

type FormParts = { limits: BodyLimits; evidence: EvidenceStage; intake: BodyIntake };

/**
 * Reads a form: the JSON part as bytes, the file part staged or in memory. A large form waits, unread, until the budget
 * has room for it. Nothing stays staged when it throws.
 * @throws AppError 400 for a malformed form and a missing, unknown or repeated part; 408 after a stall; 413 over a
 *   limit, before reading if Content-Length exceeds it; 429 if the budget has no room for too long; ClientGoneError.
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
  if ((declaredLength(ctx.req) ?? 0) > maxFormBytes(form, limits)) throw formTooLarge(form, limits);
  const size = declaredLength(ctx.req) ?? Infinity;
  const isLarge = size > SMALL_BODY_BYTES;
  const inMemory = form.file?.kind === "evidence" ? STREAMED_UPLOAD_BYTES : maxFormBytes(form, limits);
  const lease = isLarge ? await acquireBodyLease(ctx, intake, Math.min(size, inMemory)) : null;
  try {
    sendContinue(ctx);
    const reading = { limits, evidence, isContended: isLarge ? intake.budget.isContended : null };
    const parts =
      size <= SMALL_FORM_BYTES
        ? await readSmallForm(ctx, form, { ...reading, length: size })
        : await readParts(ctx, form, { ...reading, body: null });
    return { ...parts, lease };
  } catch (error) {
    lease?.release();
    throw error;
  }
}

type Reading = Omit<FormParts, "intake"> & { isContended: (() => boolean) | null };

/** Collects a form and parses it. What is not written plainly or is to be refused goes through multer after all. */
async function readSmallForm(
  ctx: Koa.Context,
  form: FormBody,
  { length, ...reading }: Reading & { length: number },
): Promise<Omit<FormContent, "lease">> {
  const { limits, evidence, isContended } = reading;
  const body = await receiveWhole(ctx.req, { length, stallTimeoutS: limits.stallTimeoutS, isContended });
  const parts = assignParts(parsePlainForm(body, ctx.req.headers["content-type"] ?? ""), form, limits);
  if (parts === null) return readParts(ctx, form, { ...reading, body });
  const { json, file } = parts;
  if (file === null) return { json: json.bytes, file: null, small: null, staged: null };
  const { filename, mimeType, bytes } = file;
  const description = { ...describeFile(filename ?? "", mimeType), size: bytes.length };
  const isInMemory = form.file?.kind === "memory";
  if (isInMemory || isSmallEvidence(bytes.length, limits)) {
    const digest = hash("sha256", bytes);
    return {
      json: json.bytes,
      file: { ...description, bytes: isInMemory ? bytes : NO_BYTES, isStaged: false, digest },
      small: isInMemory ? null : { digest, content: bytes },
      staged: null,
    };
  }
  const staged = await evidence.stageBytes(bytes);
  const uploaded = { ...description, bytes: NO_BYTES, isStaged: true, digest: staged.digest };
  return { json: json.bytes, file: uploaded, small: null, staged };
}

/** A form that has arrived, as the request that brought it. */
const replay = (body: Buffer, { headers }: IncomingMessage): FormStream => {
  const stream = new Readable({
    read() {
      stream.push(body);
      stream.push(null);
    },
  });
  return Object.assign(stream, { headers });
};

/** Reads a form through multer: the one that arrives, or `body`, which has arrived. */
async function readParts(
  ctx: Koa.Context,
  form: FormBody,
  { limits, evidence, isContended, body }: Reading & { body: Buffer | null },
): Promise<Omit<FormContent, "lease">> {
  const request: FormStream = body === null ? ctx.req : replay(body, ctx.req);
  let fail: (error: unknown) => void = () => undefined;
  const failed = new Promise<never>((_resolve, reject) => (fail = reject));
  failed.catch(() => undefined);
  const upload: Upload = {
    form,
    limits,
    evidence,
    json: null,
    file: null,
    small: null,
    names: new Set(),
    staging: [],
    receiving: [],
    streams: [],
    fail,
  };
  uploads.set(request, upload);
  const pace = body === null ? watchPace(ctx.req, { stallTimeoutS: limits.stallTimeoutS, isContended, fail }) : null;
  try {
    const reading = parserOf(form, limits)({ req: request, res: ctx.res }, async () => undefined);
    reading.catch(() => undefined);
    await Promise.race([reading, failed]);
    if (upload.json === null) throw invalid({ [form.part]: "Field required" });
    const json = typeof upload.json === "string" ? Buffer.from(upload.json) : upload.json;
    const [staged = null] = await Promise.all(upload.staging);
    if (staged && upload.small) await evidence.discard([staged]);
    return { json, file: upload.file, small: upload.small, staged: upload.small ? null : staged };
  } catch (error) {
    // Nothing reads the rest from here on: it must not pile up in the parser.
    request.unpipe();
    for (const stream of upload.streams) stream.destroy();
    const received = await Promise.allSettled(upload.receiving);
    const settled = await Promise.allSettled(upload.staging);
    await evidence.discard(settled.flatMap((result) => (result.status === "fulfilled" ? [result.value] : [])));
    // A refused part destroys its stream, and multer may report that before the part reports the reason.
    const reasons = [
      error,
      ...received.flatMap((result) => (result.status === "rejected" ? [result.reason as unknown] : [])),
    ];
    throw toFormError(reasons.find((reason) => reason instanceof AppError) ?? error, ctx.req);
  } finally {
    pace?.stop();
  }
}
