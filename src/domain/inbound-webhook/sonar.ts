/**
 * The web hook of SonarQube and SonarCloud: where in our world the result of a scan belongs (semantics 8.6). The
 * analysis says so in its properties, whose names are kept for compatibility; what they leave out follows from the scan
 * itself.
 */
import { isUnfinished } from "../attestation/sonar.ts";
import { ATTESTATION_NAME, COMMIT_SHA, FINGERPRINT, FLOW_NAME, REFERENCE_NAME, TRAIL_NAME, matches } from "../names.ts";

/** How the name of a flow is made for scans that name none. */
export type SonarFlowNames = {
  /** Which name of the project it begins with. */
  from: "key" | "name";
  prefix: string;
  suffix: string;
};

/** The part of the call that is looked at here; everything in it is recorded. */
export type SonarWebhook = {
  taskId?: string | null;
  status?: string | null;
  revision?: string | null;
  project: { key: string; name?: string | null };
  properties?: Readonly<Record<string, string>> | null;
};

/** Where the result of a scan goes. The descriptions are for what has to be created. */
export type ScanLocation = {
  flow: string;
  flowDescription: string;
  trail: string;
  trailDescription: string | null;
  attestation: string;
  /** The artifact's part of a dotted name, null without one. */
  target: string | null;
  /** Full commit id, null where the scan tells none. */
  commit: string | null;
  fingerprint: string | null;
};

const PROPERTY = "sonar.analysis.kosli_";
const DEFAULT_ATTESTATION = "sonar";

/**
 * A text as a name of flows and trails: what no name may hold becomes `-`, and what none may begin with is left out.
 */
const asName = (text: string): string => text.replace(/[^a-zA-Z0-9.\-_~]/g, "-").replace(/^[^a-zA-Z0-9]+/, "");

/** @returns the place, or one text per property that is not valid; a property that is empty counts as absent. */
export function locateScan(
  call: SonarWebhook,
  names: SonarFlowNames,
): { location: ScanLocation; problems: null } | { location: null; problems: Record<string, string> } {
  const problems: Record<string, string> = {};
  const property = (name: string): string | null => call.properties?.[PROPERTY + name]?.trim() || null;
  const refuse = (name: string, problem: string): null => {
    problems[`properties.${PROPERTY}${name}`] = problem;
    return null;
  };
  /** The property if it was given and fits, else what follows from the scan. */
  const matching = <D extends string | null>(name: string, pattern: string, fallback: D): string | D => {
    const given = property(name);
    if (given === null) return fallback;
    if (given.length > LONGEST_NAME)
      refuse(name, `String should have at most ${LONGEST_NAME} characters [input: ${given.slice(0, LONGEST_NAME)}...]`);
    else if (!matches(pattern, given)) refuse(name, `String should match pattern '${pattern}' [input: ${given}]`);
    return given;
  };

  const project = names.from === "name" ? call.project.name || call.project.key : call.project.key;
  const flow = matching("flow", FLOW_NAME, cutName(asName(names.prefix + project + names.suffix)));
  if (flow === "") refuse("flow", `No flow can be named after the project '${project}': give this property`);
  const revision = call.revision ?? "";
  // A task that failed tells no revision. Its trail is that of its commit where the properties name one, else its own.
  const source = revision || (isUnfinished(call.status) ? property("git_commit") || call.taskId || "" : "");
  const trail = matching("trail", TRAIL_NAME, cutName(asName(source)));
  if (trail === "") refuse("trail", "The scan has no revision to name a trail after: give this property");

  const dotted = property("attestation") ?? DEFAULT_ATTESTATION;
  const dot = dotted.indexOf(".");
  const [target, attestation] = dot === -1 ? [null, dotted] : [dotted.slice(0, dot), dotted.slice(dot + 1)];
  if (
    dotted.length > LONGEST_NAME ||
    !matches(ATTESTATION_NAME, attestation) ||
    (target !== null && !matches(REFERENCE_NAME, target))
  )
    refuse(
      "attestation",
      `Input should be a name, or an artifact's name and a name with one dot between them [input: ${dotted.slice(0, LONGEST_NAME)}]`,
    );

  const location: ScanLocation = {
    flow,
    flowDescription: property("flow_description") ?? "",
    trail,
    trailDescription: property("trail_description"),
    attestation,
    target,
    commit: matching("git_commit", COMMIT_SHA, matches(COMMIT_SHA, revision) ? revision : null),
    fingerprint: matching("artifact_fingerprint", FINGERPRINT, null),
  };
  return Object.keys(problems).length > 0 ? { location: null, problems } : { location: location, problems: null };
}

/** Characters of a name, as everywhere in the API. */
const LONGEST_NAME = 256;
const cutName = (name: string): string => name.slice(0, LONGEST_NAME);
