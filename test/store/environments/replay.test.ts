import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  computeEnvironmentVerdict,
  evaluateInEnvironment,
  computeLogicalVerdict,
  provenanceOf,
} from "../../../src/domain/compliance/environment.ts";
import type { AppliedPolicy, Facts, Evaluation, StoredVerdict } from "../../../src/domain/compliance/environment.ts";
import { replay } from "../../../src/domain/compliance/replay.ts";
import { problemsOf } from "../../../src/store/environments/explanation-types.ts";
import type { Explanation } from "../../../src/store/environments/explanation-types.ts";
import { complianceFactStore } from "../../../src/store/environments/compliance-facts.ts";
import { OPEN } from "../../../src/store/environments/snapshots.ts";
import { history } from "./history.ts";

const test = suite("store/environments/replay");

type World = ReturnType<typeof history>;
const SEEDS = [1, 20261121, 987654321];
const STEPS = 300;

const booleanOf = (value: 0 | 1 | null): boolean | null => (value === null ? null : value === 1);
const identity = ({ name, fingerprint }: { name: string; fingerprint: string }): string => `${name}:${fingerprint}`;

const TODAY = ["environment", "last_index", "sameName"];

/**
 * Everything that a snapshot records, as a text. The ends of intervals, the environment and the advice about another
 * artifact of the same name are those of today, and so may change.
 */
const picture = (explanation: Explanation | null): string =>
  JSON.stringify(explanation, (key, value: unknown) =>
    TODAY.includes(key) ? undefined : value instanceof Map ? [...value] : value,
  );

/** The current verdicts, computed without any stored verdict. */
function evaluateFromScratch({ db, store, organizationId }: World, environment: number) {
  const facts = complianceFactStore(db, { attestations: store.attestations, flows: store.flows });
  const policies = store.environments.listPolicies(environment).map(({ id, name }): AppliedPolicy => {
    const version = store.policies.findLatestVersion(id);
    if (!version) throw new Error("every policy of a history has a version");
    return {
      policyName: name,
      versionId: version.id,
      version: version.version,
      document: store.policies.getDocument(version.id),
    };
  });
  return (artifact: { name: string; fingerprint: string }): Evaluation & { facts: Facts } => {
    const found = facts.read(organizationId, artifact.fingerprint);
    return {
      ...evaluateInEnvironment({
        policies,
        artifact,
        facts: found,
        isAllowlisted: store.allowlists.findLatest(environment, artifact.fingerprint) !== null,
      }),
      facts: found,
    };
  };
}

const withoutDeployments = ({ flows }: Facts) => flows.map(({ deployment_id: _, ...flow }) => flow);

for (const seed of SEEDS) {
  test(`a history of ${STEPS} steps (seed ${seed}) replays, and earlier snapshots stay as they were`, () => {
    const world = history(seed);
    const { db, store, physical, logical, groups, running } = world;
    const pictures = new Map<string, string>();
    const reportedIn = new Map<string, string[]>();

    for (let step = 0; step < STEPS; step += 1) {
      const { reported, checked, made } = world.step();
      for (const { environment, index } of made) {
        const at = `${environment}#${index}`;
        pictures.set(at, picture(store.explanations.explain(store.environments.get(environment), index)));
        if (!physical.includes(environment)) continue;
        reportedIn.set(at, (running.get(environment) ?? []).map(identity).sort());
        // A new snapshot rests entirely on the current facts.
        const evaluate = evaluateFromScratch(world, environment);
        for (const row of store.snapshots.listEvaluated(environment, index)) {
          if (row.annotation === "exited") continue;
          const fresh = evaluate(row);
          const kept = {
            compliant: booleanOf(row.compliant),
            verdicts: JSON.parse(row.verdicts_json),
            reasons: JSON.parse(row.reasons_json),
          };
          assert.equal(
            { ...kept, facts: withoutDeployments(JSON.parse(row.facts_json)) },
            { ...fresh, facts: withoutDeployments(fresh.facts) },
            `${at} ${identity(row)}`,
          );
        }
      }
      // Whether or not that made a snapshot: no verdict is other than the latest snapshot says, and after a report no
      // provenance.
      for (const id of checked) {
        const evaluate = evaluateFromScratch(world, id);
        for (const row of store.snapshots.listEvaluated(id, store.environments.get(id).snapshot_count)) {
          if (row.annotation === "exited") continue;
          const fresh = evaluate(row);
          assert.is(booleanOf(row.compliant), fresh.compliant, `step ${step}: ${identity(row)}`);
          if (id === reported)
            assert.is(
              provenanceOf(JSON.parse(row.facts_json)),
              provenanceOf(fresh.facts),
              `step ${step}: ${identity(row)}`,
            );
        }
      }
    }

    const indexes = new Map([...physical, ...logical].map((id) => [id, store.environments.get(id).snapshot_count]));
    assert.ok(
      [...indexes.values()].every((count) => count > 20),
      `${[...indexes.values()]}`,
    );
    for (const [id, count] of indexes)
      assert.equal(
        db.prepare("SELECT idx FROM snapshots WHERE environment_id = ? ORDER BY idx").pluck().all(id),
        Array.from({ length: count }, (_, place) => place + 1),
      );

    // Every evaluation, reached through the rows that refer to it.
    const kept = db
      .prepare(
        `SELECT e.id, s.name, s.fingerprint, e.compliant, s.compliant AS shown, e.allowlist_id,
            e.facts_json, e.verdicts_json, e.reasons_json
         FROM evaluations e LEFT JOIN snapshot_artifacts s ON s.evaluation_id = e.id`,
      )
      .all() as {
      id: number;
      name: string;
      fingerprint: string;
      compliant: 0 | 1 | null;
      shown: 0 | 1 | null;
      allowlist_id: number | null;
      facts_json: string;
      verdicts_json: string;
      reasons_json: string;
    }[];
    const seen = { true: 0, false: 0, null: 0, allowed: 0, failing: 0 };
    for (const row of kept) {
      assert.type(row.name, "string", `evaluation ${row.id} is the verdict of nothing`);
      assert.is(row.shown, row.compliant);
      const verdicts = JSON.parse(row.verdicts_json) as StoredVerdict[];
      const again = replay(
        {
          artifact: row,
          facts: JSON.parse(row.facts_json),
          allowlisted: row.allowlist_id !== null,
          stored: { compliant: booleanOf(row.compliant), verdicts, reasons: JSON.parse(row.reasons_json) },
        },
        store.policies.getDocument,
      );
      assert.equal(again.differences, []);
      assert.equal(JSON.stringify(again.evaluation.verdicts), row.verdicts_json);
      seen[String(booleanOf(row.compliant)) as "true" | "false" | "null"] += 1;
      if (row.compliant === 1 && verdicts.some(({ status }) => status !== "COMPLIANT")) seen.allowed += 1;
      if (row.verdicts_json.includes('"error"')) seen.failing += 1;
    }
    assert.ok(
      Object.values(seen).every((times) => times > 0),
      `the history has all of these: ${JSON.stringify(seen)}`,
    );

    for (const [id, count] of indexes)
      for (let index = 1; index <= count; index += 1) {
        const at = `${id}#${index}`;
        const explanation = store.explanations.explain(store.environments.get(id), index);
        assert.ok(explanation, at);
        assert.equal(problemsOf(explanation), [], at);
        assert.is(picture(explanation), pictures.get(at), at);
        const { snapshot, artifacts, members } = explanation;
        const counts = [snapshot.compliant_count, snapshot.non_compliant_count, snapshot.unknown_count];
        if (logical.includes(id)) {
          assert.equal(
            counts,
            ["compliant_count", "non_compliant_count", "unknown_count"].map((column) =>
              members.reduce((sum, member) => sum + member.snapshot[column as "unknown_count"], 0),
            ),
          );
          const state = computeLogicalVerdict(members.map((member) => booleanOf(member.snapshot.compliant)));
          // A member without a snapshot is not shown, and turns a compliant state into unknown.
          const size = { [groups.pair]: 2, [groups.all]: 3, [groups.withSilent]: 4 }[id];
          const found = booleanOf(snapshot.compliant);
          if (size === undefined) assert.ok(found === state || (state === true && found === null), at);
          else assert.is(found, state === true && members.length < size ? null : state, at);
        } else {
          const there = artifacts.filter(({ exited }) => !exited);
          assert.equal(there.map(({ row }) => identity(row)).sort(), reportedIn.get(at), at);
          assert.equal(
            counts,
            [true, false, null].map((wanted) => there.filter(({ compliant }) => compliant === wanted).length),
            at,
          );
          assert.is(
            booleanOf(snapshot.compliant),
            computeEnvironmentVerdict(
              there.map(({ compliant }) => compliant),
              explanation.policies.length,
            ),
            at,
          );
          const named = new Set(
            there.map(({ verdicts }) => JSON.stringify(verdicts.map(({ version }) => version.versionId))),
          );
          named.delete(snapshot.policy_versions_json);
          assert.is(named.size, 0, at);
        }
      }

    intervalsCover(world);
  });
}

/** Asserts that the intervals of an artifact follow each other without gap or overlap from start to exit, or to now. */
function intervalsCover({ db, physical }: World): void {
  type Row = {
    name: string;
    fingerprint: string;
    first_index: number;
    last_index: number;
    started_index: number;
    annotation: string;
    now: number;
  };
  for (const id of physical) {
    const rows = db
      .prepare(
        `SELECT name, fingerprint, first_index, last_index, started_index, annotation, now
            FROM snapshot_artifacts WHERE environment_id = ? ORDER BY name, fingerprint, first_index, last_index`,
      )
      .all(id) as Row[];
    for (const [place, row] of rows.entries()) {
      const [before, after] = [rows[place - 1], rows[place + 1]].map((other) =>
        other && identity(other) === identity(row) ? other : null,
      );
      const text = JSON.stringify(row);
      const starts = row.annotation.startsWith("started-");
      assert.is(starts, row.first_index === row.started_index, text);
      if (starts) assert.ok(!before || (before.annotation === "exited" && before.last_index < row.first_index), text);
      else
        assert.ok(
          before &&
            before.last_index === row.first_index - 1 &&
            before.started_index === row.started_index &&
            before.annotation !== "exited",
          text,
        );
      if (row.annotation === "exited")
        assert.equal({ first_index: row.first_index, now: row.now }, { first_index: row.last_index, now: 0 }, text);
      else assert.ok(row.now > 0 && (after ? row.last_index < OPEN : row.last_index === OPEN), text);
    }
  }
}

test.run();
