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

/**
 * An error event of the parser, with its place in the form.
 * @param latest name of the part that the parser reported last: a field when it has ended, a file when it begins; null
 *   before the first
 */
export function describeParserError(error: Error, latest: string | null): Error {
  const place = latest === null ? "its first part" : `the part after '${latest}'`;
  if (error.message === "Malformed part header")
    return badRequest(`The multipart form is broken: the header of ${place} is malformed`, error);
  if (error.message === "Unexpected end of form")
    return badRequest(
      `The multipart form is broken: it ends without its closing boundary, ${
        latest === null ? "before the end of its first part" : `in or after the part '${latest}'`
      }`,
      error,
    );
  return error;
}

/** The parser's errors have no code; these are all of its messages. */
const PARSER_MESSAGES =
  /^(?:Unexpected end of (?:form|file)|Malformed part header|Malformed content type|Multipart: Boundary not found)$/;
