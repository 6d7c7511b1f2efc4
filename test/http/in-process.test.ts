/** Calls of operations by pages: what they do to the other requests of the server. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createCallers } from "../../src/http/in-process.ts";
import { NO_BODY } from "../../src/http/operation.ts";
import { Closed } from "../../src/http/schema.ts";

const test = suite("http/in-process");

/** An operation that takes a while. */
const operationOf = (take: () => void) =>
  ({
    id: "slow",
    method: "GET",
    path: "/slow",
    permission: "authenticated",
    audit: null,
    params: Closed({}),
    query: Closed({}),
    body: NO_BODY,
    responses: { 200: { description: "", schema: Closed({}) } },
    handle() {
      take();
      return { status: 200, body: {} };
    },
  }) as never;

/** Turns that the event loop makes while a page calls an operation, which takes so long, so many times. */
async function countTurns(ms: number, calls: number): Promise<number> {
  const server = { createContext: () => ({}), read: (work: () => unknown) => work() } as never;
  let clock = 0;
  const operation = operationOf(() => void (clock += ms));
  const progress = { enter: () => undefined, requireRunning: () => undefined, onOver: () => undefined };
  const caller = createCallers(server, () => clock)({ principal: null as never, requestId: "", baseUrl: "", progress });
  let turns = 0;
  let isOver = false;
  const turn = (): void => {
    turns += 1;
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  for (let call = 0; call < calls; call += 1) await caller.call(operation);
  isOver = true;
  return turns;
}

test("other requests get their turn between the calls of a page that takes long", async () => {
  assert.ok((await countTurns(7, 4)) >= 3);
});

test("a page that is quick is made in one turn", async () => {
  assert.is(await countTurns(1, 4), 0);
});

test.run();
