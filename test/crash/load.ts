// Writers that send random requests until their server is gone.
import { ORG, sha256 } from "./ledger.ts";
import type { Api, Entry } from "./ledger.ts";

/** mulberry32: a small seeded generator, good enough for choosing requests. */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const FLOWS = 3;
const TRAILS = 12;
const ARTIFACTS = 3;
export const COMMIT = "0123456789abcdef0123456789abcdef01234567";

const template = (version: number): string => `# ${version}
version: 1
trail:
  attestations:
    - name: review
      type: generic
  artifacts:
    - name: app
      attestations:
        - name: unit-tests
          type: "*"
`;
const policy = (marker: string): string => `_schema: https://example.com/schemas/policy/v1
# ${marker}
artifacts:
  provenance:
    required: true
`;

export function form(
  json: object,
  field = "data_json",
  file: { part: string; content: Buffer | string } | null = null,
): FormData {
  const body = new FormData();
  body.append(field, JSON.stringify(json));
  if (file)
    body.append(
      file.part,
      new File([typeof file.content === "string" ? file.content : new Uint8Array(file.content)], "file.bin"),
    );
  return body;
}

/** Numbers the writes of all rounds, so that each is unique. */
let lastNumber = 0;
export const nextNumber = (): number => ++lastNumber;

/** An unexpected response: every request is valid. */
export const refusal = (what: string, { status, bytes }: { status: number; bytes: Buffer }): Error =>
  new Error(`${what}: ${status} ${bytes.toString()}`);

/** Sends one random write. Resolves with what the server acknowledged; rejects when the connection broke. */
async function writeOne(api: Api, random: () => number): Promise<Entry> {
  const n = nextNumber();
  const pick = (count: number): number => Math.floor(random() * count);
  const flow = `flow-${pick(FLOWS)}`;
  const trail = `trail-${pick(TRAILS)}`;
  // A function of the trail, so that attestations can name an artifact without looking it up.
  const fingerprint = sha256(Buffer.from(`${flow}/${trail}/${pick(ARTIFACTS)}`));
  const acknowledged = async (entry: Entry, request: Promise<{ status: number; bytes: Buffer }>): Promise<Entry> => {
    const answer = await request;
    if (answer.status !== 200 && answer.status !== 201) throw refusal(entry.kind, answer);
    return entry;
  };
  const choice = random();
  if (choice < 0.05)
    return acknowledged(
      { kind: "flow", flow },
      api.call(
        "PUT",
        `/flows/${ORG}/template_file`,
        form({ name: flow, description: `${n}` }, "data_json", { part: "template_file", content: template(n % 4) }),
      ),
    );
  if (choice < 0.12)
    return acknowledged(
      { kind: "trail", flow, trail, description: `${n}` },
      api.call("PUT", `/trails/${ORG}/${flow}`, form({ name: trail, description: `${n}` })),
    );
  if (choice < 0.3) {
    const body = {
      fingerprint,
      filename: "app",
      git_commit: COMMIT,
      build_url: "https://ci.example.com",
      commit_url: "https://git.example.com",
      trail_name: trail,
      template_reference_name: random() < 0.8 ? "app" : "extra",
    };
    return acknowledged(
      { kind: "artifact", flow, trail, fingerprint },
      api.call("POST", `/artifacts/${ORG}/${flow}`, body),
    );
  }
  if (choice < 0.36) {
    const name = `policy-${pick(4)}`;
    const marker = `marker-${n}-`;
    return acknowledged(
      { kind: "policy", policy: name, marker },
      api.call(
        "PUT",
        `/policies/${ORG}`,
        form({ name, comment: `${n}` }, "payload", { part: "policy_file", content: policy(marker) }),
      ),
    );
  }
  const name = random() < 0.3 ? "review" : random() < 0.5 ? "unit-tests" : `check-${n}`;
  const evidence =
    random() < 0.5 ? null : Buffer.alloc(random() < 0.8 ? 1 + pick(4_000) : 100_000 + pick(300_000), `evidence ${n} `);
  const early =
    random() < 0.5
      ? { target_artifacts: ["app"], git_commit_info: { sha1: COMMIT, message: "m", author: "a", timestamp: 1 } }
      : {};
  const body = { attestation_name: name, is_compliant: random() < 0.9, user_data: { n }, ...early };
  const file = evidence && { part: "attachment_file", content: evidence };
  return acknowledged(
    { kind: "attestation", flow, trail, name, n, digest: evidence && sha256(evidence) },
    api.call("POST", `/attestations/${ORG}/${flow}/trail/${trail}/generic`, form(body, "data_json", file)),
  );
}

/** Creates the flows that all writes go to. */
export async function prepare(api: Api): Promise<Entry[]> {
  const entries: Entry[] = [];
  for (let i = 0; i < FLOWS; i += 1) {
    await api.call(
      "PUT",
      `/flows/${ORG}/template_file`,
      form({ name: `flow-${i}` }, "data_json", { part: "template_file", content: template(0) }),
    );
    entries.push({ kind: "flow", flow: `flow-${i}` });
  }
  return entries;
}

/** A lane of writes: each call sends one and resolves with what was acknowledged, null for an expected refusal. */
export type Lane<T> = () => Promise<T | null>;

/** Lanes of random writes, each with its own random numbers. */
export const writers = (api: Api, lanes: number, seed: number): Lane<Entry>[] =>
  Array.from({ length: lanes }, (_value, index) => {
    const random = randomOf(seed * 1_000 + index);
    return () => writeOne(api, random);
  });

/**
 * Writes over all lanes until the server is gone; `entries` receives every acknowledgement. Resolves when every lane
 * has ended, with the unexpected responses.
 */
export async function writeUntilGone<T>(
  lanes: readonly Lane<T>[],
  entries: { push(entry: T): unknown },
): Promise<string[]> {
  const refusals: string[] = [];
  const run = async (write: Lane<T>): Promise<void> => {
    for (;;) {
      try {
        const entry = await write();
        if (entry) entries.push(entry);
      } catch (error) {
        // fetch reports a broken connection as TypeError; anything else is an unexpected response.
        if (error instanceof TypeError) return;
        refusals.push((error as Error).message);
        if (refusals.length > 10) return;
      }
    }
  };
  await Promise.all(lanes.map(run));
  return refusals;
}
