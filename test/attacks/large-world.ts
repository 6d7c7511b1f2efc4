/**
 * The world of test/whole/world.ts, made large: environments of tens of thousands of artifacts and a logical one over
 * all of them, attestations of megabytes, a trail with a long history. And the reads of every operation on it.
 */
import { cpSync, writeFileSync } from "node:fs";
import { Agent, request as send } from "node:http";
import { join } from "node:path";
import { operations } from "../../src/api/index.ts";
import type { AssayOperation } from "../../src/api/context.ts";
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
  /** Attestations of another trail. */
  history: number;
};

export type LargeWorld = {
  /** Keys of an admin and of a reader. */
  keys: { admin: string; reader: string };
  reads: readonly Read[];
};

/** A GET of an operation, with its query, below the API root. */
export type Read = { operation: string; path: string };

export const ORG = "acme";
export const FLOW = "large";
/** Of many small attestations. */
export const SMALL_TRAIL = "long";
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
  } catch (error) {
    await new Promise((resolve) => setTimeout(resolve, 500));
    throw new Error(`the world could not be made; the server wrote:\n${server.output()}`, { cause: error });
  } finally {
    client.close();
    await server.stop();
  }
  return { keys: { admin, reader }, reads: listReads(world, sizes) };
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
  for (const name of ["wide", SMALL_TRAIL]) await form("PUT", `/trails/${ORG}/${FLOW}`, { name });
  await client.send(
    jsonRequest(
      "POST",
      `/artifacts/${ORG}/${FLOW}`,
      key,
      JSON.stringify({
        fingerprint: FINGERPRINT,
        filename: "service",
        git_commit: COMMIT,
        build_url: "https://ci.test/1",
        commit_url: "https://git.test/1",
        trail_name: "wide",
        template_reference_name: "service",
      }),
    ),
  );
  const text = "x".repeat(sizes.attestationBytes);
  for (let n = 0; n < sizes.attestations; n += 1) await attest("wide", `wide-${n}`, { text });
  const numbers = Array.from({ length: sizes.history }, (_, n) => n);
  while (numbers.length > 0)
    await Promise.all(numbers.splice(0, 4).map((n) => attest(SMALL_TRAIL, `long-${n % 50}`, { n })));
}

/** What stands in the place of the path parameters: everything large. */
const TARGETS: readonly Readonly<Record<string, string>>[] = [
  { env_name: environmentName(0), trail_name: "wide", attestation_name: "wide-0" },
  { env_name: "large-all", trail_name: SMALL_TRAIL, attestation_name: "long-0" },
  { env_name: JUDGED, trail_name: "wide", attestation_name: "wide-0" },
].map((target) => ({
  ...target,
  flow_name: FLOW,
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
    ];
    return pairs.map(([one, other]) => queryText({ snappish1: one, snappish2: other }));
  }
  // Binders of everything until now; not until the request, so that all of them are the same.
  if ("control" in properties && "flow" in properties) {
    const period = { from: "2001-01-01", to: (Date.now() / 1000).toFixed(3) };
    const { env_name: environment, flow_name: flow } = target;
    return [queryText({ environment, ...period }), queryText({ flow, ...period })];
  }
  const given: Record<string, unknown> = {};
  for (const name of required) if (name in (example.query ?? {})) given[name] = target[name] ?? example.query?.[name];
  if ("commit_list" in properties) given["commit_list"] = COMMIT;
  const most = ["per_page", "page_size", "limit"].filter((name) => name in properties);
  if (most.length === 0) return [queryText(given)];
  const all = Object.fromEntries(most.map((name) => [name, properties[name]?.maximum ?? 100]));
  return [queryText(given), queryText({ ...given, ...all })];
}

function queryText(values: Readonly<Record<string, unknown>>): string {
  const pairs = Object.entries(values).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((one) => `${name}=${encodeURIComponent(String(one))}`),
  );
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}
