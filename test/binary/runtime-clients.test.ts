// What the clients of the runtime API rely on (wire-contract 9 to 13 and 25), through the executable: reports of every
// type, the CLI's reads, Terraform's rules for an empty plan, and permissions.

import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ITEM_KEYS } from "../api/environments/given.ts";
import { expectStatus } from "./client.ts";
import type { ApiResponse, Json, Method } from "./client.ts";
import {
  PROVENANCE_POLICY,
  STARTED_AT,
  fingerprintOf,
  summarizeEvents,
  reportItems,
  normalize,
  startRuntimeServer,
} from "./runtime-server.ts";
import type { RuntimeServer, Role } from "./runtime-server.ts";

const test = suite("binary/runtime-clients");
let server: RuntimeServer;
test.before(async () => void (server = await startRuntimeServer()));
test.after(() => server.close());

const digests = (name: string, label = name) => ({
  digests: { [name]: label === "" ? "" : fingerprintOf(label) },
  creationTimestamp: STARTED_AT,
});
const owner = {
  apiVersion: "apps/v1",
  kind: "ReplicaSet",
  name: "web-5d8f7",
  uid: "3f9c",
  controller: true,
  blockOwnerDeletion: true,
};
const arn = "arn:aws:ecs:eu-north-1:1:task/shop/7";

/** One report of each type. `shown` is what its snapshot shows beside the digests, `more` what its body has as well. */
const REPORTS: Record<string, { report: Json[]; shown?: Json; more?: Json }> = {
  K8S: {
    report: [
      { ...digests("web"), podName: "web-1", namespace: "shop", owners: [owner] },
      { ...digests("web"), podName: "web-2", namespace: "shop", owners: null },
    ],
    shown: {
      pods: {
        "web-1": { namespace: "shop", creationTimestamp: STARTED_AT, owners: [owner] },
        "web-2": { namespace: "shop", creationTimestamp: STARTED_AT, owners: null },
      },
    },
  },
  ECS: {
    report: [{ ...digests("web"), taskArn: arn, cluster_name: "shop", service_name: "web" }],
    shown: { ecs_context: { task_arn: arn, cluster_name: "shop", service_name: "web" } },
  },
  S3: { report: [digests("web")] },
  lambda: { report: [digests("web")] },
  server: { report: [digests("web")] },
  docker: { report: [digests("web")] },
  "azure-apps": {
    report: [
      {
        ...digests("web"),
        creationTimestamp: 0,
        app_name: "shop-web",
        app_kind: "app,linux,container",
        digests_source: "acr",
      },
    ],
    shown: { creationTimestamp: [0] },
  },
  "cloud-run": {
    report: [{ ...digests("web"), kind: "service", serviceName: "web", revisionName: "web-00004" }],
    more: { type: "cloud-run" },
  },
};

test("accepts every type of report, and refuses other types and malformed items", async () => {
  await server.createEnvironment("all-types", "logical");
  for (const [type, { report: artifacts, shown: extra = {}, more = {} }] of Object.entries(REPORTS)) {
    const name = `of-${type}`;
    await server.createEnvironment(name, type);
    const path = `/environments/acme/${name}/report/${type}`;
    const report = async (items: unknown, status: number) =>
      assert.is(await expectStatus(server.json("PUT", path, { artifacts: items, ...more }), status), "OK");
    const other = type === "S3" ? "docker" : "S3";
    const expectRefusals = async (): Promise<void> => {
      await server.expectRefusal(
        "PUT",
        `/environments/acme/${name}/report/${other}`,
        400,
        `Environment '${name}' is of type '${type}' and takes no reports of type '${other}'`,
        { artifacts: REPORTS[other]?.report },
      );
      await server.expectRefusal(
        "PUT",
        `/environments/acme/all-types/report/${type}`,
        400,
        `Environment 'all-types' is of type 'logical' and takes no reports, so not of type '${type}' either: ` +
          "report to its members",
        { artifacts },
      );
      await server.expectRefusal(
        "PUT",
        `/environments/acme/of-none/report/${type}`,
        404,
        "Environment named 'of-none' does not exist for organization 'acme'",
        { artifacts },
      );
      await server.expectInvalid(
        "PUT",
        path,
        { type: `Input should be '${type}' [input: ${other}]` },
        { type: other, artifacts },
      );
      await server.expectInvalid("PUT", path, { artifacts: "Field required" }, {});
      const [{ digests: _, ...undigested }] = artifacts as [Json];
      await server.expectInvalid("PUT", path, { "artifacts.0.digests": "Field required" }, { artifacts: [undigested] });
      await server.expectInvalid(
        "PUT",
        path,
        {
          "artifacts.0.more":
            `Extra inputs are not permitted [input: 1]` +
            `; possible keys: ${ITEM_KEYS[type as keyof typeof ITEM_KEYS]}`,
        },
        { artifacts: [{ ...artifacts[0], more: 1 }] },
      );
      assert.is(
        (
          await expectStatus(
            server.json("PUT", path, { artifacts: [{ ...artifacts[0], digests: { web: "sha256:1" } }] }),
            400,
          )
        ).message,
        "Input payload validation failed",
      );
    };
    await expectRefusals();
    assert.equal(
      {
        count: await server.countSnapshots(name),
        last_reported_at: (await server.read(`/environments/acme/${name}`)).last_reported_at,
      },
      { count: 0, last_reported_at: null },
      type,
    );

    await report(artifacts, 201);
    const {
      artifacts: [first, ...others],
      type: shownType,
    } = await server.readSnapshot(name);
    assert.equal(
      { artifact: first, others, shownType },
      {
        artifact: {
          name: "web",
          fingerprint: fingerprintOf("web"),
          compliant: null,
          reasons_for_incompliance: [],
          creationTimestamp: artifacts.map(() => STARTED_AT),
          annotation: { type: "started-unknown", was: 0, now: artifacts.length },
          pods: null,
          ecs_context: null,
          deployments: [],
          policy_decisions: [],
          flow_name: null,
          git_commit: null,
          commit_url: null,
          html_url: null,
          flow_html_url: null,
          deployment_diff: null,
          commit_lead_time: null,
          flows: [],
          ...extra,
        },
        others: [],
        shownType: type,
      },
      type,
    );
    const { last_reported_at: firstReportedAt, last_changed_at: changedAt } = await server.read(
      `/environments/acme/${name}`,
    );
    await report(artifacts, 200);
    const { last_reported_at: secondReportedAt, last_changed_at: stillChangedAt } = await server.read(
      `/environments/acme/${name}`,
    );
    assert.ok(secondReportedAt > firstReportedAt, type);
    assert.is(stillChangedAt, changedAt);

    const unresolved = artifacts.map((item) => ({ ...item, digests: { web: "" } }));
    for (const status of [201, 200]) await report(unresolved, status);
    for (const status of [201, 200]) await report([], status);
    await expectRefusals();
    assert.equal(
      summarizeEvents(await server.read(`/environments/acme/${name}/events?reverse=true`)).map((event: any) => [
        event[0],
        event[2],
      ]),
      [
        [`${name}#1`, "started-unknown"],
        [`${name}#2`, "started-unknown"],
        [`${name}#2`, "exited"],
        [`${name}#3`, "exited"],
      ],
    );
    assert.equal(
      (await server.readSnapshot(name)).artifacts.map(({ annotation }: Json) => annotation.now),
      [0],
    );
  }
});

test("accepts a report of 100,000 artifacts and refuses a body above the limit", async () => {
  await server.createEnvironment("large", "server");
  const all = Array.from({ length: 100_000 }, (_, place) => ({
    digests: { [`/srv/${place}`]: place.toString(16).padStart(64, "0") },
    creationTimestamp: STARTED_AT,
  }));
  await server.report("large", "server", all, 201);
  await server.report("large", "server", all, 200);
  assert.equal(normalize(await server.read("/snapshots/acme/large?interval=&page=1&per_page=15&reverse=false")), [
    { index: 1, from: "<time>", to: 0, compliant: false, duration: "<time>" },
  ]);
  await server.expectRefusal(
    "PUT",
    "/environments/acme/large/report/server",
    413,
    "Request body size exceeds the 32MB limit",
    {
      artifacts: [{ ...all[0], padding: "x".repeat(33 << 20) }],
    },
  );
  assert.equal(
    {
      status: (await server.json("GET", "/environments/acme/large")).status,
      count: await server.countSnapshots("large"),
    },
    { status: 200, count: 1 },
  );
});

test("the CLI can create an environment and report to it with the snapshotter role", async () => {
  const cli = server.as("snapshotter");
  assert.equal(await expectStatus(cli.json("GET", "/environments/acme/auto-prod"), 404), {
    message: "Environment named 'auto-prod' does not exist for organization 'acme'",
  });
  assert.is(
    await expectStatus(
      cli.json("PUT", "/environments/acme", {
        name: "auto-prod",
        type: "docker",
        description: "Auto-created by kosli snapshot",
      }),
      201,
    ),
    "OK",
  );
  assert.is(
    await expectStatus(
      cli.json("PUT", "/environments/acme/auto-prod/report/docker", { artifacts: reportItems({ "web:1": "web-1" }) }),
      201,
    ),
    "OK",
  );
  assert.equal(normalize(await expectStatus(cli.json("GET", "/environments/acme/auto-prod"), 200)), {
    org: "acme",
    name: "auto-prod",
    type: "docker",
    description: "Auto-created by kosli snapshot",
    last_modified_at: "<time>",
    last_reported_at: "<time>",
    last_changed_at: "<time>",
    state: null,
    include_scaling: false,
    require_provenance: false,
    tags: {},
    policies: [],
    included_environments: null,
  });
  assert.is((await server.readSnapshot("auto-prod")).user_name, "snapshotter");
});

test("gives the CLI lists, events and differences, with its intervals and paging", async () => {
  await server.createEnvironment("cli-prod", "docker");
  const reports = [{ "web:1": "web-1" }, { "web:2": "web-2" }, { "web:2": "web-2", "db:1": "db-1" }, {}];
  for (const report of reports)
    await server.report("cli-prod", "docker", reportItems(report as Record<string, string>), 201);

  const list = (interval: string, more = "&page=1&per_page=15&reverse=false"): Promise<Json[]> =>
    server.read(`/snapshots/acme/cli-prod?interval=${interval}${more}`);
  const indexes = async (...query: Parameters<typeof list>): Promise<unknown[]> =>
    (await list(...query)).map((item) => item["index"]);
  assert.equal(await indexes(""), [4, 3, 2, 1]);
  assert.equal(await indexes("1..2"), [2, 1]);
  assert.equal(await indexes("~2..NOW"), [4, 3, 2]);
  assert.equal(await indexes("~2"), [4, 3, 2]);
  assert.equal(await indexes("NOW"), [4]);
  assert.equal(await indexes("3.."), [4, 3]);
  assert.equal(await indexes("..3"), [4, 3]);
  assert.equal(await indexes("", "&page=2&per_page=3&reverse=false"), [1]);
  assert.equal(await indexes("", "&page=1&per_page=3&reverse=true"), [1, 2, 3]);
  assert.equal(await indexes("", "&page=3&per_page=3&reverse=false"), []);
  await server.expectInvalid("GET", "/snapshots/acme/cli-prod?interval=1..x&page=1&per_page=15&reverse=false", {
    interval: "Input should be a valid interval [input: 1..x]",
  });
  const [latest, before] = await list("");
  assert.equal(
    { latestTo: latest?.["to"], beforeTo: before?.["to"], beforeDuration: before?.["duration"] },
    { latestTo: 0, beforeTo: latest?.["from"], beforeDuration: latest?.["from"] - before?.["from"] },
  );

  const log = (interval: string, page: number, reverse = false) =>
    server.json(
      "GET",
      `/environments/acme/cli-prod/events?interval=${interval}&page=${page}&per_page=3&reverse=${reverse}`,
    );
  const headers = ({ headers: of }: ApiResponse) =>
    ["X-Total-Count", "X-Per-Page", "X-Current-Page", "X-Total-Pages"].map((name) => of.get(name));
  const second = await log("", 2);
  assert.equal(headers(second), ["6", "3", "2", "2"]);
  assert.equal(
    summarizeEvents(second.body).map((event: any) => [event[0], event[2], event[4]]),
    [
      ["cli-prod#2", "exited", ""],
      ["cli-prod#2", "started-unknown", ""],
      ["cli-prod#1", "started-unknown", ""],
    ],
  );
  const root = "https://assay.example.com/api/v2/environments/acme/cli-prod/events";
  assert.match(second.headers.get("Link") ?? "", `<${root}?`);
  const whole = await log("1..2", 1);
  assert.equal(headers(whole), ["3", "3", "1", "1"]);
  // `interval` is deprecated: the Link header says so, and leads to no other page.
  assert.not.match(whole.headers.get("Link") ?? "", /rel="(?:first|prev|next|last)"/);
  assert.equal(
    (await log("~0..NOW", 1, true)).body.map((event: Json) => [event["snapshot_index"], event["description"]]),
    [
      [4, "1 instance stopped running (from 1 to 0)"],
      [4, "1 instance stopped running (from 1 to 0)"],
    ],
  );

  const info = (name: string, label: string, s1: number, s2: number) => ({
    fingerprint: fingerprintOf(label),
    name,
    most_recent_timestamp: STARTED_AT,
    flow: "",
    commit_url: null,
    instance_count: s1 || s2,
    s1_instance_count: s1,
    s2_instance_count: s2,
    pods: [],
  });
  const difference = {
    snappish1: { snapshot_id: "cli-prod#1", artifacts: [info("web:1", "web-1", 1, 0)] },
    snappish2: { snapshot_id: "cli-prod#3", artifacts: [info("db:1", "db-1", 0, 1), info("web:2", "web-2", 0, 1)] },
  };
  const none = { snapshot_id: null, artifacts: [] };
  for (const [one, two] of [
    ["cli-prod%231", "cli-prod%233"],
    ["cli-prod~3", "cli-prod~1"],
  ])
    assert.equal(await server.read(`/env-diff/acme?snappish1=${one}&snappish2=${two}`), {
      ...difference,
      changed: none,
      "not-changed": none,
    });
  const diff = (one: string, two: string): string => `/env-diff/acme?snappish1=${one}&snappish2=${two}`;
  const unresolved = (label: string, index: number) =>
    `Org: 'acme'. Snapshot '${label}' resolves to 'cli-prod#${index}'. len(snapshots) == 4. Indexes are 1-based`;
  await server.expectRefusal("GET", diff("cli-prod~4", "cli-prod%239"), 404, unresolved("cli-prod~4", 0));
  await server.expectRefusal("GET", diff("cli-prod", "cli-prod%239"), 404, unresolved("cli-prod#9", 9));
  await server.expectRefusal(
    "GET",
    diff("cli-prod", "cli-none"),
    404,
    "Environment named 'cli-none' does not exist for organization 'acme'",
  );
  await server.createEnvironment("cli-empty", "docker");
  const empty = "Org: 'acme'. Snapshot 'cli-empty' resolves to 'cli-empty#0'. len(snapshots) == 0. Indexes are 1-based";
  await server.expectRefusal("GET", diff("cli-empty", "cli-prod"), 404, empty);
  await server.expectRefusal(
    "GET",
    "/snapshots/acme/cli-empty/-1",
    404,
    empty.replace("'cli-empty'", "'cli-empty#-1'"),
  );

  // The CLI repeats a list parameter, the MCP server joins its values with commas.
  const names = async (query: string): Promise<unknown[]> =>
    (await server.read(`/environments/acme?name=CLI-&${query}`)).map(({ name }: Json) => name);
  await server.createEnvironment("cli-k8s", "K8S");
  await server.createEnvironment("cli-group", "logical");
  assert.equal(
    {
      repeated: await names("type=K8S&type=logical"),
      joined: await names("type=K8S,logical"),
      sorted: await names("sort=name&sort_direction=desc&type=docker"),
    },
    {
      repeated: ["cli-group", "cli-k8s"],
      joined: ["cli-group", "cli-k8s"],
      sorted: ["cli-prod", "cli-empty"],
    },
  );
  const { environments, ...counts } = await server.read("/environments/acme?name=cli-&page=2&per_page=3");
  assert.equal(
    { environments: environments.map(({ name }: Json) => name), counts },
    { environments: ["cli-prod"], counts: { page: 2, per_page: 3, total_pages: 2, total_count: 4 } },
  );
});

test("gives Terraform back what it sent, so that its plan is empty", async () => {
  const { json, form } = server.as("member", "terraform");
  const ok = async (method: Method, path: string, status: number, body?: unknown) =>
    assert.is(await expectStatus(json(method, path, body), status), "OK");
  const read = (name: string): Promise<Json> => expectStatus(json("GET", `/environments/acme/${name}`), 200);
  const base = {
    org: "acme",
    last_modified_at: "<time>",
    last_reported_at: null,
    last_changed_at: null,
    state: null,
    include_scaling: false,
    require_provenance: false,
    tags: {},
    policies: [],
    included_environments: null,
  };
  const sent = {
    name: "tf-prod",
    type: "K8S",
    description: "",
    include_scaling: true,
    included_environments: null,
    policies: null,
  };
  for (let once = 0; once < 2; once += 1) await ok("PUT", "/environments/acme", 201, sent);
  assert.equal(normalize(await read("tf-prod")), { ...base, ...sent, policies: [] });
  await ok("PATCH", "/tags/acme/environment/tf-prod", 200, {
    set_tags: { "managed-by": "terraform", tier: "1" },
    remove_tags: [],
  });
  await ok("PATCH", "/environments/acme/tf-prod", 200, { description: "Production", include_scaling: false });
  const tags = { "managed-by": "terraform", tier: "1" };
  assert.equal(normalize(await read("tf-prod")), {
    ...base,
    name: "tf-prod",
    type: "K8S",
    description: "Production",
    tags,
  });
  // An empty description clears the description with PATCH and leaves it alone with PUT.
  await ok("PUT", "/environments/acme", 201, sent);
  assert.equal(
    { description: (await read("tf-prod"))["description"], tags: (await read("tf-prod"))["tags"] },
    { description: "Production", tags },
  );
  await ok("PATCH", "/environments/acme/tf-prod", 200, { description: "" });
  await ok("PATCH", "/tags/acme/environment/tf-prod", 200, { set_tags: null, remove_tags: ["managed-by", "tier"] });
  assert.equal(normalize(await read("tf-prod")), { ...base, ...sent, policies: [] });
  const typed = {
    message: "Input payload validation failed",
    errors: { type: "The type of an environment cannot be changed: this one is of type 'K8S' [input: server]" },
  };
  assert.equal(await expectStatus(json("PUT", "/environments/acme", { ...sent, type: "server" }), 400), typed);

  const file = { part: "policy_file", name: "policy.yml", content: PROVENANCE_POLICY };
  const policy = { name: "tf-policy", description: "By Terraform", comment: "", type: "env" };
  await expectStatus(form("PUT", "/policies/acme", "payload", policy, file), 201);
  for (let once = 0; once < 2; once += 1)
    await ok("POST", "/environments/acme/tf-prod/policies", 200, { policy_names: ["tf-policy"] });
  assert.equal((await read("tf-prod"))["policies"], ["tf-policy"]);
  await ok("PUT", "/environments/acme", 201, sent);
  assert.equal((await read("tf-prod"))["policies"], ["tf-policy"]);
  await expectStatus(form("PUT", "/policies/acme", "payload", policy, file), 200);
  const { description, versions, consuming_envs } = await expectStatus(json("GET", "/policies/acme/tf-policy"), 200);
  assert.equal(
    { description, versions: versions.map(({ version, policy_yaml }: Json) => [version, policy_yaml]), consuming_envs },
    { description: "By Terraform", versions: [[1, PROVENANCE_POLICY]], consuming_envs: ["tf-prod"] },
  );
  await ok("DELETE", "/environments/acme/tf-prod/policies", 200, { policy_names: ["tf-policy"] });
  assert.equal((await read("tf-prod"))["policies"], []);
  const unknown = { message: "Environment named 'tf-none' does not exist for organization 'acme'" };
  assert.equal(
    await expectStatus(json("DELETE", "/environments/acme/tf-none/policies", { policy_names: ["tf-policy"] }), 404),
    unknown,
  );

  await ok("PUT", "/environments/acme", 201, { name: "tf-eu", type: "server", description: "" });
  const group = {
    name: "tf-all",
    type: "logical",
    description: "All",
    included_environments: ["tf-prod", "tf-eu"],
    policies: null,
  };
  await ok("PUT", "/environments/acme", 201, group);
  assert.equal(normalize(await read("tf-all")), { ...base, ...group, policies: [] });
  for (const included_environments of [["tf-eu", "tf-prod"], ["tf-eu"], []]) {
    await ok("PATCH", "/environments/acme/tf-all", 200, { description: "All", included_environments });
    assert.equal((await read("tf-all"))["included_environments"], included_environments);
  }
  const wrong = async (members: string[], text: string) =>
    assert.equal(
      await expectStatus(json("PATCH", "/environments/acme/tf-all", { included_environments: members }), 400),
      {
        message: "Input payload validation failed",
        errors: { included_environments: text },
      },
    );
  await wrong(
    ["tf-all"],
    "Environment 'tf-all' is logical: only physical environments can be included [input: tf-all]",
  );
  await wrong(
    ["tf-eu", "tf-none"],
    "Environment named 'tf-none' does not exist for organization 'acme' [input: tf-none]",
  );
  assert.equal((await read("tf-all"))["included_environments"], []);

  // Archiving needs neither body nor content type. Afterwards the name is free, also for another type.
  await ok("PUT", "/environments/acme/tf-prod/archive", 200);
  assert.equal(await expectStatus(json("GET", "/environments/acme/tf-prod"), 404), {
    message: "Environment named 'tf-prod' has been archived for organization 'acme'",
  });
  await ok("PUT", "/environments/acme", 201, { ...sent, type: "lambda" });
  assert.equal(normalize(await read("tf-prod")), { ...base, ...sent, type: "lambda", policies: [] });
});

test("grants every role its requests and refuses all others with 403", async () => {
  await server.createEnvironment("may-prod", "docker");
  await server.createEnvironment("may-all", "logical", { included_environments: ["may-prod"] });
  await server.putPolicy("may-policy", PROVENANCE_POLICY);
  await server.report("may-prod", "docker", reportItems({ "web:1": "web-1" }), 201);
  const artifacts = reportItems({ "web:1": "web-1" });
  const reads = [
    "/environments/{org}",
    "/environments/{org}/may-prod",
    "/environments/{org}/may-prod/events",
    "/environments/{org}/may-prod/auditlog",
    "/snapshots/{org}/may-prod",
    "/snapshots/{org}/may-prod/-1",
    "/env-diff/{org}?snappish1=may-prod&snappish2=may-prod",
    "/allowlists/{org}",
    "/deployments/{org}",
    "/environments/{org}/may-prod/deployments",
    "/environments/{org}/may-prod/deployment_frequency",
    `/asserts/{org}/fingerprint/${fingerprintOf("web-1")}?environment_name=may-prod`,
  ];
  type Request = [method: Method, path: string, body?: unknown];
  const reporting: Request[] = [
    ["PUT", "/environments/{org}", { name: "may-prod", type: "docker", description: "" }],
    ["PUT", "/environments/{org}/may-prod/report/docker", { artifacts }],
  ];
  const writing: Request[] = [
    ["PATCH", "/environments/{org}/may-prod", { description: "mine" }],
    ["PUT", "/environments/{org}/may-prod/rename", { new_name: "may-mine" }],
    ["PUT", "/environments/{org}/may-prod/archive", null],
    ["PUT", "/environments/{org}/may-all/join", { physical_env_name: "may-prod" }],
    ["POST", "/environments/{org}/may-prod/policies", { policy_names: ["may-policy"] }],
    ["DELETE", "/environments/{org}/may-prod/policies", { policy_names: ["may-policy"] }],
    [
      "PUT",
      "/allowlists/{org}/may-prod",
      { artifact_fingerprint: fingerprintOf("web-1"), artifact_name: "web", description: "mine" },
    ],
    ["PATCH", "/tags/{org}/environment/may-prod", { set_tags: { mine: "1" }, remove_tags: [] }],
  ];
  const forbidden = { message: "You don't have permission to access this resource" };
  const refused = async (role: Role, requests: Request[], org = "acme"): Promise<void> => {
    for (const [method, path, body] of requests) {
      const { status, body: answer } = await server.as(role).json(method, path.replace("{org}", org), body);
      assert.equal({ status, answer }, { status: 403, answer: forbidden }, `${role}: ${method} ${path} in ${org}`);
    }
  };
  const gets = reads.map((path): Request => ["GET", path]);
  const readState = async () => [
    await server.read("/environments/acme/may-prod"),
    await server.readSnapshot("may-prod"),
    await server.read("/environments/acme/may-all"),
  ];
  const before = await readState();
  await refused("snapshotter", writing);
  await refused("reader", [...reporting, ...writing]);
  await refused("stranger", [...gets, ...reporting, ...writing]);
  await refused("stranger", [...gets, ...reporting, ...writing], "no-such-organization");
  assert.equal(await readState(), before);
  for (const path of reads) {
    const found = path.startsWith("/asserts") ? 404 : 200;
    for (const role of ["snapshotter", "reader", "admin"] as const)
      assert.is((await server.as(role).json("GET", path.replace("{org}", "acme"))).status, found, `${role}: ${path}`);
  }
  for (const [[method, path, body], status] of reporting.map((request, place) => [request, [201, 200][place]] as const))
    assert.is((await server.as("snapshotter").json(method, path.replace("{org}", "acme"), body)).status, status, path);

  // A public organization: any valid key may read it, only its members may write, and an invalid key gets 401.
  const owner = server.as("publisher");
  await expectStatus(
    owner.json("PUT", "/environments/open", { name: "may-prod", type: "docker", description: "" }),
    201,
  );
  await expectStatus(owner.json("PUT", "/environments/open/may-prod/report/docker", { artifacts }), 201);
  for (const path of reads.filter((one) => !one.startsWith("/asserts")))
    assert.is((await server.as("stranger").json("GET", path.replace("{org}", "open"))).status, 200, path);
  await refused("stranger", [...reporting, ...writing], "open");
  assert.equal(await expectStatus(server.as("unknown").json("GET", "/environments/open"), 401), {
    message: "Authentication credentials are missing or invalid",
  });
});

test.run();
