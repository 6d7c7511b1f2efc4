// Writers of everything that makes snapshots: reports that race each other, policies, allowlists, and the facts of what
// runs.
import { normalizePlain } from "../../src/domain/snapshot/normalize.ts";
import type { PhysicalType } from "../../src/store/environments/environments.ts";
import { digestOf } from "../../src/store/environments/snapshot-survey.ts";
import { ORG, sha256 } from "./ledger.ts";
import type { Api, Entry } from "./ledger.ts";
import type { EnvironmentEntry } from "./ledger-environments.ts";
import { COMMIT, form, nextNumber, randomOf, refusal } from "./load.ts";
import type { Lane } from "./load.ts";

/** Seconds by which times may differ that were the same: both sides round to milliseconds. */
export const ROUNDING = 0.002;

type Artifact = { name: string; fingerprint: string };
/** An environment: `pool` is what may run there, `wide` the most that a report changes at once. */
type Kind = { name: string; type: PhysicalType; pool: readonly Artifact[]; wide: number };

const FLOWS = 3;
const TRAILS = 8;
const ARTIFACTS = 3;
const GATES = ["gate-0", "gate-1", "gate-2", "gate-3"];
/** Is archived, renamed and made again all the time, so that its name may be nobody's. */
export const FLEETING = "fleeting";

/** Of one trail name in all flows, so that an artifact may have several flows. */
const built = (trail: number, artifact: number): string => sha256(Buffer.from(`built/${trail}/${artifact}`));

/** Every third artifact is one that flows know, a few are unresolved; names and fingerprints both repeat. */
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
  { name: "small-0", type: "K8S", pool: poolOf(12), wide: 3 },
  { name: "small-1", type: "docker", pool: poolOf(24), wide: 3 },
  { name: "small-2", type: "server", pool: poolOf(40), wide: 6 },
  // Wide enough for the thread that records.
  { name: "big-0", type: "K8S", pool: poolOf(400), wide: 100 },
];
const ALL: readonly Kind[] = [...STABLE, { name: FLEETING, type: "docker", pool: poolOf(150), wide: 80 }];
const GROUPS = { everything: [...STABLE.map(({ name }) => name), FLEETING], pair: ["small-0", "small-1"] };

const STABLE_NAMES: readonly string[] = STABLE.map(({ name }) => name);

/** What policies an environment has: those acknowledged, and the change that was asked for and not yet answered. */
type Attachments = { is: Set<string>; asked: { policy: string; attached: boolean } | null };

/** What is remembered from round to round. */
export type World = {
  attachments: Map<string, Attachments>;
  /** What was reported last, by whomever. */ reported: Map<string, Set<Artifact>>;
  /** A new name of the fleeting environment under which it may have been left behind. */
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

/**
 * Flows, policies and environments, all of them reported to once, so that whatever is asked of them later finds a
 * snapshot.
 */
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
    world.attachments.set(name, { is: new Set(), asked: null });
  }
  for (const [name, included_environments] of Object.entries(GROUPS))
    await must("PUT", `/environments/${ORG}`, { name, type: "logical", description: "", included_environments });
  return world;
}

/** Items of a report, one to three for each artifact. */
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
 * The lanes of a round: reporters, one that is alone in attaching policies, one for their versions, some for facts, and
 * one for the environment that comes and goes.
 */
export function environmentWriters(api: Api, world: World, seed: number): Lane<Entry | EnvironmentEntry>[] {
  const lanes = [
    ...Array.from({ length: 6 }, () => report),
    attach,
    version,
    ...Array.from({ length: 3 }, () => fact),
    comeAndGo,
  ];
  return lanes.map((write, index) => {
    const random = randomOf(seed * 1_000 + 500 + index);
    return () => write({ api, world, random, pick: (count) => Math.floor(random() * count), lane: index });
  });
}

type Hand = { api: Api; world: World; random: () => number; pick(count: number): number; lane: number };

async function report({ api, world, random, pick }: Hand): Promise<EnvironmentEntry | null> {
  const { name, type, pool, wide } = ALL[random() < 0.3 ? ALL.length - 2 + pick(2) : pick(ALL.length)] as Kind;
  const running = new Set(world.reported.get(name));
  if (random() < 0.6) {
    for (let changes = random() < 0.25 ? wide : 1 + pick(3); changes > 0; changes -= 1) {
      const artifact = pool[pick(pool.length)] as Artifact;
      if (!running.delete(artifact)) running.add(artifact);
    }
    world.reported.set(name, running);
  }
  const artifacts = itemsOf(type, running, random);
  const sent = seconds();
  const answer = await api.call("PUT", `/environments/${ORG}/${name}/report/${type}`, { artifacts });
  if (answer.status === 404 && name === FLEETING) return null;
  if (answer.status !== 200 && answer.status !== 201) throw refusal(`report to ${name}`, answer);
  const answered = seconds();
  if (name !== FLEETING && random() < 0.1) {
    const { body } = await api.call("GET", `/environments/${ORG}/${name}`);
    if (!(body.last_reported_at >= sent - ROUNDING))
      throw new Error(`${name} was reported to at ${sent}, and then read: ${JSON.stringify(body)}`);
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

async function attach({ api, world, pick }: Hand): Promise<EnvironmentEntry> {
  const environment = STABLE_NAMES[pick(STABLE_NAMES.length)] as string;
  const policy = GATES[pick(GATES.length)] as string;
  const attachments = world.attachments.get(environment) as Attachments;
  const attached = !attachments.is.has(policy);
  attachments.asked = { policy, attached };
  const sent = seconds();
  const answer = await api.call(attached ? "POST" : "DELETE", `/environments/${ORG}/${environment}/policies`, {
    policy_names: [policy],
  });
  if (answer.status >= 300) throw refusal(`policies of ${environment}`, answer);
  attachments.asked = null;
  if (attached) attachments.is.add(policy);
  else attachments.is.delete(policy);
  return { kind: "attached", environment, policy, attached, sent, answered: seconds() };
}

async function version({ api, random, pick }: Hand): Promise<Entry> {
  const policy = GATES[pick(GATES.length)] as string;
  const marker = `marker-${nextNumber()}-`;
  const answer = await putGate(api, policy, marker, random);
  if (answer.status >= 300) throw refusal(`version of ${policy}`, answer);
  return { kind: "policy", policy, marker };
}

/** Something that a policy may look at changes: an artifact, an attestation, tags of a flow, or what is allowed. */
async function fact({ api, random, pick, lane }: Hand): Promise<Entry | EnvironmentEntry | null> {
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
    // Numbers only grow, so that what is found is this one or a later one of the same lane.
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
  if (answer.status === 404 && name === FLEETING) return null;
  if (answer.status >= 300) throw refusal(`allowlist of ${name}`, answer);
  return { kind: "allowed", environment: name, fingerprint, n, sent, answered: seconds() };
}

/** Archives the fleeting environment, often after a rename, and makes it again with policies and as a member. */
async function comeAndGo({ api, world, random }: Hand): Promise<EnvironmentEntry | null> {
  const { type } = ALL.at(-1) as Kind;
  const call = async (method: string, path: string, body?: object): Promise<void> => {
    const answer = await api.call(method, path, body);
    if (answer.status >= 300) throw refusal(`${method} ${path}`, answer);
  };
  if (world.stray) await api.call("PUT", `/environments/${ORG}/${world.stray}/archive`);
  world.stray = null;
  await call("PUT", `/environments/${ORG}`, {
    name: FLEETING,
    type,
    description: "",
    policies: GATES.filter(() => random() < 0.4),
  });
  await call("PUT", `/environments/${ORG}/everything/join`, { physical_env_name: FLEETING });
  // Others report to it meanwhile.
  for (let reads = 4; reads > 0; reads -= 1) await call("GET", `/environments/${ORG}/${FLEETING}`);
  const name: string = random() < 0.5 ? FLEETING : `${FLEETING}-${nextNumber()}`;
  if (name !== FLEETING) world.stray = name;
  if (name !== FLEETING) await call("PUT", `/environments/${ORG}/${FLEETING}/rename`, { new_name: name });
  const sent = seconds();
  await call("PUT", `/environments/${ORG}/${name}/archive`);
  world.stray = null;
  return { kind: "archived", environment: name, sent, answered: seconds() };
}
