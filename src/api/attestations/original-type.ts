/** The type that an override names must be that of what it overrides (newer-clients 2.3). */
import { isOriginalType, storedLabelOf, typeWordOf } from "../../domain/attestation/kinds.ts";
import type { TemplateAttestation } from "../../domain/flow-template/template.ts";
import { invalid } from "../../errors.ts";
import type { AttestationRow } from "../../store/attestations/attestation-rows.ts";
import type { LoadedTrail } from "../../store/flows/trail-evaluation.ts";

/**
 * What an override is about: the trail (null) and artifacts by their keys, the names of artifacts that may not be
 * reported yet, and the record before it, which may still wait for its artifact.
 */
type Overridden = {
  trail: LoadedTrail;
  name: string;
  targets: readonly (number | null)[];
  referenceNames: readonly string[];
  previous: AttestationRow | null;
};

/**
 * @param named the type as the client sent it
 * @throws AppError 400 if it is neither the type of a record that is overridden nor, where there is none, one that the
 *   template expects; a name that the template does not expect may have any
 */
export function requireOriginalType(named: string, overridden: Overridden): void {
  const reported = listReportedTypes(overridden);
  const types = reported.length > 0 ? reported : listExpectedTypes(overridden);
  const label = storedLabelOf(named);
  if (types.length === 0 || types.some((type) => isOriginalType(label, type))) return;
  const words = [...new Set(types.map((type) => `'${typeWordOf(type)}'`))].join(" or ");
  const whose = reported.length > 0 ? "the type of the attestation that is overridden" : "which the template expects";
  throw invalid({ original_attestation_type: `Input should be ${words}, ${whose} [input: ${named}]` });
}

function listReportedTypes({ trail, name, targets, previous }: Overridden): string[] {
  const current = targets.flatMap((id) => trail.facts.get(id)?.filter((fact) => fact.name === name) ?? []);
  if (current.length > 0) return current.map(({ type }) => type);
  return previous ? [previous.overridden_type ?? previous.type] : [];
}

function listExpectedTypes({ trail, name, targets, referenceNames }: Overridden): string[] {
  const { trail: template } = trail.template;
  const ofArtifacts = new Set([
    ...referenceNames,
    ...trail.artifacts.flatMap(({ id, reference_name }) => (targets.includes(id) ? [reference_name] : [])),
  ]);
  const expected: TemplateAttestation[] = [
    ...(targets.includes(null) ? template.attestations : []),
    ...template.artifacts.flatMap((artifact) => (ofArtifacts.has(artifact.name) ? artifact.attestations : [])),
  ];
  return expected.flatMap((one) => (one.name === name ? [storedLabelOf(one.type)] : []));
}
