/**
 * A history made up by a seeded generator and recorded through the store as the operations do it: flows with tags,
 * trails, artifacts with and without provenance, attestations that flip, overrides, policies in several versions,
 * allowlists, reports of several environments. Same seed, same history.
 */
import { findPendingAttestations } from "../../../src/domain/attestation/binding.ts";
import type { ReportedArtifact } from "../../../src/domain/snapshot/normalize.ts";
import type { EnvironmentType } from "../../../src/store/environments/environments.ts";
import { digestOf } from "../../../src/store/environments/snapshot-survey.ts";
import { opened } from "../given.ts";

const WHO = ["Ada", "Eve", "ci"].map((displayName) => ({ publicId: `${displayName}-id`, displayName }));

/** Rules of every kind, with expressions that hold, that do not, and that fail. */
const POLICIES = [
  "{}",
  `{ provenance: { required: true, exceptions: [ { if: "\${{ matches(artifact.name, '^ext') }}" } ] } }`,
  "{ provenance: { required: true }, trail-compliance: { required: true, " +
    'exceptions: [ { if: "${{ flow.tags.risk < 3 }}" } ] } }',
  "{ attestations: [ { name: tests, type: generic }, { type: junit, must_be_compliant: false }, " +
    '{ name: lint, type: "*" } ] }',
  `{ attestations: [ { name: tests, type: "*", must_be_compliant: false } ] }`,
  "{ attestations: [ { type: decision, for_control: C1, " +
    `if: "\${{ flow.tags.risk == 5 or flow.name == 'flow1' }}" } ] }`,
  `{ attestations: [ { name: lint, type: junit, if: "\${{ flow.tags.team }}" } ] }`,
  `{ trail-compliance: { required: true, exceptions: [ { if: "\${{ flow.tags.team }}" }, { if: null } ] } }`,
  '{ attestations: [ { type: "custom:scan" }, { name: tests, type: generic, ' +
    `if: "\${{ exists(flow) and not matches(artifact.fingerprint, '^[0-3]') }}" } ] }`,
];
const TYPES = ["generic", "junit", "custom:scan", "system:decision"];
const NAMES = ["tests", "lint", "scan"];
const ARTIFACTS = ["app", "db", "ext-proxy"];
const COMMITS = ["1", "2", "3"].map((digit) => digit.repeat(40));

/** The effect of a step: the snapshots it made, and the environments it checked, with or without a new snapshot. */
export type Step = { reported: number | null; checked: number[]; made: { environment: number; index: number }[] };

export function history(seed: number) {
  const setup = opened();
  const { db, store, clock, organizationId } = setup;
  let state = seed;
  /** An integer from 0 to `below`, exclusive. */
  const random = (below: number): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
  const pick = <T>(items: readonly T[]): T => items[random(items.length)] as T;
  const chance = (percent: number): boolean => random(100) < percent;
  const fingerprints = [..."0123456789abcdef"].slice(0, 9).map((digit) => digit.repeat(64));

  let environments = 0;
  const environment = (type: EnvironmentType): number =>
    store.environments.create(organizationId, {
      name: `env${(environments += 1)}`,
      type,
      description: "",
      includeScaling: false,
      requireProvenance: false,
    }).id;
  const physical = (["K8S", "server", "docker"] as const).map(environment);
  const silent = environment("S3");
  const group = (members: readonly number[]): number => {
    const id = environment("logical");
    store.environments.setMembers(id, members);
    return id;
  };
  const groups = {
    pair: group(physical.slice(0, 2)),
    all: group(physical),
    withSilent: group([...physical, silent]),
    changing: group(physical),
  };
  const logical = Object.values(groups);
  const flows = [0, 1, 2].map(
    (place) =>
      setup.flow(
        `flow${place}`,
        place === 0
          ? "version: 1\ntrail:\n  attestations: [ { name: lint, type: '*' } ]\n" +
              "  artifacts:\n  - name: app\n    attestations: [ { name: tests, type: generic } ]\n"
          : "version: 1",
      ).id,
  );
  const policies = ["base", "extra", "late"];
  /** The latest report of each physical environment: what runs there. */
  const running = new Map<number, ReportedArtifact[]>();

  const checked: number[] = [];

  const count = (id: number): number => store.environments.get(id).snapshot_count;

  function again(id: number, cause: "policies" | "policy_version" | "allowlist"): void {
    if (count(id) === 0) return;
    store.snapshotRecorder.record(store.environments.get(id), { cause, artifacts: null, actor: pick(WHO) });
    checked.push(id);
  }

  function build(): void {
    const flow = pick(flows);
    const name = `trail${random(3)}`;
    const trail = store.trails.find(flow, name) ?? setup.trail(flow, name);
    const at = {
      flowId: flow,
      trailId: trail.id,
      fingerprint: pick(fingerprints.slice(0, 7)),
      referenceName: pick([null, "app", "db"]),
    };
    const commit = pick(COMMITS);
    const known = store.artifacts.find(at);
    const id =
      known?.id ??
      setup.artifact(flow, trail.id, at.fingerprint, {
        git_commit: commit,
        ...(at.referenceName === null ? {} : { referenceName: at.referenceName }),
      });
    if (known) store.artifacts.update(id, { ...known, git_commit: commit, filename: `app-${random(3)}` }, clock.at);
    const artifact = { fingerprint: at.fingerprint, referenceName: at.referenceName, gitCommit: commit };
    const candidates = store.attestations.listBindingCandidates(trail.id, artifact, 100);
    const received = new Set(findPendingAttestations(artifact, candidates));
    for (const candidate of candidates)
      if (received.has(candidate.attestationId))
        store.attestations.bindToArtifact(
          { trailId: trail.id, artifactId: id },
          { id: candidate.id, name: candidate.name },
        );
    store.trailEvaluation.evaluate(trail.id, clock.at);
  }

  function buildWithoutTrail(): void {
    const at = { flowId: pick(flows), trailId: null, fingerprint: pick(fingerprints.slice(0, 7)), referenceName: null };
    const id = store.artifacts.find(at)?.id ?? setup.artifact(at.flowId, null, at.fingerprint);
    const expected = chance(50) ? [] : [{ name: "tests", type: "*" }];
    store.trailEvaluation.evaluateLegacy(
      { artifactId: id, flowId: at.flowId },
      { expected, isCompliant: pick([null, true, false]) },
      clock.at,
    );
  }

  function attest(): void {
    const trails = db.prepare("SELECT id, flow_id FROM trails").all() as { id: number; flow_id: number }[];
    if (trails.length === 0) return;
    const { id: trail, flow_id: flow } = pick(trails);
    const name = pick(NAMES);
    const artifacts = store.artifacts.listByTrail(trail);
    const artifact = chance(70) && artifacts.length > 0 ? pick(artifacts) : null;
    const early = artifact === null && chance(30);
    const previous = store.attestations.findCurrent(trail, artifact?.id ?? null, name);
    const override = !early && chance(15);
    const type = pick(TYPES);
    const overridden = override ? (previous?.overridden_type ?? previous?.type ?? pick(TYPES)) : null;
    const { id } = setup.attestation(flow, trail, name, {
      scope: artifact || early ? "artifact" : "trail",
      type: override ? "override" : type,
      overridden_type: overridden,
      original_id: override ? (previous?.id ?? null) : null,
      is_compliant: chance(60) ? 1 : 0,
      artifact_fingerprint: artifact?.fingerprint ?? null,
      control: override ? (previous?.control ?? null) : type === "system:decision" ? pick(["C1", "C2"]) : null,
      ...(early ? { target_artifacts_json: '["app"]', git_commit: COMMITS[0] as string } : {}),
    });
    if (artifact)
      for (const { id: each, fingerprint } of artifacts)
        if (fingerprint === artifact.fingerprint)
          store.attestations.bindToArtifact({ trailId: trail, artifactId: each }, { id, name });
    if (early)
      store.attestations.addPendingBinding(id, { trailId: trail, referenceName: "app", commit: COMMITS[0] as string });
    if (!artifact && !early) store.attestations.bindToTrail(trail, id, name);
    store.trailEvaluation.evaluate(trail, clock.at);
  }

  function changeFlow(): void {
    const flow = store.flows.get(pick(flows));
    if (flow.archived_at === null && chance(4)) store.flows.archive(flow);
    else if (flow.archived_at === null && chance(10)) store.flows.rename(flow, `${flow.name.slice(0, 5)}-${clock.at}`);
    else
      store.flows.patchTags(
        flow.id,
        chance(30)
          ? { set: {}, remove: [pick(["risk", "team"])] }
          : { set: { [pick(["risk", "team"])]: pick(["1", "5", "true", "red", "2.5"]) }, remove: [] },
      );
  }

  function changePolicy(): void {
    const put = store.policies.put(organizationId, {
      name: pick(policies),
      description: "",
      user: "ada",
      file: {
        yaml: `_schema: https://assay.example.com/schemas/policy/v1\nartifacts: ${pick(POLICIES)}\n`,
        comment: "",
      },
    });
    if (put.version === null) return;
    for (const id of physical.filter((each) =>
      store.environments.listPolicies(each).some((policy) => policy.id === put.policy.id),
    )) {
      store.staleArtifacts.markPoliciesChanged(id);
      // The job may run late, or after a report that already did its work.
      if (chance(70)) again(id, "policy_version");
    }
  }

  function attach(): void {
    const policy = store.policies.find(organizationId, pick(policies));
    if (!policy) return;
    const id = pick(physical);
    if (!store.environments.detachPolicies(id, [policy.id])) store.environments.attachPolicies(id, [policy.id]);
    again(id, "policies");
  }

  function allow(): void {
    const id = pick(physical);
    const fingerprint = pick(fingerprints);
    store.allowlists.create(
      { id, organization_id: organizationId },
      { fingerprint, artifact_name: "app", description: "why", user_id: "eve-id", user_name: "Eve", expires_at: null },
    );
    again(id, "allowlist");
  }

  /** Mostly the previous report with one artifact more or less, sometimes a different one, sometimes none. */
  function report(): number {
    const id = pick(physical);
    const same = chance(20);
    const kept = same ? (running.get(id) ?? []) : chance(85) ? (running.get(id) ?? []).filter(() => chance(90)) : [];
    const reported = new Map(kept.map((artifact) => [artifact.fingerprint + artifact.name, artifact]));
    for (let more = same ? 0 : random(3); more > 0; more -= 1) {
      const [name, fingerprint] = [pick(ARTIFACTS), chance(8) ? "" : pick(fingerprints)];
      reported.set(fingerprint + name, {
        name,
        fingerprint,
        instances: { created: Array.from({ length: 1 + random(3) }, () => clock.at) },
      });
    }
    const artifacts = [...reported.values()].sort((a, b) => (a.name + a.fingerprint < b.name + b.fingerprint ? -1 : 1));
    running.set(id, artifacts);
    const row = store.environments.get(id);
    if (store.snapshotRecorder.isUnchanged(row, digestOf(artifacts))) store.snapshotRecorder.recordUnchanged(id);
    else store.snapshotRecorder.record(row, { cause: "report", artifacts, actor: pick(WHO) });
    checked.push(id);
    return id;
  }

  /** Performs one random step. */
  function step(): Step {
    const before = new Map([...physical, ...logical].map((id) => [id, count(id)]));
    if (chance(3)) clock.at -= 50;
    const dice = random(100);
    let reported: number | null = null;
    if (dice < 40) reported = report();
    else if (dice < 55) build();
    else if (dice < 58) buildWithoutTrail();
    else if (dice < 80) attest();
    else if (dice < 87) changeFlow();
    else if (dice < 91) changePolicy();
    else if (dice < 97) attach();
    else if (dice < 99) allow();
    else
      store.environments.setMembers(
        groups.changing,
        physical.filter(() => chance(60)),
      );
    const made: Step["made"] = [];
    for (const [id, known] of before)
      for (let index = known + 1; index <= count(id); index += 1) made.push({ environment: id, index });
    return { reported, checked: checked.splice(0), made };
  }

  return { ...setup, step, physical, logical, groups, running };
}
