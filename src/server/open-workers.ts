/** The middle stages of a start: the write path with everything it depends on, then evidence and worker threads. */
import { join } from "node:path";
import { getCACertificates } from "node:tls";
import { readBuildInfo } from "../assets.ts";
import type { PackageMaker } from "../audit-packages/package-maker.ts";
import type { PolicyPreviewer } from "../api/context.ts";
import { openSetupToken, removeSetupToken } from "../auth/first-admin.ts";
import type { SetupToken } from "../auth/first-admin.ts";
import { newPublicId, newSecret, systemSources, systemTimer } from "../clock.ts";
import type { Config } from "../config/options.ts";
import { urlsFor } from "../contract/urls.ts";
import { parseMailbox, parseMailServer } from "../domain/network/mail-address.ts";
import { AppError, unavailable } from "../errors.ts";
import type { AnswerReader } from "../http/answers/answer-reader.ts";
import { EvidenceUnavailableError } from "../evidence/errors.ts";
import { openEvidenceStore } from "../evidence/location.ts";
import type { EvidenceStore } from "../evidence/local-store.ts";
import { createEvidenceReader } from "../evidence/reader.ts";
import { createCombinedReader } from "../evidence/small-evidence.ts";
import { createUploads } from "../evidence/uploads.ts";
import type { Uploads } from "../evidence/uploads.ts";
import type { S3Store } from "../evidence/s3-store.ts";
import { createPolicyPreviewer } from "../jobs/policy-previews.ts";
import type { MemoryBudget } from "../http/memory/memory-budget.ts";
import type { Logger } from "../log.ts";
import type { MailSettings } from "../notifications/mail-client.ts";
import { createResolver } from "../notifications/resolver.ts";
import { createSender } from "../notifications/sender.ts";
import { freeBytes } from "../store/db/disk-space.ts";
import { createCommitSync } from "../store/db/commit-sync.ts";
import { syncToDisk } from "../store/db/directories.ts";
import { findWriteLockHolder } from "../store/db/wal.ts";
import { isLoggedRefusal } from "../store/db/group-commit.ts";
import { createConcurrencyLimit } from "../workers/concurrency-limit.ts";
import type { PoolLoad } from "../workers/pool.ts";
import { backupDirectory, lastBackupAt } from "./backup-schedule.ts";
import { createClockWatch } from "./clock-watch.ts";
import type { ClockWatch } from "./clock-watch.ts";
import { createDiskGuard, probeWrite } from "./disk-guard.ts";
import type { DiskGuard } from "./disk-guard.ts";
import { createEvidenceProbe } from "./evidence-probe.ts";
import { createMetrics } from "./metrics.ts";
import type { Metrics } from "./metrics.ts";
import { openStage } from "./open-storage.ts";
import type { ServeOptions, Storage } from "./open-storage.ts";
import { saveCounts } from "./scheduler.ts";
import {
  createPreviewPool,
  createRecordingPool,
  recordingMemory,
  openAnswerReader,
  openCustomTypes,
  openDocuments,
  openHashing,
  openLargeJson,
  openPackages,
  startEvidenceWorker,
} from "./worker-threads.ts";
import { createWritePath } from "./write-path.ts";

/** What all stages share: the memory budget, and facts that earlier parts read and later stages or a reload set. */
export type LiveState = {
  readonly memory: MemoryBudget;
  /** The public address. It is final once the server listens; earlier parts use it only after that. */
  baseUrl: string;
  /** When the certificate expires, in epoch seconds; null without one. */
  certificateEndsAt: number | null;
  jobKinds: readonly string[];
  /** Whether evidence storage elsewhere answers; null: not known yet, or the evidence is in the data directory. */
  isEvidenceReachable: () => boolean | null;
  /** The load of each worker pool. */
  poolLoads: (() => Readonly<Record<string, PoolLoad>>)[];
};

type WritePath = ReturnType<typeof createWritePath>;

/** The CA certificates to trust; null for those of Node. */
export const trustedCertificates = ({ authorities }: Pick<ServeOptions, "authorities">): readonly string[] | null =>
  authorities && [...getCACertificates("default"), ...authorities];

/** Opens the write path: the recording thread, the disk guard, the writer, the jobs, and the clock watch. */
export const openWritePath = (options: ServeOptions, storage: Storage, live: LiveState) =>
  openStage(options.logger, async (onClose) => {
    const { directory, config, logger } = options;
    const { db, store, numbering, temporaryFiles } = storage;
    const pool = createRecordingPool(directory, {
      checkpoints: config.checkpoints,
      temporaryFiles,
      memory: live.memory.threads,
    });
    onClose(() => pool.close());
    live.poolLoads.push(() => ({ recording: pool.load() }));
    const sender = openSender(options);
    // Disk guard, writer and clock watch refer to each other; these are set as soon as each exists.
    let writePath: WritePath | null = null;
    let clock: ClockWatch | null = null;
    const diskGuard = await openDiskGuard(options, { storage, writePath: () => writePath });
    const metrics = openMetrics(options, {
      store,
      live,
      readOnly: () => diskGuard.readOnlyReason() !== null,
      lockHeldMs: () => writePath?.writer.lockHeldMs() ?? 0,
    });
    const readingTurns = createConcurrencyLimit(1);
    writePath = createWritePath({
      db,
      store,
      now: systemSources.now,
      timer: systemTimer,
      logger,
      pool,
      sender,
      urls: () => urlsFor(live.baseUrl),
      guard: diskGuard,
      numbering,
      // Not caught, so that it ends the process: what was committed cannot be taken back any more.
      sync: createCommitSync(storage.logSync.sync, (error) => {
        throw error;
      }),
      mayCheckpoint: storage.files.mayCheckpoint,
      findLockHolder: () => findWriteLockHolder(directory),
      checkpoints: config.checkpoints,
      readingTurns,
      acquireMemory: recordingMemory(live.memory.threads),
      trustedNow: () => clock?.trustedNow() ?? systemSources.now(),
      ...(metrics ? { batchEnded: metrics.batchEnded } : {}),
    });
    const { writer, recorder, runner } = writePath;
    live.jobKinds = writePath.jobKinds;
    const monotonic = (): number => performance.now() / 1_000;
    clock = createClockWatch({ store, writer, logger, now: systemSources.now, monotonic });
    await releaseInterruptedJobs({ store, writer, logger, isReadOnly: () => diskGuard.readOnlyReason() !== null });
    await options.beforeListening?.({ db, store });
    // It may have written without the writer.
    syncToDisk(join(directory, "assay.db-wal"));
    const setup = prepareSetup(store, directory);
    return { sender, diskGuard, metrics, readingTurns, writer, recorder, runner, clock, setup };
  });

const openSender = (options: ServeOptions): ReturnType<typeof createSender> =>
  createSender({
    resolve: createResolver(),
    now: systemSources.now,
    timer: systemTimer,
    allow: options.config.webhookAllow ?? [],
    mail: mailSettings(options.config),
    ca: trustedCertificates(options),
    version: readBuildInfo().version,
  });

/** The guard, with a first measurement. `writePath` exists before the first test write. */
async function openDiskGuard(
  { directory, config, logger }: ServeOptions,
  { storage, writePath }: { storage: Storage; writePath(): WritePath | null },
): Promise<DiskGuard> {
  const { store, numbering, staging, evidence, files } = storage;
  const diskGuard = createDiskGuard({
    files,
    reserveBytes: config.diskReserve,
    logger,
    measureFreeBytes: () => freeBytes(directory),
    countMissingCommits: numbering.missing,
    probeWrite: async () => {
      for (const path of [staging, evidence]) await probeWrite(path);
      await writePath()?.writer.run(() => store.probeWrite(), { bypassGuard: true });
    },
    onWritable: () => writePath()?.runner.wake(),
  });
  await diskGuard.check();
  return diskGuard;
}

/** The one-time token for the first administrator; null, and no token is left, once there are users. */
function prepareSetup(store: Storage["store"], directory: string): SetupToken | null {
  if (store.users.count() === 0) return openSetupToken(directory, newSecret);
  removeSetupToken(directory);
  return null;
}

export type OpenedWritePath = Awaited<ReturnType<typeof openWritePath>>;

/** Metrics, where they are configured; else null. */
function openMetrics(
  { directory, config }: ServeOptions,
  { store, live, ...state }: { store: Storage["store"]; live: LiveState; readOnly(): boolean; lockHeldMs(): number },
): Metrics | null {
  if (config.metricsKey === null && config.metricsListen === null) return null;
  return createMetrics({
    figures: store.metrics,
    directory,
    now: systemSources.now,
    build: readBuildInfo(),
    jobKinds: () => live.jobKinds,
    memory: live.memory,
    ...state,
    lastBackupAt: () => lastBackupAt(backupDirectory(config, directory)),
    certificateEndsAt: () => live.certificateEndsAt,
    evidenceUp() {
      const isReachable = live.isEvidenceReachable();
      return isReachable === null ? null : Number(isReachable);
    },
    pools() {
      const loads: Record<string, PoolLoad> = {};
      for (const read of live.poolLoads) Object.assign(loads, read());
      return loads;
    },
  });
}

/** Ends the leases of an earlier process: the lock of the data directory proves that it has ended. */
async function releaseInterruptedJobs({
  store,
  writer,
  logger,
  isReadOnly,
}: Pick<Storage, "store"> & Pick<WritePath, "writer"> & { logger: Logger; isReadOnly: () => boolean }): Promise<void> {
  const jobs = await writer
    .run(() => store.jobs.releaseAllLeases(), { bypassGuard: true })
    .catch((error: unknown) => {
      // On a full disk the server still reads, and the leases expire by themselves.
      if (!(error instanceof AppError) || !isReadOnly()) throw error;
      return 0;
    });
  if (jobs > 0) logger.info({ jobs }, "jobs that an earlier process did not finish will run again");
}

/**
 * Opens the evidence and the worker threads. From the end of this stage on, a stop completes running writes and jobs.
 */
export const openWorkers = (
  { directory, config, logger }: ServeOptions,
  { storage, writePath, live }: { storage: Storage; writePath: OpenedWritePath; live: LiveState },
) =>
  openStage(logger, async (onClose) => {
    const { store, evidence, staging, home } = storage;
    const { runner, sender, diskGuard, metrics } = writePath;
    const hashing = openHashing();
    onClose(() => hashing.close());
    const onRepair = reportRepair(logger, metrics);
    const { store: evidenceStore, remote } = await openEvidenceStore(home, newPublicId, { hasher: hashing, onRepair });
    onClose(() => evidenceStore.close());
    if (remote) {
      live.isEvidenceReachable = createEvidenceProbe(remote, () => performance.now());
      void probeRemoteEvidence(remote, logger);
    }
    await sweepStaging(evidenceStore, logger);

    const files = remote ?? createEvidenceReader({ root: evidence, start: startEvidenceWorker });
    if (files !== remote) onClose(() => files.close());
    const reader = createCombinedReader(store.smallEvidence, files);
    const customTypes = openCustomTypes(live.memory.threads);
    onClose(() => customTypes.close());
    const largeJson = openLargeJson(writePath.readingTurns, live.memory.threads);
    onClose(() => largeJson.close());
    const documents = openDocuments(live.memory.threads);
    onClose(() => documents.close());
    const previewPool = createPreviewPool(directory, live.memory.threads);
    onClose(() => previewPool.close());
    const policyPreviews = createPolicyPreviewer({ store, pool: previewPool });
    const packages = openPackages({ directory, evidence, staging }, { remote, memory: live.memory.threads });
    onClose(() => packages.close());
    const { diskReserve: reserveBytes } = config;
    const answerReader = openAnswerReader({ directory, staging, reserveBytes, memory: live.memory.threads });
    onClose(() => answerReader.close());
    live.poolLoads.push(() => ({
      ...customTypes.load(),
      ...documents.load(),
      large_json: largeJson.load(),
      large_answers: answerReader.load(),
      policy_previews: previewPool.load(),
    }));
    onClose(() => completeWrites(writePath, store, logger));
    onClose(() => {
      // Sending a message may take a minute, so it is aborted, and sent again after the next start.
      sender.close();
      return runner.close();
    });
    return {
      evidenceStore,
      uploads: openUploads(evidenceStore, store, logger),
      onRepair,
      reader,
      customTypes,
      largeJson,
      documents,
      ...readingOwnFiles({ policyPreviews, packages, answerReader }, diskGuard),
    };
  });

/** Waits for running writes at a stop, and writes the last uses of keys and sessions. */
async function completeWrites(
  { writer, diskGuard }: OpenedWritePath,
  store: Storage["store"],
  logger: Logger,
): Promise<void> {
  await writer.idle();
  if (diskGuard.readOnlyReason() !== null) return;
  await saveCounts({ store, writer }).catch((error: unknown) => {
    if (!isLoggedRefusal(error)) throw error;
    logger.warn({ err: error }, "the last uses of keys and sessions in the latest minute could not be saved");
  });
}

async function sweepStaging(evidence: EvidenceStore, logger: Logger): Promise<void> {
  const leftovers = await evidence.sweepStaging();
  if (leftovers > 0)
    logger.info({ files: leftovers }, "removed files that an earlier process left in the staging directory");
}

const openUploads = (evidence: EvidenceStore, { evidenceLocation }: Storage["store"], logger: Logger): Uploads =>
  createUploads({
    store: evidence,
    isReferenced: evidenceLocation.isReferenced,
    onFailure: (error, digest) =>
      logger.warn({ err: error, digest }, "the file of a refused upload could not be removed; it goes in a day"),
  });

/** Returns a function that tells the operator that damaged evidence was replaced by an upload. */
const reportRepair =
  (logger: Logger, metrics: Metrics | null) =>
  (digest: string): void => {
    logger.warn({ digest }, "stored evidence was damaged, and was replaced by the same file of an upload");
    metrics?.evidenceRepaired();
  };

type FileReaders = { policyPreviews: PolicyPreviewer; packages: PackageMaker; answerReader: AnswerReader };

/** What threads read that open the database by its name: refused while another file may be there. */
function readingOwnFiles({ policyPreviews, packages, answerReader }: FileReaders, diskGuard: DiskGuard): FileReaders {
  const ensureOwnFiles = (): void => {
    const lost = diskGuard.checkFiles();
    if (lost !== null) throw unavailable(`The server is in read-only mode: ${lost}`, 60);
  };
  return {
    policyPreviews: {
      async preview(lane, task) {
        ensureOwnFiles();
        return policyPreviews.preview(lane, task);
      },
      async previewStart(lane, question) {
        ensureOwnFiles();
        return policyPreviews.previewStart(lane, question);
      },
      async previewChange(lane, question) {
        ensureOwnFiles();
        return policyPreviews.previewChange(lane, question);
      },
      async previewTemplate(lane, question) {
        ensureOwnFiles();
        return policyPreviews.previewTemplate(lane, question);
      },
      async compareTemplate(lane, task) {
        ensureOwnFiles();
        return policyPreviews.compareTemplate(lane, task);
      },
    },
    answerReader: {
      ...answerReader,
      async make(task, options) {
        ensureOwnFiles();
        return answerReader.make(task, options);
      },
    },
    packages: {
      ...packages,
      async open(request, signal) {
        ensureOwnFiles();
        return packages.open(request, signal);
      },
      async report(request) {
        ensureOwnFiles();
        return packages.report(request);
      },
    },
  };
}

export type Workers = Awaited<ReturnType<typeof openWorkers>>;

/** The configured mail server; null without one. */
function mailSettings({ smtpUrl, smtpFrom, smtpTls }: Config): MailSettings | null {
  const server = smtpUrl === null ? null : parseMailServer(smtpUrl);
  const from = smtpFrom === null ? null : parseMailbox(smtpFrom);
  return server && from && { server, from, tls: smtpTls };
}

/**
 * Tells the operator at once that evidence is unreachable. The server runs without it and serves all other requests.
 */
async function probeRemoteEvidence(remote: S3Store, logger: Logger): Promise<void> {
  try {
    await remote.probe();
  } catch (error) {
    const why = error instanceof EvidenceUnavailableError ? error.why : error;
    logger.error({ why }, "the evidence storage does not answer; requests that need evidence get 503 until it does");
  }
}
