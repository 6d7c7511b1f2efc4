/**
 * An operation, declared once. The literal that api/ writes is the only place that says method, path, permission, audit
 * event, shapes and behaviour; routing, validation, authorization, the audit entry, the OpenAPI document and the
 * permission matrix are derived from it. The kit knows nothing of flows or trails: what a handler works with
 * (`Context`) and what it authorizes against come in through mount.ts.
 */
import type { Readable } from "node:stream";
import type { Static, TObject, TSchema } from "typebox";
import type { Feature, OrgPermission, Permission } from "../domain/access.ts";
import { CONFIGURATION_BOUNDS } from "./body/read-json.ts";
import type { JsonBounds } from "./body/read-json.ts";
import type { Deprecation } from "./schema.ts";

export type Method = "GET" | "PUT" | "POST" | "PATCH" | "DELETE";

/** current: served and published; unlisted: served only; removed: answers 410. */
export type OperationStatus = "current" | "unlisted" | "removed";

/**
 * A JSON body. `optional`: no body and the literal `null` are accepted and read as null (wire-contract 1.3). One of
 * more than `rawAbove` bytes is handed to `prepare` unread (Input.unread), because reading it would hold up
 * everybody else. `bounds` say how much of it is taken at all; its bytes were scanned for that also where it is handed
 * over unread.
 */
export type JsonBody<T extends TSchema = TSchema> = {
  kind: "json";
  schema: T;
  optional: boolean;
  bounds: JsonBounds;
  rawAbove?: number;
};

/** A multipart body: one JSON field part and at most one file part (wire-contract 1.3). */
export type FormBody<T extends TSchema = TSchema> = {
  kind: "form";
  /** Component name of the form in the OpenAPI document. */
  component: string;
  /** Field part that holds the JSON: `data_json`, or `payload` for policies. */
  part: string;
  schema: T;
  /** How much JSON is taken. */
  bounds: JsonBounds;
  /**
   * The file part. `memory` files are handed over as bytes (templates, policies), `evidence` ones are staged in the
   * vault.
   */
  file: { part: string; description: string; kind: "memory" | "evidence" } | null;
};

/** Ignored whatever it is: clients send `null` or nothing with archive and similar calls. */
export type NoBody = { kind: "none" };

export type Body = JsonBody | FormBody | NoBody;

/** A staged evidence file or a file held in memory. */
export type UploadedFile = {
  /** Name the client gave, last path segment only; never used as a path. */
  filename: string;
  contentType: string;
  /** Size in bytes. */
  size: number;
  /** Bytes of a `memory` file, empty for evidence. */
  bytes: Buffer;
  /** SHA-256 hex of the content. */
  digest: string;
};

type BodyValue<B extends Body> =
  B extends JsonBody<infer T> ? Static<T> : B extends FormBody<infer T> ? Static<T> : null;

export type Input<P extends TObject, Q extends TObject, B extends Body> = {
  params: Static<P>;
  query: Static<Q>;
  body: BodyValue<B>;
  /** The file part of a form, null when absent. */
  file: UploadedFile | null;
  /** Names of the properties that the JSON body really held (defaults are applied to `body`). */
  sentFields: ReadonlySet<string>;
  /** The bytes of a JSON body that was too large to be read here, else null; `body` is null then. */
  rawBody: Buffer | null;
};

/**
 * What a handler answers: a JSON body, a JSON body that is text already, a file, or a file that is made while it is
 * sent. `texts`: the pieces of that text in their order, so that the text of megabytes is put together only once, as
 * bytes. `unaudited`: a write that changed nothing worth an entry in the audit log, or whose change was stored together
 * with its entry already.
 */
export type JsonReply =
  | { status: 200 | 201; body: unknown; headers?: Record<string, string>; unaudited?: true }
  | { status: 200; texts: readonly string[] };
export type Reply = JsonReply | { status: 200; download: Download } | { status: 200; stream: Stream };

/** A file answer. `open` is called after the answer was decided; `start` and `end` are inclusive byte offsets. */
export type Download = {
  size: number;
  contentType: string;
  filename: string;
  /** Strong validator without quotes: the content's digest. */
  etag: string;
  open(range: { start: number; end: number } | null): Promise<Readable>;
};

/**
 * A file answer whose size nobody knows beforehand: no ranges, no validator. `open` is called after the answer was
 * decided and not for HEAD; what it rejects with is the answer then. `gone` aborts when the client leaves before that.
 * A stream that fails cuts the connection, so that the client never takes a part for the whole. `encoding`: a content
 * coding of the stream.
 */
export type Stream = {
  contentType: string;
  filename: string;
  encoding?: "gzip";
  open(gone: AbortSignal): Readable | Promise<Readable>;
};

export type Example = {
  params?: Record<string, string>;
  query?: Record<string, string>;
  body?: unknown;
  /** Text of the file part, where there is one. */
  file?: string;
};

/** An answer as the OpenAPI document shows it. `contentType` is JSON unless stated; `schema` null: no body. */
export type ResponseShape = {
  description: string;
  schema: TSchema | null;
  contentType?: string | readonly string[];
  headers?: Readonly<Record<string, TSchema>>;
  /** A `Download`: with ranges and a validator. */
  isDownload?: true;
  /** A `Stream`: with neither. */
  isStream?: true;
};

/**
 * How calls are signed that bring no key: the kind of door, the header that holds the signature, and what the door's
 * account must be allowed.
 */
export type Signature = { endpoint: string; header: string; requires: OrgPermission };

export type Operation<
  Context,
  P extends TObject = TObject,
  Q extends TObject = TObject,
  B extends Body = Body,
  Prepared = unknown,
> = {
  /** snake_case operationId of the OpenAPI document. */
  id: string;
  method: Method;
  /** `assay`: an operation of ours, which the contract does not have. */
  origin?: "assay";
  /** Below the API root, in the OpenAPI spelling: `/flows/{org}/{flow_name}`; `{name*}` takes the rest of the path. */
  path: string;
  /**
   * Whether a path that matches is meant, where the pattern takes more than this operation does: else the next pattern
   * that matches gets it. Of the parameters, decoded, alone; undefined: every path is meant.
   */
  matchesParams?(params: Readonly<Record<string, string>>): boolean;
  tag: string;
  summary: string;
  description?: string;
  status?: OperationStatus;
  /**
   * Clients should no longer call it, but may: published as deprecated, and every answer says so. `successor`: URI
   * below the API root of what replaces it, with the parameters of the path in braces.
   */
  deprecation?: Deprecation & { successor?: string };
  permission: Permission;
  /**
   * The feature that it belongs to: refused to everybody while the organization has it switched off. Published as beta.
   */
  feature?: Feature;
  /** Of a `signed` operation, and of no other. */
  signature?: Signature;
  /** Name of the audit event; null only where nothing changes. */
  audit: string | null;
  params: P;
  query: Q;
  body: B;
  /** Answers beside those that follow from permission and body. */
  responses: Record<number, ResponseShape>;
  example: Example;
  /**
   * A GET whose answer follows from path, query and database alone: not from the clock, and not from who asks. It may
   * be sent again as long as nothing is written.
   */
  cacheable?: true;
  /** Waits for what cannot happen inside a transaction, before the writer takes the handler. */
  prepare?(context: Context, input: Input<P, Q, B>): Promise<Prepared>;
  /** Whether preparing stored the change already, as a thread does: then nothing is left to refuse. */
  alreadyStored?(prepared: Prepared): boolean;
  /** Synchronous. For every method but GET it runs inside the group-commit writer, in a savepoint of its own. */
  handle(context: Context, input: Input<P, Q, B>, prepared: Prepared): Reply;
};

export type AnyOperation<Context> = Operation<Context, any, any, any, any>;

/** The identity with types: lets each literal infer the shapes of its own handler. Bound to a Context in api/kit.ts. */
export const operationFor =
  <Context>() =>
  <P extends TObject, Q extends TObject, B extends Body, Prepared = undefined>(
    declaration: Operation<Context, P, Q, B, Prepared>,
  ): Operation<Context, P, Q, B, Prepared> =>
    declaration;

export const NO_BODY: NoBody = { kind: "none" };
/** A JSON body that must be there. `bounds`: those of configuration unless said otherwise. */
export const json = <T extends TSchema>(schema: T, bounds: JsonBounds = CONFIGURATION_BOUNDS): JsonBody<T> => ({
  kind: "json",
  schema,
  optional: false,
  bounds,
});
/** A JSON body that may be missing or null. */
export const optionalJson = <T extends TSchema>(schema: T, bounds: JsonBounds = CONFIGURATION_BOUNDS): JsonBody<T> => ({
  kind: "json",
  schema,
  optional: true,
  bounds,
});
export { CONFIGURATION_BOUNDS, LARGE_JSON_BYTES, RECORD_BOUNDS, REPORT_BOUNDS } from "./body/read-json.ts";
