/**
 * A running server over one data directory: opened part by part, and closed in the opposite order. Whatever fails while
 * it opens, what was opened before is closed again, so neither a refused start nor a stop leaves a lock, a staged file
 * or a write that was promised.
 */
import type { RequestListener } from "node:http";
import { getCACertificates } from "node:tls";
import { urlsFor } from "../contract/urls.ts";
import {
  createApp,
  createMetricsApp,
  createWritePath,
  newPublicId,
  prepareDirectory,
  systemSources,
  systemTimer,
} from "./app.ts";
import type { App } from "./app.ts";
import { maxConnections } from "./connection-limit.ts";
import { listen, replacePair, closeListener } from "./listener.ts";
import type { Bindable, Listening, ConnectionOptions, Pair, ListenAddress } from "./listener.ts";
import { parseTrustedProxies } from "../http/client-address.ts";
import {
  createRecordingPool,
  openCustomTypes,
  openDocuments,
  openHashing,
  openLargeJson,
  startBackupWorker,
  startEvidenceWorker,
  startPackageWorker,
} from "./worker-threads.ts";
import { readBuildInfo } from "../assets.ts";
import { backupDirectory, createScheduledBackups, lastBackupAt } from "./backup-schedule.ts";
import { endOf } from "../config/tls-certificate.ts";
import { createClockWatch } from "./clock-watch.ts";
import { startScheduler, flushLastUsed } from "./scheduler.ts";
import { AppError } from "../errors.ts";
import { defaultBaseUrl, withBasePath } from "../config/resolve.ts";
import { createMetrics } from "./metrics.ts";
import { openPlace, settlePlace } from "../evidence/location.ts";
import type { EvidenceAccess } from "../evidence/location.ts";
import type { Config } from "../config/options.ts";
import { parseMailbox, parseMailServer } from "../domain/network/mail-address.ts";
import { targetProblem } from "../domain/network/webhook-url.ts";
import { createLogWatch } from "../jobs/wal-checkpointer.ts";
import type { Logger } from "../log.ts";
import { createDiskGuard, probeWrite } from "./disk-guard.ts";
import { createReadiness } from "./readiness.ts";
import { openStorageProbe } from "./storage-probe.ts";
import type { StorageProbe } from "./storage-probe.ts";
import { freeBytes } from "../store/db/disk-space.ts";
import type { MailSettings } from "../notifications/mail-client.ts";
import { createResolver } from "../notifications/resolver.ts";
import { createSender } from "../notifications/sender.ts";
import { createFetch } from "../notifications/fetch.ts";
import { createRateLimiter } from "../http/rate-limiter.ts";
import { createPasswords } from "../auth/password-hashing.ts";
import { createProvider } from "../auth/oidc-provider.ts";
import type { Provider } from "../auth/oidc-provider.ts";
import { openSetup, voidSetup } from "../auth/first-admin.ts";
import type { Setup } from "../auth/first-admin.ts";
import { openDatabase } from "../store/db/database.ts";
import { openStore } from "../store/index.ts";
import type { Store } from "../store/index.ts";
import { lockDirectory } from "../store/db/data-directory-lock.ts";
import { upgradeLogger } from "./startup-log.ts";
import { isStorageFailure } from "../store/db/group-commit.ts";
import { walBytes, listWalReaders } from "../store/db/wal.ts";
import { createBackupMaker } from "../backup/backup-maker.ts";
import { EvidenceUnavailableError } from "../evidence/errors.ts";
import { createPlaces } from "../workers/concurrency-limit.ts";
import type { S3Vault } from "../evidence/s3-store.ts";
import { createEvidenceReader } from "../evidence/reader.ts";
import { createPackageMaker } from "../audit-packages/package-maker.ts";
import type { Db } from "../store/db/types.ts";

export type ServeOptions = {
  /** The data directory, an absolute path; created where it is missing. */
  directory: string;
  config: Config;
  /** Certificates of authorities in PEM (ca-file) to trust beside the usual ones; null: only those. */
  authorities: readonly string[] | null;
  /** What it takes to reach the evidence where it is not in the data directory. */
  evidence: EvidenceAccess;
  /**
   * Whether the base URL follows from the address that was bound, because nobody set one; then trusted proxies may tell
   * another one.
   */
  derivesBaseUrl: boolean;
  /** Sockets that were handed over, in place of the address of the configuration; null: none. */
  sockets: readonly { fd: number }[] | null;
  /** With a pair everything is served over TLS. */
  tls: Pair | null;
  logger: Logger;
  /** Whether answers are checked against their declared shapes. */
  checkResponses: boolean;
  /**
   * Puts the data directory back as it was before this start; called when the start fails, while nobody else can use
   * it.
   */
  undoDirectory?: () => void;
  /** Runs on the opened store before anybody can connect; what it throws ends the start. */
  beforeListening?: (data: { db: Db; store: Store }) => void;
};

export type Instance = {
  /** The bound addresses, see `Listening`. */
  urls: readonly string[];
  /** The public address of the server, without a trailing slash. */
  baseUrl: string;
  /** Where a listener for metrics alone was bound, as a URL; null without one. */
  metricsUrl: string | null;
  /** The one-time token for the first administrator; null where somebody is known already. */
  setup: Setup | null;
  /** Makes a backup now, where scheduled ones go. Never rejects: what becomes of it is logged. */
  backUp(): Promise<void>;
  /** New connections get this pair from now on. @throws what OpenSSL says of it; then everything stays as it is. */
  replacePair(pair: Pair): void;
  /**
   * Stops in order. Rejects with the first error of a part that could not be closed, after it closed all the others.
   */
  stop(): Promise<void>;
};

/** Requests that run when the server stops may take this long to end, in seconds; orchestrators kill after 10 to 30. */
const STOP_PATIENCE = 10;

/** Templates, policies and type schemas, in bytes (semantics 10). */
const DOCUMENT_LIMIT = 10 * 1_048_576;

/**
 * Opens everything and listens.
 * @throws DataDirectoryInUseError, NewerDatabaseError, ForeignDatabaseError, EvidencePlaceError, the system's error
 * when an address cannot be
 *   had (`syscall` is "listen" or "getaddrinfo"; `option` is "metricsListen" when it is that one), what
 *   `beforeListening` threw.
 */
export async function startInstance(options: ServeOptions): Promise<Instance> {
  const { directory, config, logger } = options;
  const closers: (() => unknown)[] = [];
  let isRefused = false;
  const close = async (): Promise<void> => {
    let first: unknown = null;
    for (let closer = closers.pop(); closer; closer = closers.pop()) {
      try {
        await closer();
      } catch (error) {
        first ??= error;
      }
    }
    if (first !== null) throw first;
  };

  try {
    const { evidence, staging } = prepareDirectory(directory);
    const lock = lockDirectory(directory);
    closers.push(() => {
      try {
        if (isRefused) options.undoDirectory?.();
      } finally {
        lock.release();
      }
    });

    // Closed after the database, see storage-probe.ts.
    let disk: StorageProbe | null = null;
    closers.push(() => disk?.close());
    const milliseconds = (): number => performance.now();
    const onUpgrade = upgradeLogger(logger, milliseconds);
    const db = openDatabase(directory, systemSources.now(), { onUpgrade });
    closers.push(() => {
      // All of it in the one file, as somebody who copies a stopped server's database expects.
      try {
        if (config.checkpoints === "own") db.pragma("wal_checkpoint(TRUNCATE)");
      } catch (error) {
        // Nothing is lost: the next start finds the log where it is.
        if (!isStorageFailure(error)) throw error;
        logger.warn({ err: error }, "the write-ahead log could not be emptied");
      } finally {
        db.close();
      }
    });
    disk = openStorageProbe(directory, milliseconds, Math.random);
    const store = openStore(db, systemSources);
    // Before anything is changed: a server on another place than that of the evidence is refused.
    const home = {
      place: settlePlace(store, options.evidence.configured),
      parts: { evidence, staging },
      access: options.evidence,
    };
    const pool = createRecordingPool(directory, config.checkpoints);
    closers.push(() => pool.close());
    const ca = options.authorities && [...getCACertificates("default"), ...options.authorities];
    const sender = createSender({
      resolve: createResolver(),
      now: systemSources.now,
      timer: systemTimer,
      allow: config.webhookAllow ?? [],
      mail: mailSettings(config),
      ca,
      version: readBuildInfo().version,
    });
    const room = createDiskGuard({
      reserve: config.diskReserve,
      logger,
      free: () => freeBytes(directory),
      probeWrite: async () => {
        for (const place of [staging, evidence]) await probeWrite(place);
        await writer.run(() => store.probeWrite(), { bypassGuard: true });
      },
      reopened: () => runner.wake(),
    });
    await room.check();
    // Known for sure once the server listens; until then nobody asks.
    let baseUrl = config.baseUrl;
    let certificateEnd = options.tls && endOf(options.tls.certificate);
    const metrics =
      config.metricsKey === null && config.metricsListen === null
        ? null
        : createMetrics({
            figures: store.metrics,
            directory,
            now: systemSources.now,
            build: readBuildInfo(),
            jobKinds: () => jobKinds,
            readOnly: () => room.readOnlyReason() !== null,
            lastBackupAt: () => lastBackupAt(backupDirectory(config, directory)),
            certificateEndsAt: () => certificateEnd,
            pools: () => ({
              recording: pool.load(),
              ...customTypes.load(),
              ...documents.load(),
              large_json: largeJson.load(),
            }),
          });
    const readingTurns = createPlaces(1);
    const { writer, recorder, runner, jobKinds } = createWritePath({
      db,
      store,
      now: systemSources.now,
      timer: systemTimer,
      logger,
      pool,
      sender,
      urls: () => urlsFor(baseUrl),
      guard: room,
      checkpoints: config.checkpoints,
      readingTurns,
      trustedNow: () => clock.trusted(),
      ...(metrics ? { batchEnded: metrics.batchEnded } : {}),
    });
    const clock = createClockWatch({
      store,
      writer,
      logger,
      now: systemSources.now,
      monotonic: () => milliseconds() / 1_000,
    });
    // The lock says that whoever worked on a job is gone.
    const interrupted = await writer
      .run(() => store.jobs.releaseAllLeases(), { bypassGuard: true })
      .catch((error: unknown) => {
        // On a full disk the server still reads; the leases end by themselves.
        if (!(error instanceof AppError) || room.readOnlyReason() === null) throw error;
        return 0;
      });
    if (interrupted > 0)
      logger.info({ jobs: interrupted }, "jobs that an earlier process did not finish are done again");
    options.beforeListening?.({ db, store });
    const isNew = store.users.count() === 0;
    const setup = isNew ? openSetup(directory) : null;
    if (!isNew) voidSetup(directory);

    const hashing = openHashing();
    closers.push(() => hashing.close());
    const { vault, remote } = await openPlace(home, newPublicId, hashing);
    closers.push(() => vault.close());
    if (remote) void probeRemoteEvidence(remote, logger);
    const left = await vault.sweepStaging();
    if (left > 0) logger.info({ files: left }, "removed what an earlier process left in the staging directory");

    const reader = remote ?? createEvidenceReader({ root: evidence, start: startEvidenceWorker });
    if (reader !== remote) closers.push(() => reader.close());
    const customTypes = openCustomTypes();
    closers.push(() => customTypes.close());
    const largeJson = openLargeJson(readingTurns);
    closers.push(() => largeJson.close());
    const documents = openDocuments();
    closers.push(() => documents.close());
    const packages = createPackageMaker({ data: { directory, evidence, staging }, remote, start: startPackageWorker });
    closers.push(() => packages.close());

    closers.push(async () => {
      await writer.idle();
      if (room.readOnlyReason() === null) await flushLastUsed({ store, writer });
    });
    closers.push(() => {
      // A message may take a minute, and is sent again after the next start.
      sender.close();
      return runner.close();
    });

    // The app knows its public address, and that address the port, which is known once it is bound.
    const { bindable, serve } = deferredHandler();
    const listening: Listening[] = [];
    closers.push(() => Promise.all(listening.map(({ server }) => closeListener(server, STOP_PATIENCE))));
    const places: readonly ListenAddress[] = options.sockets ?? [config.listen];
    const manners: ConnectionOptions = {
      tls: options.tls,
      trust: parseTrustedProxies(config.trustedProxies),
      maxConnections: Math.floor(maxConnections() / places.length),
      onConnectionLimit: throttled(() =>
        logger.warn("connections are refused: there are as many as the limit of open files allows"),
      ),
    };
    for (const place of places) listening.push(await listen(bindable, place, config, manners));
    if (options.derivesBaseUrl) baseUrl = withBasePath(derivedBaseUrl(listening, options), config.basePath);
    const limits = {
      json: config.jsonLimit,
      form: config.formLimit,
      document: DOCUMENT_LIMIT,
      evidence: config.evidenceLimit,
      stallTimeoutS: config.stallTimeout,
    };
    serve(
      createApp({
        db,
        store,
        writer,
        recorder,
        runner,
        room,
        logger,
        baseUrl,
        readiness: createReadiness({
          db,
          storageProblem: disk.check,
          readOnlyReason: room.readOnlyReason,
          clock: clock.report,
        }),
        followsProxies: options.derivesBaseUrl,
        basePath: config.basePath,
        sources: systemSources,
        targetProblem: (target) => targetProblem(target, config.webhookAllow ?? []),
        evidence: { ...vault, open: (file, range) => reader.open({ ...file, ...range }) },
        customTypes,
        largeJson,
        documents,
        packages,
        limits,
        logins: {
          setup,
          passwords: createPasswords(),
          provider: loginProvider(config, ca, logger),
          mapping: config.oidcRoles ?? [],
          tries: createRateLimiter({
            burst: config.loginLimit,
            perSeconds: TRIES_SECONDS,
            now: () => performance.now() / 1000,
          }),
          idle: config.sessionIdle,
          lifetime: config.sessionLifetime,
        },
        checkResponses: options.checkResponses,
        rates: { address: config.addressRate, key: config.keyRate, now: () => performance.now() / 1000 },
        metrics: metrics && { metrics, key: config.metricsKey },
      }),
    );
    let metricsUrl: string | null = null;
    if (metrics && config.metricsListen) {
      const apart = await listen(
        createMetricsApp({ limits, logger, room, metrics: { metrics } }),
        config.metricsListen,
        config,
      ).catch((error: Error) => Promise.reject(Object.assign(error, { option: "metricsListen" })));
      metricsUrl = `${apart.url}/metrics`;
      closers.push(() => closeListener(apart.server, STOP_PATIENCE));
    }
    runner.wake();

    const maker = createBackupMaker({ start: startBackupWorker });
    const backups = createScheduledBackups({
      directory: backupDirectory(config, directory),
      own: config.backupDirectory === null,
      every: config.backupEvery,
      keep: config.backupKeep,
      now: systemSources.now,
      logger,
      run: (order) => maker.make({ directory, home, reserve: config.diskReserve, program: readBuildInfo(), ...order }),
    });
    closers.push(() => {
      backups.close();
      return maker.close();
    });
    closers.push(
      startScheduler({
        directory,
        backups,
        room,
        clock,
        db,
        store,
        vault,
        writer,
        runner,
        logger,
        baseUrl: () => baseUrl,
        watchLog: createLogWatch({
          file: { bytes: () => walBytes(directory), readers: () => listWalReaders(directory) },
          checkpoint: config.checkpoints === "own" ? recorder.emptyLog : null,
          logger,
        }),
      }),
    );
    return {
      urls: listening.map(({ url }) => url),
      baseUrl,
      metricsUrl,
      setup,
      stop: close,
      backUp: () => backups.make("signal"),
      replacePair(pair) {
        for (const { server } of listening) replacePair(server, pair);
        certificateEnd = endOf(pair.certificate);
      },
    };
  } catch (error) {
    isRefused = true;
    await close().catch((second: unknown) => logger.error({ err: second }, "closing after a failed start"));
    throw error;
  }
}

/**
 * Something to bind before the app is there: what comes early, at a socket that was bound first or was handed over,
 * waits for it.
 */
function deferredHandler(): { bindable: Bindable; serve(app: App): void } {
  const early: Parameters<RequestListener>[] = [];
  let handle: RequestListener = (...request) => void early.push(request);
  let refused: Bindable["refused"] = () => newPublicId();
  return {
    bindable: {
      callback: () => (request, response) => handle(request, response),
      refused: (refusal) => refused(refusal),
    },
    serve(app) {
      handle = app.callback();
      refused = app.refused;
      for (const request of early) handle(...request);
    },
  };
}

/** In which `login-limit` counts. */
const TRIES_SECONDS = 15 * 60;

/** The OpenID provider of the configuration; null without one. */
function loginProvider(config: Config, ca: readonly string[] | null, logger: Logger): Provider | null {
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
  return createProvider(settings, {
    fetch: createFetch(ca),
    now: systemSources.now,
    info: (facts, text) => logger.info(facts, text),
  });
}

/** Seconds between two lines of the log about the same thing that clients may cause at will. */
const TELL_EVERY = 60;

function throttled(tell: () => void): () => void {
  let told = -TELL_EVERY;
  return () => {
    if (systemSources.now() - told < TELL_EVERY) return;
    told = systemSources.now();
    tell();
  };
}

/** The base URL that follows from where the server listens: from the first address among its sockets. */
function derivedBaseUrl(listening: readonly Listening[], { config, sockets, tls }: ServeOptions): string {
  const bound = listening.find((one) => one.bound !== null)?.bound;
  if (!bound) return defaultBaseUrl({ path: "" }, tls !== null);
  // The name that the operator gave says more than its address.
  const host = sockets === null && "host" in config.listen ? config.listen.host : bound.host;
  // URLs leave out the port of their scheme.
  return new URL(defaultBaseUrl({ host, port: bound.port }, tls !== null)).origin;
}

/** The mail server of the configuration; null without one. */
function mailSettings({ smtpUrl, smtpFrom, smtpTls }: Config): MailSettings | null {
  const server = smtpUrl === null ? null : parseMailServer(smtpUrl);
  const from = smtpFrom === null ? null : parseMailbox(smtpFrom);
  return server && from && { server, from, tls: smtpTls };
}

/** Tells the operator at once when evidence cannot be had. The server runs without it: what needs none is answered. */
async function probeRemoteEvidence(remote: S3Vault, logger: Logger): Promise<void> {
  try {
    await remote.probe();
  } catch (error) {
    const why = error instanceof EvidenceUnavailableError ? error.why : error;
    logger.error(
      { why },
      "the storage of the evidence does not answer; until it does, what needs evidence is answered with 503",
    );
  }
}
