/**
 * Multipart forms. A small one is collected and cut into its parts (plain-form.ts). Large ones, chunked ones and those
 * written in an unusual way go through @koa/multer; their evidence is hashed and staged while it arrives.
 *
 * Invariants:
 * - If reading fails, for whatever reason, every byte staged for this request is discarded, and before the error is
 *   thrown unless the storage does not respond.
 * - No part is dropped silently: a client that gets "stored" must be able to rely on it.
 * - A refusal of a large form is answered as soon as it is known.
 * - Reading ends: while bytes are missing the pace of the body bounds it, then a deadline does (form-parser.ts).
 */
import { hash } from "node:crypto";
import type Koa from "koa";
import { badRequest } from "../../errors.ts";
import { acquireBodyLease, sendContinue, declaredLength, receiveWhole, rejectEncodedBody } from "./body.ts";
import type { BodyLimits, BodyIntake } from "./body.ts";
import { SMALL_BODY_BYTES } from "./body-budget.ts";
import type { BodyLease } from "./body-budget.ts";
import type { FormBody } from "../operation.ts";
import { progressOf } from "../watchdog/request-progress.ts";
import type { EvidenceStage } from "./evidence-stage.ts";
import { NO_BYTES, readParts } from "./form-parser.ts";
import type { FormContent } from "./form-parser.ts";
import { assignParts, describeFile, formTooLarge, isSmallEvidence, maxFormBytes } from "./form-parts.ts";
import { parsePlainForm } from "./plain-form.ts";

/**
 * RFC 2046 allows a boundary of 70 characters. The parser searches for it at every byte, in time proportional to its
 * length.
 */
const MAX_CONTENT_TYPE_CHARS = 256;

/** A form up to this size is collected before it is parsed. */
const SMALL_FORM_BYTES = 262_144;

/** What an upload to disk counts against the body budget, which so bounds the number of concurrent large uploads. */
const STREAMED_UPLOAD_BYTES = 8 << 20;

type FormParts = { limits: BodyLimits; evidence: EvidenceStage; intake: BodyIntake };

/**
 * Reads a form: the JSON part as bytes, the file part staged or in memory. A large form waits, unread, until the budget
 * has room for it. `lease`: of a large form; the caller releases it. Nothing stays staged when it throws.
 * @throws AppError 400 for a malformed form and a missing, unknown or repeated part; 408 after a stall; 413 over a
 *   limit, before reading if Content-Length exceeds it; 429 if the budget has no room for too long; 503 if a form that
 *   has arrived cannot be read to its end; ClientGoneError.
 */
export async function readForm(
  ctx: Koa.Context,
  form: FormBody,
  { limits, evidence, intake }: FormParts,
): Promise<FormContent & { lease: BodyLease | null }> {
  if (!ctx.is("multipart/form-data"))
    throw badRequest(`Content-Type should be multipart/form-data with the part '${form.part}'`);
  if ((ctx.req.headers["content-type"] ?? "").length > MAX_CONTENT_TYPE_CHARS)
    throw badRequest("The multipart form is broken: its boundary is longer than 70 characters");
  progressOf(ctx).enter("reading");
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
): Promise<FormContent> {
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
