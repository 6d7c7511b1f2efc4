/**
 * The language in which pages of the guide say what was reported, and what follows (`test/README.md`):
 *
 *     flow payments (team=core), artifact app:1, junit unit-tests passes => COMPLIANT
 *
 * A line is facts, separated by commas, and their result. Each line is reported to a fresh organization through the
 * operations, so that it depends on nothing before it.
 */
import type { TestServer } from "../given.ts";
import { fresh, freshFingerprint } from "../given.ts";

/** An organization, and the key of its admin. */
export type At = { org: string; key: string };

/** A line of a block: what was reported, the result, and a part of its reason; null without one. */
export type Line = { facts: string; result: string; reason: string | null };

const BEGINS_FACT = /, (?=(?:no flow|flow|artifact|without|trail|decision|custom:\S+|[a-z_]+ \S+ (?:passes|fails)))/;

/** The lines of a block `FACTS => RESULT: REASON`. Throws an Error for a line without a result. */
export const readLines = (text: string): Line[] =>
  text
    .trimEnd()
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const at = line.lastIndexOf("=>");
      const [, result = "", reason = null] = /^ (\S+?)(?:: (.+))?$/.exec(line.slice(at + 2).trimEnd()) ?? [];
      if (at < 0 || result === "") throw new Error(`'${line}' is not FACTS => RESULT`);
      return { facts: line.slice(0, at).trim(), result, reason };
    });

export const splitFacts = (facts: string): string[] => (facts === "nothing" ? [] : facts.split(BEGINS_FACT));

/** What clients report of each type; `passes` is the verdict. */
const PAYLOADS: Readonly<Record<string, (passes: boolean) => object>> = {
  generic: (passes) => ({ is_compliant: passes }),
  junit: (passes) => ({
    junit_results: [{ name: "all", failures: passes ? 0 : 1, errors: 0, skipped: 0, total: 3, duration: 0.5 }],
  }),
  snyk: (passes) => ({
    snyk_results: {
      schema_version: 1,
      tool: { name: "Snyk", version: "1.2" },
      results: [{ low_count: 0, medium_count: 0, high_count: passes ? 0 : 1 }],
    },
  }),
  sonar: (passes) => ({
    sonar_results: {
      analysedAt: "2026-01-31T12:00:00+0000",
      revision: "abc",
      project: { key: "k", name: "K", url: "https://sonar.example.com/k" },
      qualityGate: { status: passes ? "OK" : "ERROR", conditions: [] },
    },
  }),
  jira: (passes) => ({
    jira_results: [{ issue_id: "PAY-1", issue_url: "https://jira.example.com/PAY-1", issue_exists: passes }],
  }),
  pull_request: (passes) => ({
    git_provider: "github",
    pull_requests: passes
      ? [{ url: "https://git.example.com/pull/2", state: "MERGED", author: "ada", commits: [], approvers: [] }]
      : [],
  }),
};

/** An attestation as a fact states it; `on` is the artifact that it is bound to, null for the trail. */
type AttestationFact = { kind: string; name: string; fields: object; on: string | null };

/**
 * Reads `junit NAME passes`, `decision NAME for CONTROL fails`, `custom:TYPE NAME {"data": 1}`, each optionally with
 * `on ARTIFACT`. null for another fact.
 */
export function readAttestation(fact: string): AttestationFact | null {
  const { 1: body = fact, 2: on = null } = /^(.*?)(?: on (\S+))?$/.exec(fact) ?? [];
  const decision = /^decision (\S+) for (\S+) (passes|fails)$/.exec(body);
  if (decision) {
    const [, name = "", control, word] = decision;
    const data = { type_name: "decision", control, attestation_data: { is_compliant: word === "passes" } };
    return { kind: "system", name, on, fields: data };
  }
  const custom = /^custom:(\S+) (\S+) (.+)$/.exec(body);
  if (custom) {
    const [, type, name = "", data = ""] = custom;
    return { kind: "custom", name, on, fields: { type_name: type, attestation_data: JSON.parse(data) as unknown } };
  }
  const [, kind = "", name = "", word] = /^(\S+) (\S+) (passes|fails)$/.exec(body) ?? [];
  const payload = PAYLOADS[kind];
  return payload ? { kind, name, on, fields: payload(word === "passes") } : null;
}

/** `(team=core risk=7)` as tags. */
const readTags = (text: string): Record<string, string> =>
  Object.fromEntries(text.split(" ").map((tag) => [tag.split("=", 1)[0] ?? "", tag.slice(tag.indexOf("=") + 1)]));

export const success = async (answering: Promise<{ status: number; text: string }>): Promise<void> => {
  const { status, text } = await answering;
  if (status !== 200 && status !== 201) throw new Error(`${status} ${text}`);
};

/** An artifact of the facts of a policy, as it runs. */
export type Reported = { name: string; fingerprint: string };

/**
 * Reports the facts about one artifact, in the order of the line: `flow NAME (KEY=VALUE ...)` begins a trail of that
 * flow in which the artifact is reported and to which what follows belongs, `no flow` reports nothing.
 */
export async function reportArtifact(server: TestServer, at: At, line: string): Promise<Reported> {
  const facts = splitFacts(line);
  const named = facts.flatMap((fact) => /^artifact (\S+)$/.exec(fact)?.[1] ?? []);
  const artifact = { name: named[0] ?? "registry.example.com/app:1", fingerprint: freshFingerprint() };
  const { given } = server;
  let place: { flow: string; trail: string } | null = null;
  const isWithoutTrail = facts.includes("without a trail");
  for (const fact of facts) {
    const [, flow, tags] = /^flow (\S+)(?: \((.+)\))?$/.exec(fact) ?? [];
    const expected = /^trail expects (\S+)$/.exec(fact)?.[1];
    const attestation = readAttestation(fact);
    if (flow !== undefined) {
      await given.flow(at, { name: flow });
      if (tags !== undefined)
        await success(
          server.call("PATCH", `/tags/${at.org}/flow/${flow}`, { key: at.key, body: { set_tags: readTags(tags) } }),
        );
      const trail = isWithoutTrail ? null : await given.trail(at, { flow });
      await given.artifact(at, { flow, trail, fingerprint: artifact.fingerprint, filename: artifact.name });
      place = trail === null ? null : { flow, trail };
    } else if (expected !== undefined && place) {
      const template = `trail:\n  attestations:\n    - name: ${expected}\n      type: "*"\n`;
      await given.trail(at, { flow: place.flow, name: place.trail, template });
    } else if (attestation && place) {
      const { kind, name, fields, on } = attestation;
      const bound = on === null ? {} : { fingerprint: artifact.fingerprint };
      await given.attestation(at, { ...place, kind, name, ...bound, ...fields });
    } else if (!/^(?:no flow|without a trail|artifact \S+)$/.test(fact)) throw new Error(`'${fact}' is not a fact`);
  }
  return artifact;
}

/** The verdict on what runs in an environment that uses the policy, with the reasons. */
export async function findVerdict(
  server: TestServer,
  at: At,
  { policy, artifact }: { policy: string; artifact: Reported },
): Promise<{ result: string; reasons: string[] }> {
  const environment = await server.given.environment(at, { type: "server", policies: [policy] });
  const artifacts = [{ digests: { [artifact.name]: artifact.fingerprint }, creationTimestamp: 1_700_000_000 }];
  const { key } = at;
  await success(
    server.call("PUT", `/environments/${at.org}/${environment}/report/server`, { key, body: { artifacts } }),
  );
  const { body } = await server.call("GET", `/snapshots/${at.org}/${environment}/-1`, { key });
  const [running] = body.artifacts;
  return { result: running.compliant ? "COMPLIANT" : "NON-COMPLIANT", reasons: running.reasons_for_incompliance };
}

/**
 * Reports the facts of a template to a trail of the flow: `artifact NAME`, and attestations of the trail or `on NAME`.
 * An attestation on an artifact that is not reported yet waits for it by their commit.
 */
export async function reportTrail(server: TestServer, at: At, { flow, line }: { flow: string; line: string }) {
  const { given } = server;
  const trail = await given.trail(at, { flow, name: fresh("trail") });
  const commit = "c".repeat(40);
  for (const fact of splitFacts(line)) {
    const name = /^artifact (\S+)$/.exec(fact)?.[1];
    const attestation = readAttestation(fact);
    if (name !== undefined) await given.artifact(at, { flow, trail, name, commit });
    else if (attestation) {
      const { kind, fields, on } = attestation;
      const bound = on === null ? {} : { target: on, commit };
      await given.attestation(at, { flow, trail, kind, name: attestation.name, ...bound, ...fields });
    } else throw new Error(`'${fact}' is not a fact`);
  }
  return trail;
}

type Entry = { attestation_name: string; status: string; is_compliant: boolean | null; unexpected: boolean };

/** The state of a trail, and its entries: `tests COMPLETE`, `app.scan MISSING`, `app MISSING`, `extra unexpected`. */
export async function readTrail(
  server: TestServer,
  at: At,
  { flow, trail }: { flow: string; trail: string },
): Promise<{ result: string; reasons: string[] }> {
  const { body } = await server.call("GET", `/trails/${at.org}/${flow}/${trail}`, { key: at.key });
  const { attestations_statuses: own, artifacts_statuses: artifacts } = body.compliance_status;
  const describe = (prefix: string, { attestation_name: name, status, is_compliant, unexpected }: Entry): string =>
    `${prefix}${name} ${unexpected ? "unexpected" : is_compliant === false ? "fails" : status}`;
  const reasons = own.map((entry: Entry) => describe("", entry));
  for (const [name, artifact] of Object.entries<any>(artifacts))
    reasons.push(
      `${name} ${artifact.unexpected ? "unexpected" : artifact.status}`,
      ...artifact.attestations_statuses.map((entry: Entry) => describe(`${name}.`, entry)),
    );
  return { result: body.compliance_state, reasons };
}
