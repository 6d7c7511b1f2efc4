/** What files that an operator checks are compared with: the names that an organization has. */
import { ANY_TYPE, customLabelOf, storedLabelOf } from "../../../domain/attestation/kinds.ts";
import type { TemplateAttestation } from "../../../domain/flow-template/template.ts";
import type { OrganizationNames } from "../../../domain/organization-names.ts";
import { parsePolicy } from "../../../domain/policy/document.ts";
import type { OrganizationRow } from "../../../store/accounts/organizations.ts";
import type { Store } from "../../../store/index.ts";
import { systemSources } from "../../../clock.ts";
import { openStore } from "../../../store/index.ts";
import type { Args, CommandOption } from "../../args.ts";
import { DATA_OPTIONS, resolveDataDirectory } from "../../command-config.ts";
import { selectOrganization } from "../explain.ts";
import { withDataReadOnly } from "../../data-directory.ts";
import type { Io } from "../../framework.ts";

/** The options of a check that compares a file with an organization. */
export const ORGANIZATION_OPTIONS: Readonly<Record<string, CommandOption>> = {
  org: { kind: "text", placeholder: "NAME", description: "Organization whose names the file is compared with" },
  ...DATA_OPTIONS,
};

/** The problem of --data without --org: an organization has to be chosen, for most files have names of one. */
export const findMissingOrganization = ({ texts }: Args): readonly string[] =>
  texts.has("data") && !texts.has("org")
    ? ["--org is missing: give the organization whose names the file is compared with"]
    : [];

/**
 * Reads from the organization of --org, while a server may run; null without that option: then no data is needed.
 * @throws CommandError when there is no such organization or data directory
 */
export async function readOrganization<T>(
  args: Args,
  io: Io,
  read: (store: Store, organization: OrganizationRow) => T,
): Promise<T | null> {
  const name = args.texts.get("org")?.[0];
  if (name === undefined) return null;
  const directory = await resolveDataDirectory(args, io);
  return withDataReadOnly(directory, async (db) =>
    db.transaction(() => {
      const store = openStore(db, systemSources);
      return read(store, selectOrganization(store, name, []));
    })(),
  );
}

/** Parses the templates of all flows: seconds for thousands of different ones. */
export function readOrganizationNames(store: Store, { id, name: organization }: OrganizationRow): OrganizationNames {
  const flows = listFlows(store, id);
  const expected = new Map<string, Set<string>>();
  for (const templateId of new Set(flows.map((flow) => flow.template_id)))
    for (const { name, type } of attestationsIn(store, templateId)) {
      const types = expected.get(name) ?? new Set();
      expected.set(name, types.add(type));
    }
  return {
    organization,
    flows: flows.map((flow) => flow.name),
    tagKeys: [...new Set(flows.flatMap((flow) => Object.keys(JSON.parse(flow.tags_json) as object)))].sort(),
    types: new Map(
      store.customAttestationTypes
        .list(id)
        .map((type) => [type.name, type.archived_at === null ? "active" : "archived"] as const),
    ),
    attestations: [...new Set([...expected.keys(), ...store.attestationSearch.listNames(id)])].sort(),
    isExpected(name, type) {
      const types = expected.get(name);
      if (types && (type === ANY_TYPE || types.has(type) || types.has(ANY_TYPE))) return true;
      return store.attestationSearch.isReported(id, { name, type: storedLabelOf(type) });
    },
  };
}

const listFlows = ({ flows }: Store, organizationId: number) =>
  flows.list(
    organizationId,
    { search: "", caseSensitive: true, tags: [] },
    { order: { by: "name", direction: "asc" }, window: null },
  );

function attestationsIn({ templates }: Store, templateId: number): readonly TemplateAttestation[] {
  const { trail } = templates.getParsed(templateId);
  return [...trail.attestations, ...trail.artifacts.flatMap(({ attestations }) => attestations)];
}

/** Whether the template of a flow, or the latest version of a policy, asks for a custom type. */
export function isTypeRequired(store: Store, { id }: OrganizationRow, name: string): boolean {
  const type = customLabelOf(name);
  const asks = ({ type: asked }: { type: string }): boolean => asked === type;
  const isIn = (templateId: number): boolean => attestationsIn(store, templateId).some(asks);
  if (listFlows(store, id).some(({ template_id }) => isIn(template_id))) return true;
  return store.policies.list(id).some((policy) => {
    const latest = store.policies.findLatestVersion(policy.id);
    const text = latest && store.policies.getText(latest.id);
    return text !== null && (parsePolicy(text, { isStored: true }).policy?.attestations.some(asks) ?? false);
  });
}
