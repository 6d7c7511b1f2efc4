/** README.txt of a package, for readers who do not know Assay. */
import { formatBytes, pluralize, formatTime } from "./format.ts";
import type { About, AuditReport, BinderAbout } from "./report.ts";

/** @param pdfName member name of the readable report */
export function renderReadme(report: AuditReport, pdfName: string): string {
  return [
    ...titleLines(report.about),
    "",
    ...contentLines(report),
    "",
    ...VERIFICATION_LINES,
    "",
    "Members",
    "",
    ...memberLines(report.about, pdfName),
    "",
    ...READING_LINES,
    ...omittedLines(report),
    "",
  ].join("\n");
}

const titleLines = (about: About): string[] => [
  about.kind === "trail"
    ? `Audit package of trail '${about.trail}' in flow '${about.flow}'`
    : `Audit package of artifact '${about.filename}' in flow '${about.flow}'`,
  `Organization '${about.organization}'`,
  ...(about.kind === "trail" ? [] : [`Fingerprint ${about.fingerprint}`]),
  about.url,
];

function contentLines({ about, asOf, events, evidence, artifacts, attestations }: AuditReport): string[] {
  const counts = [
    ...(about.kind === "trail" ? [pluralize(events, "event")] : []),
    pluralize(artifacts.total, "artifact record"),
    pluralize(attestations.total, "attestation"),
    `${pluralize(evidence.files, "evidence file")} (${formatBytes(evidence.bytes)})`,
  ];
  return [
    `This package covers everything recorded up to ${formatTime(asOf)}: ${counts.join(", ")}.`,
    "All records were read at the same moment. The same records always give a package with the same bytes.",
  ];
}

const VERIFICATION_LINES = [
  "To verify that nothing was changed or lost, unpack the package and run, in the directory that holds this file:",
  "",
  "    sha256sum --check --strict SHA256SUMS",
  "",
  "This proves that the members belong together. It does not prove that they came from the server: for that you need",
  "a transfer that you trust, or a digest of the package from a source that you trust.",
];

/** @param binder `summary`: its paragraph; `attestations`: how many records there are */
export function renderBinderReadme({
  about,
  summary,
  attestations,
  evidence,
  omitted,
}: Pick<AuditReport, "evidence" | "omitted"> & { about: BinderAbout; summary: string; attestations: number }): string {
  const { of, name, organization, from, to, url } = about;
  return [
    `Audit binder of ${of} '${name}'`,
    `Organization '${organization}'`,
    `${formatTime(from)} to ${formatTime(to)}`,
    url,
    "",
    ...wrap(summary),
    "",
    `This package has ${pluralize(attestations, "attestation")} and ${pluralize(evidence.files, "evidence file")} ` +
      `(${formatBytes(evidence.bytes)}).`,
    "All records were read at the same moment. The same records always give a package with the same bytes.",
    "",
    ...VERIFICATION_LINES,
    "",
    "Members",
    "",
    ...alignLines(BINDER_MEMBERS),
    "",
    ...READING_LINES,
    ...omittedLines({ omitted }),
    "",
  ].join("\n");
}

const MANIFEST_LINES: MemberLine[] = [
  [
    "manifest.json",
    "the subject of the package, and name, size and SHA-256 of all members except itself and SHA256SUMS",
  ],
  ["SHA256SUMS", "the digests of all members, manifest.json included, in the format of sha256sum"],
];
const POLICY_LINE = "their texts, as uploaded, are in policies/";
const BINDER_MEMBERS: readonly MemberLine[] = [
  ["binder.json", "the binder: summary, figures, what is missing, decisions, rules, changes, index of the evidence"],
  ...MANIFEST_LINES,
  ["attestations.json", "every attestation in the scope of the binder, with overrides, oldest first"],
  ["policies.json", `the policy versions in force in the period; ${POLICY_LINE}`],
  ["controls.json", "the controls that decisions and policies refer to, with all versions"],
  ["custom-types.json", "the custom types that evaluated attestations; their schemas are in custom-types/"],
  ["evidence/", "the attached files, and policy and input of the evaluations that decided, each below its SHA-256"],
];

/** Characters of a line of text. */
const LINE_CHARS = 118;

function wrap(text: string): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + word.length >= LINE_CHARS) {
      lines.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line];
}

type MemberLine = [name: string, description: string];
function alignLines(members: readonly MemberLine[]): string[] {
  const width = Math.max(...members.map(([name]) => name.length));
  return members.map(([name, description]) => `  ${name.padEnd(width)}  ${description}`);
}

function memberLines(about: About, pdfName: string): string[] {
  const isTrail = about.kind === "trail";
  return alignLines([
    [pdfName, "the readable report: verdict, reasons, checklist, attestations, environments"],
    ...MANIFEST_LINES,
    ["flow.json", "the flow"],
    isTrail
      ? ["trail.json", "the trail: verdict and reasons, template, and the whole history"]
      : ["trails.json", "the trails to which the artifact was reported: verdict and reasons, and template"],
    ["artifacts.json", isTrail ? "every artifact reported to the trail" : "every record of the artifact in the flow"],
    ["attestations.json", "every attestation ever reported, including superseded ones and overrides, oldest first"],
    [
      "environments.json",
      "where the artifacts ran: first and last snapshot, verdict and reasons, and the facts that were evaluated",
    ],
    ["deployments.json", "when the artifacts started in each environment"],
    ["allowlist.json", "who allowed the artifacts regardless of the policies, why, and until when"],
    ["policies.json", `the policy versions behind these verdicts; ${POLICY_LINE}`],
    ["controls.json", "the controls that decisions and policies refer to"],
    ["custom-types.json", "the custom types that evaluated attestations; their schemas are in custom-types/"],
    ["templates/", "the flow templates that were in force, as uploaded"],
    ["evidence/", "the attached files, and policy and input of the evaluations that decided, each below its SHA-256"],
  ]);
}

const READING_LINES = [
  "How to read the records",
  "",
  "  Times are seconds since 1970-01-01 UTC; some times in artifacts.json are strings that hold such a number.",
  "  The part of a record under 'audit' exists in packages only; the rest is what the server's API returns.",
  "  Of several attestations with the same name on one trail or artifact, the latest counts; this includes overrides.",
  "  An attestation with evidence names the member that holds the file under audit.evidence.member.",
  "  A verdict without sufficient data is UNKNOWN, INCOMPLETE or null, never COMPLIANT.",
  "  A record marked as damaged could not be read from the server's database.",
];

function omittedLines({ omitted: { items, total } }: Pick<AuditReport, "omitted">): string[] {
  if (total === 0) return [];
  return [
    "",
    "Missing evidence",
    "",
    "  These files were recorded but are not in the package: the server no longer has them, or its copy differs from",
    "  what was uploaded. The digest in the name is that of the uploaded file.",
    "",
    ...items.map(({ name, state, size }) => `  ${state.padEnd(7)}  ${name} (${size} bytes)`),
    ...(total > items.length ? [`  and ${total - items.length} more; manifest.json lists all of them`] : []),
  ];
}
