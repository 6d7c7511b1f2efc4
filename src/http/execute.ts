/**
 * What an operation does once its caller is authorized and its input is read: prepare, handle, commit. Requests over
 * HTTP (pipeline.ts) and calls of our own pages (in-process.ts) end here, so both obey the same rules.
 */
import type { TObject } from "typebox";
import type { SmallFile, StagedFile } from "./body/evidence-stage.ts";
import { LargeAnswerError, MAX_INLINE_ANSWER_BYTES, makeTexts } from "./answers/large-answers.ts";
import type { LargeAnswer } from "./answers/large-answers.ts";
import { isReading } from "./operation.ts";
import type { AnyOperation, Input, Reply } from "./operation.ts";
import type { RequestProgress } from "./watchdog/request-progress.ts";
import type { CallContext, Membership, RequestContext } from "./server-context.ts";

/** What publishing evidence may take: a second for each of so many bytes, beyond what any phase may. */
const PUBLISHED_BYTES_PER_S = 262_144;

type Execution<M extends Membership> = {
  /** The request as it was authorized. */
  request: RequestContext<M>;
  /** The request with the rights of this moment. @throws AppError 401, 403, 404. */
  confirm(): RequestContext<M>;
  /** Whether rights are checked again before `prepare` or a read begins. */
  confirmsFirst: boolean;
  input: Input<TObject, TObject, never>;
  /** Evidence to write to the database in the transaction of the row that names it. */
  small: SmallFile | null;
  /** Of the request that asks for it. */
  progress: RequestProgress;
  /** Evidence to publish before the row that names it, and to discard on failure. */
  staged: StagedFile | null;
  delivery: Delivery;
};

/** How a large answer is delivered. */
export type Delivery = {
  /** To one of our pages. */
  isForPage: boolean;
  /** false for HEAD */
  hasBody: boolean;
  wantsGzip(): boolean;
  /** Takes memory for its buffers. @throws AppError 429 if there is none */
  takeRoom(): void;
  watchDeparture(): Departure;
};

/** The signal aborts when the client disconnects before `end` is called. */
export type Departure = { signal: AbortSignal; end(): void };

/** An answer whose body is in a file; null for HEAD, for which none was made. */
export type LargeReply = { status: 200; large: LargeAnswer | null };

/** @throws AppError for every refusal, which leaves nothing behind. */
export async function execute<Context, M extends Membership>(
  server: CallContext<Context, M>,
  operation: AnyOperation<Context>,
  { request, confirm, confirmsFirst, input, progress, small, staged, delivery }: Execution<M>,
): Promise<Reply | LargeReply> {
  let files: readonly StagedFile[] = staged ? [staged] : [];
  try {
    const initial = confirmsFirst ? confirm() : request;
    const context = server.createContext(initial, {
      inlineBytes: operation.isLarge && server.answerReader ? MAX_INLINE_ANSWER_BYTES : Infinity,
      isForPage: delivery.isForPage,
    });
    const confirmInWrite = (): Context => {
      progress.requireRunning();
      const confirmed = confirm();
      return confirmed === initial ? context : server.updateContext(context, confirmed);
    };
    progress.enter("preparing");
    const prepared = operation.prepare ? await operation.prepare(context, input, confirmInWrite) : undefined;
    files = [...files, ...(operation.stages?.(prepared) ?? [])];
    if (isReading(operation) && operation.isLarge)
      return await readLarge(server, operation, { context, request: initial, input, prepared, delivery });
    if (isReading(operation)) return server.read(() => operation.handle(context, input, prepared));
    if (operation.storesInPrepare) return operation.handle(context, input, prepared);
    const write = () => {
      progress.enter("writing");
      return server.write(
        () => {
          const current = confirmInWrite();
          if (small) server.insertEvidence(small);
          const reply = operation.handle(current, input, prepared);
          if (operation.audit && !("unaudited" in reply)) server.audit(current);
          return { reply, context: current };
        },
        { isRepeatable: operation.isRepeatable === true },
      );
    };
    const bytes = files.reduce((sum, { size }) => sum + size, 0);
    if (files.length > 0) progress.enter("publishing", { patienceS: bytes / PUBLISHED_BYTES_PER_S });
    const publishing = files.reduce((next, file) => () => server.evidence.publishFor(file, next), write);
    const written = await publishing();
    progress.enter("finishing");
    await server.afterCommit(written.context);
    return written.reply;
  } finally {
    if (files.length > 0) await server.evidence.discard(files);
  }
}

/** The reply with its pieces made; null if they have more than `limit` characters. */
function makeHere(reply: Reply, limit: number): Reply | null {
  const texts = makeTexts(reply, limit);
  if (!texts) return null;
  const { headers, dependsOn } = reply as {
    headers?: Record<string, string>;
    dependsOn?: readonly (number | string)[];
  };
  return { status: 200, texts, ...(headers ? { headers } : {}), ...(dependsOn ? { dependsOn } : {}) };
}

/** Answers a read whose answer may be large: here, or in the reader thread. */
async function readLarge<Context, M extends Membership>(
  { read, answerReader, databaseState }: CallContext<Context, M>,
  operation: AnyOperation<Context>,
  {
    context,
    request,
    input,
    prepared,
    delivery,
  }: Pick<Execution<M>, "request" | "input" | "delivery"> & { context: Context; prepared: unknown },
): Promise<Reply | LargeReply> {
  const reply = read(() => {
    if (answerReader && operation.isLarge?.(context, input, prepared)) return null;
    try {
      const limit = answerReader ? MAX_INLINE_ANSWER_BYTES : Infinity;
      return makeHere(operation.handle(context, input, prepared), limit);
    } catch (error) {
      if (error instanceof LargeAnswerError) return null;
      throw error;
    }
  });
  if (reply) return reply;
  if (!answerReader) throw new Error("an answer without a limit was not made");
  if (!delivery.hasBody) return { status: 200, large: null };
  const { params, query } = input;
  delivery.takeRoom();
  const gzip = delivery.wantsGzip();
  const { membership, baseUrl } = request;
  if (!membership) throw new Error(`${operation.id} has no organization`);
  const { organizationId } = membership;
  const { isForPage } = delivery;
  const task = {
    operation: operation.id,
    organizationId,
    baseUrl,
    input: { params, query },
    prepared,
    isForPage,
    gzip,
  };
  const { signal, end } = delivery.watchDeparture();
  try {
    return { status: 200, large: await answerReader.make(task, { state: databaseState(), signal }) };
  } finally {
    end();
  }
}
