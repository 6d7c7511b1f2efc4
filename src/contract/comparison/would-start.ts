/** What an artifact of one environment would get in another one: the verdict if it started there now. */
import type { Static } from "typebox";
import { shortenCause } from "../../domain/compliance/cause-words.ts";
import type { ShortCause } from "../../domain/compliance/cause-words.ts";
import type { PreviewCause } from "../../domain/compliance/preview.ts";
import { estimateEvaluationMs } from "../../domain/policy/cost.ts";
import { memoize } from "../memoize.ts";
import { UNREADABLE } from "../placeholders.ts";
import type { PresenterContext } from "../presenter-context.ts";
import type { SnapshotPlace } from "../snapshot-rows.ts";
import type { CommitsBetweenValue } from "./commits-between.ts";
import type { DiffWould } from "./snapshot-diff-shapes.ts";

type Sides = { from: SnapshotPlace; to: SnapshotPlace };
type Would = Static<typeof DiffWould>;
type Store = PresenterContext["store"];
/** What is asked about: both sides of an upgrade, or what runs in `from` only. */
type Asked = {
  kind: string;
  before: { fingerprint: string } | null;
  after: { fingerprint: string } | null;
  commits: CommitsBetweenValue | null;
};

/** Most milliseconds of evaluations for one answer, as estimated; what is left over has no verdict. */
const MAX_MS = 2_000;
/** The reading of the facts of an artifact, as measured. */
const FACTS_MS = 0.5;
/** Flows of an artifact that the estimate counts with. */
const FLOWS = 4;
const MAX_CAUSES = 3;

/** In place of the causes of a verdict whose record is damaged. */
const UNREADABLE_CAUSES = [{ subject: "", text: UNREADABLE }];

/** Only the present policies of a physical environment are known, so that its snapshot has to be the latest. */
const canStart = ({ environment, snapshot }: SnapshotPlace): boolean =>
  environment.type !== "logical" && environment.archived_at === null && snapshot.idx === environment.snapshot_count;

/** Most milliseconds that one verdict takes in the more expensive environment; 0 where there is none to give. */
export function estimateWouldMs({ policies }: Pick<Store, "policies">, { from, to }: Sides): number {
  if (from.environment.id === to.environment.id) return 0;
  const [one = 0, other = 0] = [from, to].filter(canStart).map(({ environment }) => {
    try {
      const applied = policies.listApplied(environment.id);
      return FACTS_MS + FLOWS * applied.reduce((sum, { document }) => sum + estimateEvaluationMs(document), 0);
    } catch {
      // A policy is damaged: there is no verdict, which the answer says.
      return FACTS_MS;
    }
  });
  return Math.max(one, other);
}

/**
 * Reads for each change what the newer artifact would get in the environment that does not have it.
 * @param at epoch seconds, at which an allowlist entry with an end has to be in force
 */
export function createWouldReader(context: PresenterContext, sides: Sides, at: number): (asked: Asked) => Would | null {
  const { store, organization } = context;
  const cost = estimateWouldMs(store, sides);
  let left = cost === 0 ? 0 : Math.floor(MAX_MS / cost);
  const read = memoize((key: string): Would | null => {
    const [side, fingerprint] = JSON.parse(key) as ["before" | "after", string];
    const { environment } = side === "before" ? sides.to : sides.from;
    if (left-- <= 0) return null;
    const place = { environment: environment.name, artifact: side };
    try {
      const { causes, ...verdict } = store.startPreviews.previewIn(environment.id, {
        organizationId: organization.id,
        fingerprint,
        at,
      });
      const shown = causes.slice(0, MAX_CAUSES);
      return { ...place, ...verdict, causes: shown.map(inWords), further_causes: causes.length - shown.length };
    } catch {
      // A record that it rests on is damaged; the rest of the answer stays.
      return { ...place, compliant: null, allowed: false, causes: UNREADABLE_CAUSES, further_causes: 0 };
    }
  });
  const inWords = (cause: PreviewCause): ShortCause => {
    const { attestation_id: id } = cause;
    return shortenCause(cause, id === null ? null : store.verdictCauses.findReasons(organization.id, id));
  };
  return (asked) => {
    const side = newerSide(asked);
    const artifact = side && asked[side];
    if (!side || !artifact || artifact.fingerprint === "" || cost === 0) return null;
    return canStart(side === "before" ? sides.to : sides.from)
      ? read(JSON.stringify([side, artifact.fingerprint]))
      : null;
  };
}

/** Of two versions the one that was built later; where that is not known, that of `from`. */
function newerSide({ kind, before, after, commits }: Asked): "before" | "after" | null {
  if (before && kind === "exited") return "before";
  if (kind !== "upgraded" || !before || !after || before.fingerprint === after.fingerprint) return null;
  return commits !== null && !commits.is_behind ? "after" : "before";
}
