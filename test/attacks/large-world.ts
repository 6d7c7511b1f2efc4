/**
 * The world of test/whole/world.ts, made large: environments of tens of thousands of artifacts and a logical one over
 * all of them, attestations of megabytes, a trail with a long history, one with thousands of checks. And the reads of
 * every operation on it.
 */
import { cpSync, writeFileSync } from "node:fs";
import { Agent, request as send } from "node:http";
import { join } from "node:path";
import { operations } from "../../src/api/index.ts";
import type { AssayOperation } from "../../src/api/context.ts";
import { MAX_TEMPLATE_ENTRIES } from "../../src/domain/flow-template/template.ts";
import { start } from "../binary/executable.ts";
import { createWorld } from "../whole/world.ts";
import type { World } from "../whole/world.ts";
import { formRequest, jsonRequest } from "./attack.ts";
import type { AttackRequest } from "./attack.ts";

export type LargeSizes = {
  /** Artifacts of each physical environment without a policy, and of one with a policy that they fail. */
  artifacts: readonly number[];
  judged: number;
  /** Attestations of one trail, and the bytes of the user data of each. */
  attestations: number;
  attestationBytes: number;
  /** Attestations of another trail, and artifacts of further ones, of which some run. */
  history: number;
  /** Attestations of different names of a trail whose template expects MAX_TEMPLATE_ENTRIES others. */
  checks: number;
};

export type LargeWorld = {
  /** Keys of an admin and of a reader. */
  keys: { admin: string; reader: string };
  reads: readonly Read[];
};

/**
 * A GET of an operation, with its query, below the API root; with `body`, JSON, a POST that only reads, which an admin
 * may send.
 */
export type Read = { operation: string; path: string; body?: string };

export const ORG = "acme";
export const FLOW = "large";
/** Of many small attestations. */
export const SMALL_TRAIL = "long";
/** A flow with the longest template, and its trail of many checks. */
export const CHECKED = { flow: "checked", trail: "checked" };
const FINGERPRINT = "e".repeat(64);
const COMMIT = "e".repeat(40);

/** Makes the data directory `data`, which must be empty, with the executable. */
export async function prepareLargeWorld(data: string, sizes: LargeSizes): Promise<LargeWorld> {
  const world = await copyWorld(data);
  const { admin, reader } = world.keys;
  const server = await start(["serve", "--data", data, "--listen", "127.0.0.1:0", "--log-level", "error"]);
  const client = createClient(server.url);
  try {
    await addEnvironments(client, admin, sizes);
    await addTrails(client, admin, sizes);
    await addChecks(client, admin, sizes);
  } catch (error) {
    await new Promise((resolve) => setTimeout(resolve, 500));
    throw new Error(`the world could not be made; the server wrote:\n${server.output()}`, { cause: error });
  } finally {
    client.close();
    await server.stop();
  }
  return { keys: { admin, reader }, reads: [...listReads(world, sizes), ...listPreviews(sizes)] };
}

/** Makes the data directory `data`, which must be empty, with the world of test/whole/world.ts. */
export async function copyWorld(data: string): Promise<World> {
  const world = await createWorld();
  cpSync(world.image.directory, data, { recursive: true });
  writeFileSync(join(data, "assay.db"), world.image.database);
  await world.stop();
  return world;
}

type Client = ReturnType<typeof createClient>;

/** A client that fails unless it is answered with success. */
export function createClient(url: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: 4 });
  const once = ({ method, path, key, headers, body }: AttackRequest): Promise<void> =>
    new Promise((resolve, reject) => {
      const sent = send(`${url}/api/v2${path}`, {
        method,
        agent,
        headers: { ...headers, Authorization: `Bearer ${key}`, "Content-Length": body.length },
      });
      sent.on("response", (response) => {
        let text = "";
        response.on("data", (bytes: Buffer) => (text += bytes.toString()));
        response.on("end", () => {
          if ((response.statusCode ?? 0) <= 201) resolve();
          else reject(new Error(`${method} ${path}: ${response.statusCode} ${text.slice(0, 300)}`));
        });
      });
      sent.on("error", reject);
      sent.end(body);
    });
  return { send: once, close: (): void => agent.destroy() };
}

const JUDGED = "large-judged";
/** A policy of as many rules as one may have, which nothing that runs meets; it is attached nowhere. */
const LONGEST_POLICY = "longest";
const environmentName = (index: number): string => `large-${index}`;

/** A report of so many pods; with another `version`, a fifth of them runs something else. */
export const podReport = (environment: number, count: number, version: number): string =>
  JSON.stringify({
    artifacts: Array.from({ length: count }, (_, n) => {
      const changed = n % 5 === 0 ? version : 0;
      const digest = n === 0 ? FINGERPRINT : (environment * 1e9 + changed * 1e8 + n).toString(16).padStart(64, "0");
      const name = `registry.example.com/team-${n % 50}/service-${n}:1.${changed}`;
      return {
        podName: `pod-${n}`,
        namespace: "shop",
        digests: { [name]: digest },
        creationTimestamp: 1_700_000_000,
        owners: [],
      };
    }),
  });

async function addEnvironments(client: Client, key: string, { artifacts, judged }: LargeSizes): Promise<void> {
  const create = (body: object) => client.send(jsonRequest("PUT", `/environments/${ORG}`, key, JSON.stringify(body)));
  const names = artifacts.map((_, index) => environmentName(index));
  for (const name of names) await create({ name, type: "K8S", description: "" });
  await create({ name: "large-all", type: "logical", description: "", included_environments: names });
  await create({ name: JUDGED, type: "K8S", description: "" });
  const policies = JSON.stringify({ policy_names: ["tested"] });
  await client.send(jsonRequest("POST", `/environments/${ORG}/${JUDGED}/policies`, key, policies));
  const report = (name: string, body: string) =>
    client.send(jsonRequest("PUT", `/environments/${ORG}/${name}/report/K8S`, key, body));
  for (const [index, count] of artifacts.entries())
    for (const version of index === 0 ? [1, 2] : [1])
      await report(environmentName(index), podReport(index, count, version));
  await report(JUDGED, podReport(artifacts.length, judged, 1));
  const rules = Array.from({ length: 250 }, (_, n) => `    - { type: generic, name: attestation-${n} }`);
  const content = ["_schema: /v1", "artifacts:", "  attestations:", ...rules].join("\n");
  const payload = { field: "payload", json: JSON.stringify({ name: LONGEST_POLICY }) };
  await client.send(
    formRequest("PUT", `/policies/${ORG}`, key, { ...payload, file: { part: "policy_file", content } }),
  );
}

async function addTrails(client: Client, key: string, sizes: LargeSizes): Promise<void> {
  const form = (method: string, path: string, json: object) =>
    client.send(formRequest(method, path, key, { json: JSON.stringify(json) }));
  const attest = (trail: string, name: string, user_data: object) =>
    form("POST", `/attestations/${ORG}/${FLOW}/trail/${trail}/generic`, {
      attestation_name: name,
      is_compliant: true,
      user_data,
    });
  await form("PUT", `/flows/${ORG}/template_file`, { name: FLOW, description: "" });
  const built = Array.from({ length: 50 }, (_, n) => `built-${n}`);
  for (const name of ["wide", SMALL_TRAIL, ...built]) await form("PUT", `/trails/${ORG}/${FLOW}`, { name });
  const build = (fingerprint: string, trail_name: string, name: string) => {
    const urls = { build_url: "https://ci.test/1", commit_url: "https://git.test/1" };
    const artifact = { fingerprint, filename: name, git_commit: COMMIT, trail_name, template_reference_name: name };
    return client.send(jsonRequest("POST", `/artifacts/${ORG}/${FLOW}`, key, JSON.stringify({ ...artifact, ...urls })));
  };
  await build(FINGERPRINT, "wide", "service");
  const text = "x".repeat(sizes.attestationBytes);
  for (let n = 0; n < sizes.attestations; n += 1) await attest("wide", `wide-${n}`, { text });
  const numbers = Array.from({ length: sizes.history }, (_, n) => n);
  while (numbers.length > 0)
    await Promise.all(numbers.splice(0, 4).map((n) => attest(SMALL_TRAIL, `long-${n % 50}`, { n })));
  for (let n = 1; n <= sizes.history; n += 1)
    await build(n.toString(16).padStart(64, "0"), `built-${n % 50}`, `service-${n}`);
}

/** A template that expects as many attestations as one may. */
function longestTemplate(prefix: string): string {
  const names = Array.from(
    { length: MAX_TEMPLATE_ENTRIES - 1 },
    (_, n) => `    - {name: ${prefix}-${n}, type: generic}`,
  );
  return ["version: 1", "trail:", "  attestations:", ...names].join("\n");
}

/** Of 95 % of the expected attestations nothing is reported. */
async function addChecks(client: Client, key: string, { checks }: LargeSizes): Promise<void> {
  const { flow, trail } = CHECKED;
  const file = { part: "template_file", content: longestTemplate("check") };
  const json = (value: object): string => JSON.stringify(value);
  await client.send(
    formRequest("PUT", `/flows/${ORG}/template_file`, key, { json: json({ name: flow, description: "" }), file }),
  );
  await client.send(formRequest("PUT", `/trails/${ORG}/${flow}`, key, { json: json({ name: trail }) }));
  for (let n = 0; n < checks; n += 1)
    await client.send(
      formRequest("POST", `/attestations/${ORG}/${flow}/trail/${trail}/generic`, key, {
        json: json({ attestation_name: n % 20 === 0 ? `check-${n}` : `further-${n}`, is_compliant: n % 3 > 0 }),
      }),
    );
}

/** What stands in the place of the path parameters: everything large. */
const TARGETS: readonly Readonly<Record<string, string>>[] = [
  { env_name: environmentName(0), trail_name: "wide", attestation_name: "wide-0" },
  { env_name: "large-all", trail_name: SMALL_TRAIL, attestation_name: "long-0" },
  { env_name: JUDGED, flow_name: CHECKED.flow, trail_name: CHECKED.trail, attestation_name: "check-0" },
].map((target) => ({
  flow_name: FLOW,
  ...target,
  fingerprint: FINGERPRINT,
  commit_sha: COMMIT,
  snapshot_expression: "-1",
  search_value: FINGERPRINT.slice(0, 12),
}));

function listReads(world: World, { artifacts }: LargeSizes): Read[] {
  const reads = new Map<string, Read>();
  for (const operation of operations.filter(({ method, status }) => method === "GET" && status !== "removed"))
    for (const target of TARGETS)
      for (const query of queriesOf(operation, target, artifacts.length)) {
        const path = `${pathOf(operation, world, target)}${query}`;
        reads.set(path, { operation: operation.id, path });
      }
  return [...reads.values()];
}

/** Previews of the changes that look at the most, or whose answers are the largest. */
function listPreviews({ artifacts }: LargeSizes): Read[] {
  const members = [...artifacts.map((_, index) => environmentName(index)), JUDGED];
  const [environment, all] = [environmentName(0), "large-all"];
  const template = (flow_name: string) => ({ flow_name, template_file: longestTemplate("other") });
  const changes: readonly object[] = [
    { attach_policies: { environment, policy_names: [LONGEST_POLICY] } },
    { detach_policies: { environment: JUDGED, policy_names: ["tested"] } },
    { edit_template: template(FLOW) },
    { edit_template: template(CHECKED.flow) },
    { set_members: { environment: all, included_environments: members } },
    { archive_environment: { environment } },
    { archive_flow: { flow_name: FLOW } },
  ];
  return changes.map((change) => ({
    operation: "preview_change",
    path: `/previews/${ORG}`,
    body: JSON.stringify(change),
  }));
}

function pathOf({ id, path }: AssayOperation, world: World, target: Readonly<Record<string, string>>): string {
  return path.replace(/\{(\w+)\*?\}/g, (_, name: string) => {
    const value = name === "org" ? ORG : (target[name] ?? world.places[id]?.[name] ?? world.values[name]?.[0]);
    if (value === undefined) throw new Error(`${id}: test/whole/world.ts has no value of ${name}`);
    return encodeURIComponent(value);
  });
}

type Parameters = { properties: Record<string, { maximum?: number }>; required?: string[] };

/** Queries that ask for as much as the operation gives. */
function queriesOf(
  { query, example }: AssayOperation,
  target: Readonly<Record<string, string>>,
  environments: number,
): string[] {
  const { properties, required = [] } = query as unknown as Parameters;
  if ("snappish1" in properties) {
    const last = environmentName(environments - 1);
    const pairs = [
      [`${environmentName(0)}#1`, `${environmentName(0)}#2`],
      [environmentName(0), last],
    ].map(([one, other]) => ({ snappish1: one, snappish2: other }));
    if (!("at" in properties)) return pairs.map(queryText);
    const at = new Date().toISOString();
    const more = [{}, { search: "service-1" }, { kind: "started" }, { kind: "unchanged", at, per_page: 100 }];
    return pairs.flatMap((pair) => more.map((one) => queryText({ ...pair, ...one })));
  }
  // Binders of everything until now; not until the request, so that all of them are the same.
  if ("control" in properties && "flow" in properties) {
    const period = { from: "2001-01-01", to: (Date.now() / 1000).toFixed(3) };
    const { env_name: environment, flow_name: flow } = target;
    return [queryText({ environment, ...period }), queryText({ flow, ...period })];
  }
  // A moment at which all of it was there.
  const given: Record<string, unknown> = "at" in properties ? { at: new Date().toISOString() } : {};
  for (const name of required)
    if (!(name in given) && name in (example.query ?? {})) given[name] = target[name] ?? example.query?.[name];
  if ("commit_list" in properties) given["commit_list"] = COMMIT;
  const most = ["per_page", "page_size", "limit"].filter((name) => name in properties);
  const narrowed = NARROWED.flatMap((one) =>
    Object.keys(one).every((name) => name in properties) ? [queryText({ ...given, ...one })] : [],
  );
  if (most.length === 0) return [queryText(given), ...narrowed];
  const all = Object.fromEntries(most.map((name) => [name, properties[name]?.maximum ?? 100]));
  return [queryText(given), queryText({ ...given, ...all }), ...narrowed];
}

/** Filters that look through all there is, for operations that have them; an unknown state is refused. */
const NARROWED: readonly Readonly<Record<string, unknown>>[] = [
  { search: "service-1" },
  { name: "service-1" },
  { counts: true },
  { counts: true, state: "UNKNOWN" },
  { state: "NON-COMPLIANT" },
  { show: "failing" },
  { kinds: "record" },
  { kind: "exited" },
];

function queryText(values: Readonly<Record<string, unknown>>): string {
  const pairs = Object.entries(values).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((one) => `${name}=${encodeURIComponent(String(one))}`),
  );
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}
