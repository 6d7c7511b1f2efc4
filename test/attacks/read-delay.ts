// Part of `make crash`: every GET of every operation on a large world (large-world.ts), previews of changes, and the
// pages of what is large in it, by a server of this checkout: none may hold the main thread for more than 50 ms of
// processor time. Other load on the machine only ever makes a measurement longer, so the shortest of several counts.
//
//   node test/attacks/read-delay.ts [pattern of operations and paths]
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openCopy } from "../../src/store/db/connection.ts";
import { CHECKED, ORG, prepareLargeWorld } from "./large-world.ts";
import { MAX_BUSY_MS } from "./loop-delay.ts";
import { startProbedOver } from "./probed.ts";
import { describeRead } from "./read-attack.ts";
import { SIGNED_IN, signIn } from "./session.ts";

const SIZES = {
  artifacts: [95_000, 20_000],
  judged: 20_000,
  attestations: 2,
  attestationBytes: 3_900_000,
  history: 600,
  checks: 3_000,
};
const MAX_TRIES = 5;

const trail = `flows/${CHECKED.flow}/trails/${CHECKED.trail}`;
const PAGES: readonly string[] = [
  "",
  "changes",
  "changes?kind=record",
  "environments",
  "environments/large-0",
  "environments/large-0?tab=events",
  "environments/large-judged/1",
  "env-diff?left=large-0%231&right=large-0%232",
  "env-diff?left=large-0&right=large-1",
  "why?environment=large-judged",
  "why?environment=large-0",
  `why?flow=${CHECKED.flow}&trail=${CHECKED.trail}`,
  trail,
  `${trail}?search=further-1`,
  `${trail}?state=MISSING`,
  "artifacts",
  "deployments",
  "audit-binder?environment=large-judged&from=2001-01-01&to=2099-01-01",
].map((path) => `/${ORG}/${path}`);
/** Pages that are shown as of a moment, too. */
const PAST_PAGES: readonly string[] = ["", "artifacts", "environments", "environments/large-0", "policies"];

const directory = mkdtempSync(join(tmpdir(), "assay-read-delay-"));
const data = join(directory, "data");
const { keys, reads } = await prepareLargeWorld(data, SIZES);
const db = openCopy(join(data, "assay.db"), { readonly: false });
const admin = db
  .prepare<[], string>(
    `SELECT u.name FROM users u JOIN memberships m ON m.user_id = u.id JOIN organizations o ON o.id = m.organization_id
     WHERE o.name = '${ORG}' AND m.role = 'admin' LIMIT 1`,
  )
  .pluck()
  .get() as string;
signIn(db, admin);
db.close();
const server = await startProbedOver(data);
process.once("SIGTERM", () => process.exit(1));

const at = encodeURIComponent(new Date().toISOString().slice(0, 19));
const apiHeaders = { Authorization: `Bearer ${keys.admin}` };
const requests = [
  ...reads.map((read) => ({
    name: describeRead(read),
    path: `/api/v2${read.path}`,
    headers: apiHeaders,
    body: read.body,
  })),
  ...[...PAGES, ...PAST_PAGES.map((path) => `/${ORG}/${path}?at=${at}`)].map((path) => ({
    name: `page ${path}`,
    path,
    headers: SIGNED_IN,
    body: undefined,
  })),
].filter(({ name }) => new RegExp(process.argv[2] ?? "").test(name));

const problems: string[] = [];
for (const { name, path, headers, body } of requests) {
  let best = Infinity;
  let status = 0;
  let bytes = 0;
  for (let turn = 0; turn < MAX_TRIES && best > MAX_BUSY_MS; turn += 1) {
    await server.reset();
    const answer = await fetch(server.url + path, {
      headers: body === undefined ? headers : { ...headers, "Content-Type": "application/json" },
      ...(body === undefined ? {} : { method: "POST", body }),
      redirect: "manual",
    });
    status = answer.status;
    bytes = (await answer.arrayBuffer()).byteLength;
    best = Math.min(best, (await server.report()).busiest);
  }
  if (body !== undefined && status !== 200) problems.push(`${name}: answered ${status}`);
  if (best > MAX_BUSY_MS) problems.push(`${name}: the main thread was busy for ${best.toFixed(0)} ms at a time`);
  console.log(`${name}: ${status}, ${bytes} bytes, ${best.toFixed(0)} ms`);
}
await server.stop();
rmSync(directory, { recursive: true, force: true });
for (const problem of problems) console.log(`PROBLEM ${problem}`);
console.log(`${requests.length} reads: ${problems.length} problems`);
process.exitCode = problems.length > 0 ? 1 : 0;
