// The pages of the web interface on the large database of data.ts: how long the server takes for each, how large it is,
// and how long the event loop is held. One request at a time, with the cookie of a session.
import { join } from "node:path";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";
import { mkdirSync } from "node:fs";
import { newPublicId } from "../../src/clock.ts";
import { openDatabase } from "../../src/store/db/database.ts";
import { cookieDigest } from "../../src/store/accounts/sessions.ts";
import { openStore } from "../../src/store/index.ts";
import { EXECUTABLE } from "../binary/executable.ts";
import { createAsk, createTimed, quantile, sort } from "./ask.ts";
import type { Answer, Ask } from "./ask.ts";
import { ARTIFACTS, DATA, commitOf, environmentName, fingerprintOf, flowName } from "./data.ts";
import { ms, row, reached } from "./print.ts";
import { startProbe } from "./probe.ts";
import type { Probe } from "./probe.ts";
import { startServer } from "./processes.ts";
import { ORG } from "./world.ts";

/** Measured requests of a page, and warm-up requests before them. */
const REQUESTS = 40;
const WARM_UP = 8;
const TARGET_MS = 20;
const TARGET_BYTES = 60_000;
const COOKIE = "bench-session";

/** `path` of the n-th request, below the organization. */
type Line = { title: string; path(n: number, facts: Facts): string };
type Facts = { attestations: readonly { flow: string; trail: string; id: string }[]; repo: string };

const fingerprint = (n: number): string => fingerprintOf(n * 700, 0);
const attestationOf = ({ attestations }: Facts, n: number) => attestations[n % attestations.length];

const LINES: readonly Line[] = [
  { title: "overview", path: () => "" },
  { title: "search, name", path: (n) => `/search?q=service-${n}` },
  { title: "search, commit", path: (n) => `/search?q=${commitOf(n * 700).slice(0, 9)}` },
  { title: "flows", path: (n) => `/flows?page=${1 + (n % 5)}` },
  { title: "flow, trails", path: (n) => `/flows/${flowName(n % 10)}` },
  { title: "... of a state", path: (n) => `/flows/${flowName(n % 10)}?state=NON-COMPLIANT` },
  { title: "... by name", path: (n) => `/flows/${flowName(n % 10)}?search=${n}9` },
  { title: "flow, artifacts", path: (n) => `/flows/${flowName(n % 10)}?tab=artifacts` },
  { title: "flow, deployments", path: (n) => `/flows/${flowName(n % 10)}?tab=deployments` },
  { title: "flow, template", path: (n) => `/flows/${flowName(n % 10)}?tab=template` },
  { title: "trail", path: (n, facts) => trailOf(facts, n) },
  { title: "trail, drawer", path: (n, facts) => `${trailOf(facts, n)}?attestation_id=${attestationOf(facts, n)?.id}` },
  { title: "artifact", path: (n) => `/flows/${flowName(0)}/artifacts/${fingerprint(0)}?n=${n}` },
  { title: "environments", path: (n) => `/environments?page=${1 + (n % 2)}` },
  { title: "environment", path: (n) => `/environments/${environmentName(n % 30)}` },
  { title: "... events", path: (n) => `/environments/${environmentName(n % 30)}?tab=events` },
  { title: "... log", path: (n) => `/environments/${environmentName(n % 30)}?tab=log` },
  { title: "... deployments", path: (n) => `/environments/${environmentName(n % 30)}?tab=deployments` },
  { title: "snapshot", path: (n) => `/environments/${environmentName(n % 30)}/${5 + n}` },
  {
    title: "difference of snapshots",
    path: (n) => `/env-diff?left=${environmentName(n % 30)}%23${5 + n}&right=${environmentName(n % 30)}%23${9 + n}`,
  },
  { title: "artifacts", path: (n) => `/artifacts?page=${1 + n}` },
  { title: "attestations", path: (n) => `/attestations?page=${1 + n}` },
  { title: "... filtered", path: (n) => `/attestations?flow=${flowName(n % 20)}&type=junit` },
  { title: "attestation types", path: () => "/attestation-types" },
  { title: "policies", path: () => "/policies" },
  { title: "repositories", path: (n) => `/repos?page=${1 + (n % 10)}` },
  { title: "repository", path: (_n, { repo }) => `/repos/${repo}` },
  { title: "actions", path: () => "/actions" },
  { title: "why, snapshot", path: (n) => `/why?environment=${environmentName(n % 30)}&snapshot=${5 + n}` },
  { title: "why, trail", path: (n, facts) => whyOf(facts, n) },
  { title: "settings, service accounts", path: () => "/settings/service-accounts" },
  { title: "settings, audit log", path: () => "/settings/audit-log" },
];

function trailOf(facts: Facts, n: number): string {
  const { flow = "", trail = "" } = attestationOf(facts, n) ?? {};
  return `/flows/${flow}/trails/${trail}`;
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

/** What the addresses of pages need to know. */
async function findFacts(ask: Ask): Promise<Facts> {
  const read = async (path: string): Promise<any> => JSON.parse((await ask("GET", path)).body.toString("utf8"));
  const { data } = await read(`/attestations/${ORG}?per_page=50`);
  const repos = await read(`/repos/${ORG}?per_page=1`);
  return {
    attestations: data.map((one: any) => ({ flow: one.flow_name, trail: one.trail_name, id: one.attestation_id })),
    repo: repos.repos[0].id,
  };
}

/** @param command the executable that serves, with its arguments before `serve` */
export async function measurePages(
  root: string,
  command: readonly string[] = [EXECUTABLE],
  only = /(?:)/,
): Promise<void> {
  startSession();
  const log = join(root, "pages.log");
  const server = await startServer(
    [...command, "serve", "--data", DATA, "--listen", "127.0.0.1:0", "--log-level", "info"],
    { output: log },
  );
  const probe = startProbe(server.url);
  try {
    const facts = await findFacts(createAsk(server.url));
    const ask = createAsk(server.url, {
      root: `/${ORG}`,
      headers: { Cookie: `assay=${COOKIE}`, Accept: "text/html" },
    });
    console.log(`\nPages over ${ARTIFACTS} artifacts; server time, ${REQUESTS} requests each`);
    row(["", "", "p50", "p99", "loop held", "gzipped", "target"]);
    let missed = 0;
    for (const line of LINES.filter(({ title }) => only.test(title))) {
      const isReached = await measurePage({ ask, timed: createTimed(log), probe }, line, facts);
      if (!isReached) missed += 1;
    }
    console.log(missed === 0 ? "all reached" : `${missed} not reached`);
  } finally {
    await probe.stop();
    await server.stop();
  }
}

type Tools = { ask: Ask; timed: ReturnType<typeof createTimed>; probe: Probe };

/** Measures one page and prints its line. @returns whether it reaches its targets */
async function measurePage({ ask, timed, probe }: Tools, line: Line, facts: Facts): Promise<boolean> {
  const answers: Answer[] = [];
  for (let n = 0; n < WARM_UP; n += 1) await ask("GET", line.path(n, facts), null, [200, 303, 404]);
  const holds = await probe.during(async () => {
    for (let n = WARM_UP; n < WARM_UP + REQUESTS; n += 1)
      answers.push(await ask("GET", line.path(n, facts), null, [200, 303, 404]));
  });
  const times = await timed(answers);
  const bytes = quantile(sort(answers.map(({ body }) => gzipSync(body, { level: 4 }).length)), 0.5);
  const isReached = times.server <= TARGET_MS && bytes <= TARGET_BYTES;
  row([
    line.title,
    "",
    ms(times.server),
    ms(times.p99),
    ms(holds.at(-1) ?? Number.NaN),
    bytes,
    `<= ${TARGET_MS} ms`,
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
