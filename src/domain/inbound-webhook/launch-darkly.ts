/**
 * The web hook of LaunchDarkly: which flags changed in which environments (semantics 8.6). It tells of an entry of its
 * audit log, which names what it is about by resource specifiers such as
 * `proj/web;tag:env/production:flag/new-checkout`.
 */
import { FLOW_NAME, TRAIL_NAME, matches } from "../names.ts";

/** The part of the call that is looked at here; everything in it is recorded. */
export type FlagWebhook = {
  name?: string | null;
  titleVerb?: string | null;
  comment?: string | null;
  member?: { email?: string | null; firstName?: string | null; lastName?: string | null } | null;
  target?: { name?: string | null; resources?: readonly string[] | null } | null;
  accesses?: readonly { resource?: string | null }[] | null;
};

/** A flag in an environment of a project, as keys. */
export type FlagLocation = { project: string; environment: string; flag: string; flow: string; trail: string };

/** What each flow of flags is called: one for each environment. */
const FLOW_PREFIX = "launch-darkly-";

/** Under which name each change is recorded in the trail of its flag. */
export const FLAG_ATTESTATION = "flag-change";

/**
 * Where the change belongs: one place for each environment and flag, in the order in which they are named. None for a
 * change that happened in no environment (a new member, a flag that was created, which all environments have).
 */
export function locateFlagChange(call: FlagWebhook): FlagLocation[] {
  const specifiers = [
    ...(call.target?.resources ?? []),
    ...(call.accesses ?? []).map(({ resource }) => resource ?? ""),
  ];
  const places = new Map<string, FlagLocation>();
  for (const specifier of specifiers) {
    const keys = keysOf(specifier);
    const [project = "", environment = "", flag = ""] = ["proj", "env", "flag"].map((kind) => keys.get(kind));
    const place: FlagLocation = { project, environment, flag, flow: FLOW_PREFIX + environment, trail: flag };
    // `*` stands for all of them, and is no name.
    if (environment && matches(FLOW_NAME, place.flow) && matches(TRAIL_NAME, place.trail))
      places.set(specifierOf(place), place);
  }
  return [...places.values()];
}

/** What was done, in one line. */
export function describeFlagChange(call: FlagWebhook, flag: string): string {
  const { email, firstName, lastName } = call.member ?? {};
  const who = [firstName, lastName].filter(Boolean).join(" ") || email || "Somebody";
  return `${who} ${call.titleVerb || "changed the flag"} ${call.name || call.target?.name || flag}`;
}

const specifierOf = ({ project, environment, flag }: FlagLocation): string =>
  `proj/${project}:env/${environment}:flag/${flag}`;

/** `kind/key;tags` of each part of a resource specifier. */
function keysOf(specifier: string): ReadonlyMap<string, string> {
  const keys = new Map<string, string>();
  for (const part of specifier.split(":")) {
    const slash = part.indexOf("/");
    if (slash > 0) keys.set(part.slice(0, slash), part.slice(slash + 1).split(";", 1)[0] as string);
  }
  return keys;
}
