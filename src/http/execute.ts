/**
 * What an operation does once its caller is authorized and its input is read: prepare, handle, commit. Requests over
 * HTTP (pipeline.ts) and calls of our own pages (in-process.ts) end here, so both obey the same rules.
 */
import type { TObject } from "typebox";
import type { SmallFile, StagedFile } from "./body/evidence-stage.ts";
import { isReading } from "./operation.ts";
import type { AnyOperation, Input, Reply } from "./operation.ts";
import type { Membership, RequestContext, ServerContext } from "./server-context.ts";

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
  /** Evidence to publish before the row that names it, and to discard on failure. */
  staged: StagedFile | null;
};

/** @throws AppError for every refusal, which leaves nothing behind. */
export async function execute<Context, M extends Membership>(
  server: ServerContext<Context, M>,
  operation: AnyOperation<Context>,
  { request, confirm, confirmsFirst, input, small, staged }: Execution<M>,
): Promise<Reply> {
  let isPublished = false;
  try {
    const initial = confirmsFirst ? confirm() : request;
    const context = server.createContext(initial);
    const prepared = operation.prepare ? await operation.prepare(context, input) : undefined;
    if (staged) {
      await server.evidence.publish([staged]);
      isPublished = true;
    }
    if (isReading(operation)) return server.read(() => operation.handle(context, input, prepared));
    const written = await server.write(
      () => {
        const confirmed = operation.alreadyStored?.(prepared) ? initial : confirm();
        const current = confirmed === initial ? context : server.updateContext(context, confirmed);
        if (small) server.insertEvidence(small);
        const reply = operation.handle(current, input, prepared);
        if (operation.audit && !("unaudited" in reply)) server.audit(current);
        return { reply, context: current };
      },
      { isRepeatable: operation.isRepeatable === true },
    );
    await server.afterCommit(written.context);
    return written.reply;
  } finally {
    if (staged && !isPublished) await server.evidence.discard([staged]);
  }
}
