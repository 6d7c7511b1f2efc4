/**
 * Attacks are requests that once blocked the server or filled its memory, as data. The rows are in the files beside
 * this one (index.ts collects them); measure.ts and the tests send them. Bodies are built when they are sent, because
 * together they take hundreds of megabytes.
 */

/** The data that exists before an attack: see APPLY_FILE and `prepareWorld` of world.ts. */
export type World = {
  /** An organization in which `memberKey` may write. */
  org: string;
  memberKey: string;
  /** A user who may only read there, and who has a personal organization of the same name. */
  readerOrg: string;
  readerKey: string;
  /** Flow, trail, custom attestation type and environment, all in `org`; `readerFlow` belongs to the reader. */
  flow: string;
  trail: string;
  customType: string;
  /** Of the type K8S. */
  environment: string;
  readerFlow: string;
};

export type AttackRequest = {
  method: string;
  /** Below the API root. */
  path: string;
  key: string;
  headers: Readonly<Record<string, string>>;
  body: Buffer;
};

/** An expected response; `body` is the parsed JSON. */
export type Expected = { status: number; body?: unknown };

export type Attack = {
  /** What it sends; the heading of its measurements. */
  name: string;
  request(world: World): AttackRequest;
  /** All valid responses. In parallel with others, 429 with `Retry-After` is valid as well. */
  expect: readonly Expected[];
  /** Concurrent requests when it is sent alone; 1 by default. */
  parallel?: number;
};

export const BOUNDARY = "attack-boundary";

/** A request with a JSON body. */
export const jsonRequest = (method: string, path: string, key: string, body: string | Buffer): AttackRequest => ({
  method,
  path,
  key,
  headers: { "Content-Type": "application/json" },
  body: Buffer.from(body),
});

type FormFile = { part: string; content: Buffer | string };

/** A multipart request: the JSON as a field, and at most one file. `field`: the name of the JSON part. */
export function formRequest(
  method: string,
  path: string,
  key: string,
  { field = "data_json", json, file = null }: { field?: string; json: string; file?: FormFile | null },
): AttackRequest {
  const disposition = 'Content-Disposition: form-data; name="';
  const pieces = [`--${BOUNDARY}\r\n${disposition}${field}"\r\n\r\n${json}\r\n`];
  const attached = file && [
    `--${BOUNDARY}\r\n${disposition}${file.part}"; filename="file"\r\n\r\n`,
    file.content,
    "\r\n",
  ];
  const body = Buffer.concat(
    [...pieces, ...(attached ?? []), `--${BOUNDARY}--\r\n`].map((piece) => Buffer.from(piece as string)),
  );
  return { method, path, key, headers: { "Content-Type": `multipart/form-data; boundary=${BOUNDARY}` }, body };
}

export const refusal = (errors: Record<string, string>): unknown => ({
  message: "Input payload validation failed",
  errors,
});
