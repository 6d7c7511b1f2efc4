/** Calls of operations by pages: what they do to the other requests of the server. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { Readable } from "node:stream";
import { Type } from "typebox";
import type { LargeAnswer } from "../../src/http/answers/large-answers.ts";
import { createCallers } from "../../src/http/in-process.ts";
import { NO_BODY } from "../../src/http/operation.ts";
import { Closed } from "../../src/http/schema.ts";
import { stringifyJson } from "../../src/json/text.ts";

const test = suite("http/in-process");

const PRINCIPAL = { kind: "user", id: 1, publicId: "", name: "ada", displayName: "Ada", keyPublicId: "" } as const;

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
  const caller = createCallers(
    server,
    () => clock,
  )({ principal: PRINCIPAL, requestId: "", baseUrl: "", progress, asker: "page" });
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

/** What a page gets of an operation whose answer is in a file of so many bytes. `open` tells whether the file is. */
async function callLarge(bytes: number, text = '{"n":1}') {
  const file = { isOpen: true };
  const answer: LargeAnswer = {
    bytes,
    gzipped: false,
    open: () => Readable.from([]),
    read: async () => Buffer.from(text),
    close: () => void (file.isOpen = false),
  };
  const server = {
    createContext: () => ({}),
    readMembership: () => ({ organizationId: 1, role: "admin", isPublic: false, features: [] }),
    read: (work: () => unknown) => work(),
    databaseState: () => 1,
    answerReader: { make: async () => answer },
  } as never;
  const operation = {
    ...(operationOf(() => assert.unreachable()) as object),
    permission: "flow:read",
    path: "/slow/{org}",
    params: Closed({ org: Type.String() }),
    isLarge: () => true,
  } as never;
  const progress = { enter: () => undefined, requireRunning: () => undefined, onOver: () => undefined };
  const caller = createCallers(server)({
    principal: PRINCIPAL,
    requestId: "",
    baseUrl: "",
    progress,
    asker: "page",
  });
  const outcome = await caller
    .call(operation, { params: { org: "acme" } } as never)
    .catch(({ code, message }: { code: string; message: string }) => ({ code, message }));
  return { outcome, ...file };
}

test("a page reads a large answer from its file, and gives the file up", async () => {
  assert.equal(await callLarge(7), { outcome: { n: 1 }, isOpen: false });
});

test("a page gets a large answer as it is, parsed in turns with other work", async () => {
  const item = (n: number): string =>
    `{"n":${n},"wide":12345678901234567890,"10":[],"2":{"t":"é\\"]"},"list":[1.0,true]}`;
  const items = Array.from({ length: 30_000 }, (_, n) => item(n)).join(",");
  const nested = "[".repeat(50) + "]".repeat(50);
  const keys = `{"10":${nested},"2":"${"y".repeat(70_000)}"}`;
  const text = `{"items":[${items}],"long":"${"x".repeat(100_000)}","keys":${keys}}`;
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  count();
  const { outcome } = await callLarge(text.length, text);
  isOver = true;
  assert.ok(stringifyJson(outcome) === text);
  assert.ok(turns > 4, `${turns} turns`);
});

test("an answer that is too long for a page is refused before it is read, and its file is given up", async () => {
  assert.equal(await callLarge((12 << 20) + 1), {
    outcome: { code: "too_large", message: "What this page would show exceeds the 12MB limit" },
    isOpen: false,
  });
});

test.run();
