/**
 * Every operation under generated requests, valid ones and ones with a fault, from all roles. Whatever is sent: no 5xx,
 * nothing undeclared, every response in its declared shape, document and server agree, and a refusal leaves nothing
 * behind.
 *
 * SEED=n repeats a failed run, RUNS=n multiplies the number of requests (`make fuzz`).
 */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { isReading } from "../../src/http/operation.ts";
import fc from "fast-check";
import { operations } from "../../src/api/index.ts";
import type { AssayOperation } from "../../src/api/context.ts";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { createAgreement } from "./agreement.ts";
import { faultFor } from "./faults.ts";
import { createResponseCheck } from "./check-response.ts";
import { createClient, valid, write } from "./requests.ts";
import type { Draft, Received } from "./requests.ts";
import { createWorld } from "./world.ts";
import type { World } from "./world.ts";

const SEED = Number(process.env["SEED"] ?? 20_261_121);
const TIMES = Number(process.env["RUNS"] ?? 1);
const VALID_RUNS = 14 * TIMES;
const FAULTY_RUNS = 20 * TIMES;

/** Small, so that a body over a limit is quick to build and send. */
const LIMITS = { json: 65_536, form: 65_536, document: 65_536, evidence: 65_536 };

/** Operations that generated requests cannot make succeed, each with the reason. */
const NEVER_SUCCEEDS: Readonly<Record<string, string>> = {
  launch_darkly_webhook: "takes bodies that are signed with a secret of their own",
  sonar_qube_webhook: "as launch_darkly_webhook",
};

/** Operations of threads need a database in a file; all others are faster without one. */
const NEEDS_A_FILE: readonly string[] = [
  "get_audit_package",
  "download_trail_audit_package",
  "download_audit_binder",
  "download_trail_audit_pdf",
];

const test = suite("whole/properties");
let world: World;
/** Made once, because every server has the same document, which takes longer to write than a server to start. */
let checks: Awaited<ReturnType<typeof createChecks>> | null = null;
async function createChecks(server: TestServer) {
  const { body: published } = await server.call("GET", "/openapi.json");
  return { checkResponse: createResponseCheck(published), agree: createAgreement(published) };
}
/** For the operations that only read. */
let shared: TestServer | null = null;
test.before(async () => void (world = await createWorld()));
test.after(async () => {
  await shared?.stop();
  await world.stop();
});

/** The number of rows of each table, in one statement. */
function rowCounter({ db }: TestServer): () => string {
  const tables = db
    .prepare<[], string>(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
    )
    .pluck()
    .all();
  const count = db.prepare<[], object>(
    `SELECT ${tables.map((table) => `(SELECT count(*) FROM ${table}) AS ${table}`).join(", ")}`,
  );
  return () => JSON.stringify(count.get());
}

/** The paths of all lists of the organization. */
const lists = operations.filter(
  ({ method, path, status }) => method === "GET" && status === undefined && /^\/[a-z-]+\/\{org\}$/.test(path),
);

/** Requests an operation, on a server of its own if it may change something or needs a database file. */
async function exercise(operation: AssayOperation): Promise<void> {
  const needsFile = NEEDS_A_FILE.includes(operation.id);
  if (isReading(operation) && !needsFile) {
    shared ??= await startServer({ from: world.image, limits: LIMITS });
    return exerciseOn(shared, operation);
  }
  const directory = needsFile ? mkdtempSync(join(tmpdir(), "assay-whole-")) : null;
  const server = await startServer({ from: world.image, limits: LIMITS, ...(directory === null ? {} : { directory }) });
  try {
    await exerciseOn(server, operation);
  } finally {
    await server.stop();
    if (directory !== null) rmSync(directory, { recursive: true, force: true });
  }
}

async function exerciseOn(server: TestServer, operation: AssayOperation): Promise<void> {
  const client = createClient(server.url);
  const rows = rowCounter(server);
  const changes = server.db.prepare<[], number>("SELECT total_changes()").pluck();
  const { checkResponse, agree } = (checks ??= await createChecks(server));
  let successes = 0;

  const ask = async (draft: Draft): Promise<Received> => {
    const written = write(draft, world);
    // Work that an earlier request left must not count for this one.
    await server.settled();
    const [before, touched] = [rows(), changes.get()];
    const answer = await client.send(written);
    checkResponse(written, answer);
    agree(draft, answer);
    const mayWrite = !isReading(operation) && answer.status < 400;
    if (!mayWrite && changes.get() !== touched)
      assert.is(rows(), before, `left something behind: ${answer.status} ${answer.text}`);
    return answer;
  };
  try {
    const requests = valid(operation, world);
    await check(operation, requests, VALID_RUNS, async (draft) => {
      const { status } = await ask(draft);
      if (status < 300) successes += 1;
    });
    const facts = {
      takesBody: operation.body.kind !== "none",
      takesQuery: Object.keys((operation.query as { properties: object }).properties).length > 0,
    };
    const fault = faultFor(facts);
    const faulty = fc
      .tuple(requests, fc.array(fault, { minLength: 1, maxLength: 2 }))
      .map(([draft, faults]) => faults.reduce((one, change) => change(one), draft));
    await check(operation, faulty, FAULTY_RUNS, async (draft) => void (await ask(draft)));

    if (!isReading(operation)) await everythingReads(server);
    if (operation.status !== "removed" && !(operation.id in NEVER_SUCCEEDS))
      assert.ok(successes > 0, `none of ${VALID_RUNS} generated requests succeeded`);
    evidenceIsAccountedFor(server);
  } finally {
    client.close();
  }
}

/** A seed of its own for each operation, so that operations of one shape receive different requests. */
const seedOf = ({ id }: AssayOperation): number =>
  [...id].reduce((seed, letter) => (seed * 31 + letter.charCodeAt(0)) | 0, SEED);

async function check<T>(
  operation: AssayOperation,
  values: fc.Arbitrary<T>,
  runs: number,
  property: (value: T) => Promise<void>,
): Promise<void> {
  const details = await fc.check(fc.asyncProperty(values, property), {
    seed: seedOf(operation),
    numRuns: runs,
    endOnFailure: true,
  });
  if (!details.failed) return;
  const { errorInstance } = details;
  const draft = details.counterexample?.[0] as Draft | undefined;
  const shown = draft ? { ...draft, operation: operation.id, rewrite: draft.rewrite?.toString() ?? null } : null;
  throw new Error(
    `SEED=${SEED}, run ${details.numRuns}: ` +
      `${errorInstance instanceof Error ? errorInstance.message : String(errorInstance)}\n` +
      JSON.stringify(shown).slice(0, 3_000),
    { cause: errorInstance },
  );
}

/** Stored values, however odd, fail no list. A generated request may have switched the feature of a list off. */
async function everythingReads(server: TestServer): Promise<void> {
  for (const list of lists) {
    const answer = await server.call("GET", list.path.replace("{org}", world.org), { key: world.keys.admin });
    const isOff = answer.status === 403 && list.feature !== undefined;
    assert.ok(
      answer.status === 200 || answer.status === 400 || isOff,
      `${list.id} afterwards: ${answer.status} ${answer.text.slice(0, 500)}`,
    );
  }
  assert.equal(server.db.pragma("foreign_key_check"), []);
}

/** No file stays in staging, and every published file is named by a record. */
function evidenceIsAccountedFor({ directory, db }: TestServer): void {
  assert.equal(readdirSync(join(directory, "staging")), [], "files in staging");
  const named = new Set(
    db.prepare<[], string>("SELECT evidence_digest FROM attestations WHERE evidence_digest IS NOT NULL").pluck().all(),
  );
  const files = readdirSync(join(directory, "evidence"), { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  const digests = files.map((entry) => /[a-f0-9]{64}|[a-f0-9]{62}$/.exec(entry.name)?.[0] ?? entry.name);
  const orphans = digests.filter((digest) => ![...named].some((one) => one.endsWith(digest)));
  assert.equal(orphans, [], "evidence that no record names");
}

for (const operation of operations.filter(({ status }) => status !== "removed"))
  test(operation.id, () => exercise(operation));

test.run();
