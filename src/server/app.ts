/**
 * The composition root: combines opened parts into an application that can listen. The server (instance.ts opens and
 * closes the parts), the command line and the tests build it here and nowhere else.
 */
import type { IncomingMessage } from "node:http";
import { contextFactory } from "../api/context.ts";
import type { Recorder, OperationContext, OrgMembership, PolicyPreviewer, RegoService } from "../api/context.ts";
import { operations, operatorOperations } from "../api/index.ts";
import { respellPath } from "../api/policies/rego-spellings.ts";
import { DOCUMENT } from "../api/openapi-document.ts";
import { readBuildInfo } from "../assets.ts";
import type { PackageMaker } from "../audit-packages/package-maker.ts";
import { createLogins } from "../auth/logins.ts";
import type { LoginDependencies } from "../auth/login-context.ts";
import { systemTimer } from "../clock.ts";
import type { EvidenceReader } from "../contract/evidence-reader.ts";
import { urlsFor } from "../contract/urls.ts";
import type { Urls } from "../contract/urls.ts";
import { createLru } from "../domain/lru.ts";
import type { Timer } from "../domain/time.ts";
import { routeNotFound } from "../errors.ts";
import { requireBasePath, stripBasePath } from "../http/base-path.ts";
import type { EvidenceStage } from "../http/body/evidence-stage.ts";
import type { LargeJsonReader } from "../http/body/read-json.ts";
import { peerOf } from "../http/client-address.ts";
import { createHealthProbes } from "../http/health.ts";
import type { ReadinessReport } from "../http/health.ts";
import { createMetricsPage } from "../http/metrics-page.ts";
import type { AnswerReader } from "../http/answers/answer-reader.ts";
import { openApiDocument } from "../http/openapi/document.ts";
import { createCallers } from "../http/in-process.ts";
import { limitByAddress, createRateLimits } from "../http/rate-limits.ts";
import { createRequestBoundary } from "../http/request-boundary.ts";
import { createRouter, mountOperations } from "../http/routing/router.ts";
import { progressOf } from "../http/watchdog/request-progress.ts";
import type { ServerContext } from "../http/server-context.ts";
import { createShortWay } from "../http/short-way.ts";
import type { JobRunner } from "../jobs/job-runner.ts";
import { neverWait } from "../store/db/connection.ts";
import { schemaVersion } from "../store/db/database.ts";
import type { GroupCommitWriter } from "../store/db/group-commit.ts";
import { createReadCache } from "../store/db/read-cache.ts";
import { watchVersions } from "../store/db/versions.ts";
import type { Db, SchemaSources } from "../store/db/types.ts";
import type { Store } from "../store/index.ts";
import { apiReference } from "../web/api-reference.ts";
import { createLive } from "../web/live.ts";
import { createWebPages } from "../web/web-pages.ts";
import type { DocumentReader } from "../workers/documents.ts";
import type { AttestationTypes } from "../workers/sandbox/attestation-types.ts";
import { liveSubjects } from "./live-subjects.ts";
import type { Metrics } from "./metrics.ts";
import { createAuthenticator, inboundWebhookEndpoint } from "./principals.ts";
import { holdUntilDurable } from "../http/durable-answers.ts";
import { emptyApp, requestHooks } from "./request-hooks.ts";
import type { App, RequestHookDependencies } from "./request-hooks.ts";
import { createRouteNotes } from "./unknown-routes.ts";

export type AppDependencies = Omit<RequestHookDependencies, "metrics"> & {
  db: Db;
  store: Store;
  writer: GroupCommitWriter;
  recorder: Recorder;
  runner: JobRunner;
  sources: SchemaSources;
  /** Makes credentials, such as API keys and secrets of webhooks. */
  newSecret: () => string;
  evidence: EvidenceStage & EvidenceReader;
  /** Reports that damaged evidence was replaced by an upload. */
  onRepair(digest: string): void;
  customTypes: AttestationTypes;
  largeJson: LargeJsonReader;
  documents: DocumentReader;
  policyPreviews: PolicyPreviewer;
  rego: RegoService;
  packages: PackageMaker;
  /** Epoch seconds by which keys and sessions have ended; what the clock shows unless given. */
  endedBy?: () => number;
  /** null over a database in memory. */
  answerReader: AnswerReader | null;
  /** Whether the server can do its work. Never rejects. */
  readiness: () => Promise<ReadinessReport>;
  /** How people sign in, and for how long. */
  logins: Pick<
    LoginDependencies,
    "passwords" | "provider" | "mapping" | "setup" | "attempts" | "idleTimeoutS" | "lifetimeS"
  >;
  /** The public URL, without a trailing slash. */
  baseUrl: string;
  /** Whether a scheme or host forwarded by a trusted proxy overrides `baseUrl`: only if none is configured. */
  followsProxies?: boolean;
  /** Path below which everything is served, without a trailing slash; null for the root. */
  basePath?: string | null;
  /** Why a URL is not allowed as a notification target, null when it is. Names are not resolved. */
  targetProblem(url: string): string | null;
  /** Whether responses are checked against their declared shapes. */
  checkResponses: boolean;
  /** Requests per minute of one address and of one key, null: unlimited; and a monotonic clock in seconds. */
  rates: { address: number | null; key: number | null; now(): number };
  /**
   * null: nothing is measured. `key` grants access to /metrics on this listener; null: the page does not exist here.
   */
  metrics: { metrics: Metrics; key: string | null } | null;
  /** Serve every request through all middleware, to test that the short way does the same. */
  allTheLongWay?: boolean;
  /** Of live updates; that of the system unless given. */
  liveTimer?: Timer;
};

/** The Koa application over opened parts. */
export function createApp(dependencies: AppDependencies): App {
  neverWait(dependencies.db);
  const versions = watchVersions(dependencies.db);
  const { authenticateSession, ...authenticator } = createAuthenticator(
    dependencies.store,
    versions,
    dependencies.endedBy,
  );
  const browser = createBrowserPages(dependencies, {
    authenticateSession,
    liveVersion: (subject) => live.versionOf(subject),
    databaseState: versions.state,
    countRequest: ({ keyPublicId }) => rates.countKey(keyPublicId),
    createCaller: (ctx, principal) =>
      callers({
        principal,
        requestId: ctx.state["requestId"] as string,
        baseUrl: context.resolveBaseUrl(ctx.req),
        progress: progressOf(ctx),
        asker: "page",
      }),
  });
  const rates = createRateLimits(dependencies.rates);
  const { note: noteUnknown } = dependencies.store.unknownInputs;
  const noteRoute = createRouteNotes({ ...authenticator, ...dependencies, note: noteUnknown });
  const context: ServerContext<OperationContext, OrgMembership> = {
    operations,
    ...authenticator,
    findSession: browser.sessionOf,
    findSignedEndpoint: (kind, { hook_uid = "" }) => inboundWebhookEndpoint(dependencies.store, kind, hook_uid),
    responseCache: createReadCache(versions),
    ...createContextFactory(dependencies),
    ...transactionHooks(dependencies),
    answerReader: dependencies.answerReader,
    databaseState: versions.state,
    durable: () => dependencies.writer.durable(),
    evidence: dependencies.evidence,
    bodyBudget: dependencies.memory.bodies,
    largeJson: dependencies.largeJson,
    ensureWritable: (bytes) => dependencies.diskGuard.ensureWritable(bytes),
    ...requestHooks(dependencies),
    resolveBaseUrl: baseUrlResolver(dependencies),
    rateLimits: rates,
    noteUnknown,
    noteUnknownRoute: noteRoute,
    checkResponses: dependencies.checkResponses,
  };
  const callers = createCallers(context);
  const live = createLive({
    ...liveSubjects({ store: dependencies.store, sessionOf: browser.sessionOf, ...authenticator }),
    databaseState: versions.state,
    timer: dependencies.liveTimer ?? systemTimer,
    onError: (error) => dependencies.logger.error({ err: error }, "live updates could not be looked up"),
    onCount: (streams) => dependencies.metrics?.metrics.liveStreams(streams),
  });
  return assemble(dependencies, context, { browser, live });
}

/** What a request passes, from the outside to the operations. */
function assemble(
  dependencies: AppDependencies,
  context: ServerContext<OperationContext, OrgMembership>,
  { browser, live }: { browser: ReturnType<typeof createBrowserPages>; live: ReturnType<typeof createLive> },
): App {
  const { basePath = null } = dependencies;
  const rates = context.rateLimits;
  const app = emptyApp(dependencies);
  const boundary = createRequestBoundary(context);
  // What only the operator may do is found, and refused to every key and session like any other missing permission.
  const find = createRouter([...operations, ...operatorOperations], respellPath);
  app.use(boundary);
  if (basePath !== null) app.use(stripBasePath(basePath));
  app.use(createHealthProbes(dependencies.readiness));
  if (basePath !== null) app.use(requireBasePath(basePath));
  const { metrics, key } = dependencies.metrics ?? { metrics: null, key: null };
  if (metrics && key !== null) app.use(createMetricsPage(metrics, { token: key, rates }));
  if (dependencies.rates.address !== null) app.use(limitByAddress(rates));
  app.use((ctx, next) => holdUntilDurable(ctx, context.durable, next));
  app.use(apiReference());
  app.use(browser.renew);
  app.use(browser.serve);
  app.use((ctx, next) => (ctx.path === "/live" ? live.serve(ctx) : next()));
  app.use(mountOperations(context, find));
  app.use(refuseUnknownPath);
  if (dependencies.allTheLongWay) return app;
  const shortWay = createShortWay({ app, server: context, find, boundary, basePath });
  return Object.assign(app, { callback: () => shortWay });
}

/** The public URL as a request reached it: that of its trusted proxy, or the configured one. */
function baseUrlResolver({ baseUrl, followsProxies = false, basePath }: AppDependencies) {
  return (request: IncomingMessage): string => {
    const origin = followsProxies ? peerOf(request).origin : null;
    return origin === null ? baseUrl : `${origin}${basePath ?? ""}`;
  };
}

/** The application of a listener that serves metrics only, to every client that can connect. */
export function createMetricsApp(dependencies: RequestHookDependencies & { metrics: { metrics: Metrics } }): App {
  const app = emptyApp(dependencies);
  app.use(createRequestBoundary(requestHooks(dependencies)));
  app.use(createMetricsPage(dependencies.metrics.metrics, null));
  app.use(refuseUnknownPath);
  return app;
}

/** Comes last: a path that no middleware served does not exist, `OPTIONS *` included. */
function refuseUnknownPath(): never {
  throw routeNotFound();
}

function createBrowserPages(
  { store, writer, diskGuard, logger, logins, limits, baseUrl, newSecret, sources }: AppDependencies,
  hooks: Pick<
    Parameters<typeof createWebPages>[0],
    "authenticateSession" | "countRequest" | "createCaller" | "databaseState" | "liveVersion"
  >,
) {
  const warn: LoginDependencies["warn"] = (facts, text) => logger.warn(facts, text);
  return createWebPages({
    ...hooks,
    logins: createLogins({ ...logins, store, newSecret, write: (work) => writer.run(work), warn }),
    readOnlyReason: diskGuard.readOnlyReason,
    warn,
    limits,
    baseUrl,
    now: sources.now,
  });
}

function createContextFactory(dependencies: AppDependencies) {
  const urls = createUrlCache();
  let document: object | null = null;
  return contextFactory({
    store: dependencies.store,
    urls,
    openApi: (baseUrl) => ({
      ...(document ??= apiDocument(baseUrl)),
      servers: [{ url: urls(baseUrl).apiRoot }],
    }),
    evidence: dependencies.evidence,
    packages: dependencies.packages,
    passwords: dependencies.logins.passwords,
    mappedOrganizations: new Set(dependencies.logins.mapping.map(({ organization }) => organization)),
    customTypes: dependencies.customTypes,
    documents: dependencies.documents,
    policyPreviews: dependencies.policyPreviews,
    rego: dependencies.rego,
    largeJson: dependencies.largeJson,
    recorder: dependencies.recorder,
    jobs: dependencies.runner,
    now: dependencies.sources.now,
    newSecret: dependencies.newSecret,
    targetProblem: dependencies.targetProblem,
    version: cachedVersion(),
  });
}

/** How handlers read and write, and what happens in and after the transaction of a write. */
function transactionHooks({
  db,
  store,
  writer,
  onRepair,
}: AppDependencies): Pick<
  ServerContext<OperationContext>,
  "read" | "write" | "insertEvidence" | "audit" | "afterCommit"
> {
  return {
    read: readTransaction(db),
    write: (work, options) => writer.run(work, options),
    insertEvidence({ digest, content }) {
      if (store.smallEvidence.insert(digest, content)) onRepair(digest);
    },
    audit: (context) => store.auditLog.append(context.auditEntry()),
    async afterCommit({ afterCommitTasks }) {
      for (const work of afterCommitTasks) await work();
    },
  };
}

/**
 * Public URLs whose addresses are cached. An operator has a handful, and clients must not be able to fill the memory
 * with host names that they invent.
 */
const MAX_CACHED_BASE_URLS = 32;

/** The addresses below a public URL, computed once for each. */
function createUrlCache(): (baseUrl: string) => Urls {
  const cache = createLru<string, Urls>({ maxEntries: MAX_CACHED_BASE_URLS });
  return (baseUrl) => {
    const cached = cache.get(baseUrl);
    if (cached) return cached;
    const urls = urlsFor(baseUrl);
    cache.set(baseUrl, urls);
    return urls;
  };
}

/** The version of this program, computed on first use: in a checkout it takes a run of git to find the commit. */
function cachedVersion(): OperationContext["version"] {
  let cached: ReturnType<OperationContext["version"]> | null = null;
  return () => (cached ??= { ...readBuildInfo(), schema: schemaVersion() });
}

/** The OpenAPI document of a server whose public address is `baseUrl` (without a trailing slash). */
export const apiDocument = (baseUrl: string): object =>
  openApiDocument(operations, { ...DOCUMENT, serverUrl: urlsFor(baseUrl).apiRoot });

/**
 * Runs all reads of a handler in one transaction. That also saves each statement from taking the locks of its own
 * transaction.
 */
function readTransaction(db: Db): <T>(work: () => T) => T {
  const [begin, end] = [db.prepare("BEGIN"), db.prepare("COMMIT")];
  return (work) => {
    begin.run();
    try {
      return work();
    } finally {
      // After an I/O error SQLite may have ended the transaction itself; a second error here would hide the first.
      if (db.inTransaction) end.run();
    }
  };
}
