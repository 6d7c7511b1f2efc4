/** Commands of the Kosli CLI that report what is missing. Names are quoted for a shell: people may choose any. */
import type { remediesFor } from "./remedies.ts";

type Remedy = Omit<ReturnType<typeof remediesFor>[number], "words">;

/** The subcommands of `kosli attest` with what they take besides the place, by the word of the type. */
const ATTEST: Readonly<Record<string, readonly [subcommand: string, more: string]>> = {
  generic: ["generic", "--compliant=true"],
  junit: ["junit", "--results-dir test-results"],
  snyk: ["snyk", "--scan-results snyk.json"],
  sonar: ["sonar", ""],
  jira: ["jira", ""],
  pull_request: ["pullrequest github", ""],
  sbom: ["sbom", "--sbom-file sbom.cdx.json"],
};

/** The command for a remedy; null where it takes more than one, or none. @param image name of the artifact */
export function commandFor(remedy: Remedy, image: string | null): string | null {
  if (remedy.kind === "report_artifact") return reportCommand(remedy, image);
  if (remedy.kind !== "report_attestation") return null;
  const { type, name, flow, trail, fingerprint, control } = remedy;
  const custom = type?.startsWith("custom:") ? type.slice("custom:".length) : null;
  const decision = ["decision", `--control ${quoted(control, "CONTROL")} --compliant=true`] as const;
  const known = type === "decision" ? decision : ATTEST[type === null || type === "*" ? "generic" : type];
  if (custom === null && !known) return null;
  const [subcommand, more] =
    custom === null
      ? (known as readonly [string, string])
      : ["custom", `--type ${quoted(custom)} --attestation-data data.json`];
  const subject = fingerprint === null ? "" : `--fingerprint ${fingerprint}`;
  return inLines([`kosli attest ${subcommand} --name ${quoted(name, "NAME")}`, ...place(flow, trail), subject, more]);
}

function reportCommand({ flow, trail, name, fingerprint }: Remedy, image: string | null): string {
  const what = fingerprint === null || fingerprint === "" ? "--artifact-type oci" : `--fingerprint ${fingerprint}`;
  const first = `kosli attest artifact ${quoted(name === null ? image : null, "IMAGE")}`;
  return inLines([first, what, `--name ${quoted(name, "NAME")}`, ...place(flow, trail)]);
}

/** One command in several lines, as a shell reads it. */
const inLines = (parts: readonly string[]): string => parts.filter((part) => part !== "").join(" \\\n  ");

/** In a line each: both together are longer than the box that shows them. */
const place = (flow: string | null, trail: string | null): string[] => [
  `--flow ${quoted(flow, "FLOW")}`,
  `--trail ${quoted(trail, "TRAIL")}`,
];

/** A word of a shell command. @param placeholder stands for a name that is not known yet */
function quoted(text: string | null, placeholder = ""): string {
  if (text === null || text === "*") return placeholder;
  return /^[\w./:@%+-]+$/.test(text) && !text.startsWith("-") ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
