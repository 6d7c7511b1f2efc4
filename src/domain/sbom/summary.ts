/** What a client read from a software bill of materials, as its report states it (newer-clients 2). */
import { isObject, isText } from "../stored-json.ts";
import { truncate } from "../text/excerpt.ts";

export type SbomSummary = {
  /** As reported, such as `cyclonedx-1.6`. */
  format: string;
  /** As the document states it; null where it does not. */
  createdAt: string | null;
  tools: string[];
  subject: { name: string; version: string; purl: string; sha256: string } | null;
  packages: number | null;
};

/** Characters that people see of a text. */
const MAX_SHOWN_CHARS = 300;

const textOf = (value: unknown): string => (isText(value) ? truncate(value, MAX_SHOWN_CHARS) : "");

/** Reads `attestation_data` of any shape: what is absent or of another type counts as not stated. */
export function readSbomSummary(data: unknown): SbomSummary {
  const { format, document } = isObject(data) ? data : {};
  const { created_at: createdAt, tools, subject, package_count: packages } = isObject(document) ? document : {};
  return {
    format: textOf(format),
    createdAt: textOf(createdAt) || null,
    tools: Array.isArray(tools) ? tools.map(textOf).filter((tool) => tool !== "") : [],
    subject: isObject(subject)
      ? {
          name: textOf(subject["name"]),
          version: textOf(subject["version"]),
          purl: textOf(subject["purl"]),
          sha256: textOf(subject["sha256"]),
        }
      : null,
    packages: typeof packages === "number" && Number.isSafeInteger(packages) ? packages : null,
  };
}

const STANDARDS: Readonly<Record<string, string>> = { cyclonedx: "CycloneDX", spdx: "SPDX" };

/** `CycloneDX 1.6` for `cyclonedx-1.6`; a format that is not known unchanged. */
export function describeFormat(format: string): string {
  const [, standard = "", version = ""] = /^([a-z]+)-(.+)$/.exec(format) ?? [];
  return Object.hasOwn(STANDARDS, standard) ? `${STANDARDS[standard]} ${version}` : format;
}

/** Tools that one line names. */
const MAX_SHOWN_TOOLS = 5;

/** The tools in one line; empty for none. */
export const describeTools = (tools: readonly string[]): string =>
  tools.length > MAX_SHOWN_TOOLS
    ? `${tools.slice(0, MAX_SHOWN_TOOLS).join(", ")} and ${tools.length - MAX_SHOWN_TOOLS} more`
    : tools.join(", ");

/** `app 1.4.2`; empty for a subject that is not stated. */
export const describeSubject = (subject: SbomSummary["subject"]): string =>
  subject === null ? "" : [subject.name || subject.purl, subject.version].filter((part) => part !== "").join(" ");
