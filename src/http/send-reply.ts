import { AppError, badRequest } from "../errors.ts";
import { jsonPieces } from "../json/text.ts";
import { answerRoomOf, bodyBytes } from "./memory/answer-room.ts";
import { setResponseHeaders } from "./deprecation.ts";
import { isReading } from "./operation.ts";
import type { AnyOperation, JsonReply, Reply, Representation } from "./operation.ts";
import { createRepresentation, sendRepresentation } from "./representation.ts";
import { encodeUtf8, sendDownload, sendStream, sendText } from "./response.ts";
import type { Exchange, Membership } from "./server-context.ts";
import { validate } from "./validate.ts";

/** Sends what a handler answered. @returns the answer of a read if it may be sent again, else null. */
export async function sendReply<Context, M extends Membership>(
  exchange: Exchange<Context, M>,
  reply: Reply,
): Promise<Representation | null> {
  if ("download" in reply) await sendDownload(exchange.ctx, reply.download);
  else if ("stream" in reply) await sendStream(exchange.ctx, reply.stream);
  else return sendBody(exchange, reply);
  return null;
}

async function sendBody<Context, M extends Membership>(
  { server, operation, ctx }: Exchange<Context, M>,
  reply: JsonReply,
): Promise<Representation | null> {
  const text = "representation" in reply ? reply.representation.text : serialize(reply);
  if (server.checkResponses) checkResponse(operation, reply, text);
  if ("headers" in reply && reply.headers) setResponseHeaders(ctx, reply.headers);
  if (operation.method === "GET" && reply.status === 200) {
    const representation = "representation" in reply ? reply.representation : createRepresentation(text);
    await sendRepresentation(ctx, representation);
    return representation;
  }
  answerRoomOf(ctx).take(bodyBytes(text) ?? 0, { isRead: isReading(operation) });
  sendText(ctx, reply.status, text);
  return null;
}

/**
 * The JSON text of an answer; as UTF-8 bytes if it consists of several pieces.
 * @throws AppError 400 if it would be longer than a string can be.
 */
function serialize(reply: Exclude<JsonReply, { representation: Representation }>): string | Buffer {
  if ("texts" in reply) return join(reply.texts);
  try {
    return join(jsonPieces(reply.body));
  } catch (error) {
    if (error instanceof RangeError)
      throw badRequest(
        "The answer would be too long to be sent: ask for smaller pages, or for the records one by one",
        error,
      );
    throw error;
  }
}

const join = (pieces: readonly string[]): string | Buffer =>
  pieces.length === 1 ? (pieces[0] as string) : encodeUtf8(pieces);

/**
 * Compares an answer with its declared shape, in the form it has on the wire, where undefined members are gone.
 * @throws AppError (a 500, with the problems for the log) on any difference.
 */
function checkResponse(
  operation: Pick<AnyOperation<never>, "id" | "responses">,
  reply: JsonReply,
  text: string | Buffer,
): void {
  const declared = operation.responses[reply.status]?.schema;
  const problems = declared
    ? validate(declared, JSON.parse(text.toString()), { mode: "response", root: "body" })
    : { status: "undeclared" };
  if (!problems) return;
  throw new AppError("internal", "response does not match its declared shape", {
    internal: {
      operation: operation.id,
      status: reply.status,
      problems,
      body: "body" in reply ? reply.body : text.toString(),
    },
  });
}
