/**
 * Tests call the real app over real HTTP, with a real SQLite database and real evidence storage:
 * `const server = await startServer()`. `server.given` creates what a test starts from; `server.call` sends a request
 * and returns status, body and headers. Each server has its own clock, which advances one second each time it is read,
 * so that times are distinct and predictable.
 */
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AppDependencies } from "../src/server/app.ts";
import { createApp } from "../src/server/app.ts";
import { prepareDirectory } from "../src/server/prepare-directory.ts";
import { createPolicyPreviewer } from "../src/jobs/policy-previews.ts";
import { createWritePath } from "../src/server/write-path.ts";
import { newPublicId, newSecret as makeSecret, systemTimer } from "../src/clock.ts";
import { listen, closeListener } from "../src/server/listener.ts";
import type { ConnectionOptions, ListenAddress, ServerLimits } from "../src/server/listener.ts";
import { recordEvaluationDecision } from "../src/api/policies/evaluation-decision.ts";
import {
  createPreviewPool,
  createRecordingPool,
  openAnswerReader,
  openCustomTypes,
  openDocuments,
  openEvaluations,
  openLargeJson,
  startEvidenceWorker,
  packageMemory,
  startPackageWorker,
} from "../src/server/worker-threads.ts";
import { urlsFor } from "../src/contract/urls.ts";
import type { Role } from "../src/domain/access.ts";
import type { Timer } from "../src/domain/time.ts";
import { findTargetProblem } from "../src/domain/network/webhook-url.ts";
import { createMemoryBudget, sizeMemoryBudget } from "../src/http/memory/memory-budget.ts";
import type { MemoryBudgetOptions } from "../src/http/memory/memory-budget.ts";
import { createRateLimiter } from "../src/http/rate-limiter.ts";
import type { LoginDependencies } from "../src/auth/login-context.ts";
import { createPasswordHasher } from "../src/auth/password-hashing.ts";
import { createLogger } from "../src/log.ts";
import { ringAtOnce } from "../src/demo/server.ts";
import { createCommitSync, openLogSync } from "../src/store/db/commit-sync.ts";
import { openDatabase, openMemory } from "../src/store/db/database.ts";
import { openFileWatch } from "../src/store/db/file-watch.ts";
import { keyDigest } from "../src/store/accounts/api-keys.ts";
import type { Sender } from "../src/notifications/sender.ts";
import type { WebhookKind } from "../src/store/notifications/inbound-webhooks.ts";
import { findWriteLockHolder } from "../src/store/db/wal.ts";
import { openStore } from "../src/store/index.ts";
import type { ClockReport } from "../src/server/clock-watch.ts";
import { createReadiness } from "../src/server/readiness.ts";
import { createDiskGuard } from "../src/server/disk-guard.ts";
import type { S3Store } from "../src/evidence/s3-store.ts";
import { createConcurrencyLimit } from "../src/workers/concurrency-limit.ts";
import { openLocalStore } from "../src/evidence/local-store.ts";
import { createEvidenceReader } from "../src/evidence/reader.ts";
import { createCombinedReader } from "../src/evidence/small-evidence.ts";
import { createUploads } from "../src/evidence/uploads.ts";
import { createPackageMaker } from "../src/audit-packages/package-maker.ts";
import type { Db } from "../src/store/db/types.ts";

/** Start of the test clock: 2023-11-14T22:13:20Z. */
export const EPOCH = 1_700_000_000;

/** Creating an empty database takes milliseconds, copying its image a fraction of one. */
let image: Buffer | null = null;
function openEmptyDatabase(): Db {
  image ??= openMemory().serialize();
  return openMemory(image);
}

export type Answer<T = any> = { status: number; body: T; text: string; headers: Headers };
export type Part = {
  json?: unknown;
  file?: { name: string; filename: string; content: string | Buffer; type?: string };
  field?: string;
};
export type CallOptions = {
  key?: string | null;
  body?: unknown;
  form?: Part;
  headers?: Record<string, string>;
  raw?: string | FormData | Uint8Array<ArrayBuffer>;
};

export type TestServer = Awaited<ReturnType<typeof startServer>>;

/** The result of `image()`: a server started from it has the same rows and evidence. */
export type ServerImage = { database: Buffer; directory: string; at: number };

/** Network options; by default a free port of 127.0.0.1, without base path or proxies. */
export type Network = {
  address?: ListenAddress;
  limits?: ServerLimits;
  connections?: ConnectionOptions;
  basePath?: string;
  followsProxies?: boolean;
};

export type ServerOptions = {
  network?: Network;
  limits?: Partial<typeof LIMITS>;
  /** Sizes of the memory budget; as for a gigabyte of memory unless given. */
  memory?: Partial<MemoryBudgetOptions>;
  /** Rings for clients that do not read; that of the system unless given. */
  unreadTimer?: AppDependencies["unreadTimer"];
  /**
   * Data directory, kept when the server stops. The database is a file there, as in production, which worker threads
   * need. Without it the database is in memory, and there are no audit packages.
   */
  directory?: string;
  /** Milliseconds that a package waits for memory. */
  patience?: number;
  /** Rows and evidence to start with; none unless given. */
  from?: ServerImage;
  logins?: Partial<LoginDependencies>;
  baseUrl?: string;
  /** Puts something between the stores and the database. */
  wrapDatabase?: (db: Db) => Db;
  /** No limits unless given. */
  rates?: Partial<AppDependencies["rates"]>;
  /** No metrics unless given. */
  metrics?: AppDependencies["metrics"];
  /** Makes the public ids of records from the time; by default they differ in every run. */
  newId?: (now: number) => string;
  /** Makes keys and other secrets; by default they differ in every run. */
  newSecret?: () => string;
  /** Seconds by which each reading of the clock advances it; 1 unless given. */
  clockStep?: number;
  /** Makes commits durable, and calls back; by default the disk does. */
  sync?: Parameters<typeof createCommitSync>[0];
  /** Whether large reports are recorded in a thread, as in production; only with a directory. */
  hasRecordingThread?: boolean;
  /**
   * Serves every request through all middleware (src/http/short-way.ts); unless given, that is decided by
   * ASSAY_TEST_LONG_WAY=1 in the environment, with which the whole suite passes too.
   */
  allTheLongWay?: boolean;
  /** Sends messages of actions; without it they stay in the outbox. */
  sender?: Sender;
  /** Limits of Rego evaluations; the defaults unless given. */
  rego?: { regoTime?: number; regoMemory?: number };
  /** Timers of live updates, of the watchdog and of Rego evaluations; those of the system unless given. */
  liveTimer?: Timer;
  regoTimer?: Timer;
  watchdogTimer?: Timer;
  /** Opens remote evidence storage in place of the local directory. */
  openRemoteEvidence?: (staging: string) => S3Store;
};

export async function startServer(options: ServerOptions = {}) {
  const { network = {} } = options;
  const directory = options.directory ?? mkdtempSync(join(tmpdir(), "assay-test-"));
  if (options.from) cpSync(options.from.directory, directory, { recursive: true });
  if (options.from && options.directory !== undefined)
    writeFileSync(join(directory, "assay.db"), options.from.database);
  const { evidence: evidenceRoot, staging } = prepareDirectory(directory);
  const { clockStep = 1, newSecret = makeSecret } = options;
  const clock = { at: options.from?.at ?? EPOCH, step: clockStep };
  const sources = { now: () => (clock.at += clock.step), newId: () => options.newId?.(clock.at) ?? newPublicId() };
  const opened =
    options.directory !== undefined
      ? openDatabase(directory, EPOCH)
      : options.from
        ? openMemory(options.from.database)
        : openEmptyDatabase();
  const db = options.wrapDatabase?.(opened) ?? opened;
  const store = openStore(db, sources);
  const remote = options.openRemoteEvidence?.(staging) ?? null;
  const repairs: string[] = [];
  const onRepair = (digest: string): void => void repairs.push(digest);
  const evidenceStore = remote ?? openLocalStore({ directory: evidenceRoot, staging, ids: newPublicId, onRepair });
  const uploads = createUploads({
    store: evidenceStore,
    isReferenced: store.evidenceLocation.isReferenced,
    onFailure(error) {
      throw error;
    },
  });
  const files = remote ?? createEvidenceReader({ root: evidenceRoot, start: startEvidenceWorker });
  const reader = createCombinedReader(store.smallEvidence, files);
  const customTypes = openCustomTypes();
  const largeJson = openLargeJson(createConcurrencyLimit(1));
  const documents = openDocuments();
  const memory = createMemoryBudget({ ...sizeMemoryBudget(1 << 30, LIMITS), ...options.memory });
  const packages = createPackageMaker({
    data: { directory, evidence: evidenceRoot, staging },
    remote,
    start: startPackageWorker,
    acquireMemory: packageMemory(memory.threads),
    ...(options.patience === undefined ? {} : { maxWaitingMs: options.patience }),
  });
  const answerReader =
    options.directory === undefined ? null : openAnswerReader({ directory, staging, reserveBytes: 0 });
  const previewPool = options.directory === undefined ? null : createPreviewPool(directory);
  const lines: string[] = [];
  const logger = createLogger({ level: "info", destination: { write: (line: string) => void lines.push(line) } });
  // The runner reads the clock without advancing it, so that background work does not change the times that tests
  // expect.
  const right: ClockReport = { state: "right", problem: null };
  const disk = {
    free: Infinity,
    fails: false,
    missing: 0,
    problem: null as string | null,
    clock: right,
    isEvidenceReachable: null as boolean | null,
  };
  const watched = options.directory === undefined ? null : openFileWatch(db, directory);
  const diskGuard = createDiskGuard({
    files: watched,
    reserveBytes: 1_000_000,
    logger,
    onWritable: () => runner.wake(),
    measureFreeBytes: async () => disk.free,
    countMissingCommits: () => disk.missing,
    probeWrite: async () => {
      if (disk.fails) throw Object.assign(new Error("input/output error"), { code: "EIO" });
    },
  });
  const recordingPool =
    options.directory !== undefined && options.hasRecordingThread === true
      ? createRecordingPool(options.directory)
      : null;
  const logSync = options.directory === undefined ? null : openLogSync(db, directory);
  const sync = options.sync ?? logSync?.sync;
  const { writer, recorder, runner } = createWritePath({
    ...(sync ? { sync: createCommitSync(sync, throwError) } : {}),
    guard: diskGuard,
    db,
    store,
    logger,
    now: () => clock.at,
    timer: options.sender ? ringAtOnce : () => () => undefined,
    pool: recordingPool,
    sender: options.sender ?? null,
    urls: () => urlsFor("http://assay.test"),
    findLockHolder: () => findWriteLockHolder(directory),
  });
  const passwords = createPasswordHasher(CHEAP_SCRYPT);
  const rego = openEvaluations(options.directory === undefined ? null : directory, {
    ...{ store, writer, logger, now: () => clock.at, timer: options.regoTimer ?? systemTimer },
    evidence: { ...uploads, open: (file, range) => reader.open({ ...file, ...range }) },
    limits: { regoTime: 20, regoMemory: 256 << 20, ...options.rego },
    recordDecision: recordEvaluationDecision(store),
    available: 1 << 30,
  });
  const app = createApp({
    onRepair,
    db,
    store,
    writer,
    recorder,
    runner,
    diskGuard,
    sources,
    newSecret,
    logger,
    readiness: createReadiness({
      db,
      storageProblem: async () => disk.problem,
      readOnlyReason: diskGuard.readOnlyReason,
      lockReport: () => writer.lockReport(),
      clock: () => disk.clock,
      isEvidenceReachable: () => disk.isEvidenceReachable,
    }),
    evidence: { ...uploads, open: (file, range) => reader.open({ ...file, ...range }) },
    customTypes,
    largeJson,
    documents,
    policyPreviews: createPolicyPreviewer({ store, pool: previewPool }),
    rego,
    packages,
    answerReader,
    limits: { ...LIMITS, ...options.limits },
    memory,
    ...(options.unreadTimer ? { unreadTimer: options.unreadTimer } : {}),
    logins: {
      passwords,
      provider: null,
      mapping: [],
      setup: null,
      idleTimeoutS: 28_800,
      lifetimeS: 604_800,
      attempts: createRateLimiter({ burst: 10, perSeconds: 900, now: () => clock.at }),
      ...options.logins,
    },
    baseUrl: options.baseUrl ?? "http://assay.test",
    basePath: network.basePath ?? null,
    followsProxies: network.followsProxies ?? false,
    targetProblem: (target) => findTargetProblem(target, []),
    checkResponses: true,
    allTheLongWay: options.allTheLongWay ?? process.env["ASSAY_TEST_LONG_WAY"] === "1",
    rates: { address: null, key: null, now: () => 0, ...options.rates },
    metrics: options.metrics ?? null,
    ...(options.liveTimer ? { liveTimer: options.liveTimer } : {}),
    ...(options.watchdogTimer ? { watchdogTimer: options.watchdogTimer } : {}),
  });
  const { server, url } = await listen(app, network.address ?? { host: "127.0.0.1", port: 0 }, {
    limits: network.limits ?? AMPLE,
    ...network.connections,
  });

  const createUserKey = (name: string): string => {
    const key = newSecret();
    const user = store.users.find(name);
    const id = user?.id ?? store.users.create({ name, displayName: "", email: null });
    store.apiKeys.create({ userId: id }, { digest: keyDigest(key), description: "test", expiresAt: 0 });
    return key;
  };

  /** Creates what a test starts from. Names that are not given are fresh. */
  const given = {
    /** Creates an organization with an admin; returns its name and the admin's key. */
    org(fields: { name?: string; public?: boolean; kind?: "shared" | "personal"; controls?: boolean } = {}): {
      org: string;
      key: string;
    } {
      const name = fields.name ?? fresh("org");
      const id = store.organizations.create({
        name,
        kind: fields.kind ?? "shared",
        isPublic: fields.public ?? false,
        controlsEnabled: fields.controls ?? true,
      });
      const admin = `${name}-admin`;
      const key = createUserKey(admin);
      store.organizations.setRole(id, store.users.find(admin) as { id: number; name: string }, {
        role: "admin",
        changedBy: "test",
      });
      return { org: name, key };
    },
    /** Creates a user with that role in the organization, or a non-member for null; returns its key. */
    user(org: string, role: Role | null): string {
      const name = fresh("user");
      const key = createUserKey(name);
      const organization = store.organizations.find(org);
      if (role && organization)
        store.organizations.setRole(organization.id, store.users.find(name) as { id: number; name: string }, {
          role,
          changedBy: "test",
        });
      return key;
    },
    /** Creates a service account of the organization; returns its key. */
    serviceAccount(org: string, privilege: Role): string {
      const organizationId = (store.organizations.find(org) as { id: number }).id;
      const serviceAccountId = store.serviceAccounts.create({
        organizationId,
        name: fresh("bot"),
        description: null,
        privilege,
        creatingUserId: "",
      });
      const key = newSecret();
      store.apiKeys.create({ serviceAccountId }, { digest: keyDigest(key), description: "test", expiresAt: 0 });
      return key;
    },
    /** Creates an inbound webhook, with the service account that acts for it (`KIND-webhook`, a member). */
    webhook(
      org: string,
      kind: WebhookKind,
      fields: { id?: string; settings?: object } = {},
    ): { kind: WebhookKind; id: string; secret: string; account: number } {
      const organizationId = (store.organizations.find(org) as { id: number }).id;
      const account = store.serviceAccounts.create({
        organizationId,
        name: `${kind}-webhook`,
        description: null,
        privilege: "member",
        creatingUserId: "",
        forWebhook: true,
      });
      const hook = { kind, id: fields.id ?? newSecret(), secret: newSecret(), account };
      const settings = fields.settings ?? (kind === "sonar" ? { from: "key", prefix: "", suffix: "" } : {});
      store.inboundWebhooks.create({
        publicId: hook.id,
        organizationId,
        kind,
        secret: hook.secret,
        serviceAccountId: account,
        settings,
      });
      return hook;
    },
    /** Creates a flow, with a template (YAML) if given; returns its name. */
    async flow(at: { org: string; key: string }, fields: { name?: string; template?: string } = {}): Promise<string> {
      const name = fields.name ?? fresh("flow");
      const answer = await call("PUT", `/flows/${at.org}/template_file`, {
        key: at.key,
        form: {
          json: { name, description: "" },
          ...(fields.template === undefined
            ? {}
            : { file: { name: "template_file", filename: "template.yml", content: fields.template } }),
        },
      });
      if (answer.status !== 201) throw new Error(`given.flow: ${answer.status} ${answer.text}`);
      return name;
    },
    /** Reports a trail, with a template (YAML) of its own if given; returns its name. */
    async trail(
      at: { org: string; key: string },
      { flow, template, ...fields }: { flow: string; name?: string; template?: string; [field: string]: unknown },
    ): Promise<string> {
      const name = fields.name ?? fresh("trail");
      const file =
        template === undefined ? {} : { file: { name: "template_file", filename: "template.yml", content: template } };
      await requireSuccess(
        "trail",
        call("PUT", `/trails/${at.org}/${flow}`, { key: at.key, form: { json: { ...fields, name }, ...file } }),
      );
      return name;
    },
    /**
     * Reports an artifact; returns its fingerprint. `trail` null reports it to the flow only. `name` is its name in the
     * template, `commit` its commit; all other fields are sent unchanged.
     */
    async artifact(
      at: { org: string; key: string },
      {
        flow,
        trail,
        name,
        commit,
        ...fields
      }: {
        flow: string;
        trail: string | null;
        name?: string;
        commit?: string;
        fingerprint?: string;
        [field: string]: unknown;
      },
    ): Promise<string> {
      const fingerprint = fields.fingerprint ?? freshFingerprint();
      const body = {
        filename: name ?? "artifact",
        git_commit: commit ?? freshCommit(),
        build_url: "https://ci.test/1",
        commit_url: "https://git.test/1",
        trail_name: trail,
        template_reference_name: name,
        ...fields,
        fingerprint,
      };
      await requireSuccess("artifact", call("POST", `/artifacts/${at.org}/${flow}`, { key: at.key, body }));
      return fingerprint;
    },
    /**
     * Reports an attestation; returns its id. It is a compliant `generic` one unless `kind` is given. `name`, `target`,
     * `fingerprint` and `commit` are short for the API's fields, `file` is the evidence; all other fields are sent
     * unchanged.
     */
    async attestation(
      at: { org: string; key: string },
      report: {
        flow: string;
        trail: string;
        kind?: string;
        name?: string;
        target?: string;
        fingerprint?: string;
        commit?: string;
        file?: Part["file"] | undefined;
        [field: string]: unknown;
      },
    ): Promise<string> {
      const { flow, trail, kind = "generic", name, target, fingerprint, commit, file, ...fields } = report;
      const json = {
        attestation_name: name ?? fresh("attestation"),
        ...(kind === "generic" ? { is_compliant: true } : {}),
        ...(target === undefined ? {} : { target_artifacts: [target] }),
        ...(fingerprint === undefined ? {} : { artifact_fingerprint: fingerprint }),
        ...(commit === undefined ? {} : { git_commit_info: { sha1: commit } }),
        ...fields,
      };
      const path = `/attestations/${at.org}/${flow}/trail/${trail}/${kind}`;
      const body = kind === "override" ? { body: json } : { form: { json, ...(file ? { file } : {}) } };
      await requireSuccess("attestation", call("POST", path, { key: at.key, ...body }));
      const { body: newest } = await call("GET", `/attestations/${at.org}?per_page=1`, { key: at.key });
      return newest.data[0].attestation_id;
    },
    /** Creates a control; returns its identifier. */
    async control(
      at: { org: string; key: string },
      fields: { identifier?: string; name?: string; description?: string; links?: Record<string, string> } = {},
    ): Promise<string> {
      const identifier = fields.identifier ?? fresh("control");
      await requireSuccess(
        "control",
        call("POST", `/controls/${at.org}`, { key: at.key, body: { name: identifier, ...fields, identifier } }),
      );
      return identifier;
    },
    /** Creates a policy or adds a version: `yaml` without its `_schema` line, null for no version. Returns its name. */
    async policy(
      at: { org: string; key: string },
      { name = fresh("policy"), yaml }: { name?: string; yaml: string | null },
    ): Promise<string> {
      const file =
        yaml === null
          ? {}
          : {
              file: {
                name: "policy_file",
                filename: "policy.yml",
                content: `_schema: https://assay.example.com/schemas/policy/v1\n${yaml}`,
              },
            };
      await requireSuccess(
        "policy",
        call("PUT", `/policies/${at.org}`, {
          key: at.key,
          form: { field: "payload", json: { name, type: "env" }, ...file },
        }),
      );
      return name;
    },
    /** Creates an environment of type K8S, or a logical one with `members`; other fields are sent unchanged. */
    async environment(
      at: { org: string; key: string },
      {
        name = fresh("environment"),
        members,
        ...fields
      }: { name?: string; type?: string; policies?: string[]; members?: string[]; [field: string]: unknown } = {},
    ): Promise<string> {
      const kind = members === undefined ? { type: "K8S" } : { type: "logical", included_environments: members };
      await requireSuccess(
        "environment",
        call("PUT", `/environments/${at.org}`, { key: at.key, body: { name, description: "", ...kind, ...fields } }),
      );
      return name;
    },
  };

  async function requireSuccess(what: string, answering: Promise<Answer>): Promise<void> {
    const { status, text } = await answering;
    if (status !== 200 && status !== 201) throw new Error(`given.${what}: ${status} ${text}`);
  }

  /** Sends a request. `path` is below the API root; `//ready` means `/ready` at the host root. */
  async function call<T = any>(method: string, path: string, options: CallOptions = {}): Promise<Answer<T>> {
    const target = path.startsWith("//") ? url + path.slice(1) : `${url}/api/v2${path}`;
    const headers: Record<string, string> = { ...options.headers };
    if (options.key) headers["Authorization"] ??= `Bearer ${options.key}`;
    let body: string | FormData | Uint8Array<ArrayBuffer> | undefined = options.raw;
    if (options.body !== undefined) {
      headers["Content-Type"] ??= "application/json; charset=utf-8";
      body = JSON.stringify(options.body);
    } else if (options.form) body = formData(options.form);
    const response = await fetch(target, {
      method,
      headers,
      redirect: "manual",
      ...(body === undefined ? {} : { body }),
    });
    const text = await response.text();
    const isJson = response.headers.get("Content-Type")?.startsWith("application/json") ?? false;
    return { status: response.status, body: (isJson ? JSON.parse(text) : null) as T, text, headers: response.headers };
  }

  return {
    url,
    server,
    db,
    store,
    writer,
    runner,
    rego,
    passwords,
    diskGuard,
    disk,
    evidenceStore: evidenceStore,
    /** The digests of damaged evidence that uploads replaced. */
    repairs,
    directory,
    clock,
    newId: sources.newId,
    newSecret,
    lines,
    memory,
    given,
    call,
    /** A starting point for further servers; this one must not stop before they have started. */
    image: (): ServerImage => ({ database: db.serialize(), directory, at: clock.at }),
    /**
     * Resolves when no Rego evaluation waits or runs, and no job is due. A test that advances the clock calls this: no
     * timer runs jobs.
     */
    async settled(): Promise<void> {
      await rego.evaluator.whenIdle();
      await runner.whenIdle();
    },
    /** Stops the server and removes its files. Call it in `after`. */
    async stop(): Promise<void> {
      await closeListener(server, 2);
      await runner.close();
      await rego.close();
      await writer.idle();
      await previewPool?.close();
      await recordingPool?.close();
      await answerReader?.close();
      await packages.close();
      if (files !== remote) await files.close();
      await customTypes.close();
      await largeJson.close();
      await documents.close();
      await evidenceStore.close();
      logSync?.close();
      db.close();
      watched?.close();
      if (options.directory === undefined) rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** Fast hashing: passwords of tests are not secret. */
export const CHEAP_SCRYPT = { cost: 16, block_size: 8, parallelism: 1 };

const LIMITS = {
  json: 32 << 20,
  form: 10 << 20,
  document: 10 << 20,
  evidence: 100 << 20,
  smallEvidence: 65_536,
  // Ample, as AMPLE. Of a longer one the watchdog would wait for twice as long, instead of ten minutes.
  stallTimeoutS: 300,
  lingerS: 60,
};

/** Time limits of a server that no test reaches, however busy the machine is. */
export const AMPLE: ServerLimits = { headerTimeout: 600, requestTimeout: 600 };

/** A form as clients send it: the JSON as a plain field (`data_json` unless given), the file with a filename. */
export function formData(part: Part): FormData {
  const form = new FormData();
  if (part.json !== undefined)
    form.append(part.field ?? "data_json", typeof part.json === "string" ? part.json : JSON.stringify(part.json));
  if (part.file) {
    const content = typeof part.file.content === "string" ? part.file.content : new Uint8Array(part.file.content);
    form.append(
      part.file.name,
      new File([content], part.file.filename, { type: part.file.type ?? "application/octet-stream" }),
    );
  }
  return form;
}

const throwError = (error: Error): never => {
  throw error;
};

let counter = 0;
/** A name that no other test uses. */
export const fresh = (kind: string): string => `${kind}-${++counter}`;
/** A fingerprint that no other test uses. */
export const freshFingerprint = (): string => (++counter).toString(16).padStart(64, "a");
/** A commit that no other test uses. */
export const freshCommit = (): string => (++counter).toString(16).padStart(40, "c");
