/**
 * An operation of the API is one literal, declared once in `api/`. The literal is the only place that states method,
 * path, permission, audit event, shapes and behaviour. Routing, authorization, validation, the audit entry, the OpenAPI
 * document and the permission matrix are derived from it, so none of them can disagree with it.
 *
 * Left out: middleware of single operations. The steps of a request are in pipeline.ts, in one order, so that none can
 * be forgotten or taken twice.
 *
 * The kit knows no flow or trail: `Context` is whatever the application hands to its handlers (api/context.ts). How a
 * request runs through an operation is in pipeline.ts.
 *
 * @example A read. Three fields decide most: `permission` (who may), `audit` (null, because nothing changes) and
 * `handle` (what it answers). One whose answer may be large is declared with `largeRead`, for the reader thread.
 *
 *     export const getFlow = operation({
 *       id: "get_flow",
 *       method: "GET",
 *       path: "/flows/{org}/{flow_name}",
 *       tag: "Flows",
 *       summary: "Read a flow",
 *       description: "With its template and its tags.",
 *       permission: "flow:read",
 *       audit: null,
 *       params: Closed({ org: OrgName, flow_name: FlowName }),
 *       query: Closed({}),
 *       body: NO_BODY,
 *       responses: { 200: { description: "The flow", schema: FlowResponse } },
 *       example: { params: { org: "acme", flow_name: "payments" } },
 *       cacheable: true,
 *       handle: ({ store, organization }, { params }) => ({
 *         status: 200,
 *         body: presentFlow(store.flows.require(organization, params.flow_name)),
 *       }),
 *     });
 *
 * @example A write differs in `method`, `body` and `audit`. Its handler runs inside the write transaction: it reads,
 * decides and writes there, throws an AppError to refuse (everything is rolled back), and `note`s facts for the audit
 * entry. Whatever has to wait (a thread, a file) goes into `prepare`.
 *
 *     export const renameFlow = operation({
 *       ...
 *       method: "PUT",
 *       permission: "flow:write",
 *       audit: "flow.renamed",
 *       body: json(Closed({ new_name: FlowName })),
 *       handle({ store, organization, note }, { params, body }) {
 *         const flow = store.flows.requireWritable(organization, params.flow_name);
 *         store.flows.rename(flow, body.new_name);
 *         note({ from: flow.name, to: body.new_name });
 *         return { status: 200, body: "OK" };
 *       },
 *     });
 *
 * Not every field is needed every time: after the required ones of `Operation`, each optional field says when it is.
 */
import type { Readable } from "node:stream";
import type { Static, TObject, TSchema } from "typebox";
import type { Feature, OrgPermission, Permission } from "../domain/access.ts";
import { CONFIGURATION_BOUNDS } from "./body/read-json.ts";
import type { JsonBounds } from "./body/read-json.ts";
import type { StagedFile } from "./body/evidence-stage.ts";
import type { Deprecation } from "./schema.ts";

export type Method = "GET" | "PUT" | "POST" | "PATCH" | "DELETE";

/**
 * - `current`: served and published in the OpenAPI document (the default).
 * - `unlisted`: served but not published, for spellings that only old clients use.
 * - `removed`: authenticated and authorized as before, then answered with 410.
 */
type OperationStatus = "current" | "unlisted" | "removed";

/** A JSON body. Declare one with `json(schema)` or `optionalJson(schema)`. */
export type JsonBody<T extends TSchema = TSchema> = {
  kind: "json";
  schema: T;
  /** Whether a missing body and the literal `null` are accepted; the handler gets null for both (wire-contract 1.3). */
  optional: boolean;
  /**
   * How large and how complex the JSON may be. Large bodies are scanned for that while they arrive, also those that
   * are not parsed here; the others are scanned by what parses them.
   */
  bounds: JsonBounds;
  /** For an operation that reads the body itself: it is not parsed here but handed to `prepare` as `Input.rawBody`. */
  isRaw?: true;
};

/** A multipart body: one JSON field part and at most one file part (wire-contract 1.3). */
export type FormBody<T extends TSchema = TSchema> = {
  kind: "form";
  /** Component name of the form in the OpenAPI document. */
  component: string;
  /** Name of the part that holds the JSON: `data_json`, or `payload` for policies. */
  part: string;
  /** Shape of the JSON part. */
  schema: T;
  /** How large and how complex the JSON part may be. */
  bounds: JsonBounds;
  /**
   * The file part, null for a form without one. A `memory` file (template, policy) is handed over as bytes. An
   * `evidence` file is staged on the evidence storage while it arrives and published before the handler runs.
   * `isAnyName`: it is accepted under other names too.
   */
  file: { part: string; description: string; kind: "memory" | "evidence"; isAnyName?: true } | null;
  /** Whether a plain JSON body is accepted in place of the form, as its JSON part without a file. */
  acceptsJson?: true;
};

/** No body is expected. One that arrives anyway is discarded: clients send `null` or nothing with archive calls. */
type NoBody = { kind: "none" };

export type Body = JsonBody | FormBody | NoBody;

/** The file part of a form: a staged evidence file, or a file in memory. */
export type UploadedFile = {
  /** Name that the client gave, last path segment only; never used as a path. */
  filename: string;
  contentType: string;
  /** Bytes. */
  size: number;
  /** Content of a `memory` file, empty for evidence. */
  bytes: Buffer;
  /** Whether it is evidence in a file, which gets its final name before the handler runs. */
  isStaged: boolean;
  /** SHA-256 of the content, in hex. */
  digest: string;
};

type BodyValue<B extends Body> =
  B extends JsonBody<infer T> ? Static<T> : B extends FormBody<infer T> ? Static<T> : null;

/** What a request brings to `prepare` and `handle`: parsed, converted and validated against the declared shapes. */
export type Input<P extends TObject, Q extends TObject, B extends Body> = {
  params: Static<P>;
  query: Static<Q>;
  /** The JSON value with defaults filled in; null without a body, and when `rawBody` has it. */
  body: BodyValue<B>;
  /**
   * The body as it was sent, for what its bounds keep (`JsonBounds.keeps`): JsonText stands for what JavaScript would
   * round or reorder. `body` itself unless that makes a difference.
   */
  asSent: BodyValue<B>;
  /** The file part of a form, null when absent. */
  file: UploadedFile | null;
  /** Top-level properties that the JSON body contained, before defaults were applied. */
  sentFields: ReadonlySet<string>;
  /** The unparsed bytes of a JSON body that is `isRaw`, else null. */
  rawBody: Buffer | null;
};

/** A JSON body with what was derived from it (representation.ts). It may be sent several times. */
export type Representation = {
  readonly text: string | Buffer;
  /** null: without a validator. */
  readonly etag: string | null;
  /** Compressed once, for the first client that accepts it. */
  gzipped: Buffer | Promise<Buffer> | null;
};

/**
 * The JSON answer of a handler.
 * - `body`: a value, serialised by the kit.
 * - `texts`: JSON that is text already, as pieces in order, which may be made on demand. They are joined once, as
 *   bytes: an answer of megabytes is never built as one string.
 * - `unaudited`: set by a write that needs no audit entry, because it changed nothing worth one or stored the entry
 *   together with the change.
 */
export type JsonReply =
  | {
      status: 200 | 201;
      body: unknown;
      headers?: Record<string, string>;
      unaudited?: true;
      /**
       * Of a `cacheable` operation: the trails (row ids) and artifacts (fingerprints) that the answer was read from. It
       * is kept until one of them changes, or anything else that answers depend on. Absent: it is not kept.
       */
      dependsOn?: readonly (number | string)[];
    }
  | {
      status: 200 | 201;
      texts: Iterable<string>;
      headers?: Record<string, string>;
      dependsOn?: readonly (number | string)[];
    };
/** What a handler answers: JSON, a file, or a file that is produced while it is sent. Refusals are thrown AppErrors. */
export type Reply = JsonReply | { status: 200; download: Download } | { status: 200; stream: Stream };

/** A file of known size. Ranges, validators and HEAD are handled by the kit. */
export type Download = {
  /** Bytes. */
  size: number;
  contentType: string;
  filename: string;
  /** Strong validator without quotes: the digest of the content. */
  etag: string;
  /** Called only when bytes are sent (not for HEAD or 304); `start` and `end` are inclusive byte offsets. */
  open(range: { start: number; end: number } | null): Promise<Readable>;
};

/** A file of unknown size, produced while it is sent: no ranges and no validator. */
export type Stream = {
  contentType: string;
  filename: string;
  /** Content coding of the stream. */
  encoding?: "gzip";
  /** Set where no cache may keep it, not even that of the client. */
  isNeverKept?: true;
  /**
   * Called once the answer is decided, not for HEAD. If it rejects, that error is the answer. A stream that fails later
   * cuts the connection, so that the client cannot mistake a part for the whole.
   * @param closed aborts when the client disconnects before the stream is open
   */
  open(closed: AbortSignal): Readable | Promise<Readable>;
};

/** A request that works, for the OpenAPI document and for the tests over all operations. */
export type Example = {
  params?: Record<string, string>;
  query?: Record<string, string>;
  /** The JSON body, or the JSON part of a form. */
  body?: unknown;
  /** Text of the file part. */
  file?: string;
};

/** An answer as the OpenAPI document shows it. */
export type ResponseShape = {
  description: string;
  /** null: no body. */
  schema: TSchema | null;
  /** `application/json` unless stated. */
  contentType?: string | readonly string[];
  /** Headers beyond those that follow from the kind of the operation. */
  headers?: Readonly<Record<string, TSchema>>;
  /** The reply is a `Download`: documented with 206, 304 and 416. */
  isDownload?: true;
  /** The reply is a `Stream`: documented without them. */
  isStream?: true;
};

/** How a call without an API key authenticates: another product signs its body with a shared secret. */
export type Signature = {
  /** Kind of the inbound endpoint, such as `sonar`; the path parameters say which one. */
  endpoint: string;
  /** Request header that holds the signature. */
  header: string;
  /** Permission that the endpoint's service account needs. */
  requires: OrgPermission;
};

/** @template Handling what `handle` may use: less than `Context` for an operation that declares `isLarge` */
export type Operation<
  Context,
  P extends TObject = TObject,
  Q extends TObject = TObject,
  B extends Body = Body,
  Prepared = unknown,
  Handling = Context,
> = {
  /** operationId of the OpenAPI document, snake_case. Also the name of the route in the log and in metrics. */
  id: string;
  /** GET means read: it runs in a read transaction, answers HEAD as well, and must not change anything. */
  method: Method;
  /** Path below the API root as OpenAPI spells it: `/flows/{org}/{flow_name}`. `{name*}` takes the rest of the path. */
  path: string;
  /** Group of the operation in the API reference; api/openapi-document.ts describes each tag. */
  tag: string;
  /** One line for the API reference, in the imperative: "Rename a flow". */
  summary: string;
  /** What a caller has to know besides; Markdown. */
  description: string;
  /** Who may call it: a row of domain/access.ts, or `public`, `authenticated` (any valid key), `signed`. */
  permission: Permission;
  /** Name of the audit event, `flow.renamed`; null only for operations that change nothing. */
  audit: string | null;
  /** Shape of the path parameters, converted from text. `org` selects the organization that `permission` refers to. */
  params: P;
  /** Shape of the query parameters, converted from text. Undeclared ones are ignored. */
  query: Q;
  /** Shape and kind of the request body: `NO_BODY`, `json(...)`, `optionalJson(...)` or a form. */
  body: B;
  /**
   * The answers of this operation by status. Those that follow from permission, method and body (304, 400, 401, 403,
   * 413, 429, 503, 507, ...) are added by the kit.
   */
  responses: Record<number, ResponseShape>;
  /** A request that works, in the API reference and in tests. */
  example: Example;
  /** Set to `assay` for an operation of our own: tests do not look for it in the contract's table of operations. */
  origin?: "assay";
  /**
   * For a POST that only reads, because its input is too long for a query: it runs as a GET does, in a read
   * transaction, also in read-only mode, and has no audit event.
   */
  onlyReads?: true;
  /** `current` unless stated. */
  status?: OperationStatus;
  /**
   * For an operation that clients should stop calling: published as deprecated and announced in every answer.
   * `successor` is the path of its replacement below the API root, with parameters of this path in braces.
   */
  deprecation?: Deprecation & { successor?: string };
  /** For an operation of an optional feature: refused while the organization has it off, and published as beta. */
  feature?: Feature;
  /** Required for `permission: "signed"`, and for nothing else. */
  signature?: Signature;
  /**
   * For a pattern that overlaps with another one: whether this operation takes the path, decided on the decoded
   * parameters alone. If it returns false, the next matching pattern is tried.
   */
  matchesParams?(params: Readonly<Record<string, string>>): boolean;
  /**
   * For a GET whose answer depends on path, query and database only, not on the clock and not on the principal: an
   * answer that states what it `dependsOn` may be sent again until that changes.
   */
  cacheable?: true;
  /**
   * For work that cannot happen inside a transaction, because it waits: threads, files, the network. Runs before
   * `handle`, which gets its result as third argument. If it stores something itself, see `storesInPrepare`.
   */
  prepare?(context: Context, input: Input<P, Q, B>, confirm: () => Context): Promise<Prepared>;
  /** Files that `prepare` staged: they are published for the write, whose rows name them, and go if it is refused. */
  stages?(prepared: Prepared): readonly StagedFile[];
  /**
   * For a write that many clients send at a time: its `handle` may run again after a rollback. Such writes run without
   * savepoints (store/db/group-commit.ts).
   */
  isRepeatable?: true;
  /**
   * For an operation whose `prepare` commits the change and its audit entry, as a thread does. In a write of its own it
   * calls `confirm`, which returns the context with the rights of that moment and throws when the principal has lost
   * them or the request was given up. Then `handle` only answers, outside any transaction.
   */
  storesInPrepare?: true;
  /**
   * For a GET whose answer the data can make larger than MAX_INLINE_ANSWER_BYTES (answers/large-answers.ts): such an
   * answer is made in the reader thread, where `handle` runs with the context of that thread, and what `prepare`
   * returned has been copied. Lists of such an answer are JsonLists, or its `texts` are made on demand. True: the
   * answer is known to be large. False: `handle` runs here, and again in the thread if its answer is too large.
   */
  isLarge?(context: Handling, input: Input<P, Q, B>, prepared: Prepared): boolean;
  /**
   * Answers the request; synchronous. A GET runs in one read transaction. Everything else runs inside the group-commit
   * writer, in a savepoint that a thrown error rolls back.
   */
  handle(context: Handling, input: Input<P, Q, B>, prepared: Prepared): Reply;
};

/**
 * An operation whose own shapes are not known. The methods of `Operation` compare their parameters bivariantly, so
 * every operation is one of these, and the kit reads `body` by its declared kinds.
 */
export type AnyOperation<Context> = Operation<Context, TObject, TObject, Body, any>;

/** Whether an operation changes nothing. */
export const isReading = ({ method, onlyReads }: Pick<AnyOperation<never>, "method" | "onlyReads">): boolean =>
  method === "GET" || onlyReads === true;

export const NO_BODY: NoBody = { kind: "none" };
/** A required JSON body. Pass `bounds` for bodies that hold more than what people configure. */
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
export { CONFIGURATION_BOUNDS, DATA_BOUNDS, LARGE_JSON_BYTES, RECORD_BOUNDS, REPORT_BOUNDS } from "./body/read-json.ts";
