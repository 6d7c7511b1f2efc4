/**
 * Why something is not compliant, from what is stored: the causes of a verdict in words that begin with what decided
 * (domain/compliance/cause-words.ts), with what the records found. Pages, lists and messages say it with these.
 * Read-only.
 */
import { shortenCause } from "../../domain/compliance/cause-words.ts";
import type { ShortCause } from "../../domain/compliance/cause-words.ts";
import type { AttestationStatus } from "../../domain/compliance/attestation.ts";
import { causesOfReasons, checklistsOf, listCauses } from "../../domain/compliance/causes.ts";
import type { CauseFacts, VerdictCause } from "../../domain/compliance/causes.ts";
import { expandStoredVerdict, withFlowNames } from "../../domain/compliance/environment.ts";
import type { PolicyVerdict } from "../../domain/policy/evaluate.ts";
import type { TrailEvaluation } from "../../domain/compliance/trail.ts";
import { hasMembers, isListOf, isText, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import type { explainedAttestationStore } from "../attestations/explained-attestations.ts";
import type { PlacedArtifactRow } from "../flows/artifacts.ts";
import type { flowStore } from "../flows/flows.ts";
import type { trailStore } from "../flows/trails.ts";
import type { policyStore } from "../policies/policies.ts";
import type { ParsedEvaluation } from "./snapshots.ts";

/** Causes of one verdict that a list or a message shows; its explanation has all of them. */
export const MAX_CAUSES = 5;
/** Longer checklists of a trail, of some 300 attestations, are not read for what each record found. */
const MAX_CHECKLIST_BYTES = 64 * 1024;

/** `further_causes`: how many there are besides. Both are empty for what is compliant. */
export type CausesValue = { causes: ShortCause[]; further_causes: number };
export const NO_CAUSES: CausesValue = { causes: [], further_causes: 0 };

/** The causes of several verdicts, each once. */
export function mergeCauses(all: readonly CausesValue[]): CausesValue {
  const unique = [...new Map(all.flatMap(({ causes }) => causes).map((cause) => [cause.text, cause])).values()];
  const further = all.reduce((sum, { further_causes: more }) => sum + more, 0);
  return {
    causes: unique.slice(0, MAX_CAUSES),
    further_causes: Math.max(0, unique.length - MAX_CAUSES) + further,
  };
}

type CauseParts = {
  records: ReturnType<typeof explainedAttestationStore>;
  policies: ReturnType<typeof policyStore>;
  flows: ReturnType<typeof flowStore>;
  trails: ReturnType<typeof trailStore>;
};

const isTextList = isListOf(isText);
const isStatusList = isListOf(hasMembers<AttestationStatus>("attestation_name"));
const noChecklists = (): readonly AttestationStatus[] => [];

export function verdictCauseStore({ records, policies, flows, trails }: CauseParts) {
  /** Only the records of causes that are shown are read. */
  function shorten(organizationId: number, causes: readonly VerdictCause[]): CausesValue {
    const shown = new Map<string, ShortCause>();
    let further = 0;
    for (const cause of causes) {
      if (shown.size === MAX_CAUSES) {
        further++;
        continue;
      }
      const { attestation_id: id } = cause;
      const short = shortenCause(cause, id === null ? null : (records.find(id, organizationId)?.reasons ?? null));
      if (!shown.has(short.text)) shown.set(short.text, short);
    }
    return { causes: [...shown.values()], further_causes: further };
  }

  /** The checklists of a trail; empty ones without a trail, and where its record is long or damaged. */
  function findChecklists(trailId: number | null) {
    const status = trailId === null ? null : trails.findCompliance(trailId, MAX_CHECKLIST_BYTES);
    return status === null ? noChecklists : checklistsOf(status);
  }

  /** The causes of verdicts that were reached on these facts. */
  const explainVerdicts = (
    organizationId: number,
    facts: { verdicts: readonly PolicyVerdict[]; flows: readonly CauseFacts[] },
  ): CausesValue => shorten(organizationId, listCauses(facts.verdicts, facts.flows));

  return {
    explainVerdicts,
    /** Why a record is not compliant; null for one that is, and where nothing is known. */
    findReasons(organizationId: number, attestationId: string): readonly string[] | null {
      const record = records.find(attestationId, organizationId);
      return record === null || record.isCompliant ? null : record.reasons;
    },
    /**
     * The causes of an evaluation, with the present names of flows. Empty where this program cannot read a policy
     * version: the reasons that are stored with the evaluation say then what is known.
     */
    explainEvaluation(organizationId: number, { facts: stored, verdicts }: ParsedEvaluation): CausesValue {
      const failing = verdicts.filter(({ status }) => status === "NON-COMPLIANT");
      if (failing.length === 0) return NO_CAUSES;
      const names = flows.findPresentNames(new Set(stored.flows.map(({ flow_id }) => flow_id)));
      const facts = withFlowNames(stored, (id) => names.get(id));
      const expanded: PolicyVerdict[] = [];
      for (const verdict of failing)
        try {
          expanded.push(expandStoredVerdict(verdict, policies.getDocument(verdict.version_id), facts));
        } catch {
          return NO_CAUSES;
        }
      return explainVerdicts(organizationId, { verdicts: expanded, flows: facts.flows });
    },
    /** The causes of the verdict on a trail, `flow` by its present name. Empty where its reasons are damaged. */
    explainTrail(
      organizationId: number,
      row: { id: number; reasons_json: string; flow: string; name: string },
    ): CausesValue {
      const reasons = readStoredJsonOrNull(row.reasons_json, isTextList) ?? [];
      if (reasons.length === 0) return NO_CAUSES;
      const place = { flow: row.flow, trail: row.name, checklists: findChecklists(row.id) };
      return shorten(organizationId, causesOfReasons(reasons, place));
    },
    /** The causes of a verdict on a trail that is not stored. @param at the present name of its flow, and its own */
    explainComputed: (
      organizationId: number,
      { compliance_status, reasons }: Pick<TrailEvaluation, "compliance_status" | "reasons">,
      at: { flow: string; trail: string },
    ): CausesValue =>
      shorten(organizationId, causesOfReasons(reasons, { ...at, checklists: checklistsOf(compliance_status) })),
    /** The causes of the state of an artifact in its flow. Empty where its reasons are damaged. */
    explainArtifact(row: PlacedArtifactRow): CausesValue {
      const reasons = readStoredJsonOrNull(row.reasons_json, isTextList) ?? [];
      if (reasons.length === 0) return NO_CAUSES;
      const own = readStoredJsonOrNull(row.attestations_json, isStatusList) ?? [];
      const ofTrail = findChecklists(row.trail_id);
      const checklists = (artifact: string | null) => (artifact === null ? ofTrail(null) : own);
      return shorten(
        row.organization_id,
        causesOfReasons(reasons, { flow: row.flow_name, trail: row.trail_name, checklists }),
      );
    },
  };
}
