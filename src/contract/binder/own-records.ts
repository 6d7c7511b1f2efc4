/** Of the records that changed in the period of a binder: those that may be about what it is about. */
import { isOfRecord, toRecordChange } from "../changes/gather-records.ts";
import type { RecordChange } from "../changes/gather-records.ts";
import type { GatheredChange } from "../changes/scope.ts";
import { UNREADABLE } from "../placeholders.ts";
import type { Binder } from "./scope.ts";

/**
 * Leaves out records of other environments, flows or controls: of the kind of the binder's subject, because those of
 * other kinds may have turned its verdicts. The audit log has names and no ids, so a record counts under each name that
 * the subject had from the start of the period until now.
 */
export function withoutOthers(binder: Binder, changes: readonly GatheredChange[]): readonly GatheredChange[] {
  const own = namesOf(binder);
  const isOwn = ({ name, before, member }: RecordChange): boolean =>
    name === UNREADABLE || [name, before, member].some((one) => one !== null && own.has(one));
  const { kind } = binder.scope.subject;
  return changes.filter((change) => change.of !== "record" || change.row.kind !== kind || isOwn(change.row));
}

/** The names of the subject, and of the members of a logical environment, since the start of the period. */
function namesOf({ context: { store, organization }, scope: { subject, from, now }, places }: Binder): Set<string> {
  if (subject.kind === "control") return new Set([subject.identifier]);
  const named = subject.kind === "flow" ? store.flows : store.environments;
  const ids = subject.kind === "flow" ? [subject.id] : [subject.id, ...places.map(({ id }) => id)];
  const rows = ids.map((id) => named.get(id));
  const names = new Set(rows.flatMap((row) => [row.name, row.archived_name ?? row.name, ...named.listAliases(row)]));
  // Aliases lack a name that another one has taken since.
  for (const row of store.periodChanges.iterateRenames(organization.id, { from, to: now })) {
    const change = isOfRecord(row) ? toRecordChange(row, row.actor_name) : null;
    if (change?.kind === subject.kind && change.before !== null && names.has(change.after ?? ""))
      names.add(change.before);
  }
  return names;
}
