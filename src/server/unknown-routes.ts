/** Counts requests that no operation answers (domain/network/client.ts says why). */
import { hash } from "node:crypto";
import type Koa from "koa";
import type { OrgMembership } from "../api/context.ts";
import { OTHER_CLIENT, clientOf } from "../domain/network/client.ts";
import type { UnknownInput } from "../domain/network/client.ts";
import { parseCredential } from "../http/authenticate.ts";
import { excerptName } from "../http/body/unknown-keys.ts";
import type { ServerContext } from "../http/server-context.ts";

type Principals = Pick<ServerContext<never, OrgMembership>, "authenticate" | "findMembership">;

/** `/attestations/{org}/{flow}/trail/{trail}/{kind}` */
const REPORTED_KIND = /^\/attestations\/[^/]+\/[^/]+\/trail\/[^/]+\/([^/]+)$/;
const API_ROOT = /^\/api\/(?:v2|fastapi)(?=\/)/;

/**
 * Counts a request that no operation answers, if a release of the Kosli CLI sent it with a valid key. Anyone else asks
 * for what was never there.
 */
export function noteUnknownRoute(server: Principals, note: (input: UnknownInput) => void, ctx: Koa.Context): void {
  const client = clientOf(ctx.req.headers["user-agent"]).name;
  const path = ctx.path.replace(API_ROOT, "");
  if (client === OTHER_CLIENT || path === ctx.path) return;
  const key = parseCredential(ctx.req.headers.authorization);
  const principal = key === null ? null : server.authenticate(hash("sha256", key));
  if (principal === null) return;
  const membership = server.findMembership(principal, path.split("/")[2] ?? "");
  const isOwn = membership !== null && membership.role !== null;
  note({
    organizationId: isOwn ? membership.organizationId : null,
    client,
    ...describe(ctx.method, path),
  });
}

function describe(method: string, path: string): Pick<UnknownInput, "kind" | "operation" | "name"> {
  const kind = method === "POST" ? REPORTED_KIND.exec(path)?.[1] : undefined;
  return kind === undefined
    ? { kind: "route", operation: excerptName(`${method} ${withoutValues(path)}`), name: "" }
    : { kind: "attestation_kind", operation: "POST /attestations/*/*/trail/*/*", name: excerptName(kind) };
}

/** A segment that is a word of a route rather than a name, an id or a number. */
const WORD = /^[a-z][a-z_-]{0,30}$/;

/** The path with `*` for what is a value in most routes: the second and third segment, and all that are not words. */
const withoutValues = (path: string): string =>
  path
    .split("/")
    .map((segment, index) => (index === 0 || (index !== 2 && index !== 3 && WORD.test(segment)) ? segment : "*"))
    .join("/");
