/** The names that an organization has, for files that are compared with it (domain/organization-names.ts). */
import { ANY_TYPE, customLabelOf, storedLabelOf } from "../../domain/attestation/kinds.ts";
import type { TemplateAttestation } from "../../domain/flow-template/template.ts";
import type { OrganizationNames } from "../../domain/organization-names.ts";
import { parsePolicy } from "../../domain/policy/document.ts";
import { StoredJsonError } from "../../domain/stored-json.ts";
import type { attestationSearchStore } from "../attestations/attestation-search.ts";
import type { Db } from "../db/types.ts";
import type { templateStore } from "../flows/templates.ts";
import type { policyStore } from "./policies.ts";
import type { OrganizationRow } from "../accounts/organizations.ts";

type NameParts = {
  attestationSearch: Pick<ReturnType<typeof attestationSearchStore>, "listNames" | "isReported">;
  policies: Pick<ReturnType<typeof policyStore>, "list" | "findLatestVersion" | "getText">;
  templates: Pick<ReturnType<typeof templateStore>, "getParsed">;
};

type Organization = Pick<OrganizationRow, "id" | "name">;

/** The characters of names in templates: such a run stands in the text as it is, unless the text has escapes. */
const NAME_CHARACTERS = /[a-zA-Z0-9_,-]+/;

export function organizationNameStore(db: Db, { attestationSearch, policies, templates }: NameParts) {
  const flowNames = db
    .prepare<[number], string>("SELECT name FROM flows WHERE organization_id = ? AND archived_at IS NULL ORDER BY name")
    .pluck();
  const templateIds = db
    .prepare<[number], number>(
      "SELECT DISTINCT template_id FROM flows WHERE organization_id = ? AND archived_at IS NULL ORDER BY template_id",
    )
    .pluck();
  const templatesWith = db
    .prepare<[number, string], number>(
      `SELECT DISTINCT f.template_id FROM flows f JOIN templates t ON t.id = f.template_id
       WHERE f.organization_id = ? AND f.archived_at IS NULL
         AND (instr(t.content, ?) > 0 OR instr(t.content, '\\') > 0) ORDER BY f.template_id`,
    )
    .pluck();
  const tagKeys = db
    .prepare<[number], string>(
      `SELECT DISTINCT t.key FROM flows f JOIN flow_tags t ON t.flow_id = f.id
       WHERE f.organization_id = ? AND f.archived_at IS NULL ORDER BY t.key`,
    )
    .pluck();
  const types = db.prepare<[number], { name: string; state: "active" | "archived" }>(
    `SELECT name, iif(archived_at IS NULL, 'active', 'archived') AS state FROM custom_types
     WHERE organization_id = ? ORDER BY name`,
  );

  function attestationsIn(templateId: number): readonly TemplateAttestation[] {
    const { trail } = templates.getParsed(templateId);
    return [...trail.attestations, ...trail.artifacts.flatMap(({ attestations }) => attestations)];
  }

  /** Whether the template of a flow expects an attestation, or is damaged and may. Parses those that have the name. */
  function isInTemplate(id: number, { name, type }: TemplateAttestation, isOver: () => boolean): boolean {
    const [part = ""] = NAME_CHARACTERS.exec(name) ?? [];
    for (const templateId of templatesWith.all(id, part)) {
      if (isOver()) break;
      const attestations = readAttestations(templateId);
      if (!attestations) return true;
      const namesakes = attestations.filter((one) => one.name === name);
      if (namesakes.some((one) => type === ANY_TYPE || [type, ANY_TYPE].includes(one.type))) return true;
    }
    return false;
  }

  /** The attestations in as many templates as there is time to parse: seconds for thousands of different ones. */
  function* namesInTemplates(id: number, isOver: () => boolean): Generator<string> {
    for (const templateId of templateIds.all(id)) {
      if (isOver()) return;
      for (const { name } of readAttestations(templateId) ?? []) yield name;
    }
  }

  /** null for a damaged template. */
  function readAttestations(templateId: number): readonly TemplateAttestation[] | null {
    try {
      return attestationsIn(templateId);
    } catch (error) {
      if (error instanceof StoredJsonError) return null;
      throw error;
    }
  }

  /** Each kind of name is read when it is first asked for. */
  function namesOf({ id, name: organization }: Organization, isOver: () => boolean): OrganizationNames {
    const flows = lazily(() => new Set(flowNames.all(id)));
    const tags = lazily(() => new Set(tagKeys.all(id)));
    const customTypes = lazily(() => new Map(types.all(id).map(({ name, state }) => [name, state])));
    const attestations = lazily(
      () => new Set([...namesInTemplates(id, isOver), ...attestationSearch.listNames(id)].sort()),
    );
    return {
      organization,
      get flows() {
        return flows();
      },
      get tagKeys() {
        return tags();
      },
      get types() {
        return customTypes();
      },
      get attestations() {
        return attestations();
      },
      // Most names that a policy asks for were reported, and that is one lookup.
      isExpected: (name, type) =>
        attestationSearch.isReported(id, { name, type: storedLabelOf(type) }) ||
        isInTemplate(id, { name, type }, isOver),
      isOver,
    };
  }

  return {
    /**
     * Compares a file with the names of an organization at one moment. Takes until `isOver`: not for the main thread.
     * @param compare.isOver asked often
     */
    compare: <T>(
      organization: Organization,
      { isOver, find }: { isOver: () => boolean; find: (known: OrganizationNames) => T },
    ): T => db.transaction(() => find(namesOf(organization, isOver)))(),

    /** Whether the template of a flow, or the latest version of a policy, asks for a custom type. Takes seconds. */
    isTypeRequired({ id }: Organization, name: string): boolean {
      const type = customLabelOf(name);
      const asks = ({ type: asked }: { type: string }): boolean => asked === type;
      if (templateIds.all(id).some((templateId) => attestationsIn(templateId).some(asks))) return true;
      return policies.list(id).some((policy) => {
        const latest = policies.findLatestVersion(policy.id);
        const text = latest && policies.getText(latest.id);
        return text !== null && (parsePolicy(text, { isStored: true }).policy?.attestations.some(asks) ?? false);
      });
    },
  };
}

function lazily<T>(read: () => T): () => T {
  let known: { value: T } | null = null;
  return () => (known ??= { value: read() }).value;
}
