/**
 * The budget of ways: each optional field of an operation, cache, thread and private door into a library is a second
 * way to do something, which a reader must know of and a change must keep right. Adding one takes a line here with its
 * reason; what is removed loses its line.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ROOT, sourceFiles } from "./source.ts";

const test = suite("rules/ways");

/** Optional fields of an operation (http/operation.ts). */
const FIELDS: Readonly<Record<string, string>> = {
  origin: "operations of our own are not in the contract's table",
  onlyReads: "a question may be too long for a query",
  status: "old spellings are served and not published, removed operations get a 410",
  deprecation: "clients are told what to call instead",
  feature: "an organization can switch the controls off",
  signature: "SonarQube and LaunchDarkly sign instead of sending a key",
  matchesParams: "two patterns of the contract overlap",
  cacheable: "the same artifact is asked for again and again: 3.5 times the throughput beside writers",
  prepare: "threads, files and the network cannot be waited for in a transaction",
  stages: "what an evaluation reads is a file that its preparation makes, and no upload",
  isRepeatable: "a write of many clients goes without a savepoint",
  storesInPrepare: "reports of environments are committed by a thread",
  isLarge: "an answer of megabytes would hold the main thread up",
};

/** Caches by file: how many, and what they save. */
const CACHES: Readonly<Record<string, readonly [count: number, why: string]>> = {
  "audit-packages/evidence.ts": [1, "a damaged file is found once, and not in every package"],
  "auth/oidc-provider.ts": [1, "no cache: states that were used, so that none is used twice"],
  "domain/policy/conditions.ts": [1, "the names in an expression, which every evaluation asks for"],
  "domain/policy/cost.ts": [1, "the cost of a policy, which every evaluation asks for"],
  "domain/policy/evaluate.ts": [1, "the rules of a policy, which every artifact is evaluated under"],
  "evidence/local-store.ts": [1, "evidence that was confirmed is not looked up again"],
  "evidence/reader-worker.ts": [1, "a file that was compared with its digest is not read twice"],
  "evidence/s3-store.ts": [1, "as for local files, with a transfer for each"],
  "http/body/form-parser.ts": [2, "the upload of a stream, and a parser for each shape of a form"],
  "http/body/large-json-reader.ts": [1, "the text of a schema, which goes to a thread with every body"],
  "http/client-address.ts": [
    3,
    "the address and the proxy of a connection, and parsed host names: several per request",
  ],
  "http/deprecation.ts": [1, "searching the shapes of an operation would cost more than the request"],
  "http/representation.ts": [1, "parsed Accept-Encoding headers, of which clients send the same few"],
  "http/routing/overlapping-routes.ts": [1, "which of two patterns answers, which only their operations decide"],
  "http/routing/route-table.ts": [1, "no cache: the operations of a layer of @koa/router, which has no place for them"],
  "http/validate.ts": [2, "compiled schemas, by engine and schema: compiling takes milliseconds"],
  "jobs/known-texts.ts": [1, "what a report that is sent again said: reading it takes 28 times as long"],
  "server/app.ts": [1, "the addresses below a public URL"],
  "server/listener.ts": [2, "no caches: the traffic of a server, and the latest response of a connection"],
  "server/one-by-one.ts": [1, "no cache: the lane of a connection"],
  "server/principals.ts": [2, "memberships of a principal, which every request needs; the second line empties it"],
  "store/db/read-cache.ts": [1, "answers of `cacheable` operations"],
  "store/environments/snapshots.ts": [1, "parsed evaluations: the latest snapshots are read again and again"],
  "store/flows/templates.ts": [3, "digests, parsed templates and the lines of their expectations"],
  "store/policies/policies.ts": [2, "parsed policies and the lines of their rules"],
  "web/page/shown-once.ts": [1, "no cache: what a form shows once, until the browser asks for it"],
  "web/sign-in/kept-form.ts": [1, "no cache: what was typed before a session ended"],
  "workers/documents.ts": [1, "SBOMs that were read, which come in several requests"],
  "workers/sandbox/exact-keywords.ts": [1, "no cache: the texts of numbers that JavaScript would round"],
  "workers/turns.ts": [1, "no cache: when each caller had its latest turn, and those of long ago are forgotten"],
  "workers/sandbox/sandbox-worker.ts": [1, "compiled schemas of custom types"],
};

/** Threads by entry (server/worker-threads.ts), with what would hold the main thread up. */
const THREADS: Readonly<Record<string, readonly [count: number, why: string]>> = {
  "audit-packages/package-worker": [1, "packages and reports: fonts, compression, a long trail"],
  "backup/backup-worker": [1, "reading the whole database"],
  "evidence/hash-worker": [1, "hashing uploads"],
  "evidence/reader-worker": [1, "comparing files with their digests while they are sent"],
  "http/body/json-worker": [1, "parsing megabytes of JSON"],
  "jobs/evaluation-worker": [
    3,
    "recording reports, previews of policies, and the inputs of Rego evaluations: megabytes",
  ],
  "rego/rego-worker": [1, "policies in Rego, which may not end"],
  "server/answer-worker": [1, "making large answers"],
  "workers/document-worker": [1, "parsing long templates and policies"],
  "workers/sandbox/sandbox-worker": [1, "jq and JSON Schema of users, which may not end"],
};

/** Doors that a library or Node does not offer, by file. */
const DOORS: Readonly<Record<string, readonly [pattern: RegExp, why: string]>> = {
  "log.ts": [/pino\.symbols/, "lines are redacted and joined without a second serialisation"],
  "store/db/connection.ts": [/\bdb\.prepare = /, "a statement that is prepared anew costs ten to twenty queries"],
  "workers/memory-reclaim.ts": [/runInNewContext\("gc"\)/, "a thread gives its memory back after a large task"],
  "domain/text/yaml.ts": [/Error\.stackTraceLimit = /, "a stack for each of thousands of mistakes takes seconds"],
};

const files = sourceFiles("src").map(({ path }) => ({
  path: path.slice("src/".length),
  text: readFileSync(join(ROOT, path), "utf8"),
}));
const countIn = (text: string, pattern: RegExp): number => [...text.matchAll(pattern)].length;
const counted = (those: Readonly<Record<string, readonly [number, string]>>): Record<string, number> =>
  Object.fromEntries(Object.entries(those).map(([name, [count]]) => [name, count]));
const textOfFile = (path: string): string => files.find((file) => file.path === path)?.text ?? "";

test("each optional field of an operation has a reason", () => {
  const declared = /\nexport type Operation<[\s\S]*?> = \{\n([\s\S]*?)\n\};/;
  const [, type = ""] = declared.exec(textOfFile("http/operation.ts")) ?? [];
  const optional = [...type.matchAll(/^ {2}(\w+)\?[(:]/gm)].map(([, name]) => name);
  assert.equal(optional.sort(), Object.keys(FIELDS).sort());
});

test("each cache has a reason", () => {
  const found = files
    .filter(({ path }) => path !== "domain/lru.ts")
    .map(({ path, text }) => [path, countIn(text, /\bcreateLru[<(]|\bnew WeakMap\b/g)] as const)
    .filter(([, count]) => count > 0);
  assert.equal(Object.fromEntries(found.sort()), counted(CACHES));
});

test("each thread has a reason", () => {
  const entries = new Map<string, number>();
  for (const [, name = ""] of textOfFile("server/worker-threads.ts").matchAll(/startWorker\("([^"]+)"/g))
    entries.set(name, (entries.get(name) ?? 0) + 1);
  assert.equal(Object.fromEntries([...entries].sort()), counted(THREADS));
  assert.equal(
    files.filter(({ text }) => /^[^*]*\bnew Worker\(/m.test(text)).map(({ path }) => path),
    ["server/worker-threads.ts"],
    "threads start in one file",
  );
});

test("each private door into a library has a reason", () => {
  const doors = /pino\.symbols|runInNewContext\("gc"\)|Error\.stackTraceLimit = |handleRequest|\bdb\.prepare = /;
  assert.equal(
    files
      .filter(({ text }) => doors.test(text))
      .map(({ path }) => path)
      .sort(),
    Object.keys(DOORS).sort(),
  );
  for (const [path, [pattern]] of Object.entries(DOORS)) assert.match(textOfFile(path), pattern);
});

test.run();
