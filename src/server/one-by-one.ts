/**
 * Serves the requests of a connection one after the other. A client may send many at once (pipelining), and Node would
 * serve all of them in one turn of the event loop and keep all their answers. Here the next one begins after the answer
 * before it has left the process, in a turn of its own, and nothing more is read from a connection with requests that
 * wait. So a client that does not read its answers is not served further.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** Requests of all connections that wait for one before them. Node has parsed them: each takes a few kilobytes. */
const MAX_WAITING = 4_096;

/** A connection. */
type Lane = {
  isBusy: boolean;
  /** Whether it is kept paused while requests wait, and `waiting` is emptied when it ends. */
  isWatched: boolean;
  readonly waiting: [request: IncomingMessage, response: ServerResponse][];
};

/** @param options.maxWaiting requests that may wait in all; a connection that sends one more is closed */
export function serveOneByOne(
  handle: RequestListener,
  { maxWaiting = MAX_WAITING }: { maxWaiting?: number } = {},
): RequestListener {
  const lanes = new WeakMap<Socket, Lane>();
  let waiting = 0;

  function serve(lane: Lane, request: IncomingMessage, response: ServerResponse): void {
    lane.isBusy = true;
    response.once("close", () => {
      if (lane.waiting.length > 0) setImmediate(serveNext, lane);
      else lane.isBusy = false;
    });
    handle(request, response);
  }

  function serveNext(lane: Lane): void {
    const next = lane.waiting.shift();
    if (!next) {
      lane.isBusy = false;
      return;
    }
    waiting -= 1;
    const [request, response] = next;
    if (lane.waiting.length === 0) request.socket.resume();
    serve(lane, request, response);
  }

  function forget(lane: Lane): void {
    waiting -= lane.waiting.length;
    lane.waiting.length = 0;
  }

  function add(socket: Socket, lane: Lane, request: [IncomingMessage, ServerResponse]): void {
    if (socket.destroyed) return;
    if (waiting >= maxWaiting) {
      socket.destroy();
      return;
    }
    waiting += 1;
    lane.waiting.push(request);
    socket.pause();
    if (lane.isWatched) return;
    lane.isWatched = true;
    socket.once("close", () => forget(lane));
    // Node resumes it whenever a request ends, and would at once read another megabyte of requests.
    socket.on("resume", () => {
      if (lane.waiting.length > 0) socket.pause();
    });
  }

  return (request, response) => {
    const { socket } = request;
    let lane = lanes.get(socket);
    if (!lane) lanes.set(socket, (lane = { isBusy: false, isWatched: false, waiting: [] }));
    if (lane.isBusy) add(socket, lane, [request, response]);
    else serve(lane, request, response);
  };
}
