/**
 * The way of a form through @koa/multer: what becomes of each of its parts, and what ends the reading. multer reports
 * errors only after the whole body has arrived, and some forms it never reports at all, so the events of its parser and
 * the bytes on their way to it are watched here, and multer's own errors are a safety net.
 */
import { hash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import type { Writable } from "node:stream";
import multer from "@koa/multer";
import type { FormStream, PartFile, StorageEngine } from "@koa/multer";
import type Koa from "koa";
import { AppError, badRequest, fileTooLarge, invalid, tooLarge, unavailable } from "../../errors.ts";
import type { FormBody, UploadedFile } from "../operation.ts";
import { ClientGoneError, readAll, watchPace } from "./body.ts";
import type { BodyLimits } from "./body.ts";
import type { EvidenceStage, SmallFile, StagedFile } from "./evidence-stage.ts";
import { describeParserError, toFormError } from "./form-errors.ts";
import { describeFile, formTooLarge, isSmallEvidence, maxFormBytes, maxJsonBytes } from "./form-parts.ts";
import { REPLACEMENT, countReplacements, createPartScan, parseDelimiter } from "./multipart-scan.ts";
import type { PartScan } from "./multipart-scan.ts";

const MAX_PART_NAME_CHARS = 100;

export const NO_BYTES = Buffer.alloc(0);

/** A form that was read. */
export type FormContent = {
  /** The unparsed JSON part. */
  json: Buffer;
  file: UploadedFile | null;
  /** Small evidence, which the caller writes to the database. */
  small: SmallFile | null;
  /** Other evidence, which the caller publishes or discards. */
  staged: StagedFile | null;
};

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
  /** Name of the part that the parser reported last, null before the first. */
  latest: string | null;
  /** Everything ever staged for this request, finished or not. */
  staging: Promise<StagedFile>[];
  /** The handling of each file part. */
  receiving: Promise<void>[];
  streams: Readable[];
  /** Ends the reading; the first error counts. */
  fail(error: unknown): void;
};
const uploads = new WeakMap<FormStream, Upload>();

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
  claimPart(upload, part.fieldname !== form.part && form.file?.isAnyName ? form.file.part : part.fieldname);
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
    const instance = multer({
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
    });
    parser = form.file?.isAnyName ? instance.any() : instance.fields(names.map((name) => ({ name, maxCount: 2 })));
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
    const unfinished = scan.add(chunk);
    if (unfinished !== null) upload.fail(unfinishedHeader(unfinished));
  });
  const names = form.file ? `'${form.part}' and '${form.file.part}' are` : `'${form.part}' is`;
  const tooManyParts = (): void => upload.fail(badRequest(`The form has too many parts: ${names} expected`));
  parser.on("partsLimit", tooManyParts).on("fieldsLimit", tooManyParts).on("filesLimit", tooManyParts);
  parser.on("error", (error) => upload.fail(describeParserError(error, upload.latest)));
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
        upload.latest = name ?? null;
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
      upload.latest = name ?? null;
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

/**
 * The parser reads on behind such a delimiter as if it were part of the header, and then waits for the end of a part
 * that it has passed already.
 */
const unfinishedHeader = (part: number): AppError =>
  badRequest(
    `The multipart form is broken: the header of part ${part} does not end before the next boundary: an empty line ` +
      "is missing",
  );

const notAFile = (name: string | undefined): AppError =>
  invalid({ [name ?? "file"]: "The part should be a file: give it a filename" });

/** Whether a part is the JSON or the file of the form. @throws AppError 400 for any other. */
function classifyPart({ form }: Upload, name: string | undefined, what: string): "json" | "file" {
  if (name === undefined || name.length > MAX_PART_NAME_CHARS)
    throw badRequest(`A part of the form has no acceptable name: '${form.part}' is expected`);
  if (name === form.part) return "json";
  if (name === form.file?.part || form.file?.isAnyName) return "file";
  throw invalid({ [name.toWellFormed()]: `Extra inputs are not permitted [input: ${what}]` });
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

/**
 * Reads a form through multer: the one that arrives, or `body`, which has arrived.
 * @param options.isContended as for `watchPace`
 * @throws AppError; ClientGoneError. Nothing stays staged then, unless the storage does not respond.
 */
export async function readParts(
  ctx: Koa.Context,
  form: FormBody,
  {
    limits,
    evidence,
    isContended,
    body,
  }: { limits: BodyLimits; evidence: EvidenceStage; isContended: (() => boolean) | null; body: Buffer | null },
): Promise<FormContent> {
  const request: FormStream = body === null ? ctx.req : replay(body, ctx.req);
  const { promise: failed, reject: fail } = Promise.withResolvers<never>();
  failed.catch(() => undefined);
  const upload: Upload = {
    form,
    limits,
    evidence,
    json: null,
    file: null,
    small: null,
    names: new Set(),
    latest: null,
    staging: [],
    receiving: [],
    streams: [],
    fail,
  };
  uploads.set(request, upload);
  const pace = body === null ? watchPace(ctx.req, { stallTimeoutS: limits.stallTimeoutS, isContended, fail }) : null;
  const deadline = watchEnd(ctx, request, upload);
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
    throw toFormError(await abandon(upload, error), ctx.req);
  } finally {
    pace?.stop();
    deadline.stop();
  }
}

/**
 * Ends the reading when the client is gone, and when it goes on for too long after the last byte has come: the parser
 * may wait for what will never come, and the storage may not respond. Call `stop` when the form has been read.
 */
function watchEnd({ res }: Koa.Context, request: FormStream, { limits, fail }: Upload): { stop(): void } {
  const { stallTimeoutS } = limits;
  let timer: NodeJS.Timeout | undefined;
  const onEnd = (): void => {
    timer = setTimeout(() => fail(notReadToItsEnd(stallTimeoutS)), stallTimeoutS * 1000);
  };
  const onGone = (): void => fail(new ClientGoneError());
  request.once("end", onEnd);
  res.once("close", onGone);
  return {
    stop() {
      clearTimeout(timer);
      request.off("end", onEnd);
      res.off("close", onGone);
    },
  };
}

const notReadToItsEnd = (seconds: number): AppError =>
  unavailable(
    `The form has arrived, but could not be read to its end within ${seconds} seconds. Please try again`,
    RETRY_AFTER_S,
  );

const RETRY_AFTER_S = 5;

/**
 * Discards everything that was staged for a form whose reading failed. A storage that does not respond delays the
 * refusal for as long as it may delay a body; what it holds is discarded when it responds.
 * @returns the error to refuse the form with
 */
async function abandon(upload: Upload, error: unknown): Promise<unknown> {
  const { streams, receiving, staging, evidence, limits } = upload;
  for (const stream of streams) stream.destroy();
  const discarded = (async () => {
    const received = await Promise.allSettled(receiving);
    const settled = await Promise.allSettled(staging);
    await evidence.discard(settled.flatMap((result) => (result.status === "fulfilled" ? [result.value] : [])));
    return received.flatMap((result) => (result.status === "rejected" ? [result.reason as unknown] : []));
  })();
  discarded.catch(() => undefined);
  const { promise: late, resolve: giveUp } = Promise.withResolvers<unknown[]>();
  const timer = setTimeout(() => giveUp([]), limits.stallTimeoutS * 1000);
  // A refused part destroys its stream, and multer may report that before the part reports the reason.
  const reasons = [error, ...(await Promise.race([discarded, late]).finally(() => clearTimeout(timer)))];
  return reasons.find((reason) => reason instanceof AppError) ?? error;
}
