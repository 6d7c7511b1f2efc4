/**
 * A server for stories: the application over a database in memory, with a clock that can be set.
 * Nothing listens, and nothing leaves: requests come through streams within this process, and messages of actions count
 * as sent. It is composed apart from the server of an installation, which can therefore never be given such a clock.
 */
import { once } from "node:events";
import { createServer, request as sendRequest } from "node:http";
import type { IncomingMessage, Server } from "node:http";
import { duplexPair } from "node:stream";
import { text as readText } from "node:stream/consumers";
import { createPasswordHasher } from "../auth/password-hashing.ts";
import { newPublicId, newSecret } from "../clock.ts";
import { urlsFor } from "../contract/urls.ts";
import { findTargetProblem } from "../domain/network/webhook-url.ts";
import { MB } from "../domain/text/units.ts";
import type { Timer } from "../domain/time.ts";
import { openLocalStore } from "../evidence/local-store.ts";
import { createEvidenceReader } from "../evidence/reader.ts";
import { createUploads } from "../evidence/uploads.ts";
import { createMemoryBudget, sizeMemoryBudget } from "../http/memory/memory-budget.ts";
import { createRateLimiter } from "../http/rate-limiter.ts";
import { createPolicyPreviewer } from "../jobs/policy-previews.ts";
import { createLogger } from "../log.ts";
import { outcome } from "../notifications/outcome.ts";
import type { Sender } from "../notifications/sender.ts";
import { createApp } from "../server/app.ts";
import { processMemory } from "../server/process-memory.ts";
import { openCustomTypes, openDocuments, openLargeJson, startEvidenceWorker } from "../server/worker-threads.ts";
import { createWritePath } from "../server/write-path.ts";
import { openMemory } from "../store/db/database.ts";
import { openStore } from "../store/index.ts";
import { createConcurrencyLimit } from "../workers/concurrency-limit.ts";
import { FAILING_HOST } from "./acme/actions.ts";
import { SERVER_URL } from "./steps.ts";
import type { StoryForm, DemoServer, DemoRequest } from "./steps.ts";

/** Connects to nothing: every message arrives, but for those to one receiver. */
export const DEMO_SENDER: Sender = {
  send: async ({ target_json }) =>
    target_json.includes(FAILING_HOST)
      ? outcome("refused", "The receiver answered 410 Gone", { status: 410 })
      : outcome("accepted", null, { status: 200 }),
  close: () => undefined,
};

/** A timer for pauses within a piece of work, such as between messages; longer ones never end. */
export const ringAtOnce: Timer = (seconds, ring) => {
  const immediate = seconds < 1 ? setImmediate(ring) : undefined;
  return () => clearImmediate(immediate);
};

type OpenedDemoServer = DemoServer & {
  /** The bytes of the database file. */
  image(): Buffer;
  close(): Promise<void>;
};

/** Where evidence would go that is too large for the database. */
type EvidencePaths = { evidence: string; staging: string };

/**
 * Opens an empty server for a story. Each reading of its clock advances that by a second, so that records differ in
 * their times.
 */
export function openDemoServer({ evidence: directory, staging }: EvidencePaths): OpenedDemoServer {
  const clock = { at: 0 };
  const sources = { now: () => (clock.at += 1), newId: newPublicId };
  const db = openMemory();
  const store = openStore(db, sources);
  const logger = createLogger({ level: "fatal" });
  const writePath = createWritePath({
    db,
    store,
    logger,
    now: () => clock.at,
    timer: ringAtOnce,
    pool: null,
    sender: DEMO_SENDER,
    urls: () => urlsFor(SERVER_URL),
  });
  const { writer, runner } = writePath;
  const evidence = openLocalStore({ directory, staging, ids: newPublicId });
  const uploads = createUploads({
    store: evidence,
    isReferenced: store.evidenceLocation.isReferenced,
    onFailure(error) {
      throw error;
    },
  });
  const reader = createEvidenceReader({ root: directory, start: startEvidenceWorker });
  const workers = {
    customTypes: openCustomTypes(),
    documents: openDocuments(),
    largeJson: openLargeJson(createConcurrencyLimit(1)),
  };
  const app = createApp({
    ...writePath,
    ...workers,
    ...idleParts(),
    db,
    store,
    sources,
    newSecret,
    logger,
    evidence: { ...evidence, ...uploads, open: (file, range) => reader.open({ ...file, ...range }) },
    memory: createMemoryBudget(sizeMemoryBudget(processMemory(), LIMITS)),
    policyPreviews: createPolicyPreviewer({ store, pool: null }),
  });
  const server = createServer(app.callback());
  return {
    store,
    clock,
    newId: newPublicId,
    newSecret,
    writer,
    call: (method, path, sent) => exchange(server, { method, path: `/api/v2${path}`, ...sent }),
    settled: () => runner.whenIdle(),
    image: () => db.serialize(),
    async close() {
      await runner.close();
      await writer.idle();
      await Promise.all([...Object.values(workers), reader, evidence].map((part) => part.close()));
      db.close();
    },
  };
}

const LIMITS = {
  json: 32 * MB,
  form: 10 * MB,
  document: 10 * MB,
  evidence: MB,
  smallEvidence: MB,
  stallTimeoutS: 10,
  lingerS: 5,
};

const neverAsked = (): never => {
  throw new Error("a story asks for no files and pages");
};

/** Parts of an application that a story does not use. */
const idleParts = () => ({
  baseUrl: SERVER_URL,
  limits: LIMITS,
  onRepair: () => undefined,
  answerReader: null,
  rego: {
    check: neverAsked,
    documents: {
      stage: neverAsked,
      sizeOf: neverAsked,
      open: neverAsked,
      openUnpacked: neverAsked,
      read: neverAsked,
    },
    evaluator: { hasRoom: neverAsked, submit: neverAsked, waitFor: neverAsked },
    packInput: neverAsked,
  },
  packages: { open: neverAsked, report: neverAsked, close: async () => undefined },
  readiness: neverAsked,
  diskGuard: { readOnlyReason: () => null, ensureWritable: () => undefined, reportFailure: () => undefined },
  targetProblem: (url: string) => findTargetProblem(url, []),
  checkResponses: false,
  rates: { address: null, key: null, now: () => 0 },
  metrics: null,
  logins: {
    passwords: createPasswordHasher(),
    provider: null,
    mapping: [],
    setup: null,
    attempts: createRateLimiter({ burst: 1, perSeconds: 1, now: () => 0 }),
    idleTimeoutS: 1,
    lifetimeS: 1,
  },
});

/** Sends one request to a server that does not listen, over a connection within this process. */
async function exchange(
  server: Server,
  { method, path, key, body, form }: DemoRequest & { method: string; path: string },
): Promise<{ status: number; body: unknown; text: string }> {
  const [near, far] = duplexPair();
  server.emit("connection", far);
  const [type, bytes] = form ? [`multipart/form-data; boundary=${BOUNDARY}`, formBytes(form)] : jsonBytes(body);
  const sending = sendRequest({
    createConnection: () => near,
    host: "localhost",
    method,
    path,
    headers: {
      Authorization: `Bearer ${key}`,
      ...(bytes === null ? {} : { "Content-Type": type, "Content-Length": bytes.length }),
    },
  });
  sending.end(bytes ?? undefined);
  const [answer] = (await once(sending, "response")) as [IncomingMessage];
  const text = await readText(answer);
  near.destroy();
  const isJson = answer.headers["content-type"]?.startsWith("application/json") ?? false;
  return { status: answer.statusCode ?? 0, body: isJson ? JSON.parse(text) : null, text };
}

const jsonBytes = (body: unknown): [string, Buffer | null] => [
  "application/json",
  body === undefined ? null : Buffer.from(JSON.stringify(body)),
];

const BOUNDARY = "a-part-of-the-story";

/** A form as browsers write it; no content of the story contains the boundary. */
function formBytes({ json, file, field = "data_json" }: StoryForm): Buffer {
  const head = (text: string): string => `--${BOUNDARY}\r\nContent-Disposition: form-data; ${text}\r\n\r\n`;
  const pieces: (string | Buffer)[] = [];
  if (json !== undefined) pieces.push(head(`name="${field}"`), JSON.stringify(json), "\r\n");
  if (file) {
    const type = file.type ?? "application/octet-stream";
    pieces.push(
      head(`name="${file.name}"; filename="${file.filename}"\r\nContent-Type: ${type}`),
      file.content,
      "\r\n",
    );
  }
  pieces.push(`--${BOUNDARY}--\r\n`);
  return Buffer.concat(pieces.map((piece) => (typeof piece === "string" ? Buffer.from(piece) : piece)));
}
