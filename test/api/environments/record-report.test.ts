/**
 * Reports between preparation and the write, with an in-memory store and a recorder that only records its calls.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { contextFactory } from "../../../src/api/context.ts";
import type { OperationContext, OperationContextParts } from "../../../src/api/context.ts";
import { prepareReport, recordReport } from "../../../src/api/environments/record-report.ts";
import { runtime } from "../../runtime.ts";
import { opened } from "../../store/given.ts";

const test = suite("api/environments/record-report");

function setUp() {
  const database = opened();
  const { store, organizationId, clock } = database;
  const handedOver: number[] = [];
  const organization = store.organizations.find("acme");
  const recorder: OperationContext["recorder"] = {
    accepts: (weight) => weight > 64,
    canRecordRaw: true,
    async report({ artifacts }) {
      handedOver.push(artifacts.length);
      return { planned: true, index: 7 };
    },
    recordRaw: async () => ({ planned: true, index: null }),
  };
  const { createContext } = contextFactory({ store, recorder, now: () => clock.at } as OperationContextParts);
  const context = createContext({
    requestId: "r",
    accessVersion: null,
    principal: { kind: "user", id: 1, publicId: "ada-id", name: "ada", displayName: "Ada", keyPublicId: "k" },
    membership: {
      organizationId,
      role: "admin",
      isPublic: false,
      features: [],
      organization: organization as NonNullable<typeof organization>,
    },
    operationId: "k8s_report",
    event: "environment.reported",
    path: "/x",
    baseUrl: "http://assay.test",
  });
  let surveys = 0;
  const { readCurrent: survey } = store.snapshotRecorder;
  store.snapshotRecorder.readCurrent = (...request) => {
    surveys += 1;
    return survey(...request);
  };
  return { ...database, ...runtime(database), context, handedOver, surveys: () => surveys };
}

const artifacts = (count: number) =>
  Array.from({ length: count }, (_, place) => ({
    name: `app-${place}`,
    fingerprint: place.toString(16).padStart(64, "0"),
    instances: { created: [1] },
  }));

test("hands a small report for a large environment to the thread without reading its current state", async () => {
  const { context, environment, store, organizationId, handedOver, surveys } = setUp();
  store.snapshotRecorder.record(store.environments.get(environment(organizationId, "large")), {
    cause: "report",
    artifacts: artifacts(2_001),
    actor: context.principal,
  });
  const prepared = await prepareReport(context, { name: "large", type: "K8S" }, artifacts(3));
  assert.equal(
    { done: prepared.done, handedOver, surveys: surveys() },
    { done: { index: 7 }, handedOver: [3], surveys: 0 },
  );
});

test("records a report in the environment that has the name at the time of the write", async () => {
  const { context, environment, organizationId, store } = setUp();
  const first = environment(organizationId, "prod");
  const prepared = await prepareReport(context, { name: "prod", type: "K8S" }, artifacts(3));
  store.environments.rename(store.environments.get(first), "old");
  const second = environment(organizationId, "prod");
  assert.equal(recordReport(context, { name: "prod", type: "K8S" }, prepared), { status: 201, body: "OK" });
  assert.equal(
    [first, second].map((id) => store.environments.get(id).snapshot_count),
    [0, 1],
  );
});

test.run();
