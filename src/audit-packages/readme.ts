/** The page of a package for whoever opens it without knowing Assay. */
import type { AuditReport } from "./report.ts";

export const utc = (seconds: number): string =>
  `${new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;

/** Bytes for people. */
export function sizeText(bytes: number): string {
  if (bytes < 1_000) return `${bytes} bytes`;
  const [unit, of] = bytes < 1e6 ? [1e3, "kB"] : bytes < 1e9 ? [1e6, "MB"] : [1e9, "GB"];
  return `${(bytes / unit).toFixed(1)} ${of}`;
}

/** A number with what it counts. */
export const countText = (count: number, what: string): string => `${count} ${what}${count === 1 ? "" : "s"}`;

/** @param pdf name of the readable report */
export function readme(
  { about, asOf, events, evidence, lost, artifacts, attestations }: AuditReport,
  pdf: string,
): string {
  const trail = about.kind === "trail";
  const subject = trail
    ? `trail '${about.trail}' of flow '${about.flow}'`
    : `artifact '${about.filename}' in flow '${about.flow}'`;
  const members: [string, string][] = [
    [pdf, "the report for people: verdict, reasons, checklist, attestations, where it runs"],
    [
      "manifest.json",
      "what this package is about, and name, size and SHA-256 of all members but itself and SHA256SUMS",
    ],
    ["SHA256SUMS", "the same digests in the form that sha256sum reads, manifest.json included"],
    ["flow.json", "the flow"],
    trail
      ? ["trail.json", "the trail: verdict with reasons, template, and its whole history"]
      : ["trails.json", "the trails to which the artifact was reported: verdict with reasons, and template"],
    ["artifacts.json", trail ? "every artifact reported to the trail" : "every record of the artifact in the flow"],
    ["attestations.json", "every attestation ever reported, superseded ones and overrides included, oldest first"],
    [
      "environments.json",
      "where the artifacts ran and run: from which snapshot to which, verdict, reasons, and what was judged",
    ],
    ["deployments.json", "when they started running"],
    ["allowlist.json", "who allowed them to run whatever the policies say, and why"],
    ["policies.json", "the policy versions of those verdicts; their texts, as uploaded, are below policies/"],
    ["controls.json", "the controls that decisions and policies name"],
    ["custom-types.json", "the custom types that judged attestations; their schemas are below custom-types/"],
    ["templates/", "the templates that were in force, as uploaded"],
    ["evidence/", "the attached files, each in a directory that is named by its SHA-256"],
  ];
  const width = Math.max(...members.map(([name]) => name.length));
  return [
    `Audit package of ${subject}`,
    `organization '${about.organization}'`,
    ...(trail ? [] : [`fingerprint ${about.fingerprint}`]),
    about.url,
    "",
    `It tells what was recorded until ${utc(asOf)}: ${[
      ...(trail ? [countText(events, "event")] : []),
      countText(artifacts.total, "artifact record"),
      countText(attestations.total, "attestation"),
      `${countText(evidence.files, "evidence file")} of ${sizeText(evidence.bytes)}`,
    ].join(", ")}.`,
    "All of it was read at one moment. A package of the same records has the same bytes.",
    "",
    "To check that nothing was changed or lost since, unpack it and run, in the directory that holds this file:",
    "",
    "    sha256sum --check --strict SHA256SUMS",
    "",
    "That proves that the members belong together. That they came from the server, only the way on which you got",
    "the package, or a digest of it that somebody kept, can prove.",
    "",
    "Members",
    "",
    ...members.map(([name, text]) => `  ${name.padEnd(width)}  ${text}`),
    "",
    "How to read it",
    "",
    "  Times are seconds since 1970-01-01 UTC; in artifacts.json some are such numbers as texts.",
    "  What stands under 'audit' in a record is told here only; the rest of it is what the API of the server answers.",
    "  Of several attestations with one name on the same trail or artifact the latest counts; an override is one of them.",
    "  An entry of attestations.json with evidence names the member that holds it under audit.evidence.member.",
    "  A verdict that nothing is known for is UNKNOWN, INCOMPLETE or null, never COMPLIANT.",
    "  A record that says it is damaged could not be read from the database of the server.",
    ...lostLines({ lost }),
    "",
  ].join("\n");
}

function lostLines({ lost }: Pick<AuditReport, "lost">): string[] {
  if (lost.total === 0) return [];
  const listed = lost.items.map(({ name, state, size }) => `  ${state.padEnd(7)}  ${name} (${size} bytes)`);
  return [
    "",
    "Missing evidence",
    "",
    "  These files were recorded, and could not be put into the package: the server does not have them any more, or what",
    "  it has is not what was uploaded. The digest in the name is that of the file as it was uploaded.",
    "",
    ...listed,
    ...(lost.total > lost.items.length
      ? [`  and ${lost.total - lost.items.length} more; manifest.json lists all of them`]
      : []),
  ];
}
