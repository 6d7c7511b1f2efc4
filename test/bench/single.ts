// Requests that are too large or too few for a comparison of throughput: one at a time, in processor time of the main
// thread, which is how long all others wait. The 25th percentile counts, as in slices.ts.
import { setTimeout as sleep } from "node:timers/promises";
import Database from "better-sqlite3";
import { join } from "node:path";
import { createAsk, quantile, sort } from "./ask.ts";
import type { Ask } from "./ask.ts";
import { WRITE, WRITE_WITH_FILE } from "./lines.ts";
import { drive } from "./load.ts";
import { ms } from "./print.ts";
import { startMeter } from "./processes.ts";
import type { Server } from "./processes.ts";
import { reportOf } from "./runtime-world.ts";
import { CONNECTIONS } from "./slices.ts";
import { describeGrowth, storageOf } from "./storage.ts";
import { atMost, judge } from "./targets.ts";
import type { Target } from "./targets.ts";
import { ENVIRONMENT_POLICIES, ORG, SMALL_FLOWS, TRAILS, fingerprintOf, spreadAttestation } from "./world.ts";

const CLUSTER = "cluster";
const LARGE_CLUSTER = "large-cluster";
const LARGE_ARTIFACTS = 10_000;
const TIMES = 40;
const PER_PAGE = 50;
/** What the server still does after a response, such as its log line, belongs to the request. */
const SETTLE_MS = 3;
const STORED_ATTESTATIONS = 5_000;

type Measured = { server: Server; ask: Ask };

const environmentPath = (name: string): string => `/environments/${ORG}/${name}`;
export const reportPath = (name: string): string => `${environmentPath(name)}/report/K8S`;
export const snapshotPath = (name: string): string => `/snapshots/${ORG}/${name}/-1`;
export const trailsPath = (page: number): string => `/trails/${ORG}?per_page=${PER_PAGE}&page=${page}`;

/** The report of all artifacts; with `changed`, another image runs in place of the first one. */
export const clusterReport = (changed: boolean): Buffer =>
  reportOf(
    Array.from({ length: TRAILS }, (_, n) => ({
      image: `registry.example.com/acme/backend-${n}:1.4.0`,
      fingerprint: n === 0 && changed ? fingerprintOf(TRAILS) : fingerprintOf(n),
    })),
  );

export const createCluster = (ask: Ask, name: string): Promise<unknown> =>
  ask("PUT", `/environments/${ORG}`, { name, type: "K8S", description: "", policies: ENVIRONMENT_POLICIES }, 201);

/** Writes an attestation to the trail of every small flow: the lists of trails change. */
export const rewriteSmallFlows = (url: string): Promise<unknown> =>
  drive({
    url,
    connections: 8,
    expect: 201,
    next: (n) => (n < SMALL_FLOWS ? spreadAttestation(n, "small flows") : null),
  });

const writeElsewhere = (url: string, trail: number): Promise<unknown> =>
  drive({
    url,
    connections: 1,
    expect: 201,
    next: (n) => (n === 0 ? spreadAttestation(trail, "large flow") : null),
  });

/** Measures requests one at a time; `before` prepares each of them and is not measured. */
async function each(
  title: string,
  { server, times, target }: { server: Server; times: number; target: Target | null },
  { before, request }: { before?: (n: number) => Promise<unknown>; request: (n: number) => Promise<unknown> },
): Promise<void> {
  const costs: { main: number; all: number }[] = [];
  for (let n = 0; n < times; n += 1) {
    await before?.(n);
    await sleep(SETTLE_MS);
    const used = startMeter(server.pid);
    await request(n);
    await sleep(SETTLE_MS);
    costs.push(used());
  }
  const [main, all] = [sort(costs.map((cost) => cost.main * 1000)), sort(costs.map((cost) => cost.all * 1000))];
  const detail =
    `median ${ms(quantile(main, 0.5))}, most ${ms(main.at(-1) ?? 0)}; ` + `all threads ${ms(quantile(all, 0.25))}`;
  judge(`${title}, main thread`, quantile(main, 0.25), target, detail);
}

const limit = (reach: number, stretch: number): Target => atMost(reach, stretch, " ms");

/** A list of trails over as many flows; each page is requested once after all its trails were rewritten. */
async function lists({ server, ask }: Measured): Promise<void> {
  const pages = SMALL_FLOWS / PER_PAGE;
  await each(
    `list of ${PER_PAGE} trails over ${SMALL_FLOWS} flows`,
    { server, times: 3 * pages, target: limit(8, 4) },
    {
      before: async (n) => n % pages === 0 && rewriteSmallFlows(server.url),
      request: (n) => ask("GET", trailsPath(1 + (n % pages))),
    },
  );
}

/** Reports and snapshots of an environment in which all artifacts run. */
async function environment({ server, ask }: Measured, db: Database.Database): Promise<void> {
  const jobs = db.prepare("SELECT count(*) FROM jobs").pluck();
  const settled = async (): Promise<void> => {
    while (jobs.get() !== 0) await sleep(SETTLE_MS);
  };
  const [plain, other] = [clusterReport(false), clusterReport(true)];
  const report = (body: Buffer): Promise<unknown> => ask("PUT", reportPath(CLUSTER), body, [200, 201]);
  await createCluster(ask, CLUSTER);
  await report(plain);
  const reading = { request: () => ask("GET", snapshotPath(CLUSTER)) };
  const options = { server, times: TIMES };
  await each(`report of ${TRAILS}, identical`, { ...options, target: limit(1, 0.5) }, { request: () => report(plain) });
  let turn = false;
  const change = async (): Promise<void> => {
    await report((turn = !turn) ? other : plain);
    await settled();
  };
  await each(
    `report of ${TRAILS}, one changed`,
    { ...options, target: null },
    { before: settled, request: () => report((turn = !turn) ? other : plain) },
  );
  await each(
    `latest snapshot of ${TRAILS}, written elsewhere`,
    { ...options, target: limit(20, 10) },
    { ...reading, before: (n) => writeElsewhere(server.url, n) },
  );
  await each(
    `latest snapshot of ${TRAILS}, just changed`,
    { ...options, target: limit(20, 10) },
    { ...reading, before: change },
  );
  await largeEnvironment({ server, ask });
}

/** A snapshot that is made in the reader thread: the main thread only sends it. */
async function largeEnvironment({ server, ask }: Measured): Promise<void> {
  await createCluster(ask, LARGE_CLUSTER);
  const artifacts = Array.from({ length: LARGE_ARTIFACTS }, (_, n) => ({
    image: `registry.example.com/acme/backend-${n}:1.4.0`,
    fingerprint: fingerprintOf(n),
  }));
  await ask("PUT", reportPath(LARGE_CLUSTER), reportOf(artifacts), [200, 201]);
  await each(
    `latest snapshot of ${LARGE_ARTIFACTS}, unchanged`,
    { server, times: 10, target: limit(150, 75) },
    { request: () => ask("GET", snapshotPath(LARGE_CLUSTER)) },
  );
}

/** All bytes that an attestation adds to the database, with its indexes, events and audit entry. */
async function bytes({ server }: Measured, db: Database.Database): Promise<void> {
  const kinds = [
    ["database bytes for an attestation", WRITE, atMost(2500, 2000, "")],
    ["... with 1 KB of evidence", WRITE_WITH_FILE, null],
  ] as const;
  for (const [title, work, target] of kinds) {
    const before = storageOf(db);
    await drive({
      url: server.url,
      connections: CONNECTIONS,
      expect: work.expect,
      next: (n) => (n < STORED_ATTESTATIONS ? work.next(n) : null),
    });
    const after = storageOf(db);
    const each = (after.bytes - before.bytes) / STORED_ATTESTATIONS;
    judge(title, each, target, describeGrowth(before, after, STORED_ATTESTATIONS));
  }
}

/** Measures what `only` selects: "single" all of it, "bytes" what an attestation adds to the database. */
export async function measureSingle(server: Server, data: string, only: RegExp): Promise<void> {
  const db = new Database(join(data, "assay.db"), { readonly: true });
  const measured: Measured = { server, ask: createAsk(server.url) };
  if (only.test("bytes")) {
    console.log("");
    await bytes(measured, db);
  }
  if (only.test("single")) {
    console.log("\nOne request at a time, processor time");
    await lists(measured);
    await environment(measured, db);
  }
  db.close();
}
