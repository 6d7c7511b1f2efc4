import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ENVIRONMENT_TYPES } from "../../../src/store/environments/environments.ts";
import type { EnvironmentType, PhysicalType } from "../../../src/store/environments/environments.ts";
import { EPOCH, fresh, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";
import { ITEM_KEYS } from "./given.ts";

const test = suite("api/environments/reports");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
type Item = Record<string, unknown>;

const A = "a".repeat(64);
const B = "b".repeat(64);
const PHYSICAL = ENVIRONMENT_TYPES.filter((type) => type !== "logical");
const PATTERN = "String should match pattern '^[a-f0-9]{64}$'";

/** An item of each type with all fields that a reporter can send. */
const FULL: Record<PhysicalType, Item> = {
  K8S: {
    podName: "web-1",
    namespace: "shop",
    digests: { web: A, sidecar: "" },
    creationTimestamp: 100,
    owners: [
      {
        apiVersion: "apps/v1",
        kind: "ReplicaSet",
        name: "web",
        uid: "7",
        controller: true,
        blockOwnerDeletion: null,
        more: { deep: [1] },
      },
    ],
  },
  ECS: { taskArn: "arn:1", cluster_name: "shop", service_name: "web", digests: { web: A }, creationTimestamp: 100 },
  S3: { digests: { bucket: A }, creationTimestamp: 100 },
  lambda: { digests: { resize: A }, creationTimestamp: 100 },
  server: { digests: { "/opt/web.jar": A }, creationTimestamp: 100 },
  docker: { digests: { web: A }, creationTimestamp: 100 },
  "azure-apps": {
    app_name: "shop",
    app_kind: "app",
    digests_source: "kosli-cli",
    digests: { web: A },
    creationTimestamp: 0,
  },
  "cloud-run": {
    kind: "job",
    jobName: "nightly",
    serviceName: null,
    revisionName: null,
    digests: { web: A },
    creationTimestamp: 100,
  },
};

/** The stored instances of the artifact with fingerprint A in FULL. */
const KEPT: Record<PhysicalType, object> = {
  K8S: { created: [100], pods: { "web-1": { namespace: "shop", creationTimestamp: 100, owners: FULL.K8S["owners"] } } },
  ECS: { created: [100], ecs: { task_arn: "arn:1", cluster_name: "shop", service_name: "web" } },
  S3: { created: [100] },
  lambda: { created: [100] },
  server: { created: [100] },
  docker: { created: [100] },
  "azure-apps": { created: [0], context: [{ app_name: "shop", app_kind: "app", digests_source: "kosli-cli" }] },
  "cloud-run": { created: [100], context: [{ kind: "job", jobName: "nightly" }] },
};

const idOf = (at: At): number => (server.store.organizations.find(at.org) as { id: number }).id;

function environment(at: At, type: EnvironmentType, name = fresh("env")): string {
  server.db
    .prepare(
      "INSERT INTO environments (public_id, organization_id, name, type, created_at, last_modified_at) " +
        "VALUES (?, ?, ?, ?, 1, 1)",
    )
    .run(fresh("id"), idOf(at), name, type);
  return name;
}
const put = (at: At, name: string, type: string, body: unknown): Promise<Answer> =>
  server.call("PUT", `/environments/${at.org}/${encodeURIComponent(name)}/report/${type}`, { key: at.key, body });
const row = (at: At, name: string) => server.store.environments.require({ id: idOf(at), name: at.org }, name);
const running = (at: At, name: string) => {
  const { id, snapshot_count } = row(at, name);
  return server.store.snapshots.listArtifacts(id, snapshot_count).filter(({ annotation }) => annotation !== "exited");
};
const audits = (at: At): { detail: unknown; target: string }[] =>
  (
    server.db
      .prepare(
        "SELECT detail_json, target FROM audit_log WHERE organization_id = ? " +
          "AND event = 'environment.reported' ORDER BY id",
      )
      .all(idOf(at)) as {
      detail_json: string;
      target: string;
    }[]
  ).map(({ detail_json, target }) => ({ detail: JSON.parse(detail_json), target }));

const validationError = (errors: Record<string, string>) => ({ message: "Input payload validation failed", errors });

function assertAnswer(answer: Answer, status: number, body: unknown): void {
  assert.equal(answer.body, body);
  assert.is(answer.status, status);
}

/** Asserts the refusal, and that it stored nothing. */
async function assertRefused(call: () => Promise<Answer>, status: number, body: unknown): Promise<void> {
  const tables = ["environments", "snapshots", "snapshot_artifacts", "evaluations", "jobs", "audit_log"];
  const look = (): unknown[] => [
    ...tables.map((table) => server.db.prepare(`SELECT count(*) FROM ${table}`).pluck().get()),
    server.db
      .prepare("SELECT json_group_array(json_array(id, last_reported_at, snapshot_count, revision)) FROM environments")
      .pluck()
      .get(),
  ];
  const before = look();
  assertAnswer(await call(), status, body);
  assert.equal(look(), before);
}

for (const type of PHYSICAL) {
  test(`${type}: makes a snapshot for the first report but not for a repeated one`, async () => {
    const at = server.given.org();
    const name = environment(at, type);
    assertAnswer(await put(at, name, type, { artifacts: [FULL[type]] }), 201, "OK");
    const artifact = running(at, name).find(({ fingerprint }) => fingerprint === A);
    assert.equal(JSON.parse(artifact?.instances_json ?? ""), KEPT[type]);
    assert.is(artifact?.annotation, "started-unknown");
    const { last_reported_at } = row(at, name);
    assertAnswer(await put(at, name, type, { type, artifacts: [FULL[type]] }), 200, "OK");
    assert.is(row(at, name).snapshot_count, 1);
    assert.ok((row(at, name).last_reported_at ?? 0) > (last_reported_at ?? 0) && (last_reported_at ?? 0) > EPOCH);
  });

  test(`${type}: refuses a report for another type and names both types`, async () => {
    const at = server.given.org();
    for (const other of ENVIRONMENT_TYPES.filter((one) => one !== type)) {
      const name = environment(at, other);
      const message =
        other === "logical"
          ? `Environment '${name}' is of type 'logical' and takes no reports, so not of type '${type}' either: ` +
            "report to its members"
          : `Environment '${name}' is of type '${other}' and takes no reports of type '${type}'`;
      await assertRefused(() => put(at, name, type, { artifacts: [FULL[type]] }), 400, { message });
    }
  });

  test(`${type}: an empty report means that nothing is running`, async () => {
    const at = server.given.org();
    const name = environment(at, type);
    assertAnswer(await put(at, name, type, { artifacts: [] }), 201, "OK");
    assertAnswer(await put(at, name, type, { artifacts: [] }), 200, "OK");
    assertAnswer(await put(at, name, type, { artifacts: [{ ...FULL[type], digests: {} }] }), 200, "OK");
    assertAnswer(await put(at, name, type, { artifacts: [FULL[type]] }), 201, "OK");
    assertAnswer(await put(at, name, type, { artifacts: [] }), 201, "OK");
    assert.equal(running(at, name), []);
    assert.is(row(at, name).snapshot_count, 3);
  });

  test(`${type}: refuses the body of another type and unknown properties`, async () => {
    const at = server.given.org();
    const name = environment(at, type);
    const other = type === "K8S" ? "ECS" : "K8S";
    await assertRefused(
      () => put(at, name, type, { type: other, artifacts: [FULL[type]] }),
      400,
      validationError({ type: `Input should be '${type}' [input: ${other}]` }),
    );
    await assertRefused(
      () => put(at, name, type, { type: null, artifacts: [] }),
      400,
      validationError({ type: `Input should be a valid string [input: null]` }),
    );
    await assertRefused(
      () => put(at, name, type, { artifacts: [{ ...FULL[type], extra: 1 }], more: 2 }),
      400,
      validationError({
        "artifacts.0.extra": `Extra inputs are not permitted [input: 1]; possible keys: ${ITEM_KEYS[type]}`,
      }),
    );
    await assertRefused(
      () => put(at, name, type, { artifact: [], artifacts: [], more: 2 }),
      400,
      validationError({ artifact: "Extra inputs are not permitted. Did you mean 'artifacts'?" }),
    );
    await assertRefused(() => put(at, name, type, {}), 400, validationError({ artifacts: "Field required" }));
    await assertRefused(
      () => put(at, name, type, { artifacts: null }),
      400,
      validationError({ artifacts: "Input should be a valid array [input: null]" }),
    );
    await assertRefused(() => put(at, name, type, null), 400, {
      message: "A JSON body is required: the request has none",
    });
  });

  test(`${type}: refuses items without required fields`, async () => {
    const at = server.given.org();
    const name = environment(at, type);
    const optional = ["owners", "cluster_name", "service_name", "serviceName", "revisionName", "jobName"];
    const required = Object.keys(FULL[type]).filter((field) => !optional.includes(field));
    await assertRefused(
      () => put(at, name, type, { artifacts: [FULL[type], {}] }),
      400,
      validationError(Object.fromEntries(required.map((field) => [`artifacts.1.${field}`, "Field required"]))),
    );
    const least = Object.fromEntries(required.map((field) => [field, FULL[type][field]]));
    assertAnswer(await put(at, name, type, { artifacts: [least] }), 201, "OK");
  });
}

const digestRows: [what: string, digests: unknown, errors: Record<string, string>][] = [
  ["too short", { web: "abc" }, { "artifacts.0.digests.web": `${PATTERN} [input: abc]` }],
  ["upper case", { web: "A".repeat(64) }, { "artifacts.0.digests.web": `${PATTERN} [input: ${"A".repeat(64)}]` }],
  ["with its algorithm", { web: `sha256:${A}` }, { "artifacts.0.digests.web": `${PATTERN} [input: sha256:${A}]` }],
  ["with a line feed", { web: `${A}\n` }, { "artifacts.0.digests.web": `${PATTERN} [input: ${A}\\u000a]` }],
  ["no text", { web: 7 }, { "artifacts.0.digests.web": "Input should be a valid string [input: 7]" }],
  ["null", { web: null }, { "artifacts.0.digests.web": "Input should be a valid string [input: null]" }],
  [
    "several",
    { web: "x", api: A, log: "y" },
    { "artifacts.0.digests.web": `${PATTERN} [input: x]`, "artifacts.0.digests.log": `${PATTERN} [input: y]` },
  ],
  ["a list", [A], { "artifacts.0.digests": `Input should be a valid object [input: ["${A}"]]` }],
  ["nothing", null, { "artifacts.0.digests": "Input should be a valid object [input: null]" }],
];
for (const [what, digests, errors] of digestRows) {
  test(`refuses digests: ${what}`, async () => {
    const at = server.given.org();
    const name = environment(at, "docker");
    await assertRefused(
      () => put(at, name, "docker", { artifacts: [{ digests, creationTimestamp: 1 }] }),
      400,
      validationError(errors),
    );
  });
}

test("refuses overlong names", async () => {
  const at = server.given.org();
  const long = "x".repeat(4_097);
  const docker = environment(at, "docker");
  const { status, body } = await put(at, docker, "docker", {
    artifacts: [{ digests: { [long]: A }, creationTimestamp: 1 }],
  });
  assert.is(status, 400);
  assert.match(body.errors["artifacts.0.digests"], /^String should have at most 4096 characters/);
  const k8s = environment(at, "K8S");
  const answer = await put(at, k8s, "K8S", { artifacts: [{ ...FULL.K8S, podName: long }] });
  assert.equal(Object.keys(answer.body.errors), ["artifacts.0.podName"]);
  assert.is(answer.status, 400);
  assert.equal(
    {
      dockerSnapshots: row(at, docker).snapshot_count,
      k8sSnapshots: row(at, k8s).snapshot_count,
    },
    { dockerSnapshots: 0, k8sSnapshots: 0 },
  );
});

const times: [value: unknown, error: string | null][] = [
  [0, null],
  [-1, null],
  [4_102_444_800, null],
  [Number.MAX_SAFE_INTEGER, null],
  [Number.MIN_SAFE_INTEGER, null],
  [1.5, "Input should be a valid integer [input: 1.5]"],
  ["100", "Input should be a valid integer [input: 100]"],
  [null, "Input should be a valid integer [input: null]"],
  [1e17, `Input should be less than or equal to ${Number.MAX_SAFE_INTEGER} [input: 100000000000000000]`],
  [-1e17, `Input should be greater than or equal to ${Number.MIN_SAFE_INTEGER} [input: -100000000000000000]`],
];
for (const [value, error] of times) {
  test(`a start at ${JSON.stringify(value)} is ${error === null ? "taken" : "refused"}`, async () => {
    const at = server.given.org();
    const name = environment(at, "docker");
    const send = () => put(at, name, "docker", { artifacts: [{ digests: { web: A }, creationTimestamp: value }] });
    if (error !== null) return assertRefused(send, 400, validationError({ "artifacts.0.creationTimestamp": error }));
    assertAnswer(await send(), 201, "OK");
    return assert.is(running(at, name)[0]?.instances_json, JSON.stringify({ created: [value] }));
  });
}

test("checks words and owners", async () => {
  const at = server.given.org();
  const [azure, run, k8s] = [environment(at, "azure-apps"), environment(at, "cloud-run"), environment(at, "K8S")];
  await assertRefused(
    () => put(at, azure, "azure-apps", { artifacts: [{ ...FULL["azure-apps"], digests_source: "guess" }] }),
    400,
    validationError({
      "artifacts.0.digests_source": "Input should be 'acr', 'logs' or 'kosli-cli' [input: guess]",
    }),
  );
  await assertRefused(
    () => put(at, run, "cloud-run", { artifacts: [{ ...FULL["cloud-run"], kind: "Job" }] }),
    400,
    validationError({
      "artifacts.0.kind": "Input should be 'service' or 'job' [input: Job]",
    }),
  );
  await assertRefused(
    () =>
      put(at, k8s, "K8S", {
        artifacts: [{ ...FULL.K8S, owners: [{ apiVersion: "v1", kind: "Node", controller: "yes" }] }],
      }),
    400,
    validationError({
      "artifacts.0.owners.0.name": "Field required",
      "artifacts.0.owners.0.uid": "Field required",
      "artifacts.0.owners.0.controller": "Input should be a valid boolean [input: yes]",
    }),
  );
});

test("refuses unknown, archived and foreign environments", async () => {
  const at = server.given.org();
  const other = server.given.org();
  const theirs = environment(other, "docker");
  const missing = (name: string) => ({
    message: `Environment named '${name}' does not exist for organization '${at.org}'`,
  });
  await assertRefused(() => put(at, "nowhere", "docker", { artifacts: [] }), 404, missing("nowhere"));
  await assertRefused(() => put(at, theirs, "docker", { artifacts: [] }), 404, missing(theirs));
  const archived = environment(at, "docker", "old-archived-at-5");
  server.db
    .prepare("UPDATE environments SET archived_at = 5, archived_name = 'old' WHERE organization_id = ? AND name = ?")
    .run(idOf(at), archived);
  for (const name of ["old", archived])
    await assertRefused(() => put(at, name, "docker", { artifacts: [] }), 404, {
      message: `Environment named '${name}' has been archived for organization '${at.org}'`,
    });
  // The body is checked first, then the environment, then its type.
  await assertRefused(() => put(at, archived, "K8S", { artifacts: [] }), 404, {
    message: `Environment named '${archived}' has been archived for organization '${at.org}'`,
  });
  await assertRefused(
    () => put(at, "nowhere", "docker", { artifacts: 1 }),
    400,
    validationError({ artifacts: "Input should be a valid array [input: 1]" }),
  );
});

test("matches the spelling of types exactly", async () => {
  const at = server.given.org();
  const name = environment(at, "K8S");
  const types = ["ECS", "K8S", "S3", "azure-apps", "cloud-run", "docker", "lambda", "server"];
  for (const [type, near] of [
    ["k8s", "K8S"],
    ["logical", null],
    ["Lambda", "lambda"],
    ["cloud_run", "cloud-run"],
  ] as const) {
    const known = [...(near === null ? [] : [near]), ...types.filter((other) => other !== near)].join(", ");
    await assertRefused(() => put(at, name, type, { artifacts: [] }), 404, {
      message: `The requested URL was not found on the server: '${type}' is not one of ${known}`,
    });
  }
});

test("accepts reports from snapshotters, but not from readers and outsiders", async () => {
  const at = server.given.org();
  const name = environment(at, "docker");
  const denied = { message: "You don't have permission to access this resource" };
  for (const role of ["reader", null] as const)
    await assertRefused(
      () => put({ org: at.org, key: server.given.user(at.org, role) }, name, "docker", { artifacts: [] }),
      403,
      denied,
    );
  assertAnswer(
    await put({ org: at.org, key: server.given.serviceAccount(at.org, "snapshotter") }, name, "docker", {
      artifacts: [],
    }),
    201,
    "OK",
  );
});

test("makes a snapshot only for relevant differences", async () => {
  const at = server.given.org();
  const name = environment(at, "docker");
  const item = (digests: Record<string, string>, creationTimestamp = 1) => ({ digests, creationTimestamp });
  const steps: [items: object[], status: number][] = [
    [[item({ web: A })], 201],
    [[item({ web: A }, 999)], 200],
    [[item({ web: A }), item({ web: A }, 5)], 200],
    [[item({ web: A, api: B })], 201],
    [[item({ api: B }), item({ web: A })], 200],
    [[item({ web: A, "web-2": A })], 201],
    [[item({ web: "" })], 201],
    [[item({ web: "" }, 7)], 200],
    [[item({ web: "" }), item({ web: "" })], 200],
    [[], 201],
    [[], 200],
  ];
  let snapshots = 0;
  for (const [items, status] of steps) {
    assertAnswer(await put(at, name, "docker", { artifacts: items }), status, "OK");
    if (status === 201) snapshots += 1;
    assert.is(row(at, name).snapshot_count, snapshots);
  }
});

test("audits only reports that made a snapshot", async () => {
  const at = server.given.org();
  const name = environment(at, "docker");
  await put(at, name, "docker", { artifacts: [FULL.docker, { digests: { api: B }, creationTimestamp: 3 }] });
  await put(at, name, "docker", { artifacts: [FULL.docker, { digests: { api: B }, creationTimestamp: 9 }] });
  assert.equal(audits(at), [
    { detail: { artifacts: 2, snapshot: 1 }, target: `/api/v2/environments/${at.org}/${name}/report/docker` },
  ]);
});

test("adds no row to any table for an unchanged report of any type", async () => {
  const at = server.given.org();
  const tables = server.db
    .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    .pluck()
    .all() as string[];
  const rows = (): unknown[] =>
    tables.map((table) => [table, server.db.prepare(`SELECT count(*) FROM "${table}"`).pluck().get()]);
  for (const type of PHYSICAL) {
    const name = environment(at, type);
    const before = rows();
    assertAnswer(await put(at, name, type, { artifacts: [FULL[type]] }), 201, "OK");
    const once = rows();
    assert.is.not(JSON.stringify(once), JSON.stringify(before));
    for (const creationTimestamp of [100, 999])
      assertAnswer(await put(at, name, type, { artifacts: [{ ...FULL[type], creationTimestamp }] }), 200, "OK");
    assert.equal(rows(), once);
  }
});

test("accepts names of built-in object properties as artifacts and pods", async () => {
  const at = server.given.org();
  const name = environment(at, "K8S");
  const raw =
    `{"artifacts":[{"podName":"__proto__","namespace":"constructor","creationTimestamp":1,` +
    `"digests":{"__proto__":"${A}","constructor":"${B}"}}]}`;
  const answer = await server.call("PUT", `/environments/${at.org}/${name}/report/K8S`, {
    key: at.key,
    raw,
    headers: { "Content-Type": "application/json" },
  });
  assertAnswer(answer, 201, "OK");
  assert.equal(
    running(at, name).map((artifact) => [artifact.name, artifact.fingerprint]),
    [
      ["__proto__", A],
      ["constructor", B],
    ],
  );
  assert.is(
    running(at, name)[0]?.instances_json,
    `{"created":[1],"pods":{"__proto__":{"namespace":"constructor","creationTimestamp":1,"owners":null}}}`,
  );
});

test("refuses an item whose words would be repeated excessively", async () => {
  const at = server.given.org();
  const name = environment(at, "K8S");
  const digests = Object.fromEntries(Array.from({ length: 9_000 }, (_, place) => [`image-${place}`, A]));
  const owners = [{ apiVersion: "v1", kind: "Node", name: "n", uid: "1", more: "x".repeat(10_000) }];
  await assertRefused(() => put(at, name, "K8S", { artifacts: [FULL.K8S, { ...FULL.K8S, digests, owners }] }), 413, {
    message:
      "The report, counting the details of an item once for each of its digests (items 0 to 1), exceeds the 64MB limit",
  });
});

test("refuses a large invalid body like a small one", async () => {
  const at = server.given.org();
  const name = environment(at, "K8S");
  const many = Array.from({ length: 6_000 }, (_, place) => ({
    podName: `web-${place}`,
    namespace: "shop",
    digests: { web: A },
    creationTimestamp: place,
    owners: null,
  }));
  await assertRefused(
    () => put(at, name, "K8S", { artifacts: [...many, { ...FULL.K8S, podName: 7 }] }),
    400,
    validationError({ "artifacts.6000.podName": "Input should be a valid string [input: 7]" }),
  );
  await assertRefused(
    () => put(at, name, "K8S", { artifacts: many, type: "ECS" }),
    400,
    validationError({ type: "Input should be 'K8S' [input: ECS]" }),
  );
  await assertRefused(() => put(at, "nobody", "K8S", { artifacts: many }), 404, {
    message: `Environment named 'nobody' does not exist for organization '${at.org}'`,
  });
});

test("accepts a report of a hundred thousand items", async () => {
  const at = server.given.org();
  const name = environment(at, "K8S");
  const artifacts = Array.from({ length: 100_000 }, (_, place) => ({
    podName: `web-${place}`,
    namespace: "shop",
    digests: { [`image-${place % 10}`]: A },
    creationTimestamp: place,
    owners: [{ apiVersion: "v1", kind: "Node", name: "n", uid: "1" }],
  }));
  assertAnswer(await put(at, name, "K8S", { artifacts }), 201, "OK");
  assert.equal(
    running(at, name).map(({ now }) => now),
    Array.from({ length: 10 }, () => 10_000),
  );
});

test.run();
