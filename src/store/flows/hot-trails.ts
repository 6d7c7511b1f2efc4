/**
 * The trails that reports are about right now, each with what its evaluation needs: artifacts, facts and template. The
 * next report about a trail reads none of it again.
 *
 * Invariant: whatever changes a trail evaluates it in the same write (trail-evaluation.ts), and that either reads the
 * trail again or changes the kept one alike. Kept trails are row caches: row-caches.ts says when they may be used.
 */
import { createLru } from "../../domain/lru.ts";
import type { State } from "../../domain/compliance/artifact.ts";
import type { AttestationFact } from "../../domain/compliance/attestation.ts";
import type { Template } from "../../domain/flow-template/template.ts";
import type { RowCaches } from "../db/row-caches.ts";
import type { ArtifactInTrailRow } from "./artifacts.ts";

/** `facts`: the latest record of every name in the order of their reports, by artifact; the trail's own under null. */
export type HotTrail = {
  readonly id: number;
  readonly organizationId: number;
  readonly flowId: number;
  readonly name: string;
  /** As it is stored. */
  state: State;
  readonly templatePublicId: string;
  readonly template: Template;
  /** Oldest first. */
  readonly artifacts: ArtifactInTrailRow[];
  readonly facts: Map<number | null, AttestationFact[]>;
  /** The environments in which artifacts of the trail run and are marked (stale-artifacts.ts); null: not looked up. */
  markedIn: readonly number[] | null;
};

const MAX_TRAILS = 2_000;
/**
 * Of all kept trails together: the texts of their artifacts and, estimated, everything else. A thousand trails of two
 * artifacts with five attestations each.
 */
const MAX_CHARS = 8 << 20;
const CHARS_OF_TRAIL = 500;
const CHARS_OF_FACT = 200;
const CHARS_OF_ENVIRONMENT = 8;

export type HotTrails = ReturnType<typeof createHotTrails>;

export function createHotTrails(caches: RowCaches) {
  const byId = createLru<number, HotTrail>({ maxEntries: MAX_TRAILS, maxWeight: MAX_CHARS });
  const idByName = createLru<string, number>({ maxEntries: MAX_TRAILS });
  caches.register(byId);
  caches.register(idByName);
  const keyOf = (flowId: number, name: string): string => `${flowId} ${name}`;

  return {
    get: (id: number): HotTrail | null => (caches.areUsable && byId.get(id)) || null,
    find(flowId: number, name: string): HotTrail | null {
      const id = caches.areUsable ? idByName.get(keyOf(flowId, name)) : undefined;
      return (id !== undefined && byId.get(id)) || null;
    },
    keep(trail: HotTrail): void {
      if (!caches.areUsable) return;
      byId.set(trail.id, trail, charactersOf(trail));
      idByName.set(keyOf(trail.flowId, trail.name), trail.id);
    },
  };
}

function charactersOf({ artifacts, facts, markedIn }: HotTrail): number {
  let sum = CHARS_OF_TRAIL + CHARS_OF_ENVIRONMENT * (markedIn?.length ?? 0);
  for (const { attestations_json, reasons_json } of artifacts)
    sum += CHARS_OF_TRAIL + attestations_json.length + reasons_json.length;
  for (const list of facts.values()) sum += list.length * CHARS_OF_FACT;
  return sum;
}
