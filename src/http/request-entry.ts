/** The log entry of a request, once it is answered. Method, route and path are null for bytes that are not HTTP. */
export type RequestEntry = {
  method: string | null;
  /** Id of the operation, or name of the page or probe; null if none matched. */
  route: string | null;
  /** May include the query, which is not logged. */
  path: string | null;
  /** 499 if the client disconnected before its request was complete. */
  status: number;
  duration_ms: number;
  /** Name of the principal, null if unauthenticated. */
  actor: string | null;
  /** Name of the organization, null if there is none. */
  org: string | null;
  /** Address of the client, see client-address.ts. */
  client: string;
  request_id: string;
  /** Bytes of the request body, as declared. */
  bytes_in: number;
  /** Bytes of the response body; for a stream, head included. */
  bytes_out: number;
  /** The connection ended before the answer did. */
  aborted?: boolean;
  /** The client did not read, so the connection was closed. */
  unread?: boolean;
  error_code?: string;
  /** Why a request failed with 5xx, in words that only the log may have. */
  reason?: string;
  /** The id that the client got with a 500. */
  error_id?: string;
};
