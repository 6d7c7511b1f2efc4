import Router from "@koa/router";
import type Koa from "koa";
import type { TObject } from "typebox";
import { allows, isOrgPermission } from "../domain/access.ts";
import type { OrgPermission } from "../domain/access.ts";
import {
  AppError,
  badRequest,
  forbidden,
  gone,
  methodNotAllowed,
  notFound,
  routeNotFound,
  unauthenticated,
} from "../errors.ts";
import type { RequestState } from "./request-boundary.ts";
import { declaredLength, hasBody, receiveJson, discardBody } from "./body/body.ts";
import type { BodyIntake } from "./body/body.ts";
import { SMALL_BODY_BYTES } from "./body/body-budget.ts";
import type { BodyLease } from "./body/body-budget.ts";
import { readForm } from "./body/multipart.ts";
import type { StagedFile } from "./body/multipart.ts";
import { authenticate } from "./authenticate.ts";
import { announceDeprecation, setResponseHeaders } from "./deprecation.ts";
import { canAnswer } from "./overlapping-routes.ts";
import type { AnyOperation, Input, JsonReply, Method, Reply, Signature } from "./operation.ts";
import { checkParameters, parseQueryParameters } from "./query-parameters.ts";
import { jsonPieces } from "../json/text.ts";
import { LARGE_JSON_BYTES, createBodyShape, maxBodyBytes, createPartShape, readJson } from "./body/read-json.ts";
import type { JsonShape, LargeJsonReader, ReadJson } from "./body/read-json.ts";
import { sendDownload, sendStream, sendText, encodeUtf8 } from "./response.ts";
import { charactersOf, createRepresentation, sendRepresentation } from "./representation.ts";
import type { Representation } from "./representation.ts";
import { compareRoutes, routerPath } from "./route-order.ts";
import { validate } from "./validate.ts";
import type { Membership, RequestContext, SignedEndpoint, ServerContext } from "./server-context.ts";
const API_PREFIX = /^\/api\/(?:v2|fastapi)(?=\/|$)/;
/** The Koa middleware that serves all operations under `/api/v2` and its alias `/api/fastapi`. */
export function mountOperations<Context, M extends Membership>(house: ServerContext<Context, M>): Koa.Middleware {
  const routers = new Map<string, Router>();
  const served = new Map<unknown, AnyOperation<Context>>();
  for (const operation of [...house.operations].sort((a, b) => compareRoutes(a.path, b.path))) {
    const first = operation.path.split("/")[1] ?? "";
    const router = routers.get(first) ?? new Router({ strict: true, sensitive: true });
    routers.set(first, router);
    const verb = operation.method.toLowerCase() as Lowercase<Method>;
    router[verb](routerPath(operation.path), (ctx: Koa.Context & { params: Record<string, string> }) =>
      serve(house, operation, ctx),
    );
    served.set(router.stack.at(-1), operation);
  }

  return async function operations(ctx, next) {
    const prefix = API_PREFIX.exec(ctx.path);
    if (!prefix) {
      if (ctx.path === "/api" || ctx.path.startsWith("/api/")) throw routeNotFound();
      return next();
    }
    const path = ctx.path.slice(prefix[0].length) || "/";
    const first = path.split("/", 2)[1] ?? "";
    const router = routers.get(first);
    if (!router) throw routeNotFound();
    // The router's own middleware would compose a chain for every request, of the one handler that each route has.
    const { path: known, pathAndMethod } = router.match(path, ctx.method);
    type Route = (typeof known)[number];
    const operationOf = (route: Route): AnyOperation<Context> => served.get(route) as AnyOperation<Context>;
    const paramsOf = (route: Route): Record<string, string> => route.params(path, route.captures(path));
    // The router keeps the order of registration, so the first match is the most specific one.
    const responseCache = (route: Route): boolean =>
      canAnswer(operationOf(route), operationOf(known[0] as Route).path, () => paramsOf(route));
    const route = pathAndMethod.find(responseCache);
    if (route) return route.stack[0]?.(Object.assign(ctx, { params: paramsOf(route) }) as never, next);
    const allowed = new Set(known.filter(responseCache).flatMap((layer) => layer.methods));
    throw allowed.size === 0 ? routeNotFound() : methodNotAllowed([...allowed].sort());
  };
}

async function serve<Context, M extends Membership>(
  house: ServerContext<Context, M>,
  operation: AnyOperation<Context>,
  ctx: Koa.Context & { params: Record<string, string> },
): Promise<void> {
  const seen = ctx.state["assay"] as RequestState;
  seen.operationId = operation.id;
  const organization = ctx.params["org"] ?? null;
  seen.organization = organization;
  const facts = authorize(house, operation, ctx, organization);
  if (operation.status === "removed") throw gone();
  if (operation.method !== "GET") house.ensureWritable(declaredLength(ctx.req) ?? 0);
  const { signature } = operation;
  // Before the body is read: nobody sends one to a door that is not there.
  if (signature) openSignedEndpoint(house, operation, signature, ctx, facts);
  const asked = parseQueryParameters(operation.query, ctx.querystring);
  announceDeprecation(ctx, operation, facts.baseUrl, { query: asked });
  const repeated =
    operation.cacheable && !hasBody(ctx.req)
      ? `answer ${facts.membership?.organizationId} ${facts.baseUrl} ${ctx.url}`
      : null;
  // Authorizing looked at the state of the database, in this turn.
  const { state } = house.responseCache;
  const keep = (answer: Representation): void =>
    void (repeated && house.responseCache.keep(repeated, answer, charactersOf(answer), state));
  const answer = repeated && (house.responseCache.get(repeated) as Representation | undefined);
  if (answer) {
    const before = charactersOf(answer);
    await sendRepresentation(ctx, answer);
    if (charactersOf(answer) !== before) keep(answer);
    return;
  }

  const params = checkParameters(operation.params, { ...ctx.params }, "path");
  const query = checkParameters(operation.query, asked, "query");
  const received = await readBody(house, operation, ctx, facts);
  try {
    announceDeprecation(ctx, operation, facts.baseUrl, { body: received.body });
    await finish(house, operation, ctx, { facts, organization, params, query, received, keep });
  } finally {
    received.lease?.release();
  }
}

type Received = {
  facts: RequestContext<any>;
  organization: string | null;
  params: Record<string, unknown>;
  query: Record<string, unknown>;
  received: ReadBody;
  keep(answer: Representation): void;
};

/** What comes after the body was read: prepare, handle, commit, reply. */
async function finish<Context, M extends Membership>(
  house: ServerContext<Context, M>,
  operation: AnyOperation<Context>,
  ctx: Koa.Context & { params: Record<string, string> },
  { facts, organization, params, query, received, keep }: Received,
): Promise<void> {
  const { signature } = operation;
  const { body, sent, unread, file, staged } = received;
  const confirmed = (): void =>
    signature
      ? authenticateSignature(
          signature,
          ctx,
          facts,
          openSignedEndpoint(house, operation, signature, ctx, facts),
          unread,
        )
      : reauthorize(house, operation, facts, organization);
  const input: Input<TObject, TObject, never> = {
    params,
    query,
    body: body as never,
    file,
    sentFields: sent,
    rawBody: unread,
  };
  let published = false;
  try {
    // The body may have taken its time. Other writes are asked in their transaction alone.
    if (signature || ((operation.method === "GET" || operation.prepare) && hasBody(ctx.req))) confirmed();
    const context = house.createContext(facts);
    const prepared = operation.prepare ? await operation.prepare(context, input) : undefined;
    if (staged) {
      await house.evidence.publish([staged]);
      published = true;
    }
    const reply: Reply =
      operation.method === "GET"
        ? house.read(() => operation.handle(context, input, prepared))
        : await house.write(() => {
            if (!operation.alreadyStored?.(prepared)) confirmed();
            const answer = operation.handle(context, input, prepared);
            if (operation.audit && !("unaudited" in answer)) house.audit(context);
            return answer;
          });
    if (operation.method !== "GET") await house.afterCommit(context);
    const sent = await send(house, operation, ctx, reply);
    if (sent) keep(sent);
  } finally {
    if (staged && !published) await house.evidence.discard([staged]);
  }
}

/** Who calls and whether they may (semantics 1.2, 1.4). One 403 for "no such organization" and "not yours". */
function authorize<Context, M extends Membership>(
  house: ServerContext<Context, M>,
  operation: AnyOperation<Context>,
  ctx: Koa.Context,
  organization: string | null,
): RequestContext<M> {
  const facts: RequestContext<M> = {
    requestId: ctx.state["requestId"] as string,
    principal: null,
    membership: null,
    operationId: operation.id,
    event: operation.audit,
    path: ctx.path,
    baseUrl: house.resolveBaseUrl(ctx.req),
  };
  // From here on, so that the log says who it was that was refused.
  (ctx.state["assay"] as RequestState).facts = facts;
  if (operation.permission === "public" || operation.permission === "signed") return facts;
  const caller = (facts.principal = authenticate(house, ctx));
  house.rateLimits.countKey(caller.keyPublicId);
  if (!isOrgPermission(operation.permission)) return facts;
  facts.membership = requirePermission(
    operation,
    operation.permission,
    organization === null ? null : house.findMembership(caller, organization),
  );
  return facts;
}

/** The membership, when it allows the operation. @throws AppError 403. */
function requirePermission<Context, M extends Membership>(
  operation: AnyOperation<Context>,
  permission: OrgPermission,
  membership: M | null,
): M {
  if (!membership || !allows(permission, membership.role, membership.isPublic)) throw forbidden();
  if (operation.feature && !membership.features.includes(operation.feature)) throw forbidden();
  return membership;
}

/**
 * The door that the path names. Its id is half of a secret, and so the log and the audit entry get the route in its
 * place.
 */
function openSignedEndpoint<Context, M extends Membership>(
  house: ServerContext<Context, M>,
  operation: AnyOperation<Context>,
  signature: Signature,
  ctx: Koa.Context & { params: Record<string, string> },
  facts: RequestContext<M>,
): SignedEndpoint<M> {
  const seen = ctx.state["assay"] as RequestState;
  seen.path = facts.path = operation.path;
  const findSignedEndpoint = house.findSignedEndpoint(signature.endpoint, ctx.params);
  if (!findSignedEndpoint) throw notFound("Webhook not found");
  seen.organization = findSignedEndpoint.organization;
  return findSignedEndpoint;
}

/** Lets a signed body in: from here on the account of the door is the caller. @throws AppError 401, 403. */
function authenticateSignature<M extends Membership>(
  { header, requires }: Signature,
  ctx: Koa.Context,
  facts: RequestContext<M>,
  door: SignedEndpoint<M>,
  body: Buffer | null,
): void {
  if (body === null || !door.verifySignature(ctx.get(header), body)) throw unauthenticated();
  facts.principal = door.principal;
  facts.membership = door.membership;
  if (!allows(requires, door.membership.role, false)) throw forbidden();
}

/**
 * Rights may end while a body arrives or evidence is stored: what they allowed at first is asked again where it is
 * done, in the same transaction. What a handler reads of the caller's role is of that moment too.
 */
function reauthorize<Context, M extends Membership>(
  house: ServerContext<Context, M>,
  operation: AnyOperation<Context>,
  facts: RequestContext<M>,
  organization: string | null,
): void {
  const { principal } = facts;
  if (principal === null) return;
  if (!house.isCredentialValid(principal)) throw unauthenticated();
  if (!isOrgPermission(operation.permission)) return;
  facts.membership = requirePermission(
    operation,
    operation.permission,
    organization === null ? null : house.readMembership(principal, organization),
  );
}

type ReadBody = {
  body: unknown;
  sent: ReadonlySet<string>;
  unread: Buffer | null;
  file: Input<TObject, TObject, never>["file"];
  staged: StagedFile | null;
  /** Of a large body: held until the request is over. */
  lease: BodyLease | null;
};
const NOTHING_SENT: ReadonlySet<string> = new Set();

async function readBody<Context, M extends Membership>(
  house: ServerContext<Context, M>,
  operation: AnyOperation<Context>,
  ctx: Koa.Context,
  facts: RequestContext<M>,
): Promise<ReadBody> {
  const none: ReadBody = { body: null, sent: NOTHING_SENT, unread: null, file: null, staged: null, lease: null };
  const operationBody = operation.body;
  if (operationBody.kind === "none") {
    await discardBody(ctx, house.limits);
    return none;
  }
  // Signed bodies come from whoever knows the address: they are counted for that.
  const intake: BodyIntake = { budget: house.bodyBudget, owner: facts.principal?.publicId ?? ctx.path };
  const { bounds } = operationBody;
  const { limits } = house;
  if (operationBody.kind === "json") {
    const shape = createBodyShape(operationBody.schema, bounds);
    const received = await receiveJson(ctx, {
      limits: { ...limits, json: maxBodyBytes(bounds, limits.json, limits) },
      intake,
      shape,
    });
    try {
      const bytes = received?.bytes ?? null;
      if (received && received.bytes.length > (operationBody.rawAbove ?? Infinity))
        return { ...none, unread: bytes, lease: received.lease };
      const read = bytes && (await readHereOrInThread(house.largeJson, bytes, shape, bounds.asText));
      if (read === null || read.value === null) {
        if (!operationBody.optional) throw badRequest("A JSON body is required: the request has none");
        received?.lease?.release();
        return none;
      }
      return { ...none, body: read.value, sent: new Set(read.sentFields), lease: received?.lease ?? null };
    } catch (error) {
      received?.lease?.release();
      throw error;
    }
  }
  const form = await readForm(ctx, operationBody, { limits, evidence: house.evidence, intake });
  try {
    const shape = createPartShape(operationBody.part, operationBody.schema, bounds);
    const { value, sentFields } = await readHereOrInThread(house.largeJson, form.json, shape, bounds.asText);
    // Evidence is on the disk by now, and storing it elsewhere may take long.
    if (form.staged && form.json.length <= SMALL_BODY_BYTES) form.lease?.release();
    return {
      body: value,
      sent: new Set(sentFields),
      unread: null,
      file: form.file,
      staged: form.staged,
      lease: form.lease,
    };
  } catch (error) {
    form.lease?.release();
    if (form.staged) await house.evidence.discard([form.staged]);
    throw error;
  }
}

/** Here, or in a thread, by its size. */
const readHereOrInThread = async (
  largeJson: LargeJsonReader,
  bytes: Buffer,
  shape: JsonShape,
  asText: readonly string[],
): Promise<ReadJson> =>
  bytes.length > LARGE_JSON_BYTES ? largeJson.read(bytes, shape, asText) : readJson(bytes, shape);

/** @returns what a read was answered with, if that can be sent again. */
async function send<Context, M extends Membership>(
  house: ServerContext<Context, M>,
  operation: AnyOperation<Context>,
  ctx: Koa.Context,
  reply: Reply,
): Promise<Representation | null> {
  if ("download" in reply) await sendDownload(ctx, reply.download);
  else if ("stream" in reply) await sendStream(ctx, reply.stream);
  else return sendBody(house, operation, ctx, reply);
  return null;
}

/**
 * The JSON text of an answer, as bytes where it comes in pieces. @throws AppError 400 for an answer that is longer than
 * a string can be.
 */
function textOf(reply: JsonReply): string | Buffer {
  if ("texts" in reply) return encodeUtf8(reply.texts);
  try {
    const pieces = jsonPieces(reply.body);
    return pieces.length === 1 ? (pieces[0] as string) : encodeUtf8(pieces);
  } catch (error) {
    if (error instanceof RangeError)
      throw badRequest(
        "The answer would be too long to be sent: ask for smaller pages, or for the records one by one",
        error,
      );
    throw error;
  }
}

async function sendBody<Context, M extends Membership>(
  house: ServerContext<Context, M>,
  operation: AnyOperation<Context>,
  ctx: Koa.Context,
  reply: JsonReply,
): Promise<Representation | null> {
  const text = textOf(reply);
  if (house.checkResponses) {
    const declared = operation.responses[reply.status]?.schema;
    // Checked in the form it has on the wire: undefined members are gone there.
    const problems = declared
      ? validate(declared, JSON.parse(text.toString()), { mode: "response", root: "body" })
      : { status: "undeclared" };
    if (problems)
      throw new AppError("internal", "response does not match its declared shape", {
        internal: {
          operation: operation.id,
          status: reply.status,
          problems,
          body: "texts" in reply ? text.toString() : reply.body,
        },
      });
  }
  if ("headers" in reply && reply.headers) setResponseHeaders(ctx, reply.headers);
  if (operation.method === "GET" && reply.status === 200) {
    const representation = createRepresentation(text);
    await sendRepresentation(ctx, representation);
    return representation;
  }
  sendText(ctx, reply.status, text);
  return null;
}
