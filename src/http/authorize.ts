/**
 * Who may (semantics 1.2, 1.4). Each function returns a new `RequestContext` and changes none, so that a handler sees
 * the rights of exactly one moment.
 */
import { allows, isOrgPermission, operatorHolds } from "../domain/access.ts";
import { forbidden, notFound, unauthenticated } from "../errors.ts";
import { authenticate } from "./authenticate.ts";
import type { AnyOperation, Signature } from "./operation.ts";
import { recordForLog } from "./request-log.ts";
import type {
  Exchange,
  Membership,
  Principal,
  RequestContext,
  ServerContext,
  SignedEndpoint,
} from "./server-context.ts";

/**
 * Authenticates the request and checks the permission of its operation; a signed operation is left to
 * `authenticateSignature`, which needs the body. "No such organization" and "not yours" get the same 403.
 * @throws AppError 401, 403, 429.
 */
export function authorize<Context, M extends Membership>(exchange: Exchange<Context, M>): RequestContext<M> {
  const { server, operation, ctx } = exchange;
  const { permission } = operation;
  const anonymous: RequestContext<M> = {
    requestId: ctx.state["requestId"] as string,
    principal: null,
    membership: null,
    accessVersion: null,
    operationId: operation.id,
    event: operation.audit,
    path: operation.signature ? operation.path : ctx.path,
    userAgent: ctx.req.headers["user-agent"],
    baseUrl: server.resolveBaseUrl(ctx.req),
  };
  if (permission === "public" || permission === "signed") return anonymous;
  const principal = authenticate(server, ctx);
  recordForLog(ctx, { principal });
  server.rateLimits.countKey(principal.keyPublicId);
  const accessVersion = ctx.req.headers.authorization === undefined ? null : server.accessVersion();
  const request = { ...anonymous, principal, accessVersion };
  return admit(operation, { request, organization: organizationOf(exchange), findMembership: server.findMembership });
}

/**
 * The request with its membership, if its principal may call the operation. What only the operator may do is refused by
 * the kind of the principal, however the call came.
 * @throws AppError 403.
 */
export function admit<M extends Membership>(
  operation: Pick<AnyOperation<never>, "permission" | "feature">,
  {
    request,
    organization,
    findMembership,
  }: {
    request: RequestContext<M>;
    organization: string | null;
    findMembership(principal: Principal, organization: string): M | null;
  },
): RequestContext<M> {
  const { principal } = request;
  const { permission } = operation;
  const isOperator = principal?.kind === "operator";
  if (permission === "operator" && !isOperator) throw forbidden();
  if (isOrgPermission(permission) && isOperator && !operatorHolds(permission)) throw forbidden(null, NO_REPORTS);
  const isOfOrganization = isOrgPermission(permission) || (permission === "operator" && organization !== null);
  if (!isOfOrganization) return request;
  const membership = principal === null || organization === null ? null : findMembership(principal, organization);
  if (isOperator && !membership) throw notFound(`There is no organization '${organization}'`);
  return { ...request, membership: permission === "operator" ? membership : requirePermission(operation, membership) };
}

const NO_REPORTS = "The operator reports no evidence and makes no decisions: use an API key of the organization";

/**
 * Checks again that the credential is valid and the permission suffices. Rights may end while a body arrives or
 * evidence is stored, so this runs where the work happens: inside the transaction of a write. What a handler reads of
 * the principal's role is of that moment too. Unless something about keys or rights was written, comparing two numbers
 * is enough.
 * @throws AppError 401, 403.
 */
export function reauthorize<Context, M extends Membership>(
  server: Pick<ServerContext<Context, M>, "accessVersion" | "isCredentialValid" | "readMembership">,
  operation: Pick<AnyOperation<Context>, "permission" | "feature">,
  { request, organization }: { request: RequestContext<M>; organization: string | null },
): RequestContext<M> {
  const { principal } = request;
  if (principal === null) return request;
  if (request.accessVersion !== null && request.accessVersion === server.accessVersion()) return request;
  if (!server.isCredentialValid(principal)) throw unauthenticated();
  return admit(operation, { request, organization, findMembership: server.readMembership });
}

/** Finds the endpoint that the path of a signed operation names. @throws AppError 404. */
export function findSignedEndpoint<Context, M extends Membership>(
  { server, ctx }: Exchange<Context, M>,
  signature: Signature,
): SignedEndpoint<M> {
  const endpoint = server.findSignedEndpoint(signature.endpoint, ctx.params);
  if (!endpoint) throw notFound("Webhook not found");
  recordForLog(ctx, { organization: endpoint.organization });
  return endpoint;
}

/**
 * Verifies the signature of the body; from here on the request acts as the endpoint's service account. The endpoint is
 * looked up anew, so it also serves as reauthorization inside a write.
 * @throws AppError 401, 403, 404.
 */
export function authenticateSignature<Context, M extends Membership>(
  exchange: Exchange<Context, M>,
  signature: Signature,
  { request, body }: { request: RequestContext<M>; body: Buffer | null },
): RequestContext<M> {
  const { principal, membership, ...endpoint } = findSignedEndpoint(exchange, signature);
  if (body === null || !endpoint.verifySignature(exchange.ctx.get(signature.header), body)) throw unauthenticated();
  recordForLog(exchange.ctx, { principal });
  if (!allows(signature.requires, { role: membership.role, isPublic: false })) throw forbidden();
  return { ...request, principal, membership };
}

/** Name of the organization in the path; null for an operation outside an organization. */
export const organizationOf = ({ ctx }: Pick<Exchange<never>, "ctx">): string | null => ctx.params["org"] ?? null;

/**
 * Whether a membership permits an operation below its organization. Pages show only what this permits (in-process.ts).
 */
export function permits(
  { permission, feature }: Pick<AnyOperation<never>, "permission" | "feature">,
  membership: Membership | null,
): boolean {
  if (!isOrgPermission(permission)) return permission !== "signed" && permission !== "operator";
  if (!membership || !allows(permission, membership)) return false;
  return !feature || membership.features.includes(feature);
}

/** The membership, if it allows the operation. @throws AppError 403. */
function requirePermission<M extends Membership>(
  operation: Pick<AnyOperation<never>, "permission" | "feature">,
  membership: M | null,
): M {
  if (!membership || !permits(operation, membership)) throw forbidden();
  return membership;
}
