/**
 * Sixteen calls with the client that openapi-generator made for TypeScript (typescript-fetch). openapi-generator.ts
 * runs it with ASSAY_URL, ASSAY_KEY and ASSAY_ORG.
 */
import { deepStrictEqual } from "node:assert/strict";
import {
  ActionsApi,
  ArtifactsApi,
  AttestationApi,
  Configuration,
  EnvironmentsApi,
  FlowsApi,
  MetaApi,
  ResponseError,
  TagsApi,
  TrailsApi,
} from "./api/index.js";
import type { FlowListPage } from "./api/index.js";

const setting = (name: string): string => process.env[name] ?? "";
const basePath = `${setting("ASSAY_URL")}/api/v2`;
const org = setting("ASSAY_ORG");
const [flow, trail] = ["generator-typescript", "release-1"];
const [fingerprint, commit, other] = ["a".repeat(64), "b".repeat(40), "c".repeat(40)];
const EVIDENCE = Uint8Array.from({ length: 256 }, (_, place) => place);
const TEMPLATE = "version: 1\ntrail:\n  attestations:\n    - name: tests\n      type: generic\n";

const settings = new Configuration({ basePath, accessToken: setting("ASSAY_KEY") });

function same(what: string, found: unknown, expected: unknown): void {
  deepStrictEqual(found, expected, what);
  console.log(`ok ${what}`);
}

/** The body of the error that a call ends with. */
async function refused(call: Promise<unknown>): Promise<Record<string, unknown>> {
  try {
    await call;
  } catch (error) {
    if (error instanceof ResponseError) return (await error.response.json()) as Record<string, unknown>;
    throw error;
  }
  throw new Error("the call was not refused");
}

const version = await new MetaApi(new Configuration({ basePath })).getVersion();
same("get_version without a key", version.schema > 0, true);

const flows = new FlowsApi(settings);
const created = await flows.createFlowWithTemplateRaw({
  org,
  dataJson: { name: flow, description: "Flöw" },
  templateFile: new Blob([TEMPLATE]),
});
same("create_flow_with_template: form with a file", [created.raw.status, await created.value()], [201, "OK"]);

const begun = await new TrailsApi(settings).createTrailRaw({
  org,
  flowName: flow,
  dataJson: { name: trail, userData: [1, "two"] },
});
same("create_trail: form without a file", begun.raw.status, 201);

const artifact = await new ArtifactsApi(settings).createArtifactRaw({
  org,
  flowName: flow,
  createArtifact: {
    fingerprint,
    filename: "app",
    gitCommit: commit,
    buildUrl: "https://ci.example.com/1",
    commitUrl: "https://example.com/c",
    trailName: trail,
    userData: [{ any: null }],
    externalUrls: { docs: { href: "https://example.com/docs" } },
    annotations: { team: "payments" },
  },
});
same("create_artifact: JSON with maps and a list", artifact.raw.status, 201);

const attestations = new AttestationApi(settings);
const reported = await attestations.postGenericAttestationRaw({
  org,
  flowName: flow,
  trailName: trail,
  dataJson: { attestationName: "tests", isCompliant: true, artifactFingerprint: fingerprint },
  attachmentFile: new Blob([EVIDENCE]),
});
same("post_generic_attestation: form with evidence", reported.raw.status, 201);

const found = await attestations.getAttestations({
  org,
  flow: [flow, "no-such"],
  type: ["junit", "generic"],
  perPage: 5,
});
same(
  "get_attestations: arrays in the query",
  found.data.map(({ attestationName }) => attestationName),
  ["tests"],
);

const evidence = await attestations.getAttestationEvidence({
  org,
  flowName: flow,
  trailName: trail,
  attestationId: found.data[0]?.attestationId ?? "",
});
same("get_attestation_evidence: bytes", new Uint8Array(await evidence.arrayBuffer()), EVIDENCE);

const byCommit = await attestations.listAttestationsForCriteria({ org, commitList: [commit, other] });
same("list_attestations_for_criteria: a map of lists", Object.keys(byCommit).sort(), [commit, other]);

const environment = await new EnvironmentsApi(settings).createEnvRaw({
  org,
  createEnvironmentPutInput: { name: flow, type: "K8S", description: "" },
});
same("create_env: JSON with an enumeration", environment.raw.status, 201);

const tagged = await new TagsApi(settings).patchTagsRaw({
  org,
  resourceType: "flow",
  resourceId: flow,
  tagPatchInput: { setTags: { team: "payments" }, removeTags: ["old"] },
});
same("patch_tags: JSON with a map", tagged.raw.status, 200);

const actions = new ActionsApi(settings);
const action = await actions.createOrUpdateEnvActionRaw({
  org,
  envActionPutInput: {
    name: flow,
    environments: [flow],
    triggers: ["ON_NON_COMPLIANT_ENV"],
    targets: [
      { type: "WEBHOOK", webhook: "https://hooks.example.com/builds" },
      { type: "EMAIL", emails: ["team@example.com"] },
    ],
  },
});
same("create_or_update_env_action: a union of targets", action.raw.status, 201);

const read = (await actions.listActions({ org })).find(({ name }) => name === flow);
same(
  "list_actions: a union of targets",
  read?.targets.map(({ type, webhook, payloadVersion, emails }) => ({ type, webhook, payloadVersion, emails })),
  [
    { type: "WEBHOOK", webhook: "https://hooks.example.com/builds", payloadVersion: "1.0", emails: undefined },
    { type: "EMAIL", webhook: undefined, payloadVersion: undefined, emails: ["team@example.com"] },
  ],
);

const all = await flows.getFlows({ org, searchByName: flow });
same("get_flows: a list", Array.isArray(all) && all.map(({ name }) => name), [flow]);
const page = (await flows.getFlows({ org, searchByName: flow, page: 1, perPage: 5 })) as FlowListPage;
same("get_flows: a page", [page.data[0]?.name, page.pagination.total], [flow, 1]);

const missing = await refused(flows.getFlow({ org, flowName: "no-such" }));
same("get_flow: body of a 404", missing, {
  message: `Flow named 'no-such' does not exist for organization '${org}'`,
});

const invalid = await refused(flows.createFlowWithTemplate({ org, dataJson: { name: "not a name" } }));
same("create_flow_with_template: body of a 400", Object.keys(invalid["errors"] ?? {}), ["name"]);
