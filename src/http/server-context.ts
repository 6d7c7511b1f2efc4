import type Koa from "koa";
import type { IncomingMessage } from "node:http";
import type { Feature, Role } from "../domain/access.ts";
import type { RequestEntry } from "../log.ts";
import type { BodyLimits } from "./body/body.ts";
import type { BodyBudget } from "./body/body-budget.ts";
import type { EvidenceStage } from "./body/multipart.ts";
import type { AnyOperation } from "./operation.ts";
import type { RateLimits } from "./rate-limits.ts";
import type { LargeJsonReader } from "./body/read-json.ts";

/** Who calls. The kit only passes it on; `name` and `publicId` go to log and audit. */
export type Principal = {
  kind: "user" | "service_account";
  id: number;
  publicId: string;
  /** Login name or account name. */
  name: string;
  /** What people see: the display name, or the login name where there is none. */
  displayName: string;
  /** Public id of the key, or what names the session, that was used. */
  keyPublicId: string;
};

/** What the caller is in the organization of the path; `features` are those that the organization has on. */
export type Membership = { organizationId: number; role: Role | null; isPublic: boolean; features: readonly Feature[] };

export type RequestContext<M extends Membership = Membership> = {
  requestId: string;
  /** null on operations without login. */
  principal: Principal | null;
  /** null on operations outside an organization. */
  membership: M | null;
  operationId: string;
  /** Name of the audit event, null where nothing changes. */
  event: string | null;
  /** Path of the request: what the audit entry is about. */
  path: string;
  /** Where the server is for this client: what addresses in the answer begin with. */
  baseUrl: string;
};

/**
 * A way in for calls that another product signs. `caller` and `membership` are those of the account that acts for it.
 */
export type SignedEndpoint<M extends Membership> = {
  principal: Principal;
  membership: M;
  organization: string;
  /** Whether the signature is that of the body. */
  verifySignature(signature: string, body: Buffer): boolean;
};

export type ServerContext<Context, M extends Membership = Membership> = {
  operations: readonly AnyOperation<Context>[];
  limits: BodyLimits;
  /** The caller that holds the key with this SHA-256 (hex); null when unknown, expired or revoked. */
  authenticate(keyDigest: string): Principal | null;
  /**
   * Who signed in with the browser that sends this request, and the token that its changes must bring; null when nobody
   * did.
   */
  findSession(ctx: Koa.Context): { principal: Principal; csrfToken: string } | null;
  /** What a caller is in an organization; null when there is no such organization. */
  findMembership(caller: Principal, organization: string): M | null;
  /** The door that the path of a `signed` operation names; null when there is none. */
  findSignedEndpoint(kind: string, params: Readonly<Record<string, string>>): SignedEndpoint<M> | null;
  /**
   * Whether the key or the session that was authenticated still is one, neither revoked nor removed: read anew, also
   * inside a write.
   */
  isCredentialValid(caller: Principal): boolean;
  /** As `membership`, read anew, also inside a write. */
  readMembership(caller: Principal, organization: string): M | null;
  createContext(facts: RequestContext<M>): Context;
  /** Runs a handler that only reads: everything it reads is of one moment. */
  read<T>(work: () => T): T;
  /** Runs a handler in the group-commit writer; resolves after COMMIT returned. */
  write<T>(work: () => T): Promise<T>;
  /** Appends the audit entry of a write that is about to be committed. Runs inside the writer. */
  audit(context: Context): void;
  /** Waits, after the commit, for what a handler left to others and the answer should see done. */
  afterCommit(context: Context): Promise<void>;
  /** Answers of repeatable operations, kept while nothing is written (store/unchanged.ts). */
  responseCache: {
    readonly state: number;
    get(key: string): unknown;
    keep(key: string, value: unknown, characters: number, state: number): void;
  };
  evidence: EvidenceStage;
  /** The large bodies that are held at once. */
  bodyBudget: BodyBudget;
  largeJson: LargeJsonReader;
  /**
   * @throws AppError for a change that cannot be taken at the moment; `bytes` are those of its body, where they are
   * known.
   */
  ensureWritable(bytes: number): void;
  /** What is told of an error that a request ended with; `changes`: whether it would have changed something. */
  mapError(error: unknown, changes: boolean): unknown;
  newId(): string;
  rateLimits: RateLimits;
  /** A request came; `logRequest` follows once it is answered, or its client is gone. */
  onRequest(): void;
  /** The public URL of the server, without a trailing slash, as this request found it. */
  resolveBaseUrl(request: IncomingMessage): string;
  logRequest(line: RequestEntry, error: unknown): void;
  /** Whether every answer is checked against its declared shape (tests and development). */
  checkResponses: boolean;
};
