/**
 * Forms that the parser never reports, because it waits for the end of a part that it has passed: each is answered at
 * once, wherever a form is taken, and takes no room from others. And what bounds the reading of a form that has
 * arrived, should it hang for another reason.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { EventEmitter } from "node:events";
import { Readable } from "node:stream";
import type Koa from "koa";
import { AppError } from "../../../src/errors.ts";
import { ClientGoneError } from "../../../src/http/body/body.ts";
import type { EvidenceStage, StagedFile } from "../../../src/http/body/evidence-stage.ts";
import { createMemoryBudget } from "../../../src/http/memory/memory-budget.ts";
import { readForm } from "../../../src/http/body/multipart.ts";
import { RECORD_BOUNDS } from "../../../src/http/body/read-json.ts";
import type { FormBody } from "../../../src/http/operation.ts";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { BOUNDARY, chunk, exchange, field, head, holdings } from "../socket.ts";
import type { RawAnswer } from "../socket.ts";

const test = suite("http/body/unreadable-forms");
/** Bytes of the forms that attack, and of the whole budget: one of them that keeps its room locks its owner out. */
const LARGE_BYTES = 245 * 1024;
let server: TestServer;
let at: { org: string; key: string };
test.before(async () => {
  server = await startServer({ memory: { bodies: 2 * LARGE_BYTES } });
  at = server.given.org();
  await server.given.flow(at, { name: "flow" });
});
test.after(() => server.stop());

const DELIMITER = `--${BOUNDARY}`;
const header = (name: string): string => `Content-Disposition: form-data; name="${name}"; filename="a"\r\n\r\n`;

/** The parts of a form whose parser would wait for ever, and the number of the one whose header does not end. */
const unreadable = (json: string, file: string): readonly [what: string, bytes: string, part: number][] => [
  ["an empty file, then a header of dashes", `${DELIMITER}\r\n${header(file)}${DELIMITER}\r\n--`, 1],
  [
    "the JSON, an empty file, then a header of dashes and the end",
    `${field(json, "{}").toString()}${DELIMITER}\r\n${header(file)}${DELIMITER}\r\n--x\r\n${DELIMITER}--\r\n`,
    2,
  ],
  ["a part without a header, then a file", `${DELIMITER}\r\n\r\n${DELIMITER}${header(file)}-\r\n${DELIMITER}--`, 1],
  ["the JSON as such a file", `${DELIMITER}\r\n${header(json)}${DELIMITER}\r\n---`, 1],
];

type Target = { what: string; method: string; path(): string; json: string; file: string };
const TARGETS: readonly Target[] = [
  {
    what: "an attestation",
    method: "POST",
    path: () => `/attestations/${at.org}/flow/trail/t/generic`,
    json: "data_json",
    file: "attachment_file",
  },
  {
    what: "a flow",
    method: "PUT",
    path: () => `/flows/${at.org}/template_file`,
    json: "data_json",
    file: "template_file",
  },
  { what: "a trail", method: "PUT", path: () => `/trails/${at.org}/flow`, json: "data_json", file: "template_file" },
  {
    what: "a type",
    method: "POST",
    path: () => `/custom-attestation-types/${at.org}`,
    json: "data_json",
    file: "type_schema",
  },
  { what: "a policy", method: "PUT", path: () => `/policies/${at.org}`, json: "payload", file: "policy_file" },
];

const send = ({ method, path }: Target, key: string, { body, isChunked }: { body: Buffer; isChunked: boolean }) =>
  exchange(
    server.url,
    Buffer.concat([
      Buffer.from(
        head(method, path(), {
          Authorization: `Bearer ${key}`,
          "Content-Type": `multipart/form-data; boundary=${BOUNDARY}`,
          ...(isChunked ? { "Transfer-Encoding": "chunked" } : { "Content-Length": body.length }),
        }),
      ),
      ...(isChunked ? [chunk(body.subarray(0, 90)), chunk(body.subarray(90)), Buffer.from("0\r\n\r\n")] : [body]),
    ]),
  );

const REFUSAL = (part: number) => ({
  message:
    `The multipart form is broken: the header of part ${part} does not end before the next boundary: an empty line ` +
    "is missing",
});
const briefly = ({ status, body }: RawAnswer) => ({ status, body });

for (const target of TARGETS)
  for (const [how, isChunked] of [
    ["as a whole", false],
    ["in chunks", true],
  ] as const)
    test(`a form of ${target.what} that does not end is refused, ${how}`, async () => {
      const before = holdings(server);
      for (const [what, bytes, part] of unreadable(target.json, target.file)) {
        const answer = await send(target, at.key, { body: Buffer.from(bytes), isChunked });
        assert.equal(briefly(answer), { status: 400, body: REFUSAL(part) }, what);
      }
      assert.equal(holdings(server), before);
    });

test("272 such forms of 245 KB, through two service accounts, do not lock an admin out", async () => {
  const [target] = TARGETS as [Target];
  const bots = [server.given.serviceAccount(at.org, "member"), server.given.serviceAccount(at.org, "member")];
  const before = holdings(server);
  const [, bytes] = unreadable(target.json, target.file)[0] as [string, string, number];
  // Behind the end of a form anything may follow.
  const body = Buffer.concat([Buffer.from(bytes), Buffer.alloc(LARGE_BYTES - bytes.length, "x")]);
  await Promise.all(
    bots.map(async (key) => {
      for (let sent = 0; sent < 136; sent += 1) {
        const answer = await send(target, key, { body, isChunked: false });
        assert.equal(briefly(answer), { status: 400, body: REFUSAL(1) });
      }
    }),
  );
  assert.equal(holdings(server), before);
  // It finds room only if none of these forms has kept its own.
  const upload = await server.call("POST", `/attestations/${at.org}/flow/trail/t/generic`, {
    key: at.key,
    form: {
      json: { attestation_name: "a", is_compliant: true },
      file: { name: "attachment_file", filename: "a", content: Buffer.alloc(LARGE_BYTES, "y") },
    },
  });
  assert.equal({ status: upload.status, body: upload.body }, { status: 201, body: "OK" });
});

// --- a form that has arrived and hangs

const FORM = {
  kind: "form",
  component: "Form",
  part: "data_json",
  schema: {},
  bounds: RECORD_BOUNDS,
  file: { part: "file", description: "", kind: "evidence" },
} as FormBody;

/** Reads a form, whose file the storage never finishes, within a budget. */
function readHanging({ stallTimeoutS, stage }: { stallTimeoutS: number; stage: EvidenceStage["stage"] }) {
  const body = Buffer.concat([
    Buffer.from(`${DELIMITER}\r\n${header("file")}x\r\n`),
    field("data_json", "{}"),
    Buffer.from(`${DELIMITER}--`),
  ]);
  const budget = createMemoryBudget({ total: 64 << 20, bodies: 16 << 20, answers: 1 }).bodies;
  const req = Object.assign(Readable.from([body], { objectMode: false }), {
    headers: { "content-type": `multipart/form-data; boundary=${BOUNDARY}`, "transfer-encoding": "chunked" },
    complete: true,
    setTimeout: () => undefined,
  });
  const res = new EventEmitter();
  const discarded: StagedFile[] = [];
  const evidence: EvidenceStage = {
    stage,
    stageBytes: () => Promise.reject(new Error("not used")),
    publishFor: async (_staged, write) => write(),
    discard: async (staged) => void discarded.push(...staged),
  };
  const limits = { json: 4_000, form: 120, document: 90, evidence: 100, smallEvidence: 0, stallTimeoutS };
  const state = { progress: { enter: () => undefined, onOver: () => undefined } };
  const ctx = { req, res, is: () => "multipart/form-data", state } as unknown as Koa.Context;
  const reading = readForm(ctx, FORM, { limits, evidence, intake: { budget, owner: "a" } }).then(
    () => "read",
    (error: unknown) => error,
  );
  return { reading, res, req, budget, discarded };
}

test("a form whose bytes are all there is given up when the storage does not take them", async () => {
  let finish: (staged: StagedFile) => void = () => undefined;
  const { reading, budget, discarded } = readHanging({
    stallTimeoutS: 0.02,
    stage: () => new Promise((resolve) => (finish = resolve)),
  });
  const error = (await reading) as AppError;
  assert.instance(error, AppError);
  assert.equal(
    { code: error.code, message: error.message, headers: error.headers, load: budget.load() },
    {
      code: "unavailable",
      message: "The form has arrived, but could not be read to its end within 0.02 seconds. Please try again",
      headers: { "Retry-After": "5" },
      load: { bytes: 0, waiting: 0 },
    },
  );
  // What the storage finishes after that is discarded.
  const staged = { digest: "d", size: 1, token: "late", content: null };
  finish(staged);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(discarded, [staged]);
});

test("a form that is being read ends with its connection, and gives its room back", async () => {
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  const { reading, res, budget } = readHanging({
    stallTimeoutS: 60,
    stage: (source) =>
      new Promise((_resolve, reject) => {
        source.once("close", () => reject(new Error("closed")));
        begin();
      }),
  });
  await begun;
  assert.is(budget.load().bytes, 8 << 20);
  res.emit("close");
  assert.instance(await reading, ClientGoneError);
  assert.equal(budget.load(), { bytes: 0, waiting: 0 });
});

test.run();
