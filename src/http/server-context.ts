import type Koa from "koa";
import type { IncomingMessage } from "node:http";
import type { Feature, Role } from "../domain/access.ts";
import type { UnknownInput } from "../domain/network/client.ts";
import type { AnswerWatch } from "./memory/answer-watch.ts";
import type { RequestEntry } from "./request-entry.ts";
import type { BodyLimits } from "./body/body.ts";
import type { Durable } from "./durable-answers.ts";
import type { BodyBudget } from "./body/body-budget.ts";
import type { AnswerReader } from "./answers/answer-reader.ts";
import type { AnswerBounds } from "./answers/large-answers.ts";
import type { EvidenceStage, SmallFile } from "./body/evidence-stage.ts";
import type { AnswerBudget } from "./memory/memory-budget.ts";
import type { AnyOperation } from "./operation.ts";
import type { RateLimits } from "./rate-limits.ts";
import type { LargeJsonReader } from "./body/read-json.ts";
import type { Timer } from "../domain/time.ts";
import type { HungRequest } from "./watchdog/watchdog.ts";

/**
 * The authenticated user or service account, or the operator, whom only the command line is. The kit only passes it on;
 * `name` and `publicId` go to log and audit.
 */
export type Principal = {
  kind: "user" | "service_account" | "operator";
  /** 0 for the operator. */
  id: number;
  publicId: string;
  /** Login name or account name. */
  name: string;
  /** The name that people see: the display name, or `name` where there is none. */
  displayName: string;
  /** Public id of the API key, or the name of the session, that authenticated the request; empty for the operator. */
  keyPublicId: string;
};

/**
 * A principal's standing in the organization of the path. `role` is null for a non-member; `features` are those that
 * the organization has switched on.
 */
export type Membership = { organizationId: number; role: Role | null; isPublic: boolean; features: readonly Feature[] };

/**
 * What is known of a request once it is authorized. Never changed in place: verifying a signature and reauthorizing
 * inside the write (authorize.ts) return a new one.
 */
export type RequestContext<M extends Membership = Membership> = {
  readonly requestId: string;
  /** null for public operations, and for signed ones until the signature is verified. */
  readonly principal: Principal | null;
  /** null for operations outside an organization. */
  readonly membership: M | null;
  /**
   * `accessVersion` when the request was authorized by an API key: while it is the same, so are the rights. null if
   * rights have to be read anew: sessions also end by time.
   */
  readonly accessVersion: number | null;
  readonly operationId: string;
  /** Name of the audit event, null for operations that change nothing. */
  readonly event: string | null;
  /**
   * Target of the audit entry: the path of the request. For a signed operation it is the path pattern instead, because
   * the id of the endpoint in the path is half of a credential.
   */
  readonly path: string;
  /** As the client sent it; absent for calls of our own pages. */
  readonly userAgent?: string | undefined;
  /** Public URL of the server as this client reaches it, without a trailing slash; addresses in answers use it. */
  readonly baseUrl: string;
};

/** An endpoint for calls that another product signs, with the service account that acts for it. */
export type SignedEndpoint<M extends Membership> = {
  principal: Principal;
  membership: M;
  /** Name of the organization. */
  organization: string;
  /** Whether the signature matches the body; takes the same time wherever the two differ. */
  verifySignature(signature: string, body: Buffer): boolean;
};

/** What the kit needs of the application around it; server/app.ts provides it. */
export type ServerContext<Context, M extends Membership = Membership> = {
  operations: readonly AnyOperation<Context>[];
  limits: BodyLimits;
  /** The principal whose API key has this SHA-256 (hex); null if the key is unknown, expired or revoked. */
  authenticate(keyDigest: string): Principal | null;
  /** The browser session of the request's cookie, with the CSRF token that its changes must send; null without one. */
  findSession(ctx: Koa.Context): { principal: Principal; csrfToken: string } | null;
  /** null if the organization does not exist. May come from a cache that is as current as `accessVersion`. */
  findMembership(principal: Principal, organization: string): M | null;
  /** The endpoint that the path of a `signed` operation names; null if there is none. */
  findSignedEndpoint(kind: string, params: Readonly<Record<string, string>>): SignedEndpoint<M> | null;
  /** Whether the principal's key or session has not been revoked or deleted. Read anew, inside a write too. */
  isCredentialValid(principal: Principal): boolean;
  /** The version of everything that `authenticate` and `findMembership` read; valid inside a write too. */
  accessVersion(): number;
  /** As `findMembership`, but read anew, inside a write too. */
  readMembership(principal: Principal, organization: string): M | null;
  /**
   * What handlers of this request work with.
   * @param answerBounds of its answer
   */
  createContext(request: RequestContext<M>, answerBounds: AnswerBounds): Context;
  /** The context of the same request after it was reauthorized; what its handlers noted so far is kept. */
  updateContext(context: Context, request: RequestContext<M>): Context;
  /** Runs a handler that only reads, in one read transaction. */
  read<T>(work: () => T): T;
  /** Runs a handler in the group-commit writer; resolves once the change is durable. `isRepeatable`: see Operation. */
  write<T>(work: () => T, options: { isRepeatable: boolean }): Promise<T>;
  /** Writes small evidence to the database, unless it is there. Runs inside the write, before the handler. */
  insertEvidence(file: SmallFile): void;
  /** Appends the audit entry of a write. Runs inside the write. */
  audit(context: Context): void;
  /** Waits, after the commit, for follow-up work that the answer must show as done. */
  afterCommit(context: Context): Promise<void>;
  /** Answers of `cacheable` operations, while they are current (store/db/read-cache.ts). */
  responseCache: {
    version(): number;
    get(key: string): unknown;
    set(
      key: string,
      value: unknown,
      options: { chars: number; version: number; dependsOn: readonly (number | string)[] },
    ): void;
  };
  /** Makes large answers in a thread; null over a database in memory, which a thread cannot open. */
  answerReader: AnswerReader | null;
  /** See durable-answers.ts. */
  durable: Durable;
  /** A number that is another one after any change of the database. */
  databaseState(): number;
  evidence: EvidenceStage;
  /** Bounds the large bodies that are in memory at the same time. */
  bodyBudget: BodyBudget;
  /** Bounds the large answers that are in memory at the same time, made or not sent yet. */
  answerBudget: AnswerBudget;
  watchAnswer: AnswerWatch;
  largeJson: LargeJsonReader;
  /**
   * @param bytes size of the body, 0 where it is not known
   * @throws AppError 507 in read-only mode.
   */
  ensureWritable(bytes: number): void;
  /**
   * Turns an error that ended a request into the one to answer with.
   * @param options.isChange whether the request was anything but a read
   */
  mapError(error: unknown, options: { isChange: boolean }): unknown;
  newId(): string;
  rateLimits: RateLimits;
  /** Called when a request arrives; `logRequest` follows when it is answered or its client disconnects. */
  onRequest(): void;
  /** Called when a request that makes no progress is ended; `logRequest` follows. */
  onHungRequest(hung: HungRequest): void;
  /** Timer of the watchdog. */
  watchdogTimer: Timer;
  /** The public URL of the server as this request reached it, without a trailing slash. */
  resolveBaseUrl(request: IncomingMessage): string;
  logRequest(line: RequestEntry, error: unknown): void;
  /** Counts what a client sent that this server does not know. */
  noteUnknown(input: UnknownInput): void;
  /**
   * Counts a request that no operation answers. It may read the body, which is small then.
   * @throws ClientGoneError
   */
  noteUnknownRoute(ctx: Koa.Context): Promise<void>;
  /** Whether every answer is checked against its declared shape (in tests and development). */
  checkResponses: boolean;
};

/** What running an operation takes, without HTTP around it. */
export type CallContext<Context, M extends Membership = Membership> = Pick<
  ServerContext<Context, M>,
  | "accessVersion"
  | "isCredentialValid"
  | "readMembership"
  | "createContext"
  | "updateContext"
  | "read"
  | "write"
  | "insertEvidence"
  | "audit"
  | "afterCommit"
  | "answerReader"
  | "databaseState"
  | "evidence"
  | "largeJson"
  | "ensureWritable"
>;

/** One request to one operation, as the stages of the pipeline pass it on. */
export type Exchange<Context, M extends Membership = Membership> = {
  readonly server: ServerContext<Context, M>;
  readonly operation: AnyOperation<Context>;
  readonly ctx: Koa.Context & { params: Record<string, string> };
};
