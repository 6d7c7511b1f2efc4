/**
 * `GET /live`: notifies open pages of changes to their trails and environments, as server-sent events. One stream
 * serves all pages of a browser (client/live-stream.ts), because a browser opens few connections to one host. Its
 * address names what each page shows, one after the other: `org` with `flow` and `trail`, or `org` with `environment`.
 *
 * `event: version` has the place of a subject in the address, counted from 0, and the opaque version that it has now;
 * the place alone once it is gone, or may not be read any more. It is sent for every subject when the stream opens and
 * after each change: a page compares with the version that it shows, so it misses nothing while there is no stream.
 * `event: alive` opens the stream and repeats every 20 seconds: a page that hears nothing reloads itself.
 *
 * Writes cost nothing more for it: as long as a page is connected, one poll a second asks whether anything was
 * committed, and only then for the version of each subject. Streams and what they follow are bounded; of the streams of
 * one session the oldest gives way, so a browser always has connections left.
 */
import { hash } from "node:crypto";
import type { ServerResponse } from "node:http";
import type Koa from "koa";
import type { Timer } from "../domain/time.ts";
import { badRequest, forbidden, methodNotAllowed, notFound, unavailable } from "../errors.ts";
import type { AppError } from "../errors.ts";
import { recordForLog } from "../http/request-log.ts";

/** What a page shows, by the names in its address. */
export type LiveSubject = { org: string; flow: string; trail: string } | { org: string; environment: string };

/** What the session of a stream may follow. */
export type LiveGrant = {
  /** Public id of the session. */
  session: string;
  /** Whether the session is open. Must not count as a use of it. */
  isOpen(): boolean;
  /** Whether it is open and may read the subject now. */
  mayRead(subject: LiveSubject): boolean;
};

type Limits = {
  /** Subjects that all streams follow together: each may be looked up once a second, a thousand in about 10 ms. */
  subjects: number;
  streamsPerSession: number;
};

type LiveDependencies = {
  /** @throws AppError without a session */
  authorize(ctx: Koa.Context, subjects: readonly LiveSubject[]): LiveGrant;
  /** A text that differs after every change of the subject; null when there is no such subject. */
  versionOf(subject: LiveSubject): string | null;
  /** A number that differs after every commit of any connection. Called once a second. */
  databaseState(): number;
  timer: Timer;
  /** Called with an error of the poll, which goes on. */
  onError(error: unknown): void;
  /** Called with the number of open streams when it changes. */
  onCount?(streams: number): void;
  limits?: Limits;
};

type Followed = {
  subject: LiveSubject;
  /** The subject as a text, for comparison. */
  key: string;
  /** What the page knows, or will be sent next; null: there is nothing that the session may read. */
  version: string | null;
  /** Whether `version` was not sent yet. */
  isBehind: boolean;
};

type Stream = {
  followed: readonly Followed[];
  grant: LiveGrant;
  response: ServerResponse;
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

/**
 * A browser opens six connections to a host without HTTP/2, and a stream takes one for as long as it is open. One that
 * shares its stream has two for a moment, while it opens the next; one without shared workers has one for each page.
 */
const LIMITS: Limits = { subjects: 1_000, streamsPerSession: 4 };
/** Subjects of one stream; client/live-stream.ts names no more. */
const MAX_SUBJECTS = 25;
const POLL_S = 1;
/** Polls between two heartbeats: proxies close a connection on which nothing is sent for about a minute. */
const HEARTBEAT_POLLS = 20;
/** Without data a browser would drop the event. */
const HEARTBEAT = "event: alive\ndata: alive\n\n";
/** Polls between two checks of session and permissions: a stream whose session ended is closed within a minute. */
const RECHECK_POLLS = 30;
/** Retry-After of a refusal, in seconds. */
const RETRY_AFTER_S = 30;
/** How long a browser waits before it connects again after a stream ended. */
const RECONNECT_MS = 5_000;
/** The same after a stream that gave way, so that pages which replace each other's streams do it rarely. */
const GAVE_WAY_MS = 30_000;
/** Names and versions are shorter. */
const MAX_PARAMETER_CHARS = 1_000;

type Live = {
  /** The handler of `GET /live`. @throws AppError for requests that get no stream */
  serve(ctx: Koa.Context): void;
  /** The version of a subject, as streams send it; null when there is no such subject. */
  versionOf(subject: LiveSubject): string | null;
};

export function createLive(dependencies: LiveDependencies): Live {
  const { authorize, limits = LIMITS } = dependencies;
  const versionOf = (subject: LiveSubject): string | null => toOpaque(dependencies.versionOf(subject));
  const streams = createStreams({ ...dependencies, versionOf });

  function serve(ctx: Koa.Context): void {
    recordForLog(ctx, { route: "live" });
    if (ctx.method !== "GET") throw methodNotAllowed(["GET"]);
    const subjects = readSubjects(ctx.querystring);
    const grant = authorize(ctx, subjects);
    const hasRoom = streams.countSubjects() + subjects.length <= limits.subjects;
    if (!hasRoom) throw unavailable("Too many pages are open that update themselves", RETRY_AFTER_S);
    // The listener says so on every answer once it stops (server/listener.ts), and ends only streams that are open.
    if (ctx.res.getHeader("Connection") === "close") throw unavailable("The server is stopping", RETRY_AFTER_S);
    const followed = subjects.map((subject): Followed => {
      const version = grant.mayRead(subject) ? versionOf(subject) : null;
      return { subject, key: JSON.stringify(subject), version, isBehind: true };
    });
    if (followed.every(isGone)) throw refusalOf(subjects, grant);
    // Koa must not end the response.
    ctx.respond = false;
    if (ctx.res.destroyed) return;
    streams.makeRoom(grant.session, limits.streamsPerSession);
    streams.open({ followed, grant, response: ctx.res, age: 0, sentAt: 0 });
  }

  return { serve, versionOf };
}

const isGone = ({ version }: Followed): boolean => version === null;

/** Why none of the subjects can be followed. */
function refusalOf(subjects: readonly LiveSubject[], { mayRead }: LiveGrant): AppError {
  const readable = subjects.find(mayRead);
  if (!readable) return forbidden();
  return notFound("trail" in readable ? "No such trail" : "No such environment");
}

/** The open streams. Without any, nothing runs. */
function createStreams({
  versionOf,
  databaseState,
  timer,
  onError,
  onCount = () => undefined,
}: Pick<LiveDependencies, "versionOf" | "databaseState" | "timer" | "onError" | "onCount">) {
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
    for (const { followed, grant, response } of streams) {
      if (isEnded(response)) continue;
      for (const one of followed) {
        let version = versions.get(one.key);
        if (version === undefined) versions.set(one.key, (version = versionOf(one.subject)));
        if (version !== one.version) setVersion(one, grant.mayRead(one.subject) ? version : null);
      }
    }
  }

  const openStreams = (): Stream[] => [...streams].filter(({ response }) => !isEnded(response));

  return {
    countSubjects: (): number => openStreams().reduce((sum, { followed }) => sum + followed.length, 0),
    /** Ends the oldest streams of a session, so that it may open one more. */
    makeRoom(session: string, max: number): void {
      const own = openStreams().filter(({ grant }) => grant.session === session);
      for (const { response } of own.slice(0, Math.max(0, own.length - max + 1)))
        end(response, `retry: ${GAVE_WAY_MS}\n\n`);
    },
    open(stream: Stream): void {
      const { response } = stream;
      response.statusCode = 200;
      for (const [name, value] of HEADERS) response.setHeader(name, value);
      streams.add(stream);
      onCount(streams.size);
      response.once("close", () => {
        streams.delete(stream);
        onCount(streams.size);
        if (streams.size > 0) return;
        stopPolling?.();
        stopPolling = null;
      });
      // The first message takes the headers with it.
      send(stream, `retry: ${RECONNECT_MS}\n${HEARTBEAT}${takeVersions(stream)}`);
      if (stopPolling === null) schedule();
    },
  };
}

function setVersion(followed: Followed, version: string | null): void {
  if (version !== followed.version) Object.assign(followed, { version, isBehind: true });
}

/** What a poll does with one stream. */
function advance(stream: Stream): void {
  const { followed, response } = stream;
  stream.age += 1;
  if (stream.age % RECHECK_POLLS === 0) recheck(stream);
  // Where nothing is left to follow, the browser learns why when it connects again.
  if (!followed.some((one) => one.version !== null || one.isBehind)) end(response);
  if (isEnded(response)) return;
  // Nothing is written before the message before has left: however slowly a client reads, it is sent only the latest
  // versions, and holds no memory here. One that has not read for a whole interval is given up.
  const isBlocked = response.writableLength > 0;
  const isHeartbeatDue = stream.age - stream.sentAt >= HEARTBEAT_POLLS;
  if (isBlocked && isHeartbeatDue) response.destroy();
  if (isBlocked) return;
  const versions = takeVersions(stream);
  if (versions !== "" || isHeartbeatDue) send(stream, versions === "" ? HEARTBEAT : versions);
}

/** Ends a stream whose session has ended, and takes from it what the session may not read any more. */
function recheck({ followed, grant, response }: Stream): void {
  if (!grant.isOpen()) end(response);
  else for (const one of followed) if (!isGone(one) && !grant.mayRead(one.subject)) setVersion(one, null);
}

const isEnded = (response: ServerResponse): boolean => response.writableEnded || response.destroyed;

/** Ends a stream at once, also that of a client that does not read; one that reads gets a last message. */
function end(response: ServerResponse, message = ""): void {
  if (response.writableLength > 0) response.destroy();
  else response.end(message);
}

function send(stream: Stream, text: string): void {
  stream.sentAt = stream.age;
  stream.response.write(text);
}

/** The versions that were not sent yet, as messages. */
function takeVersions({ followed }: Stream): string {
  let text = "";
  for (const [place, one] of followed.entries()) {
    if (one.isBehind) text += `event: version\ndata: ${place}${isGone(one) ? "" : ` ${one.version}`}\n\n`;
    one.isBehind = false;
  }
  return text;
}

/** 96 bits of the SHA-256 of a version: it tells apart, and tells nothing else. */
const toOpaque = (version: string | null): string | null =>
  version === null ? null : hash("sha256", version, "base64url").slice(0, 16);

/** The subjects of an address. @throws AppError 400 for anything else in it, and for too many */
function readSubjects(query: string): LiveSubject[] {
  const groups: Map<string, string>[] = [];
  for (const [name, value] of new URLSearchParams(query)) {
    if (value.length > MAX_PARAMETER_CHARS) throw badRequest(`The parameter '${name.slice(0, 100)}' is too long`);
    if (name === "org" || groups.length === 0) groups.push(new Map());
    if (groups.length > MAX_SUBJECTS)
      throw badRequest(`A stream follows at most ${MAX_SUBJECTS} trails and environments`);
    const group = groups.at(-1) as Map<string, string>;
    if (group.has(name)) throw badRequest(`The parameter '${name.slice(0, 100)}' was given more than once`);
    group.set(name, value);
  }
  const subjects = groups.map(readSubject);
  if (subjects.length === 0 || subjects.includes(null))
    throw badRequest("Give 'org' with 'flow' and 'trail', or 'org' with 'environment', once for each page");
  return subjects as LiveSubject[];
}

function readSubject(given: ReadonlyMap<string, string>): LiveSubject | null {
  const [org, flow, trail, environment] = ["org", "flow", "trail", "environment"].map((name) => given.get(name));
  if (given.size === 3 && org !== undefined && flow !== undefined && trail !== undefined) return { org, flow, trail };
  if (given.size === 2 && org !== undefined && environment !== undefined) return { org, environment };
  return null;
}
