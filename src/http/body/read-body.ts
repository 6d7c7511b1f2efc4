/** Reads the body of a request as its operation declares it. */
import { badRequest } from "../../errors.ts";
import type { FormBody, JsonBody, UploadedFile } from "../operation.ts";
import { progressOf } from "../watchdog/request-progress.ts";
import type { RequestProgress } from "../watchdog/request-progress.ts";
import type { Exchange, Membership, RequestContext } from "../server-context.ts";
import { discardBody, receiveJson } from "./body.ts";
import type { BodyIntake } from "./body.ts";
import { SMALL_BODY_BYTES } from "./body-budget.ts";
import type { BodyLease } from "./body-budget.ts";
import { readForm } from "./multipart.ts";
import { refuseSlips } from "./unknown-keys.ts";
import type { SmallFile, StagedFile } from "./evidence-stage.ts";
import { LARGE_JSON_BYTES, createBodyShape, createPartShape, maxBodyBytes, readJson } from "./read-json.ts";
import type { JsonShape, LargeJsonReader, ReadJson } from "./read-json.ts";

/** What a body brought; see `Input` for the fields that go on to the handler. */
export type OperationBody = {
  /** The parsed JSON. */
  value: unknown;
  asSent: unknown;
  sentFields: ReadonlySet<string>;
  /** Top-level keys of an open body that were ignored. */
  ignored: readonly string[];
  rawBody: Buffer | null;
  file: UploadedFile | null;
  /** Small evidence; the caller writes it to the database. */
  small: SmallFile | null;
  /** Other evidence; the caller publishes or discards it. */
  staged: StagedFile | null;
  /** Of a large body; the caller releases it when the request is over. */
  lease: BodyLease | null;
};

const NO_FIELDS: ReadonlySet<string> = new Set();
const EMPTY: OperationBody = {
  value: null,
  asSent: null,
  sentFields: NO_FIELDS,
  ignored: [],
  rawBody: null,
  file: null,
  small: null,
  staged: null,
  lease: null,
};

/**
 * Reads, bounds, parses and validates the body. Nothing stays staged or leased when it throws.
 * @throws AppError 400, 408, 413, 429, 503; ClientGoneError.
 */
export async function readOperationBody<Context, M extends Membership>(
  exchange: Exchange<Context, M>,
  request: RequestContext<M>,
): Promise<OperationBody> {
  const { server, operation, ctx } = exchange;
  if (operation.body.kind === "none") {
    await discardBody(ctx, server.limits);
    return EMPTY;
  }
  // A signed body has no principal yet: everyone who knows the address of an endpoint shares its part of the budget.
  const intake: BodyIntake = { budget: server.bodyBudget, owner: request.principal?.publicId ?? ctx.path };
  const { body } = operation;
  if (body.kind === "json") return readJsonBody(exchange, body, intake);
  return body.acceptsJson && !ctx.is("multipart/form-data")
    ? readJsonBody(exchange, { ...body, kind: "json", optional: false }, intake)
    : readFormBody(exchange, body, intake);
}

async function readJsonBody<Context, M extends Membership>(
  { server, ctx }: Exchange<Context, M>,
  { schema, bounds, optional, isRaw }: JsonBody,
  intake: BodyIntake,
): Promise<OperationBody> {
  const shape = createBodyShape(schema, bounds);
  const limits = { ...server.limits, json: maxBodyBytes(bounds, server.limits.json, server.limits) };
  const received = await receiveJson(ctx, { limits, intake, shape });
  const { bytes = null, lease = null } = received ?? {};
  try {
    if (bytes && isRaw) return { ...EMPTY, rawBody: bytes, lease };
    const read =
      bytes && (await parseJsonBytes(server.largeJson, progressOf(ctx), { bytes, shape, asText: bounds.asText }));
    if (read === null || read.value === null) {
      if (!optional) throw badRequest("A JSON body is required: the request has none");
      lease?.release();
      return EMPTY;
    }
    const { value, asSent, sentFields, ignored } = read;
    refuseSlips(schema, ignored, ctx.req.headers["user-agent"]);
    return { ...EMPTY, value, asSent, sentFields: new Set(sentFields), ignored, lease };
  } catch (error) {
    lease?.release();
    throw error;
  }
}

async function readFormBody<Context, M extends Membership>(
  { server, ctx }: Exchange<Context, M>,
  body: FormBody,
  intake: BodyIntake,
): Promise<OperationBody> {
  const { limits, evidence } = server;
  const { json, file, small, staged, lease } = await readForm(ctx, body, { limits, evidence, intake });
  try {
    const shape = createPartShape(body.part, body.schema, body.bounds);
    const read = await parseJsonBytes(server.largeJson, progressOf(ctx), {
      bytes: json,
      shape,
      asText: body.bounds.asText,
    });
    const { value, asSent, ignored } = read;
    refuseSlips(body.schema, ignored, ctx.req.headers["user-agent"]);
    // The evidence is on disk by now and needs no memory, and publishing it to remote storage may take long.
    if (staged && json.length <= SMALL_BODY_BYTES) lease?.release();
    const sentFields = new Set(read.sentFields);
    return { value, asSent, sentFields, ignored, rawBody: null, file, small, staged, lease };
  } catch (error) {
    lease?.release();
    if (staged) await evidence.discard([staged]);
    throw error;
  }
}

/** Parses on the main thread, or in a worker thread above LARGE_JSON_BYTES. */
async function parseJsonBytes(
  largeJson: LargeJsonReader,
  progress: RequestProgress,
  { bytes, shape, asText }: { bytes: Buffer; shape: JsonShape; asText: readonly string[] },
): Promise<ReadJson> {
  if (bytes.length <= LARGE_JSON_BYTES) return readJson(bytes, shape);
  progress.enter("parsing");
  return largeJson.read(bytes, shape, asText);
}
