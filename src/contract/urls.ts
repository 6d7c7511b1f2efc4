/** Absolute addresses in answers: pages for people (`html_url`) and API objects (`api_url`, `_links`). */
import type { ArtifactSelector } from "../domain/notification/event.ts";

/** `?key=value...` of some parameters, empty for none. */
function queryText(parameters: Readonly<Record<string, string>>): string {
  const text = new URLSearchParams(parameters).toString();
  return text === "" ? "" : `?${text}`;
}

export type Urls = ReturnType<typeof urlsFor>;

/** @param baseUrl public address of the host without a trailing slash, such as `https://assay.example.com`. */
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
    /** wire-contract 4: the trail page with the attestation's drawer open. */
    attestationPage: (org: string, flow: string, trail: string, id: string) =>
      `${page(org, "flows", flow, "trails", trail)}?attestation_id=${id}`,
    /** wire-contract 5. */
    artifactPage: (org: string, flow: string, fingerprint: string, id: string) =>
      `${page(org, "flows", flow, "artifacts", fingerprint)}?artifact_id=${id}`,
    /**
     * The read that answers exactly one record.
     * @param selector tells it from the others of its fingerprint in the flow
     */
    artifactApi: (org: string, flow: string, fingerprint: string, selector: ArtifactSelector) =>
      `${api("artifacts", org, flow, "fingerprint", fingerprint)}${queryText(selector)}`,
    environmentPage: (org: string, environment: string) => page(org, "environments", environment),
    environmentApi: (org: string, environment: string) => api("environments", org, environment),
    environmentEventsApi: (org: string, environment: string) => api("environments", org, environment, "events"),
    /** wire-contract 4. */
    snapshotPage: (org: string, environment: string, index: number) =>
      page(org, "environments", environment, String(index)),
    snapshotApi: (org: string, environment: string, index: number) => api("snapshots", org, environment, String(index)),
    /** By its id: then the name in the path says nothing, and may be any. */
    repoApi: (org: string, id: string) => `${api("repos", org, id)}?id=${id}`,
    repoPage: (org: string, id: string) => page(org, "repos", id),
    repoDeploymentsApi: (org: string, id: string) => api("repos", org, id, "deployments"),
    repoLiveArtifactsApi: (org: string, id: string) => `${api("repos", org, "live-artifacts", id)}?id=${id}`,
    attestationApi: (org: string, id: string) => `${api("attestations", org)}?attestation_id=${id}`,
    evidenceApi: (org: string, flow: string, trail: string, id: string) =>
      api("attestations", org, flow, "trail", trail, "attestation", id, "evidence"),
  };
}
