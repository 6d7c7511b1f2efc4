/** Template and policy files in a real thread, and files that it cannot parse in time. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { MAX_INLINE_DOCUMENT_BYTES } from "../../src/domain/documents.ts";
import { parsePolicy } from "../../src/domain/policy/document.ts";
import { restorePolicy } from "../../src/domain/policy/stored.ts";
import { parseTemplate } from "../../src/domain/flow-template/template.ts";
import { AppError } from "../../src/errors.ts";
import { openDocuments } from "../../src/server/worker-threads.ts";
import type { DocumentResult, DocumentTask } from "../../src/workers/document-worker.ts";
import { locateExpectations } from "../../src/domain/flow-template/lines.ts";
import { locateRules } from "../../src/domain/policy/lines.ts";
import { createDocumentReader } from "../../src/workers/documents.ts";
import { DeadlineError, PoolClosedError, QueueFullError, TaskError, WorkerDiedError } from "../../src/workers/pool.ts";
import type { Pool } from "../../src/workers/pool.ts";
import { rejection } from "../evidence/given.ts";

const test = suite("workers/documents");
const documents = openDocuments();
test.after(() => documents.close());

const TEMPLATE = "trail:\n  attestations:\n  - {name: scan, type: snyk}\n";
const POLICY =
  "_schema: /v1\nartifacts:\n  attestations:\n  - {type: junit, if: \"flow.name == 'a' or " +
  "matches(artifact.name, '^b')\"}\n  - {type: decision, for_control: C-1}\n";
/** The text, padded with blanks to that size. */
const padded = (text: string, size: number): Buffer => Buffer.from(text + "\n".repeat(size - Buffer.byteLength(text)));

/** A reader whose thread gives every task this result, and the tasks that it received. */
function readerOf(answer: DocumentResult | Error) {
  const tasks: DocumentTask[] = [];
  const pool: Pool<DocumentTask, DocumentResult> = {
    run(task) {
      tasks.push(task);
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
    },
    load: () => ({ waiting: 0, running: 0 }),
    close: async () => undefined,
  };
  return { reader: createDocumentReader(pool), tasks };
}

const refused = async (promise: Promise<unknown>) => {
  const error = await rejection(promise);
  if (!(error instanceof AppError)) throw error;
  return { code: error.code, message: error.message, fields: error.fields };
};

test("parses files of up to 8 KB in the main thread, and stores only their text", async () => {
  const { reader, tasks } = readerOf(new Error("no thread"));
  const template = padded(TEMPLATE, MAX_INLINE_DOCUMENT_BYTES);
  assert.equal(await reader.readTemplate("a", template), { text: template.toString(), parsedJson: null });
  const policy = padded(POLICY, MAX_INLINE_DOCUMENT_BYTES);
  assert.equal(await reader.readPolicy("a", policy), {
    yaml: policy.toString(),
    parsedJson: null,
    controls: [{ control: "C-1", line: 5, column: 35, path: "artifacts.attestations.1.for_control" }],
  });
  assert.equal(tasks, []);
});

test("parses a larger template in a thread, into its text and parsed form", async () => {
  const file = padded(TEMPLATE, MAX_INLINE_DOCUMENT_BYTES + 1);
  const sent = file.toString();
  const { text, parsedJson } = await documents.readTemplate("a", file);
  assert.is(text, sent);
  assert.equal(JSON.parse(parsedJson ?? ""), parseTemplate(TEMPLATE).template);
});

test("parses a larger policy in a thread, and restores the same rules from its stored form", async () => {
  const file = padded(POLICY, MAX_INLINE_DOCUMENT_BYTES + 1);
  const sent = file.toString();
  const { yaml, parsedJson, controls } = await documents.readPolicy("a", file);
  assert.is(yaml, sent);
  assert.equal(controls, [{ control: "C-1", line: 5, column: 35, path: "artifacts.attestations.1.for_control" }]);
  const restored = restorePolicy(parsedJson ?? "");
  assert.equal(JSON.stringify(restored), JSON.stringify(parsePolicy(POLICY).policy));
  assert.ok(restored.attestations[0]?.condition?.tree.kind === "or");
});

test("refuses a large file with the same text as a small one", async () => {
  const size = MAX_INLINE_DOCUMENT_BYTES + 1;
  assert.equal(await refused(documents.readTemplate("a", padded("version: 2", size))), {
    code: "invalid",
    message: "Input payload validation failed",
    fields: {
      template_file: "1 validation errors for Template\nversion\n  Input should be 1 [input: 2] (line 1, column 10)",
    },
  });
  assert.equal(await refused(documents.readPolicy("a", padded("_schema: /v2", size))), {
    code: "invalid",
    message: "Input payload validation failed",
    fields: {
      policy_file:
        "line 1, column 10: _schema: the schema is not supported; its path must end in /v1" +
        ", as in https://assay.example.com/schemas/policy/environment/v1 [input: /v2]",
    },
  });
  assert.equal(
    await refused(documents.readPolicy("a", Buffer.concat([padded("_schema: /v1\n", size), Buffer.from([0xff])]))),
    {
      code: "invalid",
      message: "Input payload validation failed",
      fields: { policy_file: `line ${size - 11}, column 1: the file is not UTF-8 text. Save it in that encoding` },
    },
  );
});

/** The mistakes of a refusal, as callers in this process get them. */
async function problemsOf(reading: Promise<unknown>): Promise<AppError["problems"]> {
  const error = await rejection(reading);
  assert.instance(error, AppError);
  return (error as AppError).problems;
}

test("a refusal has its mistakes one by one, from the main thread and from the other", async () => {
  for (const size of [100, MAX_INLINE_DOCUMENT_BYTES + 1]) {
    assert.equal(await problemsOf(documents.readTemplate("a", padded("version: 2\nx: 1", size))), [
      { line: 1, column: 10, path: "version", message: "Input should be 1 [input: 2]" },
      {
        line: 2,
        column: 1,
        path: "x",
        message: "Extra inputs are not permitted [input: 1]; possible keys: version, trail",
      },
    ]);
    assert.equal(await problemsOf(documents.readPolicy("a", padded("_schema: /v2\nx: 1", size))), [
      {
        line: 1,
        column: 10,
        path: "_schema",
        message:
          "the schema is not supported; its path must end in /v1" +
          ", as in https://assay.example.com/schemas/policy/environment/v1 [input: /v2]",
      },
      {
        line: 2,
        column: 1,
        path: "x",
        message: "Extra inputs are not permitted [input: 1]; possible keys: _schema, artifacts",
      },
    ]);
    const broken = Buffer.concat([padded("_schema: /v1\n", size), Buffer.from([0xff])]);
    assert.equal(
      (await problemsOf(documents.readPolicy("a", Buffer.from(broken))))?.map(({ path, message }) => [path, message]),
      [["", "the file is not UTF-8 text. Save it in that encoding"]],
    );
    assert.is((await problemsOf(documents.readTemplate("a", broken)))?.[0]?.path, "");
  }
});

const LARGE = padded(TEMPLATE, 10_000);

test("refuses a file that takes too much time or memory as too large, with the limit", async () => {
  assert.equal(
    await refused(
      readerOf(new DeadlineError("documents", { deadlineMs: 5_000, started: true })).reader.readTemplate("a", LARGE),
    ),
    {
      code: "too_large",
      message: "template_file: the file could not be read within 5 seconds. Send a shorter one",
      fields: null,
    },
  );
  assert.equal(await refused(readerOf(new WorkerDiedError("gone", { began: true })).reader.readPolicy("a", LARGE)), {
    code: "too_large",
    message: "policy_file: the file takes more memory to read than one file may. Send a shorter one",
    fields: null,
  });
});

test("asks for a retry when too busy to parse a file", async () => {
  const busy = [
    new DeadlineError("documents", { deadlineMs: 10_000, started: false }),
    new WorkerDiedError("gone", { began: false }),
    new QueueFullError("documents", 64),
    new PoolClosedError("documents"),
  ];
  for (const error of busy) {
    assert.equal(await refused(readerOf(error).reader.readTemplate("a", LARGE)), {
      code: "unavailable",
      message: "Large files keep the server busy. Please try again",
      fields: null,
    });
  }
  const mistake = new TaskError("no", { task: "TypeError", code: null });
  assert.is(await rejection(readerOf(mistake).reader.readTemplate("a", LARGE)), mistake);
});

test("locates the rules of a policy and the expectations of a template in a thread", async () => {
  const lines = await documents.locateRules("a", `# first\n${POLICY}`);
  assert.equal(lines, locateRules(`# first\n${POLICY}`));
  assert.equal(await documents.locateExpectations("a", TEMPLATE), locateExpectations(TEMPLATE));
});

test("lines stay unknown where they take too long to find, and a busy server asks for a retry", async () => {
  for (const error of [
    new DeadlineError("documents", { deadlineMs: 5_000, started: true }),
    new WorkerDiedError("gone", { began: true }),
  ])
    assert.is(await readerOf(error).reader.locateRules("a", POLICY), null);
  assert.equal(await refused(readerOf(new QueueFullError("documents", 64)).reader.locateRules("a", POLICY)), {
    code: "unavailable",
    message: "Large files keep the server busy. Please try again",
    fields: null,
  });
});

test.run();
