/** The recorder of reports, over a real file and a real thread. */
import { existsSync, mkdtempSync, readdirSync, readlinkSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { translateStorageError } from "../../src/server/disk-guard.ts";
import { createRecordingPool } from "../../src/server/worker-threads.ts";
import type { ReportedArtifact } from "../../src/domain/snapshot/normalize.ts";
import { AppError } from "../../src/errors.ts";
import { nextTurn } from "../../src/http/next-turn.ts";
import { LARGE_JSON_BYTES } from "../../src/http/body/read-json.ts";
import { createRecorder } from "../../src/jobs/recorder.ts";
import type { ReportTask } from "../../src/jobs/recorder.ts";
import { readReportText } from "../../src/jobs/recording-steps.ts";
import { acknowledgedNumber, readCommitFile } from "../../src/store/db/commit-file.ts";
import { readCommitMark } from "../../src/store/db/commit-number.ts";
import { delegateCheckpoints } from "../../src/store/db/connection.ts";
import { openDatabase } from "../../src/store/db/database.ts";
import { storableReport } from "../../src/store/environments/snapshot-survey.ts";
import { openStore } from "../../src/store/index.ts";
import { GroupCommitWriter } from "../../src/store/db/group-commit.ts";
import { ARTIFACT_FIELDS, TRAIL_FIELDS, createFlow } from "../store/given.ts";
import type { AcquireMemory } from "../../src/workers/task-memory.ts";
import { DeadlineError, PoolClosedError, TaskError, WorkerDiedError } from "../../src/workers/pool.ts";

const test = suite("jobs/recorder");
const ADA = { publicId: "ada-id", displayName: "Ada" };
const MANY = 200;

/** A database in a file with one environment, and a recorder with its thread; the time is always 5000. */
async function world(body: (house: ReturnType<typeof open>) => Promise<void>): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "assay-recorder-"));
  const house = open(directory);
  try {
    await body(house);
  } finally {
    await house.writer.idle();
    await house.pool.close();
    house.db.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

function open(directory: string) {
  const db = openDatabase(directory, 1);
  let ids = 0;
  const store = openStore(db, { now: () => 5000, newId: () => `id-${++ids}` });
  const organizationId = store.organizations.create({
    name: "acme",
    kind: "shared",
    isPublic: false,
    controlsEnabled: true,
  });
  const environmentId = Number(
    db
      .prepare(
        "INSERT INTO environments (public_id, organization_id, name, type, created_at, last_modified_at) VALUES " +
          "('e', ?, 'prod', 'K8S', 1, 1)",
      )
      .run(organizationId).lastInsertRowid,
  );
  const writer = new GroupCommitWriter(db);
  const pool = createRecordingPool(directory);
  const recorder = createRecorder({ store, writer, now: () => 5000, pool });
  const entry = {
    organizationId,
    actor: { kind: "user" as const, publicId: "ada-id", name: "ada", keyPublicId: "k" },
    operation: "k8s_report",
    event: "environment.reported",
    target: "/x",
    requestId: "r",
    detail: null,
  };
  const taskOf = (bytes: Buffer, more: Partial<ReportTask> = {}): ReportTask => ({
    type: "K8S",
    bytes,
    actor: ADA,
    environment: () => store.environments.get(environmentId),
    accept: () => undefined,
    entry: () => entry,
    ...more,
  });
  const report = (bytes: Buffer) => recorder.report(taskOf(bytes)).then(({ index }) => index);
  const policy = (yaml: string) =>
    store.policies.put(organizationId, {
      name: "p",
      description: "",
      user: "ada",
      file: { yaml: `_schema: https://assay.example.com/schemas/policy/v1\n${yaml}`, comment: "" },
    }).policy.id;
  const attach = (policyId: number) => {
    db.prepare("INSERT INTO environment_policies (environment_id, policy_id, position) VALUES (?, ?, 1)").run(
      environmentId,
      policyId,
    );
    store.staleArtifacts.markPoliciesChanged(environmentId);
  };
  const requestReevaluation = (cause: "policies" | "policy_version") => {
    const id = store.reevaluationQueue.enqueue(store.environments.get(environmentId), cause, ADA);
    return JSON.parse(store.jobs.find(id)?.payload_json ?? "");
  };
  return {
    db,
    directory,
    store,
    organizationId,
    environmentId,
    writer,
    pool,
    recorder,
    entry,
    taskOf,
    report,
    policy,
    attach,
    requestReevaluation,
  };
}

const artifacts = (count: number, offset = 0): ReportedArtifact[] =>
  Array.from({ length: count }, (_, index) => ({
    name: `app-${String(index).padStart(6, "0")}`,
    fingerprint: (index + offset).toString(16).padStart(64, "0"),
    instances: { created: [100] },
  }));

/** The text of a report with so many pods. */
const textOf = (count: number, offset = 0): Buffer =>
  Buffer.from(
    JSON.stringify({
      artifacts: artifacts(count, offset).map(({ name, fingerprint }) => ({
        podName: `${name}-x`,
        namespace: "shop",
        digests: { [name]: fingerprint },
        creationTimestamp: 100,
        owners: null,
      })),
    }),
  );

/** The same report as a text that the thread reads. */
const padded = (text: Buffer): Buffer => Buffer.concat([text, Buffer.alloc(LARGE_JSON_BYTES, " ")]);

/** Of this process, as links. */
const OPEN_FILES = "/proc/self/fd";

/** Open files that have no name any more. */
const countUnnamedFiles = (): number =>
  readdirSync(OPEN_FILES).filter((name) => {
    try {
      return /evaluations-.* \(deleted\)$/.test(readlinkSync(join(OPEN_FILES, name)));
    } catch {
      return false;
    }
  }).length;

test("what the thread commits is numbered like what the writer commits", () =>
  world(async ({ db, directory, report }) => {
    const before = readCommitMark(db)?.number ?? -1;
    await report(textOf(MANY));
    const mark = readCommitMark(db);
    assert.equal(
      { database: mark?.number, file: acknowledgedNumber(readCommitFile(directory), mark?.databaseId ?? "") },
      { database: before + 1, file: before + 1 },
    );
  }));

/** A world whose recorder notes the orders that the thread gets, but for the last one of each task. */
const watched = (body: (house: ReturnType<typeof open> & { orders: string[] }) => Promise<void>): Promise<void> =>
  world(async (house) => {
    const orders: string[] = [];
    const run: typeof house.pool.run = (order, options) => {
      if (order.type !== "forget") orders.push(order.type);
      return house.pool.run(order, options);
    };
    const { store, writer } = house;
    const recorder = createRecorder({ store, writer, now: () => 5000, pool: { ...house.pool, run } });
    const report = (bytes: Buffer) => recorder.report(house.taskOf(bytes)).then(({ index }) => index);
    await body({ ...house, recorder, report, orders });
  });

/** Waits until the thread has an order. */
async function begun(orders: readonly string[]): Promise<void> {
  while (orders.length === 0) await nextTurn();
}

test("leaves more than 64 artifacts and texts above 256 KB to the thread, and nothing without one", () =>
  watched(async ({ store, writer, environmentId, orders, taskOf, report }) => {
    const recorded = async (bytes: Buffer) => {
      const before = orders.length;
      return { index: await report(bytes), orders: orders.slice(before) };
    };
    assert.equal(await recorded(textOf(64)), { index: 1, orders: [] });
    assert.equal(await recorded(textOf(64)), { index: null, orders: [] });
    assert.equal(await recorded(textOf(65, 1)), { index: 2, orders: ["plan", "apply"] });
    assert.equal(await recorded(padded(textOf(1))), { index: 3, orders: ["read", "plan", "apply"] });
    assert.equal(await recorded(padded(textOf(1))), { index: null, orders: [] }, "the same bytes");
    assert.equal(await recorded(padded(padded(textOf(1)))), { index: null, orders: ["read"] }, "the same report");
    await report(textOf(2));
    assert.equal(await recorded(padded(textOf(1))), { index: 5, orders: ["read", "plan", "apply"] }, "known bytes");
    const alone = createRecorder({ store, writer, now: () => 5000, pool: null });
    assert.equal(await alone.report(taskOf(padded(textOf(MANY)))), { planned: true, index: 6 });
    assert.is(store.snapshots.countRunning(environmentId), MANY);
  }));

test("one artifact of many is recorded on the main thread, up to 2,048 that have to be compared", () =>
  watched(async ({ orders, report }) => {
    const onePod = (count: number) => {
      const digests = Object.fromEntries(artifacts(count).map(({ name, fingerprint }) => [name, fingerprint]));
      const pod = { podName: "x", namespace: "shop", digests, creationTimestamp: 100, owners: null };
      return Buffer.from(JSON.stringify({ artifacts: [pod] }));
    };
    for (const [count, expected] of [
      [2_048, []],
      [2_049, ["plan", "apply"]],
    ] as const) {
      await report(onePod(count));
      orders.length = 0;
      await report(onePod(count - 1));
      assert.equal(orders, expected, `${count}`);
    }
  }));

test("leaves few artifacts to the thread when their policies are costly or they are in many flows", async () => {
  await watched(async ({ store, organizationId, policy, attach, orders, report }) => {
    attach(policy(`artifacts: {attestations: [${"{type: junit},".repeat(20)}]}`));
    await report(textOf(60));
    assert.equal(orders, [], "ordinary");
    for (let n = 0; n < 300; n += 1) {
      const flow = createFlow(store, organizationId, `f${n}`);
      store.artifacts.create(
        {
          organizationId,
          flowId: flow.id,
          trailId: null,
          fingerprint: artifacts(1, 99)[0]?.fingerprint ?? "",
          referenceName: null,
          createdBy: "ada",
        },
        ARTIFACT_FIELDS,
        5000,
      );
    }
    await report(textOf(1, 99));
    assert.equal(orders, ["plan", "apply"]);
  });
  await watched(async ({ policy, attach, orders, report }) => {
    attach(policy(`artifacts: {attestations: [{type: junit, if: "matches(artifact.name, '(?:a?){900}')"}]}`));
    await report(textOf(3));
    assert.equal(orders, ["plan", "apply"]);
  });
});

test("a re-evaluation within a write does a little work only", () =>
  world(async ({ store, writer, environmentId, recorder, report, policy, attach }) => {
    const within = () =>
      writer.run(() =>
        recorder.recordWithin({ environmentId, cause: "policies", report: null, actor: ADA, entry: null }),
      );
    await report(textOf(65));
    attach(policy("artifacts: {provenance: {required: true}}"));
    assert.is(await within(), null);
    assert.is(store.environments.get(environmentId).snapshot_count, 1);
    await report(textOf(64));
    policy("artifacts: {}\n");
    store.staleArtifacts.markPoliciesChanged(environmentId);
    assert.equal(await within(), { planned: true, index: 3 });
  }));

test("records a report with its audit entry, and none for a report without changes", async () => {
  await world(async ({ store, organizationId, environmentId, report }) => {
    assert.is(await report(textOf(MANY)), 1);
    assert.is(await report(textOf(MANY)), null);
    assert.is(await report(textOf(MANY, 1)), 2);
    const { snapshot_count, last_reported_at } = store.environments.get(environmentId);
    assert.equal(
      { snapshot_count, last_reported_at, size: store.snapshots.countRunning(environmentId) },
      { snapshot_count: 2, last_reported_at: 5000, size: MANY },
    );
    assert.equal(
      store.auditLog.listLatest(organizationId, 9).map(({ event, detail_json }) => [event, detail_json]),
      [
        ["environment.reported", '{"snapshot":2}'],
        ["environment.reported", '{"snapshot":1}'],
      ],
    );
  });
});

test("records racing reports and writes one after another, without a missing or repeated index", async () => {
  await world(async ({ db, environmentId, writer, store, report }) => {
    const indexes = await Promise.all([0, 1, 2, 3].map((offset) => report(textOf(MANY, offset))));
    const light = await Promise.all([
      report(textOf(MANY, 4)),
      writer.run(() =>
        store.snapshotRecorder.record(store.environments.get(environmentId), {
          cause: "report",
          artifacts: artifacts(3),
          actor: ADA,
        }),
      ),
    ]);
    assert.equal([...indexes, ...light].sort(), [1, 2, 3, 4, 5, 6]);
    assert.equal(db.prepare("SELECT idx FROM snapshots ORDER BY idx").pluck().all(), [1, 2, 3, 4, 5, 6]);
  });
});

test("the thread counts an allowlist entry until its end", async () => {
  await world(async ({ db, store, organizationId, environmentId, report, policy, attach }) => {
    attach(policy("artifacts:\n  provenance:\n    required: true\n"));
    const many = artifacts(MANY);
    const environment = { id: environmentId, organization_id: organizationId };
    for (const [place, expires_at] of [5000, 5001, null].entries())
      store.allowlists.create(environment, {
        fingerprint: (many[place] as ReportedArtifact).fingerprint,
        artifact_name: "app",
        description: "",
        user_id: "ada-id",
        user_name: "Ada",
        expires_at,
      });
    assert.is(await report(textOf(MANY)), 1);
    assert.equal(db.prepare("SELECT name FROM snapshot_artifacts WHERE compliant = 1 ORDER BY name").pluck().all(), [
      "app-000001",
      "app-000002",
    ]);
  });
});

test("the next report sees facts that arrive while the thread is about to start an artifact", async () => {
  await world(async ({ db, store, organizationId, environmentId, writer, pool, report }) => {
    const flow = createFlow(store, organizationId, "f");
    const many = artifacts(MANY);
    const { report: read } = await readReportText("K8S", textOf(MANY));
    const order = { environmentId, cause: "report" as const, report: read };
    await pool.run({ type: "plan", sequence: 1, now: 0, ...order }, { deadlineMs: 60_000 });
    await writer.run(() => {
      const trail = store.trails.create(
        { organizationId, flowId: flow.id, name: "t", createdBy: "ada" },
        {
          ...TRAIL_FIELDS,
          template_id: flow.template_id,
        },
      );
      store.artifacts.create(
        {
          organizationId,
          flowId: flow.id,
          trailId: trail.id,
          fingerprint: many[7]?.fingerprint ?? "",
          referenceName: null,
          createdBy: "ada",
        },
        ARTIFACT_FIELDS,
        1,
      );
      store.trailEvaluation.evaluate(trail.id, 1);
    });
    const applied = await writer.withExclusiveWrite(() =>
      pool.run(
        { type: "apply", newestJob: 0, sequence: 1, now: 5000, actor: ADA, entry: null },
        { deadlineMs: 60_000 },
      ),
    );
    assert.equal(applied, { planned: true, index: 1 });
    assert.is(await report(textOf(MANY)), 2);
    assert.equal(db.prepare("SELECT name, annotation FROM snapshot_artifacts WHERE first_index = 2").raw().all(), [
      ["app-000007", "updated-provenance"],
    ]);
    assert.is(await report(textOf(MANY)), null);
  });
});

(existsSync(OPEN_FILES) ? test : test.skip)(
  "a plan that waits in a file frees it when it is applied, made again, discarded, or of an archived environment",
  async () => {
    await world(async ({ db, store, environmentId, writer, pool, policy, attach }) => {
      attach(policy("artifacts: {provenance: {required: true}}"));
      // Two megabytes of verdicts.
      const count = 5_000;
      const deadline = { deadlineMs: 60_000 };
      let sequence = 0;
      const plan = (offset = 0) =>
        pool.run(
          {
            type: "plan",
            sequence: (sequence += 1),
            now: 0,
            environmentId,
            cause: "report",
            report: storableReport(artifacts(count, offset)),
          },
          deadline,
        );
      const apply = () =>
        writer.withExclusiveWrite(() =>
          pool.run({ type: "apply", newestJob: 0, sequence, now: 5000, actor: ADA, entry: null }, deadline),
        );

      await plan();
      assert.is(countUnnamedFiles(), 1);
      await plan();
      assert.is(countUnnamedFiles(), 1, "the earlier plan was discarded");
      assert.equal(await apply(), { planned: true, index: 1 });
      assert.is(countUnnamedFiles(), 0, "the plan was applied");

      await plan(1);
      store.staleArtifacts.markPoliciesChanged(environmentId);
      assert.equal(await apply(), { planned: true, index: 2 });
      assert.is(countUnnamedFiles(), 0, "the plan was made again");
      assert.equal(store.snapshots.find(environmentId, 2)?.non_compliant_count, count);
      assert.is(db.prepare("SELECT count(*) FROM snapshot_artifacts WHERE annotation = 'exited'").pluck().get(), count);

      await plan(2);
      db.prepare("UPDATE environments SET archived_at = 1").run();
      assert.equal(await apply(), { planned: false, index: null });
      assert.is(countUnnamedFiles(), 0, "the environment was archived");
    });
  },
);

test("refuses a report whose evaluations would use up the reserve of the disk with 507, and stores nothing", () =>
  world(async ({ db, directory, store, writer, taskOf, policy, attach }) => {
    attach(policy("artifacts: {provenance: {required: true}}"));
    const pool = createRecordingPool(directory, { temporaryFiles: { directory, reserveBytes: 2 ** 60 } });
    const recorder = createRecorder({ store, writer, now: () => 5000, pool });
    const report = (count: number) =>
      recorder.report(taskOf(textOf(count))).catch((error: unknown) => {
        const refusal = translateStorageError(error, { isChange: true }) as AppError;
        return { code: refusal.code, stored: db.prepare("SELECT count(*) FROM snapshots").pluck().get() };
      });
    try {
      assert.equal(await report(5_000), { code: "no_space", stored: 0 });
      assert.equal(await report(MANY), { planned: true, index: 1 }, "a small one needs no file");
    } finally {
      await pool.close();
    }
  }));

test("raises triggers in the transaction of the snapshot; the new jobs reuse no id", async () => {
  await world(async ({ db, store, writer, pool, organizationId, environmentId, entry, taskOf, report }) => {
    const raised = () =>
      (
        db.prepare("SELECT id, payload_json FROM jobs WHERE kind = 'notify' ORDER BY id").all() as {
          id: number;
          payload_json: string;
        }[]
      ).map(({ id, payload_json }) => ({ id, ...JSON.parse(payload_json) }));
    await report(textOf(MANY));
    assert.equal(raised(), []);
    const fields = {
      name: "a",
      triggers: ["ON_EXITED_ARTIFACT"],
      places: [environmentId],
      targets: [],
      newSecret: () => "s",
    };
    await writer.run(() =>
      store.actions.create(organizationId, { ...fields, kind: "env" }, { user: "ada", fromChat: false }),
    );
    // An id that was used and removed: the thread cannot see it in the table.
    const done = await writer.run(() => store.jobs.add("other", {}));
    await writer.run(() => store.jobs.complete(done));

    let woken = 0;
    const recorder = createRecorder({
      store,
      writer,
      now: () => 5000,
      pool,
      jobsAdded: () => void (woken += 1),
    });
    assert.equal(await recorder.report(taskOf(textOf(MANY, 1))), {
      planned: true,
      index: 2,
    });
    const payload = {
      type: "snapshot",
      environment_id: environmentId,
      index: 2,
      at: 5000,
      organization_id: organizationId,
      actions: [1],
      after: null,
    };
    assert.equal(raised(), [{ id: done + 1, ...payload }]);
    assert.is(woken, 1);

    // An id that the thread used, and whose job was done here, is not reused either.
    const [leased] = await writer.run(() => store.jobs.lease("notify", { at: 5000, seconds: 60, limit: 1 }));
    await writer.run(() => store.jobs.complete(leased?.id ?? 0));
    assert.is(await writer.run(() => store.jobs.add("other", {})), done + 2);

    // An audit entry that cannot be written rolls back the snapshot and its triggers.
    const failing = recorder.report(taskOf(textOf(MANY, 2), { entry: () => ({ ...entry, organizationId: 99 }) }));
    await failing.then(
      () => assert.unreachable(),
      (error: unknown) => assert.instance(error, TaskError),
    );
    assert.equal(
      { raised: raised(), snapshot_count: store.environments.get(environmentId).snapshot_count, woken },
      { raised: [], snapshot_count: 2, woken: 1 },
    );
  });
});

test("a report holds memory until the thread has returned it, also when it is refused or fails", async () => {
  await world(async ({ store, writer, pool, taskOf, policy, attach, requestReevaluation }) => {
    const events: string[] = [];
    const run: typeof pool.run = async (order, options) => {
      events.push(order.type);
      const result = await pool.run(order, options);
      if (order.type === "plan" && fails) throw new WorkerDiedError("the thread ended", { began: true });
      return result;
    };
    let fails = false;
    let returned = (): void => undefined;
    const acquireMemory: AcquireMemory = async () => {
      events.push("take");
      return {
        release() {
          events.push("return");
          returned();
        },
      };
    };
    const recorder = createRecorder({ store, writer, now: () => 5000, pool: { ...pool, run }, acquireMemory });
    const eventsOf = async (work: () => Promise<unknown>): Promise<string> => {
      events.length = 0;
      const end = new Promise<void>((resolve) => (returned = resolve));
      await work().catch(() => undefined);
      await end;
      return events.join(" ");
    };
    const send = (bytes: Buffer, more = {}) => eventsOf(() => recorder.report(taskOf(bytes, more)));
    assert.is(await send(textOf(MANY)), "take plan apply forget return");
    assert.is(await send(padded(textOf(2, 7))), "take read plan apply forget return");
    assert.is(await send(padded(Buffer.from("{]"))), "take read forget return");
    const refuse = (): never => {
      throw new AppError("forbidden", "no");
    };
    assert.is(await send(padded(textOf(3, 7)), { accept: refuse }), "take read forget return");
    fails = true;
    assert.is(await send(padded(textOf(4, 7))), "take read plan forget return");
    fails = false;
    assert.is(await send(textOf(MANY, 3)), "take plan apply forget return");
    attach(policy("artifacts:\n  provenance:\n    required: true\n"));
    const attached = requestReevaluation("policies");
    assert.is(await eventsOf(() => recorder.reevaluate(attached)), "take plan apply forget return");
  });
});

test("records nothing in an environment that was archived before the thread planned", async () => {
  await world(async ({ db, store, environmentId, writer, pool, taskOf }) => {
    const run: typeof pool.run = async (order, options) => {
      if (order.type === "plan")
        await writer.run(() => db.prepare("UPDATE environments SET archived_at = 1 WHERE id = ?").run(environmentId));
      return pool.run(order, options);
    };
    const recorder = createRecorder({ store, writer, now: () => 5000, pool: { ...pool, run } });
    for (const text of [textOf(MANY), padded(textOf(MANY))]) {
      db.prepare("UPDATE environments SET archived_at = NULL").run();
      assert.equal(await recorder.report(taskOf(text)), { planned: false, index: null });
    }
    assert.is(db.prepare("SELECT count(*) FROM snapshots").pluck().get(), 0);
  });
});

test("records a report in the environment that has the name at the time of the write", async () => {
  await world(async ({ db, store, environmentId, organizationId, recorder, taskOf }) => {
    const second = Number(
      db
        .prepare(
          "INSERT INTO environments (public_id, organization_id, name, type, created_at, last_modified_at) VALUES " +
            "('f', ?, 'other', 'K8S', 1, 1)",
        )
        .run(organizationId).lastInsertRowid,
    );
    let snapshots = 0;
    for (const text of [textOf(3), textOf(MANY), padded(textOf(3))]) {
      let id = environmentId;
      const entry = taskOf(text).entry(0);
      const task = taskOf(text, {
        environment: () => store.environments.get(id),
        entry() {
          id = second;
          return entry;
        },
      });
      assert.equal(await recorder.report(task), { planned: true, index: (snapshots += 1) });
    }
    assert.equal(
      [environmentId, second].map((id) => store.environments.get(id).snapshot_count),
      [0, 3],
    );
  });
});

test("an environment that is refused leaves nothing behind, and the text of a large report unread", async () => {
  await watched(async ({ db, recorder, orders, taskOf }) => {
    const refusal = new AppError("not_found", "Environment 'prod' does not exist");
    const environment = () => {
      throw refusal;
    };
    for (const text of [textOf(3), textOf(MANY), padded(textOf(3))])
      assert.is(await recorder.report(taskOf(text, { environment })).catch((error: unknown) => error), refusal);
    assert.equal(orders, []);
    assert.is(db.prepare("SELECT count(*) FROM snapshots").pluck().get(), 0);
  });
});

test("a re-evaluation adds a snapshot, and repeating it adds none", async () => {
  await world(async ({ store, environmentId, recorder, report, policy, attach, requestReevaluation }) => {
    await report(textOf(MANY));
    attach(policy("artifacts:\n  provenance:\n    required: true\n"));
    const attached = requestReevaluation("policies");
    await recorder.reevaluate(attached);
    await recorder.reevaluate(attached);
    assert.equal(
      {
        snapshot_count: store.environments.get(environmentId).snapshot_count,
        state: store.environments.get(environmentId).state,
      },
      { snapshot_count: 2, state: 0 },
    );
    policy("artifacts: {}\n");
    store.staleArtifacts.markPoliciesChanged(environmentId);
    const versioned = requestReevaluation("policy_version");
    await recorder.reevaluate(versioned);
    await recorder.reevaluate(versioned);
    assert.equal(
      {
        snapshot_count: store.environments.get(environmentId).snapshot_count,
        state: store.environments.get(environmentId).state,
      },
      { snapshot_count: 3, state: 1 },
    );
  });
});

test("a re-evaluation queued behind a report does nothing when the report did it", async () => {
  await watched(async ({ store, environmentId, recorder, orders, report, policy, attach, requestReevaluation }) => {
    await report(textOf(MANY));
    attach(policy("artifacts:\n  provenance:\n    required: true\n"));
    orders.length = 0;
    const first = report(textOf(MANY, 1));
    await begun(orders);
    const [index] = await Promise.all([first, recorder.reevaluate(requestReevaluation("policies"))]);
    assert.equal(
      {
        index,
        snapshot_count: store.environments.get(environmentId).snapshot_count,
        state: store.environments.get(environmentId).state,
      },
      { index: 2, snapshot_count: 2, state: 0 },
    );
  });
});

test("a repeated re-evaluation adds no second snapshot of the same policies after a fact changed", async () => {
  for (const count of [3, MANY])
    await world(async ({ store, environmentId, recorder, report, policy, attach, requestReevaluation }) => {
      await report(textOf(count));
      attach(policy("artifacts:\n  provenance:\n    required: true\n"));
      const attached = requestReevaluation("policies");
      await recorder.reevaluate(attached);
      store.staleArtifacts.markPoliciesChanged(environmentId);
      await recorder.reevaluate(attached);
      assert.is(store.environments.get(environmentId).snapshot_count, 2);
      // But it does for policies that changed since.
      policy("artifacts: {}\n");
      await recorder.reevaluate(attached);
      assert.equal(
        {
          snapshot_count: store.environments.get(environmentId).snapshot_count,
          state: store.environments.get(environmentId).state,
        },
        { snapshot_count: 3, state: 1 },
      );
    });
});

test("a report is read, counted and audited alike, here and in the thread", async () => {
  for (const count of [3, MANY])
    for (const sent of [(text: Buffer) => text, padded])
      await world(async ({ store, recorder, environmentId, organizationId, entry, taskOf }) => {
        const calls: unknown[] = [];
        const send = (text: Buffer) =>
          recorder.report(
            taskOf(sent(text), {
              accept: (ignored) => void calls.push(ignored),
              entry: (artifacts) => ({ ...entry, detail: { artifacts } }),
            }),
          );
        const more = (text: Buffer) => Buffer.from(text.toString().replace("{", '{"more":1,'));
        assert.equal(await send(textOf(count)), { planned: true, index: 1 });
        assert.equal(await send(more(textOf(count))), { planned: true, index: null });
        assert.equal(await send(Buffer.concat([Buffer.from("  "), textOf(2, 7)]).subarray(1)), {
          planned: true,
          index: 2,
        });
        assert.equal(calls, [[], ["more"], []]);
        assert.is(store.snapshots.countRunning(environmentId), 2);
        assert.equal(
          store.auditLog.listLatest(organizationId, 9).map(({ detail_json }) => JSON.parse(detail_json ?? "")),
          [
            { artifacts: 2, snapshot: 2 },
            { artifacts: count, snapshot: 1 },
          ],
        );
      });
});

test("refuses an invalid report like any invalid body, here and in the thread, and leaves nothing behind", async () => {
  await world(async ({ db, recorder, taskOf }) => {
    const refusals = async (text: string): Promise<unknown> => {
      const [here, there] = await Promise.all(
        [Buffer.from(text), padded(Buffer.from(text))].map((bytes) =>
          recorder.report(taskOf(bytes, { accept: () => assert.unreachable() })).then(
            () => "recorded",
            (error: unknown) => (error instanceof AppError ? [error.code, error.message, error.fields] : error),
          ),
        ),
      );
      assert.equal(there, here);
      return here;
    };
    const invalid = (fields: object) => ["invalid", "Input payload validation failed", fields];
    assert.equal(
      await refusals("{]"),
      invalid({ body: "Input should be valid JSON: unexpected character at position 1 (line 1 column 2)" }),
    );
    assert.equal(await refusals("{}"), invalid({ artifacts: "Field required" }));
    assert.equal(
      await refusals('{"artefacts": [], "more": 1}'),
      invalid({
        artifacts: "Field required",
        artefacts: "Extra inputs are not permitted. Did you mean 'artifacts'?",
      }),
    );
    assert.equal(await refusals("null"), ["invalid", "A JSON body is required: the request has none", null]);
    assert.is(db.prepare("SELECT count(*) FROM snapshots").pluck().get(), 0);
  });
});

test("makes a checkpoint after a thousand writes, so that the log does not grow forever", async () => {
  await world(async ({ db, directory, store, recorder, writer, report }) => {
    delegateCheckpoints(db);
    let texts = 0;
    const write = (count: number): Promise<unknown> =>
      Promise.all(
        Array.from({ length: count }, () =>
          writer.run(() => store.templates.intern(`# ${"x".repeat(4000)} ${(texts += 1)}`)),
        ),
      );
    const log = (): number => statSync(join(directory, "assay.db-wal")).size;
    await write(256);
    const once = log();
    for (let round = 1; round <= 8; round += 1) {
      recorder.onCommit(1_024);
      // A report is recorded in its turn, after the checkpoint.
      await report(textOf(65, round));
      await write(256);
    }
    assert.ok(log() < 3 * once, `${once} bytes grew to ${log()}`);
  });
});

test("checkpoints do not queue up behind a long report", async () => {
  await watched(async ({ recorder, orders, ...world }) => {
    const report = (offset: number) => world.report(textOf(MANY, offset));
    const first = report(0);
    await begun(orders);
    for (let times = 0; times < 10; times += 1) recorder.onCommit(256);
    await Promise.all([first, report(1)]);
    recorder.onCommit(256);
    await report(2);
    const once = ["plan", "apply", "checkpoint", "checkpoint"];
    assert.equal(orders, [...once, ...once, "plan", "apply"]);
  });
});

test("answers infrastructure failures with a request to retry, and bugs with a 500", async () => {
  await world(async ({ store, writer, environmentId, pool, taskOf }) => {
    const outcome = async (error: Error): Promise<unknown> => {
      const run: typeof pool.run = (order, options) =>
        order.type === "plan" ? pool.run(order, options) : Promise.reject(error);
      const recorder = createRecorder({ store, writer, now: () => 5000, pool: { ...pool, run } });
      try {
        return await recorder.report(taskOf(textOf(MANY)));
      } catch (thrown) {
        return thrown instanceof AppError ? [thrown.code, thrown.message, thrown.internal === error] : thrown;
      }
    };
    const unwritten = ["unavailable", "The report could not be stored. Nothing was changed. Please try again", true];
    for (const trouble of [
      new TaskError("database or disk is full", { task: "SqliteError", code: "SQLITE_FULL" }),
      new TaskError("database is locked", { task: "SqliteError", code: "SQLITE_BUSY" }),
      new PoolClosedError("recording: closed"),
    ])
      assert.equal(await outcome(trouble), unwritten, trouble.message);
    // The thread may have ended between its commit and its answer.
    const unknown = ["unavailable", "It is not known whether the report was stored. Please send it again", true];
    for (const trouble of [
      new WorkerDiedError("recording: the thread ended with code 1", { began: true }),
      new DeadlineError("recording", { deadlineMs: 1, started: true }),
    ])
      assert.equal(await outcome(trouble), unknown, trouble.message);
    const mistake = new TaskError("UNIQUE constraint failed", {
      task: "SqliteError",
      code: "SQLITE_CONSTRAINT_PRIMARYKEY",
    });
    assert.is(await outcome(mistake), mistake);
    assert.is(store.environments.get(environmentId).snapshot_count, 0);
  });
});

test("a thread that was replaced between two orders of a task is an infrastructure failure", async () => {
  await world(async ({ directory, store, writer, environmentId, taskOf }) => {
    for (const last of ["read", "plan"]) {
      const [first, second] = [createRecordingPool(directory), createRecordingPool(directory)];
      let replaced = false;
      const run: typeof first.run = (order, options) => {
        const answer = (replaced ? second : first).run(order, options);
        replaced ||= order.type === last;
        return answer;
      };
      const recorder = createRecorder({ store, writer, now: () => 5000, pool: { ...first, run } });
      const refusal = await recorder.report(taskOf(padded(textOf(MANY)))).then(
        () => "recorded",
        (error) => error.code,
      );
      assert.equal(
        { last, refusal, snapshot_count: store.environments.get(environmentId).snapshot_count },
        { last, refusal: "unavailable", snapshot_count: 0 },
      );
      await Promise.all([first.close(), second.close()]);
    }
  });
});

test("the queue is bounded by the artifacts in the reports, not by their number", async () => {
  await world(async ({ store, taskOf, writer, pool }) => {
    const recorder = createRecorder({ store, writer, now: () => 5000, pool, maxQueuedArtifacts: 210 });
    const report = (count: number, offset = 0) => recorder.report(taskOf(textOf(count, offset)));
    const outcomes = async (reports: Promise<unknown>[]) =>
      (await Promise.allSettled(reports)).map((outcome) =>
        outcome.status === "rejected" ? outcome.reason.code : "recorded",
      );
    assert.equal(await outcomes([70, 70, 70, 66, 70].map((count, place) => report(count, place))), [
      "recorded",
      "recorded",
      "recorded",
      "unavailable",
      "unavailable",
    ]);
    // Larger than the limit, but alone: the queue has drained.
    assert.equal(await outcomes([report(300), report(65)]), ["recorded", "unavailable"]);
    assert.equal(
      await outcomes(Array.from({ length: 40 }, (_, offset) => report(5, offset))),
      Array.from({ length: 40 }, () => "recorded"),
    );
  });
});

test.run();
