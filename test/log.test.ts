import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { bufferedDestination, createLogger, logFlat, redact } from "../src/log.ts";

const capture = (level: "trace" | "info" | "error" = "trace") => {
  const lines: string[] = [];
  const logger = createLogger({ level, destination: { write: (line) => void lines.push(line) } });
  const entries = (): Record<string, unknown>[] => lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  return { logger, lines, entries };
};

const lines = suite("log: lines");

lines("flat fields give the line that the logger itself writes", () => {
  const text = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.constantFrom('a"b\\c', "\u2028", "Bearer abc", "key=1&token=x", "eyJhbGciOi.eyJhbGciOi.x", "x".repeat(20_000)),
  );
  const value = fc.oneof(text, fc.double(), fc.integer(), fc.boolean(), fc.constantFrom(null, undefined));
  const name = fc.oneof(fc.constantFrom("path", "actor", "status", "api_key", "session", "key", "client"), fc.string());
  const clock = Date.now;
  Date.now = () => 1_700_000_000_123;
  try {
    fc.assert(
      fc.property(fc.dictionary(name, value), text, fc.boolean(), (fields, message, isChild) => {
        const { logger, lines: written } = capture("info");
        const used = isChild ? logger.child({ part: "a", token: "b" }) : logger;
        for (const level of ["debug", "info", "warn", "error"] as const) {
          written.length = 0;
          used[level](fields, message);
          const expected = [...written];
          written.length = 0;
          logFlat(used, level, { fields, message });
          assert.equal(written, expected);
        }
      }),
      { seed: 3, numRuns: 300 },
    );
  } finally {
    Date.now = clock;
  }
});

lines("the time is that of the line, across a change of the second", () => {
  const { logger, entries } = capture();
  const clock = Date.now;
  const times = [1_700_000_000_007, 1_700_000_000_999, 1_700_000_001_000, 1_699_999_999_120];
  try {
    for (const time of times) {
      Date.now = () => time;
      logger.info("tick");
    }
  } finally {
    Date.now = clock;
  }
  assert.equal(
    entries().map(({ time }) => Date.parse(String(time))),
    times,
  );
  assert.is(entries()[0]?.["time"], "2023-11-14T22:13:20.007Z");
});

lines("a buffer writes whole lines in order: when full, on demand, and after a moment", async () => {
  const pieces: string[] = [];
  const buffer = bufferedDestination((text) => void pieces.push(text));
  buffer.write("one\n");
  buffer.write("two\n");
  assert.equal(pieces, []);
  buffer.flushSync();
  buffer.flushSync();
  assert.equal(pieces, ["one\ntwo\n"]);
  const long = `${"x".repeat(16_384)}\n`;
  buffer.write("three\n");
  buffer.write(long);
  assert.equal(pieces, ["one\ntwo\n", `three\n${long}`]);
  const later = await new Promise<string>((resolve) => {
    // The buffer does not keep the process alive, so something else must.
    const alive = setInterval(() => undefined, 1_000);
    bufferedDestination((text) => {
      clearInterval(alive);
      resolve(text);
    }).write("four\n");
  });
  assert.is(later, "four\n");
});

lines("a fatal line does not wait in the buffer", () => {
  const pieces: string[] = [];
  const logger = createLogger({ level: "info", destination: bufferedDestination((text) => void pieces.push(text)) });
  logger.error("first");
  assert.is(pieces.length, 0);
  logger.fatal("last");
  assert.equal(
    pieces
      .join("")
      .trim()
      .split("\n")
      .map((line) => (JSON.parse(line) as { msg: string }).msg),
    ["first", "last"],
  );
});

lines("one JSON line with level, time, fields and message", () => {
  const { logger, lines, entries } = capture();
  logger.info({ port: 8001 }, "listening");
  assert.ok(lines[0]?.endsWith("}\n"));
  const [{ time, ...rest } = {}] = entries();
  assert.equal(rest, { level: "info", port: 8001, msg: "listening" });
  assert.match(String(time), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
});

lines("levels below the chosen one are silent", () => {
  const { logger, entries } = capture("error");
  logger.warn("no");
  logger.error("yes");
  assert.equal(
    entries().map(({ msg }) => msg),
    ["yes"],
  );
});

lines("a child logger adds its fields", () => {
  const { logger, entries } = capture();
  logger.child({ request_id: "r1" }).child({ org: "acme" }).warn("hm");
  const [{ time: _, ...rest } = {}] = entries();
  assert.equal(rest, { level: "warn", request_id: "r1", org: "acme", msg: "hm" });
});

lines("an error is logged with code, stack and cause", () => {
  const { logger, entries } = capture();
  const cause = Object.assign(new TypeError("inner"), { code: "E_INNER" });
  logger.error({ err: new Error("outer", { cause }) }, "failed");
  logger.error(new RangeError("bare"));
  const [first, second] = entries() as [Record<string, any>, Record<string, any>];
  assert.is(first["msg"], "failed");
  assert.equal(Object.keys(first["err"]), ["type", "message", "stack", "cause"]);
  assert.is(first["err"].message, "outer");
  assert.match(first["err"].stack, /log\.test\.ts/);
  assert.is(first["err"].cause.type, "TypeError");
  assert.is(first["err"].cause.code, "E_INNER");
  assert.is(second["msg"], "bare");
  assert.is(second["err"].type, "RangeError");
});

lines("an error about a file is logged in words, with its code", () => {
  const { logger, entries } = capture();
  const error = Object.assign(new Error("ENOSPC: no space left on device, write"), {
    code: "ENOSPC",
    syscall: "write",
    path: "/data/a",
  });
  logger.error({ err: error }, "failed");
  const [{ err }] = entries() as [Record<string, any>];
  assert.equal(
    { message: err.message, code: err.code },
    {
      message: "cannot write to /data/a: no space is left on the disk (ENOSPC); free some space, or use another disk",
      code: "ENOSPC",
    },
  );
});

lines.run();

const secrets = suite("log: secrets");
const TOKEN = "sEcReT-tOkEn_0123456789.abc~x";

secrets("a bearer token appears on no line, however it is logged", () => {
  const { logger, lines } = capture();
  const bearer = `Bearer ${TOKEN}`;
  const basic = `Basic ${Buffer.from(`${TOKEN}:`).toString("base64")}`;
  const encoded = Buffer.from(`${TOKEN}:`).toString("base64");
  const error = Object.assign(new Error(`refused ${bearer}`, { cause: new Error(bearer) }), {
    code: bearer,
    headers: { bearer },
  });
  const cyclic: Record<string, unknown> = { authorization: bearer };
  cyclic["self"] = cyclic;
  logger.info(`got ${bearer}`);
  logger.info("got %s", bearer);
  logger.info({ authorization: bearer }, "x");
  logger.info({ headers: { Authorization: basic, "proxy-authorization": bearer, "X-Api-Key": TOKEN } }, "x");
  logger.info({ rawHeaders: ["Authorization", bearer, "Cookie", `session=${TOKEN}`] }, "x");
  logger.info({ list: [bearer, { text: `a "${bearer}"` }] }, "x");
  logger.info({ map: new Map([["note", bearer]]), set: new Set([basic]) }, "x");
  logger.info(cyclic, "x");
  logger.error(error);
  logger.error({ err: error });
  logger.error({ nested: { error } }, error.message);
  logger.info({ msg: bearer });
  logger
    .child({ authorization: bearer, note: bearer })
    .child({ cookie: TOKEN, again: { token: TOKEN } })
    .info("x");
  logger.child({ note: bearer }, { level: "info" }).info("x");
  logger.info({ bytes: Buffer.from(TOKEN) }, "x");
  logger.info(`GET /?api_key=${TOKEN}&x=1 http://${TOKEN}:@host/`);
  assert.is(lines.length, 16);
  for (const line of lines) {
    assert.not.match(line, TOKEN);
    assert.not.match(line, encoded);
  }
});

secrets("fields with secret names are hidden in every spelling", () => {
  const names = [
    "authorization",
    "Proxy-Authorization",
    "cookie",
    "Set-Cookie",
    "cookies",
    "key",
    "keys",
    "api_key",
    "apiKey",
    "X-API-Key",
    "secret",
    "client_secret",
    "token",
    "csrf-token",
    "access_token",
    "password",
    "passphrase",
    "private_key",
    "x-ld-signature",
    "rawHeaders",
    "session",
    "session_id",
    "sessionId",
    "sid",
    "authorization_code",
    "code_verifier",
    "id_token",
    "client_assertion",
    "s3SecretKey",
    "s3AccessKey",
    "secretAccessKey",
    "access_key",
    "sessionToken",
    "credentials",
    "metricsKey",
    "oidcClientSecret",
  ];
  for (const name of names) assert.equal(redact({ [name]: "value" }), { [name]: "[hidden]" }, name);
  assert.equal(redact({ key: null, token: undefined }), { key: null, token: undefined });
});

secrets("ordinary fields and texts are unchanged", () => {
  const fields = {
    key_id: 7,
    tag_key: "team",
    org: "acme",
    count: 3,
    ok: true,
    none: null,
    text: "a key was refused; tokens: 3",
    url: "https://acme.example/x?page=2&tag=a",
    when: new Date(0),
    big: 12n,
  };
  assert.equal(redact(fields), { ...fields, when: "1970-01-01T00:00:00.000Z", big: "12" });
});

secrets("credentials in texts are hidden", () => {
  const table: [string, string][] = [
    ["authorization: bearer abc, next", "authorization: bearer [hidden], next"],
    ["Basic YTpi", "Basic [hidden]"],
    ["/x?key=abc&page=2", "/x?key=[hidden]&page=2"],
    ["/x?page=2&access_token=abc#y", "/x?page=2&access_token=[hidden]#y"],
    ["postgres://user:pw@host/db", "postgres://[hidden]@host/db"],
    ["mail ops@example.com", "mail ops@example.com"],
    ["/login/callback?code=4/0AX-y_z&state=s1", "/login/callback?code=[hidden]&state=s1"],
    ["cookie: assay_session=abc; b=c", "cookie: [hidden]"],
    ["Set-Cookie: __Host-assay=abc; Path=/; Secure\r\nVary: *", "Set-Cookie: [hidden]\r\nVary: *"],
    [
      "authorization: AWS4-HMAC-SHA256 Credential=AKIA/20261121/eu/s3/aws4_request, SignedHeaders=host, Signature=00ff",
      "authorization: AWS4-HMAC-SHA256 [hidden]",
    ],
    [
      "GET /b/k?X-Amz-Credential=AKIA%2F1&X-Amz-Date=20261121&X-Amz-Security-Token=t&X-Amz-Signature=00ff",
      "GET /b/k?X-Amz-Credential=[hidden]&X-Amz-Date=20261121&X-Amz-Security-Token=[hidden]&X-Amz-Signature=[hidden]",
    ],
    ["id token eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl is late", "id token [hidden] is late"],
    [
      "grant_type=authorization_code&code_verifier=abc&client_assertion=def",
      "grant_type=authorization_code&code_verifier=[hidden]&client_assertion=[hidden]",
    ],
    ["error code 7, session ended, cookie missing", "error code 7, session ended, cookie missing"],
  ];
  for (const [text, expected] of table) assert.is(redact(text), expected);
});

secrets("large and unusual values are truncated and never throw", () => {
  const deep = Array.from({ length: 100 }).reduce<unknown>((inner) => ({ inner }), 1);
  assert.match(JSON.stringify(redact(deep)), "[deeper]");
  assert.equal((redact(Array.from({ length: 103 }, () => 1)) as unknown[]).slice(99), [1, "[3 more]"]);
  assert.is(
    Object.keys(redact(Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`f${i}`, i]))) as object).length,
    101,
  );
  assert.is(redact("x".repeat(16_385)), `${"x".repeat(16_384)}... (1 characters more)`);
  const nasty = Object.defineProperty({}, "boom", {
    enumerable: true,
    get: () => {
      throw new Error("no");
    },
  });
  assert.is(redact(nasty), "[unreadable]");
  assert.is(redact(new Date(Number.NaN)), null);
  assert.equal(redact(JSON.parse('{"__proto__": {"token": "x"}}')), JSON.parse('{"__proto__": {"token": "[hidden]"}}'));
  for (const text of [
    "bearer ",
    "basic\t",
    "?key=",
    "a://",
    "ab+",
    "&token=&",
    "eyJ",
    "eyJaaaaaaaa.",
    "cookie:",
    "a-a-a-a-",
    "?a-a-a-a-a-a-",
  ])
    redact(text.repeat(20_000));
});

secrets.run();
