/** Errors of the parser of forms, as clients see them. */
import type { IncomingMessage } from "node:http";
import { AppError, badRequest } from "../../errors.ts";
import { ClientGoneError } from "./body.ts";

/** Turns an error of the parser or of multer into one of the contract. */
export function toFormError(error: unknown, request: IncomingMessage): Error {
  if (error instanceof AppError || error instanceof ClientGoneError) return error;
  if (request.destroyed && !request.complete) return new ClientGoneError();
  if (!(error instanceof Error)) return new Error(String(error));
  if (error.name === "MulterError" || PARSER_MESSAGES.test(error.message))
    return badRequest(`The multipart form is broken: ${error.message}`, error);
  return error;
}

/** The parser's errors have no code; these are all of its messages. */
const PARSER_MESSAGES =
  /^(?:Unexpected end of (?:form|file)|Malformed part header|Malformed content type|Multipart: Boundary not found)$/;
