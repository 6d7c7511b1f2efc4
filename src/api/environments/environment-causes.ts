/** Why environments of a list are not compliant, in a few words. */
import { isListOf, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import { MAX_CAUSES, NO_CAUSES, mergeCauses } from "../../store/environments/verdict-causes.ts";
import type { CausesValue } from "../../store/environments/verdict-causes.ts";
import type { EnvironmentView } from "../../store/environments/environment-lists.ts";
import type { StoreReader } from "../../store/reader.ts";

/** Environments of one answer that have causes. Each takes up to a third of a millisecond. */
export const MAX_WITH_CAUSES = 100;
/** Artifacts of one environment that are asked why they fail, the latest to change first. */
const MAX_ARTIFACTS = 3;

const isMemberList = isListOf((value): value is [name: string, state: 0 | 1 | null] => Array.isArray(value));

/** The causes of artifacts that fail, each once; of a logical environment, the members that fail. */
export function presentEnvironmentCauses(
  store: StoreReader,
  organizationId: number,
  row: Pick<EnvironmentView, "id" | "members_json">,
): CausesValue {
  if (row.members_json !== null) {
    const failing = (readStoredJsonOrNull(row.members_json, isMemberList) ?? []).filter(([, state]) => state === 0);
    return {
      causes: failing.slice(0, MAX_CAUSES).map(([name]) => ({ subject: name, text: `${name} is non-compliant` })),
      further_causes: Math.max(0, failing.length - MAX_CAUSES),
    };
  }
  const all = store.overview.listFailingIn(row.id, MAX_ARTIFACTS).map((artifact) => {
    try {
      return store.verdictCauses.explainEvaluation(organizationId, store.snapshots.parseEvaluation(artifact));
    } catch {
      return NO_CAUSES;
    }
  });
  return mergeCauses(all);
}
