import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  normalizeAzureApps,
  normalizeCloudRun,
  normalizeEcs,
  normalizeK8s,
  normalizePlain,
} from "../../../src/domain/snapshot/normalize.ts";
import type { AzureAppsItem, CloudRunItem, EcsItem, Item, K8sItem } from "../../../src/domain/snapshot/normalize.ts";

const test = suite("domain/snapshot/normalize");

const A = "a".repeat(64);
const B = "b".repeat(64);
const AT = 1_700_000_000;

const item = (digests: Record<string, string>, creationTimestamp = AT): Item => ({ digests, creationTimestamp });
const pod = (podName: string, digests: Record<string, string>, more: Partial<K8sItem> = {}): K8sItem => ({
  podName,
  namespace: "default",
  digests,
  creationTimestamp: AT,
  owners: null,
  ...more,
});
const task = (taskArn: string, digests: Record<string, string>, more: Partial<EcsItem> = {}): EcsItem => ({
  taskArn,
  digests,
  creationTimestamp: AT,
  ...more,
});
const app = (app_name: string, more: Partial<AzureAppsItem> = {}): AzureAppsItem => ({
  app_name,
  app_kind: "app,linux",
  digests_source: "acr",
  digests: { web: A },
  creationTimestamp: 0,
  ...more,
});
const revision = (more: Partial<CloudRunItem> = {}): CloudRunItem => ({
  kind: "service",
  digests: { web: A },
  creationTimestamp: AT,
  ...more,
});

/** Normalizes the items in both orders, for results that must not depend on it. */
function both<T>(items: readonly T[], normalize: (items: readonly T[]) => unknown, expected: unknown): void {
  assert.equal(normalize(items), expected);
  assert.is(JSON.stringify(normalize([...items].reverse())), JSON.stringify(normalize(items)));
}

test("reads an empty report, and an item without digests, as nothing running", () => {
  for (const normalize of [normalizePlain, normalizeK8s, normalizeEcs, normalizeAzureApps, normalizeCloudRun])
    assert.equal(normalize([]), []);
  assert.equal(normalizePlain([item({}), item({})]), []);
  assert.equal(normalizeK8s([pod("p", {})]), []);
  assert.equal(normalizeEcs([task("arn", {})]), []);
  assert.equal(normalizeAzureApps([app("a", { digests: {} })]), []);
  assert.equal(normalizeCloudRun([revision({ digests: {} })]), []);
});

test("counts every digest of an item as an instance", () => {
  both([item({ web: A, sidecar: B })], normalizePlain, [
    { name: "sidecar", fingerprint: B, instances: { created: [AT] } },
    { name: "web", fingerprint: A, instances: { created: [AT] } },
  ]);
});

test("lists the items of an artifact as its instances, oldest first, including equal times", () => {
  both(
    [item({ web: A }, 30), item({ web: A }, 9), item({ web: A }, -5), item({ web: A }, 30), item({ web: A }, 100)],
    normalizePlain,
    [{ name: "web", fingerprint: A, instances: { created: [-5, 9, 30, 30, 100] } }],
  );
});

test("identifies an artifact by name and fingerprint", () => {
  both([item({ web: A }), item({ web: B }), item({ api: A }), item({ web: "" })], normalizePlain, [
    { name: "api", fingerprint: A, instances: { created: [AT] } },
    { name: "web", fingerprint: "", instances: { created: [AT] } },
    { name: "web", fingerprint: A, instances: { created: [AT] } },
    { name: "web", fingerprint: B, instances: { created: [AT] } },
  ]);
});

test("orders artifacts by code units, not by locale or number", () => {
  const names = ["é", "a", "Z", "10", "9", "", "_", "b:c", "ﬀ", "😀"];
  const expected = ["", "10", "9", "Z", "_", "a", "b:c", "é", "😀", "ﬀ"];
  assert.equal(
    normalizePlain(names.map((name) => item({ [name]: A }))).map(({ name }) => name),
    expected,
  );
  assert.equal(
    normalizePlain([item(Object.fromEntries(names.map((name) => [name, A])))]).map(({ name }) => name),
    expected,
  );
});

test("accepts names that every JavaScript object inherits", () => {
  const digests = JSON.parse(`{"__proto__": "${A}", "constructor": "${B}", "toString": "", "hasOwnProperty": "${A}"}`);
  const expected = [
    ["__proto__", A],
    ["constructor", B],
    ["hasOwnProperty", A],
    ["toString", ""],
  ];
  for (const found of [
    normalizePlain([item(digests)]),
    normalizeK8s([pod("p", digests)]),
    normalizeEcs([task("t", digests)]),
  ]) {
    assert.equal(
      found.map(({ name, fingerprint }) => [name, fingerprint]),
      expected,
    );
  }
});

test("does not modify the report", () => {
  const items = [pod("b", { web: A }, { creationTimestamp: 2 }), pod("a", { web: A }, { creationTimestamp: 1 })];
  const before = structuredClone(items);
  normalizeK8s(items);
  normalizePlain(items);
  assert.equal(items, before);
});

test("stores pods by name, with their reported fields", () => {
  const owners = [
    { apiVersion: "apps/v1", kind: "ReplicaSet", name: "web", uid: "1", controller: true, more: { deep: [1] } },
  ];
  const { owners: _none, ...ownerless } = pod("web-2", { web: A }, { creationTimestamp: 7 });
  both([pod("web-1", { web: A, log: B }, { namespace: "prod", owners }), ownerless], normalizeK8s, [
    {
      name: "log",
      fingerprint: B,
      instances: { created: [AT], pods: { "web-1": { namespace: "prod", creationTimestamp: AT, owners } } },
    },
    {
      name: "web",
      fingerprint: A,
      instances: {
        created: [7, AT],
        pods: {
          "web-1": { namespace: "prod", creationTimestamp: AT, owners },
          "web-2": { namespace: "default", creationTimestamp: 7, owners: null },
        },
      },
    },
  ]);
});

test("stores a pod name in several namespaces as one pod in each", () => {
  const items = ["c", "a", "b"].map((namespace, place) =>
    pod("web", { web: A }, { namespace, creationTimestamp: place }),
  );
  both(items, normalizeK8s, [
    {
      name: "web",
      fingerprint: A,
      instances: {
        created: [0, 1, 2],
        pods: {
          web: { namespace: "a", creationTimestamp: 1, owners: null },
          "b/web": { namespace: "b", creationTimestamp: 2, owners: null },
          "c/web": { namespace: "c", creationTimestamp: 0, owners: null },
        },
      },
    },
  ]);
});

test("keeps a pod whose name equals the namespaced key of another pod", () => {
  const [found] = normalizeK8s([
    pod("web", { web: A }, { namespace: "a" }),
    pod("web", { web: A }, { namespace: "b" }),
    pod("b/web", { web: A }, { namespace: "a" }),
  ]);
  assert.equal(Object.keys(found?.instances.pods ?? {}).sort(), ["b/b/web", "b/web", "web"]);
});

test("counts a pod that is reported twice as two instances of one pod", () => {
  const owner = (name: string) => [{ apiVersion: "v1", kind: "Node", name, uid: "1" }];
  both(
    [
      pod("web", { web: A }, { creationTimestamp: 5 }),
      pod("web", { web: A }, { creationTimestamp: 3, owners: owner("z") }),
      pod("web", { web: A }, { creationTimestamp: 3, owners: owner("y") }),
    ],
    normalizeK8s,
    [
      {
        name: "web",
        fingerprint: A,
        instances: {
          created: [3, 3, 5],
          pods: { web: { namespace: "default", creationTimestamp: 3, owners: owner("y") } },
        },
      },
    ],
  );
});

test("accepts a pod named __proto__", () => {
  const [found] = normalizeK8s([pod("__proto__", { web: A }), pod("constructor", { web: A })]);
  const one = JSON.stringify({ namespace: "default", creationTimestamp: AT, owners: null });
  assert.is(JSON.stringify(found?.instances.pods), `{"__proto__":${one},"constructor":${one}}`);
});

test("stores the ECS task whose ARN comes first", () => {
  both(
    [
      task("arn:b", { web: A }, { cluster_name: "two" }),
      task("arn:a", { web: A, log: B }, { cluster_name: "one", service_name: "web", creationTimestamp: 9 }),
    ],
    normalizeEcs,
    [
      {
        name: "log",
        fingerprint: B,
        instances: { created: [9], ecs: { task_arn: "arn:a", cluster_name: "one", service_name: "web" } },
      },
      {
        name: "web",
        fingerprint: A,
        instances: { created: [9, AT], ecs: { task_arn: "arn:a", cluster_name: "one", service_name: "web" } },
      },
    ],
  );
  both(
    [task("arn:a", { web: "" }), task("arn:a", { web: "" }, { cluster_name: null, service_name: "b" })],
    normalizeEcs,
    [
      {
        name: "web",
        fingerprint: "",
        instances: { created: [AT, AT], ecs: { task_arn: "arn:a", cluster_name: null, service_name: "b" } },
      },
    ],
  );
  assert.equal(normalizeEcs([task("arn:a", { web: A })])[0]?.instances.ecs, {
    task_arn: "arn:a",
    cluster_name: null,
    service_name: null,
  });
});

test("stores each distinct app once", () => {
  both([app("web"), app("api", { digests_source: "logs" }), app("web", { creationTimestamp: 4 })], normalizeAzureApps, [
    {
      name: "web",
      fingerprint: A,
      instances: {
        created: [0, 0, 4],
        context: [
          { app_name: "api", app_kind: "app,linux", digests_source: "logs" },
          { app_name: "web", app_kind: "app,linux", digests_source: "acr" },
        ],
      },
    },
  ]);
});

test("stores each distinct revision and job once, without fields that do not apply", () => {
  both(
    [
      revision({ kind: "job", jobName: "nightly", serviceName: null }),
      revision({ serviceName: "web", revisionName: "web-1" }),
      revision({ serviceName: "web", revisionName: "web-1", jobName: null }),
    ],
    normalizeCloudRun,
    [
      {
        name: "web",
        fingerprint: A,
        instances: {
          created: [AT, AT, AT],
          context: [
            { kind: "job", jobName: "nightly" },
            { kind: "service", serviceName: "web", revisionName: "web-1" },
          ],
        },
      },
    ],
  );
  assert.equal(normalizeCloudRun([revision()])[0]?.instances.context, [{ kind: "service" }]);
});

test("normalizes many items of one artifact, and of as many artifacts", () => {
  const many = Array.from({ length: 20_000 }, (_, place) => place);
  const one = normalizeK8s(many.map((place) => pod(`web-${place}`, { web: A }, { creationTimestamp: 20_000 - place })));
  assert.is(one.length, 1);
  assert.is(one[0]?.instances.created[0], 1);
  assert.is(Object.keys(one[0]?.instances.pods ?? {}).length, 20_000);
  assert.is(
    normalizeK8s(many.map((place) => pod("web", { web: A }, { namespace: `n${place}` })))[0]?.instances.created.length,
    20_000,
  );
  assert.is(normalizePlain(many.map((place) => item({ [`web-${place}`]: A }))).length, 20_000);
  assert.is(normalizePlain([item(Object.fromEntries(many.map((place) => [`web-${place}`, A])))]).length, 20_000);
});

test.run();
