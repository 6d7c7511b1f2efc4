/**
 * The webhook of SonarQube and SonarCloud: the flow, trail and attestation that record a scan (semantics 8.6). Analysis
 * properties name them; their names are kept for compatibility. Whatever they leave out follows from the scan itself.
 */
import { isUnfinished } from "../attestation/verdicts.ts";
import {
  ATTESTATION_NAME,
  COMMIT_SHA,
  FINGERPRINT,
  FLOW_NAME,
  MAX_NAME_CHARS,
  REFERENCE_NAME,
  TRAIL_NAME,
  matches,
} from "../names.ts";

/** How to name the flow of a scan whose properties name none. */
export type SonarFlowNames = {
  /** Which name of the project the flow's name is made from. */
  from: "key" | "name";
  prefix: string;
  suffix: string;
};

/** The prefix and the suffix of such a name. */
export const SONAR_NAME_AFFIX = String.raw`^[a-zA-Z0-9.\-_~]{0,100}$`;

/** The fields of the webhook that are evaluated here; the whole body is recorded. */
export type SonarWebhook = {
  taskId?: string | null;
  status?: string | null;
  revision?: string | null;
  project: { key: string; name?: string | null };
  properties?: Readonly<Record<string, string>> | null;
};

/** Where a scan is recorded. The descriptions are for a flow or trail that has to be created. */
type ScanLocation = {
  flow: string;
  /** Whether no property names the flow. Different projects may then have the same flow name. */
  isNamedAfterProject: boolean;
  flowDescription: string;
  trail: string;
  trailDescription: string | null;
  attestation: string;
  /** The artifact in a dotted attestation name, null without one. */
  target: string | null;
  /** Full commit id, null when the scan has none. */
  commit: string | null;
  fingerprint: string | null;
};

const PROPERTY_PREFIX = "sonar.analysis.kosli_";
const DEFAULT_ATTESTATION = "sonar";

/** @returns the location, or one text per invalid property; an empty property counts as absent */
export function locateScan(
  webhook: SonarWebhook,
  names: SonarFlowNames,
): { location: ScanLocation; problems: null } | { location: null; problems: Record<string, string> } {
  const properties = createPropertyReader(webhook.properties ?? {});
  const revision = webhook.revision ?? "";
  const location: ScanLocation = {
    flow: readFlow(properties, webhook, names),
    isNamedAfterProject: properties.find("flow") === null,
    flowDescription: properties.find("flow_description") ?? "",
    trail: readTrail(properties, webhook),
    trailDescription: properties.find("trail_description"),
    ...readAttestationName(properties),
    commit: properties.findMatching("git_commit", COMMIT_SHA, matches(COMMIT_SHA, revision) ? revision : null),
    fingerprint: properties.findMatching("artifact_fingerprint", FINGERPRINT, null),
  };
  const { problems } = properties;
  return Object.keys(problems).length > 0 ? { location: null, problems } : { location, problems: null };
}

type PropertyReader = ReturnType<typeof createPropertyReader>;

function createPropertyReader(properties: Readonly<Record<string, string>>) {
  const problems: Record<string, string> = {};
  const find = (name: string): string | null => properties[PROPERTY_PREFIX + name]?.trim() || null;
  const refuse = (name: string, problem: string): void => {
    problems[`properties.${PROPERTY_PREFIX}${name}`] = problem;
  };
  /** The property, refused unless it matches the pattern; `fallback` without one. */
  const findMatching = <D extends string | null>(name: string, pattern: string, fallback: D): string | D => {
    const value = find(name);
    if (value === null) return fallback;
    if (value.length > MAX_NAME_CHARS)
      refuse(name, `String should have at most ${MAX_NAME_CHARS} characters [input: ${truncateName(value)}...]`);
    else if (!matches(pattern, value)) refuse(name, `String should match pattern '${pattern}' [input: ${value}]`);
    return value;
  };
  return { problems, find, refuse, findMatching };
}

function readFlow(properties: PropertyReader, { project }: SonarWebhook, { from, prefix, suffix }: SonarFlowNames) {
  const projectName = from === "name" ? project.name || project.key : project.key;
  const flow = properties.findMatching("flow", FLOW_NAME, truncateName(sanitizeName(prefix + projectName + suffix)));
  if (flow === "")
    properties.refuse("flow", `The project '${projectName}' gives no valid flow name: set this property`);
  return flow;
}

function readTrail(properties: PropertyReader, { revision, status, taskId }: SonarWebhook): string {
  // A failed task has no revision. Its trail is named after the commit in the properties, else after the task.
  const source = revision || (isUnfinished(status) ? properties.find("git_commit") || taskId || "" : "");
  const trail = properties.findMatching("trail", TRAIL_NAME, truncateName(sanitizeName(source)));
  if (trail === "") properties.refuse("trail", "The scan has no revision to name a trail after: set this property");
  return trail;
}

function readAttestationName(properties: PropertyReader): Pick<ScanLocation, "target" | "attestation"> {
  const dotted = properties.find("attestation") ?? DEFAULT_ATTESTATION;
  const dot = dotted.indexOf(".");
  const [target, attestation] = dot === -1 ? [null, dotted] : [dotted.slice(0, dot), dotted.slice(dot + 1)];
  const isValid =
    dotted.length <= MAX_NAME_CHARS &&
    matches(ATTESTATION_NAME, attestation) &&
    (target === null || matches(REFERENCE_NAME, target));
  const expected = "a name, or the name of an artifact, a dot and a name";
  if (!isValid) properties.refuse("attestation", `Input should be ${expected} [input: ${truncateName(dotted)}]`);
  return { target, attestation };
}

/** A text as the name of a flow or trail: invalid characters become `-`, and invalid first characters are dropped. */
const sanitizeName = (text: string): string => text.replace(/[^a-zA-Z0-9.\-_~]/g, "-").replace(/^[^a-zA-Z0-9]+/, "");

const truncateName = (name: string): string => name.slice(0, MAX_NAME_CHARS);
