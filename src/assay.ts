/**
 * The composition root: how opened parts become an application that listens. The packaged program (serve.ts opens the parts
 * and closes them), the command line and the tests put the server together here and nowhere else.
 */
import { createHmac, randomBytes, randomUUID, timingSafeEqual } from "node:crypto";
import { mkdirSync } from "node:fs";
import { createServer } from "node:http";
import type { RequestListener, Server, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { Worker } from "node:worker_threads";
import type { WorkerOptions } from "node:worker_threads";
import Koa from "koa";
import { workerEntry } from "./assets.ts";
import { contextFactory } from "./api/kit.ts";
import type { Context, OrgMembership } from "./api/kit.ts";
import type { EvidenceReader } from "./api/evidence.ts";
import { operations } from "./api/index.ts";
import { urlsFor } from "./api/urls.ts";
import type { Urls } from "./api/urls.ts";
import type { Feature } from "./domain/access.ts";
import type { Timer } from "./domain/time.ts";
import { AppError } from "./errors.ts";
import type { BodyLimits } from "./http/body.ts";
import { pathOf, refuseBroken } from "./http/broken.ts";
import type { EvidenceStage } from "./http/form.ts";
import { arrive, mountOperations } from "./http/mount.ts";
import type { Caller, Door, House } from "./http/mount.ts";
import { openApiDocument } from "./http/openapi.ts";
import { probes } from "./http/probes.ts";
import { keyLapses } from "./jobs/api-keys.ts";
import { createDeliverer } from "./jobs/deliveries.ts";
import { jobHandlers, PARALLEL } from "./jobs/handlers.ts";
import { createNotifier } from "./jobs/notify.ts";
import { createRecorder } from "./jobs/recorder.ts";
import type { Recorder, RecordingPool } from "./jobs/recorder.ts";
import { createRunner } from "./jobs/runner.ts";
import type { Runner } from "./jobs/runner.ts";
import { logRequest } from "./log.ts";
import type { Logger } from "./log.ts";
import type { Sender } from "./outgoing/sender.ts";
import { leaveCheckpoints } from "./store/database.ts";
import type { Db, Sources } from "./store/database.ts";
import type { KeyHolder } from "./store/api-keys.ts";
import { WEBHOOK_KINDS } from "./store/inbound-webhooks.ts";
import type { Store } from "./store/index.ts";
import type { OrganizationRow } from "./store/organizations.ts";
import { createUnchanged } from "./store/unchanged.ts";
import type { Unchanged } from "./store/unchanged.ts";
import { Writer } from "./store/writer.ts";
import { documentation } from "./ui/documentation.ts";
import type { CustomTypeResult, JqTask, SchemaTask } from "./workers/custom-type-worker.ts";
import { createCustomTypes } from "./workers/custom-types.ts";
import type { CustomTypes } from "./workers/custom-types.ts";
import { createPool } from "./workers/pool.ts";
import type { PackageMaker } from "./workers/packages.ts";
import type { RecordingWorkerData } from "./workers/recording-worker.ts";

/**
 * 8-4-4-4-8 hex: a UUID without its last four digits (semantics 1.9). Of version 7: it begins with the time in milliseconds,
 * so that new rows meet on the last page of an index of ids instead of each on a page of its own. It names, and is no secret.
 */
export function newPublicId(): string {
  const time = Date.now().toString(16).padStart(12, "0");
  const random = randomUUID();
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(15, 32)}`;
}

/** A new API key: 256 random bits in 43 characters that need no escaping anywhere. */
export const newSecret = (): string => randomBytes(32).toString("base64url");

export const systemSources: Sources = { now: () => Date.now() / 1000, newId: newPublicId };

/** Does not keep a process alive. */
export const systemTimer: Timer = (seconds, ring) => {
  const timeout = setTimeout(ring, seconds * 1000).unref();
  return () => clearTimeout(timeout);
};

/**
 * Everything that writes: the writer, the recorder of large reports, and the runner of the jobs that writes ask for, which every
 * commit that added one wakes. `pool` is the recording thread, null over a database in memory, which no thread can share; `sender` null
 * leaves messages to the outside where they are; `urls` is asked once the server listens.
 */
export function createWriting(parts: {
  db: Db; store: Store; now(): number; timer: Timer; logger: Logger; pool: RecordingPool | null; sender: Sender | null; urls(): Urls;
}) {
  const { db, store, pool, sender, urls, ...rest } = parts;
  const writer: Writer = new Writer(db, (writes) => {
    if (store.jobs.wereAdded()) runner.wake();
    recorder.committed(writes);
  });
  const recorder = createRecorder({ store, writer, now: parts.now, pool, jobsAdded: () => runner.wake() });
  if (pool) leaveCheckpoints(db);
  const deliver = sender && createDeliverer({ ...rest, store, sender });
  const handlers = jobHandlers({ ...recorder, ...keyLapses({ store, writer }), ...createNotifier({ store, links: urls }), deliver });
  const runner = createRunner({ ...rest, store, writer, handlers, parallel: PARALLEL, gather: GATHER });
  return { writer, recorder, runner };
}

/** Seconds. Nobody waits for the end of a job to the tenth of a second, and a commit may take a hundredth. */
const GATHER = 0.05;

export type Parts = {
  db: Db;
  store: Store;
  writer: Writer;
  recorder: Recorder;
  runner: Runner;
  sources: Sources;
  evidence: EvidenceStage & EvidenceReader;
  customTypes: CustomTypes;
  packages: PackageMaker;
  limits: BodyLimits;
  baseUrl: string;
  /** What is wrong with a URL as a target of messages, null when nothing is; names are not resolved. */
  targetProblem(url: string): string | null;
  logger: Logger;
  /** Whether answers are checked against their declared shapes. */
  checkResponses: boolean;
};

/** The Koa application over opened parts. */
export function createApp(parts: Parts): Koa {
  const { store, writer, sources, logger } = parts;
  const urls = urlsFor(parts.baseUrl);
  const unchanged = createUnchanged(parts.db);
  let document: unknown = null;
  const openApi = (): unknown => (document ??= apiDocument(parts.baseUrl));
  const house: House<Context, OrgMembership> = {
    operations,
    limits: parts.limits,
    ...whoIsWho(store, unchanged),
    door: (kind, { hook_uid = "" }) => doorOf(store, kind, hook_uid),
    answers: unchanged,
    context: contextFactory({ store, urls, openApi, evidence: parts.evidence, packages: parts.packages, customTypes: parts.customTypes, recorder: parts.recorder, jobs: parts.runner, now: sources.now, newSecret, targetProblem: parts.targetProblem }),
    read: reading(parts.db),
    write: (work) => writer.run(work),
    audit: (context) => store.audit.append(context.auditEntry()),
    async settle({ pending }) {
      for (const work of pending) await work();
    },
    evidence: parts.evidence,
    newId: newPublicId,
    logRequest(entry, error) {
      const known = error instanceof AppError;
      const bug = error !== null && (!known || error.code === "internal");
      logRequest(logger, known ? { ...entry, error_code: error.code } : bug && entry.status >= 500 ? { ...entry, error_id: entry.request_id } : entry);
      if (bug && entry.status >= 500) logger.error({ request_id: entry.request_id, err: error, internal: known ? error.internal : null }, "unexpected error");
      else if (known && error.internal) logger.info({ request_id: entry.request_id, internal: error.internal }, "refusal");
    },
    checkResponses: parts.checkResponses,
  };
  const app = new Koa();
  app.on("error", (error: Error & { code?: string }) => {
    // A client that closes the connection while its answer is written, or does not read it, is its own business.
    if (error.name !== "StalledError" && error.code !== "EPIPE" && error.code !== "ECONNRESET" && error.code !== "ERR_STREAM_PREMATURE_CLOSE") logger.error({ err: error }, "reply failed");
  });
  const alive = parts.db.prepare("SELECT 1 AS one");
  app.use(probes(() => parts.db.open && alive.get() !== undefined));
  app.use(arrive(house));
  app.use(documentation());
  app.use(mountOperations(house));
  return app;
}

/** The OpenAPI document of a server whose public address is `baseUrl` (without a trailing slash). */
export const apiDocument = (baseUrl: string): unknown =>
  openApiDocument(operations, {
    title: "Assay API",
    description: DESCRIPTION,
    serverUrl: urlsFor(baseUrl).apiRoot,
    license: { name: "Apache-2.0", identifier: "Apache-2.0" },
  });

const DESCRIPTION =
  "Evidence about software delivery: what was built, tested and approved, and the verdicts that follow from it. " +
  "Send an API key as bearer token, or as user name of HTTP basic authentication.";

/** One transaction for all reads of a handler. It also saves each statement the locks of a transaction of its own. */
function reading(db: Db): <T>(work: () => T) => T {
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

/** Who calls, and what they are where, read once for as long as nothing is written. Whether a key's time is over is asked every time. */
function whoIsWho(store: Store, unchanged: Unchanged): Pick<House<Context, OrgMembership>, "authenticate" | "membership" | "isHeld" | "membershipNow"> {
  let state = 0;
  function kept<T>(key: string, read: () => T): T {
    const known = unchanged.get(key) as T | undefined;
    if (known !== undefined) return known;
    const value = read();
    unchanged.keep(key, value, PERSON_CHARACTERS, state);
    return value;
  }
  return {
    authenticate(digest) {
      state = unchanged.refresh();
      const known = kept(`key ${digest}`, () => {
        const holder = store.apiKeys.holder(Buffer.from(digest, "hex"));
        return holder && { holder, caller: callerOf(holder) };
      });
      return known && store.apiKeys.use(known.holder) ? known.caller : null;
    },
    // Right after authenticate, in the same turn.
    membership: (caller, name) => kept(`member ${caller.kind} ${caller.id} ${name}`, () => membershipOf(store, caller, name)),
    // What is read inside a write may be undone yet, so none of it is kept.
    isHeld: (caller) => store.apiKeys.isHeld(caller.keyPublicId),
    membershipNow: (caller, name) => membershipOf(store, caller, name),
  };
}

const PERSON_CHARACTERS = 500;

function callerOf(holder: KeyHolder): Caller {
  const isUser = holder.user_id !== null;
  return {
    kind: isUser ? "user" : "service_account",
    id: (isUser ? holder.user_id : holder.service_account_id) as number,
    publicId: holder.holder_public_id,
    name: holder.name,
    shownName: holder.display_name || holder.name,
    keyPublicId: holder.key_public_id,
  };
}

function membershipOf(store: Store, caller: Caller, name: string): OrgMembership | null {
  const organization = store.organizations.find(name);
  if (!organization) return null;
  let role = null;
  if (caller.kind === "user") role = store.organizations.roleOf(organization.id, caller.id);
  else {
    const account = store.serviceAccounts.get(caller.id);
    role = account.organization_id === organization.id ? account.privilege : null;
  }
  return { organizationId: organization.id, role, isPublic: organization.is_public === 1, features: featuresOf(organization), organization };
}

const featuresOf = ({ controls_enabled }: OrganizationRow): Feature[] => (controls_enabled === 1 ? ["controls"] : []);

/** The door of an inbound webhook. SonarQube and LaunchDarkly both sign with HMAC-SHA256 of the body, in hex. */
function doorOf(store: Store, kind: string, publicId: string): Door<OrgMembership> | null {
  const known = WEBHOOK_KINDS.find((one) => one === kind);
  const hook = known && store.inboundWebhooks.find(known, publicId);
  if (!hook || hook.service_account_id === null) return null;
  const organization = store.organizations.get(hook.organization_id);
  const account = store.serviceAccounts.get(hook.service_account_id);
  return {
    caller: { kind: "service_account", id: account.id, publicId: account.public_id, name: account.name, shownName: account.name, keyPublicId: "" },
    membership: { organizationId: organization.id, role: account.privilege, isPublic: organization.is_public === 1, features: featuresOf(organization), organization },
    organization: organization.name,
    accepts(signature, body) {
      const due = createHmac("sha256", hook.secret).update(body).digest();
      return /^[0-9a-f]{64}$/i.test(signature) && timingSafeEqual(Buffer.from(signature, "hex"), due);
    },
  };
}

export type Listening = { server: Server; url: string };

export type ServerLimits = {
  /** Seconds for the headers of a request. */
  headerTimeout: number;
  /** Seconds for a whole request. */
  requestTimeout: number;
};

/** What a stop must know of a server: its connections, and the answers that are not finished. */
type Traffic = { sockets: Set<Socket>; answers: Set<ServerResponse>; stopping: boolean };
const trafficOf = new WeakMap<Server, Traffic>();

/**
 * Binds the app; only its request handler is asked for, so that who must know the port before they make the app can hand in
 * something that passes requests on.
 * @throws the system's error (EADDRINUSE, EACCES) when the address cannot be had.
 */
export async function listen(app: { callback(): RequestListener }, address: { host: string; port: number }, limits: ServerLimits): Promise<Listening> {
  const handler = app.callback();
  const traffic: Traffic = { sockets: new Set(), answers: new Set(), stopping: false };
  const latest = new WeakMap<Duplex, ServerResponse>();
  const handle: RequestListener = (request, response) => {
    latest.set(request.socket, response);
    request.url = pathOf(request.url ?? "");
    traffic.answers.add(response);
    response.once("close", () => traffic.answers.delete(response));
    if (traffic.stopping) response.setHeader("Connection", "close");
    handler(request, response);
  };
  const timing = {
    headersTimeout: limits.headerTimeout * 1000,
    requestTimeout: limits.requestTimeout * 1000,
    // Node looks for late requests every so often: a limit of 5 seconds should not mean 35.
    connectionsCheckingInterval: Math.min(limits.headerTimeout * 250, 30_000),
  };
  const server = createServer({ ...timing, maxHeaderSize: MAX_HEADER_BYTES }, handle);
  trafficOf.set(server, traffic);
  server.on("connection", (socket: Socket) => {
    traffic.sockets.add(socket);
    socket.once("close", () => traffic.sockets.delete(socket));
  });
  // A client that asks first (`Expect: 100-continue`) is told to go on by body.ts, after it was authorized.
  server.on("checkContinue", handle);
  // Other expectations are met by answering as always.
  server.on("checkExpectation", handle);
  server.on("clientError", (error, socket) => refuseBroken(error, socket, latest.get(socket) ?? null));
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(address.port, address.host, resolve);
  });
  const bound = server.address() as AddressInfo;
  const host = bound.family === "IPv6" ? `[${bound.address}]` : bound.address;
  return { server, url: `http://${host}:${bound.port}` };
}

/** A list query names a thousand commits with 40 digits each in its address; node's own 16 KB would not take them. */
const MAX_HEADER_BYTES = 262_144;

/**
 * Stops taking connections, lets running requests end (at most `patience` seconds), then cuts what is left. Connections
 * that clients only keep open, for a next request or for a first one, delay nothing.
 */
export async function unlisten(server: Server, patience: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  const traffic = trafficOf.get(server);
  if (traffic) {
    traffic.stopping = true;
    for (const answer of traffic.answers) {
      if (!answer.headersSent) answer.setHeader("Connection", "close");
      // Its head promised to keep the connection; by the next turn it is an idle one.
      else answer.once("close", () => setImmediate(() => server.closeIdleConnections()));
    }
    // Node takes a connection for busy until its first request came.
    for (const socket of traffic.sockets) if (socket.bytesRead === 0) socket.destroy();
  }
  server.closeIdleConnections();
  const timer = setTimeout(() => server.closeAllConnections(), patience * 1000);
  await closed;
  clearTimeout(timer);
}

/** Creates the data directory and the ones below it, readable for the owner only. */
export function prepareDirectory(directory: string): { evidence: string; staging: string } {
  for (const path of [directory, join(directory, "evidence"), join(directory, "staging")]) mkdirSync(path, { recursive: true, mode: 0o700 });
  return { evidence: join(directory, "evidence"), staging: join(directory, "staging") };
}

/** Starts the thread that reads evidence. */
export const startEvidenceWorker = (options: WorkerOptions): Worker => startWorker("evidence-worker", options);

/** Starts the thread that makes audit packages; the database must be open already. */
export const startPackageWorker = (options: WorkerOptions): Worker =>
  // What it makes lives for a moment: a small nursery keeps it small.
  startWorker("package-worker", { ...options, resourceLimits: { maxYoungGenerationSizeMb: 4 } });

/** The thread that records large reports on a connection of its own; its database must be open already. */
export const createRecordingPool = (directory: string): RecordingPool =>
  createPool({
    name: "recording",
    size: 1,
    queueLimit: 2,
    // Most of its life it copies the log: a small nursery costs large reports little, and saves ten megabytes and more.
    start: () => startWorker("recording-worker", { workerData: { directory } satisfies RecordingWorkerData, resourceLimits: { maxYoungGenerationSizeMb: 4 } }),
  });

/**
 * What users wrote for their attestation types, compiled and run in threads that are started when they are first needed. Two of a
 * kind: one that somebody's endless rule holds for seconds leaves one for everybody else, and more would take the server's cores.
 */
export function openCustomTypes(): CustomTypes & { close(): Promise<void> } {
  const pool = <Task>(name: string, stackSizeMb: number) =>
    createPool<Task, CustomTypeResult>({
      name,
      size: 2,
      queueLimit: 256,
      laneLimit: 64,
      // One rule may leave a hundred megabytes behind; starting anew takes a tenth of a second.
      keepIdle: 30_000,
      start: () => startWorker("custom-type-worker", { env: {}, resourceLimits: { maxOldGenerationSizeMb: 192, stackSizeMb } }),
    });
  const [schemas, expressions] = [pool<SchemaTask>("schemas of attestation types", SCHEMA_STACK_MB), pool<JqTask>("rules of attestation types", JQ_STACK_MB)];
  return {
    ...createCustomTypes({ schemas, expressions }),
    async close() {
      await Promise.all([schemas.close(), expressions.close()]);
    },
  };
}

/** Schemas become code that nests as deeply as they have properties, and definitions that refer to definitions. */
const SCHEMA_STACK_MB = 16;
/** Deep recursion ends on this stack, with an error, before it fills the one of a megabyte that jq has inside its own memory. */
const JQ_STACK_MB = 1;

/** From its file in a checkout, and from the bundle in an executable. */
function startWorker(name: string, options: WorkerOptions): Worker {
  const entry = workerEntry(name);
  return new Worker(entry.source, { ...options, eval: entry.eval });
}
