/** Resolving names with a real name server on this machine. */
import { createSocket } from "node:dgram";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { addressesIn, createResolver } from "../../src/notifications/resolver.ts";

const test = suite("notifications/resolver");
const directory = mkdtempSync(join(tmpdir(), "assay-resolver-"));
const sockets: { close(): void }[] = [];
test.after(() => {
  for (const socket of sockets) socket.close();
  rmSync(directory, { recursive: true, force: true });
});

const A = 1;
type Answer = { code?: number; records?: { type: number; bytes: number[] }[] } | null;

/** A name server; with `answer` null it never answers. */
async function nameServer(answer: (name: string, type: number) => Answer) {
  const questions: string[] = [];
  const waiting: (() => void)[] = [];
  const socket = createSocket("udp4");
  sockets.push(socket);
  socket.on("message", (message, from) => {
    const labels: string[] = [];
    let at = 12;
    for (let size = message[at] ?? 0; size > 0; size = message[at] ?? 0) {
      labels.push(message.toString("latin1", at + 1, at + 1 + size));
      at += size + 1;
    }
    const type = message.readUInt16BE(at + 1);
    const name = labels.join(".").toLowerCase();
    questions.push(`${name} ${type === A ? "A" : "AAAA"}`);
    for (const tell of waiting.splice(0)) tell();
    const said = answer(name, type);
    if (!said) return;
    const head = Buffer.from(message.subarray(0, at + 5));
    head.writeUInt16BE(0x8180 | (said.code ?? 0), 2);
    head.writeUInt16BE(said.records?.length ?? 0, 6);
    head.writeUInt32BE(0, 8);
    const records = (said.records ?? []).map(({ type: kind, bytes }) =>
      Buffer.from([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 60, 0, bytes.length, ...bytes]),
    );
    socket.send(Buffer.concat([head, ...records]), from.port, from.address);
  });
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
  return {
    servers: [`127.0.0.1:${socket.address().port}`],
    questions,
    async queried(): Promise<void> {
      while (questions.length === 0) await new Promise<void>((resolve) => waiting.push(resolve));
    },
  };
}

const v4 = (...bytes: number[]) => ({ type: A, bytes });
const LOOPBACK6 = { type: 28, bytes: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1] };
const NEVER = new AbortController().signal;
const codeOf = async (looking: Promise<unknown>): Promise<unknown> =>
  looking.then(
    () => "found",
    ({ code }: { code?: unknown }) => code,
  );

function hosts(text: string): string {
  const file = join(directory, "hosts");
  writeFileSync(file, text);
  return file;
}

test("finds all addresses, IPv4 and IPv6", async () => {
  const { servers, questions } = await nameServer((_, type) => ({
    records: type === A ? [v4(192, 0, 2, 1), v4(10, 0, 0, 1)] : [LOOPBACK6],
  }));
  const resolve = createResolver({ servers, hostsFile: hosts("") });
  assert.equal([...(await resolve("hooks.example", NEVER))].sort(), ["10.0.0.1", "192.0.2.1", "::1"]);
  assert.equal(questions.sort(), ["hooks.example A", "hooks.example AAAA"]);
});

test("one kind of address is enough, whatever the answer about the other", async () => {
  for (const other of [{}, { code: 2 }, { code: 3 }]) {
    const { servers } = await nameServer((_, type) => (type === A ? { records: [v4(192, 0, 2, 1)] } : other));
    assert.equal(await createResolver({ servers, hostsFile: hosts("") })("hooks.example", NEVER), ["192.0.2.1"]);
  }
});

test("an unknown name, no address and no answer are errors; a failing server is not an unknown name", async () => {
  const of = async (answer: (name: string, type: number) => Answer) =>
    codeOf(createResolver({ servers: (await nameServer(answer)).servers, hostsFile: hosts("") })("x.example", NEVER));
  assert.is(await of(() => ({ code: 3 })), "ENOTFOUND");
  assert.is(await of(() => ({})), "ENODATA");
  assert.is(await of(() => ({ code: 2 })), "ESERVFAIL");
  assert.is(await of((_, type) => (type === A ? { code: 3 } : { code: 2 })), "ESERVFAIL");
});

test("a lookup ends with its signal", async () => {
  const { servers, queried } = await nameServer(() => null);
  const controller = new AbortController();
  const looking = createResolver({ servers, hostsFile: hosts("") })("slow.example", controller.signal);
  const ended = codeOf(
    looking.then(
      () => "found",
      () => {
        throw Object.assign(new Error(), { code: "ended" });
      },
    ),
  );
  await queried();
  controller.abort();
  assert.is(await ended, "ended");
  assert.is(
    await codeOf(createResolver({ servers })("slow.example", controller.signal)),
    20,
    "the code of an AbortError",
  );
});

test("the hosts file comes first, and localhost is never looked up", async () => {
  const { servers, questions } = await nameServer(() => ({ code: 3 }));
  const resolve = createResolver({
    servers,
    hostsFile: hosts(
      "# comment\n10.1.2.3\tHooks.internal hooks # more\nfd00::1 hooks.internal\nnonsense hooks\n127.0.0.1 localhost\n",
    ),
  });
  assert.equal(await resolve("hooks.internal", NEVER), ["10.1.2.3", "fd00::1"]);
  assert.equal(await resolve("localhost", NEVER), ["127.0.0.1"]);
  assert.equal(await createResolver({ servers, hostsFile: join(directory, "none") })("app.localhost", NEVER), [
    "127.0.0.1",
    "::1",
  ]);
  assert.equal(questions, []);
});

test("reads a hosts file like the system", () => {
  assert.equal(addressesIn("1.2.3.4 a b\n::1\ta\n#1.1.1.1 a\n1.2.3.5 aa\n\n1.2.3.6", "a"), ["1.2.3.4", "::1"]);
});

test.run();
