/** What acme's pipelines report: the body of an attestation of each type, passing unless said otherwise. */
import { hash } from "node:crypto";
import { imageEvidence, jsonEvidence, textEvidence, tgzEvidence } from "../evidence.ts";
import type { FormFile } from "../steps.ts";

/** What differs from a pass. `missing`: not reported at all. */
export type Result = Partial<{
  missing: true;
  total: number;
  failures: number;
  skipped: number;
  high: number;
  medium: number;
  unknown: number;
  components: number;
  compliant: boolean;
  description: string;
  annotations: Record<string, string>;
}>;

/** The release that is reported about; `number` differs from release to release, and sizes derive from it. */
export type ReleaseSubject = {
  trail: string;
  commit: string;
  message: string;
  author: string;
  at: number;
  pullRequest: number;
  ticket: string;
  repo: string;
  number: number;
};

type Report = { segment: string; fields: Record<string, unknown>; file?: FormFile };
/** `image`: what it is about; null for the trail. */
type Reported = { name: string; image: string | null };
type Reporter = (subject: ReleaseSubject, result: Result, reported: Reported) => Report;

const FINDINGS = {
  high: [
    { id: "SNYK-DEBIAN12-LIBPEAPOD-5861", message: "Out-of-bounds read in libpeapod, fixed in 3.2.1" },
    { id: "SNYK-DEBIAN12-OPENBRIE-1093", message: "Use after free in openbrie, fixed in 1.1.9" },
  ],
  medium: [
    { id: "SNYK-JS-YAMLISH-40412", message: "Uncontrolled recursion in yamlish, fixed in 0.9.14" },
    { id: "SNYK-JS-HTTPKETTLE-7711", message: "Header injection in http-kettle, no fix yet" },
    { id: "SNYK-DEBIAN12-TARBALLOON-22", message: "Path traversal in tarballoon, fixed in 2.0.3" },
  ],
};

/** `acme/ledger-worker:1.19.4` in its parts. */
const partsOf = (image: string | null): { service: string; version: string } => {
  const [, service = "", version = ""] = /([^/:]*):([^:]*)$/.exec(image ?? "") ?? [];
  return { service, version };
};

/** Unit tests of the first release, where a service has fewer than others. */
const FIRST_TESTS: Readonly<Record<string, number>> = { "db-migrations": 50, "ledger-worker": 283 };

/** Unit tests grow with each release; browser tests stay. */
const sizeOf = ({ name, image }: Reported, number: number): { total: number; skipped: number } =>
  name === "browser-tests"
    ? { total: 412, skipped: 0 }
    : { total: (FIRST_TESTS[partsOf(image).service] ?? 1190) + number, skipped: 6 };

const junit: Reporter = ({ at, number }, result, reported) => {
  const { name } = reported;
  const { total, failures = 0, skipped, ...rest } = { ...sizeOf(reported, number), ...result };
  const suite = (part: string, share: number) => ({
    name: `${name}.${part}`,
    total: share,
    failures: 0,
    errors: 0,
    skipped: 0,
    duration: share / 40,
    timestamp: at,
  });
  const half = Math.floor(total / 2);
  const broken = { ...suite("payments", total - half), failures, skipped };
  const log = [`ran ${total} tests`, `failed ${failures}, skipped ${skipped}`];
  return {
    segment: "junit",
    fields: { ...rest, junit_results: [suite("domain", half), broken] },
    file:
      failures > 0
        ? imageEvidence("checkout-button.png")
        : tgzEvidence({ "report/domain.xml": `<testsuite tests="${half}"/>\n`, "report/log.txt": log.join("\n") }),
  };
};

const snyk: Reporter = (_subject, { high = 0, medium = 0, ...result }) => {
  const counts = { low_count: 0, medium_count: medium, high_count: high };
  const found = { high: FINDINGS.high.slice(0, high), medium: FINDINGS.medium.slice(0, medium), low: [] };
  return {
    segment: "snyk",
    fields: {
      ...result,
      snyk_results: {
        schema_version: 1,
        tool: { name: "Snyk Container", version: "1.1290.0" },
        results: [{ ...counts, ...found }],
      },
    },
    file: jsonEvidence("snyk.json", { base_image: "debian-slim 12", ...counts, ...found }),
  };
};

const sonar: Reporter = ({ commit, at, repo, number }, { compliant = true, ...result }) => ({
  segment: "sonar",
  fields: {
    ...result,
    sonar_results: {
      serverUrl: "https://sonar.acme.example",
      taskId: `task-${number}`,
      status: "SUCCESS",
      analysedAt: new Date(at * 1000).toISOString().replace(/\.\d+Z$/, "+0000"),
      revision: commit,
      project: { key: repo, name: repo, url: `https://sonar.acme.example/dashboard?id=${encodeURIComponent(repo)}` },
      qualityGate: {
        name: "acme way",
        status: compliant ? "OK" : "ERROR",
        conditions: [
          { metric: "new_coverage", operator: "LESS_THAN", errorThreshold: "80", value: "86.4", status: "OK" },
          { metric: "new_violations", operator: "GREATER_THAN", errorThreshold: "0", value: "0", status: "OK" },
        ],
      },
    },
  },
});

const pullRequest: Reporter = ({ commit, message, author, at, pullRequest: number, repo }) => ({
  segment: "pull_request",
  fields: {
    git_provider: "gitlab",
    pull_requests: [
      {
        url: `https://git.acme.example/${repo}/merge_requests/${number}`,
        state: "MERGED",
        author,
        title: message,
        merge_commit: commit,
        created_at: at - 90_000,
        merged_at: at - 1800,
        head_ref: `change-${number}`,
        base_ref: "main",
        approvers: [
          { username: "security-duty", state: "APPROVED", timestamp: at - 4000 },
          { username: "release-manager", state: "APPROVED", timestamp: at - 2200 },
        ],
        commits: [{ sha1: commit, author: `${author} <${author}@acme.example>`, message, timestamp: at - 7200 }],
      },
    ],
  },
});

const jira: Reporter = ({ ticket, message }) => ({
  segment: "jira",
  fields: {
    jira_results: [
      {
        issue_id: ticket,
        issue_url: `https://jira.acme.example/browse/${ticket}`,
        issue_exists: true,
        issue_fields: { summary: message, status: { name: "In release" } },
      },
    ],
  },
});

const decision: Reporter = ({ repo }, { compliant = true, ...result }) => ({
  segment: "system",
  fields: {
    ...result,
    type_name: "decision",
    control: repo === "acme/infra" ? "SEC-NET-2" : "SEC-REL-4",
    attestation_data: { is_compliant: compliant },
  },
});

/** Packages of the images, as scanners list them: with what they know of each. */
const PACKAGES = [
  { name: "openbrie", version: "1.1.9", supplier: "Debian", licence: "MIT" },
  { name: "libpeapod", version: "3.2.1", supplier: "Debian", licence: "BSD-3-Clause" },
  { name: "tarballoon", version: "2.0.3", supplier: "Debian", licence: "GPL-2.0-only" },
  { name: "yamlish", version: "0.9.14", licence: "ISC" },
  { name: "http-kettle", version: "4.0.0" },
];

const sbom: Reporter = ({ at }, result, { image }) => {
  const created = new Date(at * 1000).toISOString();
  const { service, version } = partsOf(image);
  const subject = { name: `acme/${service}`, version, purl: `pkg:oci/${service}@${version}` };
  const file = jsonEvidence("image.cdx.json", {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    metadata: {
      timestamp: created,
      tools: { components: [{ type: "application", name: "sieve", version: "1.18.0" }] },
      component: { type: "container", ...subject },
    },
    components: PACKAGES.map(({ name, version, supplier, licence }) => ({
      type: "library",
      name,
      version,
      purl: `pkg:generic/${name}@${version}`,
      ...(supplier ? { supplier: { name: supplier } } : {}),
      ...(licence ? { licenses: [{ license: { id: licence } }], hashes: [{ alg: "SHA-256", content: version }] } : {}),
    })),
    dependencies: PACKAGES.map(({ name, version }) => ({ ref: `pkg:generic/${name}@${version}` })),
  });
  const digest = hash("sha256", file.content);
  return {
    segment: "system",
    fields: {
      ...result,
      annotations: { sbom_format: "cyclonedx-1.6", sbom_sha256: digest },
      type_name: "sbom",
      attestation_data: {
        format: "cyclonedx-1.6",
        original_fingerprint: digest,
        document: {
          created_at: created,
          tools: ["sieve 1.18.0"],
          subject: { ...subject, sha256: null },
          package_count: PACKAGES.length,
        },
      },
    },
    file,
  };
};

const generic: Reporter = ({ trail }, { compliant = true, ...result }, { name }) => ({
  segment: "generic",
  fields: { is_compliant: compliant, ...result },
  file: textEvidence(`${name}.log`, [`${name} of ${trail}`, "0 problems", "done"]),
});

const custom =
  (type: string, dataOf: (subject: ReleaseSubject, result: Result) => unknown): Reporter =>
  (subject, result) => ({
    segment: "custom",
    fields: { type_name: type, attestation_data: dataOf(subject, result) },
  });

/** By the type that a template names. */
export const REPORTERS: Readonly<Record<string, Reporter>> = {
  junit,
  snyk,
  sonar,
  pull_request: pullRequest,
  jira,
  decision,
  sbom,
  generic,
  "custom:cyclonedx": custom("cyclonedx", ({ number }, { components = 300 + number }) => ({
    components,
    spec_version: "1.6",
  })),
  "custom:licenses": custom("licenses", (_subject, { unknown = 0 }) => ({ unknown, forbidden: [] })),
};
