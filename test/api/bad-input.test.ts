/**
 * Randomly mutated requests of every operation: no response is a 5xx, every refusal has the contract's body and leaves
 * every table and both directories unchanged, and no message exposes internals. The run is reproducible:
 * SEED=7 selects another seed, RUNS=n multiplies the number of requests (`make fuzz`), and a failure prints the seed
 * and the request. Former failures are rows of FOUND.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createHmac } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { operations } from "../../src/api/index.ts";
import type { AssayOperation } from "../../src/api/context.ts";
import type { WebhookKind } from "../../src/store/notifications/inbound-webhooks.ts";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { BOUNDARY, CLOSING, field, file, holdings, holdingsWithoutEvidence, part } from "../http/socket.ts";

const SEED = Number(process.env["SEED"] ?? 1);
/** Requests per operation with a body; those with mutated paths and queries come on top. */
const TIMES = Number(process.env["RUNS"] ?? 1);
const ROUNDS = 30 * TIMES;
const MB = 1_048_576;

const test = suite(`api/bad-input (seed ${SEED})`);
const LIMITS = { json: 2 * MB, form: 2 * MB, document: 2 * MB, evidence: MB };
let server: TestServer;
let agent: Agent;
let key: string;
/** The secrets of the webhooks of signed operations. */
const secrets = new Map<string, string>();
test.before(async () => {
  // On disk, because a thread that reads the files creates packages.
  server = await startServer({ limits: LIMITS, directory: mkdtempSync(join(tmpdir(), "assay-test-")) });
  agent = new Agent({ keepAlive: true, maxSockets: 1 });
  ({ key } = server.given.org({ name: "acme" }));
  for (const { id, signature, example } of operations)
    if (signature)
      secrets.set(
        id,
        server.given.webhook("acme", signature.endpoint as WebhookKind, { id: example.params?.["hook_uid"] as string })
          .secret,
      );
  const { organizations, users } = server.store;
  server.given.org({ name: "spare" });
  organizations.setRole(
    (organizations.find("spare") as { id: number }).id,
    users.find("acme-admin") as { id: number; name: string },
    { role: "admin", changedBy: "test" },
  );
});
test.after(async () => {
  agent.destroy();
  await server.stop();
  rmSync(server.directory, { recursive: true, force: true });
});

// --- randomness

/** Mulberry32: small, and the same everywhere. */
let state = SEED >>> 0;
function chance(): number {
  state = (state + 0x6d2b79f5) >>> 0;
  let mixed = Math.imul(state ^ (state >>> 15), state | 1);
  mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
}
const below = (n: number): number => Math.floor(chance() * n);
const pick = <T>(items: readonly T[]): T => items[below(items.length)] as T;
const sometimes = (probability: number): boolean => chance() < probability;
const bytes = (size: number): Buffer => Buffer.from(Array.from({ length: size }, () => below(256)));
const letters = (size: number): string =>
  Array.from({ length: size }, () => pick("abcXYZ019-_.~/ %#?&=é€🙂'\"\\\n\t<>{}[]:,|".match(/./gsu) as string[])).join(
    "",
  );

// --- requests

type Attempt = {
  what: string;
  operation: string;
  method: string;
  target: string;
  headers: Record<string, string>;
  body: Buffer | null;
};
type Answered = { status: number; text: string; type: string };

function send(attempt: Attempt): Promise<Answered> {
  return new Promise((resolve, reject) => {
    const { port } = new URL(server.url);
    const outgoing = request(
      { host: "127.0.0.1", port, agent, method: attempt.method, path: attempt.target, headers: attempt.headers },
      (incoming) => {
        const chunks: Buffer[] = [];
        incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
        incoming.on("end", () =>
          resolve({
            status: incoming.statusCode ?? 0,
            text: Buffer.concat(chunks).toString("utf8"),
            type: incoming.headers["content-type"] ?? "",
          }),
        );
        incoming.on("error", reject);
      },
    );
    outgoing.on("error", reject);
    outgoing.end(attempt.body ?? undefined);
  });
}

/** Names of internals that no response may expose. */
const LEAKS = [
  /SQLITE|sqlite_|no such (?:table|column)|constraint failed/i,
  /node:|node_modules|\.[tj]s:\d+/,
  /\n\s+at /,
  /You have requested/,
];

/** Checks a response; throws if it is wrong. */
/** The second one: of the engine, about a bundle (newer-clients 5.3). */
const VALIDATION_MESSAGES = ["Input payload validation failed", "The policy is not valid"];

function checkResponse(answer: Answered): void {
  const { status, text } = answer;
  assert.ok(status >= 200 && status < 500, `status ${status}`);
  if (!answer.type.startsWith("application/json")) {
    assert.is(status, 200);
    return;
  }
  const body = JSON.parse(text, (name: string, value: unknown) => {
    assert.ok(name.isWellFormed() && (typeof value !== "string" || value.isWellFormed()), "no half of a character");
    return value;
  }) as unknown;
  if (status < 400) return;
  assert.ok(typeof body === "object" && body !== null && !Array.isArray(body), "the body is an object");
  const { message, errors, ...others } = body as Record<string, unknown>;
  assert.ok(typeof message === "string" && message !== "", "there is a message");
  assert.equal(others, {}, "there is nothing else");
  if ("errors" in body) {
    assert.is(status, 400);
    assert.ok(VALIDATION_MESSAGES.includes(message), message);
    assert.ok(typeof errors === "object" && errors !== null && Object.keys(errors).length > 0, "errors are not empty");
    for (const line of Object.values(errors as object))
      assert.ok(typeof line === "string" && line !== "", "each error is a text");
  } else assert.not.ok(VALIDATION_MESSAGES.includes(message), message);
  for (const leak of LEAKS) assert.not.match(text, leak);
  for (const place of [server.directory, process.cwd()]) assert.not.ok(text.includes(place), "no path of ours");
  assert.ok(text.length < 200_000, `the refusal is ${text.length} characters long`);
}

/** The state of the server before the request; null after an accepted one, which may have changed it. */
let before: ReturnType<typeof holdingsWithoutEvidence> | null = null;
/** The state of the evidence directories, all 256 of them, which only a form can change. */
let evidence: readonly string[] | null = null;
const isForm = ({ headers }: Attempt): boolean => headers["Content-Type"]?.startsWith("multipart/") ?? false;
let refusals = 0;
let accepted = 0;

async function check(attempt: Attempt): Promise<Answered> {
  // Jobs do the work of an accepted request after its response.
  if (before === null) await server.settled();
  before ??= holdingsWithoutEvidence(server);
  evidence ??= holdings(server).evidence;
  let answer: Answered | null = null;
  try {
    answer = await send(attempt);
    checkResponse(answer);
    if (answer.status >= 400) {
      refusals += 1;
      assert.equal(holdingsWithoutEvidence(server), before, "a refusal leaves nothing behind");
      if (isForm(attempt)) assert.equal(holdings(server).evidence, evidence, "a refusal leaves no file behind");
    } else {
      accepted += 1;
      before = null;
      if (isForm(attempt)) evidence = null;
    }
    return answer;
  } catch (error) {
    const shown = (text: string): string => (text.length > 1500 ? `${text.slice(0, 1500)}... (${text.length})` : text);
    const stack = server.lines.filter((line) => line.includes('"stack"')).at(-1) ?? "";
    throw new Error(
      [
        `seed ${SEED}: ${attempt.operation}, ${attempt.what}: ${(error as Error).message}`,
        `${attempt.method} ${shown(attempt.target)} ${shown(JSON.stringify(attempt.headers["Content-Type"] ?? null))}`,
        shown(attempt.body?.toString("latin1") ?? ""),
        `-> ${answer?.status} ${shown(answer?.text ?? "")}`,
        stack.slice(0, 3000),
      ].join("\n"),
    );
  }
}

// --- mutations

const nested = (depth: number): unknown => JSON.parse(`${"[".repeat(depth)}${"]".repeat(depth)}`);
const VALUES: readonly (() => unknown)[] = [
  () => null,
  () => true,
  () => false,
  () => 0,
  () => -1,
  () => 1.5,
  () => -0,
  () => 1e308,
  () => 5e-324,
  () => 9_007_199_254_740_993,
  () => -9_223_372_036_854_775_808,
  () => "",
  () => " ",
  () => "a",
  () => "\u0000",
  () => "a\u0000b",
  () => "\ud800",
  () => "\udfff\ud800",
  () => "\uffff\ufeff",
  () => "🙂",
  () => "\u202e",
  () => "a\nb\r\n\tc",
  () => "../../etc/passwd",
  () => "'; DROP TABLE flows; --",
  () => "%00",
  () => "%s%n",
  () => "${x}",
  () => "NaN",
  () => "1e999",
  () => "-",
  () => ".",
  () => "..",
  () => "~",
  () => "a,b",
  () => "a.b",
  () => "null",
  () => "<script>",
  () => "http://[",
  () => "javascript:alert(1)",
  () => "file:///x",
  () => `http://${"h".repeat(5000)}/`,
  () => "(a+)+$",
  () => letters(20),
  () => letters(300),
  () => [],
  () => {},
  () => [null],
  () => [[]],
  () => [{}],
  () => ({ "": "" }),
  () => ({ a: 1 }),
  () => JSON.parse('{"__proto__":{"x":1}}'),
  () => ({ constructor: "x", toString: 1 }),
  () => nested(100),
  () => nested(200),
  () => ["a", "a"],
  () => Array.from({ length: 300 }, (_, i) => i),
  () => ({ length: 3 }),
  () => 1_700_000_000,
  () => 1_700_000_000_000,
];
const HUGE: readonly (() => unknown)[] = [
  () => "x".repeat(MB),
  () => Array.from({ length: 200_000 }, () => 1),
  () => Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`k${i}`, i])),
  () => nested(1000),
  () => "🙂".repeat(200_000),
  () => Array.from({ length: 20_000 }, () => "name"),
  () => Array.from({ length: 20_000 }, () => ({ x: 1 })),
];
const anything = (): unknown => (sometimes(0.015) ? pick(HUGE) : pick(VALUES))();
const anyKey = (): string =>
  pick([
    "extra",
    "",
    "__proto__",
    "constructor",
    "toString",
    "a.b",
    "\u0000",
    "\ud800",
    "k".repeat(sometimes(0.1) ? 100_000 : 300),
    "name ",
    "Name",
    letters(8),
  ]);

type Shape = {
  type?: string | string[];
  properties?: Record<string, Shape>;
  patternProperties?: Record<string, Shape>;
  items?: Shape;
  anyOf?: Shape[];
  enum?: unknown[];
  const?: unknown;
  pattern?: string;
  minimum?: number;
};

/** Texts of which one matches each grammar. */
const FITTING = [
  "a",
  "unit-tests",
  "server",
  "a".repeat(40),
  "0f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112",
  "7b1f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccd",
  "0f5c9a1d-2b3e-4f50-8172-8394a5b6",
];

/** A value of a shape, mostly a valid one, so that mutations reach deep into the handlers. */
function fitting(shape: Shape): unknown {
  if (shape.const !== undefined) return shape.const;
  if (shape.enum) return pick(shape.enum);
  if (shape.anyOf) return fitting(pick(shape.anyOf));
  switch (Array.isArray(shape.type) ? pick(shape.type) : shape.type) {
    case "object": {
      const value = Object.fromEntries(
        Object.entries(shape.properties ?? {}).flatMap(([name, inner]) =>
          sometimes(0.8) ? [[name, fitting(inner)]] : [],
        ),
      );
      for (const inner of Object.values(shape.patternProperties ?? {}))
        for (let i = below(3); i > 0; i--) value[pick(["a", "label", "x_1"])] = fitting(inner);
      return value;
    }
    case "array":
      return Array.from({ length: below(4) }, () => fitting(shape.items ?? {}));
    case "string": {
      const words = FITTING.filter((word) => shape.pattern === undefined || new RegExp(shape.pattern).test(word));
      return shape.pattern === undefined && sometimes(0.4)
        ? pick([
            "",
            "text",
            "https://example.com/x?y=z#1",
            "2026-01-31T12:00:00Z",
            "github",
            "MERGED",
            "git@example.com:a/b.git",
            letters(20).toWellFormed(),
          ])
        : pick(words);
    }
    case "integer":
      return (shape.minimum ?? 0) + below(5);
    case "number":
      return pick([0, 1, 1_700_000_000, 0.5, 1e12]);
    case "boolean":
      return sometimes(0.5);
    case "null":
      return null;
    default:
      return pick(VALUES)();
  }
}

/** The example, with more optional fields. */
function enriched(operation: AssayOperation): unknown {
  const shape = (operation.body as { schema: Shape }).schema;
  const body = structuredClone(operation.example.body) as Record<string, unknown>;
  for (const [name, inner] of Object.entries(shape.properties ?? {}))
    if (name in body ? sometimes(0.2) : sometimes(0.35)) body[name] = fitting(inner);
  return body;
}

type Spot = { holder: any; key: string | number };
function spots(value: unknown, found: Spot[] = []): Spot[] {
  if (typeof value === "object" && value !== null)
    for (const name of Object.keys(value)) {
      found.push({ holder: value, key: Array.isArray(value) ? Number(name) : name });
      if (found.length < 500) spots((value as Record<string, unknown>)[name], found);
    }
  return found;
}

/** Defines an own property of any name. */
const put = (holder: any, name: string | number, value: unknown): void =>
  void Object.defineProperty(holder, name, { value, enumerable: true, configurable: true, writable: true });

/** Mutates a value: something invalid, or unusual. */
function mutate(value: unknown): [what: string, value: unknown] {
  if (sometimes(0.05)) return ["another value", anything()];
  if (sometimes(0.2)) return ["enriched", value];
  const what: string[] = [];
  for (let times = 1 + below(3); times > 0; times--) {
    const all = spots(value);
    const spot = all.length > 0 ? pick(all) : null;
    const kind = below(6);
    if (!spot) return ["another value", anything()];
    what.push(`${["drop", "replace", "replace", "add", "wrap", "repeat"][kind]} ${String(spot.key).slice(0, 40)}`);
    if (kind === 0) Array.isArray(spot.holder) ? spot.holder.splice(Number(spot.key), 1) : delete spot.holder[spot.key];
    else if (kind < 3) put(spot.holder, spot.key, anything());
    else if (kind === 3)
      Array.isArray(spot.holder) ? spot.holder.push(anything()) : put(spot.holder, anyKey(), anything());
    else if (kind === 4)
      put(
        spot.holder,
        spot.key,
        pick<(x: unknown) => unknown>([(x) => [x], (x) => ({ x }), (x) => JSON.stringify(x) ?? "", (x) => [x, x]])(
          spot.holder[spot.key],
        ),
      );
    else if (Array.isArray(spot.holder))
      for (let i = below(50); i > 0; i--) spot.holder.push(structuredClone(spot.holder[Number(spot.key)]));
    else put(spot.holder, `${spot.key}${pick(["", "s", " ", "\u00a0"])}`, spot.holder[spot.key]);
  }
  return [what.join(", "), value];
}

/** Numbers that are too long, too large, or not JSON. */
const NUMBERS = ["1e999", "-1e999", "1".repeat(5000), "0.".padEnd(3000, "3"), "01", "+1", "NaN", "Infinity", "0x1"];

/** JSON as text, sometimes broken. */
function mutatedJson(operation: AssayOperation): [what: string, text: Buffer] {
  const [what, value] = mutate(enriched(operation));
  const text = JSON.stringify(value) ?? "";
  const at = below(text.length + 1);
  switch (below(14)) {
    case 0:
      return [`${what}; cut`, Buffer.from(text.slice(0, at))];
    case 1:
      return [
        `${what}; bytes inside`,
        Buffer.concat([Buffer.from(text.slice(0, at)), bytes(1 + below(8)), Buffer.from(text.slice(at))]),
      ];
    case 2:
      return [
        `${what}; endless number`,
        Buffer.from(text.replace(/:("[^"]*"|\d+|true|false|null)/, `:${pick(NUMBERS)}`)),
      ];
    case 3:
      return [
        `${what}; a key twice`,
        Buffer.from(text.replace(/^\{/, `{"name":${JSON.stringify(anything() ?? null).slice(0, 1000)},`)),
      ];
    case 4:
      return ["bytes", bytes(below(200))];
    case 5:
      if (sometimes(0.15))
        return [
          "deep brackets",
          Buffer.from(
            text.replace(/:("[^"]*"|\d+|true|false|null)/, () => `:${"[".repeat(400_000)}${"]".repeat(400_000)}`),
          ),
        ];
      return sometimes(0.3)
        ? ["open brackets", Buffer.from(pick(["[", '{"a":', '[{"a":', '"', "\\", " "]).repeat(MB / 8))]
        : [`${what}; byte order mark`, Buffer.from(`\ufeff${text}`)];
    default:
      return [what, Buffer.from(text)];
  }
}

const POLICY = "_schema: https://assay.example.com/schemas/policy/environment/v1\n";
const ALIAS_BOMB =
  "l0: &l0 [x, x, x, x, x, x, x, x, x]\n" +
  `${Array.from({ length: 30 }, (_, i) => `l${i + 1}: &l${i + 1} [${`*l${i},`.repeat(9)}]`).join("\n")}\n`;
const YAML: readonly (() => string)[] = [
  () => ALIAS_BOMB,
  () => `${POLICY}${ALIAS_BOMB}artifacts: {attestations: *l30}\n`,
  () => `version: 1\n${ALIAS_BOMB}trail: {attestations: *l30}\n`,
  () => "a: &a [*a]\n",
  () => "version: 1\ntrail: &t\n  attestations: *t\n",
  () => "<<: &x {<<: *x}\n",
  () => "%YAML 9.9\n---\na: 1\n",
  () => "--- 1\n--- 2\n",
  () => "!!js/function 'x'\n",
  () => "? ? ?\n",
  () => "\ufeffversion: 1\n",
  () => `${POLICY}artifacts: {attestations: [{type: junit, if: "matches(flow.name, '(a+)+$')"}]}\n`,
  () => `${POLICY}artifacts: {attestations: [{type: junit, if: "matches(flow.name, '${"(".repeat(2000)}')"}]}\n`,
  () => `${POLICY}artifacts: {attestations: [{type: junit, if: "${"(".repeat(5000)}"}]}\n`,
  () => `version: 1\ntrail:\n  attestations:\n${"  - {name: a, type: generic}\n".repeat(20_000)}`,
  () => "null\n",
  () => "\n",
  () => "...\n",
  () => "a: b: c\n",
  () => "\t- a\n",
  () => "'\n",
  () => "|\n x\n",
  () => "version: 1e999\n",
  () => "version: .inf\ntrail: .nan\n",
  () => "version: 0x1\n",
  () => "true: 1\nnull: 2\n[1]: 3\n{a: 1}: 4\n",
];
const HUGE_YAML: readonly (() => string)[] = [
  ...[
    "[",
    "{",
    "{a: ",
    "- ",
    "a: ",
    "? ",
    "]",
    ",",
    "&a ",
    "*a ",
    "!a ",
    "---\n",
    '"',
    "|",
    "\t",
    "#\n",
    "\0",
    "a\n",
    "- a\n",
    "'a\n",
  ].map((piece) => () => piece.repeat(MB / piece.length)),
  () => Array.from({ length: 1400 }, (_, i) => `${" ".repeat(i)}a:`).join("\n"),
  () => Array.from({ length: 60_000 }, (_, i) => `k${i}: 1`).join("\n"),
  () => `version: 1\ntrail: ${"[".repeat(MB)}`,
  () => `${POLICY}x: ${"x".repeat(MB)}`,
];

/** A YAML file with something invalid, or unusual, in it. */
function mutatedYaml(example: string): [what: string, content: Buffer] {
  if (sometimes(0.01)) return ["huge YAML", Buffer.from(pick(HUGE_YAML)())];
  if (sometimes(0.25)) return ["unusual YAML", Buffer.from(pick(YAML)())];
  const lines = example.split("\n");
  for (let times = 1 + below(4); times > 0; times--) {
    const at = below(lines.length);
    const line = lines[at] ?? "";
    const scalar = (): string =>
      String(
        pick([
          "",
          "~",
          "*x",
          "&x",
          "!!binary x",
          "[]",
          "{}",
          "'",
          "- -",
          "1",
          "0x7f",
          ".nan",
          "2026-01-01",
          "a b",
          "|",
          ">-",
          "@",
          "%",
          "\u0007",
          "x".repeat(3000),
          "${{ x }}",
          "artifact",
          "pull_request",
          letters(12),
        ]),
      );
    pick<() => unknown>([
      () => lines.splice(at, 1),
      () => lines.splice(at, 0, line),
      () => (lines[at] = ` ${line}`),
      () => (lines[at] = line.replace(/^ /, "")),
      () => (lines[at] = line.replace(/:.*$/, `: ${scalar()}`)),
      () => (lines[at] = line.replace(/\w+:/, `${scalar()}:`)),
      () => (lines[at] = `${line}${scalar()}`),
      () => lines.splice(at, 0, `${" ".repeat(below(8))}${scalar()}: ${scalar()}`),
      () => (lines[at] = [...line].reverse().join("")),
    ])();
  }
  const text = lines.join(pick(["\n", "\n", "\n", "\r\n", "\r"]));
  if (sometimes(0.05)) return ["YAML in UTF-16", Buffer.from(text, "utf16le")];
  if (sometimes(0.05))
    return [
      "YAML with bytes",
      Buffer.concat([Buffer.from(text.slice(0, below(text.length))), bytes(3), Buffer.from(text)]),
    ];
  return ["mutated YAML", Buffer.from(text)];
}

/** A form whose parts, order or bytes may be wrong. */
function mutatedForm(operation: AssayOperation): [what: string, type: string, body: Buffer] {
  const form = operation.body as { part: string; file: { part: string; kind: "memory" | "evidence" } | null };
  const [whatJson, json] = sometimes(0.6)
    ? mutatedJson(operation)
    : ["fine JSON", Buffer.from(JSON.stringify(operation.example.body))];
  const example = operation.example.file ?? "";
  const [whatFile, content] =
    form.file?.kind === "memory"
      ? sometimes(0.7)
        ? mutatedYaml(example)
        : ["fine file", Buffer.from(example)]
      : sometimes(0.02)
        ? ["large file", Buffer.alloc(MB + below(2), "e")]
        : ["a file", bytes(below(300))];
  const name = (fine: string): string =>
    sometimes(0.05)
      ? pick(["other", "", "__proto__", `${fine}[]`, `${fine}[a]`, fine.toUpperCase(), "n".repeat(150), `${fine}\\"`])
      : fine;
  const filename = (): string =>
    sometimes(0.2) ? pick(["", "../../x", "a\\b", "x".repeat(3000), "\u0000", "é🙂", '\\"', "a;b", "."]) : "file.yml";
  const parts: Buffer[] = [];
  parts.push(
    sometimes(0.1)
      ? file(name(form.part), filename(), json)
      : field(
          name(form.part),
          json,
          pick([
            "",
            "",
            "\r\nContent-Type: application/json",
            "\r\nContent-Type: text/plain; charset=latin1",
            "\r\nContent-Type: ;;;",
          ]),
        ),
  );
  if (form.file && sometimes(0.8))
    parts.push(
      sometimes(0.05) ? field(name(form.file.part), content) : file(name(form.file.part), filename(), content),
    );
  const what = [whatJson, whatFile];
  const wrong = below(12);
  if (wrong === 0) parts.reverse();
  else if (wrong === 1) parts.splice(below(parts.length), 1);
  else if (wrong === 2) parts.push(pick(parts));
  else if (wrong === 3)
    parts.splice(
      below(parts.length),
      0,
      part(
        pick([
          "X: y",
          "Content-Disposition: nonsense",
          "Content-Disposition: form-data",
          ": x",
          "\u0000",
          "Content-Disposition: form-data; name*=x''%zz",
        ]),
        bytes(20),
      ),
    );
  if (wrong < 4) what.push(["reversed", "a part missing", "a part twice", "an unusual part"][wrong] as string);
  let body: Buffer = Buffer.concat([...parts, CLOSING]);
  if (wrong === 4) {
    what.push("cut");
    body = body.subarray(0, below(body.length));
  }
  if (wrong === 5) {
    what.push("bytes inside");
    const at = below(body.length);
    body = Buffer.concat([body.subarray(0, at), bytes(1 + below(5)), body.subarray(at)]);
  }
  if (wrong === 6 && sometimes(0.3)) {
    what.push("bytes only");
    body = bytes(below(500));
  }
  const type = sometimes(0.04)
    ? pick([
        "multipart/form-data",
        "application/json",
        "multipart/form-data; boundary=",
        `multipart/form-data; boundary=${"b".repeat(300)}`,
        "multipart/mixed; boundary=x",
        "nonsense",
        'multipart/form-data; boundary="a',
      ])
    : `multipart/form-data; boundary=${BOUNDARY}`;
  return [what.join("; "), type, body];
}

// --- the objects that the examples name

/** Operations that remove their object work on one of their own. */
const SPARE: Record<string, Record<string, string>> = {
  archive_flow: { flow_name: "spare" },
  rename_flow: { flow_name: "spare" },
  archive_env: { env_name: "spare" },
  rename_environment: { env_name: "spare" },
  update_experimental_features: { org: "spare" },
  archive_custom_attestation_type: { custom_attestation_type_name: "spare" },
  delete_service_account: { name: "spare" },
  delete_service_account_api_key: { key_id: "spare-1" },
  rotate_service_account_api_key: { key_id: "spare-2" },
  delete_action: { action_number: "2" },
  delete_environment_notification: { notification_number: "3" },
  delete_member: { user: "spare" },
  delete_view: { view_id: "spare-view" },
  delete_user_api_key: { key_id: "spare-3" },
  rotate_user_api_key: { key_id: "spare-4" },
  // The server chooses the ids of messages and holds, and what the signed webhooks need stays as it is.
  retry_action_delivery: { delivery_id: "spare" },
  release_legal_hold: { hold_id: "spare" },
  delete_inbound_webhook: { webhook_kind: "spare" },
  rotate_inbound_webhook_secret: { webhook_kind: "spare" },
  delete_retention_rule: {},
};
const paramsOf = (operation: AssayOperation): Record<string, string> => ({
  ...operation.example.params,
  ...SPARE[operation.id],
});

const targetOf = (operation: AssayOperation, params: Record<string, string>, query: string): string =>
  `/api/v2${operation.path.replace(/\{(\w+)\*?\}/g, (_all, name: string) => params[name] ?? "x")}${query}`;

const signatureOf = ({ id, signature }: AssayOperation, body: Buffer | null): Record<string, string> =>
  signature && body
    ? {
        [signature.header]: createHmac("sha256", secrets.get(id) ?? "")
          .update(body)
          .digest("hex"),
      }
    : {};

function attempt(operation: AssayOperation, more: Partial<Attempt>): Attempt {
  const body = more.body ?? null;
  return {
    what: "as it is",
    operation: operation.id,
    method: operation.method,
    target: targetOf(operation, paramsOf(operation), ""),
    ...more,
    body,
    headers: {
      Authorization: `Bearer ${key}`,
      ...signatureOf(operation, body),
      ...(body ? { "Content-Length": String(body.length), "Content-Type": "application/json" } : {}),
      ...more.headers,
    },
  };
}

/** The example of an operation as a request. */
function whole(operation: AssayOperation): Attempt {
  const { body } = operation;
  const { query, file: content } = operation.example;
  const target = targetOf(operation, paramsOf(operation), query ? `?${new URLSearchParams(query)}` : "");
  const json = JSON.stringify(operation.example.body);
  if (body.kind === "none") return attempt(operation, { target });
  if (body.kind === "json") return attempt(operation, { target, body: Buffer.from(json) });
  const parts = [
    field(body.part, json),
    ...(body.file && content !== undefined ? [file(body.file.part, "file", content)] : []),
    CLOSING,
  ];
  return attempt(operation, {
    target,
    body: Buffer.concat(parts),
    headers: { "Content-Type": `multipart/form-data; boundary=${BOUNDARY}` },
  });
}

const named = (id: string): AssayOperation => operations.find((operation) => operation.id === id) as AssayOperation;
const WORLD = [
  "create_flow_with_template",
  "create_trail",
  "create_artifact",
  "put_policy",
  "create_env",
  "post_control",
  "put_rego_policy",
  "create_service_account",
  "post_custom_attestation_type",
  "create_or_update_env_action",
];

async function makeWorld(): Promise<void> {
  for (const [id, name] of [
    ["create_flow_with_template", "backend"],
    ["create_flow_with_template", "spare"],
    ["post_custom_attestation_type", "spare"],
  ] as const) {
    const json = field("data_json", JSON.stringify({ name }));
    await check(
      attempt(named(id), {
        body: Buffer.concat([json, CLOSING]),
        headers: { "Content-Type": `multipart/form-data; boundary=${BOUNDARY}` },
      }),
    );
  }
  const reports = operations.filter(({ path }) => path.includes("/report/"));
  const reported = reports.map(
    ({ path, example }) => [example.params?.["env_name"] as string, path.split("/").at(-1) as string] as const,
  );
  for (const [name, type] of [
    ["spare", "K8S"],
    ["staging", "K8S"],
    ["all-production", "logical"],
    ...reported,
  ] as const)
    await check(attempt(named("create_env"), { body: Buffer.from(JSON.stringify({ name, type, description: "" })) }));
  const k8s = whole(named("k8s_report"));
  await check({ ...k8s, target: k8s.target.replace("/production/", "/staging/") });
  for (const id of WORLD) await check(whole(named(id)));
  server.store.users.find("ada") ?? server.store.users.create({ name: "ada", displayName: "", email: null });
  await check(attempt(named("create_service_account"), { body: Buffer.from('{"name":"spare"}') }));
  // The server chooses the id of a key, and the examples name one.
  for (const id of [named("get_service_account_api_key").example.params?.["key_id"], "spare-1", "spare-2"]) {
    const made = await check(whole(named("create_service_account_api_key")));
    server.db
      .prepare("UPDATE OR IGNORE api_keys SET public_id = ? WHERE public_id = ?")
      .run(id, JSON.parse(made.text).id);
  }
  for (const id of [named("put_view").example.params?.["view_id"], "spare-view"]) {
    const view = { ...(named("create_view").example.body as object), name: `Spare ${id}` };
    const saved = await check(attempt(named("create_view"), { body: Buffer.from(JSON.stringify(view)) }));
    // One that was there before is refused.
    const made = JSON.parse(saved.text).view_id ?? "";
    server.db.prepare("UPDATE OR IGNORE views SET public_id = ? WHERE public_id = ?").run(id, made);
  }
  const action = named("create_or_update_env_action");
  for (const name of ["spare", "spare/2"])
    await check(attempt(action, { body: Buffer.from(JSON.stringify({ ...(action.example.body as object), name })) }));
}

test("the examples of all operations succeed in the order of a release", async () => {
  await makeWorld();
  const writes = operations.filter(
    ({ id, method, status }) => method !== "GET" && status !== "removed" && !WORLD.includes(id) && !(id in SPARE),
  );
  for (const operation of writes) {
    const answer = await check(whole(operation));
    assert.ok(answer.status < 300, `${operation.id}: ${answer.status} ${answer.text}`);
  }
  for (const operation of operations.filter(({ method, status }) => method === "GET" && status !== "removed")) {
    const answer = await check(whole(operation));
    // These examples name an object that no other example creates.
    const missing = [
      "get_attestation_evidence",
      "get_attestation_sbom",
      "get_artifact_attestation",
      "get_control_decision",
      "get_rego_evaluation",
      "get_rego_evaluation_input",
      "download_rego_evaluation_bundle",
      "list_repo_deployments",
      "get_repo_deployment_statistics",
    ].includes(operation.id);
    assert.is(answer.status, missing ? 404 : 200, `${operation.id}: ${answer.text}`);
  }
});

// --- the properties

const sampled = operations.filter(({ status }) => status !== "removed");

for (const operation of sampled.filter(({ body }) => body.kind === "json"))
  test(`mutated JSON: ${operation.id}`, async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const [what, body] = mutatedJson(operation);
      await check(
        attempt(operation, {
          what,
          body,
          headers: sometimes(0.1)
            ? {
                "Content-Type": pick([
                  "text/plain",
                  "application/x-www-form-urlencoded",
                  "nonsense",
                  "application/json; charset=utf-16",
                ]),
              }
            : {},
        }),
      );
    }
  });

for (const operation of sampled.filter(({ body }) => body.kind === "form"))
  test(`mutated forms: ${operation.id}`, async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const [what, type, body] = mutatedForm(operation);
      await check(attempt(operation, { what, body, headers: { "Content-Type": type } }));
    }
  });

test("mutated templates and policies", async () => {
  for (const [turn, id] of ["create_flow_with_template", "create_trail", "put_policy"].entries()) {
    const operation = named(id);
    const form = operation.body as { part: string; file: { part: string } };
    for (let round = 0; round < ROUNDS * 2; round++) {
      const [what, content] = mutatedYaml(operation.example.file as string);
      const body = Buffer.concat([
        field(form.part, JSON.stringify(operation.example.body)),
        file(form.file.part, "f", content),
        CLOSING,
      ]);
      await check(
        attempt(operation, { what, body, headers: { "Content-Type": `multipart/form-data; boundary=${BOUNDARY}` } }),
      );
    }
    // The parsers of both languages test their own bounds; this checks that each operation uses one.
    for (const content of [...YAML, ...HUGE_YAML.filter((_, index) => index % 3 === turn)]) {
      const body = Buffer.concat([
        field(form.part, JSON.stringify(operation.example.body)),
        file(form.file.part, "f", content()),
        CLOSING,
      ]);
      await check(
        attempt(operation, {
          what: "a certain YAML",
          body,
          headers: { "Content-Type": `multipart/form-data; boundary=${BOUNDARY}` },
        }),
      );
    }
  }
});

/** A path segment without bytes that a client library would refuse to send. */
function addressText(): string {
  const value = anything();
  const text = (typeof value === "string" ? value : (JSON.stringify(value) ?? "")).slice(
    0,
    sometimes(0.05) ? 50_000 : 300,
  );
  return sometimes(0.7)
    ? encodeURIComponent(text.toWellFormed())
    : pick([
        "%",
        "%zz",
        "%00",
        "%ed%a0%80",
        "%ff",
        "..",
        ".",
        "%2e%2e",
        "%2f",
        "",
        "+",
        "a;b",
        "a=b",
        "@{1}",
        "~3",
        "%23",
        "*",
        "%25%30%30",
        "\\",
        "|",
        "[]",
      ]);
}

test("mutated paths with the bodies of the examples", async () => {
  for (const operation of operations) {
    const names = Object.keys(operation.example.params ?? {});
    if (names.length === 0) continue;
    for (let round = 0; round < 8 * TIMES; round++) {
      const params = { ...paramsOf(operation), [pick(names)]: addressText() };
      await check({ ...whole(operation), what: "a mutated path", target: targetOf(operation, params, "") });
    }
  }
});

const PATTERNS = [
  "(a+)+$",
  "(a|a)*b",
  "[",
  "(",
  "(?=x)",
  "\\1",
  "(?<n>a)\\k<n>",
  "a{1000}{1000}",
  "(".repeat(3000),
  "(?i)x",
  "\\p{L}+",
  "[^]",
  "*",
  "x{2,1}",
  "\\",
  "(?:a?){500}a{500}",
  "^.*$",
  "|".repeat(5000),
  "",
];

test("mutated queries", async () => {
  for (const operation of sampled) {
    const names = Object.keys(operation.query.properties as object);
    if (names.length === 0) continue;
    for (let round = 0; round < (8 + names.length * 6) * TIMES; round++) {
      const pairs = Array.from({ length: 1 + below(4) }, () => {
        const name = sometimes(0.9) ? pick(names) : encodeURIComponent(anyKey().toWellFormed().slice(0, 300));
        const value =
          /regex/.test(name) && sometimes(0.7)
            ? encodeURIComponent(pick(PATTERNS))
            : sometimes(0.3)
              ? pick([
                  "0",
                  "1",
                  "-1",
                  "1.5",
                  "99999999999999999999",
                  "1e999",
                  "true",
                  "yes",
                  "asc",
                  "name",
                  "%20",
                  "",
                  "9007199254740991",
                  "-9007199254740991",
                  "1700000000",
                  "a,,b,",
                  "x:y:z",
                  "team=x=y",
                ])
              : addressText();
        return sometimes(0.05) ? name : `${name}=${value}`;
      });
      await check(
        attempt(operation, {
          what: "a mutated query",
          target: targetOf(operation, paramsOf(operation), `?${pairs.join("&")}`),
        }),
      );
    }
  }
});

test("bodies on operations without one", async () => {
  for (const operation of sampled.filter(({ body }) => body.kind === "none"))
    for (let round = 0; round < 5; round++) {
      await check(
        attempt(operation, {
          what: "an unexpected body",
          body: pick([bytes(below(500)), Buffer.from("null"), Buffer.from("[".repeat(1000)), Buffer.alloc(MB, " ")]),
          headers: { "Content-Type": pick(["application/json", "multipart/form-data", "nonsense"]) },
        }),
      );
      if (operation.id in SPARE) await makeWorld();
    }
});

// A backtracking engine would not finish these before the runner's timeout.
test("matches a client's regular expression in linear time", async () => {
  const operation = named("get_attestations");
  const report = (name: string) => field("data_json", JSON.stringify({ attestation_name: name, is_compliant: true }));
  const kind = named("post_generic_attestation");
  for (let i = 0; i < 20; i++)
    await check(
      attempt(kind, {
        body: Buffer.concat([report(`${"a".repeat(250)}${i}`), CLOSING]),
        headers: { "Content-Type": `multipart/form-data; boundary=${BOUNDARY}` },
      }),
    );
  for (const pattern of ["^(a+)+$", "(a|a)*b", "(a*)*c", "(.*)*x", "(?:a?){250}a{250}b"]) {
    await check(
      attempt(operation, {
        what: pattern,
        target: targetOf(operation, paramsOf(operation), `?name_regex=${encodeURIComponent(pattern)}`),
      }),
    );
  }
});

// --- regressions

const invalid = (errors: string) => `{"message":"Input payload validation failed","errors":${errors}}`;
const form = (...parts: Buffer[]): Partial<Attempt> => ({
  body: Buffer.concat([...parts, CLOSING]),
  headers: { "Content-Type": `multipart/form-data; boundary=${BOUNDARY}` },
});

const FOUND: readonly [what: string, operation: string, more: () => Partial<Attempt>, status: number, body: string][] =
  [
    ...["__proto__", "constructor", "toString"].map((name): (typeof FOUND)[number] => [
      `the key ${name} gave errors without a field`,
      "rename_flow",
      () => ({ body: Buffer.from(`{"new_name":"other","${name}":1}`) }),
      400,
      invalid(`{"${name}":"Extra inputs are not permitted [input: 1]; possible keys: new_name"}`),
    ]),
    [
      "evidence over the limit that had come whole gave 500",
      "post_generic_attestation",
      () =>
        form(
          field("data_json", '{"attestation_name":"a","is_compliant":true}'),
          file("attachment_file", "f", Buffer.alloc(LIMITS.evidence + 1)),
        ),
      413,
      '{"message":"File size exceeds the 1MB limit"}',
    ],
    [
      "a page beyond all numbers reached the database",
      "get_flows",
      () => ({ target: "/api/v2/flows/acme?page=1e999" }),
      400,
      invalid('{"page":"Input should be a valid integer [input: 1e999]"}'),
    ],
    [
      "a blank was taken for the number 0",
      "get_flows",
      () => ({ target: "/api/v2/flows/acme?per_page=%20" }),
      400,
      invalid('{"per_page":"Input should be a valid integer [input:  ]"}'),
    ],
    [
      "a target that is no address gave 500",
      "get_flow",
      () => ({ target: "http://[/api/v2/flows/acme/none" }),
      404,
      `{"message":"Flow named 'none' does not exist for organization 'acme'"}`,
    ],
    [
      "parameters beyond the last that is read were forgotten",
      "get_flows",
      () => ({ target: `/api/v2/flows/acme?${"a&".repeat(5000)}page=0` }),
      400,
      '{"message":"The query has more than 5000 parameters"}',
    ],
    [
      "JSON that is not UTF-8 was stored with other characters",
      "post_generic_attestation",
      () =>
        form(
          field(
            "data_json",
            Buffer.from('{"attestation_name":"a","is_compliant":true,"description":"\xe9"}', "latin1"),
          ),
        ),
      400,
      invalid('{"data_json":"Input should be valid JSON: the text is not UTF-8"}'),
    ],
    [
      "a file without a filename was dropped, and the report stored without it",
      "post_generic_attestation",
      () =>
        form(
          field("data_json", '{"attestation_name":"a","is_compliant":true}'),
          file("attachment_file", "", "evidence"),
        ),
      400,
      invalid('{"attachment_file":"The part should be a file: give it a filename"}'),
    ],
  ];

for (const [what, id, more, status, body] of FOUND)
  test(`regression: ${what}`, async () => {
    const answer = await check(attempt(named(id), { what, ...more() }));
    assert.equal({ status: answer.status, text: answer.text }, { status, text: body });
  });

test("after all accepted requests every read works and the database is intact", async () => {
  await makeWorld();
  for (const operation of operations.filter(({ method }) => method === "GET")) {
    await check(whole(operation));
    await check(attempt(operation, { what: "without its query" }));
  }
  assert.equal(server.db.pragma("integrity_check"), [{ integrity_check: "ok" }]);
  assert.equal(server.db.pragma("foreign_key_check"), []);
  assert.ok(refusals > 1000 && accepted > 200, `${refusals} refused, ${accepted} accepted`);
  if (process.env["SEED"]) console.log(`seed ${SEED}: ${refusals} refused, ${accepted} accepted`);
});

test.run();
