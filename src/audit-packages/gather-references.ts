/** What the records of a package refer to: policy versions, controls, custom attestation types and flow templates. */
import { policyFileName, templateFileName, typeFileName } from "./file-names.ts";
import { addList } from "./gathering.ts";
import type { Gathering } from "./gathering.ts";
import { toControlRecord, toPolicyRecord, toTypeRecord } from "./records.ts";

type Referring = Pick<Gathering, "context" | "members" | "references">;

/** Policies come first, because they refer to controls. */
export function gatherReferences(gathering: Referring): void {
  gatherPolicies(gathering);
  gatherControls(gathering);
  gatherCustomTypes(gathering);
  gatherTemplates(gathering);
}

function gatherPolicies(gathering: Referring): void {
  const { context, references, members } = gathering;
  const { auditPackages } = context.store;
  const versionIds = [...references.policyVersions].sort((a, b) => a - b);
  addList(gathering, "policies.json", {
    rows: versionIds.flatMap((id) => auditPackages.findPolicyVersion(id) ?? []),
    toRecord(row) {
      for (const control of controlsInPolicy(gathering, row.id)) references.controls.add(control);
      return toPolicyRecord(row);
    },
  });
  for (const id of versionIds) {
    const row = auditPackages.findPolicyVersion(id);
    if (row) members?.text(policyFileName(row.name, row.version), [row.policy_yaml]);
  }
}

/** None where the stored policy cannot be read. */
function controlsInPolicy({ context }: Referring, versionId: number): string[] {
  try {
    return context.store.policies.getDocument(versionId).controls.map(({ control }) => control);
  } catch {
    return [];
  }
}

function gatherControls(gathering: Referring): void {
  const { store, organization } = gathering.context;
  addList(gathering, "controls.json", {
    rows: [...gathering.references.controls]
      .sort()
      .flatMap((identifier) => store.auditPackages.findControl(organization.id, identifier) ?? []),
    toRecord: toControlRecord,
  });
}

function gatherCustomTypes(gathering: Referring): void {
  const { context, references, members } = gathering;
  const rows = [...references.customTypes].sort().flatMap((key) => {
    const [version, name] = JSON.parse(key) as [number, string];
    return context.store.auditPackages.findTypeVersion(context.organization.id, name, version) ?? [];
  });
  addList(gathering, "custom-types.json", { rows, toRecord: toTypeRecord });
  for (const { name, version, schema_json } of rows)
    if (schema_json !== null) members?.text(typeFileName(name, version), [schema_json]);
}

function gatherTemplates({ context, references, members }: Referring): void {
  for (const publicId of [...references.templates].sort()) {
    const content = context.store.auditPackages.findTemplate(publicId);
    if (content !== null) members?.text(templateFileName(publicId), [content]);
  }
}
