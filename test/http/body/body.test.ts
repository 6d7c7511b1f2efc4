/**
 * Bodies over real sockets: whatever arrives, or stops arriving, the client gets exactly one answer as the contract
 * states it, and the server keeps nothing of a refused request.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { gzipSync } from "node:zlib";
import Koa from "koa";
import { listen, closeListener } from "../../../src/server/listener.ts";
import { fresh, startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { BOUNDARY, CLOSING, chunk, dial, exchange, field, file, head, holdings, logged, part } from "../socket.ts";
import { until } from "../../patience.ts";
import type { RawAnswer } from "../socket.ts";

const test = suite("http/body/body");
const LIMITS = { json: 4096, form: 2048, document: 8192, evidence: 200_000, lingerS: 0.2 };
let server: TestServer;
/** The same, but it abandons a body that stalls for 50 ms. */
let hasty: TestServer;
let at: { org: string; key: string };
let reader: string;
test.before(async () => {
  server = await startServer({ limits: { ...LIMITS, stallTimeoutS: 20 } });
  at = server.given.org();
  reader = server.given.user(at.org, "reader");
  await server.given.flow(at, { name: "flow" });
  hasty = await startServer({ from: server.image(), limits: { ...LIMITS, stallTimeoutS: 0.05 } });
});
test.after(async () => {
  await server.stop();
  await hasty.stop();
});

const refused = (errors: Record<string, string>) => ({ message: "Input payload validation failed", errors });
const bearer = (key: string) => ({ Authorization: `Bearer ${key}` });
const assertAnswer = (answer: RawAnswer, status: number, body: unknown): void => {
  assert.equal({ status: answer.status, body: answer.body }, { status, body });
  assert.is(answer.headers["content-type"], "application/json; charset=utf-8");
};

/** Asserts the refusal, and that nothing of the request was kept. */
async function assertRefused(
  ask: () => Promise<RawAnswer>,
  status: number,
  body: unknown,
  on: TestServer = server,
): Promise<RawAnswer> {
  const before = holdings(on);
  const answer = await ask();
  assertAnswer(answer, status, body);
  assert.equal(holdings(on), before);
  return answer;
}

// --- JSON: PUT /flows/{org}/flow/rename takes {"new_name": ...}
const RENAME = (): string => `/flows/${at.org}/flow/rename`;
const put = (body: string | Buffer, headers: Record<string, string | number> = {}): Promise<RawAnswer> =>
  exchange(
    server.url,
    Buffer.concat([
      Buffer.from(
        head("PUT", RENAME(), {
          ...bearer(at.key),
          "Content-Type": "application/json",
          "Content-Length": body.length,
          ...headers,
        }),
      ),
      Buffer.from(body),
    ]),
  );
const JSON_OVER = { message: "Request body size exceeds the 4KB limit" };

test("a body whose declared length is over the limit is refused before a byte of it is sent", async () => {
  await assertRefused(() => put("", { "Content-Length": 4097 }), 413, JSON_OVER);
});

test("a body at the limit is read, one byte more is refused", async () => {
  const json = (size: number): string => `{"new_name":${" ".repeat(size - 17)}"a~"}`;
  assert.is(json(4096).length, 4096);
  await server.given.flow(at, { name: "big" });
  const send = (size: number) =>
    exchange(
      server.url,
      head("PUT", `/flows/${at.org}/big/rename`, { ...bearer(at.key), "Transfer-Encoding": "chunked" }) +
        chunk(json(size)).toString() +
        "0\r\n\r\n",
    );
  await assertRefused(() => send(4097), 413, JSON_OVER);
  assertAnswer(await send(4096), 200, "OK");
});

test("an endless chunked body is refused when it exceeds the limit", async () => {
  const wire = await dial(server.url);
  await wire.send(head("PUT", RENAME(), { ...bearer(at.key), "Transfer-Encoding": "chunked" }));
  const before = holdings(server);
  for (let sent = 0; sent <= 4096; sent += 1024) await wire.send(chunk(" ".repeat(1024)));
  assertAnswer(await wire.answer(), 413, JSON_OVER);
  assert.is(await wire.closed(), "closed");
  assert.equal(holdings(server), before);
});

for (const [what, key, path, status, body] of [
  ["without a key", () => null, RENAME, 401, { message: "Authentication credentials are missing or invalid" }],
  ["without the role", () => reader, RENAME, 403, { message: "You don't have permission to access this resource" }],
  [
    "where there is no route",
    () => at.key,
    () => "/nowhere",
    404,
    { message: "The requested URL was not found on the server: the API is described at /api/v2/doc/ of this server" },
  ],
  [
    "with another method",
    () => at.key,
    () => `/flows/${at.org}/flow/archive/`,
    404,
    { message: "The requested URL was not found on the server: the API is described at /api/v2/doc/ of this server" },
  ],
] as [string, () => string | null, () => string, number, unknown][])
  test(`a client that expects 100 Continue, ${what}, is refused before it sends the body`, async () => {
    const held = key();
    const wire = await dial(server.url);
    await wire.send(
      head("PUT", path(), { ...(held ? bearer(held) : {}), "Content-Length": 1000, Expect: "100-continue" }),
    );
    const answer = await wire.answer();
    assertAnswer(answer, status, body);
    assert.is(answer.headers["connection"], "close");
    assert.is(await wire.closed(), "closed");
  });

test("a client that expects 100 Continue gets 413 for a large body, and 100 for a small one", async () => {
  const ask = (length: number) =>
    head("PUT", RENAME(), { ...bearer(at.key), "Content-Length": length, Expect: "100-continue" });
  const over = await dial(server.url);
  await over.send(ask(5000));
  assertAnswer(await over.answer(), 413, JSON_OVER);
  over.vanish();
  const wire = await dial(server.url);
  await wire.send(ask(2));
  assert.is((await wire.answer()).status, 100);
  await wire.send("{}");
  assertAnswer(await wire.answer(), 400, refused({ new_name: "Field required" }));
  wire.vanish();
});

test("an unknown expectation is ignored", async () => {
  assertAnswer(await put("{}", { Expect: "a-miracle" }), 400, refused({ new_name: "Field required" }));
});

test("input that is not JSON in UTF-8 is refused with the position of the problem", async () => {
  for (const [body, text] of [
    ["{", "Input should be valid JSON: unexpected character at position 1 (line 1 column 2)"],
    ["nope", "Input should be valid JSON: the text ends early or is malformed"],
    [" ", "Input should be valid JSON: the text ends early or is malformed"],
    ['{"new_name":"a",}', "Input should be valid JSON: unexpected character at position 16 (line 1 column 17)"],
    [Buffer.from([0x22, 0xff, 0x22]), "Input should be valid JSON: the text is not UTF-8"],
    [Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]), "Input should be valid JSON: the text is not UTF-8"],
    [
      Buffer.from('{"new_name":"a"}', "utf16le"),
      "Input should be valid JSON: unexpected character at position 1 (line 1 column 2)",
    ],
    [Buffer.from([0x00]), "Input should be valid JSON: the text ends early or is malformed"],
  ] as const)
    await assertRefused(() => put(body as string | Buffer), 400, refused({ body: text }));
});

test("JSON of the wrong shape is refused with the name of the field", async () => {
  for (const [body, errors] of [
    ["[]", { body: "Input should be a valid object [input: []]" }],
    ["7", { body: "Input should be a valid object [input: 7]" }],
    [
      '{"new_name":1e999}',
      { new_name: "Input should be a number that double precision holds without rounding [input: 1e999]" },
    ],
    ['{"new_name":"a\\u0000b"}', { new_name: "String should not contain a NUL character" }],
    ['{"new_name":"\\ud800"}', { new_name: "String should be valid Unicode without lone surrogates" }],
    [
      '{"new_name":"a","\\udc00":1}',
      { body: "A key of the object is not acceptable: String should be valid Unicode without lone surrogates" },
    ],
    [
      '{"new_name":"a~~","__proto__":{"x":1}}',
      { ["__proto__"]: 'Extra inputs are not permitted [input: {"x":1}]; possible keys: new_name' },
    ],
  ] as [string, Record<string, string>][])
    await assertRefused(
      () => put(body),
      400,
      JSON.parse(
        JSON.stringify({ message: "Input payload validation failed" }).slice(0, -1) +
          `,"errors":${JSON.stringify(errors)}}`,
      ),
    );
  await assertRefused(() => put("null"), 400, { message: "A JSON body is required: the request has none" });
  await assertRefused(() => put(""), 400, { message: "A JSON body is required: the request has none" });
});

test("a compressed body is refused, whatever the compression", async () => {
  for (const encoding of ["gzip", "br", "deflate, gzip"])
    await assertRefused(() => put(gzipSync("{}"), { "Content-Encoding": encoding }), 400, {
      message: `Content-Encoding '${encoding}' is not supported for request bodies. Send the body uncompressed`,
    });
  assertAnswer(await put("{}", { "Content-Encoding": "identity" }), 400, refused({ new_name: "Field required" }));
});

test("a client that disconnects within JSON leaves a log line with status 499 and nothing else", async () => {
  const before = holdings(server);
  const id = fresh("gone");
  const wire = await dial(server.url);
  await wire.send(
    head("PUT", RENAME(), { ...bearer(at.key), "Content-Length": 100, "X-Request-ID": id, Expect: "100-continue" }),
  );
  assert.is((await wire.answer()).status, 100);
  await wire.send('{"new_name":');
  wire.vanish();
  assert.is((await logged(server, id))["status"], 499);
  assert.equal(holdings(server), before);
});

test("a body that ends before its declared length, or within a chunk, is refused", async () => {
  for (const [headers, body] of [
    [{ "Content-Length": 100 }, '{"new_name":"a"}'],
    [{ "Transfer-Encoding": "chunked" }, '64\r\n{"new_name":"a"}'],
  ] as const) {
    const before = holdings(server);
    const wire = await dial(server.url);
    await wire.send(head("PUT", RENAME(), { ...bearer(at.key), ...headers }) + body);
    wire.finish();
    assertAnswer(await wire.answer(), 400, { message: "The request is not valid HTTP" });
    assert.is(await wire.closed(), "closed");
    assert.equal(holdings(server), before);
  }
});

test("a body that stalls is refused with 408, JSON and form alike", async () => {
  const late = { message: "The request body did not arrive in time: nothing was received for 0.05 seconds" };
  for (const [method, path, start, type] of [
    ["PUT", `/flows/${at.org}/flow/rename`, '{"new', "application/json"],
    ["PUT", `/flows/${at.org}/flow/archive`, "nu", "application/json"],
    [
      "POST",
      `/attestations/${at.org}/flow/trail/t/generic`,
      file("attachment_file", "a", "x".repeat(150_000)).toString().slice(0, -20),
      `multipart/form-data; boundary=${BOUNDARY}`,
    ],
  ] as const) {
    const before = holdings(hasty);
    const wire = await dial(hasty.url);
    await wire.send(
      head(method, path, {
        ...bearer(at.key),
        "Content-Type": type,
        "Content-Length": type === "application/json" ? 1000 : 180_000,
      }) + start,
    );
    const answer = await wire.answer();
    assertAnswer(answer, 408, late);
    assert.is(answer.headers["connection"], "close");
    assert.is(await wire.closed(), "closed");
    assert.equal(holdings(hasty), before);
  }
});

// --- bytes that are not HTTP

test("bytes that are not HTTP are answered with a JSON body, and the connection is closed", async () => {
  const get = "GET /api/v2/user/default-org HTTP/1.1\r\nHost: a\r\n";
  for (const [what, bytes, status] of [
    ["garbage", "\x16\x03\x01\x02\x00\x01\x00", 400],
    [
      "both a length and chunks",
      `POST /api/v2/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      400,
    ],
    ["two lengths", "POST /api/v2/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400],
    ["a length that is not a number", "POST /api/v2/x HTTP/1.1\r\nHost: a\r\nContent-Length: 0x10\r\n\r\n", 400],
    ["an endless length", `POST /api/v2/x HTTP/1.1\r\nHost: a\r\nContent-Length: ${"9".repeat(40)}\r\n\r\n`, 400],
    [
      "chunked before another encoding",
      "POST /api/v2/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
      400,
    ],
    ["a header with a control character", `${get}X: a\x00b\r\n\r\n`, 400],
    ["a header without a colon", `${get}nonsense\r\n\r\n`, 400],
    ["a space before the colon", `${get}Transfer-Encoding : chunked\r\n\r\n`, 400],
    ["an unknown method", "BREW /api/v2/x HTTP/1.1\r\nHost: a\r\n\r\n", 400],
    ["endless headers", `${get}X: ${"a".repeat(300_000)}\r\n\r\n`, 431],
  ] as const) {
    const wire = await dial(server.url);
    void wire.send(Buffer.from(bytes, "latin1"));
    const answer = await wire.answer().catch((error: Error) => assert.unreachable(`${what}: ${error.message}`));
    const message =
      status === 431 ? "The address and the headers of the request are too long" : "The request is not valid HTTP";
    assert.equal(
      { status: answer?.status, body: answer?.body, connection: answer?.headers["connection"] },
      { status, body: { message }, connection: "close" },
      what,
    );
    assert.ok(await wire.closed(), what);
  }
});

test("malformed bytes after a request do not change its answer", async () => {
  const wire = await dial(server.url);
  await wire.send(`${head("PUT", RENAME(), { ...bearer(at.key), "Content-Length": 2 })}{}and more\r\n\r\n`);
  assertAnswer(await wire.answer(), 400, refused({ new_name: "Field required" }));
  assert.is(await wire.closed(), "closed");
});

test("a request that does not arrive in time is refused with 408, with and without complete headers", async () => {
  const app = new Koa();
  app.use(async (ctx) => {
    for await (const _ of ctx.req);
  });
  app.silent = true;
  const slow = await listen(
    Object.assign(app, { recordMalformedRequest: () => "id" }),
    { host: "127.0.0.1", port: 0 },
    { limits: { headerTimeout: 0.1, requestTimeout: 0.2 } },
  );
  for (const bytes of [
    "POST / HTTP/1.1\r\nHost: a\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc",
  ]) {
    const answer = await exchange(slow.url, bytes);
    assertAnswer(answer, 408, { message: "The request did not arrive in time" });
  }
  await closeListener(slow.server, 1);
});

// --- forms: POST generic takes data_json and attachment_file

const GENERIC = (): string => `/attestations/${at.org}/flow/trail/t/generic`;
const VALID_JSON = '{"attestation_name":"a","is_compliant":true}';
const FORM = `multipart/form-data; boundary=${BOUNDARY}`;
const formHead = (length: number | null, more: Record<string, string | number> = {}): string =>
  head("POST", GENERIC(), {
    ...bearer(at.key),
    "Content-Type": FORM,
    ...(length === null ? { "Transfer-Encoding": "chunked" } : { "Content-Length": length }),
    ...more,
  });
/** A small form of a declared length is collected and cut, a chunked one is parsed as it arrives. */
const TRANSFERS = ["with a declared length", "in chunks"] as const;
type Transfer = (typeof TRANSFERS)[number];
const post = (
  parts: readonly (string | Buffer)[],
  more: Record<string, string | number> = {},
  transfer: Transfer = "with a declared length",
): Promise<RawAnswer> => {
  const body = Buffer.concat(parts.map((one) => Buffer.from(one)));
  const isChunked = transfer === "in chunks";
  const wire = isChunked ? [...(body.length > 0 ? [chunk(body)] : []), Buffer.from("0\r\n\r\n")] : [body];
  return exchange(server.url, Buffer.concat([Buffer.from(formHead(isChunked ? null : body.length, more)), ...wire]));
};
const JSON_PART = field("data_json", VALID_JSON);
const broken = (why: string) => ({ message: `The multipart form is broken: ${why}` });
const endless = (place: string) => broken(`it ends without its closing boundary, ${place}`);
const FILE_OVER = { message: "File size exceeds the 195.3KB limit" };

for (const transfer of TRANSFERS)
  test(`accepts all the ways in which real clients write a form, ${transfer}`, async () => {
    for (const [what, parts, more] of [
      ["only the JSON", [JSON_PART, CLOSING]],
      ["the JSON, then the file", [JSON_PART, file("attachment_file", "a.txt", "evidence"), CLOSING]],
      ["the file, then the JSON", [file("attachment_file", "a.txt", "evidence"), JSON_PART, CLOSING]],
      ["the JSON with a content type", [field("data_json", VALID_JSON, "\r\nContent-Type: application/json"), CLOSING]],
      [
        "the JSON with a content type and a charset",
        [field("data_json", VALID_JSON, "\r\nContent-Type: application/json; charset=UTF-8"), CLOSING],
      ],
      ["the JSON as a file", [file("data_json", "blob", VALID_JSON), CLOSING]],
      ["an empty file", [JSON_PART, file("attachment_file", "a.txt", ""), CLOSING]],
      ["no file chosen in a browser", [JSON_PART, file("attachment_file", "", ""), CLOSING]],
      ["a preamble and an epilogue", ["ignored\r\n", JSON_PART, CLOSING, "ignored"]],
      [
        "a boundary in quotes",
        [JSON_PART, file("attachment_file", "a.txt", "evidence"), CLOSING],
        { "Content-Type": `multipart/form-data; charset=utf-8; boundary="${BOUNDARY}"` },
      ],
      [
        "a file that looks like the form",
        [
          JSON_PART,
          file("attachment_file", "a.txt", `--${BOUNDARY.slice(0, -1)}\r\n-${BOUNDARY}--\r\n\r\n--`),
          CLOSING,
        ],
      ],
    ] as [string, (string | Buffer)[], Record<string, string>?][]) {
      const answer = await post(parts, more, transfer);
      assert.equal(
        { status: answer.status, body: answer.body },
        { status: 201, body: "OK" },
        `${what}: ${answer.text}`,
      );
    }
    assert.equal(holdings(server).staging, []);
  });

for (const transfer of TRANSFERS)
  test(`a missing or malformed form is refused and leaves nothing, ${transfer}`, async () => {
    const wrongType = { message: "Content-Type should be multipart/form-data with the part 'data_json'" };
    for (const [what, parts, status, body, more] of [
      ["JSON instead of a form", [VALID_JSON], 400, wrongType, { "Content-Type": "application/json" }],
      ["no content type", [VALID_JSON], 400, wrongType, { "Content-Type": "" }],
      ["a malformed content type", [VALID_JSON], 400, wrongType, { "Content-Type": "/;;=" }],
      [
        "a form of another kind",
        ["data_json=%7B%7D"],
        400,
        wrongType,
        { "Content-Type": "application/x-www-form-urlencoded" },
      ],
      [
        "multipart of another kind",
        [JSON_PART, CLOSING],
        400,
        wrongType,
        { "Content-Type": `multipart/mixed; boundary=${BOUNDARY}` },
      ],
      [
        "no boundary",
        [JSON_PART, CLOSING],
        400,
        broken("Multipart: Boundary not found"),
        { "Content-Type": "multipart/form-data" },
      ],
      [
        "another boundary",
        [JSON_PART, CLOSING],
        400,
        endless("before the end of its first part"),
        { "Content-Type": "multipart/form-data; boundary=other" },
      ],
      [
        "an endless boundary",
        [JSON_PART, CLOSING],
        400,
        broken("its boundary is longer than 70 characters"),
        { "Content-Type": `multipart/form-data; boundary=${"-".repeat(5000)}` },
      ],
      ["no part at all", [CLOSING], 400, refused({ data_json: "Field required" })],
      ["nothing", [], 400, endless("before the end of its first part")],
      ["no closing boundary", [JSON_PART], 400, endless("before the end of its first part")],
      ["an end within the JSON", [JSON_PART.subarray(0, -30)], 400, endless("before the end of its first part")],
      [
        "an end within the part headers",
        [JSON_PART, file("attachment_file", "a", "x").subarray(0, 60)],
        400,
        endless("in or after the part 'data_json'"),
      ],
      [
        "an end within the file",
        [JSON_PART, file("attachment_file", "a", "x".repeat(150_000)).subarray(0, 140_000)],
        400,
        endless("in or after the part 'attachment_file'"),
      ],
      [
        "garbage in the part headers, under a boundary beside another parameter that looks like one",
        [`--${BOUNDARY}\r\nno header\r\n\r\nx\r\n`, JSON_PART, CLOSING],
        400,
        broken("the header of its first part is malformed"),
        { "Content-Type": `multipart/form-data; x="; boundary=c"; boundary=${BOUNDARY}` },
      ],
      [
        "garbage in the part headers",
        [`--${BOUNDARY}\r\n\x00\x01 nonsense\r\n\r\nx\r\n`, CLOSING],
        400,
        broken("the header of its first part is malformed"),
      ],
      [
        "endless part headers",
        [`--${BOUNDARY}\r\nX: ${"a".repeat(20_000)}\r\n\r\nx\r\n`, CLOSING],
        400,
        broken("the header of its first part is malformed"),
      ],
      ["the JSON missing", [file("attachment_file", "a", "x"), CLOSING], 400, refused({ data_json: "Field required" })],
      [
        "a large file, and the JSON missing",
        [file("attachment_file", "a", "x".repeat(150_000)), CLOSING],
        400,
        refused({ data_json: "Field required" }),
      ],
      [
        "the JSON twice",
        [JSON_PART, JSON_PART, CLOSING],
        400,
        refused({ data_json: "The part is given more than once" }),
      ],
      [
        "the JSON as field and as file",
        [JSON_PART, file("data_json", "b", VALID_JSON), CLOSING],
        400,
        refused({ data_json: "The part is given more than once" }),
      ],
      [
        "the JSON as file and as field",
        [file("data_json", "b", VALID_JSON), JSON_PART, CLOSING],
        400,
        refused({ data_json: "The part is given more than once" }),
      ],
      [
        "the file twice",
        [JSON_PART, file("attachment_file", "a", "x".repeat(140_000)), file("attachment_file", "b", "y"), CLOSING],
        400,
        refused({ attachment_file: "The part is given more than once" }),
      ],
      [
        "an unknown field",
        [JSON_PART, field("other", "x"), CLOSING],
        400,
        refused({ other: "Extra inputs are not permitted [input: form part]" }),
      ],
      [
        "an unknown file",
        [JSON_PART, file("other", "a", "x"), CLOSING],
        400,
        refused({ other: "Extra inputs are not permitted [input: file part]" }),
      ],
      [
        "an unknown file without a name",
        [JSON_PART, file("other", "", "x"), CLOSING],
        400,
        refused({ other: "Extra inputs are not permitted [input: file part]" }),
      ],
      [
        "the file as a field",
        [JSON_PART, field("attachment_file", "x"), CLOSING],
        400,
        refused({ attachment_file: "The part should be a file: give it a filename" }),
      ],
      [
        "the file without a filename",
        [JSON_PART, file("attachment_file", "", "x"), CLOSING],
        400,
        refused({ attachment_file: "The part should be a file: give it a filename" }),
      ],
      [
        "the JSON as a file without a filename",
        [file("data_json", "", VALID_JSON), CLOSING],
        400,
        refused({ data_json: "The part has the type of a file but no filename: send it as application/json" }),
      ],
      [
        "a name with brackets",
        [field("data_json[a]", VALID_JSON), CLOSING],
        400,
        refused({ "data_json[a]": "Extra inputs are not permitted [input: form part]" }),
      ],
      [
        "a name like a prototype",
        [field("__proto__", VALID_JSON), CLOSING],
        400,
        refused({ ["__proto__"]: "Extra inputs are not permitted [input: form part]" }),
      ],
      [
        "a part without a name",
        [`--${BOUNDARY}\r\nContent-Disposition: form-data\r\n\r\nx\r\n`, CLOSING],
        400,
        { message: "A part of the form has no acceptable name: 'data_json' is expected" },
      ],
      [
        "an endless name",
        [field("a".repeat(5000), VALID_JSON), CLOSING],
        400,
        { message: "A part of the form has no acceptable name: 'data_json' is expected" },
      ],
      [
        "many parts",
        [...Array.from({ length: 1000 }, () => field("data_json", "1")), CLOSING],
        400,
        refused({ data_json: "The part is given more than once" }),
      ],
      [
        "ten thousand parts that are not form data",
        [..."x".repeat(10_000)].map(() => "--b\r\nX:y\r\n\r\n\r\n"),
        400,
        { message: "The form has too many parts: 'data_json' and 'attachment_file' are expected" },
        { "Content-Type": "multipart/form-data; boundary=b" },
      ],
      ...[
        "X: y",
        'Content-Disposition: attachment; name="attachment_file"; filename="a"',
        "Content-Disposition: form-data; name=\"attachment_file\"; filename*=utf-8''%zz",
        'Content-Disposition: form-data; name="attachment_file"; filename="a"b"',
      ].map(
        (lines) =>
          [
            `a part with the headers ${lines}`,
            [JSON_PART, part(lines, "evidence"), CLOSING],
            400,
            { message: "A part of the form has no Content-Disposition header that can be read" },
          ] as const,
      ),
      [
        "invalid JSON",
        [field("data_json", "{"), CLOSING],
        400,
        refused({ data_json: "Input should be valid JSON: unexpected character at position 1 (line 1 column 2)" }),
      ],
      [
        "invalid JSON, and a large file",
        [file("attachment_file", "a", "x".repeat(150_000)), field("data_json", "{"), CLOSING],
        400,
        refused({ data_json: "Input should be valid JSON: unexpected character at position 1 (line 1 column 2)" }),
      ],
      [
        "JSON null",
        [field("data_json", "null"), CLOSING],
        400,
        refused({ data_json: "Input should be a valid object [input: null]" }),
      ],
      [
        "JSON with a lone surrogate",
        [field("data_json", '{"attestation_name":"\\ud800"}'), CLOSING],
        400,
        refused({ attestation_name: "String should be valid Unicode without lone surrogates" }),
      ],
      [
        "JSON that is not UTF-8",
        [field("data_json", Buffer.from('{"attestation_name":"\xff"}', "latin1")), CLOSING],
        400,
        refused({ data_json: "Input should be valid JSON: the text is not UTF-8" }),
      ],
      [
        "JSON in an unknown charset",
        [field("data_json", VALID_JSON, "\r\nContent-Type: application/json; charset=nope"), CLOSING],
        400,
        refused({ data_json: "Input should be valid JSON: the text is not UTF-8" }),
      ],
      [
        "JSON as a file that is not UTF-8",
        [file("data_json", "b", Buffer.from([0x22, 0xff, 0x22])), CLOSING],
        400,
        refused({ data_json: "Input should be valid JSON: the text is not UTF-8" }),
      ],
      [
        "a mistyped property",
        [
          field("data_json", '{"attestation_name":"a","is_compliant":true,"is_complaint":true}'),
          file("attachment_file", "a", "x".repeat(150_000)),
          CLOSING,
        ],
        400,
        refused({ is_complaint: "Extra inputs are not permitted. Did you mean 'is_compliant'?" }),
      ],
      [
        "a compressed form",
        [gzipSync("x")],
        400,
        { message: "Content-Encoding 'gzip' is not supported for request bodies. Send the body uncompressed" },
        { "Content-Encoding": "gzip" },
      ],
    ] as [string, (string | Buffer)[], number, unknown, Record<string, string>?][]) {
      const before = holdings(server);
      const answer = await post(parts, more, transfer).catch((error: Error) =>
        assert.unreachable(`${what}: ${error.message}`),
      );
      assert.equal({ status: answer?.status, body: answer?.body }, { status, body }, what);
      assert.equal(holdings(server), before, what);
    }
  });

test("text that contains the replacement character is stored as sent", async () => {
  const text = "\ufffd seen \ufffd";
  const json = JSON.stringify({ attestation_name: "replaced", is_compliant: true, description: text });
  const body = Buffer.concat([field("data_json", json), CLOSING]);
  // In two pieces, split within the character.
  const cutAt = body.indexOf("\ufffd") + 1;
  const wire = await dial(server.url);
  await wire.send(formHead(null));
  await wire.send(chunk(body.subarray(0, cutAt)));
  await wire.send(chunk(body.subarray(cutAt)));
  await wire.send("0\r\n\r\n");
  assertAnswer(await wire.answer(), 201, "OK");
  wire.vanish();
  assert.is(server.db.prepare("SELECT description FROM attestations WHERE name = 'replaced'").pluck().get(), text);
});

for (const transfer of TRANSFERS)
  test(`a boundary that two readers could understand differently is refused, ${transfer}`, async () => {
    const unreadable = broken("its Content-Type has no boundary that every reader understands in the same way");
    // Each body hides a part whose header cannot be read, delimited as the parser reads the boundary.
    for (const [what, boundary, contentType] of [
      ["an escape", "bc", 'multipart/form-data; boundary="b\\c"'],
      ["characters beyond ASCII", "b\u00e9", 'multipart/form-data; boundary="b\u00e9"'],
      ["two boundaries", "b", "multipart/form-data; boundary=b; boundary=c"],
    ] as const) {
      const body = Buffer.from(
        `--${boundary}\r\nContent-Disposition: form-data; name="data_json"\r\n\r\n${VALID_JSON}\r\n` +
          `--${boundary}\r\nno header\r\n\r\ndropped\r\n--${boundary}--\r\n`,
        "latin1",
      );
      const before = holdings(server);
      const head = formHead(transfer === "in chunks" ? null : body.length, { "Content-Type": contentType });
      const wire = transfer === "in chunks" ? [chunk(body), Buffer.from("0\r\n\r\n")] : [body];
      const answer = await exchange(server.url, Buffer.concat([Buffer.from(head, "latin1"), ...wire]));
      assert.equal({ status: answer.status, body: answer.body }, { status: 400, body: unreadable }, what);
      assert.equal(holdings(server), before, what);
    }
  });

for (const transfer of TRANSFERS)
  test(`a character in the file does not excuse broken text in the JSON, ${transfer}`, async () => {
    const json = Buffer.concat([
      Buffer.from('{"attestation_name":"a","is_compliant":true,"description":"'),
      Buffer.from([0xff]),
      Buffer.from('"}'),
    ]);
    const parts = [file("attachment_file", "a.txt", "real \ufffd"), field("data_json", json), CLOSING];
    await assertRefused(
      () => post(parts, {}, transfer),
      400,
      refused({ data_json: "Input should be valid JSON: the text is not UTF-8" }),
    );
  });

for (const transfer of TRANSFERS)
  test(`a file and its JSON at their limits are stored, one byte more of either is refused, ${transfer}`, async () => {
    const size = LIMITS.evidence;
    assertAnswer(
      await post([JSON_PART, file("attachment_file", "a", "l".repeat(size)), CLOSING], {}, transfer),
      201,
      "OK",
    );
    await assertRefused(
      () => post([JSON_PART, file("attachment_file", "a", "m".repeat(size + 1)), CLOSING], {}, transfer),
      413,
      FILE_OVER,
    );
    await assertRefused(
      () => post([JSON_PART, file("attachment_file", "a", "m".repeat(size + 60_000)), CLOSING], {}, transfer),
      413,
      FILE_OVER,
    );
    const json = (length: number): string => VALID_JSON.padEnd(length, " ");
    assertAnswer(await post([field("data_json", json(2048)), CLOSING], {}, transfer), 201, "OK");
    await assertRefused(() => post([field("data_json", json(2049)), CLOSING], {}, transfer), 413, {
      message: "Part 'data_json' exceeds the 2KB limit",
    });
    await assertRefused(() => post([file("data_json", "b", json(2049)), CLOSING], {}, transfer), 413, {
      message: "Part 'data_json' exceeds the 2KB limit",
    });
  });

test("a template at its limit is read, one byte more is refused", async () => {
  const send = (size: number) => {
    const body = Buffer.concat([
      field("data_json", `{"name":"limit"}`),
      file("template_file", "t", "version: 1\ntrail:\n".padEnd(size, "\n")),
      CLOSING,
    ]);
    return exchange(
      server.url,
      Buffer.concat([
        Buffer.from(
          head("PUT", `/flows/${at.org}/template_file`, {
            ...bearer(at.key),
            "Content-Type": FORM,
            "Content-Length": body.length,
          }),
        ),
        body,
      ]),
    );
  };
  await assertRefused(() => send(8193), 413, { message: "File size exceeds the 8KB limit" });
  assertAnswer(await send(8192), 201, "OK");
});

test("a form whose declared length is over the limit is refused before a byte of it is sent", async () => {
  await assertRefused(() => post([], { "Content-Length": LIMITS.evidence + LIMITS.form + 65_536 + 1 }), 413, FILE_OVER);
});

test("an endless form is refused when it exceeds the limit, wherever its bytes are", async () => {
  const piece = "x".repeat(50_000);
  for (const [what, start, body] of [
    ["in the file", [JSON_PART, file("attachment_file", "a", "").subarray(0, -2)], FILE_OVER],
    ["in the JSON", [field("data_json", "").subarray(0, -2)], FILE_OVER],
    ["after its end", [JSON_PART, CLOSING], FILE_OVER],
    ["in the preamble", [], FILE_OVER],
    ["in an unknown part", [field("other", "").subarray(0, -2)], FILE_OVER],
    ["in a part without a name", [`--${BOUNDARY}\r\nX: y\r\n\r\n`], FILE_OVER],
  ] as [string, (string | Buffer)[], unknown][]) {
    const before = holdings(server);
    const wire = await dial(server.url);
    await wire.send(formHead(null));
    for (const bytes of start) await wire.send(chunk(Buffer.from(bytes)));
    for (let sent = 0; sent < 300_000 && !wire.isOver(); sent += piece.length) await wire.send(chunk(piece));
    const answer = await wire.answer().catch((error: Error) => assert.unreachable(`${what}: ${error.message}`));
    assert.equal({ status: answer?.status, body: answer?.body }, { status: 413, body }, what);
    assert.equal(holdings(server), before, what);
    wire.vanish();
  }
});

test("a client that disconnects within a form leaves no row, no file, and status 499 in the log", async () => {
  const large = Buffer.alloc(150_000, "y");
  for (const [what, bytes] of [
    ["within the JSON", field("data_json", VALID_JSON).subarray(0, -20)],
    ["within a small file", Buffer.concat([JSON_PART, file("attachment_file", "a", "small").subarray(0, -3)])],
    ["within a large file", Buffer.concat([JSON_PART, file("attachment_file", "a", large).subarray(0, -3)])],
    [
      "within a file that is collected",
      Buffer.concat([JSON_PART, file("attachment_file", "a", large).subarray(0, -3)]),
    ],
    ["after a large file", Buffer.concat([file("attachment_file", "a", large), JSON_PART])],
  ] as const) {
    const before = holdings(server);
    const id = fresh("gone");
    const wire = await dial(server.url);
    const isLarge = what.endsWith("large file");
    await wire.send(formHead(isLarge ? null : bytes.length + 100, { "X-Request-ID": id, Expect: "100-continue" }));
    assert.is((await wire.answer()).status, 100, what);
    await wire.send(isLarge ? chunk(bytes) : bytes);
    // A large file is on disk before the client disconnects.
    if (isLarge) await until("the staging file", () => holdings(server).staging.length > 0);
    wire.vanish();
    assert.is((await logged(server, id))["status"], 499, what);
    assert.equal(holdings(server), before, what);
  }
});

test("a form that ends before its declared length is refused and leaves nothing", async () => {
  const before = holdings(server);
  const id = fresh("short");
  const wire = await dial(server.url);
  await wire.send(formHead(200_000, { "X-Request-ID": id }));
  await wire.send(Buffer.concat([JSON_PART, file("attachment_file", "a", "z".repeat(150_000))]));
  wire.finish();
  assertAnswer(await wire.answer(), 400, { message: "The request is not valid HTTP" });
  await wire.closed();
  // The refusal comes before the file is staged completely; it is discarded when the request ends.
  await logged(server, id);
  assert.equal(holdings(server), before);
});

// --- early refusals of large uploads

const LARGE = 64 << 20;
const BLOCK = Buffer.alloc(1 << 20, "u");

/**
 * Sends a body of 64 MB, or as much of it as the server reads, and only then reads the answer, as clients do that do
 * not listen while they send.
 */
async function upload(
  of: TestServer,
  path: string,
  headers: Record<string, string | number>,
  start: Buffer = Buffer.alloc(0),
): Promise<{ answer: RawAnswer; end: string }> {
  const wire = await dial(of.url);
  await wire.send(head("POST", path, headers));
  await wire.send(start);
  for (let sent = start.length; sent < LARGE; sent += BLOCK.length)
    await wire.send(BLOCK.subarray(0, Math.min(BLOCK.length, LARGE - sent)));
  return { answer: await wire.answer(), end: await wire.closed() };
}

test("a refused upload of 64 MB ends with the refusal and not with a reset connection", async () => {
  const lenient = await startServer({ limits: { evidence: 10 << 20 } });
  const there = lenient.given.org();
  await lenient.given.flow(there, { name: "flow" });
  const stranger = lenient.given.user(there.org, "reader");
  const path = `/attestations/${there.org}/flow/trail/t/generic`;
  const before = holdings(lenient);
  const start = Buffer.concat([JSON_PART, file("attachment_file", "a", "").subarray(0, -2)]);
  const denied = { message: "You don't have permission to access this resource" };
  const over = { message: "File size exceeds the 10MB limit" };
  for (const more of [{}, { Connection: "close" }] as Record<string, string>[]) {
    const declared = { "Content-Type": FORM, "Content-Length": LARGE, ...more };
    for (const [key, status, body] of [
      [stranger, 403, denied],
      [there.key, 413, over],
    ] as const) {
      const { answer, end } = await upload(lenient, path, { ...bearer(key), ...declared }, start);
      assertAnswer(answer, status, body);
      assert.is(end, "closed");
    }
  }
  // The same with fetch, with and without a declared length.
  const url = `${lenient.url}/api/v2${path}`;
  for (const [key, status, body] of [
    [stranger, 403, denied],
    [there.key, 413, over],
  ] as const) {
    const form = new FormData();
    form.append("data_json", VALID_JSON);
    form.append("attachment_file", new File([new Uint8Array(LARGE)], "a"));
    const whole = await fetch(url, { method: "POST", headers: bearer(key), body: form });
    assert.equal({ status: whole.status, whole: await whole.json() }, { status, whole: body });
    let sent = 0;
    const stream = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.enqueue(new Uint8Array(sent === 0 ? start : BLOCK));
        if ((sent += BLOCK.length) > LARGE) controller.close();
      },
    });
    const chunked = await fetch(url, {
      method: "POST",
      headers: { ...bearer(key), "Content-Type": FORM },
      body: stream,
      duplex: "half",
    } as RequestInit);
    assert.equal({ status: chunked.status, chunked: await chunked.json() }, { status, chunked: body });
  }
  assert.equal(holdings(lenient), before);
  await lenient.stop();
});

test("a client that keeps sending after its refusal is disconnected", async () => {
  const wire = await dial(server.url);
  await wire.send(head("PUT", RENAME(), { ...bearer(reader), "Transfer-Encoding": "chunked" }));
  const answer = await wire.answer();
  assert.is(answer.status, 403);
  const block = chunk(BLOCK);
  while (!wire.isOver()) await wire.send(block);
  assert.ok(["closed", "ECONNRESET", "EPIPE"].includes(await wire.closed()));
});

test("after the refusal of a small body the connection serves the next request", async () => {
  const wire = await dial(server.url);
  const refusal = `${head("PUT", RENAME(), { ...bearer(reader), "Content-Length": 2 })}{}`;
  for (let i = 0; i < 3; i++) {
    await wire.send(refusal);
    assert.is((await wire.answer()).status, 403);
  }
  wire.vanish();
});

test.run();
