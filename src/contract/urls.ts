/** Absolute URLs in responses: web pages (`html_url`) and API objects (`api_url`, `_links`). */
import type { ArtifactSelector } from "../domain/notification/event.ts";

/** The query `?key=value...`; empty without parameters. */
function formatQuery(parameters: Readonly<Record<string, string>>): string {
  const text = new URLSearchParams(parameters).toString();
  return text === "" ? "" : `?${text}`;
}

export type Urls = ReturnType<typeof urlsFor>;

/** @param baseUrl public URL of the server without a trailing slash, such as `https://assay.example.com` */
export function urlsFor(baseUrl: string) {
  const root = baseUrl.replace(/\/+$/, "");
  const join = (...parts: string[]): string => parts.map(encodeURIComponent).join("/");
  const page = (...parts: string[]): string => `${root}/${join(...parts)}`;
  const api = (...parts: string[]): string => `${root}/api/v2/${join(...parts)}`;
  return {
    root,
    apiRoot: `${root}/api/v2`,
    /** The page of a flow: `<host>/{org}/flows/{flow}`. */
    flowPage: (org: string, flow: string) => page(org, "flows", flow),
    flowApi: (org: string, flow: string) => api("flows", org, flow),
    trailApi: (org: string, flow: string, trail: string) => api("trails", org, flow, trail),
    trailPage: (org: string, flow: string, trail: string) => page(org, "flows", flow, "trails", trail),
    /** The page of the trail with the attestation's drawer open (wire-contract 4). */
    attestationPage: (org: string, { flow, trail, id }: { flow: string; trail: string; id: string }) =>
      `${page(org, "flows", flow, "trails", trail)}?attestation_id=${id}`,
    /** See wire-contract 5. */
    artifactPage: (org: string, flow: string, { fingerprint, id }: { fingerprint: string; id: string }) =>
      `${page(org, "flows", flow, "artifacts", fingerprint)}?artifact_id=${id}`,
    /**
     * The read of exactly one record.
     * @param selector distinguishes it from other records of the fingerprint in the flow
     */
    artifactApi: (
      org: string,
      flow: string,
      { fingerprint, selector }: { fingerprint: string; selector: ArtifactSelector },
    ) => `${api("artifacts", org, flow, "fingerprint", fingerprint)}${formatQuery(selector)}`,
    environmentPage: (org: string, environment: string) => page(org, "environments", environment),
    policyPage: (org: string, policy: string) => page(org, "policies", policy),
    controlPage: (org: string, identifier: string) => page(org, "controls", identifier),
    environmentApi: (org: string, environment: string) => api("environments", org, environment),
    environmentEventsApi: (org: string, environment: string) => api("environments", org, environment, "events"),
    /** @param query as on the page; all of the last day without it */
    changesPage: (org: string, query: Readonly<Record<string, string>> = {}) =>
      `${page(org, "changes")}${formatQuery(query)}`,
    /** @param query as of the operation */
    changesApi: (org: string, query: Readonly<Record<string, string>>) => `${api("changes", org)}${formatQuery(query)}`,
    actionPage: (org: string, number: number) => page(org, "actions", String(number)),
    /** Why an artifact of a snapshot has its verdict. */
    whyPage: (org: string, place: Readonly<{ environment: string; snapshot: string; fingerprint: string }>) =>
      `${page(org, "why")}${formatQuery(place)}`,
    /** @param query without a question mark; empty for none */
    changesFeed: (org: string, query: string) => `${api("changes", org, "atom")}${query === "" ? "" : `?${query}`}`,
    auditBinderPage: (org: string, query: Readonly<Record<string, string>>) =>
      `${page(org, "audit-binder")}${formatQuery(query)}`,
    membersPage: (org: string) => page(org, "settings", "members"),
    serviceAccountPage: (org: string, name: string) => page(org, "settings", "service-accounts", name),
    /** See wire-contract 4. */
    snapshotPage: (org: string, environment: string, index: number) =>
      page(org, "environments", environment, String(index)),
    snapshotApi: (org: string, environment: string, index: number) => api("snapshots", org, environment, String(index)),
    /** Selects by id; the name in the path is ignored then and may be anything. */
    repoApi: (org: string, id: string) => `${api("repos", org, id)}?id=${id}`,
    repoPage: (org: string, id: string) => page(org, "repos", id),
    repoDeploymentsApi: (org: string, id: string) => api("repos", org, id, "deployments"),
    repoLiveArtifactsApi: (org: string, id: string) => `${api("repos", org, "live-artifacts", id)}?id=${id}`,
    attestationApi: (org: string, id: string) => `${api("attestations", org)}?attestation_id=${id}`,
    evidenceApi: (org: string, { flow, trail, id }: { flow: string; trail: string; id: string }) =>
      api("attestations", org, flow, "trail", trail, "attestation", id, "evidence"),
  };
}
