// The data of the measured requests: an organization of a delivery team, with flows that have a template, trails with
// an artifact and its evidence, and policies; and as many flows of one trail each. Created through the API, so that the
// rows are those of real reports.
import { drive, get, sendForm, sendJson } from "./load.ts";

export const ORG = "bench";
export const KEY = "bench-key-0123456789abcdefghijklmnopqrstuv";
const FLOWS = 20;
/** Enough that concurrent requests rarely meet in one trail, as with independent pipelines. */
export const TRAILS = 1_000;
/** Flows of one trail each; a further flow has as many trails. */
export const SMALL_FLOWS = 1_000;

/** The apply file of the organization and the one key that all requests use. */
export const APPLY_FILE = `
organizations:
  - name: ${ORG}
    members: [{ user: operator, role: admin }]
users:
  - name: operator
    api_keys: [{ description: bench, key: ${KEY} }]
`;

const TEMPLATE = `
version: 1
trail:
  attestations:
    - { name: pull-request, type: pull_request }
    - { name: review, type: generic }
  artifacts:
    - name: backend
      attestations:
        - { name: unit-tests, type: generic }
        - { name: scan, type: generic }
`;

const POLICY = `
_schema: https://assay.example.com/schemas/policy/environment/v1
artifacts:
  provenance:
    required: true
  trail-compliance:
    required: true
    exceptions:
      - if: flow.name == "experiments"
  attestations:
    - { type: generic, name: unit-tests }
    - { type: generic, name: scan, if: 'matches(artifact.name, "^registry")' }
    - { type: generic, name: "*" }
`;

/** An environment with three policies. */
export const ENVIRONMENT = "production";
/** Attached to it in addition to the one above. */
const FURTHER_POLICIES: Readonly<Record<string, string>> = {
  tests: `
_schema: https://assay.example.com/schemas/policy/environment/v1
artifacts:
  attestations:
    - { type: generic, name: unit-tests }
    - { type: generic, name: review, if: 'flow.name == "flow-1"' }
`,
  anything: `
_schema: https://assay.example.com/schemas/policy/environment/v1
artifacts:
  attestations:
    - { type: generic, name: "*" }
    - { type: "*", name: scan }
`,
};

/** The policies of an environment. */
export const ENVIRONMENT_POLICIES: readonly string[] = ["production", ...Object.keys(FURTHER_POLICIES)];

export const flowOf = (trail: number): string => `flow-${trail % FLOWS}`;
export const trailName = (trail: number): string => `trail-${trail}`;
export const fingerprintOf = (trail: number): string => trail.toString(16).padStart(64, "a1b2c3d4e5f60718");
const commitOf = (trail: number): string => trail.toString(16).padStart(40, "c0ffee");

const commitInfo = (trail: number) => ({
  sha1: commitOf(trail),
  message: "Round half to even in the totals of an invoice",
  author: "Ada Lovelace <ada@example.com>",
  branch: "main",
  timestamp: 1_700_000_000 + trail,
  url: `https://git.example.com/acme/backend/commit/${commitOf(trail)}`,
  parents: [],
});

const form = (
  path: string,
  value: unknown,
  file: { field: string; content: string } | null,
  field = "data_json",
): Buffer => sendForm("PUT", `/api/v2${path}`, KEY, { field, value }, file);

const newFlow = (name: string): Buffer =>
  form(
    `/flows/${ORG}/template_file`,
    { name, description: "A service" },
    { field: "template_file", content: TEMPLATE },
  );

const newTrail = (flow: string, trail: number): Buffer =>
  form(`/trails/${ORG}/${flow}`, { name: trailName(trail), git_commit_info: commitInfo(trail) }, null);

const newArtifact = (n: number): Buffer =>
  sendJson("POST", `/api/v2/artifacts/${ORG}/${flowOf(n)}`, KEY, {
    trail_name: trailName(n),
    template_reference_name: "backend",
    fingerprint: fingerprintOf(n),
    filename: "registry.example.com/acme/backend:1.4.0",
    git_commit: commitOf(n),
    git_commit_info: commitInfo(n),
    build_url: `https://ci.example.com/acme/backend/runs/${n}`,
    commit_url: `https://git.example.com/acme/backend/commit/${commitOf(n)}`,
    repo_info: {
      name: "acme/backend",
      id: "4711",
      url: "https://git.example.com/acme/backend",
      provider: "github",
    },
  });

const createAll = (url: string, requests: readonly Buffer[]): Promise<unknown> =>
  drive({ url, connections: 8, expect: 201, next: (n) => requests[n] ?? null });
const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

/** Fills an empty organization with FLOWS flows and TRAILS trails, each with an artifact and four attestations. */
export async function populate(url: string): Promise<void> {
  const trails = upTo(TRAILS);
  await createAll(
    url,
    upTo(FLOWS).map((n) => newFlow(`flow-${n}`)),
  );
  await createAll(
    url,
    trails.map((n) => newTrail(flowOf(n), n)),
  );
  await createAll(url, trails.map(newArtifact));
  for (const name of ["unit-tests", "scan", "review", "pull-request"] as const)
    await createAll(
      url,
      trails.map((n) => attestation(n, name, null)),
    );
  for (const [name, content] of Object.entries({ production: POLICY, ...FURTHER_POLICIES }))
    await createAll(url, [form(`/policies/${ORG}`, { name }, { field: "policy_file", content }, "payload")]);
  const environment = {
    name: ENVIRONMENT,
    type: "K8S",
    description: "",
    policies: ENVIRONMENT_POLICIES,
  };
  await createAll(url, [sendJson("PUT", `/api/v2/environments/${ORG}`, KEY, environment)]);
}

const LARGE_FLOW = "large-flow";

/** Adds SMALL_FLOWS flows of one trail each, and one flow with as many trails. All have the same template. */
export async function populateSmallFlows(url: string): Promise<void> {
  const flows = upTo(SMALL_FLOWS);
  await createAll(url, [newFlow(LARGE_FLOW), ...flows.map((n) => newFlow(`small-flow-${n}`))]);
  await createAll(
    url,
    flows.map((n) => newTrail(LARGE_FLOW, n)),
  );
  // Last, so that the newest trails are those of as many flows.
  await createAll(
    url,
    flows.map((n) => newTrail(`small-flow-${n}`, n)),
  );
}

/** A generic attestation of 1 KB on the trail of a small flow, or on a trail of the large one. */
export const spreadAttestation = (n: number, over: "small flows" | "large flow"): Buffer =>
  sendForm(
    "POST",
    attestationPath(over === "large flow" ? LARGE_FLOW : `small-flow-${n % SMALL_FLOWS}`, n % SMALL_FLOWS),
    KEY,
    { field: "data_json", value: report(n % SMALL_FLOWS, "review") },
  );

/** Bytes of the JSON part of an attestation. */
export const REPORT_BYTES = 1024;

const attestationPath = (flow: string, trail: number): string =>
  `/api/v2/attestations/${ORG}/${flow}/trail/${trailName(trail)}/generic`;

const TRAIL_LEVEL: readonly string[] = ["review", "pull-request"];

/**
 * A generic attestation whose JSON part has 1 KB: on the trail's artifact by its fingerprint, or on the trail itself.
 */
export function attestation(trail: number, name: string, file: Buffer | null): Buffer {
  return sendForm(
    "POST",
    attestationPath(flowOf(trail), trail),
    KEY,
    { field: "data_json", value: report(trail, name) },
    file && { field: "attachment_file", content: file },
  );
}

/** The JSON of an attestation, REPORT_BYTES long. */
export function report(trail: number, name: string): Record<string, unknown> {
  const value = {
    attestation_name: name,
    is_compliant: true,
    ...(TRAIL_LEVEL.includes(name) ? {} : { artifact_fingerprint: fingerprintOf(trail) }),
    git_commit_info: commitInfo(trail),
    origin_url: `https://ci.example.com/acme/backend/runs/${trail}`,
    description: "Everything that was required was found",
    user_data: { padding: "" },
  };
  value.user_data.padding = "x".repeat(REPORT_BYTES - JSON.stringify(value).length);
  return value;
}

export const artifactPath = (trail: number): string =>
  `/api/v2/artifacts/${ORG}/${flowOf(trail)}/fingerprint/${fingerprintOf(trail)}`;
export const assertPath = (trail: number, scope: { policy: string } | { environment: string } | null): string => {
  const query =
    scope === null ? "" : "policy" in scope ? `?policy_name=${scope.policy}` : `?environment_name=${scope.environment}`;
  return `/api/v2/asserts/${ORG}/fingerprint/${fingerprintOf(trail)}${query}`;
};

export const trailPath = (trail: number): string => `/api/v2/trails/${ORG}/${flowOf(trail)}/${trailName(trail)}`;

export const read = (path: string): Buffer => get(path, KEY);
