// The load under which the server is killed: lanes that begin flows and trails and report artifacts, attestations, evidence
// and policies, each for itself and all of them in one trail that they share, until the connection breaks.
import { createHash } from "node:crypto";
import { formData } from "../given.ts";
import type { Part } from "../given.ts";
import type { Journal, Write } from "./journal.ts";

export const ORG = "crash";
export const KEY = "crash-key-0123456789abcdefghijklmnopqrstuv";
export const LANES = 8;

export const APPLY_FILE = `
organizations:
  - name: ${ORG}
    members: [{ user: operator, role: admin }]
users:
  - name: operator
    api_keys: [{ description: crash, key: ${KEY} }]
`;

const TEMPLATE = `
version: 1
trail:
  attestations: [{ name: review, type: generic }]
  artifacts:
    - name: backend
      attestations: [{ name: unit-tests, type: generic }, { name: scan, type: "*" }]
    - name: frontend
`;

const yamlOf = (version: number): string =>
  `_schema: https://assay.example.com/schemas/policy/environment/v1\n# version ${version}\nartifacts:\n  attestations:\n    - { type: generic, name: check-${version} }\n`;

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

/** The server does not answer any more: what a lane ends with. */
class GoneError extends Error {}

/** Runs all lanes of a round until the server is gone. `random` decides sizes and kinds. */
export async function write(url: string, round: number, journal: Journal, random: () => number): Promise<void> {
  const send = sender(url, journal);
  const shared = { flow: `shared-${round}`, trail: "shared" };
  await quietly(async () => {
    await beginFlow(send, shared.flow);
    await beginTrail(send, shared.flow, shared.trail);
    await Promise.all(Array.from({ length: LANES }, (_, lane) => quietly(() => runLane(send, round, lane, shared, random))));
  });
}

async function quietly(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof GoneError)) throw error;
  }
}

type Send = (write: Write, method: "PUT" | "POST", path: string, body: { json: unknown } | { form: Part }) => Promise<void>;

function sender(url: string, journal: Journal): Send {
  return async (attempt, method, path, body) => {
    journal.tried.push(attempt);
    let status: number;
    let text: string;
    try {
      const response = await fetch(`${url}/api/v2${path}`, {
        method,
        headers: { Authorization: `Bearer ${KEY}`, ...("json" in body ? { "Content-Type": "application/json" } : {}) },
        body: "json" in body ? JSON.stringify(body.json) : formData(body.form),
      });
      status = response.status;
      text = await response.text();
    } catch (error) {
      throw new GoneError(`${method} ${path}`, { cause: error });
    }
    if (status === 200 || status === 201) journal.acknowledged.push(attempt);
    else journal.refused.push(`${method} ${path}: ${status} ${text}`);
  };
}

const beginFlow = (send: Send, flow: string) =>
  send({ kind: "flow", flow }, "PUT", `/flows/${ORG}/template_file`, {
    form: { json: { name: flow }, file: { name: "template_file", filename: "template.yml", content: TEMPLATE } },
  });

const beginTrail = (send: Send, flow: string, trail: string) =>
  send({ kind: "trail", flow, trail }, "PUT", `/trails/${ORG}/${flow}`, { form: { json: { name: trail } } });

async function runLane(send: Send, round: number, lane: number, shared: { flow: string; trail: string }, random: () => number): Promise<void> {
  const flow = `flow-${round}-${lane}`;
  await beginFlow(send, flow);
  for (let turn = 1; ; turn += 1) {
    const trail = `trail-${turn}`;
    const unique = `${round}-${lane}-${turn}`;
    const fingerprint = sha256(`artifact ${unique}`);
    const commit = sha256(`commit ${unique}`).slice(0, 40);
    const commitInfo = { git_commit_info: { sha1: commit, message: unique } };
    const here = { flow, trail };
    // Reported before its artifact, so that it waits for it; it begins the trail as well, now and then.
    if (random() < 0.5) await beginTrail(send, flow, trail);
    await attest(send, here, `${unique}-early`, "unit-tests", { target_artifacts: ["backend"], ...commitInfo }, random);
    await send({ kind: "artifact", ...here, fingerprint }, "POST", `/artifacts/${ORG}/${flow}`, {
      json: {
        trail_name: trail, template_reference_name: random() < 0.8 ? "backend" : "unexpected", fingerprint, filename: "backend.tar",
        git_commit: commit, ...commitInfo, build_url: "https://ci.example.com/1", commit_url: "https://git.example.com/1",
      },
    });
    await attest(send, here, `${unique}-scan`, "scan", { artifact_fingerprint: fingerprint }, random);
    await attest(send, here, `${unique}-review`, "review", {}, random);
    await attest(send, shared, `${unique}-shared`, random() < 0.5 ? "review" : `review-${lane}`, {}, random);
    // Content only counts as a new version if it differs; each writer has a policy of its own, so it knows the number.
    await send({ kind: "policy", policy: `policy-${round}-${lane}`, version: turn, yaml: yamlOf(turn) }, "PUT", `/policies/${ORG}`, {
      form: { field: "payload", json: { name: `policy-${round}-${lane}` }, file: { name: "policy_file", filename: "policy.yml", content: yamlOf(turn) } },
    });
  }
}

async function attest(
  send: Send,
  { flow, trail }: { flow: string; trail: string },
  token: string,
  name: string,
  about: Record<string, unknown>,
  random: () => number,
): Promise<void> {
  const compliant = random() < 0.8;
  const content = evidenceOf(token, random);
  await send(
    { kind: "attestation", flow, trail, name, token, compliant, digest: content === null ? null : sha256(content) },
    "POST",
    `/attestations/${ORG}/${flow}/trail/${trail}/generic`,
    {
      form: {
        json: { attestation_name: name, is_compliant: compliant, user_data: { token }, ...about },
        ...(content === null ? {} : { file: { name: "attachment_file", filename: "evidence.txt", content } }),
      },
    },
  );
}

/** No evidence, a little, something that others attach as well, or so much that it is received in a file. */
function evidenceOf(token: string, random: () => number): string | null {
  const choice = random();
  if (choice < 0.5) return null;
  if (choice < 0.8) return `evidence of ${token}\n`.repeat(1 + Math.floor(random() * 40));
  if (choice < 0.9) return `what everybody attaches, number ${Math.floor(random() * 20)}`;
  return `${token} `.repeat(20_000 + Math.floor(random() * 20_000));
}
