/**
 * Twelve calls with the types that openapi-typescript generated, through openapi-fetch. main.ts runs it with ASSAY_URL,
 * ASSAY_KEY and ASSAY_ORG.
 */
import { deepStrictEqual } from "node:assert/strict";
import createClient from "openapi-fetch";
import type { paths } from "./assay.d.ts";

const setting = (name: string): string => process.env[name] ?? "";
const root = `${setting("ASSAY_URL")}/api/v2`;
const org = setting("ASSAY_ORG");
const [flow, trail] = ["typescript", "release-1"];
const [fingerprint, commit, other] = ["a".repeat(64), "b".repeat(40), "c".repeat(40)];
const EVIDENCE = Uint8Array.from({ length: 256 }, (_, place) => place);
const TEMPLATE = "version: 1\ntrail:\n  attestations:\n    - name: tests\n      type: generic\n";

const client = createClient<paths>({ baseUrl: root, headers: { Authorization: `Bearer ${setting("ASSAY_KEY")}` } });
const anonymous = createClient<paths>({ baseUrl: root });

function same(what: string, found: unknown, expected: unknown): void {
  deepStrictEqual(found, expected, what);
  console.log(`ok ${what}`);
}

/** Forms are left to the user: JSON becomes text in its part, and a file keeps its bytes. */
function bodySerializer(body: Record<string, unknown>): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(body))
    form.append(name, value instanceof Blob ? value : JSON.stringify(value));
  return form;
}
/** A file is a string in the types, as in its schema. */
const file = (content: string | Uint8Array<ArrayBuffer>): string =>
  new File([content], "file.bin") as unknown as string;

const version = await anonymous.GET("/version");
same("get_version without a key", (version.data?.schema ?? 0) > 0, true);

const created = await client.PUT("/flows/{org}/template_file", {
  params: { path: { org } },
  body: { data_json: { name: flow, description: "Flöw" }, template_file: file(TEMPLATE) },
  bodySerializer,
});
same("create_flow_with_template: form with a file", [created.response.status, created.data], [201, "OK"]);

const begun = await client.PUT("/trails/{org}/{flow_name}", {
  params: { path: { org, flow_name: flow } },
  body: { data_json: { name: trail, user_data: [1, "two"] } },
  bodySerializer,
});
same("create_trail: form without a file", begun.response.status, 201);

const artifact = await client.POST("/artifacts/{org}/{flow_name}", {
  params: { path: { org, flow_name: flow } },
  body: {
    fingerprint,
    filename: "app",
    git_commit: commit,
    build_url: "https://ci.example.com/1",
    commit_url: "https://example.com/c",
    trail_name: trail,
    user_data: [{ any: null }],
    external_urls: { docs: { href: "https://example.com/docs" } },
    annotations: { team: "payments" },
  },
});
same("create_artifact: JSON with maps and a list", artifact.response.status, 201);

const reported = await client.POST("/attestations/{org}/{flow_name}/trail/{trail_name}/generic", {
  params: { path: { org, flow_name: flow, trail_name: trail } },
  body: {
    data_json: { attestation_name: "tests", is_compliant: true, artifact_fingerprint: fingerprint },
    attachment_file: file(EVIDENCE),
  },
  bodySerializer,
});
same("post_generic_attestation: form with evidence", reported.response.status, 201);

const found = await client.GET("/attestations/{org}", {
  params: { path: { org }, query: { flow: [flow, "no-such"], type: ["junit", "generic"], per_page: 5 } },
});
same(
  "get_attestations: arrays in the query",
  found.data?.data.map(({ attestation_name }) => attestation_name),
  ["tests"],
);

const evidence = await client.GET(
  "/attestations/{org}/{flow_name}/trail/{trail_name}/attestation/{attestation_id}/evidence",
  {
    params: {
      path: { org, flow_name: flow, trail_name: trail, attestation_id: found.data?.data[0]?.attestation_id ?? "" },
    },
    parseAs: "arrayBuffer",
  },
);
same("get_attestation_evidence: bytes", new Uint8Array(evidence.data ?? new ArrayBuffer(0)), EVIDENCE);

const byCommit = await client.GET("/attestations/{org}/list_attestations_for_criteria", {
  params: { path: { org }, query: { commit_list: [commit, other] } },
});
same("list_attestations_for_criteria: a map of lists", Object.keys(byCommit.data ?? {}).sort(), [commit, other]);

const environment = await client.PUT("/environments/{org}", {
  params: { path: { org } },
  body: { name: "typescript", type: "K8S", description: "" },
});
same("create_env: JSON with an enumeration", environment.response.status, 201);

const tagged = await client.PATCH("/tags/{org}/{resource_type}/{resource_id}", {
  params: { path: { org, resource_type: "flow", resource_id: flow } },
  body: { set_tags: { team: "payments" }, remove_tags: ["old"] },
});
same("patch_tags: JSON with a map", tagged.response.status, 200);

const missing = await client.GET("/flows/{org}/{flow_name}", { params: { path: { org, flow_name: "no-such" } } });
same(
  "get_flow: body of a 404",
  missing.error?.message,
  `Flow named 'no-such' does not exist for organization '${org}'`,
);

const invalid = await client.PUT("/flows/{org}/template_file", {
  params: { path: { org } },
  body: { data_json: { name: "not a name", description: "" } },
  bodySerializer,
});
const errors = invalid.error && "errors" in invalid.error ? invalid.error.errors : undefined;
same("create_flow_with_template: body of a 400", Object.keys(errors ?? {}), ["name"]);
