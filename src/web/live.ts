/**
 * `GET /live`: tells an open page that its trail or environment changed, as server-sent events. A page names one
 * subject (`org` with `flow` and `trail`, or with `environment`) and is sent `event: change` with an opaque version as
 * data and id. With `version`, or the Last-Event-ID of an earlier stream, a change in between is sent at once.
 * `event: alive` opens the stream and repeats every 20 seconds: a page that does not hear it reloads itself.
 *
 * Writes cost nothing more for it: as long as a page is connected, one poll a second asks whether anything was
 * committed, and only then for the version of each subject. Streams are bounded.
 */
import { hash } from "node:crypto";
import type { ServerResponse } from "node:http";
import type Koa from "koa";
import type { Timer } from "../domain/time.ts";
import { badRequest, methodNotAllowed, notFound, unavailable } from "../errors.ts";
import { recordForLog } from "../http/request-log.ts";

/** What a page shows, by the names in its address. */
export type LiveSubject = { org: string; flow: string; trail: string } | { org: string; environment: string };

/** The right to follow a subject. */
export type LiveGrant = {
  /** Public id of the session. */
  session: string;
  /** Whether the session is open and may still read the subject. Must not count as a use of the session. */
  isValid(): boolean;
};

type LiveDependencies = {
  /** Authorizes a request like a read of the subject. @throws AppError without a session, or without the right */
  authorize(ctx: Koa.Context, subject: LiveSubject): Promise<LiveGrant>;
  /** A text that differs after every change of the subject; null when there is no such subject. */
  versionOf(subject: LiveSubject): string | null;
  /** A number that differs after every commit of any connection. Called once a second. */
  databaseState(): number;
  timer: Timer;
  /** Called with an error of the poll, which goes on. */
  onError(error: unknown): void;
  /** Streams at a time in all, and of one session. */
  limits?: { total: number; perSession: number };
};

type Stream = {
  subject: LiveSubject;
  /** The subject as a text, for comparison. */
  key: string;
  grant: LiveGrant;
  response: ServerResponse;
  /** The version that the page knows, or will be sent next. */
  version: string;
  /** Whether `version` was not sent yet. */
  isBehind: boolean;
  /** Polls since it was opened, and at the latest message. */
  age: number;
  sentAt: number;
};

const HEADERS: readonly (readonly [name: string, value: string])[] = [
  ["Content-Type", "text/event-stream; charset=utf-8"],
  // A proxy that compressed the stream would hold messages back.
  ["Cache-Control", "no-store, no-transform"],
  // The same for nginx, which buffers responses by default.
  ["X-Accel-Buffering", "no"],
];

/** A browser opens about six connections to a host without HTTP/2, and a stream takes one for as long as it is open. */
const LIMITS = { total: 200, perSession: 6 };
const POLL_S = 1;
/** Polls between two heartbeats: proxies close a connection on which nothing is sent for about a minute. */
const HEARTBEAT_POLLS = 20;
/** Without data a browser would drop the event. */
const HEARTBEAT = "event: alive\ndata: alive\n\n";
/** Polls between two checks of the right to read: one that ended closes the stream within a minute. */
const RECHECK_POLLS = 30;
/** Retry-After of a refusal, in seconds. */
const RETRY_AFTER_S = 30;
/** How long a browser waits before it connects again after a stream ended. */
const RECONNECT_MS = 5_000;
/** Names and versions are shorter. */
const MAX_PARAMETER_CHARS = 1_000;

type Live = {
  /** The handler of `GET /live`. @throws AppError for requests that get no stream */
  serve(ctx: Koa.Context): Promise<void>;
  /**
   * The version that a page of the subject has, read in the turn in which the page is made: as `version` in the address
   * of its stream it closes the gap until the stream is open. null when there is no such subject.
   */
  versionOf(subject: LiveSubject): string | null;
};

export function createLive(dependencies: LiveDependencies): Live {
  const { authorize, limits = LIMITS } = dependencies;
  const versionOf = (subject: LiveSubject): string | null => toOpaque(dependencies.versionOf(subject));
  const streams = createStreams({ ...dependencies, versionOf });

  const requireRoom = (hasRoom: boolean): void => {
    if (!hasRoom) throw unavailable("Too many pages are open that update themselves", RETRY_AFTER_S);
  };

  async function serve(ctx: Koa.Context): Promise<void> {
    recordForLog(ctx, { route: "live" });
    if (ctx.method !== "GET") throw methodNotAllowed(["GET"]);
    const { subject, known } = readRequest(ctx);
    requireRoom(streams.count() < limits.total);
    const grant = await authorize(ctx, subject);
    requireRoom(streams.count() < limits.total && streams.countOf(grant.session) < limits.perSession);
    // The listener says so on every answer once it stops (server/listener.ts), and ends only streams that are open.
    if (ctx.res.getHeader("Connection") === "close") throw unavailable("The server is stopping", RETRY_AFTER_S);
    const version = versionOf(subject);
    if (version === null) throw notFound("trail" in subject ? "No such trail" : "No such environment");
    // Koa must not end the response.
    ctx.respond = false;
    if (ctx.res.destroyed) return;
    const isBehind = known !== null && known !== version;
    const key = JSON.stringify(subject);
    streams.open({ subject, key, grant, response: ctx.res, version, isBehind, age: 0, sentAt: 0 });
  }

  return { serve, versionOf };
}

/** The open streams. Without any, nothing runs. */
function createStreams({
  versionOf,
  databaseState,
  timer,
  onError,
}: Pick<LiveDependencies, "versionOf" | "databaseState" | "timer" | "onError">) {
  const streams = new Set<Stream>();
  let lastState = -1;
  let stopPolling: (() => void) | null = null;

  function schedule(): void {
    stopPolling = timer(POLL_S, () => {
      try {
        poll();
      } catch (error) {
        onError(error);
      }
      if (streams.size > 0) schedule();
      else stopPolling = null;
    });
  }

  function poll(): void {
    const state = databaseState();
    if (state !== lastState) {
      findChanges();
      lastState = state;
    }
    for (const stream of streams) advance(stream);
  }

  /** Looks each subject up once, however many pages show it. */
  function findChanges(): void {
    const versions = new Map<string, string | null>();
    for (const stream of streams) {
      const { key, subject, response } = stream;
      if (isEnded(response)) continue;
      let version = versions.get(key);
      if (version === undefined) versions.set(key, (version = versionOf(subject)));
      // It was renamed, archived or deleted: the page finds out when it connects again.
      if (version === null) end(response);
      else if (version !== stream.version) Object.assign(stream, { version, isBehind: true });
    }
  }

  return {
    count: (): number => streams.size,
    countOf: (session: string): number => [...streams].filter(({ grant }) => grant.session === session).length,
    open(stream: Stream): void {
      const { response } = stream;
      response.statusCode = 200;
      for (const [name, value] of HEADERS) response.setHeader(name, value);
      streams.add(stream);
      response.once("close", () => {
        streams.delete(stream);
        if (streams.size > 0) return;
        stopPolling?.();
        stopPolling = null;
      });
      // The first message takes the headers with it.
      send(stream, `retry: ${RECONNECT_MS}\n${HEARTBEAT}`);
      if (stream.isBehind) sendChange(stream);
      if (stopPolling === null) schedule();
    },
  };
}

/** What a poll does with one stream. */
function advance(stream: Stream): void {
  const { grant, response } = stream;
  stream.age += 1;
  if (stream.age % RECHECK_POLLS === 0 && !grant.isValid()) end(response);
  if (isEnded(response)) return;
  // Nothing is written before the message before has left: however slowly a client reads, it is sent the latest version
  // only, and holds no memory here. One that has not read for a whole interval is given up.
  const isBlocked = response.writableLength > 0;
  const isHeartbeatDue = stream.age - stream.sentAt >= HEARTBEAT_POLLS;
  if (isBlocked && isHeartbeatDue) response.destroy();
  else if (!isBlocked && stream.isBehind) sendChange(stream);
  else if (!isBlocked && isHeartbeatDue) send(stream, HEARTBEAT);
}

const isEnded = (response: ServerResponse): boolean => response.writableEnded || response.destroyed;

/** Ends a stream at once, also that of a client that does not read. */
function end(response: ServerResponse): void {
  if (response.writableLength > 0) response.destroy();
  else response.end();
}

function send(stream: Stream, text: string): void {
  stream.sentAt = stream.age;
  stream.response.write(text);
}

function sendChange(stream: Stream): void {
  stream.isBehind = false;
  send(stream, `event: change\nid: ${stream.version}\ndata: ${stream.version}\n\n`);
}

/** 96 bits of the SHA-256 of a version: it tells apart, and tells nothing else. */
const toOpaque = (version: string | null): string | null =>
  version === null ? null : hash("sha256", version, "base64url").slice(0, 16);

/** @throws AppError 400 for anything but the parameters of one subject */
function readRequest(ctx: Koa.Context): { subject: LiveSubject; known: string | null } {
  const given = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(ctx.querystring)) {
    if (given.has(name)) throw badRequest(`The parameter '${name.slice(0, 100)}' was given more than once`);
    if (value.length > MAX_PARAMETER_CHARS) throw badRequest(`The parameter '${name.slice(0, 100)}' is too long`);
    given.set(name, value);
  }
  const lastEventId = ctx.get("Last-Event-ID");
  // The header is of a later time than the address, which the browser repeats when it connects again.
  const known = lastEventId === "" ? (given.get("version") ?? null) : lastEventId;
  given.delete("version");
  const [org, flow, trail, environment] = ["org", "flow", "trail", "environment"].map((name) => given.get(name));
  if (given.size === 3 && org !== undefined && flow !== undefined && trail !== undefined)
    return { subject: { org, flow, trail }, known };
  if (given.size === 2 && org !== undefined && environment !== undefined)
    return { subject: { org, environment }, known };
  throw badRequest("Give 'org' with 'flow' and 'trail', or 'org' with 'environment', and nothing but 'version' beside");
}
