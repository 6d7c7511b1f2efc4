/** What only pictures and tests of pages need: the story itself, and all that is compared with it, does without. */
import type { TestServer } from "../given.ts";
import { TEXTS } from "./edge.ts";

const ORG = "acme";

const VIEWS = [
  {
    name: "Failing artifacts",
    list: { page: "artifacts", parameters: { state: "NON-COMPLIANT" } },
    for_everyone: true,
  },
  { name: "Kubernetes", list: { page: "environments", parameters: { type: "K8S" } }, for_everyone: true },
  {
    name: "Releases of backend-api that fail",
    list: { page: "trails", parameters: { flow: "backend-api", state: "NON-COMPLIANT" } },
  },
  { name: "Failing unit tests", list: { page: "attestations", parameters: { name: "unit", is_compliant: "false" } } },
  { name: "Nightly jobs", list: { page: "trails", parameters: { flow: "backend-api" } } },
] as const;

/** Saves them as the administrator; the flow of the last one is gone. */
export async function saveViews(server: TestServer, key: string): Promise<void> {
  for (const body of VIEWS) {
    const { status, text } = await server.call("POST", `/views/${ORG}`, { key, body });
    if (status !== 201) throw new Error(`${body.name}: ${status} ${text}`);
  }
  server.db.exec(`UPDATE views SET parameters_json = '{"flow":"nightly-jobs"}' WHERE name = 'Nightly jobs'`);
}

const RULE = { flow: "infra", trails_after_days: 1095, evidence_after_days: 365 };

/** Lets a flow forget, so that the rules have a list. */
export async function setRetentionRule(server: TestServer, key: string): Promise<void> {
  const { status, text } = await server.call("PUT", `/retention/${ORG}/rules`, { key, body: RULE });
  if (status !== 200) throw new Error(`${status} ${text}`);
}

const POLICY = `_schema: https://assay.edge.example/schemas/policy/v1
artifacts:
  attestations:
    - type: junit
      name: unit-tests
      if: \${{ flow.name == "renamed" }}
`;

/** Attaches a policy that reads the name of a flow: a page asks before the flow gets the one that it names. */
export async function attachPolicyOfName(server: TestServer, key: string): Promise<void> {
  const form = {
    field: "payload",
    json: { name: "named", type: "env", description: "What a flow of another name has to prove" },
    file: { name: "policy_file", filename: "policy.yml", content: POLICY },
  };
  const environment = { name: "one-artifact", type: "server", description: TEXTS[2], policies: ["named"] };
  const created = await server.call("PUT", "/policies/edge", { key, form });
  const attached = await server.call("PUT", "/environments/edge", { key, body: environment });
  for (const { status, text } of [created, attached]) if (status > 201) throw new Error(`${status} ${text}`);
}
