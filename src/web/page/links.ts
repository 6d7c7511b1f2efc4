/**
 * The addresses of pages. The permanent ones are those of contract/urls.ts, which the API hands out; here they are
 * relative to the requested page, so that they hold wherever a proxy serves this server.
 */

type Query = Readonly<Record<string, string | number | null | undefined>>;

/** `?key=value...`, without the keys that have no value; empty without any. */
export function queryText(query: Query): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== null && value !== undefined && value !== "") parameters.append(name, String(value));
  const text = parameters.toString();
  return text === "" ? "" : `?${text}`;
}

export type Links = ReturnType<typeof linksFor>;

/**
 * @param root the path from the requested page to the root of the server; ends in a slash
 * @param org the organization of the page; empty outside of one
 * @param moment what links within the organization keep as `at`: see moment.ts
 */
export function linksFor(root: string, org: string, moment: string | null = null) {
  const at = (parts: readonly (string | number)[], query: Query = {}): string => {
    const kept = moment !== null && parts[0] === org ? { ...query, at: moment } : query;
    return `${root}${parts.map((part) => encodeURIComponent(String(part))).join("/")}${queryText(kept)}`;
  };
  return {
    root,
    /** A page or file by its path below the root, without a leading slash; its parts are encoded already. */
    path: (path: string): string => `${root}${path}`,
    organization: (name: string = org) => at([name]),
    changes: (query?: Query) => at([org, "changes"], query),
    deployments: (query?: Query) => at([org, "deployments"], query),
    auditBinder: (query?: Query) => at([org, "audit-binder"], query),
    flows: (query?: Query) => at([org, "flows"], query),
    flow: (flow: string, query?: Query) => at([org, "flows", flow], query),
    trail: (flow: string, trail: string, query?: Query) => at([org, "flows", flow, "trails", trail], query),
    /** The trail with the drawer of one attestation open. */
    attestation: ({ flow, trail, id }: { flow: string; trail: string; id: string }) =>
      at([org, "flows", flow, "trails", trail], { attestation_id: id }),
    /** `id` distinguishes records of one fingerprint in a flow. */
    artifact: (flow: string, fingerprint: string, id?: string | null) =>
      at([org, "flows", flow, "artifacts", fingerprint], { artifact_id: id }),
    environments: (query?: Query) => at([org, "environments"], query),
    environment: (environment: string, query?: Query) => at([org, "environments", environment], query),
    snapshot: (environment: string, index: number | string, query?: Query) =>
      at([org, "environments", environment, index], query),
    environmentDiff: (left: string, right: string) => at([org, "env-diff"], { left, right }),
    whyArtifact: (environment: string, snapshot: number | string, fingerprint: string) =>
      at([org, "why"], { environment, snapshot, fingerprint }),
    whyTrail: (flow: string, trail: string) => at([org, "why"], { flow, trail }),
    artifacts: (query?: Query) => at([org, "artifacts"], query),
    attestations: (query?: Query) => at([org, "attestations"], query),
    attestationTypes: (query?: Query) => at([org, "attestation-types"], query),
    attestationType: (name: string, query?: Query) => at([org, "attestation-types", name], query),
    policies: (query?: Query) => at([org, "policies"], query),
    policy: (policy: string, query?: Query) => at([org, "policies", policy], query),
    controls: (query?: Query) => at([org, "controls"], query),
    control: (identifier: string, query?: Query) => at([org, "controls", identifier], query),
    repositories: (query?: Query) => at([org, "repos"], query),
    repository: (id: string, query?: Query) => at([org, "repos", id], query),
    actions: (query?: Query) => at([org, "actions"], query),
    action: (number: number | string, query?: Query) => at([org, "actions", number], query),
    /** Leads to the first section of the settings that the role may see. */
    settingsHome: () => at([org, "settings"]),
    settings: (section: string, query?: Query) => at([org, "settings", section], query),
    serviceAccount: (name: string, query?: Query) => at([org, "settings", "service-accounts", name], query),
    /** On phones: the sections that the bar at the bottom has no room for. */
    more: () => at([org, "more"]),
    views: (query?: Query) => at([org, "views"], query),
    search: (query?: Query) => at([org, "search"], query),
    account: (query?: Query) => at(["account"], query),
    keys: () => at(["account", "keyboard"]),
    guide: () => `${root}api/v2/doc/`,
    /** The address of an operation of the API, for downloads. */
    api: (...parts: readonly (string | number)[]) => at(["api", "v2", ...parts]),
  };
}
