// The database of an organization after years: 200,000 artifacts and 1,000,000 attestations over flows, trails,
// repositories, environments and deployments. `make bench-data`, or `node test/bench/data.ts [--artifacts N]`, builds
// it in .build/bench-data.
//
// Every row is written by the API handlers and the stores below them, one report after the other, only without HTTP and
// with many reports in a transaction: the database is what the same reports through the API leave. Time, ids and
// randomness come from counters, so the same size gives the same rows.
//
// The distribution is chosen to hurt: a few flows have most of the trails, a few names most of the records, some types
// were abandoned long ago, and hardly anything failed. Filters for rare values must not scan common ones.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { recordHere } from "../../src/jobs/recording-steps.ts";
import { readTextAsset } from "../../src/assets.ts";
import { operations } from "../../src/api/index.ts";
import { contextFactory } from "../../src/api/context.ts";
import type { AssayOperation, OperationContext } from "../../src/api/context.ts";
import { urlsFor } from "../../src/contract/urls.ts";
import { keyDigest } from "../../src/store/accounts/api-keys.ts";
import { openDatabase } from "../../src/store/db/database.ts";
import { openStore } from "../../src/store/index.ts";
import type { Store } from "../../src/store/index.ts";
import { createDocumentReader } from "../../src/workers/documents.ts";
import type { DocumentPool } from "../../src/workers/documents.ts";
import { KEY, ORG } from "./world.ts";
import type { Db } from "../../src/store/db/types.ts";

export const DATA = join(import.meta.dirname, "..", "..", ".build", "bench-data");
export const ARTIFACTS = 200_000;
const ARTIFACTS_PER_TRAIL = 2;
/** Attestations on each trail. */
const ATTESTATIONS_PER_TRAIL = 10;

export const FLOWS = 300;
const REPOS = 400;
const TEAMS = 20;
const ENVIRONMENTS = 30;
/** Artifacts that run in an environment at a time. */
const RUNNING = 40;
/** One trail in this many leads to a deployment. */
const TRAILS_PER_DEPLOYMENT = 8;
const REPORTS_PER_TRANSACTION = 5_000;
const STARTED_AT = 1_600_000_000;

const TEMPLATE = `
version: 1
trail:
  attestations:
    - { name: pull-request, type: pull_request }
  artifacts:
    - name: backend
      attestations:
        - { name: unit-tests, type: junit }
        - { name: scan, type: snyk }
    - name: frontend
      attestations:
        - { name: unit-tests, type: junit }
`;

const POLICY =
  "_schema: https://assay.example.com/schemas/policy/v1\nartifacts:\n  provenance:\n    required: true\n" +
  "  attestations:\n    - { type: junit, name: unit-tests }\n";

export const flowName = (n: number): string => `service-${n}`;
export const repoName = (n: number): string => `acme/service-${n}`;
export const environmentName = (n: number): string => `cluster-${n}`;
const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");
export const fingerprintOf = (trail: number, place: number): string => sha256(`artifact ${trail} ${place}`);
export const commitOf = (trail: number): string => sha256(`commit ${trail}`).slice(0, 40);

/** Deterministic numbers in [0, 1) (mulberry32). */
function chance(): () => number {
  let state = 0x5eed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/**
 * Fills an empty database.
 * @param artifacts the number of artifacts; everything else is proportional to it
 * @param progress is called with the share done after every transaction
 */
export async function fill(
  db: Db,
  { artifacts, progress = () => undefined }: { artifacts: number; progress?: (share: number) => void },
): Promise<void> {
  let at = STARTED_AT;
  let ids = 0;
  const newId = (): string => {
    const number = (ids += 1).toString(16).padStart(12, "0");
    return `${number.slice(0, 8)}-${number.slice(8)}-7000-8000-00000000`;
  };
  const now = (): number => (at += 1);
  const store = openStore(db, { now, newId });
  const random = chance();
  const below = (n: number): number => Math.floor(random() * n);
  /** Small numbers far more often than large ones. */
  const skewed = (n: number): number => Math.floor(n * random() ** 3);

  db.exec("BEGIN");
  const call = caller(store, now);
  for (let n = 0; n < FLOWS; n += 1) {
    await call("create_flow_with_template", {}, { name: flowName(n), description: "A service" }, TEMPLATE);
    await call(
      "patch_tags",
      { resource_type: "flow", resource_id: flowName(n) },
      { set_tags: { team: `team-${n % TEAMS}` }, remove_tags: [] },
    );
  }
  await call("put_policy", {}, { name: "tested", description: "", type: "env", comment: "" }, POLICY);
  for (let n = 0; n < ENVIRONMENTS; n += 1)
    await call(
      "create_env",
      {},
      { name: environmentName(n), type: "K8S", description: "A cluster", policies: n % 2 === 0 ? ["tested"] : [] },
    );
  const clusters = Array.from(
    { length: ENVIRONMENTS },
    () => [] as { name: string; fingerprint: string; created: number }[],
  );

  const trails = Math.ceil(artifacts / ARTIFACTS_PER_TRAIL);
  let sinceCommit = 0;
  for (let trail = 0; trail < trails; trail += 1) {
    const flow = skewed(FLOWS);
    await report(trail, flow);
    if (trail % TRAILS_PER_DEPLOYMENT === 0) deploy(trail, flow);
    sinceCommit += ATTESTATIONS_PER_TRAIL + ARTIFACTS_PER_TRAIL + 1;
    if (sinceCommit < REPORTS_PER_TRANSACTION) continue;
    sinceCommit = 0;
    db.exec("COMMIT");
    db.exec("BEGIN");
    progress(trail / trails);
  }
  db.exec("COMMIT");
  progress(1);

  async function report(trail: number, flow: number): Promise<void> {
    const place = { flow_name: flowName(flow), trail_name: `release-${trail}` };
    const repo = (flow + below(2)) % REPOS;
    const commit = {
      sha1: commitOf(trail),
      message: `Change ${trail}`,
      author: "Ada Lovelace <ada@example.com>",
      branch: "main",
      timestamp: at - 600,
      url: `https://git.example.com/commit/${trail}`,
      parents: [],
    };
    const repo_info = {
      name: repoName(repo),
      id: String(4_000 + repo),
      url: `https://git.example.com/${repoName(repo)}`,
      provider: repo % 3 === 0 ? "gitlab" : "github",
      namespace_path: ["acme"],
    };
    await call(
      "create_trail",
      { flow_name: place.flow_name },
      { name: place.trail_name, git_commit_info: commit, repo_info },
    );
    const attest = (kind: string, name: string, payload: object, fingerprint: string | null): Promise<void> =>
      call(`post_${kind}_attestation`, place, {
        attestation_name: name,
        ...payload,
        ...(fingerprint === null ? {} : { artifact_fingerprint: fingerprint }),
        git_commit_info: commit,
        repo_info,
        origin_url: `https://ci.example.com/runs/${trail}`,
      });
    // One record in fifty is non-compliant; jira was abandoned after a hundredth of all trails, sonar was introduced
    // with the last hundredth.
    const fails = (): boolean => random() < 0.02;
    await attest("pull_request", "pull-request", { pull_requests: fails() ? [] : [PULL_REQUEST] }, null);
    if (trail < trails / 100)
      await attest(
        "jira",
        "ticket",
        { jira_results: [{ issue_id: `ACME-${trail}`, issue_url: "https://jira.example.com/1", issue_exists: true }] },
        null,
      );
    else if (trail > trails - trails / 100)
      await attest("sonar", "quality", { sonar_results: { qualityGate: { status: "OK" } } }, null);
    else await attest("generic", `note-${skewed(200)}`, { is_compliant: true }, null);
    for (const [place_, name] of ["backend", "frontend"].entries()) {
      const fingerprint = fingerprintOf(trail, place_);
      await call(
        "create_artifact",
        { flow_name: flowName(flow) },
        {
          trail_name: place.trail_name,
          template_reference_name: name,
          fingerprint,
          filename: `registry.example.com/acme/${flowName(flow)}-${name}:${trail}`,
          git_commit: commit.sha1,
          git_commit_info: commit,
          build_url: `https://ci.example.com/runs/${trail}`,
          commit_url: commit.url,
          repo_info,
        },
      );
      await attest("junit", "unit-tests", { junit_results: [junit(fails())] }, fingerprint);
      await attest(
        "snyk",
        "scan",
        {
          snyk_results: {
            schema_version: 2,
            tool: { name: "scanner" },
            results: [{ high_count: fails() ? 1 : 0, medium_count: 0, low_count: 0 }],
          },
        },
        fingerprint,
      );
      await attest("generic", `check-${skewed(30)}`, { is_compliant: !fails() }, fingerprint);
      await attest("generic", place_ === 0 ? "review" : "licences", { is_compliant: !fails() }, fingerprint);
    }
  }

  function deploy(trail: number, flow: number): void {
    const n = below(ENVIRONMENTS);
    const running = clusters[n] as (typeof clusters)[number];
    const known = running.findIndex(({ name }) => name === flowName(flow));
    if (known >= 0) running.splice(known, 1);
    else if (running.length === RUNNING) running.shift();
    running.push({ name: flowName(flow), fingerprint: fingerprintOf(trail, 0), created: at });
    const environment = store.environments.find(organization(store).id, environmentName(n)) as { id: number };
    store.snapshotRecorder.record(store.environments.get(environment.id), {
      cause: "report",
      // In the order of names, which reports are sorted into.
      artifacts: running
        .map(({ name, fingerprint, created }) => ({ name, fingerprint, instances: { created: [created] } }))
        .sort((a, b) => (a.name < b.name ? -1 : 1)),
      actor: { publicId: "operator", displayName: "operator" },
    });
  }
}

const junit = (failed: boolean) => ({
  name: "suite",
  tests: 120,
  failures: failed ? 1 : 0,
  errors: 0,
  skipped: 2,
  duration: 3.5,
  timestamp: STARTED_AT,
});
const PULL_REQUEST = {
  url: "https://git.example.com/pull/1",
  merge_commit: "c".repeat(40),
  state: "MERGED",
  author: "Ada",
  approvers: [{ username: "Grace", state: "APPROVED", timestamp: STARTED_AT }],
  commits: [],
  title: "Round half to even",
  created_at: STARTED_AT,
  merged_at: STARTED_AT,
  head_ref: "rounding",
};

const organization = (store: Store) =>
  store.organizations.find(ORG) as NonNullable<ReturnType<Store["organizations"]["find"]>>;

/**
 * Creates the organization and its operator; returns a function that calls handlers as the operator, within the open
 * transaction.
 */
function caller(store: Store, now: () => number) {
  const organizationId = store.organizations.create({
    name: ORG,
    kind: "shared",
    isPublic: false,
    controlsEnabled: true,
  });
  const userId = store.users.create({ name: "operator", displayName: "", email: null });
  store.organizations.setRole(organizationId, { id: userId }, { role: "admin", changedBy: "script" });
  store.apiKeys.create({ userId }, { digest: keyDigest(KEY), description: "bench", expiresAt: 0 });
  const never = (): never => {
    throw new Error("nothing that is reported here needs this");
  };
  const { createContext } = contextFactory({
    store,
    now,
    urls: urlsFor,
    openApi: never,
    newSecret: never,
    evidence: { open: never } as unknown as OperationContext["evidence"],
    customTypes: {} as OperationContext["customTypes"],
    documents: createDocumentReader({} as DocumentPool),
    policyPreviews: {
      preview: never,
      previewChange: never,
      previewTemplate: never,
      previewStart: never,
      compareTemplate: never,
    },
    rego: {} as OperationContext["rego"],
    largeJson: { read: never },
    packages: {} as OperationContext["packages"],
    passwords: { hashOfMember: never },
    mappedOrganizations: new Set(),
    targetProblem: never,
    version: never,
    recorder: { report: never, recordWithin: (task) => recordHere(store, task, Infinity) },
    jobs: { waitFor: never },
  });
  const handlers = new Map<string, AssayOperation>(operations.map((operation) => [operation.id, operation]));
  return async (
    id: string,
    params: Record<string, string>,
    body: Record<string, unknown>,
    file: string | null = null,
  ): Promise<void> => {
    const operation = handlers.get(id);
    if (!operation) throw new Error(`there is no operation ${id}`);
    const context = createContext({
      requestId: "bench-data",
      accessVersion: null,
      operationId: id,
      event: operation.audit,
      path: operation.path,
      baseUrl: "https://assay.example.com",
      principal: {
        kind: "user",
        id: userId,
        publicId: "operator",
        name: "operator",
        displayName: "operator",
        keyPublicId: "key",
      },
      membership: {
        organizationId,
        role: "admin",
        isPublic: false,
        features: ["controls"],
        organization: organization(store),
      },
    });
    const bytes = file === null ? null : Buffer.from(file);
    const input = {
      params: { org: ORG, ...params },
      query: {},
      body,
      asSent: body,
      rawBody: null,
      sentFields: new Set(Object.keys(body)),
      file: bytes && {
        filename: "file.yml",
        contentType: "text/plain",
        size: bytes.length,
        bytes,
        isStaged: false,
        digest: sha256(file as string),
      },
    };
    operation.handle(context, input, await operation.prepare?.(context, input, () => context));
    store.auditLog.append(context.auditEntry());
  };
}

/** What the data was built from: with another schema or size it must be rebuilt. */
function aboutText(artifacts: number): string {
  const schema = sha256(readTextAsset("schema.sql"));
  const builder = sha256(readFileSync(import.meta.filename, "utf8"));
  return `${JSON.stringify({ artifacts, schema, builder })}\n`;
}

/** Whether the data of this size exists and is up to date. */
export function isBuilt(artifacts: number = ARTIFACTS): boolean {
  const about = join(DATA, "about.json");
  return existsSync(about) && readFileSync(about, "utf8") === aboutText(artifacts);
}

/** Builds the data unless it exists. @returns the seconds it took */
export async function build(artifacts: number, progress: (share: number) => void): Promise<number> {
  const startedAt = performance.now();
  const unfinished = `${DATA}-unfinished`;
  for (const directory of [DATA, unfinished]) rmSync(directory, { recursive: true, force: true });
  mkdirSync(unfinished, { recursive: true });
  const db = openDatabase(unfinished, STARTED_AT);
  // An interrupted build is discarded completely, so nothing needs to be durable before the end.
  db.pragma("journal_mode = OFF");
  db.pragma("synchronous = OFF");
  db.pragma("cache_size = -524288");
  await fill(db, { artifacts, progress });
  db.pragma("journal_mode = WAL");
  db.close();
  writeFileSync(join(unfinished, "about.json"), aboutText(artifacts));
  renameSync(unfinished, DATA);
  return (performance.now() - startedAt) / 1000;
}

/** A progress bar on one line. */
export function createProgressBar(startedAt = performance.now()): (share: number) => void {
  const WIDTH = 40;
  return (share) => {
    const full = Math.round(share * WIDTH);
    const left = share === 0 ? "" : `${Math.ceil(((performance.now() - startedAt) / 1000) * (1 / share - 1))} s left`;
    const bar = `[${"#".repeat(full)}${"-".repeat(WIDTH - full)}]`;
    const end = share === 1 ? "\n" : "";
    process.stderr.write(`\r${bar} ${(share * 100).toFixed(1)}% ${left.padEnd(12)}${end}`);
  };
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { artifacts: { type: "string", default: String(ARTIFACTS) } } });
  const artifacts = Number(values.artifacts);
  if (isBuilt(artifacts)) console.log(`${DATA} is up to date`);
  else console.log(`${artifacts} artifacts in ${(await build(artifacts, createProgressBar())).toFixed(0)} s: ${DATA}`);
}
