/** What the editor completes in policies and templates: keys of their schemas, and names of the organization. */
import { getCustomAttestationTypes } from "../../api/attestations/custom-attestation-types.ts";
import { getFlows } from "../../api/flows/flows.ts";
import { listControls } from "../../api/policies/controls.ts";
import { TEMPLATE_SCHEMA } from "../../domain/flow-template/template.ts";
import { ATTESTATION_TYPES, POLICY_SCHEMA } from "../../domain/policy/schema.ts";
import { SCHEMA_URL } from "../../domain/policy/schema.ts";
import type { Visit } from "../page/page.ts";
import type { Completions } from "./editor.ts";
import { schemaKeys } from "./schema-keys.ts";

/** Names of each kind that the editor completes. */
const MAX_NAMES = 100;
const SWITCH = ["true", "false"];

export async function policyCompletions(visit: Visit): Promise<Completions> {
  const { call, may } = visit;
  const flows = await call(getFlows, { query: { page: 1, per_page: MAX_NAMES } });
  const { controls } = may(listControls)
    ? await call(listControls, { query: { page: 1, per_page: MAX_NAMES } })
    : { controls: [] };
  return {
    keys: schemaKeys(POLICY_SCHEMA),
    values: {
      _schema: [SCHEMA_URL],
      type: await typeNames(visit),
      for_control: controls.map(({ identifier }) => identifier),
      required: SWITCH,
      must_be_compliant: SWITCH,
      name: ['"*"'],
    },
    flows: (Array.isArray(flows) ? flows : flows.data).slice(0, MAX_NAMES).map(({ name }) => name),
  };
}

export async function templateCompletions(visit: Visit): Promise<Completions> {
  const values = { version: ["1"], type: await typeNames(visit) };
  return { keys: schemaKeys(TEMPLATE_SCHEMA), values, flows: null };
}

/** The types of attestations that the organization can use. */
async function typeNames({ call }: Visit): Promise<string[]> {
  const answer = await call(getCustomAttestationTypes, { query: { max_versions: 1, schemas: false } });
  const custom = "data" in answer ? answer.data : answer;
  const names = custom.filter(({ archived }) => !archived).slice(0, MAX_NAMES);
  return [
    ...ATTESTATION_TYPES.map((type) => (type === "*" ? '"*"' : type)),
    ...names.map(({ name }) => `custom:${name}`),
  ];
}
