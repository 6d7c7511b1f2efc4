/** Rights are checked again where the work happens: rights that end on the way stop it. */
import { createServer } from "node:http";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import Koa from "koa";
import Type from "typebox";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Feature, Role } from "../../src/domain/access.ts";
import { createRequestBoundary } from "../../src/http/request-boundary.ts";
import { createMemoryBudget } from "../../src/http/memory/memory-budget.ts";
import { mountOperations } from "../../src/http/routing/router.ts";
import { operationFor } from "../../src/http/declare-operation.ts";
import { CONFIGURATION_BOUNDS, json } from "../../src/http/operation.ts";
import { Closed } from "../../src/http/schema.ts";
import type { Principal, Membership, RequestContext, ServerContext } from "../../src/http/server-context.ts";

const test = suite("http/authorize");

type Context = RequestContext<Membership>;
const declare = operationFor<Context>();
const OrgPath = Closed({ org: Type.String() });
const UNAUTHENTICATED = { message: "Authentication credentials are missing or invalid" };
const DENIED = { message: "You don't have permission to access this resource" };
const PRINCIPAL: Principal = { kind: "user", id: 1, publicId: "p", name: "n", displayName: "n", keyPublicId: "k" };

let isValid = true;
/** Rises with every look, so that rights are always read anew. */
let version = 0;
let role: Role | null = "admin";
let features: Feature[] = [];
/** Runs in `prepare`, between the body and the write. */
let meanwhile = (): void => undefined;
/** Runs in `prepare` of the operation that stores there, after its write. */
let afterStoring = (): void => undefined;
let done: string[] = [];
/** Runs when evidence is staged. */
let onStaged = (): void => undefined;
const FILE = { part: "evidence_file", description: "Evidence", kind: "evidence" } as const;
const FORM = {
  kind: "form",
  component: "T",
  part: "data_json",
  schema: Closed({}),
  bounds: CONFIGURATION_BOUNDS,
  file: FILE,
} as const;
const common = {
  method: "POST",
  tag: "t",
  summary: "Do it",
  description: "For this test.",
  permission: "org:settings",
  feature: "controls",
  audit: "thing.done",
  params: OrgPath,
  query: Closed({}),
  example: {},
} as const;
const shape = Type.Object({ role: Type.String() });
const handle = (context: Context) => {
  done.push("handled");
  return { status: 200, body: { role: String(context.membership?.role) } } as const;
};
const operations = [
  declare({
    ...common,
    id: "do_it",
    path: "/things/{org}",
    body: json(Closed({})),
    responses: { 200: { description: "Done", schema: shape } },
    prepare: async () => meanwhile(),
    handle,
  }),
  declare({
    ...common,
    id: "store_it",
    path: "/things/{org}/stored",
    body: json(Closed({})),
    responses: { 200: { description: "Done", schema: shape } },
    prepare: async (_context, _input, confirm) => {
      meanwhile();
      done.push(`stored as ${confirm().membership?.role}`);
      afterStoring();
      return true;
    },
    storesInPrepare: true,
    handle,
  }),
  declare({
    ...common,
    id: "attach_it",
    path: "/things/{org}/attached",
    body: FORM,
    responses: { 200: { description: "Done", schema: shape } },
    prepare: async () => undefined,
    handle,
  }),
];
const membership = (): Membership => ({ organizationId: 1, role, isPublic: false, features });
const memory = createMemoryBudget({ total: 3000, bodies: 1000, answers: 1000 });
const serverContext: ServerContext<Context> = {
  operations,
  limits: { json: 1000, form: 1000, document: 1000, evidence: 1000, smallEvidence: 0, stallTimeoutS: 5 },
  authenticate: () => PRINCIPAL,
  findSession: () => null,
  findMembership: membership,
  isCredentialValid: () => isValid,
  readMembership: membership,
  accessVersion: () => ++version,
  findSignedEndpoint: () => null,
  createContext: (request) => request,
  updateContext: (_context, request) => request,
  write: async (work) => work(),
  insertEvidence: () => void done.push("inserted"),
  audit: () => void done.push("audited"),
  afterCommit: async () => undefined,
  read: (work) => work(),
  responseCache: { version: () => 1, get: () => undefined, set: () => undefined },
  answerReader: null,
  databaseState: () => 1,
  evidence: {
    async stage(source) {
      for await (const _chunk of source);
      onStaged();
      return { digest: "d", size: 1, token: "t", content: null };
    },
    async stageBytes() {
      onStaged();
      return { digest: "d", size: 1, token: "t", content: null };
    },
    publishFor: async (_staged, write) => {
      done.push("published");
      return write();
    },
    discard: async (files) => void done.push(...files.map(() => "discarded")),
  },
  bodyBudget: memory.bodies,
  answerBudget: memory.answers,
  watchAnswer: () => () => undefined,
  largeJson: { read: () => Promise.reject(new Error("not here")) },
  ensureWritable: () => undefined,
  noteUnknown: () => undefined,
  noteUnknownRoute: () => Promise.resolve(),
  mapError: (error) => error,
  resolveBaseUrl: () => "http://assay.test",
  newId: () => "id",
  rateLimits: { countAddress: () => undefined, countKey: () => undefined },
  onRequest: () => undefined,
  onHungRequest: () => undefined,
  watchdogTimer: () => () => undefined,
  logRequest: () => undefined,
  durable: () => null,
  checkResponses: true,
};

let server: Server;
let url = "";
test.before(async () => {
  const app = new Koa();
  app.use(createRequestBoundary(serverContext));
  app.use(mountOperations(serverContext));
  server = createServer(app.callback());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/v2`;
});
test.after(() => {
  server.closeAllConnections();
  server.close();
});
test.before.each(() => {
  [isValid, role, features, done] = [true, "admin", ["controls"], []];
  meanwhile = onStaged = afterStoring = () => undefined;
});

async function send(path: string): Promise<[number, unknown]> {
  const response = await fetch(url + path, {
    method: "POST",
    headers: { Authorization: "Bearer key", "Content-Type": "application/json" },
    body: "{}",
  });
  return [response.status, await response.json()];
}

test("a write with valid rights succeeds", async () => {
  assert.equal(
    { send: await send("/things/acme"), done },
    { send: [200, { role: "admin" }], done: ["handled", "audited"] },
  );
});

/** Ways to lose rights, and what a request gets then. */
const LOSSES = [
  [() => (isValid = false), 401, UNAUTHENTICATED],
  [() => (role = "member"), 403, DENIED],
  [() => (role = null), 403, DENIED],
  [() => (features = []), 403, DENIED],
] as const;

test("a revoked key, a lesser role, or a feature that is switched off meanwhile stops the write", async () => {
  for (const [change, status, body] of LOSSES) {
    [isValid, role, features] = [true, "admin", ["controls"]];
    meanwhile = () => void change();
    assert.equal({ send: await send("/things/acme"), done }, { send: [status, body], done: [] });
  }
});

test("a change that `prepare` has stored is answered as stored, and does not start without rights", async () => {
  afterStoring = () => void (isValid = false);
  assert.equal(
    { send: await send("/things/acme/stored"), done },
    { send: [200, { role: "admin" }], done: ["stored as admin", "handled"] },
  );
  done = [];
  assert.equal({ send: await send("/things/acme/stored"), done }, { send: [401, UNAUTHENTICATED], done: [] });
});

test("rights that end while `prepare` works stop the write that it makes", async () => {
  for (const [change, status, body] of LOSSES) {
    [isValid, role, features] = [true, "admin", ["controls"]];
    meanwhile = () => void change();
    assert.equal({ send: await send("/things/acme/stored"), done }, { send: [status, body], done: [] });
  }
});

test("staged evidence is discarded if the sender's rights end while it arrives", async () => {
  onStaged = () => void (isValid = false);
  const body = new FormData();
  body.append("data_json", "{}");
  body.append("evidence_file", new Blob(["x"]), "evidence.txt");
  const response = await fetch(`${url}/things/acme/attached`, {
    method: "POST",
    headers: { Authorization: "Bearer key" },
    body,
  });
  assert.equal(
    { status: response.status, response: await response.json(), done },
    { status: 401, response: UNAUTHENTICATED, done: ["discarded"] },
  );
});

test.run();
