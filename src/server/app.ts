/**
 * The composition root: how opened parts become an application that listens. The packaged program (serve.ts opens the
 * parts and closes them), the command line and the tests put the server together here and nowhere else.
 */
import { randomBytes, randomUUID } from "node:crypto";
import { existsSync, mkdirSync } from "node:fs";
import { userInfo } from "node:os";
import { dirname, join } from "node:path";
import Koa from "koa";
import { contextFactory } from "../api/context.ts";
import type { OperationContext, OrgMembership } from "../api/context.ts";
import type { EvidenceReader } from "../contract/evidence-reader.ts";
import { DOCUMENT } from "../api/openapi-document.ts";
import { operations } from "../api/index.ts";
import { urlsFor } from "../contract/urls.ts";
import type { Urls } from "../contract/urls.ts";
import type { Timer } from "../domain/time.ts";
import { inboundWebhookEndpoint, createAuthenticator } from "./principals.ts";
import { AppError, routeNotFound } from "../errors.ts";
import { requireBasePath, stripBasePath } from "../http/base-path.ts";
import type { BodyLimits } from "../http/body/body.ts";
import { readBuildInfo } from "../assets.ts";
import { BODY_BUDGET_BYTES, createBodyBudget } from "../http/body/body-budget.ts";
import type { EvidenceStage } from "../http/body/multipart.ts";
import type { Bindable } from "./listener.ts";
import { createRequestBoundary } from "../http/request-boundary.ts";
import type { MalformedRequest } from "../http/malformed-request.ts";
import { createMetricsPage } from "../http/metrics-page.ts";
import { mountOperations } from "../http/router.ts";
import { openApiDocument } from "../http/openapi/document.ts";
import { peerOf } from "../http/client-address.ts";
import type { LargeJsonReader } from "../http/body/read-json.ts";
import { createHealthProbes } from "../http/health.ts";
import type { ReadinessReport } from "../http/health.ts";
import { limitByAddress, createRateLimits } from "../http/rate-limits.ts";
import { keyLapses } from "../jobs/expire-keys.ts";
import { createDeliverer } from "../notifications/deliver.ts";
import { jobHandlers, PARALLEL } from "./job-handlers.ts";
import { createEventNotifier } from "../notifications/compose-messages.ts";
import { createRecorder } from "../jobs/large-reports.ts";
import type { LargeReports, RecordingPool } from "../jobs/large-reports.ts";
import { createRunner } from "../jobs/job-runner.ts";
import type { Runner } from "../jobs/job-runner.ts";
import { logRequest } from "../log.ts";
import type { Logger, RequestEntry } from "../log.ts";
import { createLogins } from "../auth/logins.ts";
import type { LoginParts } from "../auth/logins.ts";
import type { Metrics } from "./metrics.ts";
import { translateStorageError } from "./disk-guard.ts";
import type { DiskGuard } from "./disk-guard.ts";
import type { Sender } from "../notifications/sender.ts";
import { delegateCheckpoints, refuseUnfinishedRestore, schemaVersion } from "../store/db/database.ts";
import type { Store } from "../store/index.ts";
import { createReadCache } from "../store/db/read-cache.ts";
import { GroupCommitWriter } from "../store/db/group-commit.ts";
import type { WriteGuard } from "../store/db/group-commit.ts";
import type { Places } from "../workers/concurrency-limit.ts";
import { documentation } from "../web/documentation.ts";
import { webPages } from "../web/pages.ts";
import { createDurably, syncDirectory } from "../evidence/local-store.ts";
import type { CustomTypes } from "../workers/sandbox/attestation-types.ts";
import type { DocumentReader } from "../workers/documents.ts";
import type { PackageMaker } from "../audit-packages/package-maker.ts";
import type { Db, SchemaSources } from "../store/db/types.ts";
import type { ServerContext } from "../http/server-context.ts";

/**
 * 8-4-4-4-8 hex: a UUID without its last four digits (semantics 1.9). Of version 7: it begins with the time in
 * milliseconds, so that new rows meet on the last page of an index of ids instead of each on a page of its own. It
 * names, and is no secret.
 */
export function newPublicId(): string {
  const time = Date.now().toString(16).padStart(12, "0");
  const random = randomUUID();
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(15, 32)}`;
}

/** A new API key: 256 random bits in 43 characters that need no escaping anywhere. */
export const newSecret = (): string => randomBytes(32).toString("base64url");

/**
 * The user of the operating system who runs this process. The system says so and not the environment, which anybody can
 * set; a user without an entry in the system's list, as containers have them, is named by number.
 * @param lookUp gives the entry of the effective user; it throws where there is none
 */
export function osUserName(
  lookUp: () => { username: string } = userInfo,
  uid: number = process.geteuid?.() ?? -1,
): string {
  try {
    return lookUp().username || `uid ${uid}`;
  } catch {
    return `uid ${uid}`;
  }
}

export const systemSources: SchemaSources = { now: () => Date.now() / 1000, newId: newPublicId, osUser: osUserName };

/** Does not keep a process alive. */
export const systemTimer: Timer = (seconds, ring) => {
  const timeout = setTimeout(ring, seconds * 1000).unref();
  return () => clearTimeout(timeout);
};

/**
 * Everything that writes: the writer, the recorder of large reports, and the runner of the jobs that writes ask for,
 * which every commit that added one wakes. `pool` is the recording thread, null over a database in memory, which no
 * thread can share; `sender` null leaves messages to the outside where they are; `trustedNow` is the time by which keys
 * end, `now` unless given; `urls` is asked once the server listens; `batchEnded` is told of every batch of writes.
 */
export function createWritePath(parts: {
  db: Db;
  store: Store;
  now(): number;
  timer: Timer;
  logger: Logger;
  pool: RecordingPool | null;
  sender: Sender | null;
  urls(): Urls;
  guard?: WriteGuard;
  batchEnded?: Metrics["batchEnded"];
  checkpoints?: "own" | "external";
  readingTurns?: Places;
  trustedNow?(): number;
}) {
  const { db, store, pool, sender, urls, guard, batchEnded, checkpoints = "own", readingTurns, ...rest } = parts;
  const writer: GroupCommitWriter = new GroupCommitWriter(db, {
    onBatch(writes, milliseconds, committed) {
      batchEnded?.(writes, milliseconds, committed);
      if (store.jobs.takeAddedFlag()) runner.wake();
      recorder.committed(writes);
    },
    ...(guard && { guard }),
  });
  const recorder = createRecorder({
    store,
    writer,
    now: parts.now,
    pool,
    checkpoints,
    ...(readingTurns ? { readingTurns } : {}),
    jobsAdded: () => runner.wake(),
  });
  if (pool) delegateCheckpoints(db, checkpoints);
  const deliver = sender && createDeliverer({ ...rest, store, sender });
  const lapses = keyLapses({ store, writer, now: parts.trustedNow ?? parts.now });
  const handlers = jobHandlers({ ...recorder, ...lapses, ...createEventNotifier({ store, links: urls }), deliver });
  const runner = createRunner({ ...rest, store, writer, handlers, parallel: PARALLEL, gather: GATHER });
  return { writer, recorder, runner, jobKinds: Object.keys(handlers) };
}

/** Seconds. Nobody waits for the end of a job to the tenth of a second, and a commit may take a hundredth. */
const GATHER = 0.05;

export type AppDependencies = {
  db: Db;
  store: Store;
  writer: GroupCommitWriter;
  recorder: LargeReports;
  runner: Runner;
  sources: SchemaSources;
  evidence: EvidenceStage & EvidenceReader;
  customTypes: CustomTypes;
  largeJson: LargeJsonReader;
  documents: DocumentReader;
  packages: PackageMaker;
  room: Pick<DiskGuard, "ensureWritable" | "reportFailure">;
  /** Whether the server can do its work; never rejects. */
  readiness: () => Promise<ReadinessReport>;
  limits: BodyLimits;
  /** Bytes of all large bodies that are held at once; as documented unless given. */
  bodyBudget?: number;
  /** How people sign in, and for how long. */
  logins: Pick<LoginParts, "passwords" | "provider" | "mapping" | "setup" | "tries" | "idle" | "lifetime">;
  /** The public URL, without a trailing slash. */
  baseUrl: string;
  /**
   * Whether a trusted proxy that tells the scheme or host of a request decides in place of `baseUrl`, which nobody set
   * then.
   */
  followsProxies?: boolean;
  /** Path below which everything is served, without a trailing slash; null for the root. */
  basePath?: string | null;
  /** What is wrong with a URL as a target of messages, null when nothing is; names are not resolved. */
  targetProblem(url: string): string | null;
  logger: Logger;
  /** Whether answers are checked against their declared shapes. */
  checkResponses: boolean;
  /** Requests a minute of one address and of one key, null: any number; and a clock in seconds that never goes back. */
  rates: { address: number | null; key: number | null; now(): number };
  /** null: nothing is measured. `key` opens /metrics here; without one that page is not here. */
  metrics: { metrics: Metrics; key: string | null } | null;
};

export type App = Koa & Bindable;

/** The Koa application over opened parts. */
export function createApp(parts: AppDependencies): App {
  const { store, writer, sources, basePath = null } = parts;
  const urls = urlsByBase();
  const unchanged = createReadCache(parts.db);
  let document: object | null = null;
  const openApi = (baseUrl: string): unknown => ({
    ...(document ??= apiDocument(baseUrl)),
    servers: [{ url: urls(baseUrl).apiRoot }],
  });
  const rates = createRateLimits(parts.rates);
  const { bySession, ...who } = createAuthenticator(store, unchanged);
  const write: LoginParts["write"] = (work) => writer.run(work);
  const warn: LoginParts["warn"] = (facts, text) => parts.logger.warn(facts, text);
  const logins = createLogins({ ...parts.logins, store, write, warn });
  const browser = webPages({
    store,
    logins,
    bySession,
    warn,
    limits: parts.limits,
    baseUrl: parts.baseUrl,
    now: sources.now,
  });
  const house: ServerContext<OperationContext, OrgMembership> = {
    operations,
    ...who,
    findSession: browser.sessionOf,
    findSignedEndpoint: (kind, { hook_uid = "" }) => inboundWebhookEndpoint(store, kind, hook_uid),
    responseCache: unchanged,
    ...contextFactory({
      store,
      urls,
      openApi,
      evidence: parts.evidence,
      packages: parts.packages,
      customTypes: parts.customTypes,
      documents: parts.documents,
      largeJson: parts.largeJson,
      recorder: parts.recorder,
      jobs: parts.runner,
      now: sources.now,
      newSecret,
      targetProblem: parts.targetProblem,
      version: versionOnce(),
    }),
    read: readTransaction(parts.db),
    write,
    audit: (context) => store.auditLog.append(context.auditEntry()),
    async afterCommit({ afterCommitTasks }) {
      for (const work of afterCommitTasks) await work();
    },
    evidence: parts.evidence,
    bodyBudget: createBodyBudget({
      bytes: parts.bodyBudget ?? Math.max(BODY_BUDGET_BYTES, parts.limits.json, parts.limits.form),
    }),
    largeJson: parts.largeJson,
    ensureWritable: (bytes) => parts.room.ensureWritable(bytes),
    ...requestHooks(parts),
    resolveBaseUrl(request) {
      const origin = parts.followsProxies ? peerOf(request).origin : null;
      return origin === null ? parts.baseUrl : `${origin}${basePath ?? ""}`;
    },
    rateLimits: rates,
    checkResponses: parts.checkResponses,
  };
  const app = emptyApp(parts);
  app.use(createRequestBoundary(house));
  if (basePath !== null) app.use(stripBasePath(basePath));
  app.use(createHealthProbes(parts.readiness));
  if (basePath !== null) app.use(requireBasePath(basePath));
  const { metrics, key } = parts.metrics ?? { metrics: null, key: null };
  if (metrics && key !== null) app.use(createMetricsPage(metrics, { token: key, rates }));
  if (parts.rates.address !== null) app.use(limitByAddress(rates));
  app.use(documentation());
  app.use(browser.renew);
  app.use(browser.serve);
  app.use(mountOperations(house));
  app.use(refuseUnknownPath);
  return app;
}

/** What a listener for metrics alone serves: to whoever can connect. */
export function createMetricsApp(parts: Reception & { metrics: { metrics: Metrics } }): App {
  const app = emptyApp(parts);
  app.use(createRequestBoundary(requestHooks(parts)));
  app.use(createMetricsPage(parts.metrics.metrics, null));
  app.use(refuseUnknownPath);
  return app;
}

/** Comes last: what nothing before it served does not exist, `OPTIONS *` included. */
function refuseUnknownPath(): never {
  throw routeNotFound();
}

type Reception = Pick<AppDependencies, "limits" | "logger" | "room"> & { metrics: { metrics: Metrics } | null };

/**
 * What is the same for every request, whatever it asks for: where it comes from, its id, its line in the log, its
 * count.
 */
function requestHooks({
  limits,
  logger,
  room,
  metrics: measured,
}: Reception): Pick<ServerContext<OperationContext>, "limits" | "newId" | "onRequest" | "logRequest" | "mapError"> {
  const metrics = measured?.metrics;
  return {
    limits,
    newId: newPublicId,
    mapError(error, { isChange }) {
      if (isChange) room.reportFailure(error);
      return translateStorageError(error);
    },
    onRequest: () => metrics?.requestCame(),
    logRequest(entry, error) {
      metrics?.requestDone(entry);
      const known = error instanceof AppError;
      const bug = error !== null && (!known || error.code === "internal");
      logRequest(
        logger,
        known
          ? { ...entry, error_code: error.code }
          : bug && entry.status >= 500
            ? { ...entry, error_id: entry.request_id }
            : entry,
      );
      if (bug && entry.status >= 500)
        logger.error(
          { request_id: entry.request_id, err: error, internal: known ? error.internal : null },
          "unexpected error",
        );
      else if (known && error.internal)
        logger.info({ request_id: entry.request_id, internal: error.internal }, "refusal");
    },
  };
}

/** An application without anything in it, that knows what to do with errors of connections. */
function emptyApp({ logger, metrics }: Reception): App {
  const app = new Koa();
  app.on("error", (error: Error & { code?: string }, ctx?: Koa.Context) => {
    // A client that closes the connection while its answer is written, or does not read it, is its own business.
    if (
      error.name !== "StalledError" &&
      error.code !== "EPIPE" &&
      error.code !== "ECONNRESET" &&
      error.code !== "ERR_STREAM_PREMATURE_CLOSE"
    )
      logger.error({ request_id: ctx?.state["requestId"], err: error }, "reply failed");
  });
  const nothing: Pick<RequestEntry, "method" | "route" | "path" | "actor" | "org"> = {
    method: null,
    route: null,
    path: null,
    actor: null,
    org: null,
  };
  return Object.assign(app, {
    refused({ status, code, client, bytes }: MalformedRequest): string {
      const id = newPublicId();
      metrics?.metrics.refused(status);
      logRequest(logger, {
        ...nothing,
        status,
        client,
        duration_ms: 0,
        request_id: id,
        bytes_in: 0,
        bytes_out: bytes,
        error_code: code,
      });
      return id;
    },
  });
}

/**
 * How many public URLs are remembered: an operator has a handful, and clients must not fill the memory with names they
 * invent.
 */
const REMEMBERED_BASES = 32;

/** The addresses of each public URL, made once. */
function urlsByBase(): (baseUrl: string) => Urls {
  const known = new Map<string, Urls>();
  return (baseUrl) => {
    let urls = known.get(baseUrl);
    if (urls) return urls;
    if (known.size >= REMEMBERED_BASES) known.clear();
    known.set(baseUrl, (urls = urlsFor(baseUrl)));
    return urls;
  };
}

/** The version of this program. In a checkout git is asked for the commit: once, and not before somebody asks. */
function versionOnce(): OperationContext["version"] {
  let known: ReturnType<OperationContext["version"]> | null = null;
  return () => (known ??= { ...readBuildInfo(), schema: schemaVersion() });
}

/** The OpenAPI document of a server whose public address is `baseUrl` (without a trailing slash). */
export const apiDocument = (baseUrl: string): object =>
  openApiDocument(operations, { ...DOCUMENT, serverUrl: urlsFor(baseUrl).apiRoot });

/** One transaction for all reads of a handler. It also saves each statement the locks of a transaction of its own. */
function readTransaction(db: Db): <T>(work: () => T) => T {
  const [begin, end] = [db.prepare("BEGIN"), db.prepare("COMMIT")];
  return (work) => {
    begin.run();
    try {
      return work();
    } finally {
      // After an I/O error SQLite may have ended it by itself; a second failure here would hide the first.
      if (db.inTransaction) end.run();
    }
  };
}

/** Syncs the directory that holds `directory`, where this user may open it: somebody else may have made it. */
function syncParent(directory: string): void {
  try {
    syncDirectory(dirname(directory));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EACCES") throw error;
  }
}

/**
 * Creates the data directory and the ones below it, readable for the owner only. Their entries are on the disk when
 * this returns: a record in a database is not durable while the directory that holds the database is not.
 * @throws UnfinishedRestoreError, the system's error.
 */
export function prepareDirectory(directory: string): { evidence: string; staging: string } {
  refuseUnfinishedRestore(directory);
  const [evidence, staging] = [join(directory, "evidence"), join(directory, "staging")];
  createDurably(directory);
  const made = [evidence, staging].filter((path) => mkdirSync(path, { recursive: true, mode: 0o700 }) !== undefined);
  // Without a database, the process that made these directories may have died before it synced them.
  const isFresh = !existsSync(join(directory, "assay.db"));
  if (made.length > 0 || isFresh) syncDirectory(directory);
  if (isFresh) syncParent(directory);
  return { evidence, staging };
}
