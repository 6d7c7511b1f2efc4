/** Every page that answers of the API point to: what a reader of the story may click on. */
import { operations } from "../../src/api/index.ts";
import { commitOf } from "../../src/demo/steps.ts";
import { ADMIN } from "./story.ts";
import type { StoryServer } from "./server.ts";

type Parameters = Readonly<Record<string, string>>;

/** Answers that are files, and the audit packages, which a database in memory does not have. */
const FILES = new Set([
  "get_attestation_evidence",
  "get_audit_package",
  "download_trail_audit_package",
  "download_trail_audit_pdf",
  "download_audit_binder",
]);
/** The story has no Rego policies, which have no pages. */
const isRego = (path: string): boolean => /^\/(?:rego-policies|evaluations)\//.test(path);
/** Answers that are the same for everybody, or 410. */
const isAboutTheStory = ({ id, method, path, status }: (typeof operations)[number]): boolean =>
  method === "GET" && path.includes("{org}") && status !== "removed" && !FILES.has(id) && !isRego(path);

/** The only SBOMs of the story. */
const SBOM = "image-sbom";

const QUERIES: Readonly<Record<string, string>> = {
  search_names: "?q=release",
  get_audit_binder: "?environment=production-eu&limit=20",
  list_attestations_for_criteria: `?flow_name=backend-api&commit_list=${commitOf("release-2.40.3", "a90b2c4")}`,
  environment_diff: "?snappish1=production-eu%23-2&snappish2=production-eu",
  compare_snapshots: "?snappish1=production-eu%23-2&snappish2=production-eu",
  ...Object.fromEntries(
    [
      "get_moment",
      "get_past_overview",
      "list_past_environments",
      "get_past_environment",
      "list_past_policies",
      "list_past_artifacts",
    ].map((id) => [id, "?at=production-eu%231"]),
  ),
};

export type FoundUrls = {
  /** The URL of each page -> an operation that answered with it. */
  urls: ReadonlyMap<string, string>;
  /** Operations of which no request was answered with 200. */
  unanswered: readonly string[];
};

/** Calls every operation that reads something of the story and collects the URLs of pages in the answers. */
export async function htmlUrls(told: StoryServer, options: ReadOptions): Promise<FoundUrls> {
  const urls = new Map<string, string>();
  const unanswered: string[] = [];
  for (const { id, paths } of await readsOfStory(told, options)) {
    let answers = 0;
    for (const path of paths) {
      const { status, text } = await told.server.call("GET", path, { key: adminKey(told) });
      if (status !== 200) continue;
      answers += 1;
      for (const [, url = ""] of text.matchAll(/"(http:\/\/assay\.test\/(?!api\/)[^"\\]*)"/g))
        if (!urls.has(url)) urls.set(url, id);
    }
    if (answers === 0) unanswered.push(id);
  }
  return { urls, unanswered };
}

/** @property maxRequests of one operation */
type ReadOptions = { orgs: readonly string[]; maxRequests?: number };
const adminKey = ({ story }: StoryServer): string => story.keys.get(ADMIN) as string;

/** The operations that read something of the story, each with the paths of all its objects in these organizations. */
export async function readsOfStory(
  told: StoryServer,
  { orgs, maxRequests = 400 }: ReadOptions,
): Promise<{ id: string; paths: readonly string[] }[]> {
  const read = async (path: string): Promise<any> =>
    (await told.server.call("GET", path, { key: adminKey(told) })).body;
  const objects = (await Promise.all(orgs.map((org) => objectsOf(org, read)))).flat();
  return operations.filter(isAboutTheStory).map(({ id, path }) => {
    const names = [...path.matchAll(/\{(\w+)\*?\}/g)].map(([, name]) => name as string);
    const paths = new Set(
      objects.flatMap((object) => {
        if (id === "get_attestation_sbom" && object["attestation_name"] !== SBOM) return [];
        if (!names.every((name) => name in object)) return [];
        const fill = (_: string, name: string): string => encodeURIComponent(object[name] as string);
        return [path.replaceAll(/\{(\w+)\*?\}/g, fill) + (QUERIES[id] ?? "")];
      }),
    );
    return { id, paths: [...paths].slice(0, maxRequests) };
  });
}

/** Everything that paths of an organization can name, as parameters of paths. */
async function objectsOf(org: string, read: (path: string) => Promise<any>): Promise<Parameters[]> {
  const found: Parameters[] = [{ org, notification_type: "api_key_expiry" }];
  for (const flow of await read(`/flows/${org}`)) {
    const at = { org, flow_name: flow.name };
    for (const trail of await read(`/trails/${org}/${flow.name}`))
      found.push({ ...at, trail_name: trail.name, commit_sha: trail.git_commit_info.sha1 });
    for (const artifact of await read(`/artifacts/${org}/${flow.name}?per_page=200`))
      found.push({ ...at, fingerprint: artifact.fingerprint, search_value: artifact.fingerprint });
    for (const attestation of (await read(`/attestations/${org}/${flow.name}?per_page=500`)).data) {
      const { trail_name, attestation_name, attestation_id, artifact_fingerprint } = attestation;
      const bound = artifact_fingerprint ? { fingerprint: artifact_fingerprint } : {};
      found.push({ ...at, trail_name, attestation_name, attestation_id, ...bound });
    }
  }
  for (const { name } of await read(`/environments/${org}`)) {
    const at = { org, env_name: name };
    found.push(at, { ...at, snapshot_expression: "-1" }, { ...at, snapshot_expression: "1" });
    const latest = await read(`/snapshots/${org}/${name}/-1`);
    for (const { fingerprint } of latest?.artifacts ?? [])
      found.push({ ...at, fingerprint, search_value: fingerprint });
  }
  for (const { name } of await read(`/policies/${org}`)) found.push({ org, policy_name: name });
  for (const { identifier } of (await read(`/controls/${org}`)).controls) {
    found.push({ org, identifier, version_number: "1" });
    const { decisions = [] } = await read(`/controls/${org}/${encodeURIComponent(identifier)}/decisions`);
    for (const { id } of decisions) found.push({ org, identifier, decision_id: id });
  }
  for (const { id, name } of (await read(`/repos/${org}`)).repos) found.push({ org, repo: id, repo_name: name });
  for (const { name } of await read(`/custom-attestation-types/${org}`))
    found.push({ org, custom_attestation_type_name: name });
  for (const { number } of await read(`/actions/${org}`))
    found.push({ org, action_number: `${number}`, notification_number: `${number}` });
  for (const { name } of await read(`/service-accounts/${org}`)) {
    found.push({ org, name });
    for (const { id } of await read(`/service-accounts/${org}/${name}/api-keys`)) found.push({ org, name, key_id: id });
  }
  return found;
}
