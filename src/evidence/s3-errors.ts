/** What an operator reads about a request that S3-compatible storage did not answer, or refused. */
import { S3ServiceException } from "@aws-sdk/client-s3";
import { EvidenceUnavailableError } from "./errors.ts";

/** A success status without the fields that every S3 store sends with it: a proxy's page, for example. */
export const NOT_S3 = "the response is not from an S3 store";

/** The response to a request did not begin in time. */
export class StorageTimeoutError extends Error {
  override readonly name = "TimeoutError";

  constructor(milliseconds: number) {
    super(`no response within ${milliseconds / 1_000} s`);
  }
}

/** What the codes of refused requests usually mean. */
const MEANINGS: Readonly<Record<string, string>> = {
  AccessDenied: "the access key does not have the permission for this request",
  AuthorizationHeaderMalformed: "the region (--s3-region) is probably another one",
  ExpiredToken: "the temporary credentials have expired",
  InvalidAccessKeyId: "the storage does not know the access key",
  InvalidToken: "the session token does not belong to the access key",
  NoSuchBucket: "the bucket does not exist",
  PermanentRedirect: "the bucket is in another region, or has another endpoint",
  RequestTimeTooSkewed: "the clocks of this server and of the storage differ by too much",
  SignatureDoesNotMatch: "the secret key is wrong",
};

/** The library's message where a response is not XML; it speaks of a field of an object. */
const isUnreadable = (message: string): boolean => message.includes("$response");

/** @param what the request, as "HEAD ab/cdef" */
export function toUnavailable(what: string, error: unknown): EvidenceUnavailableError {
  if (error instanceof EvidenceUnavailableError) return error;
  const { name, message, code, $response, $metadata } = error as Error & {
    code?: string;
    $response?: { statusCode?: number };
    $metadata?: { httpStatusCode?: number };
  };
  const answered = $metadata?.httpStatusCode ?? $response?.statusCode;
  const status = answered === undefined ? "" : ` (status ${answered})`;
  if (isUnreadable(message)) return new EvidenceUnavailableError(`${what}: ${NOT_S3}${status}`);
  const reason = [code ?? name, message].filter((text) => text !== undefined && text !== "").join(": ");
  const meaning = MEANINGS[name];
  return new EvidenceUnavailableError(`${what}: ${reason}${status}${meaning === undefined ? "" : `; ${meaning}`}`);
}

/** Whether the storage refused a request without a code: a response to HEAD has no body that could have one. */
export const isRefusedWithoutCode = (error: unknown): boolean => {
  const status = error instanceof S3ServiceException ? (error.$metadata.httpStatusCode ?? 0) : 0;
  return status >= 400 && status < 500;
};
