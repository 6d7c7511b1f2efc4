// The data of the measured requests: an organization of a delivery team, with flows that have a template, trails with
// an artifact and its evidence, and a policy. Created through the API, so that the rows are those of real reports.
import { drive, get, sendForm, sendJson } from "./load.ts";

export const ORG = "bench";
export const KEY = "bench-key-0123456789abcdefghijklmnopqrstuv";
const FLOWS = 20;
/** Enough that concurrent requests rarely meet in one trail, as with independent pipelines. */
export const TRAILS = 500;

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

/** Fills an empty organization. */
export async function populate(url: string): Promise<void> {
  const send = (requests: readonly Buffer[], expect: number) =>
    drive({ url, connections: 8, expect, next: (n) => requests[n] ?? null }).then(() => undefined);
  const flows = Array.from({ length: FLOWS }, (_, n) => n);
  const trails = Array.from({ length: TRAILS }, (_, n) => n);
  const form = (
    path: string,
    value: unknown,
    file: { field: string; content: string } | null,
    method: "PUT" | "POST" = "PUT",
    field = "data_json",
  ) => sendForm(method, `/api/v2${path}`, KEY, { field, value }, file);

  await send(
    flows.map((n) =>
      form(
        `/flows/${ORG}/template_file`,
        { name: `flow-${n}`, description: "A service" },
        { field: "template_file", content: TEMPLATE },
      ),
    ),
    201,
  );
  await send(
    trails.map((n) =>
      form(`/trails/${ORG}/${flowOf(n)}`, { name: trailName(n), git_commit_info: commitInfo(n) }, null),
    ),
    201,
  );
  await send(
    trails.map((n) =>
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
      }),
    ),
    201,
  );
  for (const name of ["unit-tests", "scan"] as const)
    await send(
      trails.map((n) => attestation(n, name, null)),
      201,
    );
  for (const name of ["review", "pull-request"] as const)
    await send(
      trails.map((n) => attestation(n, name, null)),
      201,
    );
  for (const [name, content] of Object.entries({ production: POLICY, ...FURTHER_POLICIES }))
    await send([form(`/policies/${ORG}`, { name }, { field: "policy_file", content }, "PUT", "payload")], 201);
  const environment = {
    name: ENVIRONMENT,
    type: "K8S",
    description: "",
    policies: ["production", ...Object.keys(FURTHER_POLICIES)],
  };
  await send([sendJson("PUT", `/api/v2/environments/${ORG}`, KEY, environment)], 201);
}

/** Bytes of the JSON part of an attestation. */
export const REPORT_BYTES = 1024;

const TRAIL_LEVEL: readonly string[] = ["review", "pull-request"];

/**
 * A generic attestation whose JSON part has 1 KB: on the trail's artifact by its fingerprint, or on the trail itself.
 */
export function attestation(trail: number, name: string, file: Buffer | null): Buffer {
  const path = `/api/v2/attestations/${ORG}/${flowOf(trail)}/trail/${trailName(trail)}/generic`;
  return sendForm(
    "POST",
    path,
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

export const read = (path: string): Buffer => get(path, KEY);
