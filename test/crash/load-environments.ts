// Writers of everything that causes snapshots: concurrent reports, policies, allowlists, and the facts that policies
// evaluate.
import { normalizePlain } from "../../src/domain/snapshot/normalize.ts";
import type { PhysicalType } from "../../src/store/environments/environments.ts";
import { digestOf } from "../../src/store/environments/snapshot-survey.ts";
import { ORG, sha256 } from "./ledger.ts";
import type { Api, Entry } from "./ledger.ts";
import type { EnvironmentEntry } from "./ledger-environments.ts";
import { COMMIT, form, nextNumber, randomOf, refusal } from "./load.ts";
import type { Lane } from "./load.ts";

/** Tolerated difference of equal times: client and server round to milliseconds. */
export const CLOCK_ROUNDING_S = 0.002;

type Artifact = { name: string; fingerprint: string };
/** An environment: `pool` is what may run there, `maxChanges` bounds the changes of one report. */
type Kind = { name: string; type: PhysicalType; pool: readonly Artifact[]; maxChanges: number };

const FLOWS = 3;
const TRAILS = 8;
const ARTIFACTS = 3;
const GATES = ["gate-0", "gate-1", "gate-2", "gate-3"];
/** An environment that is archived, renamed and recreated all the time, so its name may not exist. */
export const TRANSIENT = "transient";

/** A function of the trail name in all flows, so that an artifact may belong to several flows. */
const built = (trail: number, artifact: number): string => sha256(Buffer.from(`built/${trail}/${artifact}`));

/** Every third artifact is known to flows, a few are unresolved; names and fingerprints both repeat. */
function poolOf(size: number): Artifact[] {
  return Array.from({ length: size }, (_value, i) => {
    if (i % 12 === 11) return { name: `unresolved-${i}`, fingerprint: "" };
    const known = Math.floor(i / 3) % (TRAILS * ARTIFACTS);
    const fingerprint =
      i % 3 === 0 ? built(Math.floor(known / ARTIFACTS), known % ARTIFACTS) : sha256(Buffer.from(`bought/${i}`));
    return { name: `app-${i % 12 === 10 ? i - 1 : i}`, fingerprint };
  });
}

const STABLE: readonly Kind[] = [
  { name: "small-0", type: "K8S", pool: poolOf(12), maxChanges: 3 },
  { name: "small-1", type: "docker", pool: poolOf(24), maxChanges: 3 },
  { name: "small-2", type: "server", pool: poolOf(40), maxChanges: 6 },
  // Large enough for the thread that records large reports.
  { name: "big-0", type: "K8S", pool: poolOf(400), maxChanges: 100 },
];
const ALL: readonly Kind[] = [...STABLE, { name: TRANSIENT, type: "docker", pool: poolOf(150), maxChanges: 80 }];
const GROUPS = { everything: [...STABLE.map(({ name }) => name), TRANSIENT], pair: ["small-0", "small-1"] };

const STABLE_NAMES: readonly string[] = STABLE.map(({ name }) => name);

/** The policies of an environment: those acknowledged, and the change whose response has not arrived yet. */
type Attachments = { confirmed: Set<string>; pending: { policy: string; attached: boolean } | null };

/** State that is kept from round to round. */
export type World = {
  attachments: Map<string, Attachments>;
  /** The latest report to each environment. */
  reported: Map<string, Set<Artifact>>;
  /** A new name of the transient environment under which it may have been left behind. */
  stray: string | null;
};

const gate = (marker: string, random: () => number): string => `_schema: https://example.com/schemas/policy/v1
# ${marker}
artifacts:
  provenance: {required: ${random() < 0.3}, exceptions: [{if: "exists(flow.tags.waived)"}]}
  trail-compliance: {required: ${random() < 0.3}, exceptions: [{if: "exists(flow.tags.risk)"}]}
  attestations: [${random() < 0.5 ? '{name: unit-tests, type: "*"}' : ""}]
`;
const putGate = (api: Api, name: string, marker: string, random: () => number) =>
  api.call(
    "PUT",
    `/policies/${ORG}`,
    form({ name, comment: marker }, "payload", { part: "policy_file", content: gate(marker, random) }),
  );

const TEMPLATE =
  "version: 1\ntrail:\n  artifacts:\n    - name: app\n      attestations:\n        - {name: unit-tests, type: '*'}\n";

const seconds = (): number => Date.now() / 1000;

/** Creates flows, policies and environments, and reports to each environment once, so that all have a snapshot. */
export async function prepareEnvironments(api: Api): Promise<World> {
  const must = async (method: string, path: string, body?: FormData | object): Promise<void> => {
    const answer = await api.call(method, path, body);
    if (answer.status >= 300) throw refusal(`${method} ${path}`, answer);
  };
  const random = randomOf(1);
  for (let i = 0; i < FLOWS; i += 1)
    await must(
      "PUT",
      `/flows/${ORG}/template_file`,
      form({ name: `run-${i}` }, "data_json", { part: "template_file", content: TEMPLATE }),
    );
  for (const name of GATES) {
    const answer = await putGate(api, name, "marker-0-", random);
    if (answer.status >= 300) throw refusal(name, answer);
  }
  const world: World = { attachments: new Map(), reported: new Map(), stray: null };
  for (const { name, type, pool } of ALL) {
    await must("PUT", `/environments/${ORG}`, { name, type, description: "" });
    const running = new Set(pool.slice(0, Math.ceil(pool.length * 0.75)));
    await must("PUT", `/environments/${ORG}/${name}/report/${type}`, { artifacts: itemsOf(type, running, random) });
    world.reported.set(name, running);
    world.attachments.set(name, { confirmed: new Set(), pending: null });
  }
  for (const [name, included_environments] of Object.entries(GROUPS))
    await must("PUT", `/environments/${ORG}`, { name, type: "logical", description: "", included_environments });
  return world;
}

/** Items of a report, one or three for each artifact. */
function itemsOf(type: PhysicalType, running: ReadonlySet<Artifact>, random: () => number) {
  return [...running].flatMap(({ name, fingerprint }) =>
    Array.from({ length: random() < 0.9 ? 1 : 3 }, (_value, place) => ({
      digests: { [name]: fingerprint },
      creationTimestamp: 1_700_000_000 + place,
      ...(type === "K8S" ? { podName: `${name}-${place}`, namespace: "shop" } : {}),
    })),
  );
}

/**
 * The lanes of a round: reporters, the only one that attaches policies, one for policy versions, several for facts, and
 * one for the transient environment.
 */
export function environmentWriters(api: Api, world: World, seed: number): Lane<Entry | EnvironmentEntry>[] {
  const lanes = [
    ...Array.from({ length: 6 }, () => report),
    attach,
    version,
    ...Array.from({ length: 3 }, () => fact),
    recreateTransient,
  ];
  return lanes.map((write, index) => {
    const random = randomOf(seed * 1_000 + 500 + index);
    return () => write({ api, world, random, pick: (count) => Math.floor(random() * count), lane: index });
  });
}

type LaneContext = { api: Api; world: World; random: () => number; pick(count: number): number; lane: number };

async function report({ api, world, random, pick }: LaneContext): Promise<EnvironmentEntry | null> {
  const { name, type, pool, maxChanges } = ALL[random() < 0.3 ? ALL.length - 2 + pick(2) : pick(ALL.length)] as Kind;
  const running = new Set(world.reported.get(name));
  if (random() < 0.6) {
    for (let changes = random() < 0.25 ? maxChanges : 1 + pick(3); changes > 0; changes -= 1) {
      const artifact = pool[pick(pool.length)] as Artifact;
      if (!running.delete(artifact)) running.add(artifact);
    }
    world.reported.set(name, running);
  }
  const artifacts = itemsOf(type, running, random);
  const sent = seconds();
  const answer = await api.call("PUT", `/environments/${ORG}/${name}/report/${type}`, { artifacts });
  // Archived before the report was recorded; 409 when another environment has the name already. Nothing was stored.
  if (name === TRANSIENT && (answer.status === 404 || answer.status === 409)) return null;
  if (answer.status !== 200 && answer.status !== 201) throw refusal(`report to ${name}`, answer);
  const answered = seconds();
  if (name !== TRANSIENT && random() < 0.1) {
    const { body } = await api.call("GET", `/environments/${ORG}/${name}`);
    if (!(body.last_reported_at >= sent - CLOCK_ROUNDING_S))
      throw new Error(`${name} was reported to at ${sent}, but then read: ${JSON.stringify(body)}`);
  }
  return {
    kind: "report",
    environment: name,
    set: digestOf(normalizePlain(artifacts)),
    made: answer.status === 201,
    sent,
    answered,
  };
}

async function attach({ api, world, pick }: LaneContext): Promise<EnvironmentEntry> {
  const environment = STABLE_NAMES[pick(STABLE_NAMES.length)] as string;
  const policy = GATES[pick(GATES.length)] as string;
  const attachments = world.attachments.get(environment) as Attachments;
  const attached = !attachments.confirmed.has(policy);
  attachments.pending = { policy, attached };
  const sent = seconds();
  const answer = await api.call(attached ? "POST" : "DELETE", `/environments/${ORG}/${environment}/policies`, {
    policy_names: [policy],
  });
  if (answer.status >= 300) throw refusal(`policies of ${environment}`, answer);
  attachments.pending = null;
  if (attached) attachments.confirmed.add(policy);
  else attachments.confirmed.delete(policy);
  return { kind: "attached", environment, policy, attached, sent, answered: seconds() };
}

async function version({ api, random, pick }: LaneContext): Promise<Entry> {
  const policy = GATES[pick(GATES.length)] as string;
  const marker = `marker-${nextNumber()}-`;
  const answer = await putGate(api, policy, marker, random);
  if (answer.status >= 300) throw refusal(`version of ${policy}`, answer);
  return { kind: "policy", policy, marker };
}

/** Changes a fact that policies evaluate: an artifact, an attestation, tags of a flow, or an allowlist. */
async function fact({ api, random, pick, lane }: LaneContext): Promise<Entry | EnvironmentEntry | null> {
  const n = nextNumber();
  const flow = `run-${pick(FLOWS)}`;
  const at = pick(TRAILS);
  const trail = `trail-${at}`;
  const choice = random();
  const place = pick(ARTIFACTS);
  const sent = seconds();
  if (choice < 0.3) {
    const fingerprint = built(at, place);
    const answer = await api.call("POST", `/artifacts/${ORG}/${flow}`, {
      fingerprint,
      filename: "app",
      git_commit: COMMIT,
      build_url: "https://ci.example.com",
      commit_url: "https://git.example.com",
      trail_name: trail,
      template_reference_name: place === 0 ? "extra" : "app",
    });
    if (answer.status >= 300) throw refusal("artifact that runs", answer);
    return { kind: "artifact", flow, trail, fingerprint };
  }
  if (choice < 0.65) {
    const body = {
      attestation_name: "unit-tests",
      is_compliant: random() < 0.7,
      user_data: { n },
      target_artifacts: ["app"],
    };
    const commit = { git_commit_info: { sha1: COMMIT, message: "m", author: "a", timestamp: 1 } };
    const answer = await api.call(
      "POST",
      `/attestations/${ORG}/${flow}/trail/${trail}/generic`,
      form({ ...body, ...commit }),
    );
    if (answer.status >= 300) throw refusal("attestation of what runs", answer);
    return { kind: "attestation", flow, trail, name: "unit-tests", n, digest: null };
  }
  if (choice < 0.8) {
    // Numbers only grow, so a reader finds this value or a later one of the same lane.
    const key = `lane-${lane}`;
    const toggled = { risk: random() < 0.5, waived: random() < 0.3 };
    const set = Object.fromEntries(Object.entries(toggled).flatMap(([tag, on]) => (on ? [[tag, "yes"]] : [])));
    const remove = Object.entries(toggled).flatMap(([tag, on]) => (on ? [] : [tag]));
    const answer = await api.call("PATCH", `/tags/${ORG}/flow/${flow}`, {
      set_tags: { ...set, [key]: `${n}` },
      remove_tags: remove,
    });
    if (answer.status >= 300) throw refusal("tags of a flow", answer);
    return { kind: "tagged", flow, key, n };
  }
  const { name, pool } = ALL[pick(ALL.length)] as Kind;
  const fingerprint = (pool[pick(pool.length)] as Artifact).fingerprint || built(at, place);
  const answer = await api.call("PUT", `/allowlists/${ORG}/${name}`, {
    artifact_fingerprint: fingerprint,
    artifact_name: "app",
    description: `${n}`,
  });
  if (answer.status === 404 && name === TRANSIENT) return null;
  if (answer.status >= 300) throw refusal(`allowlist of ${name}`, answer);
  return { kind: "allowed", environment: name, fingerprint, n, sent, answered: seconds() };
}

/** Creates the transient environment with policies and as a member, and archives it, often after a rename. */
async function recreateTransient({ api, world, random }: LaneContext): Promise<EnvironmentEntry | null> {
  const { type } = ALL.at(-1) as Kind;
  const call = async (method: string, path: string, body?: object): Promise<void> => {
    const answer = await api.call(method, path, body);
    if (answer.status >= 300) throw refusal(`${method} ${path}`, answer);
  };
  if (world.stray) await api.call("PUT", `/environments/${ORG}/${world.stray}/archive`);
  world.stray = null;
  await call("PUT", `/environments/${ORG}`, {
    name: TRANSIENT,
    type,
    description: "",
    policies: GATES.filter(() => random() < 0.4),
  });
  await call("PUT", `/environments/${ORG}/everything/join`, { physical_env_name: TRANSIENT });
  // Gives the reporters time to report to it.
  for (let reads = 4; reads > 0; reads -= 1) await call("GET", `/environments/${ORG}/${TRANSIENT}`);
  const name: string = random() < 0.5 ? TRANSIENT : `${TRANSIENT}-${nextNumber()}`;
  if (name !== TRANSIENT) world.stray = name;
  if (name !== TRANSIENT) await call("PUT", `/environments/${ORG}/${TRANSIENT}/rename`, { new_name: name });
  const sent = seconds();
  await call("PUT", `/environments/${ORG}/${name}/archive`);
  world.stray = null;
  return { kind: "archived", environment: name, sent, answered: seconds() };
}
