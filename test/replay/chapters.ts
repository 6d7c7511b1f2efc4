/** What the replay asks of a server, as chapters. Two runs of the same code ask the same and are answered the same. */
import { createHash } from "node:crypto";
import fc from "fast-check";
import { operations } from "../../src/api/index.ts";
import type { AssayOperation } from "../../src/api/context.ts";
import { fingerprintOf } from "../../src/demo/steps.ts";
import { inDirectory } from "../binary/executable.ts";
import { startServer } from "../given.ts";
import type { CallOptions, ServerOptions, TestServer } from "../given.ts";
import { readsOfStory } from "../story/html-urls.ts";
import { ADMIN, EDGE, FRESH, countingIds, seedStory } from "../story/story.ts";
import { DEMO_SENDER } from "../../src/demo/server.ts";
import { faultFor } from "../whole/faults.ts";
import { createClient, valid, write } from "../whole/requests.ts";
import type { Draft } from "../whole/requests.ts";
import { createWorld } from "../whole/world.ts";
import type { World } from "../whole/world.ts";
import { tablesAsText } from "./recording.ts";
import type { Recorder } from "./recording.ts";

/** A chapter and what it is recorded as. */
export type Chapter = { name: string; record(recorder: Recorder): Promise<void> };

/** Secrets of the usual form, the same in every run. */
function countingSecrets(): () => string {
  let count = 0;
  return () =>
    createHash("sha256")
      .update(`secret ${(count += 1)}`)
      .digest("base64url");
}

/** The clock stands while a request is served, so that it does not matter how often the code reads it. */
const repeatable = (): ServerOptions => ({ newId: countingIds(), newSecret: countingSecrets(), clockStep: 0 });

/** The same server, whose requests are recorded under the name of the owner of their key. */
const recorded = (server: TestServer, recorder: Recorder, nameOf: (key: string) => string): TestServer => ({
  ...server,
  async call(method: string, path: string, options: CallOptions = {}) {
    server.clock.at += 1;
    const answer = await server.call(method, path, options);
    const headers = Object.fromEntries(answer.headers);
    recorder.add({ method, path, by: nameOf(options.key ?? ""), status: answer.status, headers, body: answer.text });
    return answer as never;
  },
});

/** Two months of a company, the organization with every odd text, and what each reading operation says of them. */
async function story(recorder: Recorder): Promise<void> {
  await inDirectory(async (directory) => {
    const server = await startServer({ ...repeatable(), sender: DEMO_SENDER, directory, hasRecordingThread: true });
    try {
      const keys = new Map<string, string>();
      const nameOf = (key: string): string => [...keys].find(([, one]) => one === key)?.[0] ?? "somebody";
      const shown = recorded(server, recorder, nameOf);
      const told = await seedStory(shown, { keys });
      const reads = await readsOfStory({ server, story: told }, { orgs: ["acme", EDGE, FRESH], maxRequests: 12 });
      for (const { id, paths } of reads) {
        recorder.note(`# ${id}`);
        for (const path of paths) await shown.call("GET", path, { key: told.keys.get(ADMIN) as string });
      }
      await server.writer.run(() => server.store.apiKeys.flushUses());
      for (const [table, text] of tablesAsText(server.db)) recorder.addDigest(`table ${table}`, text);
    } finally {
      await server.stop();
    }
  });
}

const VALID_REQUESTS = 4;
const FAULTY_REQUESTS = 8;
const SMALL = { json: 65_536, form: 65_536, document: 65_536, evidence: 65_536 };

/** Requests to every operation, most of which are refused: a lost check shows as another status. */
async function refusals(recorder: Recorder): Promise<void> {
  // Of all servers together, so that no id or secret is made twice.
  const options = repeatable();
  const world = await createWorld(options);
  try {
    // The document has a golden of its own.
    for (const operation of operations.filter(({ id, status }) => status !== "removed" && id !== "get_openapi"))
      await refusalsOf({ operation, world, options }, recorder);
  } finally {
    await world.stop();
  }
}

async function refusalsOf(
  { operation, world, options }: { operation: AssayOperation; world: World; options: ServerOptions },
  recorder: Recorder,
): Promise<void> {
  const seed = [...operation.id].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) | 0, 0);
  const fault = faultFor({
    takesBody: operation.body.kind !== "none",
    takesQuery: Object.keys((operation.query as { properties: object }).properties).length > 0,
  });
  const requests = valid(operation, world);
  const faulty = fc.tuple(requests, fault).map(([draft, change]): Draft => change(draft));
  const accepted = fc.sample(requests, { seed, numRuns: VALID_REQUESTS });
  const drafts = [
    ...accepted,
    ...refusedDrafts(accepted[0] as Draft, world),
    ...fc.sample(faulty, { seed, numRuns: FAULTY_REQUESTS }),
  ];
  await inDirectory(async (directory) => {
    const server = await startServer({ ...options, from: world.image, limits: SMALL, directory });
    const client = createClient(server.url);
    try {
      recorder.note(`# ${operation.id}`);
      for (const draft of drafts) {
        server.clock.at += 1;
        const written = write(draft, world);
        const { status, headers, text } = await client.send(written);
        await server.settled();
        recorder.add({
          method: written.method,
          path: written.target.replace("/api/v2", ""),
          by: draft.role,
          sent: written.body?.toString() ?? "",
          status,
          headers,
          body: text,
        });
      }
      recorder.addDigest("all tables", [...tablesAsText(server.db).values()].join("\n"));
    } finally {
      client.close();
      await server.stop();
    }
  });
}

/** Faults that every operation looks for: in key, role, organization, query, the body and its size. */
function refusedDrafts(draft: Draft, world: World): Draft[] {
  const by = (role: Draft["role"]): Draft => ({ ...draft, role });
  const changes: Draft[] = [
    by("anonymous"),
    by("impostor"),
    by("stranger"),
    by("reader"),
    by("snapshotter"),
    { ...by("admin"), query: [...draft.query, "no_such_parameter=1"] },
  ];
  const place = draft.segments.indexOf(world.org);
  if (place !== -1) changes.push({ ...by("admin"), segments: draft.segments.with(place, "no-such-org") });
  const last = draft.segments.at(-1) as string;
  if (draft.operation.path.endsWith("}"))
    changes.push({ ...by("admin"), segments: [...draft.segments.slice(0, -1), `${last}-none`] });
  if (draft.operation.body.kind !== "none")
    for (const body of ["", "{", "[]", "null", '{"a":1,"a":2}', " ".repeat(SMALL.json + 1)])
      changes.push({ ...by("admin"), rewrite: () => Buffer.from(body) });
  return changes;
}

const POLICY = "artifacts:\n  provenance:\n    required: true\n";

/** Reports of all sizes to environments with and without policies, and what makes them evaluated again. */
async function reports(recorder: Recorder): Promise<void> {
  await inDirectory(async (directory) => {
    const server = await startServer({ ...repeatable(), directory, hasRecordingThread: true });
    try {
      const { org, key } = server.given.org({ name: "reporters" });
      const flow = await server.given.flow({ org, key }, { name: "services" });
      for (const index of [0, 5, 69, 2_400])
        await server.given.artifact(
          { org, key },
          {
            flow,
            trail: "release",
            name: `service-${index}`,
            fingerprint: fingerprintOf(`service-${index}`),
            commit: "c".repeat(40),
          },
        );
      const { call } = recorded(server, recorder, () => "admin");
      const ask = async (method: string, path: string, more: CallOptions = {}): Promise<void> => {
        await call(method, path, { key, ...more });
        await server.settled();
      };
      const report = (env: string, artifacts: readonly unknown[]): Promise<void> =>
        ask("PUT", `/environments/${org}/${env}/report/server`, { body: { artifacts } });
      const look = async (env: string): Promise<void> => {
        await ask("GET", `/environments/${org}/${env}`);
        for (const query of ["", "?page=2&per_page=20"]) await ask("GET", `/snapshots/${org}/${env}/-1${query}`);
        await ask("GET", `/environments/${org}/${env}/events?per_page=20`);
      };
      await server.given.policy({ org, key }, { name: "known", yaml: POLICY });
      for (const policies of [[], ["known"]]) {
        const env = policies.length === 0 ? "free" : "judged";
        await server.given.environment({ org, key }, { name: env, type: "server", policies });
        for (const count of [0, 1, 10, 10, 70, 70, 2_500, 2_500, 9]) {
          recorder.note(`# ${env}: ${count} artifacts`);
          await report(env, services(count));
          await look(env);
        }
        await report(
          env,
          services(2_500).map((one, index) => (index === 7 ? { ...one, digests: { other: "7".repeat(64) } } : one)),
        );
        await look(env);
        await report(env, [{ digests: { odd: "not a fingerprint" }, creationTimestamp: 1 }]);
        await report(
          env,
          services(9_000).map((one, index) => (index === 8_999 ? { creationTimestamp: "never" } : one)),
        );
        await report(env, services(9_000));
        await look(env);
      }
      recorder.note("# evaluated again");
      await ask("POST", `/environments/${org}/free/policies`, { body: { policy_names: ["known"] } });
      await look("free");
      await ask("PUT", `/allowlists/${org}/free`, {
        body: { fingerprint: fingerprintOf("service-1"), artifact_name: "service-1", description: "known" },
      });
      await look("free");
      await ask("DELETE", `/environments/${org}/free/policies`, { body: { policy_names: ["known"] } });
      await look("free");
      recorder.note("# refused");
      await ask("PUT", `/environments/${org}/free/report/K8S`, { body: { artifacts: [] } });
      await ask("PUT", `/environments/${org}/none/report/server`, { body: { artifacts: [] } });
      await ask("PUT", `/environments/${org}/free/archive`);
      await report("free", services(9_000));
      for (const [table, text] of tablesAsText(server.db)) recorder.addDigest(`table ${table}`, text);
    } finally {
      await server.stop();
    }
  });
}

const services = (count: number) =>
  Array.from({ length: count }, (_, index) => ({
    digests: { [`service-${index}`]: fingerprintOf(`service-${index}`) },
    creationTimestamp: 1_690_000_000 + index,
  }));

export const chapters: readonly Chapter[] = [
  { name: "story", record: story },
  { name: "refusals", record: refusals },
  { name: "reports", record: reports },
];
