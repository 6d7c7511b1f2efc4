// Runtime environments: how long the server takes for reports and for reading their results, how long it blocks other
// requests meanwhile, and what it stores. One request at a time, on a server and a data directory of its own; `server`
// is the time in its log line, from the head of the request to the end of the response, beside the time at this client.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import Database from "better-sqlite3";
import { EXECUTABLE } from "../binary/executable.ts";
import { createAsk, createTimed, median, quantile, sort } from "./ask.ts";
import type { Answer, Ask, Timed, Times } from "./ask.ts";
import { startProbe } from "./probe.ts";
import type { Holds, Probe } from "./probe.ts";
import { memory, startMeter, startServer } from "./processes.ts";
import type { Server } from "./processes.ts";
import { figure, kilobytes, ms } from "./print.ts";
import {
  POLICIES,
  RELEASED_TWICE,
  SERVICES,
  clusterReport,
  largeReport,
  policyVersion,
  populateRuntime,
} from "./runtime-world.ts";
import { drive } from "./load.ts";
import { describeGrowth, storageOf } from "./storage.ts";
import { APPLY_FILE, ORG } from "./world.ts";

/** Environments with a thousand artifacts, each for one first report. */
const CLUSTERS = 5;
const UNCHANGED = 60;
const CHANGED = 500;
const REPORTERS = 300;
const REPORTER_ARTIFACTS = 50;
/** The reports of one reporter in a day. */
const UNCHANGED_ROWS = 1_440;
const ENVIRONMENTS = 500;
const SNAPSHOTS = 10_000;
const READS = 50;
/** Its body is above the default limit. */
const LARGE = { artifacts: 10_000, replicas: 10 };

type Bench = { server: Server; probe: Probe; db: Database.Database; ask: Ask; timed: Timed };

/** The services of every cluster. */
const plain = clusterReport(0, SERVICES);

const environmentPath = (name: string): string => `/environments/${ORG}/${name}`;
const reportPath = (name: string): string => `${environmentPath(name)}/report/K8S`;
const latestPath = `/snapshots/${ORG}/cluster-0/-1`;
const createEnvironment = ({ ask }: Bench, name: string, policies: readonly string[]): Promise<Answer> =>
  ask("PUT", `/environments/${ORG}`, { name, type: "K8S", description: "A cluster", policies }, 201);

/** A time with a target, in milliseconds. */
function time(title: string, { server, client, least, most, count }: Times, target: number, more = ""): void {
  const detail = `median of ${count}, ${ms(least)} to ${ms(most)}; the client saw ${ms(client)}${more}`;
  figure(title, ms(server), detail, { text: `<= ${target} ms`, good: server <= target });
}

/** One after the other. */
async function repeat<T>(times: number, work: (n: number) => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  for (let n = 0; n < times; n += 1) results.push(await work(n));
  return results;
}

/** The longest hold of each run; the median of them counts, because a noisy machine makes one of them long. */
function hold(title: string, runs: readonly Holds[], target: number | null, more = ""): void {
  const longest = sort(runs.map((times) => times.at(-1) ?? Number.NaN));
  const all = sort(runs.flat());
  const detail =
    `longest of each run: ${longest.map(ms).join(", ")}; ` +
    `p99 of ${all.length} probes ${ms(quantile(all, 0.99))}, median ${ms(quantile(all, 0.5))}${more}`;
  const middle = median(longest);
  figure(title, ms(middle), detail, target === null ? null : { text: `<= ${target} ms`, good: middle <= target });
}

/** Waits until all jobs that earlier requests left are done. */
async function settled({ db }: Bench): Promise<void> {
  const jobs = db.prepare("SELECT count(*) FROM jobs").pluck();
  while (jobs.get() !== 0) await sleep(2);
}

async function reports(bench: Bench): Promise<void> {
  const { ask, timed } = bench;
  await repeat(CLUSTERS, (n) => createEnvironment(bench, `cluster-${n}`, POLICIES));
  console.log(
    `\nReports of ${SERVICES} artifacts with provenance under ${POLICIES.length} policies, ` +
      `${kilobytes(plain.length)} each; server time`,
  );

  const first = await timed(await repeat(CLUSTERS, (n) => ask("PUT", reportPath(`cluster-${n}`), plain, 201)));
  time("first report", first, 400);
  await repeat(10, () => ask("PUT", reportPath("cluster-0"), plain));
  time("unchanged report", await timed(await repeat(UNCHANGED, () => ask("PUT", reportPath("cluster-0"), plain))), 25);

  const before = storageOf(bench.db);
  // One service after the other gets its second release, and in the next round its first one again.
  const released = new Set<number>();
  const changed = await repeat(CHANGED, (n) => {
    const service = n % RELEASED_TWICE;
    if (!released.delete(service)) released.add(service);
    return ask("PUT", reportPath("cluster-0"), clusterReport(0, SERVICES, released), 201);
  });
  time("one artifact changed", await timed(changed), 60);
  const after = storageOf(bench.db);

  const bytes = (after.bytes - before.bytes) / CHANGED;
  figure("growth of the database per changed snapshot", kilobytes(bytes), describeGrowth(before, after, CHANGED));
}

/** Probes during each of these: receiving, reading and validating the body are included. */
async function waits(bench: Bench): Promise<void> {
  const { ask, timed, probe } = bench;
  await repeat(CLUSTERS, (n) => createEnvironment(bench, `probed-${n}`, POLICIES));
  console.log("\nHow long the event loop was blocked: the longest wait for /ready in a run, median of the runs");
  hold("nothing", await repeat(CLUSTERS, () => probe.during(() => sleep(500))), null);
  hold(
    "unchanged report",
    await repeat(CLUSTERS, () => probe.during(() => ask("PUT", reportPath("cluster-1"), plain))),
    null,
  );
  hold("reading the latest snapshot", await repeat(CLUSTERS, () => probe.during(() => ask("GET", latestPath))), null);
  hold(
    "first report",
    await repeat(CLUSTERS, (n) => probe.during(() => ask("PUT", reportPath(`probed-${n}`), plain, 201))),
    20,
  );
  const policy = { policy_names: [POLICIES[2]] };
  const attached: Answer[] = [];
  const attaching = await repeat(CLUSTERS, async (n) => {
    await ask("DELETE", `${environmentPath(`probed-${n}`)}/policies`, policy);
    return probe.during(async () =>
      attached.push(await ask("POST", `${environmentPath(`probed-${n}`)}/policies`, policy)),
    );
  });
  hold("attaching a policy", attaching, 20, `; answered after ${ms((await timed(attached)).server)}`);
  let took = 0;
  const versions = await repeat(6, (n) =>
    probe.during(async () => {
      const startedAt = performance.now();
      await drive({
        url: bench.server.url,
        connections: 1,
        expect: 200,
        next: (m) => (m === 0 ? policyVersion(POLICIES[2], n % 2 === 0) : null),
      });
      await settled(bench);
      took = performance.now() - startedAt;
    }),
  );
  hold(
    "new policy version that flips all verdicts",
    versions,
    20,
    `; ${2 * CLUSTERS} environments evaluated again in ${ms(took)}, the last time`,
  );
}

/** The number of rows of every table. */
function rowCounts({ db }: Bench): Map<string, number> {
  const tables = db.prepare<[], { name: string }>("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
  return new Map(tables.map(({ name }) => [name, db.prepare(`SELECT count(*) FROM ${name}`).pluck().get() as number]));
}

async function reporters(bench: Bench): Promise<void> {
  const { ask, server } = bench;
  const bodies = Array.from({ length: REPORTERS }, (_, n) => clusterReport(n * 3, REPORTER_ARTIFACTS));
  for (const [n, body] of bodies.entries()) {
    await createEnvironment(bench, `namespace-${n}`, POLICIES);
    await ask("PUT", reportPath(`namespace-${n}`), body, 201);
  }
  for (let n = 2 * CLUSTERS + REPORTERS; n < ENVIRONMENTS; n += 1)
    await createEnvironment(bench, `idle-${n}`, POLICIES);

  const rows = rowCounts(bench);
  const used = startMeter(server.pid);
  const answers = await repeat(UNCHANGED_ROWS, (n) =>
    ask("PUT", reportPath(`namespace-${n % REPORTERS}`), bodies[n % REPORTERS] as Buffer),
  );
  const cost = used();
  const grown = [...rowCounts(bench)]
    .map(([name, count]) => ({ name, added: count - (rows.get(name) ?? 0) }))
    .filter(({ added }) => added !== 0);
  figure(
    `rows added by ${UNCHANGED_ROWS} unchanged reports`,
    String(grown.reduce((sum, { added }) => sum + added, 0)),
    grown.map(({ name, added }) => `${name} ${added}`).join(", "),
    { text: "0", good: grown.length === 0 },
  );

  const seconds = cost.all / UNCHANGED_ROWS;
  const share = (seconds * REPORTERS) / 60;
  const times = await bench.timed(answers);
  console.log(
    `\n${REPORTERS} reporters of ${REPORTER_ARTIFACTS} artifacts (${kilobytes(bodies[0]?.length ?? 0)}) ` +
      "with an unchanged report a minute",
  );
  figure(
    "CPU of one core",
    `${(share * 100).toFixed(2)}%`,
    `${(seconds * 1000).toFixed(2)} ms of CPU a report, of all threads; ` +
      `server time ${ms(times.server)}, client time ${ms(times.client)}`,
    {
      text: "< 5%",
      good: share < 0.05,
    },
  );
}

async function reads(bench: Bench): Promise<void> {
  const { ask, timed } = bench;
  const read = async (title: string, path: string, target: number): Promise<void> => {
    await repeat(10, () => ask("GET", path));
    const times = await timed(await repeat(READS, () => ask("GET", path)));
    time(title, times, target, `; the answer has ${kilobytes(times.bytes)}`);
  };
  console.log("\nReads; server time");
  await read(`latest snapshot of ${SERVICES} artifacts`, latestPath, 30);
  await read(`list of ${ENVIRONMENTS} environments`, `/environments/${ORG}`, 10);

  await createEnvironment(bench, "restless", POLICIES);
  const flip = [clusterReport(0, 1), clusterReport(0, 1, new Set([0]))] as const;
  await repeat(SNAPSHOTS, (n) => ask("PUT", reportPath("restless"), flip[n % 2 === 0 ? 0 : 1], 201));
  const snapshots = `/snapshots/${ORG}/restless`;
  await read(`first page of ${SNAPSHOTS} snapshots`, snapshots, 10);
  await read("... last page", `${snapshots}?page=${Math.ceil(SNAPSHOTS / 15)}`, 10);
  const events = `${environmentPath("restless")}/events`;
  const pages = Number((await ask("GET", events)).headers["x-total-pages"]);
  await read(`first page of the events of ${SNAPSHOTS} snapshots`, events, 10);
  await read(`... page ${Math.floor(pages / 2)}`, `${events}?page=${Math.floor(pages / 2)}`, 10);
  await read(`... page ${pages}, the last`, `${events}?page=${pages}`, 10);
}

async function large(bench: Bench): Promise<void> {
  const { ask, timed, probe, server } = bench;
  const body = largeReport(LARGE.artifacts, LARGE.replicas);
  await createEnvironment(bench, "large", POLICIES);
  console.log("\nMemory");
  const before = memory(server.pid).now;
  figure("after all of the above", `${Math.round(before)} MB`, "");
  let most = before;
  const watch = setInterval(() => (most = Math.max(most, memory(server.pid).now)), 20);
  const answers: Answer[] = [];
  const holds = await probe.during(async () => answers.push(await ask("PUT", reportPath("large"), body, 201)));
  clearInterval(watch);
  const { server: took, client } = await timed(answers);
  figure(
    `growth while ${LARGE.artifacts * LARGE.replicas} pods are reported`,
    `+${Math.round(most - before)} MB`,
    `${LARGE.artifacts} artifacts, ${(body.length / 1e6).toFixed(1)} MB; ` +
      `server time ${ms(took)}, client time ${ms(client)}, event loop blocked for at most ${ms(holds.at(-1) ?? 0)}`,
  );
  figure("afterwards", `${Math.round(memory(server.pid).now)} MB`, "");
}

/** Measures the runtime part below the directory `root`. */
export async function measureRuntime(root: string): Promise<void> {
  const data = join(root, "runtime");
  const log = join(root, "runtime.log");
  const file = join(root, "runtime.yml");
  writeFileSync(file, APPLY_FILE);
  const server = await startServer(
    [EXECUTABLE, "serve", "--data", data, "--listen", "127.0.0.1:0", "--bootstrap", file, "--log-level", "info"],
    {
      output: log,
      env: { ASSAY_JSON_LIMIT: "64MB" },
    },
  );
  await populateRuntime(server.url);
  const probe = startProbe(server.url);
  const db = new Database(join(data, "assay.db"), { readonly: true });
  const bench: Bench = { server, probe, db, ask: createAsk(server.url), timed: createTimed(log) };
  await reports(bench);
  await waits(bench);
  await reporters(bench);
  await reads(bench);
  await large(bench);
  db.close();
  await probe.stop();
  await server.stop();
}
