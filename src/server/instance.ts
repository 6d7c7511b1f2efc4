/**
 * A running server over one data directory. It is opened in stages and closed in the opposite order. If a stage fails,
 * those before it are closed again, so neither a failed start nor a stop leaves a lock, a staged file or an
 * acknowledged write behind.
 */
import type { RequestListener } from "node:http";
import { readBuildInfo } from "../assets.ts";
import type { SetupToken } from "../auth/first-admin.ts";
import type { LoginDependencies } from "../auth/login-context.ts";
import { createOidcProvider } from "../auth/oidc-provider.ts";
import type { OidcProvider } from "../auth/oidc-provider.ts";
import { createPasswordHasher } from "../auth/password-hashing.ts";
import { createBackupMaker } from "../backup/backup-maker.ts";
import { BackupError } from "../backup/errors.ts";
import { newSecret, newPublicId, systemSources, systemTimer } from "../clock.ts";
import { recordEvaluationDecision } from "../api/policies/evaluation-decision.ts";
import { defaultBaseUrl, withBasePath } from "../config/resolve.ts";
import { findExpiry } from "../config/tls-certificate.ts";
import { findTargetProblem } from "../domain/network/webhook-url.ts";
import { parseTrustedProxies } from "../http/client-address.ts";
import { createMemoryBudget, sizeMemoryBudget } from "../http/memory/memory-budget.ts";
import { createRateLimiter } from "../http/rate-limiter.ts";
import { createWalWatch } from "../jobs/wal-checkpointer.ts";
import { createFetch } from "../notifications/fetch.ts";
import { walBytes, listWalReaders } from "../store/db/wal.ts";
import { createApp, createMetricsApp } from "./app.ts";
import type { AppDependencies } from "./app.ts";
import { removeBackupRemains } from "./backup-remains.ts";
import { backupDirectory, createScheduledBackups } from "./backup-schedule.ts";
import type { ScheduledBackups } from "./backup-schedule.ts";
import { maxConnections } from "./connection-limit.ts";
import { closeListener, listen, replaceCertificate } from "./listener.ts";
import type { Bindable, CertificatePair, ConnectionOptions, ListenAddress, Listening } from "./listener.ts";
import { createClosers, logFailedClose, openStage, openStorage } from "./open-storage.ts";
import type { ServeOptions, Stage, Storage } from "./open-storage.ts";
import { openWorkers, openWritePath, trustedCertificates } from "./open-workers.ts";
import type { LiveState, OpenedWritePath, Workers } from "./open-workers.ts";
import { processMemory } from "./process-memory.ts";
import { createReadiness } from "./readiness.ts";
import type { App } from "./request-hooks.ts";
import { startScheduler } from "./scheduler.ts";
import { backupMemory, openEvaluations, startBackupWorker } from "./worker-threads.ts";

export type Instance = {
  /** The bound addresses, see `Listening`. */
  urls: readonly string[];
  /** The public address of the server, without a trailing slash. */
  baseUrl: string;
  /** The URL of the separate listener for metrics; null without one. */
  metricsUrl: string | null;
  /** The one-time token for the first administrator; null once there are users. */
  setup: SetupToken | null;
  /** Makes a backup now, where scheduled ones go. Never rejects; the log has the result. */
  backUp(): Promise<void>;
  /** Uses another certificate for new connections. @throws OpenSSL's error; then nothing changes */
  replaceCertificate(pair: CertificatePair): void;
  /** Stops in order. Closes all parts even if one fails, then rejects with the first error. */
  stop(): Promise<void>;
};

/** What the stages before have opened. */
type Opened = {
  storage: Storage;
  writePath: OpenedWritePath;
  workers: Workers;
  rego: ReturnType<typeof openEvaluations>;
  live: LiveState;
};

/**
 * How long a stop waits for running requests. Orchestrators kill a process 10 to 30 seconds after they asked it to
 * stop.
 */
const STOP_TIMEOUT_S = 10;

/** Bytes of a template, policy or type schema (semantics 10). */
const MAX_DOCUMENT_BYTES = 10 * 1_048_576;

/** The window in which `login-limit` counts failed logins. */
const LOGIN_ATTEMPTS_WINDOW_S = 15 * 60;

/**
 * Opens everything and listens.
 * @throws DataDirectoryInUseError, NewerDatabaseError, ForeignDatabaseError, EvidencePlaceError; the system's error
 *   when an address cannot be bound (`syscall` is "listen" or "getaddrinfo"; `option` is "metricsListen" for that
 *   listener); the error of `beforeListening`
 */
export async function startInstance(options: ServeOptions): Promise<Instance> {
  const { config, logger, tls } = options;
  const live: LiveState = {
    memory: createMemoryBudget({
      ...sizeMemoryBudget(processMemory(), { json: config.jsonLimit, form: config.formLimit }),
      timer: systemTimer,
    }),
    baseUrl: config.baseUrl,
    certificateEndsAt: tls && findExpiry(tls.certificate),
    jobKinds: [],
    isEvidenceReachable: () => null,
    poolLoads: [],
  };
  const stages = createClosers();
  const opened = <Opening extends Stage>(stage: Opening): Opening => {
    stages.add(stage.close);
    return stage;
  };
  try {
    const storage = opened(await openStorage(options));
    const writePath = opened(await openWritePath(options, storage, live));
    const workers = opened(await openWorkers(options, { storage, writePath, live }));
    const rego = opened(openRegoStage(options, { storage, writePath, workers, live }));
    const all: Opened = { storage, writePath, workers, rego, live };
    const { listening, metricsUrl } = opened(await openListeners(options, all));
    const { backups } = opened(await startBackgroundWork(options, all));
    return {
      urls: listening.map(({ url }) => url),
      baseUrl: live.baseUrl,
      metricsUrl,
      setup: writePath.setup,
      stop: () => stages.close("stop"),
      backUp: () => backups.make("signal"),
      replaceCertificate(pair) {
        for (const { server } of listening) replaceCertificate(server, pair);
        live.certificateEndsAt = findExpiry(pair.certificate);
      },
    };
  } catch (error) {
    await stages.close("failed start").catch((second: unknown) => logFailedClose(logger, second));
    throw error;
  }
}

/** Opens Rego evaluations. Closing ends those that run: the next start evaluates them again. */
function openRegoStage(
  { directory, config, logger }: ServeOptions,
  { storage: { store }, writePath: { writer }, workers: { uploads, reader }, live }: Omit<Opened, "rego">,
) {
  const rego = openEvaluations(directory, {
    ...{ store, writer, logger, limits: config, now: systemSources.now, timer: systemTimer },
    evidence: { ...uploads, open: (file, range) => reader.open({ ...file, ...range }) },
    recordDecision: recordEvaluationDecision(store),
    memory: live.memory.threads,
  });
  live.poolLoads.push(rego.load);
  return rego;
}

/** Binds all addresses, then serves the application on them. Closing waits for running requests. */
function openListeners(options: ServeOptions, opened: Opened) {
  return openStage(options.logger, async (onClose) => {
    const { config, logger } = options;
    const { live, writePath } = opened;
    // The app needs its public address, which may need the port, which is known only once it is bound.
    const { bindable, serve } = createDeferredApp();
    const listening: Listening[] = [];
    onClose(() => Promise.all(listening.map(({ server }) => closeListener(server, STOP_TIMEOUT_S))));
    const addresses: readonly ListenAddress[] = options.sockets ?? [config.listen];
    const connection: ConnectionOptions = {
      tls: options.tls,
      trust: parseTrustedProxies(config.trustedProxies),
      maxConnections: Math.floor(maxConnections() / addresses.length),
      onConnectionLimit: throttled(() =>
        logger.warn("refusing connections: there are as many as the limit of open files allows"),
      ),
    };
    for (const address of addresses) listening.push(await listen(bindable, address, { limits: config, ...connection }));
    if (options.derivesBaseUrl) live.baseUrl = withBasePath(deriveBaseUrl(listening, options), config.basePath);
    const dependencies = appDependencies(options, opened);
    serve(createApp(dependencies));

    const { metrics } = writePath;
    if (!metrics || !config.metricsListen) return { listening, metricsUrl: null };
    const metricsApp = createMetricsApp({ ...dependencies, metrics: { metrics } });
    const metricsListener = await listen(metricsApp, config.metricsListen, { limits: config }).catch((error: Error) =>
      Promise.reject(Object.assign(error, { option: "metricsListen" })),
    );
    onClose(() => closeListener(metricsListener.server, STOP_TIMEOUT_S));
    return { listening, metricsUrl: `${metricsListener.url}/metrics` };
  });
}

/** Starts what runs without a request: jobs that are due, scheduled backups, and periodic tasks. */
function startBackgroundWork(
  { directory, config, logger }: ServeOptions,
  { storage, writePath, workers, rego, live }: Opened,
): Promise<{ backups: ScheduledBackups } & Stage> {
  return openStage(logger, async (onClose) => {
    const { recorder, runner, diskGuard } = writePath;
    runner.wake();
    rego.evaluator.start();
    const maker = createBackupMaker({
      start: startBackupWorker,
      acquireMemory: backupMemory(live.memory.threads),
    });
    const { home } = storage;
    const backupsIn = backupDirectory(config, directory);
    removeBackupRemains({ dataDirectory: directory, backupDirectory: backupsIn, now: systemSources.now() }, logger);
    const backups = createScheduledBackups({
      directory: backupsIn,
      isInDataDirectory: config.backupDirectory === null,
      intervalS: config.backupEvery,
      keepCount: config.backupKeep,
      now: systemSources.now,
      logger,
      async run(order) {
        // The thread would copy what is there under the name of the database, and old backups would go.
        const lost = diskGuard.checkFiles();
        if (lost !== null) throw new BackupError(lost);
        return maker.make({
          directory,
          evidence: home,
          reserve: config.diskReserve,
          program: readBuildInfo(),
          ...order,
        });
      },
    });
    onClose(() => {
      backups.close();
      return maker.close();
    });
    const watchWal = createWalWatch({
      file: { bytes: () => walBytes(directory), readers: () => listWalReaders(directory) },
      checkpoint: config.checkpoints === "own" ? recorder.emptyWal : null,
      logger,
    });
    onClose(
      startScheduler({
        ...storage,
        ...writePath,
        directory,
        backups,
        evidence: workers.evidenceStore,
        logger,
        baseUrl: () => live.baseUrl,
        evaluationRetentionS: config.evaluationRetention,
        watchWal,
      }),
    );
    return { backups };
  });
}

/** The opened parts as the application takes them. */
function appDependencies(options: ServeOptions, { storage, writePath, workers, rego, live }: Opened): AppDependencies {
  const { config, logger } = options;
  const { db, store } = storage;
  const { writer, recorder, runner, diskGuard, clock, metrics } = writePath;
  const { uploads, onRepair, reader, customTypes, largeJson, documents, policyPreviews, packages, answerReader } =
    workers;
  return {
    db,
    store,
    writer,
    recorder,
    runner,
    diskGuard,
    logger,
    memory: live.memory,
    baseUrl: live.baseUrl,
    readiness: createReadiness({
      db,
      storageProblem: storage.storageProbe.check,
      readOnlyReason: diskGuard.readOnlyReason,
      lockReport: () => writer.lockReport(),
      clock: clock.report,
      isEvidenceReachable: live.isEvidenceReachable,
    }),
    endedBy: clock.endedBy,
    followsProxies: options.derivesBaseUrl,
    basePath: config.basePath,
    sources: systemSources,
    newSecret,
    targetProblem: (target) => findTargetProblem(target, config.webhookAllow ?? []),
    onRepair,
    evidence: { ...uploads, open: (file, range) => reader.open({ ...file, ...range }) },
    customTypes,
    largeJson,
    documents,
    policyPreviews,
    answerReader,
    rego,
    packages,
    limits: {
      json: config.jsonLimit,
      form: config.formLimit,
      document: MAX_DOCUMENT_BYTES,
      evidence: config.evidenceLimit,
      smallEvidence: config.smallEvidence,
      stallTimeoutS: config.stallTimeout,
    },
    logins: loginDependencies(options, writePath.setup),
    checkResponses: options.checkResponses,
    rates: { address: config.addressRate, key: config.keyRate, now: monotonicSeconds },
    metrics: metrics && { metrics, key: config.metricsKey },
  };
}

/** Seconds of a clock that is never set. */
function monotonicSeconds(): number {
  return performance.now() / 1_000;
}

function loginDependencies(options: ServeOptions, setup: LoginDependencies["setup"]): AppDependencies["logins"] {
  const { config } = options;
  return {
    setup,
    passwords: createPasswordHasher(),
    provider: createConfiguredProvider(options),
    mapping: config.oidcRoles ?? [],
    attempts: createRateLimiter({
      burst: config.loginLimit,
      perSeconds: LOGIN_ATTEMPTS_WINDOW_S,
      now: monotonicSeconds,
    }),
    idleTimeoutS: config.sessionIdle,
    lifetimeS: config.sessionLifetime,
  };
}

/** The configured OpenID provider; null without one. */
function createConfiguredProvider(options: ServeOptions): OidcProvider | null {
  const { config, logger } = options;
  const { oidcIssuer: issuer, oidcClientId: clientId, oidcClientSecret: clientSecret } = config;
  if (issuer === null || clientId === null || clientSecret === null) return null;
  const settings = {
    issuer,
    clientId,
    clientSecret,
    clientAuth: config.oidcClientAuth,
    scopes: config.oidcScopes,
    groupsClaim: config.oidcGroupsClaim,
  };
  return createOidcProvider(settings, {
    fetch: createFetch(trustedCertificates(options)),
    now: systemSources.now,
    info: (facts, text) => logger.info(facts, text),
  });
}

/**
 * Something to bind before there is an app. Requests that arrive early, on the first of several sockets or on an
 * inherited one, wait for it.
 */
function createDeferredApp(): { bindable: Bindable; serve(app: App): void } {
  const early: Parameters<RequestListener>[] = [];
  let handle: RequestListener = (...request) => void early.push(request);
  let recordMalformedRequest: Bindable["recordMalformedRequest"] = () => newPublicId();
  return {
    bindable: {
      callback: () => (request, response) => handle(request, response),
      recordMalformedRequest: (refusal) => recordMalformedRequest(refusal),
    },
    serve(app) {
      handle = app.callback();
      recordMalformedRequest = app.recordMalformedRequest;
      for (const request of early) handle(...request);
    },
  };
}

/** Seconds between two log lines about the same thing that clients can cause at will. */
const LOG_THROTTLE_S = 60;

function throttled(log: () => void): () => void {
  let loggedAt = -LOG_THROTTLE_S;
  return () => {
    if (systemSources.now() - loggedAt < LOG_THROTTLE_S) return;
    loggedAt = systemSources.now();
    log();
  };
}

/** The base URL that follows from where the server listens: from the first of its sockets that has an address. */
function deriveBaseUrl(listening: readonly Listening[], { config, sockets, tls }: ServeOptions): string {
  const scheme = { tls: tls !== null };
  const bound = listening.find((one) => one.bound !== null)?.bound;
  if (!bound) return defaultBaseUrl({ path: "" }, scheme);
  // A host name that the operator configured says more than the address that it was resolved to.
  const host = sockets === null && "host" in config.listen ? config.listen.host : bound.host;
  // URL leaves out the default port of a scheme.
  return new URL(defaultBaseUrl({ host, port: bound.port }, scheme)).origin;
}
