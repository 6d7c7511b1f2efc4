/** Counts requests that no operation answers (domain/network/client.ts says why), and logs what new ones look like. */
import { hash } from "node:crypto";
import type Koa from "koa";
import type { OrgMembership } from "../api/context.ts";
import { OTHER_CLIENT, clientOf } from "../domain/network/client.ts";
import type { UnknownInput } from "../domain/network/client.ts";
import { AppError } from "../errors.ts";
import { parseCredential } from "../http/authenticate.ts";
import { SMALL_BODY_BYTES } from "../http/body/body-budget.ts";
import { readSmallBody } from "../http/body/body.ts";
import { excerptName } from "../http/body/unknown-keys.ts";
import type { ServerContext } from "../http/server-context.ts";

type Dependencies = Pick<ServerContext<never, OrgMembership>, "authenticate" | "findMembership" | "limits"> & {
  note(input: UnknownInput): void;
  logger: { info(facts: object, text: string): void };
};

/** `/attestations/{org}/{flow}/trail/{trail}/{kind}` */
const REPORTED_KIND = /^\/attestations\/[^/]+\/[^/]+\/trail\/[^/]+\/([^/]+)$/;
const API_ROOT = /^\/api\/(?:v2|fastapi)(?=\/)/;
/** Below these, newer clients may spell what this server knows otherwise (newer-clients 5.4). */
const SPELLED_ANEW = /^\/(?:rego|evaluations)/;

/** Shapes that are logged while the server runs; a caller could think of any number. */
const MAX_LOGGED = 100;
const MAX_FIELDS = 50;

/**
 * A function that counts a request that no operation answers, if a release of the Kosli CLI sent it with a valid key.
 * Anyone else asks for what was never there. Below `/rego*` and `/evaluations` it also logs method, path, content type
 * and names of fields, once for each key: one run of a newer client shows what is missing.
 */
export function createRouteNotes({ authenticate, findMembership, limits, note, logger }: Dependencies) {
  /** Of which key which operation was logged. */
  const logged = new Set<string>();
  return async function noteUnknownRoute(ctx: Koa.Context): Promise<void> {
    const client = clientOf(ctx.req.headers["user-agent"]).name;
    const path = ctx.path.replace(API_ROOT, "");
    if (client === OTHER_CLIENT || path === ctx.path) return;
    const key = parseCredential(ctx.req.headers.authorization);
    if (key === null) return;
    const digest = hash("sha256", key);
    const principal = authenticate(digest);
    if (principal === null) return;
    const membership = findMembership(principal, path.split("/")[2] ?? "");
    const isOwn = membership !== null && membership.role !== null;
    const found = describe(ctx.method, path);
    note({ organizationId: isOwn ? membership.organizationId : null, client, ...found });
    const once = `${digest} ${found.operation}`;
    if (!SPELLED_ANEW.test(path) || logged.has(once) || logged.size >= MAX_LOGGED) return;
    logged.add(once);
    const contentType = ctx.req.headers["content-type"] ?? null;
    const facts = {
      client,
      operation: found.operation,
      contentType: contentType === null ? null : excerptName(contentType.replace(/;[^]*$/, "")),
      fields: await readFieldNames(ctx, limits),
    };
    logger.info(facts, "a client sent a request that this server does not know; it may be of a newer release");
  };
}

/** The names of what a small body has, without values; null where it cannot be read. @throws ClientGoneError */
async function readFieldNames(ctx: Koa.Context, limits: Dependencies["limits"]): Promise<readonly string[] | null> {
  try {
    const bytes = await readSmallBody(ctx, { ...limits, json: SMALL_BODY_BYTES });
    return bytes === null ? [] : namesIn(bytes.toString("utf8")).slice(0, MAX_FIELDS).map(excerptName);
  } catch (error) {
    if (error instanceof AppError || error instanceof SyntaxError || error instanceof RangeError) return null;
    throw error;
  }
}

/** The members of a JSON object, or the names of the parts of a form. @throws SyntaxError, RangeError */
function namesIn(text: string): string[] {
  if (text.startsWith("--")) return Array.from(text.matchAll(PART_NAME), ([, name = ""]) => name);
  const value: unknown = JSON.parse(text);
  return typeof value === "object" && value !== null && !Array.isArray(value) ? Object.keys(value) : [];
}

// For the log alone, so a form is not parsed.
const PART_NAME = /^content-disposition: form-data;[^\r\n]*\bname="([^"\r\n]*)"/gim;

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
