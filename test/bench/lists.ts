// Lists and searches on the large database of data.ts: how long the server takes for a page. One request at a time;
// every request of a line asks for something else, so that no response is cached. The target applies to the slowest of
// a hundred.
import { createReadStream, mkdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import Database from "better-sqlite3";
import { operations } from "../../src/api/index.ts";
import { EXECUTABLE } from "../binary/executable.ts";
import { createAsk, createTimed, median, quantile, sort } from "./ask.ts";
import type { Answer } from "./ask.ts";
import { ARTIFACTS, DATA, FLOWS, commitOf, environmentName, fingerprintOf, flowName, repoName } from "./data.ts";
import { ms, row, reached } from "./print.ts";
import { startServer } from "./processes.ts";
import type { Server } from "./processes.ts";
import { ORG } from "./world.ts";

/** Measured requests of a line, and warm-up requests before them. */
const REQUESTS = 100;
const WARM_UP = 10;
/** Milliseconds. */
const TARGET_MS = 10;

const TRAILS = ARTIFACTS / 2;
const STARTED_AT = 1_600_000_000;

/** `path` of the n-th request; `table` is the table of the rows in its response. */
type Line = {
  title: string;
  operation: string;
  table: "attestations" | "trails" | "artifacts";
  path(n: number, facts: Facts): string;
};
type Facts = { last: number; cursors: string[] };

const attestations = (title: string, query: (n: number, facts: Facts) => string): Line => ({
  title,
  operation: "get_attestations",
  table: "attestations",
  path: (n, facts) => `/attestations/${ORG}?${query(n, facts)}`,
});
const trails = (title: string, query: (n: number, facts: Facts) => string): Line => ({
  title,
  operation: "list_trails_for_org",
  table: "trails",
  path: (n, facts) => `/trails/${ORG}?${query(n, facts)}`,
});
/** Times in the first hundredth of the history, with types and flows that were abandoned later. */
const early = (n: number, { last }: Facts): number => Math.floor(STARTED_AT + (last - STARTED_AT) * 0.002 + n * 50);

const LINES: readonly Line[] = [
  attestations("attestations, newest", (n) => `per_page=${20 + (n % 3)}`),
  attestations("... far behind a cursor", (n, { cursors }) => `after=${cursors[n % cursors.length]}`),
  attestations("... name, common", (n) => `name=unit-tests&per_page=${1 + (n % 100)}`),
  attestations("... name, rare", (n) => `name=note-${199 - (n % 50)}`),
  attestations("... name_regex, common", (n) => `name_regex=^(unit|scan|check-${n % 30})`),
  attestations("... name_regex, rare", (n) => `name_regex=note-1[0-9]${n % 10}$`),
  attestations("... name_regex, no name", (n) => `name_regex=^nothing-${n}`),
  attestations("... flow, large", (n) => `flow=${flowName(n % 10)}`),
  attestations("... flow, small", (n) => `flow=${flowName(FLOWS - 1 - (n % 50))}`),
  attestations(
    "... three flows",
    (n) => `flow=${flowName(FLOWS - 1 - (n % 50))}&flow=${flowName(n)}&flow=${flowName(n + 1)}`,
  ),
  attestations("... type, common", (n) => `type=junit&per_page=${1 + (n % 100)}`),
  attestations("... type, abandoned long ago", (n) => `type=jira&per_page=${1 + (n % 100)}`),
  attestations("... type, never used", (n) => `type=custom:type-${n}`),
  attestations("... is_compliant=false", (n) => `is_compliant=false&per_page=${1 + (n % 100)}`),
  attestations(
    "... time, long ago",
    (n, facts) => `from_timestamp=${early(n, facts)}&to_timestamp=${early(n, facts) + 5_000}`,
  ),
  attestations("... time, before everything", (n) => `to_timestamp=${STARTED_AT - n - 10}`),
  attestations("... flow and abandoned type", (n) => `flow=${flowName(n)}&type=jira`),
  attestations("... name and is_compliant", (n) => `name=check-${n % 30}&is_compliant=false`),
  attestations("... name and type that never meet", (n) => `name=unit-tests&type=jira&per_page=${1 + (n % 100)}`),
  attestations("... flow and name", (n) => `flow=${flowName(n)}&name=note-${n}`),
  attestations("... flow, name_regex, false", (n) => `flow=${flowName(n)}&name_regex=^note&is_compliant=false`),
  attestations(
    "... name_regex and flow, none",
    (n) => `name_regex=ticket$&flow=${flowName(FLOWS - 1 - n)}&is_compliant=false`,
  ),
  attestations(
    "... type, false, long ago",
    (n, facts) => `type=junit&is_compliant=false&to_timestamp=${early(n, facts)}`,
  ),
  attestations(
    "... abandoned type, recently",
    (n, { last }) => `type=jira&from_timestamp=${Math.floor(last) - 1_000_000 + n}`,
  ),
  {
    title: "attestations of a flow",
    operation: "get_flow_attestations",
    table: "attestations",
    path: (n) => `/attestations/${ORG}/${flowName(n % 20)}?per_page=${10 + (n % 10)}`,
  },
  {
    title: "... time, long ago",
    operation: "get_flow_attestations",
    table: "attestations",
    path: (n, facts) =>
      `/attestations/${ORG}/${flowName(n % 20)}` +
      `?from_timestamp=${early(n, facts)}&to_timestamp=${early(n, facts) + 5_000}`,
  },
  trails("trails, newest", (n) => `per_page=${15 + (n % 10)}`),
  trails("... far page", (n) => `page=${1_000 + n}`),
  trails("... flow, large", (n) => `flow=${flowName(n % 10)}`),
  trails("... flow_tag", (n) => `flow_tag=team%3Dteam-${n % 20}&per_page=${15 + (n % 7)}`),
  trails("... flow_tag of no flow", (n) => `flow_tag=team%3Dnobody-${n}`),
  trails("... fingerprint", (n) => `fingerprint=${fingerprintOf(n * 700, 0)}`),
  trails("... fingerprint prefix", (n) => `fingerprint=${fingerprintOf(n * 700, 0).slice(0, 8)}`),
  {
    title: "trails of a flow",
    operation: "list_trails",
    table: "trails",
    path: (n) => `/trails/${ORG}/${flowName(n % 20)}?per_page=${10 + (n % 10)}`,
  },
  {
    title: "artifacts, newest",
    operation: "list_artifacts",
    table: "artifacts",
    path: (n) => `/artifacts/${ORG}?per_page=${10 + (n % 10)}`,
  },
  {
    title: "... of a repository",
    operation: "list_artifacts",
    table: "artifacts",
    path: (n) => `/artifacts/${ORG}?repo_name=${encodeURIComponent(repoName(n))}`,
  },
  {
    title: "artifact by prefix",
    operation: "get_artifact_by_fingerprint",
    table: "artifacts",
    path: (n) => `/artifacts/${ORG}/${flowName(0)}/fingerprint/${fingerprintOf(n * 700, 0).slice(0, 10)}`,
  },
  {
    title: "search, fingerprint prefix",
    operation: "get_search",
    table: "artifacts",
    path: (n) => `/search/${ORG}/sha/${fingerprintOf(n * 700, 0).slice(0, 9 + (n % 20))}`,
  },
  {
    title: "... commit prefix",
    operation: "get_search",
    table: "artifacts",
    path: (n) => `/search/${ORG}/sha/${commitOf(n * 700).slice(0, 9 + (n % 20))}`,
  },
  {
    title: "live artifacts of a repository",
    operation: "get_repo_live_artifacts",
    table: "artifacts",
    path: (n) => `/repos/${ORG}/live-artifacts/${repoName(n)}`,
  },
  {
    title: "repositories",
    operation: "list_repos",
    table: "artifacts",
    path: (n) => `/repos/${ORG}?page=${1 + (n % 20)}&per_page=${10 + (n % 5)}`,
  },
  {
    title: "builds",
    operation: "list_builds",
    table: "artifacts",
    path: (n) => `/builds/${ORG}?start_ts=${STARTED_AT}&per_page=${10 + (n % 30)}`,
  },
  {
    title: "build statistics of a repository",
    operation: "build_statistics",
    table: "artifacts",
    path: (n) => `/builds/${ORG}/statistics?repo_name=${encodeURIComponent(repoName(n))}&start_ts=${STARTED_AT}`,
  },
  {
    title: "deployments",
    operation: "list_deployments",
    table: "artifacts",
    path: (n) => `/deployments/${ORG}?start_ts=${STARTED_AT}&per_page=${10 + (n % 30)}`,
  },
  {
    title: "... of an environment",
    operation: "list_deployments",
    table: "artifacts",
    path: (n) =>
      `/deployments/${ORG}?start_ts=${STARTED_AT}&env_name=${environmentName(n % 30)}&per_page=${10 + (n % 7)}`,
  },
];

type Bare = { url: string; db: Database.Database };

/**
 * Requests the rows of a response from the bare server; milliseconds at this client, null where the response names no
 * row.
 */
async function bare({ url, db }: Bare, { table }: Line, answer: Answer): Promise<number | null> {
  const ids = idsIn(db, table, JSON.parse(answer.body.toString("utf8")));
  if (ids.length === 0) return null;
  const startedAt = performance.now();
  await (await fetch(`${url}/${table}?ids=${ids.join(",")}`)).arrayBuffer();
  return performance.now() - startedAt;
}

function idsIn(db: Database.Database, table: Line["table"], body: unknown): number[] {
  const list = (Array.isArray(body) ? body : ((body as { data?: unknown[] }).data ?? [body])) as ({
    flow?: { name: string };
  } & Record<string, string>)[];
  const find = {
    attestations: db.prepare<[string], number>("SELECT id FROM attestations WHERE public_id = ?").pluck(),
    artifacts: db.prepare<[string], number>("SELECT id FROM artifacts WHERE public_id = ?").pluck(),
    trails: db
      .prepare<[string, string], number>(
        "SELECT t.id FROM trails t JOIN flows f ON f.id = t.flow_id WHERE f.name = ? AND t.name = ?",
      )
      .pluck(),
  };
  return list.flatMap((item) => {
    if (table === "trails") return find.trails.get(item.flow?.name ?? "", item["name"] ?? "") ?? [];
    return find[table].get(item[table === "artifacts" ? "id" : "attestation_id"] ?? "") ?? [];
  });
}

/**
 * Measures the lists; the data must exist. @param command the executable that serves, with its arguments before `serve`
 */
export async function measureLists(
  root: string,
  command: readonly string[] = [EXECUTABLE],
  only = /(?:)/,
): Promise<void> {
  await readThrough(join(DATA, "assay.db"));
  const log = join(root, "lists.log");
  const server: Server = await startServer(
    [...command, "serve", "--data", DATA, "--listen", "127.0.0.1:0", "--log-level", "info"],
    { output: log },
  );
  const baseline = await startServer(
    [process.execPath, join(import.meta.dirname, "bare-rows.ts"), join(DATA, "assay.db")],
    { output: join(root, "bare-rows.log") },
  );
  const db = new Database(join(DATA, "assay.db"), { readonly: true });
  const [ask, timed] = [createAsk(server.url), createTimed(log)];
  const top = db
    .prepare<[], { id: number; at: number }>("SELECT id, created_at AS at FROM attestations ORDER BY id DESC LIMIT 1")
    .get() ?? { id: 0, at: 0 };
  const cursors = Array.from({ length: 200 }, (_, n) =>
    Buffer.from(`a${Math.floor(top.id / 2) - n * 100}`).toString("base64url"),
  );
  console.log(
    `\nLists of ${ARTIFACTS} artifacts, ${top.id} attestations, ${TRAILS} trails; ` +
      `server time, ${REQUESTS} requests each`,
  );
  row(["", "", "p50", "p99", "bare", "bytes", "target"]);
  const built = new Set(operations.map(({ id }) => id));
  let missed = 0;
  for (const line of LINES.filter(({ operation, title }) => built.has(operation) && only.test(title))) {
    const answers: Answer[] = [];
    for (let n = 0; n < WARM_UP + REQUESTS; n += 1)
      answers.push(await askOrMiss(ask, line.path(n, { last: top.at, cursors })));
    const counted = answers.slice(WARM_UP);
    const times = await timed(counted);
    const bareTimes: number[] = [];
    for (const answer of counted.slice(0, 50)) {
      const took = await bare({ url: baseline.url, db }, line, answer);
      if (took !== null) bareTimes.push(took);
    }
    const good = times.p99 <= TARGET_MS;
    if (!good) missed += 1;
    row([
      line.title,
      "",
      ms(times.server),
      ms(times.p99),
      bareTimes.length > 0 ? ms(median(bareTimes)) : "-",
      Math.round(quantile(sort(counted.map(({ bytes }) => bytes)), 0.5)),
      `<= ${TARGET_MS} ms`,
      `  ${reached(good)}`,
    ]);
  }
  console.log(missed === 0 ? "all reached" : `${missed} not reached`);
  db.close();
  await baseline.stop();
  await server.stop();
}

/** Reads the whole database into the page cache, because the effect of a cold cache is not measured. */
async function readThrough(file: string): Promise<void> {
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 })) void chunk;
}

const askOrMiss = (ask: ReturnType<typeof createAsk>, path: string): Promise<Answer> =>
  ask("GET", path, null, [200, 404]);

if (import.meta.main) {
  const { values } = parseArgs({ options: { only: { type: "string", default: "" } } });
  const root = join(DATA, "..");
  mkdirSync(root, { recursive: true });
  await measureLists(
    root,
    [process.execPath, join(import.meta.dirname, "..", "..", "src", "main.ts")],
    new RegExp(values.only),
  );
}
