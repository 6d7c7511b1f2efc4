// The pages of the web interface on the large database of data.ts: how long the server takes for each, on the clock and
// in processor time of all its threads, how large it is, and how long its event loop is held. One request at a time,
// with the cookie of a session. Processor time hardly depends on what else the machine does; the holds are measured in
// it by a probe inside a server of this checkout.
import { join } from "node:path";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";
import { mkdirSync } from "node:fs";
import { newPublicId } from "../../src/clock.ts";
import { openDatabase } from "../../src/store/db/database.ts";
import { cookieDigest } from "../../src/store/accounts/sessions.ts";
import { openStore } from "../../src/store/index.ts";
import { startProbedOver } from "../attacks/probed.ts";
import { EXECUTABLE } from "../binary/executable.ts";
import { createAsk, createTimed, median, quantile, sort } from "./ask.ts";
import type { Answer, Ask, Times } from "./ask.ts";
import { ARTIFACTS, DATA, commitOf, environmentName, fingerprintOf, flowName } from "./data.ts";
import { drive, sendForm } from "./load.ts";
import { kilobytes, ms, row, reached } from "./print.ts";
import { startMeter, startServer } from "./processes.ts";
import { largeReport } from "./runtime-world.ts";
import { atMost, judge } from "./targets.ts";
import { KEY, ORG } from "./world.ts";

/** Measured requests of a page, and warm-up requests before them. */
const REQUESTS = 40;
const WARM_UP = 8;
const TARGET_MS = 20;
const TARGET_BYTES = 60_000;
const COOKIE = "bench-session";
/** An environment of two snapshots with 10,000 artifacts each, a tenth of which exited in the second. */
const HUGE = "huge";
const HUGE_ARTIFACTS = 10_000;
/** A trail of 5,000 attestations, of 100 artifacts. */
const HUGE_TRAIL = `/flows/${flowName(0)}/trails/${HUGE}`;
const HUGE_TRAIL_ARTIFACTS = 100;
const HUGE_CHECKS = 5_000;
const POLICY_NAME = "tested";

/** `path` of the n-th request, below the organization. */
type Line = { title: string; path(n: number, facts: Facts): string; redirects?: boolean };
type Facts = {
  attestations: readonly { flow: string; trail: string; id: string }[];
  artifacts: readonly { flow: string; fingerprint: string }[];
  repo: string;
};

const attestationOf = ({ attestations }: Facts, n: number) => attestations[n % attestations.length];

const LINES: readonly Line[] = [
  { title: "overview", path: () => "" },
  { title: "search, name", path: (n) => `/search?q=service-${n}` },
  { title: "search, commit", path: (n) => `/search?q=${commitOf(n * 700).slice(0, 9)}`, redirects: true },
  { title: "flows", path: (n) => `/flows?page=${1 + (n % 5)}` },
  { title: "flow, trails", path: (n) => `/flows/${flowName(n % 10)}` },
  { title: "... of a state", path: (n) => `/flows/${flowName(n % 10)}?state=NON-COMPLIANT` },
  { title: "... by name", path: (n) => `/flows/${flowName(n % 10)}?search=${n}9` },
  { title: "flow, artifacts", path: (n) => `/flows/${flowName(n % 10)}?tab=artifacts` },
  { title: "flow, deployments", path: (n) => `/flows/${flowName(n % 10)}?tab=deployments` },
  { title: "flow, template", path: (n) => `/flows/${flowName(n % 10)}?tab=template` },
  { title: "flow, settings", path: (n) => `/flows/${flowName(n % 10)}?tab=settings` },
  { title: "trail", path: (n, facts) => trailOf(facts, n) },
  { title: "trail, drawer", path: (n, facts) => `${trailOf(facts, n)}?attestation_id=${attestationOf(facts, n)?.id}` },
  { title: `trail of ${HUGE_CHECKS}`, path: (n) => `${HUGE_TRAIL}?page=${1 + n}` },
  { title: "... searched", path: (n) => `${HUGE_TRAIL}?check=${n}` },
  { title: "... of its artifact", path: (n) => `/flows/${flowName(0)}/artifacts/${hugeFingerprint(n)}` },
  { title: "artifact", path: (n, facts) => artifactOf(facts, n) },
  { title: "environments", path: (n) => `/environments?page=${1 + (n % 2)}` },
  { title: "environment", path: (n) => `/environments/${environmentName(n % 30)}` },
  { title: "... events", path: (n) => `/environments/${environmentName(n % 30)}?tab=events` },
  { title: "... log", path: (n) => `/environments/${environmentName(n % 30)}?tab=log` },
  { title: "... deployments", path: (n) => `/environments/${environmentName(n % 30)}?tab=deployments` },
  { title: "... policies", path: (n) => `/environments/${environmentName(n % 30)}?tab=policies` },
  { title: "... settings", path: (n) => `/environments/${environmentName(n % 30)}?tab=settings` },
  { title: "snapshot", path: (n) => `/environments/${environmentName(n % 30)}/${5 + n}` },
  {
    title: "difference of snapshots",
    path: (n) => `/env-diff?left=${environmentName(n % 30)}%23${5 + n}&right=${environmentName(n % 30)}%23${9 + n}`,
  },
  { title: "... of two environments", path: (n) => `/env-diff?left=${environmentName(n % 30)}&right=${HUGE}` },
  { title: "changes", path: () => "/changes" },
  { title: "... of an environment", path: (n) => `/changes?from=30days&environment=${environmentName(n % 30)}` },
  { title: `... of ${HUGE_ARTIFACTS}`, path: (n) => `/changes?from=3000days&environment=${HUGE}&page=${1 + n}` },
  { title: `environment of ${HUGE_ARTIFACTS}`, path: (n) => `/environments/${HUGE}?page=${1 + n}` },
  { title: "... failing", path: (n) => `/environments/${HUGE}?show=failing&page=${1 + n}` },
  { title: "... changed", path: (n) => `/environments/${HUGE}?show=changed&page=${1 + (n % 30)}` },
  { title: "... snapshot before", path: () => `/environments/${HUGE}/1` },
  { title: "... events", path: () => `/environments/${HUGE}?tab=events` },
  { title: "... diff", path: () => `/env-diff?left=${HUGE}%231&right=${HUGE}%232` },
  { title: "... why", path: () => `/why?environment=${HUGE}&snapshot=2` },
  { title: "artifacts", path: (n) => `/artifacts?page=${1 + n}` },
  { title: "attestations", path: (n) => `/attestations?page=${1 + n}` },
  { title: "... filtered", path: (n) => `/attestations?flow=${flowName(n % 20)}&type=junit` },
  { title: "attestation types", path: () => "/attestation-types" },
  { title: "policies", path: () => "/policies" },
  { title: "policy", path: () => `/policies/${POLICY_NAME}` },
  { title: "... versions", path: () => `/policies/${POLICY_NAME}?tab=versions` },
  { title: "... environments", path: () => `/policies/${POLICY_NAME}?tab=environments` },
  { title: "... events", path: () => `/policies/${POLICY_NAME}?tab=events` },
  { title: "controls", path: () => "/controls" },
  { title: "repositories", path: (n) => `/repos?page=${1 + (n % 10)}` },
  { title: "repository", path: (_n, { repo }) => `/repos/${repo}` },
  { title: "... release", path: (_n, { repo }) => `/repos/${repo}?tab=release` },
  { title: "... run", path: (_n, { repo }) => `/repos/${repo}?tab=run` },
  { title: "actions", path: () => "/actions" },
  { title: "why, snapshot", path: (n) => `/why?environment=${environmentName(n % 30)}&snapshot=${5 + n}` },
  { title: "why, trail", path: (n, facts) => whyOf(facts, n) },
  { title: "settings, service accounts", path: () => "/settings/service-accounts" },
  { title: "settings, audit log", path: () => "/settings/audit-log" },
  ...["general", "members", "webhooks", "retention"].map((name) => ({
    title: `settings, ${name}`,
    path: () => `/settings/${name}`,
  })),
];

/** Of an artifact of the huge trail; the same fingerprints run nowhere. */
const hugeFingerprint = (n: number): string => fingerprintOf(-1, n % HUGE_TRAIL_ARTIFACTS);

function trailOf(facts: Facts, n: number): string {
  const { flow = "", trail = "" } = attestationOf(facts, n) ?? {};
  return `/flows/${flow}/trails/${trail}`;
}

function artifactOf({ artifacts }: Facts, n: number): string {
  const { flow = "", fingerprint = "" } = artifacts[n % artifacts.length] ?? {};
  return `/flows/${flow}/artifacts/${fingerprint}`;
}

function whyOf(facts: Facts, n: number): string {
  const { flow = "", trail = "" } = attestationOf(facts, n) ?? {};
  return `/why?flow=${flow}&trail=${trail}`;
}

/** Gives the administrator of the data a session, as if they had signed in. */
function startSession(): void {
  const now = Math.floor(Date.now() / 1000);
  const db = openDatabase(DATA, now);
  const store = openStore(db, { now: () => now, newId: newPublicId });
  const user = store.users.find("operator");
  const organization = store.organizations.find(ORG);
  if (!user || !organization) throw new Error("the data has no operator: run make bench-data again");
  db.prepare("DELETE FROM sessions WHERE user_id = ?").run(user.id);
  store.sessions.create({
    digest: cookieDigest(COOKIE),
    csrfToken: "x".repeat(43),
    userId: user.id,
    method: "password",
    address: "127.0.0.1",
    userAgent: "bench",
    idleTimeoutS: 86_400,
    lifetimeS: 86_400,
  });
  db.close();
}

/** Makes the environment HUGE, once. */
async function reportHuge(ask: Ask): Promise<void> {
  const path = `/environments/${ORG}/${HUGE}`;
  const body = { name: HUGE, type: "K8S", description: "A cluster of thousands", policies: [POLICY_NAME] };
  await ask("PUT", `/environments/${ORG}`, body, [200, 201]);
  if ((await read(ask, `/snapshots/${ORG}/${HUGE}`)).length >= 2) return;
  await ask("PUT", `${path}/report/K8S`, largeReport(HUGE_ARTIFACTS, 1), 201);
  await ask("PUT", `${path}/report/K8S`, largeReport(HUGE_ARTIFACTS * 0.9, 1), 201);
}

/** Fills the trail HUGE, once. One check in forty fails. */
async function reportHugeTrail(url: string, ask: Ask): Promise<void> {
  const place = `/attestations/${ORG}/${flowName(0)}/trail/${HUGE}`;
  const found = await ask("GET", `${place}?per_page=1`, null, [200, 404]);
  const { pagination = { total: 0 } } = JSON.parse(found.body.toString("utf8"));
  if (pagination.total === 0)
    for (let n = 0; n < HUGE_TRAIL_ARTIFACTS; n += 1)
      await ask(
        "POST",
        `/artifacts/${ORG}/${flowName(0)}`,
        {
          trail_name: HUGE,
          template_reference_name: `service-${n}`,
          fingerprint: hugeFingerprint(n),
          filename: `service-${n}`,
          git_commit: commitOf(n),
          build_url: "https://ci.example.com/runs/1",
          commit_url: "https://git.example.com/commit/1",
        },
        201,
      );
  const attestation = (n: number) => ({
    attestation_name: `check-${Math.floor(n / HUGE_TRAIL_ARTIFACTS)}`,
    artifact_fingerprint: hugeFingerprint(n),
    is_compliant: n % 40 !== 0,
  });
  const report = (n: number): Buffer =>
    sendForm("POST", `/api/v2${place}/generic`, KEY, { field: "data_json", value: attestation(n) });
  const reports = { url, connections: 1, expect: 201 };
  await drive({ ...reports, next: (n) => (pagination.total + n < HUGE_CHECKS ? report(pagination.total + n) : null) });
}

const read = async (ask: Ask, path: string): Promise<any> => JSON.parse((await ask("GET", path)).body.toString("utf8"));

/** What the addresses of pages need to know. */
async function findFacts(ask: Ask): Promise<Facts> {
  const { data } = await read(ask, `/attestations/${ORG}?flow=${flowName(1)}&per_page=50`);
  const artifacts = await read(ask, `/artifacts/${ORG}?flow_name=${flowName(0)}&per_page=50`);
  const repos = await read(ask, `/repos/${ORG}?per_page=1`);
  return {
    attestations: data.map((one: any) => ({ flow: one.flow_name, trail: one.trail_name, id: one.attestation_id })),
    artifacts: artifacts.map((one: any) => ({ flow: flowName(0), fingerprint: one.fingerprint })),
    repo: repos.repos[0].id,
  };
}

/** What one page took; `holds` in milliseconds, ascending. `processor`: milliseconds of all threads, the median. */
type Measured = { times: Times; bytes: number; processor: number; holds: readonly number[] };

/**
 * Measures pages, and prints a line for each.
 * @param command the executable that serves, with its arguments before `serve`
 * @param only titles of pages
 */
export async function measurePages(
  root: string,
  command: readonly string[] = [EXECUTABLE],
  only = /(?:)/,
): Promise<void> {
  startSession();
  const lines = LINES.filter(({ title }) => only.test(title));
  const measured = await measureTimes(lines, command, join(root, "pages.log"));
  const holds = await measureHolds(lines);
  console.log(
    `\nPages over ${ARTIFACTS} artifacts, ${REQUESTS} requests each: server time, processor time of all threads, and ` +
      "how long the main thread was busy without yielding",
  );
  row(["", "p50", "p99", "processor", "held", "held most", "gzipped"]);
  const missed = lines.filter((line, at) => !printLine(line, { ...measured[at], holds: holds[at] } as Measured));
  const longest = Math.max(...measured.map(({ processor }) => processor));
  judge("processor time of the page that takes the most", longest, atMost(TARGET_MS, TARGET_MS / 2, " ms"));
  const names = missed.map(({ title }) => title).join(", ");
  judge("pages that miss a target", missed.length, atMost(0, 0, ""), names);
}

/** Measures the executable from outside. */
async function measureTimes(lines: readonly Line[], command: readonly string[], log: string) {
  const server = await startServer(
    [...command, "serve", "--data", DATA, "--listen", "127.0.0.1:0", "--log-level", "info"],
    { output: log, env: { ASSAY_JSON_LIMIT: "64MB" } },
  );
  try {
    const asOperator = createAsk(server.url);
    await reportHuge(asOperator);
    await reportHugeTrail(server.url, asOperator);
    const timed = createTimed(log);
    return await forEachPage(server.url, lines, async (request) => {
      const answers: Answer[] = [];
      const processor: number[] = [];
      for (let n = 0; n < REQUESTS; n += 1) {
        const used = startMeter(server.pid);
        answers.push(await request(n));
        processor.push(used().all * 1000);
      }
      const bytes = answers.map(({ body }) => gzipSync(body, { level: 4 }).length);
      return { times: await timed(answers), bytes: median(bytes), processor: median(processor) };
    });
  } finally {
    await server.stop();
  }
}

/** Measures a server of this checkout from inside: the longest hold of each request. */
async function measureHolds(lines: readonly Line[]): Promise<number[][]> {
  const server = await startProbedOver(DATA);
  try {
    return await forEachPage(server.url, lines, async (request) => {
      const holds: number[] = [];
      for (let n = 0; n < REQUESTS; n += 1) {
        await server.reset();
        await request(n);
        holds.push((await server.report()).busiest);
      }
      return sort(holds);
    });
  } finally {
    await server.stop();
  }
}

/** Does some work with each page, whose code is warm by then. `work` gets a function that requests the page. */
async function forEachPage<T>(
  url: string,
  lines: readonly Line[],
  work: (request: (n: number) => Promise<Answer>) => Promise<T>,
): Promise<T[]> {
  const facts = await findFacts(createAsk(url));
  const ask = createAsk(url, { root: `/${ORG}`, headers: { Cookie: `assay=${COOKIE}`, Accept: "text/html" } });
  const results: T[] = [];
  for (const { path, redirects } of lines) {
    const request = (n: number): Promise<Answer> => ask("GET", path(n, facts), null, redirects ? 303 : 200);
    for (let n = 0; n < WARM_UP; n += 1) await request(REQUESTS + n);
    results.push(await work(request));
  }
  return results;
}

/** @returns whether the page reaches its targets */
function printLine({ title }: Line, { times, bytes, processor, holds }: Measured): boolean {
  const longest = holds.at(-1) ?? Number.NaN;
  const isReached =
    times.server <= TARGET_MS && processor <= TARGET_MS && bytes <= TARGET_BYTES && longest <= TARGET_MS;
  row([
    title,
    ms(times.server),
    ms(times.p99),
    ms(processor),
    ms(quantile(holds, 0.5)),
    ms(longest),
    kilobytes(bytes),
    `  ${reached(isReached)}`,
  ]);
  return isReached;
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { only: { type: "string", default: "" } } });
  const root = join(DATA, "..");
  mkdirSync(root, { recursive: true });
  await measurePages(
    root,
    [process.execPath, join(import.meta.dirname, "..", "..", "src", "main.ts")],
    new RegExp(values.only),
  );
}
