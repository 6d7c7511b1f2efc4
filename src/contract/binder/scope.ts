/** What an audit binder is about, and where its records are looked for. */
import type { BinderKey, BinderSubject } from "../../store/environments/history/binder-scope.ts";
import type { PresenterContext } from "../presenter-context.ts";

/** What is asked for; can be copied to a thread. Times in epoch seconds, both inclusive. */
export type BinderScope = {
  subject: BinderSubject;
  from: number;
  /** At most `now`. */
  to: number;
  now: number;
  /** Whether changes of members and keys may be read. */
  seesPeople: boolean;
};

export type BinderContext = Pick<PresenterContext, "store" | "urls" | "organization" | "answerBounds">;

/** A scope with what all parts of its binder need. */
export type Binder = {
  context: BinderContext;
  scope: BinderScope;
  key: BinderKey;
  /** The environments: of a logical one its members, for a control and a flow all that are not logical. */
  places: readonly ReturnType<BinderContext["store"]["binders"]["listPlaces"]>[number][];
};

export function openBinder(context: BinderContext, scope: BinderScope): Binder {
  const { store, organization } = context;
  const { subject, from, to } = scope;
  const all = store.binders.listPlaces(organization.id);
  const ids = subject.kind === "environment" ? idsOf(context, subject.id) : null;
  const places = all.filter(({ id, type }) => (ids === null ? type !== "logical" : ids.has(id)));
  const environmentIds = places.map(({ id }) => id);
  return { context, scope, places, key: { organizationId: organization.id, subject, environmentIds, from, to } };
}

function idsOf({ store }: BinderContext, id: number): ReadonlySet<number> {
  const members = store.environments.listMemberIds(id);
  return new Set(members.length > 0 ? members : [id]);
}

/** The indexes of the snapshots in force in the period, the one at its start included; null without any. */
export function snapshotRange(
  { context: { store }, scope }: Binder,
  environmentId: number,
): { first: number; last: number } | null {
  const { snapshot_count } = store.environments.get(environmentId);
  const place = { id: environmentId, snapshot_count };
  const last = store.snapshots.findIndexAt(place, scope.to, scope.now);
  if (last === 0) return null;
  return { first: Math.max(1, store.snapshots.findIndexAt(place, scope.from, scope.now)), last };
}
