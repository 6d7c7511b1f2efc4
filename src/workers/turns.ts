/**
 * Whose turn it is among those that wait for something scarce, such as a thread: organizations take turns, and in each
 * of them its callers; of one caller, what is urgent goes first, and then the oldest. So a caller who fills the queue
 * delays no other. Evaluations (newer-clients 6.6) and audit packages wait in this order.
 */
import { createLru } from "../domain/lru.ts";

/** `caller`: one user or service account. */
type Waiting = { readonly organizationId: number; readonly caller: string; readonly isUrgent: boolean };

/** Organizations and callers whose latest turn is remembered: several times as many as can wait. */
const MAX_REMEMBERED = 1_024;

export function createTurns<Entry extends Waiting>() {
  /** Oldest first. */
  const entries: Entry[] = [];
  const latestTurns = createLru<string, number>({ maxEntries: MAX_REMEMBERED });
  let turn = 0;

  /** Compared from the left; the smallest goes first. */
  const rankOf = ({ organizationId, caller, isUrgent }: Entry): readonly number[] => [
    latestTurns.get(`organization ${organizationId}`) ?? 0,
    latestTurns.get(`caller ${caller}`) ?? 0,
    isUrgent ? 0 : 1,
  ];

  function remove(entry: Entry): boolean {
    const place = entries.indexOf(entry);
    if (place >= 0) entries.splice(place, 1);
    return place >= 0;
  }

  return {
    add: (entry: Entry): void => void entries.push(entry),
    /** Takes the next one of a caller that is not busy; null without one. */
    take(isBusy: (caller: string) => boolean): Entry | null {
      let next: { entry: Entry; rank: readonly number[] } | null = null;
      for (const entry of entries) {
        if (isBusy(entry.caller)) continue;
        const rank = rankOf(entry);
        if (next === null || isBefore(rank, next.rank)) next = { entry, rank };
      }
      if (next === null) return null;
      const { entry } = next;
      remove(entry);
      turn += 1;
      latestTurns.set(`organization ${entry.organizationId}`, turn);
      latestTurns.set(`caller ${entry.caller}`, turn);
      return entry;
    },
    /** @returns false for one that does not wait any more */
    remove,
    isEmpty: (): boolean => entries.length === 0,
  };
}

function isBefore(rank: readonly number[], other: readonly number[]): boolean {
  for (const [place, value] of rank.entries()) {
    const difference = value - (other[place] ?? 0);
    if (difference !== 0) return difference < 0;
  }
  return false;
}
