/**
 * The webhook of LaunchDarkly: which flags changed in which environments (semantics 8.6). Its body is an entry of
 * LaunchDarkly's audit log, which identifies its subjects by resource specifiers such as
 * `proj/web;tag:env/production:flag/new-checkout`.
 */
import { FLOW_NAME, TRAIL_NAME, matches } from "../names.ts";

/** The fields of the webhook that are evaluated here; the whole body is recorded. */
type FlagWebhook = {
  name?: string | null;
  titleVerb?: string | null;
  comment?: string | null;
  member?: { email?: string | null; firstName?: string | null; lastName?: string | null } | null;
  target?: { name?: string | null; resources?: readonly string[] | null } | null;
  accesses?: readonly { resource?: string | null }[] | null;
};

/** The keys of a flag in an environment of a project, and the flow and trail that record its changes. */
type FlagLocation = { project: string; environment: string; flag: string; flow: string; trail: string };

/** Each environment has one flow of flags, named after it. */
export const FLOW_PREFIX = "launch-darkly-";

/** Name of the attestations that record changes in the trail of a flag. */
export const FLAG_ATTESTATION = "flag-change";

/** What a specifier says of an environment that is all of them. */
const ALL_ENVIRONMENTS = "*";

/**
 * Where a change is recorded: one location per environment and flag, in the order in which the webhook names them. None
 * for a change outside all environments (a new member). A change of all environments, such as the removal of a flag, is
 * recorded in those that know the flag.
 * @param environmentsOf the environments whose flow has a trail of the flag
 */
export function locateFlagChange(
  webhook: FlagWebhook,
  environmentsOf: (flag: string) => readonly string[],
): FlagLocation[] {
  const specifiers = new Set([
    ...(webhook.target?.resources ?? []),
    ...(webhook.accesses ?? []).map(({ resource }) => resource ?? ""),
  ]);
  const locations = new Map<string, FlagLocation>();
  for (const specifier of specifiers) {
    const keys = parseSpecifier(specifier);
    const [project = "", named = "", flag = ""] = ["proj", "env", "flag"].map((kind) => keys.get(kind));
    // The wildcard `*` is not a name and so does not match.
    if (!matches(TRAIL_NAME, flag)) continue;
    for (const environment of named === ALL_ENVIRONMENTS ? environmentsOf(flag) : [named]) {
      const location: FlagLocation = { project, environment, flag, flow: FLOW_PREFIX + environment, trail: flag };
      if (environment && matches(FLOW_NAME, location.flow)) locations.set(specifierOf(location), location);
    }
  }
  return [...locations.values()];
}

/** The change in one line. */
export function describeFlagChange(webhook: FlagWebhook, flag: string): string {
  const { email, firstName, lastName } = webhook.member ?? {};
  const who = [firstName, lastName].filter(Boolean).join(" ") || email || "Someone";
  return `${who} ${webhook.titleVerb || "changed the flag"} ${webhook.name || webhook.target?.name || flag}`;
}

const specifierOf = ({ project, environment, flag }: FlagLocation): string =>
  `proj/${project}:env/${environment}:flag/${flag}`;

/** The keys of a resource specifier by kind; each of its parts is `kind/key;tags`. */
function parseSpecifier(specifier: string): ReadonlyMap<string, string> {
  const keys = new Map<string, string>();
  for (const part of specifier.split(":")) {
    const slash = part.indexOf("/");
    if (slash > 0) keys.set(part.slice(0, slash), part.slice(slash + 1).split(";", 1)[0] as string);
  }
  return keys;
}
