import { gunzipSync } from "node:zlib";
import { AppError, badRequest } from "../errors.ts";
import { textsOf } from "./answers/large-answers.ts";
import type { LargeAnswer } from "./answers/large-answers.ts";
import { answerRoomOf, bodyBytes } from "./memory/answer-room.ts";
import { setResponseHeaders } from "./deprecation.ts";
import type { LargeReply } from "./execute.ts";
import { isReading } from "./operation.ts";
import type { AnyOperation, JsonReply, Reply, Representation } from "./operation.ts";
import { createRepresentation, sendLargeAnswer, sendRepresentation } from "./representation.ts";
import { encodeUtf8, sendDownload, sendStream, sendText } from "./response.ts";
import type { Exchange, Membership } from "./server-context.ts";
import { validate } from "./validate.ts";

/** Sends what a handler answered. @returns the answer of a read if it may be sent again, else null. */
export async function sendReply<Context, M extends Membership>(
  exchange: Exchange<Context, M>,
  reply: Reply | LargeReply,
): Promise<Representation | null> {
  if ("download" in reply) await sendDownload(exchange.ctx, reply.download);
  else if ("stream" in reply) await sendStream(exchange.ctx, reply.stream);
  else if ("large" in reply) await sendLarge(exchange, reply.large);
  else return sendBody(exchange, reply);
  return null;
}

async function sendBody<Context, M extends Membership>(
  { server, operation, ctx }: Exchange<Context, M>,
  reply: JsonReply,
): Promise<Representation | null> {
  const text = serialize(reply);
  if (server.checkResponses) checkResponse(operation, reply.status, text.toString());
  if ("headers" in reply && reply.headers) setResponseHeaders(ctx, reply.headers);
  if (operation.method === "GET" && reply.status === 200) {
    const representation = createRepresentation(text);
    await sendRepresentation(ctx, representation);
    return representation;
  }
  answerRoomOf(ctx).take(bodyBytes(text) ?? 0, { isRead: isReading(operation) });
  sendText(ctx, reply.status, text);
  return null;
}

async function sendLarge<Context, M extends Membership>(
  { server, operation, ctx }: Exchange<Context, M>,
  answer: LargeAnswer | null,
): Promise<void> {
  try {
    if (server.checkResponses && answer) checkResponse(operation, 200, await readText(answer));
    sendLargeAnswer(ctx, answer);
  } catch (error) {
    answer?.close();
    throw error;
  }
}

async function readText({ read, gzipped }: LargeAnswer): Promise<string> {
  const bytes = await read();
  return (gzipped ? gunzipSync(bytes) : bytes).toString();
}

/**
 * The JSON text of an answer; as UTF-8 bytes if it consists of several pieces.
 * @throws AppError 400 if it would be longer than a string can be.
 */
function serialize(reply: JsonReply): string | Buffer {
  try {
    const [first = "", ...others] = textsOf(reply);
    return others.length === 0 ? first : encodeUtf8([first, ...others]);
  } catch (error) {
    if (error instanceof RangeError)
      throw badRequest(
        "The answer would be too long to be sent: ask for smaller pages, or for the records one by one",
        error,
      );
    throw error;
  }
}

/**
 * Compares an answer with its declared shape, in the form it has on the wire, where undefined members are gone.
 * @throws AppError (a 500, with the problems for the log) on any difference.
 */
function checkResponse(operation: Pick<AnyOperation<never>, "id" | "responses">, status: number, text: string): void {
  const declared = operation.responses[status]?.schema;
  const body: unknown = JSON.parse(text);
  const problems = declared ? validate(declared, body, { mode: "response", root: "body" }) : { status: "undeclared" };
  if (!problems) return;
  throw new AppError("internal", "response does not match its declared shape", {
    internal: { operation: operation.id, status, problems, body },
  });
}
