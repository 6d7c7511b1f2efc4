/** Databases with expired rows, for the tests of retention. */
import fc from "fast-check";
import type { RetentionPlan } from "../../../src/store/retention/retention-plan.ts";
import { openRetention } from "../../../src/store/retention/retention.ts";
import type { Retention, RetentionStep } from "../../../src/store/retention/retention.ts";
import { history } from "../environments/history.ts";
import type { opened } from "../given.ts";
import { createFlow } from "../given.ts";

type House = ReturnType<typeof opened>;

export const DAY = 86_400;

export const retentionOf = ({ db, store, clock }: Pick<House, "db" | "store" | "clock">): Retention => {
  let ids = 0;
  return openRetention(db, { now: () => clock.at, newId: () => `retention-${++ids}` }, store.builds);
};

/** Makes the plan as of now. */
export const planOf = (
  { db, clock }: Pick<House, "db" | "clock">,
  retention: Retention,
  organizationId: number | null = null,
): RetentionPlan => db.transaction(() => retention.plans.make(organizationId, clock.at)).deferred();

/** Carries out a plan that was just made. @returns the sum of all steps, and the audit entries. */
export async function carriedOut(
  { db }: Pick<House, "db">,
  { runs }: Retention,
  plan: RetentionPlan,
  most = Number.POSITIVE_INFINITY,
) {
  const sum: RetentionStep = { trails: 0, stripped: 0, kept: 0 };
  const notes: string[] = [];
  const run = runs.begin(plan.id, "ops");
  await runs.withDeferredForeignKeys(async () => {
    for (const piece of runs
      .planPieces(plan, run.id, (_, event, target) => void notes.push(`${event} ${target}`))
      .slice(0, most)) {
      const step = db.transaction(piece).immediate();
      sum.trails += step.trails;
      sum.stripped += step.stripped;
      sum.kept += step.kept;
    }
  });
  return { ...sum, notes, run };
}

/** A build that never ran, of a new or an existing trail. */
type Build = { flow: number; trail: number; fingerprint: number; records: number; file: number | null; age: number };

/** History as operations write it, surrounded by builds, some of which ran, and organizations with rules and holds. */
export const arbitraryWorld = fc.record({
  seed: fc.integer(),
  steps: fc.integer({ min: 0, max: 60 }),
  builds: fc.array(
    fc.record({
      flow: fc.nat(2),
      trail: fc.nat(11),
      fingerprint: fc.nat(7),
      records: fc.nat(3),
      file: fc.option(fc.nat(4)),
      age: fc.nat(100),
    }),
    { maxLength: 40 },
  ),
  running: fc.array(fc.nat(7), { maxLength: 2 }),
  organization: fc.option(
    fc.record({
      trails: fc.option(fc.integer({ min: 1, max: 100 })),
      evidence: fc.option(fc.integer({ min: 1, max: 100 })),
    }),
  ),
  flows: fc.array(
    fc.record({
      flow: fc.nat(2),
      trails: fc.option(fc.integer({ min: 1, max: 100 })),
      evidence: fc.option(fc.integer({ min: 1, max: 100 })),
    }),
    { maxLength: 2 },
  ),
  holds: fc.array(fc.record({ flow: fc.nat(2), trail: fc.option(fc.nat(11)), released: fc.boolean() }), {
    maxLength: 2,
  }),
});

export type ArbitraryWorld = typeof arbitraryWorld extends fc.Arbitrary<infer World> ? World : never;

/** The digest of the n-th evidence file. */
export const fileOf = (n: number): string => n.toString(16).padStart(64, "e");

export function built(world: ArbitraryWorld) {
  const setup = history(world.seed);
  const { db, store, clock, organizationId } = setup;
  for (let step = 0; step < world.steps; step += 1) setup.step();
  const flows = [0, 1, 2].map(
    (place) =>
      db.prepare<[number], number>("SELECT id FROM flows ORDER BY id LIMIT 1 OFFSET ?").pluck().get(place) as number,
  );
  const start = clock.at;
  const other = store.organizations.create({ name: "globex", kind: "shared", isPublic: false, controlsEnabled: true });
  const foreign = createFlow(store, other, "flow0").id;
  for (const build of [...world.builds].sort((a, b) => b.age - a.age)) place(build);

  function place({ flow, trail: number, fingerprint, records, file, age }: Build): void {
    clock.at = start + (100 - age) * DAY;
    const [flowId, name] = [flows[flow] as number, `late-${number}`];
    const trail = store.trails.find(flowId, name) ?? setup.trail(flowId, name);
    const at = {
      flowId,
      trailId: trail.id,
      fingerprint: fingerprint.toString(16).padStart(64, "f"),
      referenceName: null,
    };
    const id = store.artifacts.find(at)?.id ?? setup.artifact(flowId, trail.id, at.fingerprint);
    for (let record = 0; record < records; record += 1) {
      const fields =
        file === null || record > 0
          ? {}
          : { evidence_digest: fileOf(file), evidence_size: 10 + file, evidence_filename: "report.xml" };
      const made = setup.attestation(flowId, trail.id, `test-${record}`, {
        scope: record % 2 === 0 ? "artifact" : "trail",
        artifact_fingerprint: record % 2 === 0 ? at.fingerprint : null,
        created_at: clock.at,
        is_compliant: age % 2 === 0 ? 1 : 0,
        ...fields,
      });
      if (record % 2 === 0)
        store.attestations.bindToArtifact(
          { trailId: trail.id, artifactId: id },
          { id: made.id, name: `test-${record}` },
        );
      else store.attestations.bindToTrail(trail.id, made.id, `test-${record}`);
    }
    store.trails.addEvent(trail.id, { type: "artifact_reported", at: clock.at, event: {} });
    store.trailEvaluation.evaluate(trail.id, clock.at);
  }

  clock.at = start + 100 * DAY;
  const environment = setup.physical[0] as number;
  const ran = [...new Set(world.running)].map((fingerprint) => ({
    name: `late-${fingerprint}`,
    fingerprint: fingerprint.toString(16).padStart(64, "f"),
    instances: { created: [clock.at] },
  }));
  if (ran.length > 0)
    store.snapshotRecorder.record(store.environments.get(environment), {
      cause: "report",
      artifacts: ran,
      actor: {
        publicId: "ci",
        displayName: "ci",
      },
    });

  const retention = retentionOf(setup);
  const days = ({ trails, evidence }: { trails: number | null; evidence: number | null }) => ({
    trails,
    evidence: trails !== null && evidence !== null && evidence >= trails ? null : evidence,
  });
  if (world.organization) retention.rules.set({ organizationId, flowId: null }, days(world.organization));
  for (const { flow, ...rule } of world.flows)
    retention.rules.set({ organizationId, flowId: flows[flow] as number }, days(rule));
  for (const { flow, trail, released } of world.holds) {
    const found = trail === null ? null : store.trails.find(flows[flow] as number, `late-${trail}`);
    if (trail !== null && !found) continue;
    const id = retention.rules.createHold({ organizationId, flowId: flows[flow] as number }, found, {
      reason: "court",
      by: "legal",
    });
    if (released) retention.rules.releaseHold(retention.rules.findHold(id)?.id as number, "legal");
  }
  // The same names in an organization without rules.
  db.prepare(
    `INSERT INTO trails (public_id, organization_id, flow_id, name, template_id, template_inherited,
        created_by, created_at, last_modified_at, state, compliance_json, reasons_json)
     SELECT 'foreign', ?, ?, 'late-1', template_id, 1, '', 0, 0, 'COMPLIANT', '{}', '[]' FROM flows LIMIT 1`,
  ).run(other, foreign);
  db.prepare("UPDATE flows SET trail_count = 1 WHERE id = ?").run(foreign);
  return { ...setup, flows, foreign, retention };
}
