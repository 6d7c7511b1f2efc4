/**
 * Calls of operations by our own pages and commands, without HTTP in between: the same permission check, validation,
 * transaction and audit entry as for a request, so that a page can neither show nor change more than the API, and a
 * command is refused by the same rules.
 */
import type { Static, TObject, TSchema } from "typebox";
import { badRequest, gone, tooLarge } from "../errors.ts";
import { readJson, createBodyShape, createPartShape, LARGE_JSON_BYTES } from "./body/read-json.ts";
import { admit, permits, reauthorize } from "./authorize.ts";
import { execute } from "./execute.ts";
import type { Delivery } from "./execute.ts";
import { createConcurrencyLimit } from "../workers/concurrency-limit.ts";
import type { LargeAnswer } from "./answers/large-answers.ts";
import { isReading } from "./operation.ts";
import type { AnyOperation, Download, Input, ResponseShape, Stream, UploadedFile } from "./operation.ts";
import { JsonText, parseExact, stringifyJson, withParsedTexts } from "../json/text.ts";
import { itemTexts, memberTexts } from "../json/walk.ts";
import { checkParameters } from "./query-parameters.ts";
import { createPace } from "./next-turn.ts";
import type { RequestProgress } from "./watchdog/request-progress.ts";
import type { CallContext, Membership, Principal, RequestContext } from "./server-context.ts";
import { hash } from "node:crypto";

/** An operation as a caller sees it: what it takes, and what it answers. */
type Callable = Pick<AnyOperation<never>, "id" | "method" | "path" | "permission"> & {
  params: TObject;
  query: TObject;
  body: { kind: "none" } | { kind: "json" | "form"; schema: TSchema };
  responses: Record<number, ResponseShape>;
};

type NonNullSchema<S> = S extends TSchema ? S : never;
type AnswerAt<R, Status> = Status extends keyof R
  ? R[Status] extends { schema: infer S }
    ? Static<NonNullSchema<S>>
    : never
  : never;

/** The JSON that an operation answers when it succeeds. */
export type AnswerOf<O extends Callable> = AnswerAt<O["responses"], 200> | AnswerAt<O["responses"], 201>;

/** A text file of a form, such as a template. */
type TextFile = { filename: string; text: string };

/** What a call brings. Path and query parameters may be text, as in a URL, or values. */
export type CallInput<O extends Callable> = {
  params?: { readonly [K in keyof Static<O["params"]>]: string | number };
  query?: { readonly [K in keyof Static<O["query"]>]?: Static<O["query"]>[K] | string | null | undefined };
  body?: O["body"] extends { schema: infer S extends TSchema } ? Static<S> : never;
  file?: TextFile;
};

/** Calls operations as one principal. */
export type Caller = {
  /**
   * Calls the operation, and resolves to its JSON. In reported data, JsonText stands for what JavaScript would round.
   * @throws AppError for every refusal, as over HTTP.
   */
  call<O extends Callable>(operation: O, input?: CallInput<O>): Promise<AnswerOf<O>>;
  /** Calls an operation that answers with a file. @throws AppError for every refusal. */
  open<O extends Callable>(operation: O, input?: CallInput<O>): Promise<{ download: Download } | { stream: Stream }>;
  /** Whether the principal's role permits the operation in the organization. */
  permits(operation: Pick<Callable, "permission"> & { feature?: AnyOperation<never>["feature"] }, org: string): boolean;
  /** The principal's standing in an organization; null if it does not exist. */
  membershipIn(org: string): Membership | null;
};

type Call = {
  principal: Principal;
  requestId: string;
  baseUrl: string;
  progress: RequestProgress;
  /** A page, or a command, which the audit log names in place of the operation. */
  asker: "page" | { command: string };
};

/**
 * The longest answer that a page can work with: one with a template, policy or schema, which are up to 10 MB. Of all
 * others, AnswerBounds leaves long fields out.
 */
const MAX_CALL_BYTES = 12 << 20;
/** A large answer is in memory as a whole while a page reads it, so there is one at a time. */
const readingTurns = createConcurrencyLimit(1);

/**
 * A function that creates the caller of a request by its principal.
 * @param clock milliseconds since any moment
 */
export function createCallers<Context, M extends Membership>(
  server: CallContext<Context, M>,
  clock = (): number => performance.now(),
) {
  return (call: Call): Caller => {
    const memberships = new Map<string, M | null>();
    // Kept for what a page shows; what it calls is authorized anew.
    const membershipIn = (org: string): M | null => {
      const known = memberships.get(org);
      if (known !== undefined) return known;
      const membership = server.readMembership(call.principal, org);
      memberships.set(org, membership);
      return membership;
    };
    const pace = createPace(clock);
    return {
      async call(operation, input = {}) {
        await pace();
        const reply = await run(server, call, { operation: operation as never, input: input as never });
        if ("body" in reply) return withParsedTexts(reply.body) as never;
        if ("texts" in reply) return (await parseInTurns([...reply.texts].join(""))) as never;
        if ("large" in reply) return (await readInTurns(reply.large)) as never;
        throw new Error(`${operation.id} answers with a file: use open`);
      },
      async open(operation, input = {}) {
        const reply = await run(server, call, { operation: operation as never, input: input as never });
        if ("download" in reply || "stream" in reply) return reply;
        throw new Error(`${operation.id} answers with JSON: use call`);
      },
      permits: (operation, org) => permits(operation as never, membershipIn(org)),
      membershipIn,
    };
  };
}

/** The value of a large answer. @throws AppError 413 when a page could not hold it */
async function readInTurns(answer: LargeAnswer | null): Promise<unknown> {
  if (!answer) throw new Error("a call always has an answer");
  try {
    if (answer.bytes > MAX_CALL_BYTES) throw tooLarge("What this page would show", MAX_CALL_BYTES);
    return await readingTurns.run(async () => parseInTurns((await answer.read()).toString()));
  } finally {
    answer.close();
  }
}

/** Text that is parsed at once: a millisecond. */
const PIECE_CHARS = 65_536;

/** As parseExact, for a text of which parsing all at once would keep other requests waiting. */
async function parseInTurns(text: string): Promise<unknown> {
  const pace = createPace();
  const parse = async (part: string): Promise<unknown> => {
    const turn = pace();
    if (turn !== null) await turn;
    const first = part[0];
    if (part.length <= PIECE_CHARS || (first !== "[" && first !== "{")) return parseExact(part);
    if (first === "[") {
      const items: unknown[] = [];
      for (const item of itemTexts(part)) items.push(await parse(item));
      return items;
    }
    const members: [string, unknown][] = [];
    for (const [key, member] of memberTexts(part)) members.push([key, await parse(member)]);
    const object = Object.fromEntries(members);
    return Object.keys(object).every((key, index) => key === members[index]?.[0]) ? object : new JsonText(part);
  };
  return parse(text);
}

const IN_PROCESS: Omit<Delivery, "isForPage"> = {
  hasBody: true,
  takeRoom() {},
  wantsGzip: () => false,
  watchDeparture: () => ({ signal: new AbortController().signal, end() {} }),
};

type Untyped = {
  params?: Record<string, string | number>;
  query?: Record<string, unknown>;
  body?: unknown;
  file?: TextFile;
};

async function run<Context, M extends Membership>(
  server: CallContext<Context, M>,
  { principal, requestId, baseUrl, progress, asker }: Call,
  { operation, input }: { operation: AnyOperation<Context>; input: Untyped },
) {
  const texts = Object.fromEntries(Object.entries(input.params ?? {}).map(([name, value]) => [name, String(value)]));
  const organization = texts["org"] ?? null;
  const unchecked: RequestContext<M> = {
    requestId,
    principal,
    membership: null,
    accessVersion: null,
    operationId: asker === "page" ? operation.id : asker.command,
    event: operation.audit,
    path: pathOf(operation.path, texts),
    baseUrl,
  };
  const request = authorizeCall(server, operation, { request: unchecked, organization });
  if (operation.status === "removed") throw gone();
  const params = checkParameters(operation.params, texts, "path");
  const sent = Object.entries(input.query ?? {}).filter(([, value]) => value !== null && value !== undefined);
  const query = checkParameters(operation.query, Object.fromEntries(sent), "query");
  const body = await readInput(server, operation, input);
  if (!isReading(operation)) server.ensureWritable(body.bytes);
  return execute(server, operation, {
    request,
    confirm: () => reauthorize(server, operation, { request, organization }),
    confirmsFirst: false,
    input: { params, query, ...body.input },
    progress,
    small: null,
    staged: null,
    delivery: { ...IN_PROCESS, isForPage: asker === "page" },
  });
}

/** @throws AppError 401, 403. */
function authorizeCall<Context, M extends Membership>(
  server: CallContext<Context, M>,
  operation: AnyOperation<Context>,
  { request, organization }: { request: RequestContext<M>; organization: string | null },
): RequestContext<M> {
  if (operation.permission === "signed") throw new Error(`${operation.id} is signed: pages cannot call it`);
  return admit(operation, { request, organization, findMembership: server.readMembership });
}

/** The body of a call, read as if it had arrived over HTTP: bounded, validated, with its defaults filled in. */
async function readInput<Context, M extends Membership>(
  server: CallContext<Context, M>,
  { id, body }: AnyOperation<Context>,
  input: Untyped,
): Promise<{ bytes: number; input: Omit<Input<TObject, TObject, never>, "params" | "query"> }> {
  const empty = {
    body: null as never,
    asSent: null as never,
    file: null,
    sentFields: new Set<string>(),
    rawBody: null,
  };
  if (body.kind === "none") return { bytes: 0, input: empty };
  if (input.body === undefined) {
    if (body.kind === "json" && body.optional) return { bytes: 0, input: empty };
    throw badRequest("A JSON body is required: the request has none");
  }
  const shape =
    body.kind === "json"
      ? createBodyShape(body.schema, body.bounds)
      : createPartShape(body.part, body.schema, body.bounds);
  const bytes = Buffer.from(stringifyJson(input.body));
  const { length } = bytes;
  const { value, asSent, sentFields } =
    length > LARGE_JSON_BYTES ? await server.largeJson.read(bytes, shape, body.bounds.asText) : readJson(bytes, shape);
  const file = input.file && uploadedFile(id, body.kind === "form" ? body.file : null, input.file);
  return {
    bytes: length + (file?.size ?? 0),
    input: {
      ...empty,
      body: value as never,
      asSent: asSent as never,
      sentFields: new Set(sentFields),
      file: file ?? null,
    },
  };
}

function uploadedFile(id: string, part: { kind: "memory" | "evidence" } | null, file: TextFile): UploadedFile {
  if (part?.kind !== "memory") throw new Error(`${id} takes no text file`);
  const bytes = Buffer.from(file.text);
  return {
    filename: file.filename,
    contentType: "text/plain",
    size: bytes.length,
    bytes,
    isStaged: false,
    digest: hash("sha256", bytes),
  };
}

/** The path of a request for the same, which is the target of its audit entry. */
function pathOf(pattern: string, params: Readonly<Record<string, string>>): string {
  const path = pattern.replace(/\{(\w+)\*?\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ""));
  return `/api/v2${path}`;
}
