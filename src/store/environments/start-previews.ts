/**
 * Whether an artifact could start in environments: evaluates it under the policies in force, as the snapshot that would
 * show it. Writes nothing.
 */
import type { Evaluation, Facts } from "../../domain/compliance/environment.ts";
import { withFlowNames } from "../../domain/compliance/environment.ts";
import { previewArtifact, verdictWord } from "../../domain/compliance/preview.ts";
import type { PreviewCause, PreviewReason, VerdictWord } from "../../domain/compliance/preview.ts";
import { estimateEvaluationMs } from "../../domain/policy/cost.ts";
import type { Db } from "../db/types.ts";
import type { allowlistStore } from "./allowlists.ts";
import type { complianceFactStore } from "./compliance-facts.ts";
import type { EnvironmentType } from "./environments.ts";
import { OPEN } from "./snapshots.ts";
import type { flowStore } from "../flows/flows.ts";
import type { policyStore } from "../policies/policies.ts";

/** `at`: epoch seconds, at which an allowlist entry with an end has to be in force. */
export type StartQuestion = { organizationId: number; fingerprint: string; at: number };

export type StartBounds = { environments: number; causes: number; isOver(): boolean };

type PreviewedStart = {
  environment: string;
  type: EnvironmentType;
  /** Whether it runs there now. */
  running: boolean;
  verdict: VerdictWord;
  /** Whether the allowlist would accept it, whatever its policies say. */
  allowed: boolean;
  policies: { policy: string; version: number }[];
  causes: PreviewCause[];
  further_causes: number;
  reasons: PreviewReason[];
};

/** `left`: environments that were not looked at. */
export type StartPreview = { environments: PreviewedStart[]; left: number };

type PlaceRow = { id: number; name: string; type: EnvironmentType; running_as: string | null };

type StartParts = {
  allowlists: Pick<ReturnType<typeof allowlistStore>, "findInForce">;
  facts: Pick<ReturnType<typeof complianceFactStore>, "read" | "countFlows">;
  flows: Pick<ReturnType<typeof flowStore>, "findPresentNames">;
  policies: Pick<ReturnType<typeof policyStore>, "listApplied" | "findLines">;
};

const NOT_YET: Pick<Evaluation, "verdicts" | "reasons"> = { verdicts: [], reasons: [] };

export function startPreviewStore(db: Db, { allowlists, facts, flows, policies }: StartParts) {
  const places = db.prepare<{ organization: number; fingerprint: string; limit: number }, PlaceRow>(
    `SELECT env.id, env.name, env.type,
       (SELECT min(sa.name) FROM snapshot_artifacts sa
        WHERE sa.organization_id = env.organization_id AND sa.fingerprint = @fingerprint
          AND sa.environment_id = env.id AND sa.last_index = ${OPEN}) AS running_as
     FROM environments env
     WHERE env.organization_id = @organization AND env.archived_at IS NULL AND env.type <> 'logical'
     ORDER BY env.name LIMIT @limit`,
  );
  const placeById = db.prepare<{ environment: number; fingerprint: string }, PlaceRow>(
    `SELECT env.id, env.name, env.type,
       (SELECT min(sa.name) FROM snapshot_artifacts sa
        WHERE sa.organization_id = env.organization_id AND sa.fingerprint = @fingerprint
          AND sa.environment_id = env.id AND sa.last_index = ${OPEN}) AS running_as
     FROM environments env WHERE env.id = @environment`,
  );
  const countPlaces = db
    .prepare<[number], number>(
      "SELECT count(*) FROM environments WHERE organization_id = ? AND archived_at IS NULL AND type <> 'logical'",
    )
    .pluck();

  function withPresentNames(shown: Facts): Facts {
    const names = flows.findPresentNames(shown.flows.map(({ flow_id }) => flow_id));
    return withFlowNames(shown, (id) => names.get(id));
  }

  function evaluateStart({ id, running_as }: PlaceRow, { fingerprint, at }: StartQuestion, present: Facts) {
    const inForce = policies.listApplied(id);
    const allowed = allowlists.findInForce(id, fingerprint, () => at) !== null;
    const preview = previewArtifact({
      policies: inForce,
      before: { compliant: null, read: () => NOT_YET },
      // Without a name that it runs under, rules see the name that each flow has for it, as in an assert.
      artifact: { fingerprint, name: running_as ?? "" },
      facts: present,
      isAllowlisted: allowed,
      withPresentNames,
      positionOf(versionId, rule) {
        const range = policies.findLines(versionId)?.[rule]?.rule;
        return range ? { line: range.from, column: null } : null;
      },
    });
    return { inForce, allowed, ...preview };
  }

  function previewStart(
    place: PlaceRow,
    question: StartQuestion,
    { present, bounds }: { present: Facts; bounds: StartBounds },
  ): PreviewedStart {
    const { name, type, running_as } = place;
    const { inForce, allowed, after, causes, reasons } = evaluateStart(place, question, present);
    return {
      environment: name,
      type,
      running: running_as !== null,
      verdict: verdictWord(after),
      allowed,
      policies: inForce.map(({ policyName, version }) => ({ policy: policyName, version })),
      causes: causes.slice(0, bounds.causes),
      further_causes: Math.max(0, causes.length - bounds.causes),
      reasons: reasons.slice(0, bounds.causes),
    };
  }

  return {
    /** Most milliseconds that the evaluation of `preview` takes. */
    estimateMs({ organizationId, fingerprint }: StartQuestion, limit: number): number {
      const flowCount = Math.max(1, facts.countFlows(organizationId, fingerprint));
      return places
        .all({ organization: organizationId, fingerprint, limit })
        .flatMap(({ id }) => policies.listApplied(id))
        .reduce((sum, { document }) => sum + flowCount * estimateEvaluationMs(document), 0);
    },
    /**
     * The verdict in one physical environment, and all that its policies would fail on. `compliant` null: there is no
     * policy.
     */
    previewIn(environmentId: number, question: StartQuestion) {
      const { organizationId, fingerprint } = question;
      const place = placeById.get({ environment: environmentId, fingerprint });
      if (!place) throw new Error(`environment ${environmentId} is gone`);
      const { after, allowed, causes } = evaluateStart(place, question, facts.read(organizationId, fingerprint));
      return { compliant: after, allowed, causes };
    },
    /** The active physical environments by name, as many as the bounds allow, at one moment. */
    preview: (question: StartQuestion, bounds: StartBounds): StartPreview =>
      db.transaction(() => {
        const { organizationId, fingerprint } = question;
        const present = facts.read(organizationId, fingerprint);
        const environments: PreviewedStart[] = [];
        for (const place of places.all({ organization: organizationId, fingerprint, limit: bounds.environments })) {
          if (bounds.isOver()) break;
          environments.push(previewStart(place, question, { present, bounds }));
        }
        return { environments, left: (countPlaces.get(organizationId) ?? 0) - environments.length };
      })(),
  };
}
