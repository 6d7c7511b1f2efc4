/** What was built at acme: one row for each trail, and what its pipeline reported. */
import { commitOf, fingerprintOf } from "../steps.ts";
import type { Calendar, StoryTime, Step, Teller } from "../steps.ts";
import { CHANGE, FLOWS, SERVICE, repoOf, serviceTemplate, storyTemplateFile } from "./flows.ts";
import type { FlowName, StoryTemplate } from "./flows.ts";
import { ORG } from "./people.ts";
import { RELEASES } from "./release-table.ts";
import type { Release } from "./release-table.ts";
import { REPORTERS } from "./results.ts";
import type { Result, ReleaseSubject } from "./results.ts";

/** Images whose fingerprints start as in the design; those of all others derive from their names. */
const KNOWN_STARTS: Readonly<Record<string, string>> = {
  "acme/backend-api:2.41.0": "9c1e5d0",
  "acme/db-migrations:2.41.0": "41d08e6",
  "acme/ledger-worker:1.19.4": "5f20c4a",
  "acme/web-checkout:8.3.2": "e7730a1",
  "acme/web-checkout:8.3.1": "a1d4406",
  "acme/fraud-scorer:0.22.0": "0ab4d97",
  "acme/ingress:57": "b62e18f",
  "redis:7.4-alpine": "d81f2b6",
};
export const imageFingerprint = (image: string): string => fingerprintOf(image, KNOWN_STARTS[image]);

/** Minutes after the beginning of the trail at which something is reported. */
const DELAYS: Readonly<Record<string, number>> = {
  "pull-request": 0.5,
  "jira-ticket": 1,
  plan: 4,
  artifact: 7,
  "unit-tests": 9,
  sbom: 10,
  "license-scan": 10.5,
  "snyk-container": 11,
  "sonar-gate": 16,
  "release-approval": 63,
  "change-approval": 63,
};
const LATER = 14;

const templateOf = ({ flow, kind, images = {} }: Release): StoryTemplate =>
  kind === "change" ? CHANGE : kind === "service" ? serviceTemplate(Object.keys(images)) : FLOWS[flow].template;

const subjectOf = (release: Release, at: number, index: number): ReleaseSubject => ({
  trail: release.trail,
  commit: commitOf(release.trail, release.commit),
  message: release.message,
  author: release.author ?? "dev-lead",
  at,
  pullRequest: release.pullRequest ?? 1380 + 4 * index,
  ticket: release.ticket ?? `PAY-${3010 + 3 * index}`,
  repo: FLOWS[release.flow].repo,
  number: index,
});

const commitInfo = ({ commit, message, author, at, repo }: ReleaseSubject) => ({
  sha1: commit,
  message,
  author: `${author} <${author}@acme.example>`,
  author_username: author,
  branch: "main",
  timestamp: at - 20 * 60,
  url: `https://git.acme.example/${repo}/commit/${commit}`,
  parents: [commitOf(`parent of ${commit}`)],
});

type Attestation = {
  flow: FlowName;
  trail: string;
  name: string;
  type: string;
  /** null for the trail. */
  artifact: { name: string; image: string; fingerprint: string } | null;
  subject: ReleaseSubject;
  result?: Result;
  by?: string;
};

/** Reports one attestation with its evidence. */
async function attest({ send }: Teller, attestation: Attestation): Promise<void> {
  const { flow, trail, name, type, artifact, subject, result = {}, by = FLOWS[flow].account } = attestation;
  const { segment, fields, file } = (REPORTERS[type] as (typeof REPORTERS)[string])(subject, result, {
    name,
    image: artifact?.image ?? null,
  });
  const json = {
    attestation_name: name,
    ...(artifact ? { artifact_fingerprint: artifact.fingerprint, target_artifacts: [artifact.name] } : {}),
    git_commit_info: commitInfo(subject),
    repo_info: repoOf(flow),
    origin_url: `https://ci.acme.example/${FLOWS[flow].repo}/builds/${88_000 + subject.number}`,
    ...fields,
  };
  const path = `/attestations/${ORG}/${flow}/trail/${trail}/${segment}`;
  await send("POST", path, { by, form: { json, ...(file ? { file } : {}) } });
}

/** All steps of one trail. @param index of the row; numbers in reports derive from it */
function releaseSteps(release: Release, index: number, { time }: Calendar): Step[] {
  const { flow, trail, results = {}, images } = release;
  const begun = time(release.at);
  const subject = subjectOf(release, begun, index);
  const template = templateOf(release);
  const by = FLOWS[flow].account;
  const later = (what: string): number => begun + (DELAYS[what] ?? LATER) * 60;
  const built = Object.entries(images ?? defaultImages(release, template)).map(([name, version]) => {
    const image = `acme/${name}:${version}`;
    return { name, image, fingerprint: imageFingerprint(image) };
  });
  const expected = [
    ...Object.entries(template.trail).map(([name, type]) => ({ name, type, artifact: null })),
    ...built.flatMap((artifact) =>
      Object.entries(template.artifacts[artifact.name] ?? SERVICE).map(([name, type]) => ({ name, type, artifact })),
    ),
  ];
  return [
    {
      at: begun,
      async make({ send }) {
        const json = {
          name: trail,
          description: release.message,
          git_commit_info: commitInfo(subject),
          repo_info: repoOf(flow),
          origin_url: `https://ci.acme.example/${subject.repo}/builds/${88_000 + index}`,
          user_data: { pipeline: subject.repo, build: 88_000 + index },
        };
        const file = release.kind === undefined ? {} : { file: storyTemplateFile(template) };
        await send("PUT", `/trails/${ORG}/${flow}`, { by, form: { json, ...file } });
      },
    },
    ...built.map(({ name, image, fingerprint }, position) => ({
      at: later("artifact") + position * 5,
      make: ({ send }: Teller) =>
        send("POST", `/artifacts/${ORG}/${flow}`, {
          by,
          body: {
            fingerprint,
            filename: image,
            trail_name: trail,
            template_reference_name: name,
            git_commit: subject.commit,
            git_commit_info: commitInfo(subject),
            repo_info: repoOf(flow),
            build_url: `https://ci.acme.example/${subject.repo}/builds/${88_000 + index}`,
            commit_url: `https://git.acme.example/${subject.repo}/commit/${subject.commit}`,
          },
        }),
    })),
    ...expected.flatMap(({ name, type, artifact }, position) => {
      const result = results[artifact ? `${artifact.name}.${name}` : name] ?? {};
      if (result.missing) return [];
      const report: Attestation = { flow, trail, name, type, artifact, subject, result };
      if (type === "decision") report.by = "release-manager";
      return [{ at: later(name) + position, make: (teller: Teller) => attest(teller, report) }];
    }),
  ];
}

/** The images of a release of its flow: one for each artifact of the template, with the number of the release. */
const defaultImages = ({ trail }: Release, { artifacts }: StoryTemplate): Record<string, string> =>
  Object.fromEntries(Object.keys(artifacts).map((name) => [name, trail.replace(/^.*-/, "")]));

/** A report about a release after its pipeline has ended. */
type Sequel = { at: StoryTime; trail: string; artifact: string; name: string; type: string; result?: Result };
const SEQUELS: readonly Sequel[] = [
  {
    at: "0d 08:48",
    trail: "release-2.41.0",
    artifact: "backend-api",
    name: "snyk-container",
    type: "snyk",
    result: { high: 1, medium: 2 },
  },
  {
    at: "0d 09:01",
    trail: "release-2.41.0",
    artifact: "backend-api",
    name: "load-test",
    type: "generic",
    result: { description: "p99 84 ms", annotations: { p99: "84 ms", report: "https://load.acme.example/runs/811" } },
  },
  // Provenance of what runs in production is updated.
  { at: "0d 09:10", trail: "release-2.40.3", artifact: "ledger-worker", name: "unit-tests", type: "junit" },
  { at: "0d 09:11", trail: "release-2.40.3", artifact: "ledger-worker", name: "image-sbom", type: "sbom" },
  // The incident: a vulnerability becomes known while the release is running in production.
  {
    at: "13d 18:40",
    trail: "release-2.40.0",
    artifact: "backend-api",
    name: "snyk-container",
    type: "snyk",
    result: { high: 1 },
  },
];

/** The weekly scan of what runs: SEC-VUL-1. */
const SCANNED = { trail: "fraud-scorer-0.21.4", artifact: "fraud-scorer", name: "snyk-container", type: "snyk" };
const SCANS: readonly Sequel[] = [54, 47, 40, 33, 26, 19, 12].map((days) => ({ at: `${days}d 02:30`, ...SCANNED }));

function sequelStep({ at, trail, artifact, name, type, result = {} }: Sequel, { time }: Calendar): Step {
  const index = RELEASES.findIndex((release) => release.trail === trail);
  const release = RELEASES[index] as Release;
  const version = release.images?.[artifact] ?? trail.replace(/^.*-/, "");
  const image = `acme/${artifact}:${version}`;
  const built = { name: artifact, image, fingerprint: imageFingerprint(image) };
  const subject = subjectOf(release, time(release.at), index);
  const report: Attestation = { flow: release.flow, trail, name, type, artifact: built, subject, result };
  return { at: time(at), make: (teller) => attest(teller, report) };
}

const override = ({ time }: Calendar): Step => ({
  at: time("0d 08:55"),
  make: ({ send }) =>
    send("POST", `/attestations/${ORG}/backend-api/trail/release-2.41.0/override`, {
      by: "security-duty",
      body: {
        attestation_name: "license-scan",
        artifact_fingerprint: imageFingerprint("acme/backend-api:2.41.0"),
        target_artifacts: ["backend-api"],
        reason: "Dual-licensed, ticket LEG-88",
        new_compliance_status: true,
        original_attestation_type: "custom:licenses",
      },
    }),
});

export const releases = (calendar: Calendar): Step[] => [
  ...RELEASES.flatMap((release, index) => releaseSteps(release, index, calendar)),
  ...[...SEQUELS, ...SCANS].map((sequel) => sequelStep(sequel, calendar)),
  override(calendar),
];
