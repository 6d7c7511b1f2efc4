// The data of the runtime part: a thousand services with a flow each, two releases of some of them, three policies, and
// the reports of clusters in which they run. Names, owners and sizes are like those from a cluster's API.
import { createHash } from "node:crypto";
import { drive, sendForm, sendJson } from "./load.ts";
import { KEY, ORG } from "./world.ts";

export const SERVICES = 1_000;
/** Services with a second release, so that reports can contain a change. */
export const RELEASED_TWICE = 100;

const TEAMS = [
  "payments",
  "checkout",
  "catalog",
  "search",
  "identity",
  "shipping",
  "pricing",
  "ledger",
  "messaging",
  "insights",
];
const THINGS = [
  "orders",
  "invoices",
  "customers",
  "carts",
  "sessions",
  "vouchers",
  "returns",
  "stock",
  "routes",
  "ratings",
  "receipts",
  "refunds",
  "profiles",
  "tokens",
  "offers",
  "campaigns",
  "labels",
  "parcels",
  "alerts",
  "exports",
];
const PARTS = ["api", "worker", "scheduler", "gateway", "projector"];

const pick = (list: readonly string[], n: number): string => list[n % list.length] ?? "";
const digest = (text: string): string => createHash("sha256").update(text).digest("hex");

const teamOf = (service: number): string => pick(TEAMS, service);
const serviceName = (service: number): string =>
  [
    teamOf(service),
    pick(THINGS, Math.floor(service / TEAMS.length)),
    pick(PARTS, Math.floor(service / (TEAMS.length * THINGS.length))),
  ].join("-");
const imageOf = (service: number, release: number): string =>
  `registry.example.com/acme/${serviceName(service)}:1.${service % 40}.${release}`;
export const fingerprintOf = (service: number, release: number): string => digest(imageOf(service, release));

/** The three policies of every environment, in the order of attachment. */
export const POLICIES = ["provenance-and-trails", "tests-and-scans", "anything-attested"] as const;

const rules = (text: string): string =>
  `_schema: https://assay.example.com/schemas/policy/environment/v1\nartifacts:\n${text}`;
const FILES: Record<(typeof POLICIES)[number], string> = {
  "provenance-and-trails": rules(`  provenance:
    required: true
  trail-compliance:
    required: true
    exceptions:
      - if: flow.name == "experiments"
`),
  "tests-and-scans": rules(`  attestations:
    - { type: generic, name: unit-tests }
    - type: generic
      name: scan
      if: 'matches(artifact.name, "^registry.example.com/acme/(payments|ledger|identity)-")'
`),
  "anything-attested": rules(`  attestations:
    - { type: generic, name: "*" }
    - { type: "*", name: scan }
`),
};
/** A requirement that no service meets, for the policy file that inverts every verdict. */
const UNSATISFIED_RULE = "    - { type: generic, name: penetration-test }\n";

const put = (
  path: string,
  value: unknown,
  file: { field: string; content: string } | null,
  field = "data_json",
): Buffer => sendForm("PUT", `/api/v2${path}`, KEY, { field, value }, file);

/** The bytes of a new policy version: unchanged, or with a rule that nothing satisfies. */
export const policyVersion = (name: (typeof POLICIES)[number], strict: boolean): Buffer =>
  put(
    `/policies/${ORG}`,
    { name },
    { field: "policy_file", content: FILES[name] + (strict ? UNSATISFIED_RULE : "") },
    "payload",
  );

const template = (service: number): string => `version: 1
trail:
  attestations:
    - { name: pull-request, type: generic }
  artifacts:
    - name: ${serviceName(service)}
      attestations:
        - { name: unit-tests, type: generic }
        - { name: scan, type: generic }
`;

const commitInfo = (name: string) => ({
  sha1: digest(`commit of ${name}`).slice(0, 40),
  message: "Round half to even in the totals of an invoice",
  author: "Ada Lovelace <ada@example.com>",
  branch: "main",
  timestamp: 1_700_000_000,
  url: `https://git.example.com/acme/${name}/commit`,
  parents: [],
});

/**
 * Fills an empty organization: policies, flows, and for each release a trail with the artifact and three attestations.
 */
export async function populateRuntime(url: string): Promise<void> {
  const send = (requests: readonly Buffer[]): Promise<unknown> =>
    drive({ url, connections: 8, expect: 201, next: (n) => requests[n] ?? null });
  const services = Array.from({ length: SERVICES }, (_, service) => ({ service, release: 0 }));
  const releases = [...services, ...services.slice(0, RELEASED_TWICE).map(({ service }) => ({ service, release: 1 }))];
  const trailOf = (release: number): string => `release-${release}`;

  for (const policy of POLICIES) await send([policyVersion(policy, false)]);
  await send(
    services.map(({ service }) =>
      put(
        `/flows/${ORG}/template_file`,
        { name: serviceName(service), description: `Team ${teamOf(service)}` },
        { field: "template_file", content: template(service) },
      ),
    ),
  );
  await send(
    releases.map(({ service, release }) =>
      put(
        `/trails/${ORG}/${serviceName(service)}`,
        { name: trailOf(release), git_commit_info: commitInfo(serviceName(service)) },
        null,
      ),
    ),
  );
  await send(
    releases.map(({ service, release }) => {
      const name = serviceName(service);
      return sendJson("POST", `/api/v2/artifacts/${ORG}/${name}`, KEY, {
        trail_name: trailOf(release),
        template_reference_name: name,
        fingerprint: fingerprintOf(service, release),
        filename: imageOf(service, release),
        git_commit: commitInfo(name).sha1,
        git_commit_info: commitInfo(name),
        build_url: `https://ci.example.com/acme/${name}/runs/${release}`,
        commit_url: `https://git.example.com/acme/${name}/commit/${commitInfo(name).sha1}`,
        repo_info: {
          name: `acme/${name}`,
          id: String(service),
          url: `https://git.example.com/acme/${name}`,
          provider: "github",
        },
      });
    }),
  );
  for (const attested of ["unit-tests", "scan", "pull-request"])
    await send(
      releases.map(({ service, release }) =>
        sendForm("POST", `/api/v2/attestations/${ORG}/${serviceName(service)}/trail/${trailOf(release)}/generic`, KEY, {
          field: "data_json",
          value: {
            attestation_name: attested,
            is_compliant: true,
            origin_url: `https://ci.example.com/acme/${serviceName(service)}/runs/${release}`,
            ...(attested === "pull-request" ? {} : { artifact_fingerprint: fingerprintOf(service, release) }),
          },
        }),
      ),
    );
}

/** An item of a report: one pod. `name` is that of the image, `replica` distinguishes pods of one image. */
function pod(service: number, image: string, fingerprint: string, replica: number) {
  const owner = `${serviceName(service)}-${digest(image).slice(0, 10)}`;
  const id = digest(`${owner} owner`);
  return {
    podName: `${owner}-${digest(`${owner} ${replica}`).slice(0, 5)}`,
    namespace: `team-${teamOf(service)}`,
    digests: { [image]: fingerprint },
    creationTimestamp: 1_700_000_000 + service * 60 + replica,
    owners: [
      {
        apiVersion: "apps/v1",
        kind: "ReplicaSet",
        name: owner,
        controller: true,
        blockOwnerDeletion: true,
        uid: [id.slice(0, 8), id.slice(8, 12), id.slice(12, 16), id.slice(16, 20), id.slice(20, 32)].join("-"),
      },
    ],
  };
}

/** The report of `count` services from `first` on, one pod each; those in `released` run their second release. */
export function clusterReport(first: number, count: number, released: ReadonlySet<number> = new Set()): Buffer {
  const artifacts = Array.from({ length: count }, (_, n) => {
    const service = (first + n) % SERVICES;
    const release = released.has(service) ? 1 : 0;
    return pod(service, imageOf(service, release), fingerprintOf(service, release), 0);
  });
  return Buffer.from(JSON.stringify({ type: "K8S", artifacts }));
}

/** The report of these images, one pod each. */
export const reportOf = (images: readonly { image: string; fingerprint: string }[]): Buffer =>
  Buffer.from(
    JSON.stringify({
      type: "K8S",
      artifacts: images.map(({ image, fingerprint }, n) => pod(n % SERVICES, image, fingerprint, 0)),
    }),
  );

/** A report of `artifacts` images with `replicas` pods each. One image in ten has provenance. */
export function largeReport(artifacts: number, replicas: number): Buffer {
  const items = Array.from({ length: artifacts * replicas }, (_, n) => {
    const image = Math.floor(n / replicas);
    const service = image % SERVICES;
    const name =
      image < SERVICES
        ? imageOf(image, 0)
        : `registry.example.com/vendor/${serviceName(service)}:2.${Math.floor(image / SERVICES)}`;
    return pod(service, name, digest(name), n % replicas);
  });
  return Buffer.from(JSON.stringify({ artifacts: items }));
}
