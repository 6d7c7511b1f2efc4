/** Live updates: what a page is sent, to whom, within which bounds, and how a stream ends. */
import { request } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { connect } from "node:net";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import Koa from "koa";
import type { Timer } from "../../src/domain/time.ts";
import { AppError } from "../../src/errors.ts";
import { emptyLogFields } from "../../src/http/request-log.ts";
import { closeListener, listen } from "../../src/server/listener.ts";
import { createLive } from "../../src/web/live.ts";
import { AMPLE, freshFingerprint, startServer } from "../given.ts";
import type { ServerOptions } from "../given.ts";
import { running, runningIn } from "../api/environments/given.ts";
import { createBrowser, setPassword, PASSWORD } from "./browser.ts";

const test = suite("web/live");

/** A timer that the test rings. */
function manualTimer() {
  const pending = new Set<() => void>();
  const timer: Timer = (_, ring) => {
    pending.add(ring);
    return () => pending.delete(ring);
  };
  return {
    timer,
    pending,
    /** So many seconds pass, and what is written in one of them leaves. */
    async advance(seconds: number): Promise<void> {
      for (let second = 0; second < seconds; second += 1) {
        for (const ring of [...pending]) {
          pending.delete(ring);
          ring();
        }
        await new Promise((resolve) => setImmediate(resolve));
      }
    },
  };
}

type Stream = {
  status: number;
  headers: IncomingMessage["headers"];
  /** What was received so far. */
  text(): string;
  until(holds: (text: string) => boolean): Promise<void>;
  ended: Promise<void>;
  close(): void;
};

/** Opens a stream; resolves when the head of the response arrived. */
const open = (url: string, path: string, headers: Record<string, string>, method = "GET"): Promise<Stream> =>
  new Promise((resolve, reject) => {
    const sent = request(new URL(path, url), { method, headers: { Accept: "text/event-stream", ...headers } });
    sent.once("error", reject);
    sent.once("response", (response) => {
      let text = "";
      const waiting = new Set<() => void>();
      const ended = new Promise<void>((done) => response.once("close", done));
      response.on("error", () => undefined);
      response.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
        for (const look of waiting) look();
      });
      const until = (holds: (text: string) => boolean): Promise<void> =>
        new Promise((done) => {
          const look = (): void => {
            if (holds(text)) done();
          };
          waiting.add(look);
          look();
        });
      resolve({
        status: response.statusCode ?? 0,
        headers: response.headers,
        text: () => text,
        until,
        ended,
        close: () => sent.destroy(),
      });
    });
    sent.end();
  });

/** A member who is signed in, an environment and a trail. */
async function given(options: ServerOptions = {}) {
  const clock = manualTimer();
  const server = await startServer({ liveTimer: clock.timer, ...options });
  const at = server.given.org();
  const name = `${at.org}-admin`;
  await setPassword(server, name);
  const signIn = async (user = name): Promise<Record<string, string>> => {
    const browser = createBrowser(server.url);
    assert.is((await browser.login(user, PASSWORD)).status, 303);
    return { Cookie: [...browser.cookies].map(([cookie, value]) => `${cookie}=${value}`).join("; ") };
  };
  const world = runningIn(server);
  const environment = world.environment(at, { type: "K8S" });
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const opened: Stream[] = [];
  type Subject = Record<string, string>;
  const stream = async (subjects: readonly Subject[], headers: Record<string, string>): Promise<Stream> => {
    const query = subjects.map((subject) => new URLSearchParams(subject)).join("&");
    const one = await open(server.url, `/live?${query}`, headers);
    opened.push(one);
    return one;
  };
  return {
    server,
    clock,
    at,
    name,
    world,
    environment,
    flow,
    trail,
    signIn,
    stream,
    live: (subject: Subject, headers: Record<string, string>) => stream([subject], headers),
    onEnvironment: { org: at.org, environment },
    onTrail: { org: at.org, flow, trail },
    async stop() {
      for (const stream of opened) stream.close();
      await server.stop();
    },
  };
}

const HEARTBEAT = "event: alive\ndata: alive\n\n";
/** Whether one was sent after the first, which opens the stream. */
const hasHeartbeat = (text: string): boolean => text.indexOf(HEARTBEAT) < text.lastIndexOf(HEARTBEAT);
/** The versions that were sent, by the place of the subject in the address; null for one that is gone. */
const versionsIn = (text: string): { place: number; version: string | null }[] =>
  [...text.matchAll(/event: version\ndata: (\d+)(?: ([\w-]{16}))?\n\n/g)].map(([, place, version = null]) => ({
    place: Number(place),
    version,
  }));
/** Resolves when so many versions were sent. */
async function versionsOf(stream: Stream, count: number): Promise<ReturnType<typeof versionsIn>> {
  await stream.until((text) => versionsIn(text).length >= count);
  return versionsIn(stream.text());
}

test("a page of an environment is sent the version at first and after each change, and nothing else", async () => {
  const { clock, at, world, environment, signIn, live, onEnvironment, stop } = await given();
  const cookie = await signIn();
  const stream = await live(onEnvironment, cookie);
  assert.is(stream.status, 200);
  const { "content-type": type, "cache-control": caching, "x-accel-buffering": buffering } = stream.headers;
  assert.equal([type, caching, buffering], ["text/event-stream; charset=utf-8", "no-store, no-transform", "no"]);
  assert.is(stream.headers["content-encoding"], undefined);
  const [first] = await versionsOf(stream, 1);
  assert.is(stream.text(), `retry: 5000\n${HEARTBEAT}event: version\ndata: 0 ${first?.version}\n\n`);
  await clock.advance(3);
  world.report(at, world.environment(at), [running("web", freshFingerprint())]);
  await clock.advance(1);
  world.report(at, environment, [running("web", freshFingerprint())]);
  await clock.advance(1);
  await versionsOf(stream, 2);
  world.report(at, environment, []);
  await clock.advance(1);
  const versions = await versionsOf(stream, 3);
  assert.is(versions.length, 3, "the other environment is none of its business");
  assert.is(new Set(versions.map(({ version }) => version)).size, 3);
  await stop();
});

test("one stream follows several pages, and says which of them changed", async () => {
  const { clock, server, at, world, environment, flow, trail, signIn, stream, onEnvironment, onTrail, stop } =
    await given();
  const cookie = await signIn();
  const both = await stream([onTrail, onEnvironment], cookie);
  const alone = await stream([onTrail], cookie);
  const [ofTrail, ofEnvironment] = await versionsOf(both, 2);
  assert.equal([ofTrail?.place, ofEnvironment?.place], [0, 1]);
  assert.equal(await versionsOf(alone, 1), [ofTrail], "a version says the same in every stream");
  await server.given.trail(at, { flow });
  await clock.advance(1);
  await server.given.artifact(at, { flow, trail, fingerprint: freshFingerprint() });
  await clock.advance(1);
  const changed = (await versionsOf(both, 3))[2];
  assert.is(changed?.place, 0);
  assert.equal((await versionsOf(alone, 2))[1], changed);
  world.report(at, environment, []);
  await clock.advance(1);
  assert.is((await versionsOf(both, 4))[3]?.place, 1);
  assert.is(versionsIn(alone.text()).length, 2);
  await stop();
});

test("a stream that opens later starts with the version of then", async () => {
  const { clock, world, at, environment, signIn, live, onEnvironment, stop } = await given();
  const cookie = await signIn();
  const first = await live(onEnvironment, cookie);
  const [before] = await versionsOf(first, 1);
  first.close();
  world.report(at, environment, []);
  const second = await live(onEnvironment, cookie);
  const [now] = await versionsOf(second, 1);
  assert.is.not(now?.version, before?.version);
  await clock.advance(2);
  assert.equal(versionsIn(second.text()), [now], "it is sent once");
  await stop();
});

test("heartbeats keep the connection open, and nothing runs while nobody is connected", async () => {
  const { clock, signIn, live, onEnvironment, stop } = await given();
  assert.is(clock.pending.size, 0);
  const cookie = await signIn();
  const [one, two] = [await live(onEnvironment, cookie), await live(onEnvironment, cookie)];
  assert.is(clock.pending.size, 1, "one poll for all");
  await clock.advance(20);
  await one.until(hasHeartbeat);
  one.close();
  two.close();
  while (clock.pending.size > 0) await new Promise((resolve) => setImmediate(resolve));
  const again = await live(onEnvironment, cookie);
  assert.is(clock.pending.size, 1);
  assert.is(again.status, 200);
  await stop();
});

test("a stream ends with the session, the right to read and the subject, and sends no change after that", async () => {
  const { server, clock, at, name, environment, world, signIn, live, onEnvironment, stop } = await given();
  const gone = { place: 0, version: null };
  const other = `${name}-2`;
  await setPassword(server, other);
  const organization = server.store.organizations.find(at.org) as { id: number };
  const user = server.store.users.find(other) as { id: number; name: string };
  server.store.organizations.setRole(organization.id, user, { role: "reader", changedBy: "test" });
  const [mine, theirs] = [await live(onEnvironment, await signIn()), await live(onEnvironment, await signIn(other))];
  const admin = server.store.users.find(name) as { id: number };
  for (const { public_id } of server.store.sessions.list(admin.id)) server.store.sessions.end(public_id);
  world.report(at, environment, []);
  await clock.advance(2);
  await mine.ended;
  assert.equal(versionsIn(mine.text()).slice(1), [gone], "a change is not sent once the session has ended");
  await clock.advance(30);
  await theirs.until(hasHeartbeat);
  server.db.prepare("DELETE FROM memberships WHERE user_id = ?").run(user.id);
  await clock.advance(31);
  await theirs.ended;
  assert.equal(versionsIn(theirs.text()).slice(2), [gone]);
  server.store.organizations.setRole(organization.id, user, { role: "reader", changedBy: "test" });
  const last = await live(onEnvironment, await signIn(other));
  server.db.prepare("UPDATE environments SET name = 'gone' WHERE id = ?").run(world.idOf(at, environment));
  await clock.advance(2);
  await last.ended;
  assert.equal(versionsIn(last.text()).slice(1), [gone]);
  await stop();
});

test("a subject that may not be read is sent as gone, and the stream goes on for others", async () => {
  const { server, clock, at, name, environment, world, signIn, stream, onEnvironment, onTrail, stop } = await given();
  const foreign = server.given.org();
  const hidden = { org: foreign.org, environment: world.environment(foreign, { type: "K8S" }) };
  const cookie = await signIn();
  const one = await stream([hidden, onEnvironment, { ...onTrail, trail: "missing" }, onTrail], cookie);
  const versions = await versionsOf(one, 4);
  assert.equal(
    versions.map(({ place, version }) => ({ place, isGone: version === null })),
    [
      { place: 0, isGone: true },
      { place: 1, isGone: false },
      { place: 2, isGone: true },
      { place: 3, isGone: false },
    ],
  );
  world.report(foreign, hidden.environment, [running("web", freshFingerprint())]);
  await clock.advance(1);
  world.report(at, environment, []);
  await clock.advance(1);
  const more = (await versionsOf(one, 5)).slice(4);
  assert.equal(
    more.map(({ place }) => place),
    [1],
  );
  // What changes after the right to read ended is not sent, long before the stream ends.
  const user = server.store.users.find(name) as { id: number };
  server.db.prepare("DELETE FROM memberships WHERE user_id = ?").run(user.id);
  world.report(at, environment, [running("web", freshFingerprint())]);
  await clock.advance(1);
  assert.equal((await versionsOf(one, 6)).slice(5), [{ place: 1, version: null }]);
  await clock.advance(31);
  await one.ended;
  await stop();
});

test("an open page does not count as a use of its session, and its stream ends within a minute of it", async () => {
  const { server, clock, signIn, live, onEnvironment, stop } = await given();
  const stream = await live(onEnvironment, await signIn());
  server.clock.at += 28_801;
  await clock.advance(30);
  await stream.ended;
  await stop();
});

test("refuses what a read of the subject refuses, and requests that name no one subject", async () => {
  const { server, at, environment, flow, trail, signIn, live, onEnvironment, onTrail, clock, stop } = await given();
  const cookie = await signIn();
  const foreign = server.given.org();
  const choose = "Give 'org' with 'flow' and 'trail', or 'org' with 'environment', once for each page";
  const long = "x".repeat(1_001);
  const refused = "You don't have permission to access this resource";
  const of26 = Array.from({ length: 26 }, () => `org=${at.org}&environment=${environment}`).join("&");
  const table: [string, Record<string, string>, number, string][] = [
    [`org=${at.org}&environment=${environment}`, {}, 401, "Authentication credentials are missing or invalid"],
    [`org=${foreign.org}&environment=${environment}`, cookie, 403, refused],
    [`org=missing&environment=${environment}`, cookie, 403, refused],
    [`org=${at.org}&environment=missing`, cookie, 404, "No such environment"],
    [`org=${foreign.org}&environment=e&org=missing&environment=e`, cookie, 403, refused],
    [`org=${foreign.org}&environment=e&org=${at.org}&flow=${flow}&trail=missing`, cookie, 404, "No such trail"],
    [`org=${at.org}&flow=${flow}&trail=missing`, cookie, 404, "No such trail"],
    [`org=${at.org}&flow=missing&trail=${trail}`, cookie, 404, "No such trail"],
    ["", cookie, 400, choose],
    [`org=${at.org}`, cookie, 400, choose],
    [`org=${at.org}&flow=${flow}`, cookie, 400, choose],
    [`org=${at.org}&flow=${flow}&trail=${trail}&environment=${environment}`, cookie, 400, choose],
    [`org=${at.org}&environment=${environment}&more=1`, cookie, 400, choose],
    [`org=${at.org}&environment=${environment}&version=1`, cookie, 400, choose],
    [`org=${at.org}&org=${at.org}&environment=${environment}`, cookie, 400, choose],
    [`environment=${environment}&org=${at.org}`, cookie, 400, choose],
    [`org=${at.org}&environment=e&environment=e`, cookie, 400, "The parameter 'environment' was given more than once"],
    [of26, cookie, 400, "A stream follows at most 25 trails and environments"],
    [`org=${at.org}&environment=${long}`, cookie, 400, "The parameter 'environment' is too long"],
  ];
  for (const [query, headers, status, message] of table) {
    const stream = await open(server.url, `/live?${query}`, headers);
    await stream.ended;
    assert.equal({ status: stream.status, body: JSON.parse(stream.text()) }, { status, body: { message } }, query);
  }
  const posted = await open(server.url, `/live?${new URLSearchParams(onEnvironment)}`, cookie, "POST");
  assert.equal([posted.status, posted.headers["allow"]], [405, "GET"]);
  await posted.ended;
  assert.is(clock.pending.size, 0, "no refusal leaves anything running");
  for (const subject of [onEnvironment, onTrail]) assert.is((await live(subject, cookie)).status, 200);
  await stop();
});

test("a session has four streams: a fifth takes the place of the oldest, which connects again later", async () => {
  const { clock, world, at, environment, signIn, live, onEnvironment, stop } = await given();
  const [cookie, other] = [await signIn(), await signIn()];
  const theirs = await live(onEnvironment, other);
  const streams: Stream[] = [];
  for (let count = 0; count < 5; count += 1) streams.push(await live(onEnvironment, cookie));
  assert.equal(
    streams.map(({ status }) => status),
    [200, 200, 200, 200, 200],
  );
  const [oldest, ...rest] = streams as [Stream, ...Stream[]];
  await oldest.ended;
  assert.match(oldest.text(), /\nretry: 30000\n\n$/);
  world.report(at, environment, []);
  await clock.advance(1);
  for (const stream of [theirs, ...rest]) await versionsOf(stream, 2);
  await stop();
});

test("the server stops at once while streams are open, and logs them as no slow requests", async () => {
  const { server, signIn, live, onEnvironment, onTrail, stop } = await given();
  const cookie = await signIn();
  const streams = [await live(onEnvironment, cookie), await live(onTrail, cookie)];
  // Would take an hour if it waited for the streams.
  await closeListener(server.server, 3_600);
  await Promise.all(streams.map(({ ended }) => ended));
  const lines = server.lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  const ofStreams = lines.filter(({ route }) => route === "live");
  assert.equal(
    ofStreams.map(({ msg, status }) => [msg, status]),
    [
      ["request", 200],
      ["request", 200],
    ],
  );
  await stop();
});

/** Live updates on their own, of a subject whose version the test sets. */
async function alone(limits?: { subjects: number; streamsPerSession: number }) {
  const clock = manualTimer();
  const world = {
    version: "1",
    state: 1,
    error: null as Error | null,
    errors: [] as unknown[],
    lookUps: 0,
    streams: 0,
  };
  const responses: ServerResponse[] = [];
  const live = createLive({
    authorize: (ctx) => ({ session: ctx.get("X-Session"), isOpen: () => true, mayRead: () => true }),
    versionOf() {
      if (world.error) throw world.error;
      world.lookUps += 1;
      return world.version;
    },
    databaseState: () => world.state,
    timer: clock.timer,
    onError: (error) => world.errors.push(error),
    onCount: (count) => void (world.streams = count),
    ...(limits ? { limits } : {}),
  });
  const app = new Koa();
  app.use(async (ctx) => {
    ctx.state = { log: emptyLogFields() };
    responses.push(ctx.res);
    try {
      await live.serve(ctx);
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      ctx.set(error.headers);
      ctx.status = 503;
    }
  });
  const { server, url } = await listen(
    Object.assign(app, { recordMalformedRequest: () => "" }),
    { host: "127.0.0.1", port: 0 },
    { limits: AMPLE },
  );
  return {
    clock,
    world,
    responses,
    versionOf: live.versionOf,
    url,
    open: (session: string) => open(url, "/live?org=o&environment=e", { "X-Session": session }),
    stop: () => closeListener(server, 0),
  };
}

test("what the streams of all sessions follow is bounded, and what ended counts no more", async () => {
  const { open: begin, stop } = await alone({ subjects: 2, streamsPerSession: 6 });
  const first = await begin("a");
  assert.is(first.status, 200);
  assert.is((await begin("b")).status, 200);
  const refused = await begin("c");
  assert.equal([refused.status, refused.headers["retry-after"]], [503, "30"]);
  first.close();
  let next = await begin("c");
  while (next.status !== 200) next = await begin("c");
  await stop();
});

test("the number of open streams is reported, down to none", async () => {
  const { open: begin, world, stop } = await alone();
  const streams = [await begin("a"), await begin("a"), await begin("b")];
  assert.is(world.streams, 3);
  for (const stream of streams) stream.close();
  while (world.streams > 0) await new Promise((resolve) => setImmediate(resolve));
  await stop();
});

test("the version that a page is made with is that of the stream", async () => {
  const { open: begin, clock, world, versionOf, stop } = await alone();
  const subject = { org: "o", environment: "e" };
  const before = versionOf(subject);
  const stream = await begin("a");
  assert.equal(await versionsOf(stream, 1), [{ place: 0, version: before }]);
  Object.assign(world, { version: "2", state: 2 });
  await clock.advance(1);
  assert.equal((await versionsOf(stream, 2))[1], { place: 0, version: versionOf(subject) });
  assert.is.not(versionOf(subject), before);
  await stop();
});

test("a subject is looked up once for all its pages, and only after a commit", async () => {
  const { open: begin, clock, world, stop } = await alone();
  for (const session of ["a", "b", "c"]) await begin(session);
  await clock.advance(1);
  world.lookUps = 0;
  await clock.advance(10);
  assert.is(world.lookUps, 0);
  world.state += 1;
  await clock.advance(10);
  assert.is(world.lookUps, 1);
  await stop();
});

test("a failed look-up is reported, and the change is sent when it works again", async () => {
  const { open: begin, clock, world, stop } = await alone();
  const stream = await begin("a");
  Object.assign(world, { error: new Error("disk I/O error"), state: 2, version: "2" });
  await clock.advance(2);
  assert.is(world.errors.length, 2);
  world.error = null;
  await clock.advance(1);
  await versionsOf(stream, 2);
  await stop();
});

test("a client that does not read is sent the latest version only, and is cut off after a while", async () => {
  const { clock, world, url, responses, stop } = await alone();
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  const gone = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  socket.on("error", () => undefined);
  socket.write("GET /live?org=o&environment=e HTTP/1.1\r\nHost: x\r\nX-Session: a\r\n\r\n");
  await new Promise<void>((resolve) => socket.once("data", () => resolve()));
  socket.pause();
  // The kernel buffers a few megabytes; this fills them, so that what follows stays in the process.
  const [response] = responses as [ServerResponse];
  response.write(`:${"x".repeat(32 << 20)}\n\n`);
  assert.ok(response.writableLength > 0);
  const before = response.writableLength;
  for (let version = 2; version < 12; version += 1) {
    Object.assign(world, { version: String(version), state: version });
    await clock.advance(1);
  }
  assert.is(response.writableLength, before, "nothing was added");
  await clock.advance(20);
  assert.is(response.destroyed, true);
  socket.resume();
  await gone;
  assert.is(clock.pending.size, 0);
  await stop();
});

test.run();
